"""Moves rows down one level of every tree at once, by a join with a small table of that level's nodes.

A node says which packed word to read, where its axis starts in it, and in bit planes which child each cell goes to. A
row at a node moves on by one join; the statement grows by a few lines per level, whatever the number of trees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sqlglot import exp

from dpsql.compile.count import nested_case
from dpsql.compile.rows import word_name
from dpsql.compile.vocabulary import Vocabulary, int_literal, name_as, paren
from dpsql.schema import CELLS
from dpsql.trees.forest import PASS, Forest
from dpsql.trees.grid import shift, word, words

Tables = dict[str, Mapping[str, np.ndarray[Any, Any]]]
#: The table that holds the nodes of the first levels, in one numbering for all of them.
SHARED_LEVELS = "level_top"
#: The most nodes of that table.
_MOST_SHARED_NODES = 4096


def node_tables(forest: Forest, vocabulary: Vocabulary) -> Tables:
    """Return the small tables that the statement joins: `level_0`, `level_1`, …; none where it is a nested CASE.

    Unless the vocabulary wants levels apart, the first levels share one table, `level_top`.
    """
    if nested_case.is_nested(forest, vocabulary):
        return {}
    top = _shared_levels(forest, vocabulary)
    tables = {level_name(depth): _node_table(forest, depth) for depth in range(top, forest.depth)}
    if not top:
        return tables
    return {SHARED_LEVELS: _stack_tables([_node_table(forest, depth) for depth in range(top)])} | tables


def level_name(depth: int) -> str:
    """Return the name of a level's node table."""
    return f"level_{depth}"


def walk(
    query: exp.Select,
    forest: Forest,
    vocabulary: Vocabulary,
    *,
    start: str,
    carried: Sequence[str],
    nodes: Mapping[int, exp.Expr] | None = None,
    suffix: str = "",
) -> tuple[exp.Select, str]:
    """Return the query with a CTE for each level, `depth_1`, `depth_2`, …, and the name of the last.

    Where a forest is walked by a nested CASE, there is only one CTE. `start` is a CTE with a column `node` and the
    words; `carried` are other columns that are taken along. `nodes` replaces the node tables of some levels (by a
    model's stored tables, or by literal values), and `suffix` tells the CTEs of two walks apart.
    """
    columns = [*carried, *(word_name(number) for number in range(words(len(forest.axes))))]
    if forest.depth and nested_case.is_nested(forest, vocabulary):
        last = f"depth_{forest.depth}{suffix}"
        reached = name_as(
            nested_case.leaf_reached(forest, exp.column("node"), nested_case.on_words(vocabulary)), "node"
        )
        step = (
            exp.Select().select(reached, *map(exp.column, columns), copy=False).from_(exp.to_table(start), copy=False)
        )
        return query.with_(last, step, copy=False), last
    last, above, top = start, 0, _shared_levels(forest, vocabulary)
    for depth in range(forest.depth):
        here: exp.Expr = exp.column("node", "row")
        table = (nodes or {}).get(depth)
        if table is None and depth < top:
            table, here = exp.to_table(SHARED_LEVELS), exp.Add(this=here, expression=int_literal(above))
        elif table is None:
            table = exp.to_table(level_name(depth))
        above += len(forest.levels[depth].axis)
        planes = len(forest.levels[depth].planes)
        node = exp.alias_(_next_node(planes, words(len(forest.axes)), vocabulary), "node", copy=False)
        step = (
            exp.Select()
            .select(node, *(exp.column(name, table="row") for name in columns), copy=False)
            .from_(exp.alias_(exp.to_table(last), "row", table=True, copy=False), copy=False)
            .join(
                exp.alias_(table, "split", table=True),
                on=exp.EQ(this=exp.column("node", "split"), expression=here),
                copy=False,
            )
        )
        last = f"depth_{depth + 1}{suffix}"
        query = query.with_(last, step, copy=False)
    return query, last


def _next_node(planes: int, word_count: int, vocabulary: Vocabulary) -> exp.Expr:
    cell = paren(
        exp.BitwiseAnd(
            this=paren(exp.BitwiseRightShift(this=_word_of_split(word_count), expression=exp.column("shift", "split"))),
            expression=int_literal(CELLS - 1),
        )
    )
    node: exp.Expr = exp.column("child", "split")
    for plane in range(planes):
        bit = vocabulary.bit(exp.column(f"plane_{plane}", "split"), cell.copy())
        node = exp.Add(this=node, expression=exp.Mul(this=bit, expression=int_literal(2**plane)) if plane else bit)
    return node


def _word_of_split(word_count: int) -> exp.Expr:
    if word_count == 1:
        return exp.column(word_name(0), "row")
    case = exp.Case(this=exp.column("word", "split"))
    for number in range(word_count - 1):
        case = case.when(int_literal(number), exp.column(word_name(number), "row"))
    return case.else_(exp.column(word_name(word_count - 1), "row"))


def _node_table(forest: Forest, depth: int) -> Mapping[str, np.ndarray[Any, Any]]:
    level = forest.levels[depth]
    axis = np.where(level.axis == PASS, 0, level.axis)
    table: dict[str, np.ndarray[Any, Any]] = {
        "node": np.arange(len(axis), dtype=np.int32),
        "word": word(axis).astype(np.int16),
        "shift": shift(axis).astype(np.uint8),
        "child": level.child.astype(np.int32),
    }
    return table | {f"plane_{number}": plane for number, plane in enumerate(level.planes)}


def _shared_levels(forest: Forest, vocabulary: Vocabulary) -> int:
    """Return how many of the first levels share one table.

    The number does not depend on the levels below, so that a forest and its first levels alone give the same tables.
    """
    nodes, top = 0, 0
    for level in () if vocabulary.levels_apart else forest.levels:
        nodes += len(level.axis)
        if nodes > _MOST_SHARED_NODES or len(level.planes) != len(forest.levels[0].planes):
            break
        top += 1
    return top


def _stack_tables(tables: Sequence[Mapping[str, np.ndarray[Any, Any]]]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the rows of all tables as one table, nodes numbered from 0 throughout."""
    stacked = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    return stacked | {"node": np.arange(len(stacked["node"]), dtype=np.int32)}
