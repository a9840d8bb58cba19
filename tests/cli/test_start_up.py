"""Tests of what the program loads before it does anything."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dpsql.bench.start_up import BASE, LIGHT, STARTS, measure_starts
from dpsql.bench.start_up_commands import HERE, start_table

from .conftest import Cli

#: What no start may load: packages that do work, and the rooms of dpsql in which they are used.
HEAVY = ("numpy", "pandas", "duckdb", "sqlglot", "yaml", "rich", "pyarrow", "matplotlib", "sklearn")
ROOMS = tuple(f"dpsql.{name}" for name in ("methods", "kernel", "engines", "models", "runs", "ledger", "api", "bench"))
#: Runs a command as `python -m dpsql` does, and then says on stderr which of the modules named first are loaded.
SCRIPT = """
import runpy, sys
unwanted, sys.argv = sys.argv[1].split(), sys.argv[1:]
try:
    runpy.run_module("dpsql", run_name="__main__")
finally:
    print(*(name for name in unwanted if name in sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize("name", [name for name in LIGHT if STARTS[name][0][0] == "-m"])
def test_a_start_loads_no_more_than_the_list_of_commands(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Help, version and completion of commands load neither numpy nor any room that does work."""
    words, environment = STARTS[name]
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    command = [sys.executable, "-c", SCRIPT, " ".join((*HEAVY, *ROOMS)), *words[2:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert done.stderr == "\n"


def test_a_mistyped_command_is_answered_as_lightly() -> None:
    """The nearest names are known without loading a command."""
    command = [sys.executable, "-c", SCRIPT, " ".join((*HEAVY, *ROOMS)), "trian"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "'train'" in done.stderr
    assert done.stderr.endswith("\n\n")


def test_the_package_itself_loads_nothing_that_it_may_not_need() -> None:
    """`import dpsql` loads no other module of dpsql."""
    script = "import sys, dpsql; print(*(name for name in sys.modules if name.split('.')[0] in sys.argv[1:]))"
    command = [sys.executable, "-c", script, *HEAVY, "dpsql", "click"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "dpsql\n"


def test_a_start_costs_at_most_twice_an_interpreter_with_click_and_rich() -> None:
    """In CPU time, the least of a few rounds; a few more where the machine was busy."""
    for _ in range(4):
        figures = measure_starts({"here": HERE}, repeat=3, names=LIGHT)
        ratios = {name: costs["here"]["ratio"] for name, costs in figures["starts"].items()}
        if max(ratios.values()) <= 2:
            break
    assert max(ratios.values()) <= 2, ratios


def test_the_bench_gives_each_start_as_a_multiple(cli: Cli) -> None:
    """`dpsql bench start --json` has every start, in seconds and in units of the base."""
    figures = cli("bench", "start", "--repeat", "1", "--json", db=None).json
    assert figures["base"] == BASE
    assert set(figures["starts"]) == set(STARTS)
    for cost in (costs["here"] for costs in figures["starts"].values()):
        assert cost["ratio"] == pytest.approx(cost["seconds"] / figures["base_seconds"], abs=0.1)


def test_two_working_copies_stand_beside_each_other() -> None:
    """Each has a column of its own."""
    trees = {"here": HERE, "there": HERE}
    table = start_table(measure_starts(trees, repeat=1, names=("import dpsql",)))
    assert [column.header for column in table.columns] == ["start", "here", "there"]
    assert table.row_count == 1


def test_another_working_copy_must_be_there(cli: Cli) -> None:
    """A folder that is not there is wrong usage."""
    ran = cli("bench", "start", "--beside", "nowhere", db=None)
    assert (ran.code, ran.out) == (2, "")
    assert "'nowhere' does not exist" in ran.err
