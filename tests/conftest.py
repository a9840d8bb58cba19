"""Fixtures shared by all tests: the engines, one after the other, settings for property tests, and markers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from dpsql.engines.base import Engine
from dpsql.engines.duckdb.engine import open_file
from tests.markers import mark
from tests.requirements import PACKAGES, missing_packages

settings.register_profile(
    "dpsql",
    deadline=None,  # shared machines are slow at times; no test here is about seconds
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
settings.register_profile("fast", settings.get_profile("dpsql"), max_examples=10, database=None)
FAST = os.environ.get("HYPOTHESIS_PROFILE") == "fast"
settings.load_profile("fast" if FAST else "dpsql")

#: Written for an older commit of dpsql and run by hand: not a module of today's tests.
collect_ignore = ["upgrades/write_old_database.py"]

#: Runs under the code of an earlier commit alone, so its imports fail here.
collect_ignore = ["upgrades/write_old_database.py"]

#: How to open each engine, empty. A database that is absent on this machine is skipped by name.
ENGINES: dict[str, Callable[[], Engine]] = {"duckdb": lambda: open_file(":memory:")}


def pytest_configure(config: pytest.Config) -> None:
    """Stop at once where DPSQL_REQUIRE names something that cannot be tested; then no import may fail either."""
    required = os.environ.get("DPSQL_REQUIRE", "")
    if sentences := missing_packages(required):
        raise pytest.UsageError("\n".join(sentences))
    if required:
        config.option.doctest_ignore_import_errors = False


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip a file by the name of the optional package that it imports and that is missing here.

    What DPSQL_REQUIRE names is never missing at this point: `pytest_configure` has looked.
    """
    report = yield
    missing = re.search(r"No module named '(\w+)", str(report.longrepr)) if report.failed else None
    if missing and missing.group(1) in {name for _, packages in PACKAGES.values() for name in packages}:
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: {missing.group(1)} is not installed")
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test by what it uses; in the fast profile no property test draws more than ten cases."""
    for item in items:
        mark(item)
        if FAST and item.get_closest_marker("property") and isinstance(item, pytest.Function):
            _draw_fewer(item)


def _draw_fewer(item: pytest.Function) -> None:
    """Bound the cases of a test that states a number of its own, which a profile alone does not reach."""
    stated: settings = item.function._hypothesis_internal_use_settings  # type: ignore[attr-defined]
    fewer = settings(stated, max_examples=min(stated.max_examples, 10), database=None)
    item.function._hypothesis_internal_use_settings = fewer  # type: ignore[attr-defined]


@pytest.fixture(params=sorted(ENGINES))
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Open an empty database of each engine."""
    opened = ENGINES[request.param]()
    yield opened
    opened.close()
