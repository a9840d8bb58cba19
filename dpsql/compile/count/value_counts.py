"""Counts how often each text occurs in several columns, and leaves out the texts that only few rows have.

    WITH packed AS (SELECT class, ticket, the text of each column … FROM the private table),
         placed AS (SELECT ask, the text of the column that `ask` numbers FROM packed, asked),
         counted AS (SELECT ask, value, COUNT(*) AS rows FROM placed GROUP BY ask, value)
    SELECT ask, value, rows FROM counted WHERE rows > the largest contribution of one unit

A text that Python cannot read (bytes that are no UTF-8, a very long one) counts as NULL, which is never shown: else a
run would fail as soon as one row more than that largest contribution has it, and no noise would hide that.

The private table is scanned once. This is the only statement whose groups are not those of a public grid: which texts
it returns depends on the rows. `Session.common_values` shows none of them before noise and a threshold have decided.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.compile.count.leaves import Statement
from dpsql.compile.count.magnitudes import ASKS, ask_table, cell_name, pick_by_ask
from dpsql.compile.rows import EVERY_UNIT, PACKED, Part, Source, Tickets, counted_rows
from dpsql.compile.vocabulary import Vocabulary, int_literal, name_as

#: The most bytes of a text that is counted: a longer one is no category.
LONGEST = 1000
#: The CTE that has each row once for each column.
PLACED = "placed"
#: The CTE of all groups.
COUNTED = "counted"


def value_counts(
    source: Source,
    names: Sequence[str],
    vocabulary: Vocabulary,
    tickets: Tickets,
    part: Part = EVERY_UNIT,
    *,
    more_than: int,
) -> Statement:
    """Return the statement that counts (ask, value) and keeps the groups of more than so many rows."""
    texts = [name_as(_readable(source, name, vocabulary), cell_name(ask)) for ask, name in enumerate(names)]
    rows = counted_rows(source, vocabulary, tickets, part, cells=texts)
    value = pick_by_ask([exp.column(cell_name(ask), PACKED) for ask in range(len(names))])
    placed = exp.select(exp.column("ask", ASKS), exp.alias_(value, "value")).from_(PACKED).join(ASKS, join_type="cross")
    keys = [exp.column("ask"), exp.column("value")]
    count = exp.alias_(exp.Count(this=exp.Star()), "rows")
    counted = exp.select(*keys, count).from_(PLACED).group_by(*(key.copy() for key in keys))
    common = exp.GT(this=exp.column("rows"), expression=int_literal(more_than))
    query = exp.Select().with_(PACKED, rows, copy=False).with_(PLACED, placed, copy=False)
    query = query.with_(COUNTED, counted, copy=False).select("ask", "value", "rows").from_(COUNTED).where(common)
    return Statement(query, {ASKS: ask_table(len(names))})


def _readable(source: Source, name: str, vocabulary: Vocabulary) -> exp.Expr:
    """Return a column's text, or NULL where Python could not read it: a failure would show that it is there."""
    return vocabulary.readable_text(exp.cast(source.column(name), exp.DataType.Type.TEXT), LONGEST)
