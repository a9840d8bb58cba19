"""Fixtures shared by all tests: the engines, one after the other, settings for property tests, and markers."""

from __future__ import annotations

import gc
import os
import re
import signal
from collections.abc import Callable, Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from dpsql.engines.base import Engine
from dpsql.engines.duckdb.open_database import open_file
from dpsql.ledger import odds
from dpsql.methods.shared import row_evidence
from dpsql.runs import noisy_domains
from tests.markers import mark
from tests.requirements import PACKAGES, missing_packages

settings.register_profile(
    "dpsql",
    deadline=None,  # shared machines are slow at times; no test here is about seconds
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
#: The most cases of a property test by profile, so that `make fast` takes minutes and CI ends in time.
MOST_CASES = {"fast": 10, "ci": 20}
for _name, _most in MOST_CASES.items():
    settings.register_profile(_name, settings.get_profile("dpsql"), max_examples=_most, database=None)
_PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "")
settings.load_profile(_PROFILE if _PROFILE in MOST_CASES else "dpsql")

# A shell that runs the suite in the background makes it ignore Ctrl-C, and with it every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

#: Runs under the code of an earlier commit alone, so its imports fail here.
collect_ignore = ["upgrades/write_old_database.py"]

#: Many tests take a large epsilon to see counts through the noise, and need not say that it is meant. Those on what is
#: said of large ones use the fixture `caps_in_words`.
_NOTED_ABOVE, odds.NOTED_ABOVE = odds.NOTED_ABOVE, 10**30

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
    """Mark every test by what it uses; no property test draws more cases than its profile allows."""
    for item in items:
        mark(item)
        if _PROFILE in MOST_CASES and item.get_closest_marker("property") and isinstance(item, pytest.Function):
            _draw_fewer(item)


def pytest_collection_finish() -> None:
    """Leave the twelve thousand collected tests out of every later search for garbage."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Let all be cleared away at the end."""
    gc.unfreeze()


def _draw_fewer(item: pytest.Function) -> None:
    """Bound the cases of a test that states a number of its own, which a profile alone does not reach."""
    stated: settings = item.function._hypothesis_internal_use_settings  # type: ignore[attr-defined]
    fewer = settings(stated, max_examples=min(stated.max_examples, MOST_CASES[_PROFILE]), database=None)
    item.function._hypothesis_internal_use_settings = fewer  # type: ignore[attr-defined]


@pytest.fixture(autouse=True, scope="session")
def tiny_tables_train() -> Iterator[None]:
    """Let runs on the tiny tables of tests go on: with a few dozen rows, noise alone decides whether a run stops.

    Tests of the stop itself set the limit back (`tests/runs/test_size_first.py`).
    """
    patch = pytest.MonkeyPatch()
    patch.setattr(row_evidence, "FEW_ROWS", -(10**9))
    patch.setattr(row_evidence, "DECLARED_SHARE", -(10**9))
    yield
    patch.undo()


@pytest.fixture
def steady_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let noise alone widen no bought bounds and list no cell of a hash, which it does now and then by design."""
    for name in ("MISTAKE", "NEAR_MISTAKE", "UNUSED_CELLS"):
        monkeypatch.setattr(noisy_domains, name, 1e-9)


@pytest.fixture
def caps_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold a test to what users are held to: a large epsilon is warned of, and a very large one must be meant."""
    monkeypatch.setattr(odds, "NOTED_ABOVE", _NOTED_ABOVE)


@pytest.fixture(params=sorted(ENGINES))
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Open an empty database of each engine."""
    opened = ENGINES[request.param]()
    yield opened
    opened.close()
