"""Fixtures: a database file with one registered dataset, cap 2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.duckdb.open_database import open_file
from dpsql.ledger import Ledger, parse_epsilon

from .helpers import LENIENT


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the database file lies."""
    return tmp_path / "data.duckdb"


@pytest.fixture
def engine(path: Path) -> Iterator[DuckDBEngine]:
    """Open a new database file."""
    engine = open_file(path, create=True)
    yield engine
    engine.close()


@pytest.fixture
def ledger(engine: DuckDBEngine) -> Ledger:
    """Return a ledger with "adult" registered at cap 2 by ann."""
    ledger = Ledger(engine)
    ledger.register("adult", "adult", parse_epsilon("2"), {"label": "income"} | LENIENT, "ann")
    return ledger
