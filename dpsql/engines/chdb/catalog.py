"""ClickHouse's catalog: the queries that read it, and our words for its tables and types. Nothing here reads a row."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from sqlglot import exp

from dpsql.engines.base import Column, ColumnNote, TableInfo
from dpsql.engines.identity_texts import mark_in
from dpsql.engines.table_names import Place, full_name

Entry = Mapping[str, str]
Ask = Callable[[exp.Select], list[dict[str, str]]]
#: Table engines that hold rows as they were put in; others read elsewhere, or merge rows by themselves.
_PLAIN = ("MergeTree", "Memory", "Log", "StripeLog", "TinyLog")
_SYSTEM = ("system", "information_schema")
#: What a materialized view keeps its copies in.
_INNER = ".inner"
_RANDOM = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FAMILIES = {
    "String": "text",
    "Bool": "boolean",
    "Date": "date",
    "Date32": "date",
    "DateTime": "timestamp",
    "DateTime64": "timestamp",
}
_OTHER = ("UUID", "IPv4", "IPv6", "FixedString")
#: A default that is the same for every row: a number, a text, or NULL.
_CONSTANT = re.compile(r"-?[0-9.]+(e[-+]?[0-9]+)?|NULL|true|false|'(?:[^'\\]|\\.)*'", re.IGNORECASE)


def read_places(ask: Ask) -> dict[Place, Entry]:
    """Return what the catalog says of each table, by its database and name."""
    folder = exp.Anonymous(this="arrayElement", expressions=[exp.column("data_paths"), exp.Literal.number(1)])
    query = exp.select("database", "name", "engine", "comment", exp.alias_(folder, "folder"))
    rows = ask(query.from_("system.tables").where("NOT is_temporary"))
    return {(row["database"], row["name"]): row for row in rows if row["database"].lower() not in _SYSTEM}


def read_functions(ask: Ask, *, system: bool) -> set[str]:
    """Return the names of ClickHouse's own functions, or of those that users defined, in lower case."""
    origin = exp.column("origin").eq("System")
    query = exp.select("name").from_("system.functions").where(origin if system else exp.not_(origin))
    return {row["name"].lower() for row in ask(query)}


def describe(ask: Ask, place: Place, entry: Entry, home: str) -> TableInfo:
    """Return what the catalog says of a table or view.

    A view, and a table whose rows are not its own, have a text that proves nothing. A table is identified by
    the folder of its rows, which a new name does not change; one in memory is identified by its comment.
    """
    schema, table = place
    engine = entry["engine"]
    own = [exp.column("database").eq(schema), exp.column("table").eq(table)]
    listed = exp.select("name", "type", "default_expression").from_("system.columns").order_by("position")
    listed = listed.where(*own, "default_kind NOT IN ('ALIAS', 'EPHEMERAL')")
    columns = tuple(column_of(row["name"], row["type"], row["default_expression"]) for row in ask(listed))
    unended = exp.select("mutation_id").from_("system.mutations").where(*own, "NOT is_done").limit(1)
    unfit = "has a change of its rows that has not ended" if ask(unended) else ""
    plain = engine in _PLAIN and not table.startswith(_INNER)
    definition = "" if plain else f"a table of engine {engine}, whose rows may be those of others"
    identity = identity_of(entry) if plain else ""
    facts = TableInfo(full_name(place, home), schema, table, columns, "table" if plain else "view", definition)
    return replace(facts, identity=identity, rows=frozenset([identity] if identity else []), unfit=unfit)


def read_notes(ask: Ask, info: TableInfo) -> dict[str, ColumnNote]:
    """Return what people wrote about a table's columns. ClickHouse has no unique and no foreign keys."""
    own = [exp.column("database").eq(info.schema), exp.column("table").eq(info.table)]
    rows = ask(exp.select("name", "comment").from_("system.columns").where(*own))
    return {row["name"]: ColumnNote(comment=row["comment"]) for row in rows if row["comment"]}


def identity_of(entry: Entry) -> str:
    """Return the name of the folder with a table's rows, which ClickHouse draws at random, or the comment's mark."""
    folder = Path(entry["folder"]).name if entry["folder"] else ""
    return folder if _RANDOM.fullmatch(folder) else mark_in(entry["comment"])


def column_of(name: str, kind: str, default: str = "") -> Column:
    """Return a column as the catalog describes it.

    A MATERIALIZED or DEFAULT column is worked out when it is read, in parts of the table that were written before it
    was added: unless its expression is a constant, a row can make it fail. An ALIAS always is, and is not listed.

    >>> [column_of("x", kind).family for kind in ("Nullable(Int8)", "Decimal(9, 2)", "LowCardinality(String)", "JSON")]
    ['integer', 'real', 'text', 'opaque']
    >>> [column_of("x", "Int8", text).computed for text in ("", "7", "-7", "'a'", "toInt8(text)")]
    [False, False, False, False, True]
    """
    computed = bool(default) and _CONSTANT.fullmatch(default) is None
    inner = re.sub(r"^(LowCardinality\(|Nullable\()*", "", kind)
    word = re.split(r"[^A-Za-z0-9]", inner, maxsplit=1)[0]
    if re.fullmatch("U?Int[0-9]+", word):
        return Column(name, kind, "integer", computed=computed)
    if re.fullmatch("Float[0-9]+|BFloat16|Decimal", word):
        return Column(name, kind, "real", computed=computed)
    if word in ("Enum8", "Enum16"):
        values = re.findall(r"'((?:[^'\\]|\\.)*)' = -?[0-9]+", inner)
        return Column(name, kind, "text", tuple(re.sub(r"\\(.)", r"\1", value) for value in values), computed=computed)
    return Column(name, kind, _FAMILIES.get(word) or ("other" if word in _OTHER else "opaque"), computed=computed)
