"""Which rows a table shows: decided by the database's own identity of tables, and never by their names.

A dataset stores the identities of all tables that ever had its budget. The rows of a table have this budget, and no
other, if the table has one of these identities or is part of a table that has one; so have the rows of a view that
reads such a table. Either everything that a table or view reads is known, or it counts as if it read every table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dpsql.compile.views.tables_read import tables_read
from dpsql.engines.base import Engine, TableInfo
from dpsql.engines.files.table_files import FILE
from dpsql.engines.identity_texts import is_mark, share_rows
from dpsql.kernel.datasets.view_datasets import look_up

#: How many views on views are followed. What a deeper one reads counts as unknown.
_DEEPEST = 20
#: How identities begin that hold for one machine, or for one run of Spark: that such an identity is new does not mean
#: that the table has changed.
_TEMPORARY = (FILE, "memory ")


@dataclass(frozen=True)
class Base:
    """The stored table behind a dataset.

    `schema` and `table` say where it is, `identity` is how the database tells it from others, and `rows` are the
    identities of all tables that ever had the budget. `named_alone` marks one of a ledger of the first format, which
    has no identities: no run is made on it before the ledger is upgraded. A view over several private tables has the
    first of them there, and schema, table and identity of each other one in `others`.
    """

    schema: str
    table: str
    identity: str = ""
    rows: frozenset[str] = frozenset()
    named_alone: bool = False
    others: tuple[tuple[str, str, str], ...] = ()

    @property
    def tables(self) -> tuple[tuple[str, str, str], ...]:
        """Schema, name and identity of each private table behind a dataset."""
        return ((self.schema, self.table, self.identity), *self.others)

    @staticmethod
    def of(info: TableInfo, earlier: Base | None = None) -> Base:
        """Return a base table with the identities of those before it too: rows never lose the budget that they had."""
        return Base(info.schema, info.table, info.identity, info.rows | (earlier.rows if earlier else frozenset()))

    @staticmethod
    def read(stored: Mapping[str, Any]) -> Base:
        """Return the base table that a ledger entry stores."""
        others = tuple((schema, table, identity) for schema, table, identity in stored.get("others", ()))
        return Base(stored["schema"], stored["table"], stored["identity"], frozenset(stored["rows"]), others=others)

    def stored_values(self) -> dict[str, Any]:
        """Return the base table as values for a ledger entry."""
        first = {"schema": self.schema, "table": self.table, "identity": self.identity, "rows": sorted(self.rows)}
        return first | ({"others": [list(place) for place in self.others]} if self.others else {})

    def is_place(self, info: TableInfo) -> bool:
        """Whether a table is in the place where this one was registered; it may be another table."""
        return (self.schema, self.table) == (info.schema, info.table)

    def is_same(self, info: TableInfo) -> bool:
        """Whether a table in that place is the one that was registered."""
        return self.named_alone or self.identity == info.identity

    def has_grown(self, info: TableInfo) -> bool:
        """Whether a table has parts that are new since registration: their rows may have, or get, another budget."""
        new = {identity for identity in info.rows if not identity.startswith(_TEMPORARY)} - self.rows
        return bool(new) and not self.named_alone

    def shares(self, info: TableInfo) -> bool:
        """Whether rows of a table have this budget: by its identity, by that of a parent table, or by its place."""
        places = {(schema, table) for schema, table, _ in self.tables}
        return (info.schema, info.table) in places or share_rows(self.rows, info.rows | info.within)


def tables_shown(engine: Engine, info: TableInfo) -> list[TableInfo] | None:
    """Return the stored tables whose rows a table or view shows; None where that is unknown. Reads no row."""
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


def why_private(
    engine: Engine, info: TableInfo, private: Iterable[tuple[str, Base]], *, own_marks: Collection[str] = ()
) -> str | None:
    """Return why a table or view cannot be read for free, in words that follow its name; None where it can.

    `private` are the registered tables, each by its name and its base. Even where nothing is registered here, a view
    may read a private table of another database that is attached; so a view is refused if what it reads is unknown.
    `own_marks` are identities that this ledger gave to tables without registering them.
    """
    if info.unsafe:
        return info.unsafe
    tables = tables_shown(engine, info)
    if tables is None:
        return "may hold rows of a registered private table (what it reads cannot be told)"
    for name, base in private:
        if any(base.shares(table) for table in tables):
            return f'holds rows of the registered private table "{name}"'
    elsewhere = any(has_other_ledger(table) and table.identity not in own_marks for table in tables)
    return "holds rows that were registered in another ledger" if elsewhere else None


def has_other_ledger(info: TableInfo) -> bool:
    """Whether dpsql's mark is on a table that shares no rows with a dataset here: another ledger has registered it."""
    return is_mark(info.identity)
