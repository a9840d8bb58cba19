"""Tests of what splits add up to, and of the figures that the package brings along."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.benchmarks import peers
from examples.benchmarks.figures import Figure, figure, means, read, recorded_figures, references, write
from examples.benchmarks.splits import REAL

BINARY = ("adult", "mushroom", "magic04", "votes", "heart_mrf")


def cell(*accuracies: float, size: int = 5000, reference: float | None = None, name: str = "iris") -> Figure:
    """Return the figure of splits with these accuracies in %."""
    rows = [{"accuracy": str(one / 100), "majority": "0.5"} for one in accuracies]
    return figure("rdt", "1", name, rows, size=size, reference=reference)


@pytest.mark.parametrize(
    ("accuracies", "size", "reached"),
    [
        ((79, 79.2), 5000, "yes"),
        ((78.9, 78.9), 5000, "no"),
        ((76, 81), 5000, "within noise"),
        ((77.1, 77.1), 999, "yes"),
        ((76.9, 76.9), 999, "no"),
        ((99, 99), 5000, "yes"),
        ((70,), 5000, "one split"),
    ],
)
def test_a_reference_is_reached_less_a_point(accuracies: tuple[float, ...], size: int, reached: str) -> None:
    """Of a reference of 80, 79 is enough, and 77 below 1000 rows; better is never a miss, as it may be for the band."""
    assert cell(*accuracies, size=size, reference=80).reached == reached


def test_what_is_far_better_is_out_of_band_but_reached() -> None:
    """The band asks whether two implementations agree, the goal whether one is good."""
    found = cell(99, 99, reference=80)
    assert (found.in_band, found.reached) == ("no", "yes")


def test_means_are_over_the_tables_with_a_reference() -> None:
    """Both means are over the same tables, and the cells that reach their reference are counted."""
    cells = [cell(80, 80, reference=81), cell(60, 60, reference=71), cell(10, 10)]
    found = means(cells)
    assert [(one.sets, one.reached) for one in found] == [(2, 1)]
    assert (found[0].mean, found[0].reference, found[0].difference) == (pytest.approx(70), 76, pytest.approx(-6))


def test_without_references_the_mean_is_over_all_tables() -> None:
    """There is nothing to compare with, but a mean."""
    found = means([cell(80), cell(60)])
    assert [(one.sets, one.mean, one.reference, one.reached) for one in found] == [(2, 70, None, None)]


def test_other_figures_are_means_of_the_splits_that_have_them() -> None:
    """Rows of an old file do not count as zeros."""
    rows = [
        {"accuracy": "0.5", "majority": "0.5", "auc": text, "balanced_accuracy": text} for text in ("", "0.6", "0.8")
    ]
    found = figure("rdt", "1", "iris", rows, size=150, reference=None)
    assert (found.auc, found.balanced_accuracy, found.brier) == (pytest.approx(0.7), pytest.approx(70), None)


def test_figures_read_back(tmp_path: Path) -> None:
    """Remarks are passed over, unknown figures stay unknown."""
    write(tmp_path / "deep" / "file.csv", [cell(70, 72), cell(70)], remarks=["by hand"])
    assert (tmp_path / "deep" / "file.csv").read_text(encoding="utf-8").startswith("# by hand\nmethod,")
    assert [(one.mean, one.standard_error, one.auc) for one in read(tmp_path / "deep" / "file.csv")] == [
        (71.0, 1.0, None),
        (70.0, None, None),
    ]


def test_peers_are_recorded_on_every_real_table() -> None:
    """At the four epsilons, with at least three splits each; DP-EBM on the tables of two classes."""
    asked = [
        Figure("auto", epsilon, name, 1, 50, None, None, 50) for epsilon in ("0.1", "0.5", "1", "2") for name in REAL
    ]
    found = {(one.method, one.epsilon, one.set): one for one in recorded_figures(asked)}
    for name in peers.NAMES:
        wanted = {(name, one.epsilon, one.set) for one in asked if name not in peers.BINARY or one.set in BINARY}
        assert {key for key in found if key[0] == name} == wanted
    assert all(one.splits >= 3 and one.standard_error is not None and one.auc is not None for one in found.values())


def test_recorded_peers_can_be_left_out() -> None:
    """Those that were run now are not shown twice."""
    asked = [Figure("dpebm", "1", "adult", 1, 50, None, None, 50)]
    assert {one.method for one in recorded_figures(asked, without=["dpebm"])} == set(peers.NAMES) - {"dpebm"}


@pytest.mark.parametrize(
    ("epsilon", "name", "accuracy"), [(0.1, "adult", 81.9), (0.5, "wine", 64.9), (1, "car", 82.0), (2, "iris", 93.5)]
)
def test_the_prototype_of_auto_is_the_reference(epsilon: float, name: str, accuracy: float) -> None:
    """Its figures are there at all four epsilons for all real tables."""
    assert references()["auto", epsilon, name] == accuracy
    assert all(("auto", epsilon, other) in references() for other in REAL)
