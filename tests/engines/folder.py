"""Writes Parquet and CSV files for tests, with DuckDB and by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import sqlglot

from dpsql.engines.base import Engine
from dpsql.engines.open_engine import open_engine
from tests.engines.aggregate import aggregate

TWO = "SELECT range AS n, 'x' || range AS s FROM range(2)"


def parquet(path: Path, query: str = TWO) -> Path:
    """Write the rows of a query to a Parquet file, whatever its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = path.parent / "plain.parquet.part"
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({query}) TO '{plain}' (FORMAT parquet, ROW_GROUP_SIZE 2048)")
    return plain.rename(path)


def csv(path: Path, text: str | bytes = "n,s\n0,x0\n1,x1\n") -> Path:
    """Write a CSV file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def opened(target: Path, **options: Any) -> Engine:
    """Open files as `dpsql.connect` does."""
    return open_engine(
        target,
        create=False,
        read_only=options.get("read_only", False),
        wait=0,
        ledger=options.get("ledger"),
    )


def counted(engine: Engine, query: str) -> dict[str, Any]:
    """Return the first row of a query that is run as counting is."""
    found = aggregate(engine, sqlglot.parse_one(query, dialect="duckdb"), {})
    return {name: values[0] for name, values in found.items()}
