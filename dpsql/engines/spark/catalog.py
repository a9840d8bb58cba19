"""Spark's catalog: tables, views, temporary views and folders of Parquet, and our words for its types. Reads no row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlglot import exp

from dpsql.engines.base import Column, ColumnNote, TableInfo
from dpsql.engines.files.table_files import file_identities
from dpsql.engines.identity_texts import PATH
from dpsql.engines.spark import java_bridge
from dpsql.engines.spark.cursor import SESSION, replace_errors
from dpsql.engines.spark.files import PARQUET, ParquetFolder, is_parquet
from dpsql.engines.spark.vocabulary import DIALECT
from dpsql.engines.table_names import find_place
from dpsql.engines.view_text import as_view
from dpsql.errors import DatabaseError

_READ_CATALOG = "read its catalog"
#: A temporary view over these alone is data itself; what else it could read has a name and a budget of its own.
_DATA = ("LogicalRelation", "LocalRelation", "LogicalRDD", "ExternalRDD", "Range", "OneRowRelation")
#: Expressions that fail on no row unless one of their operands does.
_TOTAL = frozenset(
    (
        *("AttributeReference", "Alias", "Literal", "SortOrder", "Collate", "ResolvedCollation"),
        *("IsNull", "IsNotNull", "And", "Or", "Not", "In", "Coalesce", "CaseWhen", "If"),
        *("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual"),
    )
)
_COMPUTES = "computes columns or picks rows by expressions that can fail on a row: write it to a table, and use that"
_FAMILIES = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "integer"),
    **dict.fromkeys(("float", "double", "decimal"), "real"),
    **dict.fromkeys(("string", "char", "varchar"), "text"),
    "boolean": "boolean",
    "date": "date",
    **dict.fromkeys(("timestamp", "timestamp_ntz"), "timestamp"),
}
#: In text a reader finds out where rows start: what one row holds can change how many others there are.
_TEXTS = ("csv", "json", "text", "xml")
_TEXT = "rows in files of text, where one of them can change where others start: write them to Parquet"
_OTHER = ("binary",)
#: Where a field says that it was declared as CHAR or VARCHAR.
_DECLARED = "__CHAR_VARCHAR_TYPE_STRING"


def spark_family(kind: str) -> str:
    """Return our word for a Spark type. Values that are equal and hash differently, or not at all, are opaque.

    >>> [spark_family(kind) for kind in ("bigint", "decimal(9,2)", "string", "string collate UTF8_LCASE", "array<int>")]
    ['integer', 'real', 'text', 'text', 'opaque']
    """
    word = kind.split("(")[0].split(" collate ")[0]
    return _FAMILIES.get(word) or ("other" if word in _OTHER else "opaque")


def collation(kind: str, declared: str) -> str:
    """Return the rule by which a column's texts are compared, "" where equal means equal bytes.

    `declared` is the type in CREATE TABLE. A setting of the session says whether CHAR texts are filled up with blanks
    when they are read, so that one row could have two names.

    >>> collation("string collate UTF8_LCASE", ""), collation("string", "char(8)"), collation("string", "varchar(8)")
    ('UTF8_LCASE', 'char(8)', '')
    """
    return kind.partition(" collate ")[2] or (declared if declared.startswith("char(") else "")


@dataclass(frozen=True)
class SparkPlace:
    """Where a table is: what people call it, its database (or `SESSION`, or `PARQUET`), and its name there."""

    called: str
    schema: str
    table: str

    @property
    def reference(self) -> exp.Table:
        """The table as a query names it."""
        return exp.table_(self.table, db=None if self.schema == SESSION else self.schema, quoted=True)


def home_schema(session: Any) -> str:
    """Return the database whose tables need no other name."""
    return str(replace_errors(_READ_CATALOG, session.catalog.currentDatabase))


def places(session: Any, files: ParquetFolder) -> Iterator[SparkPlace]:
    """Yield every table and view: those of the folder, temporary ones, those of the present database and of others."""
    for name, path in files.names().items():
        yield SparkPlace(name, PARQUET, str(path))
    own = home_schema(session)
    databases = [row[0] for row in _rows(session, "SHOW DATABASES")]
    for database in sorted(databases, key=lambda name: name != own):
        for row in _rows(session, f"SHOW TABLES IN {_quote_name(database)}"):
            if not row["isTemporary"]:
                called = row["tableName"] if database == own else f"{database}.{row['tableName']}"
                yield SparkPlace(called, database, row["tableName"])
            elif database == own:
                yield SparkPlace(row["tableName"], SESSION, row["tableName"])


def find_table(session: Any, files: ParquetFolder, name: str, *, schema: str | None = None) -> SparkPlace | None:
    """Return the table that a name means. A file or a temporary view comes before a table of the same name, as in SQL.

    Two tables of databases that one name could mean are refused.
    """
    place_of = {(place.schema, place.table): place for place in places(session, files)}
    first = [place for place in place_of.values() if place.schema == SESSION or is_parquet(place.schema, place.table)]
    if schema is None:
        for place in first:
            if place.called == name:
                return place
        others = [key for key, place in place_of.items() if place not in first]
        meant = find_place(others, name, schema=None, home=home_schema(session))
        alike = (place for place in first if place.called.lower() == name.lower())
        return place_of[meant] if meant is not None else next(alike, None)
    meant = find_place(place_of, name, schema=schema, home="")
    return None if meant is None else place_of[meant]


def describe(session: Any, files: ParquetFolder, place: SparkPlace) -> TableInfo:
    """Return what the catalog says of a table or view."""
    files_alone = is_parquet(place.schema, place.table)
    frame = _frame(session, files, place)
    columns = tuple(
        Column(field.name, kind, spark_family(kind), collation=collation(kind, field.metadata.get(_DECLARED, "")))
        for field in replace_errors(_READ_CATALOG, lambda: list(frame.schema.fields))
        for kind in [str(field.dataType.simpleString())]
    )
    definition, unfit, facts = "", "", {}
    if place.schema == SESSION:
        definition = _definition_of_temporary_view(place, frame)
        unfit = "" if definition or _is_total(frame) else _COMPUTES
    elif not files_alone:
        facts = {row[0]: row[1] for row in _rows(session, f"DESCRIBE TABLE EXTENDED {place.reference.sql(DIALECT)}")}
        definition = _definition_of_view(facts, place, [column.name for column in columns])
    description = (place.called, place.schema, place.table, columns)
    if definition:
        return TableInfo(*description, "view", definition, unfit=unfit)
    roots = [facts["Location"]] if facts.get("Location") else []
    rows = replace_errors(_READ_CATALOG, lambda: identities(session, frame, roots))
    stored = [text for text in sorted(rows) if text.startswith(PATH)] if place.schema != SESSION else []
    identity = "" if files_alone else " ".join(stored)
    version = f"{facts.get('Created Time', '')} {facts.get('Location', '')}"
    return TableInfo(*description, "table", identity=identity, rows=frozenset(rows), unfit=unfit, version=version)


def _frame(session: Any, files: ParquetFolder, place: SparkPlace) -> Any:
    """Return a table as a DataFrame of Spark, whose columns are known and whose rows are not read."""
    if is_parquet(place.schema, place.table):
        return replace_errors(_READ_CATALOG, lambda: files.frame(session, place.table))
    return replace_errors(_READ_CATALOG, lambda: session.table(place.reference.sql(DIALECT)))


def read_notes(session: Any, files: ParquetFolder, place: SparkPlace) -> dict[str, ColumnNote]:
    """Return what people wrote about a table's columns. Spark keeps no unique and no foreign keys."""
    fields = replace_errors(_READ_CATALOG, lambda: list(_frame(session, files, place).schema.fields))
    comments = {field.name: field.metadata.get("comment", "") for field in fields}
    return {name: ColumnNote(comment=str(text)) for name, text in comments.items() if text}


def identities(session: Any, frame: Any, catalog_roots: Sequence[str]) -> set[str]:
    """Return where a frame's rows are: paths and what stands there, or the data in this application's memory.

    `catalog_roots` are the places that the catalog names; a Spark Connect server shows no plan, so there are no others.
    """
    plan = java_bridge.query_plan(frame)
    leaves = [] if plan is None else list(java_bridge.plan_leaves(plan))
    roots = [*catalog_roots, *(root for leaf in leaves for root in java_bridge.roots(leaf))]
    local = [Path("/" + re.sub("^(file:)?/+", "", root)) for root in roots if root.startswith(("file:", "/"))]
    texts = {PATH + str(place.resolve()) for place in local} | file_identities(local)
    texts |= {PATH + root.rstrip("/") for root in roots if not root.startswith(("file:", "/"))}
    return texts | {data for leaf in leaves if (data := java_bridge.memory_of(session, leaf))}


def _definition_of_view(facts: Mapping[str, str], place: SparkPlace, names: list[str]) -> str:
    """Return a stored view as CREATE VIEW, a text that proves nothing where it could mean something else, or ""."""
    if facts.get("Type") != "VIEW":
        return _TEXT if facts.get("Provider", "").lower() in _TEXTS else ""
    given = re.findall(r"`((?:[^`]|``)*)`", facts.get("View Query Output Columns", ""))
    if not facts.get("View Catalog and Namespace", "").endswith(f".{place.schema}") or not given:
        return "a view whose names are looked up elsewhere"
    same = given == [name.replace("`", "``") for name in names]
    return as_view(facts["View Text"], DIALECT, () if same else names)


def _definition_of_temporary_view(place: SparkPlace, frame: Any) -> str:
    """Return "" for a temporary view that is data itself, a text that proves nothing for one that reads tables."""
    plan = replace_errors(_READ_CATALOG, lambda: java_bridge.query_plan(frame))
    if plan is None:
        return "a temporary view on a Spark Connect server, whose plan is not known here"
    if not plan.deterministic():
        raise DatabaseError(
            f'temporary view "{place.called}" draws random numbers: each time it is read it has other rows.',
            hint="write it to a table, and use that",
        )
    leaves = list(java_bridge.plan_leaves(plan))
    if any(map(java_bridge.is_text, leaves)):
        return _TEXT
    plain = all(leaf.nodeName().split(" ")[0] in _DATA or _relation(leaf) == "file" for leaf in leaves)
    stored = any(_relation(leaf) == "table" for leaf in leaves)
    return "" if plain and not stored else "a temporary view of other tables"


def _is_total(frame: Any) -> bool:
    """Whether a temporary view, which is worked out each time it is read, only names, compares and widens values."""
    return replace_errors(_READ_CATALOG, lambda: all(map(_cannot_fail, _expressions(java_bridge.query_plan(frame)))))


def _expressions(plan: Any) -> Iterator[Any]:
    """Yield the expressions of a plan's parts, those of its leaves left out: they are the data's own columns."""
    parts = list(java_bridge.members(plan.children()))
    if parts:
        yield from java_bridge.members(plan.expressions())
    for part in parts:
        yield from _expressions(part)


def _cannot_fail(expression: Any) -> bool:
    name, parts = expression.getClass().getSimpleName(), list(java_bridge.members(expression.children()))
    if name == "Cast":
        before, after = (operand.dataType().simpleString() for operand in (parts[0], expression))
        fits = before == after or (after == "string" and spark_family(before) not in ("timestamp", "other", "opaque"))
        fits = fits or (after == "double" and spark_family(before) in ("integer", "real"))
    else:
        fits = name in _TOTAL
    return fits and all(map(_cannot_fail, parts))


def _relation(leaf: Any) -> str:
    """Return whether a leaf of a plan is a table of the catalog, a file, or something else."""
    if leaf.getClass().getSimpleName() != "LogicalRelation":
        return ""
    return "table" if leaf.catalogTable().isDefined() else "file"


def _rows(session: Any, statement: str) -> list[Any]:
    return replace_errors(_READ_CATALOG, lambda: list(session.sql(statement).collect()))


def _quote_name(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(DIALECT)
