"""Lookups: the owner's acts of reading the distinct values of columns, outside the guarantee of any run.

The ledger has an entry for each, with the identity of the table that was read. So every later model of the same rows
says which columns were looked up, whatever its schema file says and whatever the table or a view of it is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dpsql.engines.identity_texts import share_rows
from dpsql.kernel.datasets.identity import Base
from dpsql.ledger import Entry, Ledger

#: The event of such an entry.
LOOKUP = "lookup"


def lookup_details(base: Base, columns: Mapping[str, int | None], refused: str | None) -> dict[str, object]:
    """Return what the entry of a lookup stores: the stored table, and each column with its number of values.

    `refused` is the column whose values were refused after they were read; then no column has a number.
    """
    details: dict[str, object] = {"base": base.stored_values(), "columns": dict(columns)}
    return details if refused is None else details | {"refused": refused}


def columns_looked_up(ledger: Ledger, base: Base) -> tuple[str, ...]:
    """Return the columns of a stored table that were ever looked up, in the order of their names."""
    return columns_in(ledger.entries(event=LOOKUP), base)


def columns_in(entries: Iterable[Entry], base: Base) -> tuple[str, ...]:
    """Return the columns that some lookups of the same rows read. Other entries are passed over."""
    read = [entry for entry in entries if entry.event == LOOKUP and is_lookup_of(entry, base)]
    return tuple(sorted({str(column) for entry in read for column in entry.details["columns"]}))


def is_lookup_of(entry: Entry, base: Base) -> bool:
    """Whether a lookup read a table in the place of one of these, or one that shares rows, by their own identity."""
    looked_at = Base.read(entry.details["base"])
    same_place = (looked_at.schema, looked_at.table) in ((schema, table) for schema, table, _ in base.tables)
    return same_place or share_rows(looked_at.rows, base.rows)


def identities_given(entries: Iterable[Entry]) -> frozenset[str]:
    """Return the identities of all tables that lookups of this ledger read; where there was none, they gave one."""
    bases = [Base.read(entry.details["base"]) for entry in entries if entry.event == LOOKUP]
    return frozenset(identity for base in bases for identity in base.rows)
