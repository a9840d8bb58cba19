"""Turns a forest into one statement that counts how many rows of each class reach each leaf of each tree.

    WITH packed AS (SELECT class, ticket, words … FROM the private table),
         start AS (each row at the root of its tree),
         depth_1 AS (one join), depth_2 AS (one join), …
    SELECT node AS leaf, class, COUNT(*) … GROUP BY node, class

The private table is scanned once. If trees are disjoint, a row walks one tree, picked by its ticket; if they are
shared, a row walks every tree. Only non-empty groups come back; the kernel fills the public grid before it adds noise.
Where the label is a numeric target, its steps are added up instead:
`SELECT node AS leaf, COUNT(*), SUM(class) … GROUP BY node`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlglot import exp

from dpsql.compile.count import nested_case
from dpsql.compile.count.levels import Tables, node_tables, walk
from dpsql.compile.count.tree_slice import Slice as Slice
from dpsql.compile.rows import EVERY_UNIT, PACKED, Part, Source, Tickets, counted_rows, pack_rows, word_name
from dpsql.compile.stored_parts import PART, tree_of_part
from dpsql.compile.vocabulary import Vocabulary, as_int, int_literal, name_as, paren
from dpsql.trees.forest import Forest
from dpsql.trees.grid import words

#: The CTE that has each row at the root of its tree.
START = "start"
#: The table of the roots of all trees, for rows that walk every tree.
ROOTS = "roots"


@dataclass(frozen=True, eq=False)
class Statement:
    """A query and the small tables it joins."""

    query: exp.Select
    tables: Tables


def leaf_counts(
    source: Source,
    forest: Forest,
    vocabulary: Vocabulary,
    tickets: Tickets,
    trees: Slice,
    part: Part = EVERY_UNIT,
) -> Statement:
    """Return the statement that counts (leaf, class); `forest` holds the trees of the slice only."""
    return count_by_leaf(*rows_at_nodes(source, forest, vocabulary, tickets, trees, part))


def count_by_leaf(query: exp.Select, rows: str, tables: Tables) -> Statement:
    """Return the statement that counts (leaf, class) of rows that a query has brought to their leaves."""
    leaf, label, count = exp.column("node").as_("leaf"), exp.column("class"), exp.Count(this=exp.Star()).as_("rows")
    query = query.select(leaf, label, count, copy=False).from_(exp.to_table(rows), copy=False)
    return Statement(query.group_by(exp.column("node"), exp.column("class"), copy=False), tables)


def leaf_sums(
    source: Source, forest: Forest, vocabulary: Vocabulary, tickets: Tickets, trees: Slice, part: Part = EVERY_UNIT
) -> Statement:
    """Return the statement that counts the rows of each leaf and adds up the steps of their targets."""
    return sum_by_leaf(*rows_at_nodes(source, forest, vocabulary, tickets, trees, part), steps=source.schema.steps)


def sum_by_leaf(query: exp.Select, rows: str, tables: Tables, *, steps: int) -> Statement:
    """Return the statement that counts rows and adds up steps of rows that a query has brought to their leaves.

    Each number of steps is clamped once more where it is added up, so that `check.py` can see its bounds.
    """
    floored = exp.Greatest(this=exp.column("class"), expressions=[int_literal(0)], ignore_nulls=True)
    total = exp.Sum(this=exp.Least(this=floored, expressions=[int_literal(steps)], ignore_nulls=True))
    leaf, count = exp.column("node").as_("leaf"), exp.Count(this=exp.Star()).as_("rows")
    total_steps = exp.alias_(exp.cast(total, exp.DataType.Type.BIGINT), "steps")
    return Statement(query.select(leaf, count, total_steps).from_(rows).group_by("node"), tables)


def row_count(source: Source, vocabulary: Vocabulary, tickets: Tickets, part: Part = EVERY_UNIT) -> Statement:
    """Return the statement that counts the rows that training would use."""
    query = exp.select(exp.Count(this=exp.Star()).as_("rows")).from_(PACKED)
    return Statement(query.with_(PACKED, counted_rows(source, vocabulary, tickets, part), copy=False), {})


def rows_at_nodes(
    source: Source,
    forest: Forest,
    vocabulary: Vocabulary,
    tickets: Tickets,
    trees: Slice,
    part: Part,
    *,
    words_too: bool = False,
) -> tuple[exp.Select, str, Tables]:
    """Return an unfinished query whose CTEs bring every row to its leaf, the last CTE's name, and its small tables."""
    if (
        not source.cached_rows
        and not words_too
        and nested_case.is_nested(forest, vocabulary)
        and nested_case.two_ways(forest)
    ):
        return _rows_at_nodes_by_case(source, forest, vocabulary, tickets, trees, part)
    # A database that takes rows one at a time would otherwise pack the words again wherever a test names them.
    materialized = True if vocabulary.row_by_row and forest.depth else None
    query = exp.Select().with_(
        PACKED, pack_rows(source, vocabulary, tickets, part), materialized=materialized, copy=False
    )
    tables = node_tables(forest, vocabulary)
    start = _at_roots(forest, trees)
    if trees.shared:
        tables[ROOTS] = root_table(forest.trees)
    query = query.with_(START, start, copy=False)
    query, last = walk(query, forest, vocabulary, start=START, carried=("class",))
    return query, last, tables


def _at_roots(forest: Forest, trees: Slice) -> exp.Select:
    if not trees.shared:
        return _at_own_root(forest.trees, trees)
    start = exp.select(exp.column("node", ROOTS), exp.column(exp.Star(), PACKED))
    return start.from_(PACKED).join(ROOTS, join_type="cross")


def _rows_at_nodes_by_case(
    source: Source, forest: Forest, vocabulary: Vocabulary, tickets: Tickets, trees: Slice, part: Part
) -> tuple[exp.Select, str, Tables]:
    """Return what `rows_at_nodes` returns, by a nested CASE over the table's own columns instead of joins."""
    rows = counted_rows(source, vocabulary, tickets, part, cells=nested_case.as_columns(source, vocabulary))
    query = exp.Select().with_(PACKED, rows, copy=False).with_(START, _at_roots(forest, trees), copy=False)
    reached = nested_case.leaf_reached(forest, exp.column("node"), nested_case.on_columns(forest, source, vocabulary))
    placed = exp.Select().select(name_as(reached, "node"), exp.column("class"), copy=False)
    query = query.with_("placed", placed.from_(exp.to_table(START), copy=False), copy=False)
    return query, "placed", {ROOTS: root_table(forest.trees)} if trees.shared else {}


def rows_at_nodes_statement(
    source: Source, forest: Forest, vocabulary: Vocabulary, tickets: Tickets, trees: Slice, part: Part
) -> Statement:
    """Return the statement of the rows at their nodes, to be cached: node, class and packed words, nothing else."""
    query, last, tables = rows_at_nodes(source, forest, vocabulary, tickets, trees, part, words_too=True)
    return Statement(select_node_rows(query, last, forest), tables)


def walk_on(cached: str, forest: Forest, done: int, vocabulary: Vocabulary) -> tuple[exp.Select, str, Tables]:
    """Return an unfinished query that takes rows which are cached at depth `done` from there to their leaves."""
    rest = Forest(forest.axes, forest.trees, forest.levels[done:])
    start = select_node_rows(exp.Select(), cached, forest)
    query, last = walk(exp.Select().with_(START, start, copy=False), rest, vocabulary, start=START, carried=("class",))
    return query, last, node_tables(rest, vocabulary)


def select_node_rows(query: exp.Select, rows: str, forest: Forest) -> exp.Select:
    """Return the query that takes node, class and packed words, and nothing else, from a table or CTE."""
    names = ["node", "class", *(word_name(number) for number in range(words(len(forest.axes))))]
    return query.select(*(exp.column(name) for name in names), copy=False).from_(exp.to_table(rows), copy=False)


def root_table(trees: int) -> dict[str, np.ndarray[Any, Any]]:
    """Return the roots of all trees, for statements that send every row through every tree."""
    return {"node": np.arange(trees, dtype=np.int32)}


def _at_own_root(count: int, trees: Slice) -> exp.Select:
    if trees.total == 1:
        return exp.select(exp.alias_(as_int(int_literal(0)), "node"), exp.column(exp.Star(), PACKED)).from_(PACKED)
    tree: exp.Expr = exp.Mod(this=exp.column("ticket"), expression=int_literal(trees.total))
    if trees.parts is not None:
        tree = tree_of_part(exp.column(PART), trees.parts, trees.total)
    node = as_int(tree)
    if trees.first:
        node = exp.Sub(this=node, expression=int_literal(trees.first))
    start = exp.select(exp.alias_(node, "node"), exp.column(exp.Star(), PACKED)).from_(PACKED)
    if count < trees.total:
        low, high = int_literal(trees.first), int_literal(trees.first + count - 1)
        start = start.where(exp.Between(this=paren(tree.copy()), low=low, high=high))
    return start
