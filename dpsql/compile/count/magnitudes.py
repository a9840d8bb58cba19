"""Counts the rows of several columns of numbers by sign and power of two, in one statement.

    WITH packed AS (SELECT class, ticket, the cell of each column … FROM the private table),
         placed AS (SELECT ask, the cell of the column that `ask` numbers FROM packed, asked)
    SELECT ask, cell, COUNT(*) AS rows FROM placed GROUP BY ask, cell

The private table is scanned once. A row is in one cell of each column, on the fixed grid of `trees/magnitude_grid.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sqlglot import exp

from dpsql.compile.count.leaves import Statement
from dpsql.compile.rows import EVERY_UNIT, PACKED, Part, Source, Tickets, counted_rows
from dpsql.compile.vocabulary import Vocabulary, as_int, case, double, int_literal, name_as
from dpsql.trees.magnitude_grid import EDGES, MISSING

#: The small table that numbers the columns.
ASKS = "asked"
#: The CTE that has each row once for each column.
_PLACED = "placed"


def magnitude_counts(
    source: Source, names: Sequence[str], vocabulary: Vocabulary, tickets: Tickets, part: Part = EVERY_UNIT
) -> Statement:
    """Return the statement that counts (ask, cell): the number of the column, and its cell on the grid."""
    cells = [name_as(_magnitude_cell(source, name, vocabulary), cell_name(ask)) for ask, name in enumerate(names)]
    query = exp.Select().with_(PACKED, counted_rows(source, vocabulary, tickets, part, cells=cells), copy=False)
    return count_asks(query, len(names))


def count_asks(query: exp.Select, columns: int) -> Statement:
    """Return the statement that counts (ask, cell) of packed rows with one cell for each column."""
    cell = as_int(pick_by_ask([exp.column(cell_name(ask), PACKED) for ask in range(columns)]))
    placed = exp.select(exp.column("ask", ASKS), exp.alias_(cell, "cell")).from_(PACKED)
    query = query.with_(_PLACED, placed.join(ASKS, join_type="cross"), copy=False)
    keys = [exp.column("ask"), exp.column("cell")]
    query = query.select(*keys, exp.alias_(exp.Count(this=exp.Star()), "rows", copy=False), copy=False)
    query = query.from_(exp.to_table(_PLACED), copy=False).group_by(*(key.copy() for key in keys), copy=False)
    return Statement(query, {ASKS: ask_table(columns)})


def pick_by_ask(values: Sequence[exp.Expr]) -> exp.Expr:
    """Return the value that `ask` numbers.

    >>> pick_by_ask([exp.column("a"), exp.column("b")]).sql()
    'CASE asked.ask WHEN 0 THEN a ELSE b END'
    """
    if len(values) == 1:
        return values[0]
    branches = [exp.If(this=int_literal(ask), true=value) for ask, value in enumerate(values[:-1])]
    return exp.Case(this=exp.column("ask", ASKS), ifs=branches, default=values[-1])


def cell_name(ask: int) -> str:
    """Return the name of the packed column that an ask reads."""
    return f"cell_{ask}"


def ask_table(columns: int) -> dict[str, np.ndarray[Any, Any]]:
    """Return the numbers of the columns, as a small table."""
    return {"ask": np.arange(columns, dtype=np.int32)}


def _magnitude_cell(source: Source, name: str, vocabulary: Vocabulary) -> exp.Expr:
    """Return the cell of a number; the expression is total: NULL, NaN and infinities have a cell too."""
    value, number = source.column(name), source.number(name, vocabulary)
    missing: exp.Expr = value.is_(exp.null())
    if name not in source.integers:
        missing = exp.or_(missing, number.copy().is_(exp.null()), vocabulary.is_nan(number.copy()))
    by_row = vocabulary.row_by_row
    cell = by_row.bucket(number, EDGES) if by_row else _search(number, 0, len(EDGES))
    return case([(missing, int_literal(MISSING))], cell)


def _search(number: exp.Expr, first: int, last: int) -> exp.Expr:
    """Return how many edges are at or below a number, of which at least `first` and at most `last` are."""
    if first == last:
        return int_literal(first)
    middle = (first + last) // 2
    below = exp.LT(this=number.copy(), expression=double(EDGES[middle]))
    return case([(below, _search(number, first, middle))], _search(number, middle + 1, last))
