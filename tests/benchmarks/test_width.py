"""The command `width`: each width stands beside the schema's own bounds, and wrong widths are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpsql.errors import ParameterError
from examples.benchmarks.figures import Figure
from examples.benchmarks.width import compare_widths, width

FIGURE = Figure("auto", "1", "adult", 10, 84.0, 0.5, 0.2, 75.0, auc=0.89)


def test_losses_are_against_the_own_bounds() -> None:
    """What a width loses is the difference to the same table's figures with the schema's own bounds."""
    wide = replace(FIGURE, mean=82.5, auc=0.87)
    own, both = compare_widths([(False, 1.0, FIGURE), (False, 1000.0, wide)])
    assert (own.side, own.accuracy_lost, own.auc_lost) == ("own bounds", 0.0, 0.0)
    assert (both.side, both.times) == ("both", 1000.0)
    assert both.accuracy_lost == pytest.approx(1.5)
    assert both.auc_lost == pytest.approx(0.02)


def test_the_command_measures_each_width(tmp_path: Path) -> None:
    """One split of a made-up table, at its own bounds and on both sides of a width: three figures as JSON."""
    pytest.importorskip("sklearn")
    asked = ["--data", str(tmp_path), "--sets", "syn5d", "--times", "10", "--splits", "1", "--epsilon", "4", "--json"]
    done = CliRunner().invoke(width, asked, catch_exceptions=False)
    figures = json.loads(done.stdout)["figures"]
    assert [(figure["side"], figure["times"]) for figure in figures] == [
        ("own bounds", 1.0), ("both", 10.0), ("above", 10.0),
    ]  # fmt: skip
    assert all(50 < figure["accuracy"] <= 100 for figure in figures)


@pytest.mark.parametrize("times", ["wide", "0.5", "1e9", ""])
def test_a_width_must_be_a_number_from_one_on(tmp_path: Path, times: str) -> None:
    """What is no width is refused, with what is allowed."""
    pytest.importorskip("sklearn")
    with pytest.raises(ParameterError, match="numbers from 1"):
        CliRunner().invoke(
            width, ["--data", str(tmp_path), "--sets", "syn5d", "--times", times], catch_exceptions=False
        )
