"""The command `readers`: all readers of one run on the same rows, the picked one among them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dpsql.methods.auto import auto
from dpsql.methods.auto.mixture_list import mixture_forest
from examples.benchmarks.readers import ReaderRun, _figure, mean_figures, readers, recorded_mixtures


def run(picked: int, on_all: list[float], halves: tuple[list[float], list[float]]) -> ReaderRun:
    """Return a run of three readers."""
    return ReaderRun(("a", "b", "c"), np.array(on_all), (np.array(halves[0]), np.array(halves[1])), picked)


def test_the_best_is_told_without_luck() -> None:
    """It is chosen on one half and measured on the other; the luckiest is chosen where it is measured."""
    first = run(0, [0.7, 0.8, 0.6], ([0.7, 0.9, 0.6], [0.7, 0.65, 0.75]))
    runs = [first, run(1, [0.6, 0.9, 0.5], ([0, 1, 0], [0, 1, 0]))]
    figure = _figure("t", "0.1", "1", runs)
    assert figure.picked == pytest.approx((0.7 + 0.9) / 2)
    assert figure.luckiest == pytest.approx((0.8 + 0.9) / 2)
    assert figure.best == pytest.approx(((0.65 + 0.6) / 2 + 1) / 2)
    assert figure.fixed == pytest.approx((0.8 + 0.9) / 2)
    [mean] = mean_figures([figure, figure])
    assert (mean.set, mean.runs, mean.picked) == ("mean", 4, figure.picked)


def test_recording_ends_with_the_run() -> None:
    """What mixes is only listened to inside."""
    with recorded_mixtures() as seen:
        assert vars(auto)["mixture_forest"] is not mixture_forest
    assert vars(auto)["mixture_forest"] is mixture_forest
    assert seen == {}


def test_the_command_measures_a_made_up_table(tmp_path: Path) -> None:
    """One split of the census: the picked reader is one of those that are measured."""
    asked = [
        "--data",
        str(tmp_path),
        "--sets",
        "census",
        "--rarer",
        "0.12",
        "--epsilon",
        "4",
        "--splits",
        "1",
        "--json",
    ]
    done = CliRunner().invoke(readers, asked, catch_exceptions=False)
    figures = json.loads(done.stdout)
    [figure] = figures["figures"]
    assert 0.5 < figure["picked"] <= figure["luckiest"] <= 1
    assert figures["means"][0]["picked"] == figure["picked"]


def test_without_a_table_the_command_says_what_to_do(tmp_path: Path) -> None:
    """Tables that are missing are named."""
    done = CliRunner().invoke(readers, ["--data", str(tmp_path), "--sets", "adult"])
    assert done.exit_code != 0
    assert "adult is skipped" in done.stderr
