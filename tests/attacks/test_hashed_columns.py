"""Hashed categories: what could give a value two cells, or fail on a row, is refused before anything is charged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpsql
from dpsql.api.database import Database
from dpsql.compile.rows import EVERY_UNIT
from dpsql.errors import SchemaError
from dpsql.kernel.exact import Rows
from dpsql.schema import Hashed, Schema
from dpsql.trees.forest import Forest, Level, bits
from dpsql.trees.grid import axes
from tests.conformance.tables import run_in, source_in
from tests.servers import OPEN_EMPTY, postgres

#: Columns that cannot be hashed, by engine: what each type is called there.
REFUSED = {
    "duckdb": ("DOUBLE", "DECIMAL(9, 2)", "BOOLEAN", "TIMESTAMP", "UUID", "BLOB"),
    "postgres": ("FLOAT8", "NUMERIC", "BOOLEAN", "TIMESTAMP", "UUID", "BYTEA", "BPCHAR"),
    "chdb": ("Float64", "Decimal(9, 2)", "Bool", "DateTime", "UUID"),
}


def schema(column: str = "odd") -> dict[str, Any]:
    """Return a schema with one hashed feature."""
    return {"label": "y", "classes": ["no", "yes"], "features": {column: {"type": "hashed"}}}


@pytest.fixture(params=sorted(REFUSED))
def database(request: pytest.FixtureRequest) -> Iterator[tuple[str, Database]]:
    """Open an empty database of each engine, with its name."""
    with Database(OPEN_EMPTY[request.param](), who="ann") as opened:
        yield request.param, opened
        run_in(opened.engine, f"DROP TABLE IF EXISTS {opened.engine.home}.people")


def test_a_column_without_one_text_is_refused(database: tuple[str, Database]) -> None:
    """Numbers with fractions, booleans, times and bytes: the reason is said, and no budget is opened."""
    name, db = database
    ending = " ENGINE = MergeTree ORDER BY tuple()" if name == "chdb" else ""
    text = "String" if name == "chdb" else "TEXT"
    for kind in REFUSED[name]:
        run_in(db.engine, f"DROP TABLE IF EXISTS {db.engine.home}.people")
        run_in(db.engine, f"CREATE TABLE {db.engine.home}.people (odd {kind}, y {text}){ending}")
        with pytest.raises(SchemaError, match="cannot be a hashed feature: "):
            db.register("people", schema(), cap=1)
        assert db.budgets() == []


def test_texts_in_another_encoding_are_refused() -> None:
    """MD5 takes the bytes that PostgreSQL stores: in LATIN1 they are not those of UTF-8, and converting can fail."""
    psycopg = pytest.importorskip("psycopg")
    place = f"latin{os.getpid()}"
    with psycopg.connect(f"{postgres()}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {place} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    with dpsql.connect(f"{postgres()}/{place}") as db:
        run_in(db.engine, "CREATE TABLE public.people (odd TEXT, number BIGINT, y TEXT)")
        with pytest.raises(SchemaError, match="LATIN1"):
            db.register("people", schema(), cap=1)
        db.register("people", schema("number"), cap=1)


def counts_by_cell(db: Database, column: str, cells: int = 63) -> list[int]:
    """Return the exact count of each cell of a hashed column of the table "people"."""
    declared = Schema("y", ("no", "yes"), (Hashed(column, cells),))
    places = np.arange(64)
    planes = np.stack([bits((places >> plane & 1 == 1)[None, :]) for plane in range(6)])
    level = Level(np.zeros(1, np.int16), np.array([64], np.uint8), planes)
    rows = Rows(db.engine, source_in(db.engine, declared, "people"), {})
    try:
        return [int(n) for n in rows.leaf_counts(Forest(axes(declared), 1, (level,)), EVERY_UNIT, shared=True).sum(1)]
    finally:
        rows.close()


def test_bytes_that_are_no_text_do_not_fail() -> None:
    """ClickHouse stores any bytes as text: each has a cell."""
    with Database(OPEN_EMPTY["chdb"](), who="ann") as db:
        full = f"{db.engine.home}.people"
        run_in(db.engine, f"DROP TABLE IF EXISTS {full}")
        run_in(db.engine, f"CREATE TABLE {full} (odd Nullable(String), y String) ENGINE = MergeTree ORDER BY tuple()")
        run_in(db.engine, f"INSERT INTO {full} VALUES (unhex('ff00fe'), 'no'), (unhex('c3'), 'no'), (NULL, 'yes')")
        counted = counts_by_cell(db, "odd")
        run_in(db.engine, f"DROP TABLE {full}")
    assert sum(counted) == 3
    assert counted[63] == 1


@pytest.mark.parametrize("name", ["duckdb", "postgres"])
def test_a_cell_of_many_megabytes_does_not_fail(name: str) -> None:
    """A very long text is hashed like any other."""
    with Database(OPEN_EMPTY[name](), who="ann") as db:
        full = f"{db.engine.home}.people"
        run_in(db.engine, f"CREATE TABLE {full} (odd TEXT, y TEXT)")
        run_in(db.engine, f"INSERT INTO {full} SELECT REPEAT('0123456789', 5000000), 'no'")
        counted = counts_by_cell(db, "odd")
        run_in(db.engine, f"DROP TABLE {full}")
    assert counted[Hashed("odd").cell("0123456789" * 5_000_000)] == 1
    assert sum(counted) == 1


def test_a_text_with_a_zero_byte_is_hashed_whole(tmp_path: Path) -> None:
    """DuckDB stores NUL inside a text; what follows it counts."""
    with dpsql.connect(tmp_path / "a.duckdb", create=True) as db:
        run_in(db.engine, "CREATE TABLE main.people (odd VARCHAR, y VARCHAR)")
        run_in(db.engine, "INSERT INTO main.people VALUES ('a' || chr(0) || 'b', 'no')")
        assert counts_by_cell(db, "odd").index(1) == Hashed("odd").cell("a\0b")
