"""Puts a table of Python values into any engine, in that engine's own types."""

from __future__ import annotations

from decimal import Decimal
from itertools import count
from typing import Any

import sqlglot

from dpsql.compile.rows import Source, table_reference
from dpsql.engines.base import Engine
from dpsql.schema import Schema
from tests.rows import Table
from tests.tables import quote

_NUMBERS = count()
#: Types that one engine has and another has not, and what comes nearest there.
NEAREST = {
    "postgres": {
        "TINYINT": "SMALLINT", "UTINYINT": "SMALLINT", "USMALLINT": "INTEGER", "UINTEGER": "BIGINT",
        "UBIGINT": "NUMERIC(20, 0)", "HUGEINT": "NUMERIC(39, 0)", "UHUGEINT": "NUMERIC(39, 0)", "FLOAT": "REAL",
        "DOUBLE": "DOUBLE PRECISION", "VARCHAR": "TEXT",
    },
    "spark": {
        "INTEGER": "int", "BIGINT": "bigint", "HUGEINT": "decimal(38,0)", "FLOAT": "float", "DOUBLE": "double",
        "VARCHAR": "string", "BOOLEAN": "boolean", "DECIMAL(18,3)": "decimal(18,3)",
    },
    "clickhouse": {
        "TINYINT": "Int8", "SMALLINT": "Int16", "INTEGER": "Int32", "BIGINT": "Int64", "HUGEINT": "Int128",
        "UTINYINT": "UInt8", "USMALLINT": "UInt16", "UINTEGER": "UInt32", "UBIGINT": "UInt64", "UHUGEINT": "UInt128",
        "FLOAT": "Float32", "DOUBLE": "Float64", "VARCHAR": "String", "BOOLEAN": "Bool", "DATE": "Date32",
    },
}  # fmt: skip


#: Columns that every table of PostgreSQL has already.
_TAKEN = {"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"}


def possible(engine: Engine, made: Table) -> bool:
    """Whether an engine can have a table whose columns have these names."""
    return engine.dialect != "postgres" or not _TAKEN & set(made.types)


def own_type(kind: str, dialect: str) -> str:
    """Return a DuckDB type in another engine's words."""
    if dialect == "duckdb":
        return kind
    nearest = NEAREST[dialect].get(kind)
    return nearest or sqlglot.exp.DataType.build(kind, dialect="duckdb").sql(dialect)


def put(engine: Engine, name: str, made: Table) -> None:
    """Create a table with these rows; in Spark, where statements are slow, a temporary view of them."""
    if engine.dialect == "spark":
        _view(engine, name, made)
        return
    if engine.dialect == "clickhouse":
        _clickhouse(engine, name, made)
        return
    kinds = {column: _enum(engine, kind) or own_type(kind, engine.dialect) for column, kind in made.types.items()}
    columns = ", ".join(f"{quote(column)} {kind}" for column, kind in kinds.items())
    full = f"{quote(engine.home)}.{quote(name)}"
    with engine.transaction() as transaction:
        transaction.run(f"DROP TABLE IF EXISTS {full}")
        transaction.run(f"CREATE TABLE {full} ({columns})")
        rows = list(zip(*made.columns.values(), strict=True))
        at_once = max(1, 20_000 // len(made.types))
        for start in range(0, len(rows), at_once):
            block = rows[start : start + at_once]
            marks = ", ".join("(" + ", ".join("?" for _ in made.types) + ")" for _ in block)
            values: list[Any] = [value for row in block for value in row]
            transaction.run(f"INSERT INTO {full} VALUES {marks}", values)


def run_in(engine: Any, *statements: str) -> None:
    """Run statements in any engine, one by one."""
    for statement in statements:
        if engine.dialect == "spark":
            engine.session.sql(statement)
        elif engine.dialect == "clickhouse":
            engine.session.query(statement)
        else:
            with engine.transaction() as transaction:
                transaction.run(statement)


def _view(engine: Any, name: str, made: Table) -> None:
    from pyspark.sql.types import StructField, StructType, _parse_datatype_string

    fields, columns = [], []
    for column, kind in made.types.items():
        own = "string" if kind.startswith("ENUM") else NEAREST["spark"].get(kind, kind.lower())
        fields.append(StructField(column, _parse_datatype_string(own)))
        exact = own.startswith("decimal")
        columns.append([value if value is None or not exact else Decimal(value) for value in made.columns[column]])
    rows = list(zip(*columns, strict=True))
    engine.session.createDataFrame(rows, StructType(fields)).createOrReplaceTempView(name)


def _clickhouse(engine: Any, name: str, made: Table) -> None:
    """Create the table from Arrow; wide numbers and dates go in as texts, and stay so where they are out of range."""
    import pyarrow

    kinds, columns = {}, {}
    for column, kind in made.types.items():
        values = made.columns[column]
        far = kind == "DATE" and any(day is not None and not 1900 <= day.year < 2300 for day in values)
        own = "String" if far else _enum8(kind) or own_type(kind, "clickhouse")
        kinds[column] = own if own.startswith("Nullable") else f"Nullable({own})"
        plain = own in ("Float32", "Float64", "Bool", "String") and not far
        cells = values if plain else [None if value is None else str(value) for value in values]
        columns[column] = pyarrow.array(
            cells, None if plain and any(c is not None for c in cells) else pyarrow.string()
        )
    whole = pyarrow.table(columns)
    full = f"{quote(engine.home)}.{quote(name)}"
    listed = ", ".join(f"{_escaped(column)} {kind}" for column, kind in kinds.items())
    engine.session.query(f"DROP TABLE IF EXISTS {full}")
    engine.session.query(f"CREATE TABLE {full} ({listed}) ENGINE = MergeTree ORDER BY tuple()")
    assert whole.num_rows == len(made.rows)
    engine.session.query(f"INSERT INTO {full} SELECT * FROM Python(whole)")


def _escaped(column: str) -> str:
    return quote(column).replace("\\", "\\\\")


def _enum8(kind: str) -> str | None:
    if not kind.startswith("ENUM"):
        return None
    labels = sqlglot.exp.DataType.build(kind, dialect="duckdb").expressions
    return f"Enum16({', '.join(label.sql('clickhouse') for label in labels)})"


def source_in(engine: Engine, schema: Schema, name: str) -> Source:
    """Return the table as the kernel reads it."""
    info = engine.table(name)
    assert info is not None
    types = {column.name: column.type for column in info.columns}
    place = table_reference(info.table, info.schema)
    return Source(schema, place, {}, integers=info.integers, decimals=info.decimals, types=types)


def _enum(engine: Engine, kind: str) -> str | None:
    """Create an ENUM type where it needs a name of its own, and return the name; labels are short there."""
    if engine.dialect != "postgres" or not kind.startswith("ENUM"):
        return None
    labels = sqlglot.exp.DataType.build(kind, dialect="duckdb").expressions
    if any(len(label.name.encode()) > 63 for label in labels):
        return "TEXT"
    name = f"enum_{next(_NUMBERS)}"
    with engine.transaction() as transaction:
        listed = ", ".join(label.sql("postgres") for label in labels)
        transaction.run(f"CREATE TYPE public.{name} AS ENUM ({listed})")
    return f"public.{name}"
