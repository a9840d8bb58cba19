"""Databases that are attached to a DuckDB connection: which table a name means there, and what is known of it.

A table's rows have one budget, however they are reached. What tells a table of an attached DuckDB file from others is
the mark in its comment, as in a database that is opened directly; where the file cannot be written, it is the file
itself and the table's name in it. What neither tells is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb

from dpsql.engines.base import Column, TableInfo
from dpsql.engines.duckdb.catalog import CHECKS, COLUMNS, DATABASES, TABLES, TEXT, columns_of
from dpsql.engines.duckdb.cursor import fetch_from_duckdb
from dpsql.engines.files.table_files import file_identities
from dpsql.engines.identity_texts import mark_in
from dpsql.engines.table_names import Place, find_entry, full_name, quote_parts, split_parts
from dpsql.errors import UsageError
from dpsql.spelling import in_catalog, split_catalog

#: The schema whose tables need not name it, in DuckDB's own databases.
MAIN = "main"
_DUCKDB = "duckdb"
_COPY = "copy its rows into a table of a DuckDB file, once, or write them to Parquet, and register that"
#: Why no run can rely on a table of a database of another kind, in words that follow its name, and what to do instead.
_FOREIGN = {
    "postgres": (
        "is a table of a PostgreSQL server, whose rows have their budget in the server's own ledger",
        "open the server itself: --db postgresql://USER@HOST/DATABASE",
    ),
    "sqlite": (
        "is a table of SQLite, where a cell can be of another type than its column, and reading it then fails",
        "open the SQLite file itself: --db FILE",
    ),
}
_UNTRIED = "is in a database of type {kind}, of which dpsql cannot tell whether a run sees one state of its rows"
_VIEW = "is a view of an attached database, and what it reads there cannot be told"
_TWICE = "is in the file that holds the ledger, which is attached a second time by another name"
_NAMELESS = "is in a database that is read-only and no file on this machine, so that nothing tells its rows from others"


@dataclass(frozen=True)
class Catalog:
    """One database that a connection reaches; `own` is the one with the ledger, `home` the one of names without it."""

    name: str
    kind: str
    read_only: bool
    path: str | None
    own: bool
    home: bool = False

    @property
    def main(self) -> str:
        """The schema whose tables need not name it."""
        return "public" if self.kind == "postgres" else MAIN

    def schema_text(self, schema: str) -> str:
        """Return a schema of this database as `TableInfo` has it: with the database's name where it is not our own."""
        return schema if self.own else in_catalog(self.name, schema)

    def name_of(self, place: Place) -> str:
        """Return what people call a table of this database."""
        name = full_name(place, self.main)
        return name if self.own or self.home else f"{self.name}.{name}"


def read_catalogs(cursor: duckdb.DuckDBPyConnection, home: str | None = None) -> list[Catalog]:
    """Return the databases that a connection reaches, its own first; `home` is the one that names need not name."""
    rows = fetch_from_duckdb(cursor, DATABASES)
    catalogs = [
        Catalog(name, kind, bool(read_only), path or None, bool(here), not here and name == home)
        for name, kind, read_only, path, here in rows
    ]
    return sorted(catalogs, key=lambda catalog: (not catalog.own, not catalog.home, catalog.name))


def list_names(cursor: duckdb.DuckDBPyConnection, home: str | None) -> set[str]:
    """Return the tables and views of all databases that a connection reaches, by the names that people call them."""
    return {
        catalog.name_of((row[0], row[1]))
        for catalog in read_catalogs(cursor, home)
        for row in fetch_from_duckdb(cursor, TABLES, [catalog.name] * 2)
    }


def describe_table(
    cursor: duckdb.DuckDBPyConnection, name: str, schema: str | None, *, home: str | None, used: str | None
) -> TableInfo | None:
    """Return what the catalog says of a table or view, or None. Reads no row.

    With a schema the name is the table's own there. Without, schema and database may stand before it, quoted or not,
    and a name that could mean two tables is refused. `home` and `used` are the database and the schema in which a name
    alone is looked up first.
    """
    catalogs = read_catalogs(cursor, home)
    tables: dict[tuple[str, Place], TableInfo] = {}
    for catalog, rest, inner in _meanings(catalogs, name, schema, used):
        entries = {(row[0], row[1]): row for row in fetch_from_duckdb(cursor, TABLES, [catalog.name] * 2)}
        entry = find_entry(entries, rest, schema=inner, home=catalog.main)  # "É" and "é" are two tables in DuckDB
        if entry is not None:
            described = _describe(cursor, catalog, *entry)
            tables.setdefault((catalog.name, entry[0]), _unfit_twice(described, catalog, catalogs))
        if tables and (schema is not None or inner is not None):
            break
    if len(tables) > 1:
        places = " and ".join(f'"{table}" in schema {in_catalog(catalog, inner)}' for catalog, (inner, table) in tables)
        raise UsageError(f'"{name}" can mean two tables: {places}.', hint="name database, schema and table, quoted")
    return next(iter(tables.values()), None)


def _meanings(
    catalogs: Sequence[Catalog], name: str, schema: str | None, used: str | None
) -> Iterator[tuple[Catalog, str, str | None]]:
    """Yield in which databases to look for a name, what remains of it there, and the schema where that is known.

    What comes with a schema is final: the first table that is there is meant.
    """
    if schema is not None:
        database, inner = split_catalog(schema)
        if database is not None:
            yield from ((catalog, name, inner) for catalog in catalogs if catalog.name == database)
            return
        yield from ((catalog, name, schema) for catalog in catalogs if catalog.own)
        alike = [catalog for catalog in catalogs if catalog.name.lower() == schema.lower()]
        yield from ((catalog, name, catalog.main) for catalog in alike)
        return
    if used is not None:
        yield from ((catalog, name, used) for catalog in catalogs if catalog.home or catalog.own)
    for catalog in sorted(catalogs, key=lambda catalog: not catalog.home):
        if catalog.own or catalog.home:
            yield catalog, name, None
        parts = split_parts(name)
        if len(parts) in (2, 3) and parts[0].lower() == catalog.name.lower():
            yield catalog, quote_parts(parts[1:]), None
        elif name.lower().startswith(f"{catalog.name}.".lower()):
            yield catalog, name[len(catalog.name) + 1 :], None


def _describe(cursor: duckdb.DuckDBPyConnection, catalog: Catalog, place: Place, row: tuple[Any, ...]) -> TableInfo:
    schema, table, definition, comment, number = row
    named = [catalog.name, schema, table]
    columns = fetch_from_duckdb(cursor, COLUMNS, named)
    checks = fetch_from_duckdb(cursor, CHECKS, named)
    own = [(None,)] if definition else fetch_from_duckdb(cursor, TEXT, named) or [("",)]
    identity = mark_in(comment)
    files = frozenset[str]() if catalog.own or definition else file_rows(catalog, schema, table)
    unfit, remedy = (
        ("", "") if catalog.own else why_unfit(catalog, is_view=bool(definition), known=bool(identity or files))
    )
    return TableInfo(
        name=catalog.name_of(place),
        schema=catalog.schema_text(schema),
        table=table,
        columns=_plain_columns(columns_of(columns, own[0][0]), catalog),
        kind="view" if definition else "table",
        definition=definition or "",
        checks=tuple(text for (text,) in checks),
        identity=identity,
        rows=frozenset([identity] if identity else []) | files,
        version=str(number),
        unfit=unfit,
        unsafe=unfit,
        remedy=remedy,
    )


def _unfit_twice(info: TableInfo, catalog: Catalog, catalogs: Sequence[Catalog]) -> TableInfo:
    """Return a table as unfit where its file is the one with the ledger: marks written there are not seen here."""
    own = next((other.path for other in catalogs if other.own), None)
    if catalog.own or own is None or catalog.path is None or not _is_same_file(own, catalog.path):
        return info
    return replace(info, unfit=_TWICE, unsafe=_TWICE, remedy="name the table without the attached database")


def _is_same_file(first: str, second: str) -> bool:
    """Whether two paths lead to one file, by whatever links."""
    try:
        return os.path.samefile(first, second)
    except OSError:
        return False


def _plain_columns(columns: tuple[Column, ...], catalog: Catalog) -> tuple[Column, ...]:
    """Return the columns of a table; those of a database of another kind have no types that a run could rely on."""
    if catalog.kind == _DUCKDB:
        return columns
    return tuple(Column(column.name, column.type, "opaque", fallible=True) for column in columns)


def why_unfit(catalog: Catalog, *, is_view: bool, known: bool) -> tuple[str, str]:
    """Return why a table of an attached database has no budget and is not read for free, and what to do; "" where not.

    `known` says that something tells the table's rows from those of others.
    """
    if catalog.kind != _DUCKDB:
        return _FOREIGN.get(catalog.kind, (_UNTRIED.format(kind=catalog.kind), _COPY))
    if is_view:
        return _VIEW, "name the table itself, or make the view in the database that holds the ledger"
    return (_NAMELESS, "copy the file to this machine") if catalog.read_only and not known else ("", "")


def file_rows(catalog: Catalog, schema: str, table: str) -> frozenset[str]:
    """Return the identity of a table by its file and its name there: the same whatever the file is attached as."""
    if catalog.path is None:
        return frozenset()
    try:
        files = file_identities([Path(catalog.path)])
    except OSError:
        return frozenset()
    return frozenset(f"{identity} table {in_catalog(schema, table).lower()}" for identity in files)
