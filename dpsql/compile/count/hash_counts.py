"""Counts the rows of several columns of texts by the cells of a wide public hash, in one statement.

    WITH packed AS (SELECT class, ticket, the cell of each column … FROM the private table),
         placed AS (SELECT ask, the cell of the column that `ask` numbers FROM packed, asked)
    SELECT ask, cell, COUNT(*) AS rows FROM placed GROUP BY ask, cell

The private table is scanned once. A row is in one of the cells of each column (`dpsql/schema/hashed.py`), NULL in the
last one.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.compile.count.leaves import Statement
from dpsql.compile.count.magnitudes import cell_name, count_asks
from dpsql.compile.hashed_cells import wide_hash_cell
from dpsql.compile.rows import EVERY_UNIT, PACKED, Part, Source, Tickets, counted_rows
from dpsql.compile.vocabulary import Vocabulary, name_as
from dpsql.schema import WIDE_HASH_CELLS


def hash_counts(
    source: Source, names: Sequence[str], vocabulary: Vocabulary, tickets: Tickets, part: Part = EVERY_UNIT
) -> Statement:
    """Return the statement that counts (ask, cell): the number of the column, and its cell of the wide hash."""
    cells = [
        name_as(wide_hash_cell(source.column(name), WIDE_HASH_CELLS, vocabulary), cell_name(ask))
        for ask, name in enumerate(names)
    ]
    query = exp.Select().with_(PACKED, counted_rows(source, vocabulary, tickets, part, cells=cells), copy=False)
    return count_asks(query, len(names))
