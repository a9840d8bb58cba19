"""Draws results with matplotlib: panels of boxes, lines or bars, the paper's own figures as hollow diamonds."""

from __future__ import annotations

import importlib.util
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpsql import UsageError
from examples.papers.experiment import Experiment, Row, Summary

#: Okabe & Ito's colours, which colour-blind readers can tell apart.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
#: A vertical axis shows at least this many percent, so that chance does not look like a mountain.
LEAST_HEIGHT = 10


def draw(experiment: Experiment, rows: Sequence[Row], file: Path) -> None:
    """Write an experiment's picture to a PNG file."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("plots need matplotlib, which is not installed.", hint="pip install 'dpsql[plots]'")
    if not rows:
        raise UsageError(f"{experiment.name} has no results to draw.", hint=f"examples/papers run {experiment.name}")
    figure = canvas(experiment, rows)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)


def canvas(experiment: Experiment, rows: Sequence[Row]) -> Any:
    """Return the whole figure: one panel for each value of the picture's panel column, a title, one legend."""
    from matplotlib.figure import Figure

    picture = experiment.picture
    panels = seen(experiment, rows, picture.panel) if picture.panel else [""]
    across = len(panels) if len(panels) < 5 else 3 if len(panels) % 4 in (1, 2) else 4
    down = math.ceil(len(panels) / across)
    wide = max(3.4, 0.42 * len(places(experiment, rows)) + 1.2)
    size = (max(7.0, wide * across), 2.7 * down + 1.4)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(down, across, squeeze=False)
    for number, axes in enumerate(grid.flat):
        if number >= len(panels):
            axes.set_axis_off()
            continue
        inside = [row for row in rows if not picture.panel or row[picture.panel] == panels[number]]
        panel(axes, experiment, inside, places(experiment, rows), hues(experiment, rows))
        axes.set_title(panels[number], fontsize=10)
        if number + across >= len(panels):  # nothing below it
            axes.set_xlabel(picture.x_label, fontsize=9)
    label(figure, experiment, hues(experiment, rows))
    return figure


def panel(axes: Any, experiment: Experiment, rows: Sequence[Row], xs: list[str], colours: dict[str, str]) -> None:
    """Draw one panel: each hue in its colour, then the paper's points."""
    picture = experiment.picture
    draw_one = {"boxes": boxes, "lines": lines, "bars": bars}[picture.kind]
    for number, (hue, colour) in enumerate(colours.items()):
        part = [row for row in rows if not picture.hue or row[picture.hue] == hue]
        step = 0.8 / len(colours)
        offset = 0.0 if picture.kind == "lines" else (number - (len(colours) - 1) / 2) * step
        draw_one(axes, Summary(part, experiment.figures[0]), picture.x, xs, offset, step * 0.9, colour)
        papers_points(axes, experiment, part, xs, offset)
    shown = [picture.names.get(value, value) for value in xs]
    turned = max(map(len, shown)) > 5
    axes.set_xticks(range(len(xs)), shown, rotation=35 if turned else 0, ha="right" if turned else "center", fontsize=8)
    axes.set_xlim(-0.6, len(xs) - 0.4)
    low, high = axes.get_ylim()
    spare = max(0.0, LEAST_HEIGHT - (high - low)) / 2
    axes.set_ylim(low - (spare if low else 0), high + spare)
    axes.grid(axis="y", color="0.9")
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def boxes(axes: Any, summary: Summary, x: str, xs: list[str], offset: float, width: float, colour: str) -> None:
    """Draw a box of the five-number summary for each x; the whiskers reach to the least and the most."""
    for place, value in enumerate(xs):
        values = summary.values(**{x: value})
        if not values:
            continue
        line = {"color": colour}
        axes.boxplot(
            [values],
            positions=[place + offset],
            widths=width,
            whis=(0, 100),
            manage_ticks=False,
            patch_artist=True,
            boxprops={"facecolor": colour, "alpha": 0.35, "edgecolor": colour},
            medianprops={"color": colour, "linewidth": 1.8},
            whiskerprops=line,
            capprops=line,
        )


def lines(axes: Any, summary: Summary, x: str, xs: list[str], offset: float, width: float, colour: str) -> None:
    """Draw the means with one standard deviation either way; those of numbers are joined, names stand alone."""
    measured = [(place, value) for place, value in enumerate(xs) if summary.values(**{x: value})]
    for number in (True, False):
        part = [(place, value) for place, value in measured if value.replace(".", "").isdigit() is number]
        means = [summary.mean(**{x: value}) for _, value in part]
        spreads = [summary.spread(**{x: value}) for _, value in part]
        at = [place for place, _ in part]
        style = {"color": colour, "marker": "o", "markersize": 4, "linewidth": 1.4, "capsize": 2.5}
        axes.errorbar(at, means, spreads, **style)


def bars(axes: Any, summary: Summary, x: str, xs: list[str], offset: float, width: float, colour: str) -> None:
    """Draw a bar for each mean, with one standard deviation either way."""
    measured = [(place, value) for place, value in enumerate(xs) if summary.values(**{x: value})]
    means = [summary.mean(**{x: value}) for _, value in measured]
    spreads = [summary.spread(**{x: value}) for _, value in measured]
    at = [place + offset for place, _ in measured]
    axes.bar(at, means, width, yerr=spreads, color=colour, error_kw={"linewidth": 0.8, "capsize": 2}, alpha=0.85)


def papers_points(axes: Any, experiment: Experiment, rows: Sequence[Row], xs: list[str], offset: float) -> None:
    """Draw what the paper's text gives as hollow diamonds."""
    for given in experiment.given:
        at = [xs.index(value) + offset for value in {row[experiment.picture.x] for row in rows if given.fits(row)}]
        if not at:  # an empty line would stretch the layout
            continue
        axes.plot(
            at,
            [given.value] * len(at),
            "D",
            markerfacecolor="white",
            markeredgecolor="black",
            markersize=6,
            zorder=5,
            clip_on=False,
        )


def label(figure: Any, experiment: Experiment, colours: dict[str, str]) -> None:
    """Write title, axis labels and legend, the legend below the panels where it covers nothing."""
    from matplotlib.lines import Line2D

    picture = experiment.picture
    title = textwrap.fill(experiment.title, int(11 * figure.get_figwidth()))
    figure.suptitle(f"{experiment.paper}, {experiment.place}\n{title}", fontsize=11)
    figure.supylabel(picture.y_label, fontsize=9)
    handles = [
        Line2D([], [], color=colour, marker="s", linestyle="", label=f"{picture.hue.replace('_', ' ')}: {hue}")
        for hue, colour in colours.items()
        if picture.hue
    ]
    if experiment.given:
        hollow = {"marker": "D", "markerfacecolor": "white", "markeredgecolor": "black", "linestyle": ""}
        handles.append(Line2D([], [], label="the paper's figure", **hollow))
    if handles:
        figure.legend(
            handles=handles, loc="outside lower center", ncols=min(4, len(handles)), fontsize=8, frameon=False
        )


def places(experiment: Experiment, rows: Sequence[Row]) -> list[str]:
    """Return the values along the x axis."""
    return seen(experiment, rows, experiment.picture.x)


def hues(experiment: Experiment, rows: Sequence[Row]) -> dict[str, str]:
    """Return the colour of each value of the hue column; one colour where there is none."""
    values = seen(experiment, rows, experiment.picture.hue) if experiment.picture.hue else [""]
    return {value: COLOURS[number % len(COLOURS)] for number, value in enumerate(values)}


def seen(experiment: Experiment, rows: Sequence[Row], column: str) -> list[str]:
    """Return a column's values that have results, in the order of the experiment's grid."""
    order = [str(value) for value in experiment.grid[column]]
    values = {row[column] for row in rows}
    return [value for value in order if value in values] + sorted(values - set(order))
