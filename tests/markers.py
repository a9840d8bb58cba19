"""Which tests are `server`, `docs` and `property`, by what each of them uses, and which are `slow`, by a list."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

#: Engines and scoring databases, as they stand in the ids of parametrized tests, that run outside DuckDB and SQLite.
SERVERS = ("postgres", "spark", "chdb", "clickhouse", "mariadb")
#: Functions of `tests/servers.py` that start nothing.
_HARMLESS = {"absent", "free_port", "as_server_user"}
#: Folders, files and single tests (`file::test`) that take long as a whole, as measured in seconds of CPU time. What
#: they hold matters no less: everything runs before a change is finished.
SLOW = (
    "tests/api/test_estimator_checks.py",
    "tests/attacks",
    "tests/audit",
    "tests/bench",
    "tests/cli/test_forms.py",
    "tests/cli/test_label_commands.py",
    "tests/cli/test_long_commands.py",
    "tests/cli/test_party_commands.py",
    "tests/cli/test_private_values.py",
    "tests/cli/test_regression.py",
    "tests/compile/test_hostile_names.py",
    "tests/conformance",
    "tests/engines/test_duckdb_files.py",
    "tests/engines/test_interruption.py::test_ctrl_c_stops_a_run_at_once",
    "tests/kernel/test_neighbours.py",
    "tests/kernel/test_score_counts.py",
    "tests/kernel/test_unlabelled_rows.py",
    "tests/ledger/test_race.py",
    "tests/methods/mrf",
    "tests/methods/test_approximate.py",
    "tests/methods/test_contract.py",
    "tests/methods/test_spe.py::test_geometric_shares_find_better_medians_than_equal_ones",
    "tests/models/explain",
    "tests/models/test_export_sql.py",
    "tests/models/test_older_duckdb.py",
    "tests/papers",
    "tests/runs/test_label_rows.py",
    "tests/runs/test_private_evaluation.py",
    "tests/test_batch.py",
    "tests/test_dbt_example.py",
    "tests/test_first_notebook.py",
    "tests/test_exportsql_texts.py",
    "tests/test_files.py",
    "tests/test_hostile.py",
    "tests/test_hostile_names.py",
    "tests/test_quality.py::test_the_code_is_clean",
    "tests/test_race.py",
    "tests/test_regression_example.py",
)


def mark(item: pytest.Item) -> None:
    """Add to a test the markers that follow from what it is."""
    name = item.nodeid.partition("[")[0]
    if any(name == slow or name.startswith((f"{slow}::", f"{slow}/")) for slow in SLOW):
        item.add_marker(pytest.mark.slow)
    if name.startswith("tests/test_docs.py"):
        item.add_marker(pytest.mark.docs)
    if not isinstance(item, pytest.Function):
        return
    if getattr(item.function, "is_hypothesis_test", False):
        item.add_marker(pytest.mark.property)
    if any(item.path.stem.startswith(f"test_{server}") for server in SERVERS) or _needs_server(item):
        item.add_marker(pytest.mark.server)


def _needs_server(item: pytest.Function) -> bool:
    """Whether a test is parametrized by a server, or it or one of its fixtures calls what starts one."""
    parameters = item.callspec.id.split("-") if hasattr(item, "callspec") else []
    if any(word == server or word.startswith(f"{server}_") for word in parameters for server in SERVERS):
        return True
    if "duckdb" in parameters:  # the fixture can open servers, and opens DuckDB this time
        return False
    used = [_fixture(item.module, name) for name in item.fixturenames]
    return any(_starts_server(function, set()) for function in (item.function, *used) if function is not None)


def _fixture(module: ModuleType, name: str) -> FunctionType | None:
    """Return the function behind a fixture's name: the module's own, or that of the nearest conftest."""
    package = module.__name__.split(".")[:-1]
    conftests = [".".join([*package[:depth], "conftest"]) for depth in range(len(package), 0, -1)]
    for place in (module, *(sys.modules[known] for known in conftests if known in sys.modules)):
        if (fixture := getattr(place, name, None)) is not None:
            function = inspect.unwrap(fixture)
            return function if isinstance(function, FunctionType) else None
    return None


def _starts_server(function: FunctionType, seen: set[CodeType]) -> bool:
    """Whether a function calls one of `tests/servers.py` that starts a server, itself or through others."""
    function = getattr(getattr(function, "hypothesis", None), "inner_test", function)
    if function.__code__ in seen:
        return False
    seen.add(function.__code__)
    for called in _functions_named(function):
        if called.__module__ == "tests.servers":
            if called.__name__ not in _HARMLESS:
                return True
        elif called.__module__.startswith("tests.") and _starts_server(called, seen):
            return True
    return False


def _functions_named(function: FunctionType) -> Iterator[FunctionType]:
    """Yield the functions that the global names in a function's code stand for, those of modules included."""
    names = set(_names(function.__code__))
    for name in names:
        value: Any = function.__globals__.get(name)
        of_tests = isinstance(value, ModuleType) and value.__name__.startswith("tests.")
        for member in [vars(value).get(other) for other in names] if of_tests else [value]:
            unwrapped = inspect.unwrap(member) if callable(member) else member
            if isinstance(unwrapped, FunctionType) and unwrapped.__module__:
                yield unwrapped


def _names(code: CodeType) -> Iterator[str]:
    """Yield the global names and attributes in code and in the functions defined inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
