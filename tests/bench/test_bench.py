"""Tests of `python -m dpsql.bench`: what it prints, never how fast the machine is."""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from dpsql.bench import counts, growth, noise_speed
from dpsql.bench.__main__ import run_bench
from dpsql.bench.clock import least


def output(*words: str) -> str:
    """Run the command in this process and return what it prints."""
    result = CliRunner().invoke(run_bench, list(words), catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


@pytest.fixture(scope="module")
def counted() -> dict[str, Any]:
    """Return the counting figures of a small run."""
    found: dict[str, Any] = json.loads(output("counts", "--short", "--json"))
    return found


@pytest.fixture(scope="module")
def drawn() -> dict[str, Any]:
    """Return the noise figures of a small run."""
    found: dict[str, Any] = json.loads(output("noise", "--short", "--json"))
    return found


@pytest.fixture
def without_opendp(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let OpenDP seem not to be installed."""
    found: Callable[..., object] = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "opendp" else found(name))


def figures(value: object) -> Iterator[float]:
    """Yield every number in plain values."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from figures(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def test_every_case_is_reported(counted: dict[str, Any]) -> None:
    """One line per case, in the order of the cases."""
    shape = [(one["case"]["trees"], one["case"]["depth"], one["case"]["shared"]) for one in counted["cases"]]
    assert shape == [(case.trees, case.depth, case.shared) for case in counts.CASES]


def test_the_cases_of_the_goals_are_there() -> None:
    """Goals stand beside the forests they were set for."""
    goals = {(case.trees, case.depth): case.goal for case in counts.CASES if case.goal}
    assert goals == {(10, 8): 9, (100, 8): 9, (100, 12): 20}


def test_counting_figures_are_finite(counted: dict[str, Any]) -> None:
    """No figure is infinite, negative or missing a number."""
    assert all(math.isfinite(figure) and figure >= 0 for figure in figures(counted))


@pytest.mark.parametrize("name", ["statement_s", "loading_s", "total_s", "growth_s", "planning_seconds"])
def test_ratios_of_counted_cases_are_positive(counted: dict[str, Any], name: str) -> None:
    """Every case that is counted has its ratios."""
    assert all(one[name] > 0 for one in counted["cases"] if one["case"]["counted"])


def test_goal_cases_reach_their_depth(counted: dict[str, Any]) -> None:
    """A forest with a goal is as deep as the goal says: no limit cuts it."""
    assert all(one["grown_depth"] == one["case"]["depth"] for one in counted["cases"] if one["case"]["goal"])


def test_text_length_does_not_grow_with_trees(counted: dict[str, Any]) -> None:
    """A hundred times as many trees make the statement a few digits longer."""
    length = {one["case"]["trees"]: one["sql_characters"] for one in counted["cases"] if one["case"]["depth"] == 8}
    assert abs(length[1000] - length[10]) < 20


def test_counts_table_names_the_goals() -> None:
    """The printed table has a title, the unit and the goals."""
    printed = output("counts", "--rows", "2000", "--repeat", "1")
    assert "2,000 rows" in printed
    assert all(word in printed for word in ("statement S", "goal S", "planning s"))


def test_noise_figures_are_finite_and_positive(drawn: dict[str, Any]) -> None:
    """Every time and every ratio is a positive number."""
    assert all(math.isfinite(figure) and figure > 0 for figure in figures(drawn))


def test_every_scale_is_reported(drawn: dict[str, Any]) -> None:
    """One line per scale, the awkward one included."""
    assert [one["scale"] for one in drawn["discrete_laplace"]] == [str(scale) for scale in noise_speed.SCALES]


def test_noise_compares_with_opendp(drawn: dict[str, Any]) -> None:
    """Where OpenDP is installed, its time over ours is reported."""
    pytest.importorskip("opendp")
    assert all(one["ratio"] == one["opendp_seconds"] / one["seconds"] for one in drawn["discrete_laplace"])


@pytest.mark.usefixtures("without_opendp")
def test_missing_opendp_is_skipped_by_name() -> None:
    """Without OpenDP the table says so and goes on."""
    assert "skipped: opendp is not installed" in output("noise", "--draws", "1000", "--repeat", "1")


def test_rounds_take_turns() -> None:
    """Every round does each act once, so that noise on the machine hits all alike."""
    order: list[str] = []
    least({name: lambda name=name: order.append(name) for name in "ab"}, repeat=3)  # type: ignore[misc]
    assert order == list("ababab")


def test_growing_trees_is_measured_at_two_sizes() -> None:
    """Each method stands there at a quarter of the rows and at all of them, with its own scan and a positive figure."""
    found = json.loads(output("growth", "--short", "--json"))["cases"]
    assert [(one["method"], one["rows"]) for one in found] == [
        (case.method, rows) for rows in (10_000, 40_000) for case in growth.CASES
    ]
    assert all(one["total_s"] > 0 and one["s_seconds"] > 0 for one in found)
