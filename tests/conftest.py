"""Fixtures shared by all tests: the engines, one after the other, and settings for property tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings

from dpsql.engines.base import Engine
from dpsql.engines.duckdb.engine import open_file

settings.register_profile(
    "dpsql",
    deadline=None,  # shared machines are slow at times; no test here is about seconds
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
settings.load_profile("dpsql")

#: Runs under the code of an earlier commit alone, so its imports fail here.
collect_ignore = ["upgrades/write_old_database.py"]

#: How to open each engine, empty. A database that is absent on this machine is skipped by name.
ENGINES: dict[str, Callable[[], Engine]] = {"duckdb": lambda: open_file(":memory:")}


@pytest.fixture(params=sorted(ENGINES))
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Open an empty database of each engine."""
    opened = ENGINES[request.param]()
    yield opened
    opened.close()
