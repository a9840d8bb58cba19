"""Every engine, one after the other: each test gets a way to open empty databases of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from dpsql.engines.base import Engine
from dpsql.engines.duckdb.open_database import open_file
from tests.servers import OPEN_EMPTY


@pytest.fixture(params=sorted(OPEN_EMPTY))
def make_engine(request: pytest.FixtureRequest) -> Callable[[], Engine]:
    """Return how to open an empty database of one engine."""
    return OPEN_EMPTY[request.param]


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
