"""DuckDB's catalog: the queries that read it, and our words for its types. Nothing here reads a row."""

from __future__ import annotations

from sqlglot import exp

TABLES = """
SELECT schema_name, table_name, NULL AS definition
FROM duckdb_tables()
WHERE database_name = current_database() AND NOT internal AND NOT temporary AND schema_name <> 'dpsql'
UNION ALL
SELECT schema_name, view_name, sql
FROM duckdb_views()
WHERE database_name = current_database() AND NOT internal AND NOT temporary AND schema_name <> 'dpsql'
"""
COLUMNS = """
SELECT column_name, data_type
FROM duckdb_columns()
WHERE database_name = current_database() AND schema_name = ? AND table_name = ?
ORDER BY column_index
"""
CHECKS = """
SELECT expression
FROM duckdb_constraints()
WHERE database_name = current_database() AND schema_name = ? AND table_name = ? AND constraint_type = 'CHECK'
"""


def family(kind: str) -> str:
    """Return our word for a DuckDB type.

    >>> [family(kind) for kind in ("BIGINT", "DECIMAL(18,2)", "ENUM('a')", "BOOLEAN", "DATE", "INTEGER[]")]
    ['integer', 'real', 'text', 'boolean', 'date', 'other']
    """
    if kind.endswith("]"):
        return "other"
    return _FAMILIES.get(kind.split("(")[0], "other")


_FAMILIES = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"), "integer"),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"), "integer"),
    **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL"), "real"),
    **dict.fromkeys(("VARCHAR", "ENUM"), "text"),
    "BOOLEAN": "boolean",
    "DATE": "date",
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
