"""Tests of the picture of accuracy against epsilon."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from dpsql.errors import UsageError
from examples.benchmarks import plot
from examples.benchmarks.figures import Figure

pytest.importorskip("matplotlib")


def figures(method: str, *sets: str, reference: float | None = None) -> list[Figure]:
    """Return two figures for each table: 70 ± 2 at epsilon 0.1 and 80 ± 1 at epsilon 1."""
    return [
        Figure(method, epsilon, name, 3, mean, None, error, 55.0, reference)
        for name in sets
        for epsilon, mean, error in (("1", 80.0, 1.0), ("0.1", 70.0, 2.0))
    ]


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_picture_is_written(tmp_path: Path, ending: str) -> None:
    """Into a folder that need not exist."""
    plot.draw(tmp_path / "deep" / f"picture.{ending}", figures("rdt", "iris"))
    data = (tmp_path / "deep" / f"picture.{ending}").read_bytes()
    assert data.startswith(b"\x89PNG" if ending == "png" else b"<?xml")


@pytest.mark.parametrize("count", [1, 2, 4, 5, 8, 13])
def test_every_table_has_a_panel(count: int) -> None:
    """Named above it, with epsilon on a logarithmic axis; the legend has a place of its own."""
    names = [f"set{place}" for place in range(count)]
    drawn = plot.canvas(figures("rdt", *names))
    panels = [axes for axes in drawn.axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == names
    assert {axes.get_xscale() for axes in panels} == {"log"}
    assert all(axes.get_legend() is None for axes in panels)
    legends = [axes.get_legend() for axes in drawn.axes if axes.get_legend()] + drawn.legends
    assert [[text.get_text() for text in one.get_texts()] for one in legends] == [["rdt", "largest class"]]


def test_a_line_has_its_points_in_order_and_its_error_bars() -> None:
    """Means by epsilon, a bar of one standard error up and down."""
    axes = plot.canvas(figures("rdt", "iris")).axes[0]
    line, _, (bars,) = axes.containers[0].lines
    assert [list(line.get_xdata()), list(line.get_ydata())] == [[0.1, 1.0], [70.0, 80.0]]
    assert [[float(y) for _, y in bar] for bar in bars.get_segments()] == [[68.0, 72.0], [79.0, 81.0]]


def test_majority_is_dashed_and_the_reference_is_grey() -> None:
    """Both are drawn in every panel where they are known."""
    axes = plot.canvas(figures("rdt", "iris", reference=75.0)).axes[0]
    dashed = [line for line in axes.lines if line.get_linestyle() == "--"]
    grey = [line for line in axes.lines if line.get_color() == plot.REFERENCE]
    assert [set(line.get_ydata()) for line in dashed] == [{55.0}]
    assert [set(line.get_ydata()) for line in grey] == [{75.0}]


def test_others_are_thinner_and_look_different() -> None:
    """No two lines share colour and mark; a peer that was run now is drawn once."""
    styles = plot.looks(
        figures("rdt", "iris") + figures("dpebm", "iris"), figures("dpebm", "iris") + figures("x", "iris")
    )
    assert [styles[name]["linewidth"] for name in ("rdt", "dpebm", "x")] == [2.0, 2.0, 1.0]
    assert len({(style["color"], style["marker"]) for style in styles.values()}) == 3


def test_without_matplotlib_a_picture_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the way to install it."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"dpsql\[plots\]"):
        plot.check(Path("picture.png"))


def test_nothing_cannot_be_drawn(tmp_path: Path) -> None:
    """An empty picture would be no help."""
    with pytest.raises(UsageError, match="no figures"):
        plot.draw(tmp_path / "picture.png", [])
