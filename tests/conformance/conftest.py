"""Every engine, one after the other: each test gets a way to open empty databases of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from dpsql.engines.base import Engine
from dpsql.engines.duckdb.engine import open_file
from dpsql.engines.open_engine import open_engine
from tests.servers import chdb, fresh_database, spark

#: How to open an empty database of each engine.
OPEN: dict[str, Callable[[], Engine]] = {
    "chdb": lambda: open_engine(chdb(), ledger=":memory:"),
    "duckdb": lambda: open_file(":memory:"),
    "postgres": lambda: open_engine(fresh_database()),
    "spark": lambda: open_engine(spark().newSession(), ledger=":memory:"),  # temporary views of its own
}


@pytest.fixture(params=sorted(OPEN))
def make_engine(request: pytest.FixtureRequest) -> Callable[[], Engine]:
    """Return how to open an empty database of one engine."""
    return OPEN[request.param]


@pytest.fixture
def duckdb_engine() -> Iterator[Engine]:
    """Open an empty DuckDB, to compare with."""
    opened = open_file(":memory:")
    yield opened
    opened.close()


@pytest.fixture
def engine(make_engine: Callable[[], Engine]) -> Iterator[Engine]:
    """Open an empty database of each engine."""
    opened = make_engine()
    yield opened
    opened.close()
