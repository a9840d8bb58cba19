"""Spark's catalog: tables, views, temporary views and folders of Parquet, and our words for its types. Reads no row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from dpsql.engines import spark_bridge
from dpsql.engines.base import Column, TableInfo
from dpsql.engines.spark_cursor import SESSION, guarded
from dpsql.engines.spark_files import PARQUET, ParquetFolder, is_parquet
from dpsql.engines.spark_vocabulary import DIALECT
from dpsql.engines.views import as_view
from dpsql.errors import DatabaseError

_READING = "read its catalog"
#: A temporary view over these alone is data itself; what else it could read has a name and a budget of its own.
_DATA = ("LogicalRelation", "LocalRelation", "LogicalRDD", "ExternalRDD", "Range", "OneRowRelation")
_FAMILIES = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "integer"),
    **dict.fromkeys(("float", "double", "decimal"), "real"),
    **dict.fromkeys(("string", "char", "varchar"), "text"),
    "boolean": "boolean",
    "date": "date",
}
_OTHER = ("timestamp", "timestamp_ntz", "binary")


def family(kind: str) -> str:
    """Return our word for a Spark type. Values that are equal and hash differently, or not at all, are opaque.

    >>> [family(kind) for kind in ("bigint", "decimal(18,2)", "string", "date", "string collate UTF8_LCASE")]
    ['integer', 'real', 'text', 'date', 'opaque']
    """
    word = kind.split("(")[0]
    return _FAMILIES.get(word) or ("other" if word in _OTHER else "opaque")


@dataclass(frozen=True)
class Place:
    """Where a table is: what people call it, its database (or `SESSION`, or `PARQUET`), and its name there."""

    called: str
    schema: str
    table: str

    @property
    def reference(self) -> exp.Table:
        """The table as a query names it."""
        return exp.table_(self.table, db=None if self.schema == SESSION else self.schema, quoted=True)


def home(session: Any) -> str:
    """Return the database whose tables need no other name."""
    return str(guarded(_READING, session.catalog.currentDatabase))


def places(session: Any, files: ParquetFolder) -> Iterator[Place]:
    """Yield every table and view: those of the folder, temporary ones, those of the present database and of others."""
    for name, path in files.names().items():
        yield Place(name, PARQUET, str(path))
    own = home(session)
    databases = [row[0] for row in _rows(session, "SHOW DATABASES")]
    for database in sorted(databases, key=lambda name: name != own):
        for row in _rows(session, f"SHOW TABLES IN {_quoted(database)}"):
            if not row["isTemporary"]:
                called = row["tableName"] if database == own else f"{database}.{row['tableName']}"
                yield Place(called, database, row["tableName"])
            elif database == own:
                yield Place(row["tableName"], SESSION, row["tableName"])


def find(session: Any, files: ParquetFolder, name: str) -> Place | None:
    """Return the first table of that name, or the first where letter case alone differs."""
    alike: Place | None = None
    for place in places(session, files):
        if place.called == name:
            return place
        if alike is None and place.called.lower() == name.lower():
            alike = place
    return alike


def describe(session: Any, files: ParquetFolder, place: Place) -> TableInfo:
    """Return what the catalog says of a table or view."""
    files_alone = is_parquet(place.schema, place.table)
    if files_alone:
        frame = guarded(_READING, lambda: files.frame(session, place.table))
    else:
        frame = guarded(_READING, lambda: session.table(place.reference.sql(DIALECT)))
    columns = tuple(
        Column(field.name, kind, family(kind))
        for field in guarded(_READING, lambda: list(frame.schema.fields))
        for kind in [str(field.dataType.simpleString())]
    )
    definition = ""
    if place.schema == SESSION:
        definition = _temporary(place, frame)
    elif not files_alone:
        definition = _view(session, place, [column.name for column in columns])
    kind = "view" if definition else "table"
    return TableInfo(place.called, place.schema, place.table, columns, kind, definition)


def _view(session: Any, place: Place, names: list[str]) -> str:
    """Return a stored view as CREATE VIEW, a text that proves nothing where it could mean something else, or ""."""
    found = {row[0]: row[1] for row in _rows(session, f"DESCRIBE TABLE EXTENDED {place.reference.sql(DIALECT)}")}
    if found.get("Type") != "VIEW":
        return ""
    given = re.findall(r"`((?:[^`]|``)*)`", found.get("View Query Output Columns", ""))
    if not found.get("View Catalog and Namespace", "").endswith(f".{place.schema}") or not given:
        return "a view whose names are looked up elsewhere"
    same = given == [name.replace("`", "``") for name in names]
    return as_view(found["View Text"], DIALECT, () if same else names)


def _temporary(place: Place, frame: Any) -> str:
    """Return "" for a temporary view that is data itself, a text that proves nothing for one that reads tables."""
    plan = guarded(_READING, lambda: spark_bridge.plan(frame))
    if plan is None:
        return "a temporary view on a Spark Connect server, whose plan is not known here"
    if not plan.deterministic():
        raise DatabaseError(
            f'temporary view "{place.called}" draws random numbers: each time it is read it has other rows.',
            hint="write it to a table, and use that",
        )
    leaves = [leaf for one in (plan, *_each(plan.subqueriesAll())) for leaf in _each(one.collectLeaves())]
    plain = all(leaf.nodeName().split(" ")[0] in _DATA or _relation(leaf) == "file" for leaf in leaves)
    stored = any(_relation(leaf) == "table" for leaf in leaves)
    return "" if plain and not stored else "a temporary view of other tables"


def _relation(leaf: Any) -> str:
    """Return whether a leaf of a plan is a table of the catalog, a file, or something else."""
    if leaf.getClass().getSimpleName() != "LogicalRelation":
        return ""
    return "table" if leaf.catalogTable().isDefined() else "file"


def _each(sequence: Any) -> Iterator[Any]:
    """Yield the members of a Scala sequence."""
    for place in range(sequence.size()):
        yield sequence.apply(place)


def _rows(session: Any, statement: str) -> list[Any]:
    return guarded(_READING, lambda: list(session.sql(statement).collect()))


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(DIALECT)
