"""Reads and renders the cases: a schema and a tree as text in, the SQL and its node tables as text out.

A case has three parts, each under a line of its own: `=== what`, `=== tree`, and one `=== DIALECT` for each. `what`
is the schema in YAML, with `say:` (what the case shows) and `show:` (leaf_counts, shared, right_rows, or the number of
a leaf); for right_rows also the `votes:` of each leaf and the `factors:` of each mixture. A node of the tree is its
feature's name with a way for each child: `< 32` and `>= 32` for a number, or values separated by commas for a category,
where `other` is everything that is not declared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import yaml

from dpsql.compile.count.leaf_predicate import leaf_query
from dpsql.compile.count.leaves import EVERY_UNIT, Slice, Statement, leaf_counts, leaf_sums
from dpsql.compile.count.levels import Tables
from dpsql.compile.count.mixture_counts import right_rows
from dpsql.compile.vocabulary import Vocabulary
from dpsql.engines.duckdb.engine import DuckDBVocabulary
from dpsql.schema import CELLS, Feature, Numeric, Schema
from dpsql.trees.estimate.mixtures import Mixtures
from dpsql.trees.forest import PASS, Forest, Ints, Level, bits
from dpsql.trees.grid import axes
from dpsql.trees.voting import VotingForest
from tests.compile.running import KEYS
from tests.rows import source_of

VOCABULARIES: dict[str, Vocabulary] = {"duckdb": DuckDBVocabulary()}


def parts(text: str) -> dict[str, str]:
    """Return the parts of a case by their titles."""
    pieces = ("\n" + text).split("\n=== ")[1:]
    return {title.strip(): body.strip("\n") for title, body in (piece.split("\n", 1) for piece in pieces)}


def rendered(text: str, dialect: str) -> str:
    """Return the SQL of a case in a dialect, followed by the node tables it joins."""
    given = parts(text)
    what = yaml.safe_load(given["what"])
    show = what.pop("show")
    what.pop("say")
    votes, factors = what.pop("votes", None), what.pop("factors", None)
    schema = Schema.from_dict(what)
    forest = drawn(schema, yaml.safe_load(given["tree"]))
    words = VOCABULARIES[dialect]
    if isinstance(show, int):
        query = leaf_query(source_of(schema), forest, show, words)
        return query.sql(dialect, pretty=True)
    if show == "right_rows":
        return _shown(_right_rows(schema, forest, np.array(votes), np.array(factors), words), dialect)
    trees = Slice(show == "shared", 0, 1)
    build = leaf_counts if schema.target is None else leaf_sums
    statement: Statement = build(source_of(schema), forest, words, KEYS, trees)
    return _shown(statement, dialect)


def _shown(statement: Statement, dialect: str) -> str:
    return statement.query.sql(dialect, pretty=True) + "\n\n" + _tables(statement.tables)


def _right_rows(schema: Schema, forest: Forest, votes: Ints, factors: Ints, words: Vocabulary) -> Statement:
    released, part = VotingForest(forest, votes), np.zeros(forest.trees, np.int64)
    mixtures = Mixtures(released, part, factors, np.ones(len(factors), np.int64))
    return right_rows(source_of(schema), mixtures, words, KEYS, EVERY_UNIT)


def drawn(schema: Schema, tree: Any) -> Forest:
    """Return a tree written as nested mappings as a forest of one tree."""
    levels: list[Level] = []
    nodes = [tree]
    while any(isinstance(node, dict) for node in nodes):
        made = [_node(schema, node) for node in nodes]
        slots = np.stack([slot for _, slot, _ in made])
        level = Level(
            np.array([axis for axis, _, _ in made], np.int16),
            np.array([len(children) for _, _, children in made], np.uint8),
            np.stack([bits((slots >> plane & 1).astype(bool)) for plane in range(2)]),
        )
        levels.append(Level(level.axis, level.arity, level.planes[: 2 if slots.max() > 1 else 1]))
        nodes = [child for _, _, children in made for child in children]
    return Forest(axes(schema), 1, tuple(levels))


def _node(schema: Schema, node: Any) -> tuple[int, np.ndarray[Any, Any], list[Any]]:
    if not isinstance(node, dict):
        return PASS, np.zeros(CELLS, np.int64), [node]
    [(name, ways)] = node.items()
    feature = schema.feature(name)
    assert feature is not None, name
    axis = next(place for place, one in enumerate(axes(schema)) if schema.features[one.feature].name == name)
    slots = np.zeros(CELLS, np.int64)
    for number, way in enumerate(ways):
        slots[_cells(feature, str(way))] = number
    return axis, slots, list(ways.values())


def _cells(feature: Feature, way: str) -> list[int]:
    if isinstance(feature, Numeric):
        sign, bound = way.split()
        edge = feature.cell(float(bound))
        return list(range(edge)) if sign == "<" else list(range(edge, CELLS))
    found = []
    for value in way.split(", "):
        found += range(len(feature.values), CELLS) if value == "other" else [feature.values.index(value)]
    return found


def _tables(tables: Tables) -> str:
    lines = []
    for name, columns in tables.items():
        lines.append(f"{name}: {', '.join(columns)}")
        for row in zip(*(values.tolist() for values in columns.values()), strict=True):
            shown = [
                f"0x{value:016x}" if column.startswith("plane") else str(value)
                for column, value in zip(columns, row, strict=True)
            ]
            lines.append("    " + ", ".join(shown))
    return "\n".join(lines)
