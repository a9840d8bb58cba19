"""Whose rows a table shows: decided by the database's own identity of tables, never by what they are called.

A dataset keeps the identities of all tables that ever had its budget. A table that shares one of them, or is part of
one, or a view that reads one, shows rows that have this budget and no other; what a table or view reads is either known
in full, or counts as everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dpsql.compile.views.tables_read import tables_read
from dpsql.engines.base import Engine, TableInfo
from dpsql.engines.files.table_files import FILE
from dpsql.engines.identity_texts import is_mark, share_rows
from dpsql.kernel.datasets.view_datasets import look_up

#: Views on views on views: more than this is not followed.
_DEEPEST = 20
#: What such identities tell holds for one machine or one run of Spark: another one there is no change of the table.
_PASSING = (FILE, "memory ")


@dataclass(frozen=True)
class Base:
    """The stored table behind a dataset: where it is, how the database tells it, and all that ever had the budget."""

    schema: str
    table: str
    identity: str = ""
    rows: frozenset[str] = frozenset()

    @staticmethod
    def of(info: TableInfo, earlier: Base | None = None) -> Base:
        """Return a base table, with all that had the budget before it: rows never lose the budget that they had."""
        return Base(info.schema, info.table, info.identity, info.rows | (earlier.rows if earlier else frozenset()))

    @staticmethod
    def read(stored: Mapping[str, Any]) -> Base:
        """Return what a ledger entry stores."""
        return Base(stored["schema"], stored["table"], stored["identity"], frozenset(stored["rows"]))

    def stored_values(self) -> dict[str, Any]:
        """Return what a ledger entry stores."""
        return {"schema": self.schema, "table": self.table, "identity": self.identity, "rows": sorted(self.rows)}

    def is_place(self, info: TableInfo) -> bool:
        """Whether a table is where this one was registered, whatever it is."""
        return (self.schema, self.table) == (info.schema, info.table)

    def is_same(self, info: TableInfo) -> bool:
        """Whether a table there is the one that was registered."""
        return self.identity == info.identity

    def has_grown(self, info: TableInfo) -> bool:
        """Whether a table has parts that it did not have: their rows may have had, or may get, another budget."""
        return not {one for one in info.rows if not one.startswith(_PASSING)} <= self.rows

    def shares(self, info: TableInfo) -> bool:
        """Whether rows of a table have this budget: by identity, by a parent's, or by the place that they are in."""
        return self.is_place(info) or share_rows(self.rows, info.rows | info.within)


def tables_shown(engine: Engine, info: TableInfo) -> list[TableInfo] | None:
    """Return the stored tables whose rows a table or view shows; None where that cannot be told. Reads no row."""
    return _tables_shown(engine, info, depth=0)


def _tables_shown(engine: Engine, info: TableInfo, *, depth: int) -> list[TableInfo] | None:
    if info.kind == "table":
        return [info]
    reads = tables_read(info.definition, engine.dialect, macros=engine.user_functions())
    if reads is None or depth > _DEEPEST:
        return None
    tables: list[TableInfo] = []
    for schema, name in reads.tables:
        inner = look_up(engine, schema, name, info.schema)
        if inner is None and schema is None and name.lower() in reads.parts:
            continue
        shown = _tables_shown(engine, inner, depth=depth + 1) if inner else None
        if shown is None:
            return None
        tables += shown
    return tables


def why_private(engine: Engine, info: TableInfo, private: Iterable[tuple[str, Base]]) -> str | None:
    """Return why a table or view cannot be read for free, in words that follow its name; None where it can.

    `private` are the registered tables, each by its name and its base. Where nothing is registered here, a view may
    still read a private table of another database that is attached, so what cannot be told is refused all the same.
    """
    if info.unsafe:
        return info.unsafe
    tables = tables_shown(engine, info)
    if tables is None:
        return "may hold rows of a registered private table (what it reads cannot be told)"
    for name, base in private:
        if any(base.shares(table) for table in tables):
            return f'holds rows of the registered private table "{name}"'
    return "holds rows that were registered in another ledger" if any(map(has_other_ledger, tables)) else None


def has_other_ledger(info: TableInfo) -> bool:
    """Whether a table that no dataset here shares rows with was registered all the same: dpsql's mark is on it."""
    return is_mark(info.identity)
