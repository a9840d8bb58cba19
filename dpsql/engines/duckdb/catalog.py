"""DuckDB's catalog: the queries that read it, and our words for its types. Nothing here reads a row.

Functions are DuckDB's own by their full names: a user's macro of the same name, `duckdb_tables` or `lower`, would stand
in for them and tell what it likes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import Dialect, Token, TokenType, exp
from sqlglot.errors import SqlglotError

from dpsql.engines.base import Column, ColumnNote

#: Tables and views of a database, whose name stands twice. The queries below take it first, too.
TABLES = """
SELECT schema_name, table_name, NULL AS definition, comment, table_oid
FROM system.main.duckdb_tables()
WHERE database_name = ? AND NOT internal AND NOT temporary AND schema_name <> 'dpsql'
UNION ALL
SELECT schema_name, view_name, sql, NULL, view_oid
FROM system.main.duckdb_views()
WHERE database_name = ? AND NOT internal AND NOT temporary AND schema_name <> 'dpsql'
"""
COLUMNS = """
SELECT column_name, data_type, is_generated
FROM system.main.duckdb_columns()
WHERE database_name = ? AND schema_name = ? AND table_name = ?
ORDER BY column_index
"""
#: Whether statements are written down: to the database's own log, or to a file.
LOGS = "SELECT system.main.current_setting('enable_logging'), system.main.current_setting('log_query_path')"
PATH = "SELECT path FROM system.main.duckdb_databases() WHERE database_name = system.main.current_database()"
#: The databases that a connection reaches, its own among them.
DATABASES = """
SELECT database_name, type, readonly, path, database_name = system.main.current_database() AS here
FROM system.main.duckdb_databases() WHERE NOT internal
"""
#: A row where a database has tables of dpsql's own.
LEDGER_OF = """
SELECT 1 FROM system.main.duckdb_tables() WHERE database_name = ? AND schema_name = 'dpsql' LIMIT 1
"""
OPTIMIZERS = "SELECT system.main.current_setting('disabled_optimizers')"
COMMENT = """
SELECT database_name AS here, comment
FROM system.main.duckdb_tables()
WHERE database_name = ? AND schema_name = ? AND table_name = ?
"""
CHECKS = """
SELECT expression
FROM system.main.duckdb_constraints()
WHERE database_name = ? AND schema_name = ? AND table_name = ?
  AND constraint_type = 'CHECK'
"""
#: What people wrote about columns, and keys: a foreign key's table is in the same schema. The database is NULL where it
#: is the connection's own.
COMMENTS = """
SELECT column_name, comment
FROM system.main.duckdb_columns()
WHERE database_name = coalesce(?, system.main.current_database()) AND schema_name = ? AND table_name = ?
  AND comment IS NOT NULL
"""
KEYS = """
SELECT constraint_type, constraint_column_names, referenced_table, referenced_column_names
FROM system.main.duckdb_constraints()
WHERE database_name = coalesce(?, system.main.current_database()) AND schema_name = ? AND table_name = ?
  AND constraint_type IN ('PRIMARY KEY', 'UNIQUE', 'FOREIGN KEY')
"""
UNIQUE_KEYS = """
SELECT constraint_column_names
FROM system.main.duckdb_constraints()
WHERE database_name = coalesce(?, system.main.current_database()) AND schema_name = ? AND table_name = ?
  AND constraint_type IN ('PRIMARY KEY', 'UNIQUE')
"""
#: A table's own text: the one place where the catalog tells a column's collation.
TEXT = """
SELECT sql
FROM system.main.duckdb_tables()
WHERE database_name = ? AND schema_name = ? AND table_name = ?
"""
#: Collations under which equal means equal bytes.
_BINARY = ("binary", "c", "posix")
_UNKNOWN = "unknown"
#: What a table is not fit for where statements are written down, in words that follow its name, and what mends it.
LOGGED = "is in a database that logs statements, and with them the secret keys of a run"
NO_LOGS = "CALL disable_logging(); SET GLOBAL log_query_path = ''"


def duckdb_family(kind: str) -> str:
    """Return our word for a DuckDB type.

    Types not listed are opaque. Of some it is known why: equal values of VARIANT (1 and 1.0) have different hashes.

    >>> [duckdb_family(kind) for kind in ("BIGINT", "DECIMAL(18,2)", "ENUM('a')", "DATE", "UUID", "INT[]", "VARIANT")]
    ['integer', 'real', 'text', 'date', 'other', 'opaque', 'opaque']
    """
    if kind.endswith("]"):
        return "opaque"
    return _FAMILIES.get(kind.split("(")[0], "opaque")


_FAMILIES = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"), "integer"),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"), "integer"),
    **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL"), "real"),
    **dict.fromkeys(("VARCHAR", "ENUM"), "text"),
    "BOOLEAN": "boolean",
    "DATE": "date",
    **dict.fromkeys(
        ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"), "timestamp"
    ),
    **dict.fromkeys(("TIME", "UUID", "BLOB"), "other"),
}


def enum_values(kind: str) -> tuple[str, ...]:
    """Return the values of an ENUM type from its name in the catalog.

    >>> enum_values("ENUM('x', 'it''s')")
    ('x', "it's")
    """
    if not kind.startswith("ENUM("):
        return ()
    parsed = exp.DataType.build(kind, dialect="duckdb")
    return tuple(str(value.this) for value in parsed.expressions)


def columns_of(rows: Sequence[tuple[Any, ...]], text: str | None) -> tuple[Column, ...]:
    """Return the columns of a table (`text` is its own CREATE TABLE) or of a view, which has no such text.

    The collations of a view's columns follow from its base table's.
    """
    rules = [""] * len(rows) if text is None else collations(text, len(rows))
    return tuple(
        Column(name, kind, duckdb_family(kind), enum_values(kind), collation=rule, computed=bool(computed))
        for (name, kind, computed), rule in zip(rows, rules, strict=True)
    )


def notes_of(
    comments: Sequence[tuple[str, str]], keys: Sequence[tuple[Any, ...]], schema: str
) -> dict[str, ColumnNote]:
    """Return the notes on a table's columns from rows of `COMMENTS` and `KEYS`; keys of several columns say nothing.

    >>> notes_of([("a", "age")], [("FOREIGN KEY", ["a"], "codes", ["code"]), ("UNIQUE", ["b", "c"], None, [])], "main")
    {'a': ColumnNote(comment='age', unique=False, references=('main', 'codes', 'code'))}
    """
    notes = {name: ColumnNote(comment=text) for name, text in comments}
    for kind, columns, table, referenced in keys:
        if len(columns) == 1:
            note = notes.get(columns[0], ColumnNote())
            if kind == "FOREIGN KEY":
                note = replace(note, references=(schema, table, referenced[0])) if len(referenced) == 1 else note
            else:
                note = replace(note, unique=True)
            notes[columns[0]] = note
    return notes


def collations(text: str, count: int) -> list[str]:
    """Return the collation of each of a table's first `count` columns, "" where equal means equal bytes.

    A text that cannot be read tells nothing, and then every collation is unknown.

    >>> collations("CREATE TABLE t(a VARCHAR COLLATE nocase, b VARCHAR COLLATE C DEFAULT('x'), c INTEGER);", 3)
    ['nocase', '', '']
    """
    try:
        tokens = Dialect.get_or_raise("duckdb").tokenize(text)
    except SqlglotError:
        return [_UNKNOWN] * count
    named = [_collation(part) for part in _definitions(tokens)][:count]
    return named + [_UNKNOWN] * (count - len(named))


def _definitions(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield the tokens between the commas inside the first parentheses, without those inside inner parentheses."""
    depth = 0
    definition: list[Token] = []
    for token in tokens:
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if (depth == 1 and token.token_type == TokenType.COMMA) or (definition and depth == 0):
            yield definition
            definition = []
            if depth == 0:
                return
        elif depth == 1:
            definition.append(token)


def _collation(definition: Sequence[Token]) -> str:
    kinds = [token.token_type for token in definition]
    if TokenType.COLLATE not in kinds:
        return ""
    start = end = kinds.index(TokenType.COLLATE) + 1
    while end + 1 < len(kinds) and kinds[end + 1] == TokenType.DOT:
        end += 2
    name = "".join(token.text for token in definition[start : end + 1])
    return "" if name.lower() in _BINARY else name or _UNKNOWN
