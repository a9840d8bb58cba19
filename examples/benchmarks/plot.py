"""Draws accuracy against epsilon with matplotlib: a panel for each table, a line with error bars for each method."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpsql.errors import ParameterError, UsageError
from examples.benchmarks.figures import Figure

#: Okabe & Ito's colours, which colour-blind readers can tell apart; each with a mark of its own.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKS = "osD^vP*X<>"
ENDINGS = (".png", ".svg", ".pdf")
REFERENCE, MAJORITY = "#999999", "#555555"
#: A vertical axis shows at least this many points, so that chance does not look like a mountain.
LEAST_HEIGHT = 10.0
#: Lines stand this factor of epsilon beside each other, so that their error bars do not hide one another.
BESIDE = 1.03


def check(file: Path) -> None:
    """Refuse a picture that cannot be drawn, before anything is measured."""
    if file.suffix.lower() not in ENDINGS:
        raise ParameterError("plot", allowed=f"a file that ends with {' or '.join(ENDINGS)}", given=str(file))
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("plots need matplotlib, which is not installed.", hint="pip install 'dpsql[plots]'")


def draw(file: Path, figures: Sequence[Figure], others: Sequence[Figure] = ()) -> None:
    """Write a picture of figures, the own ones in full lines and those of others in thin ones."""
    check(file)
    if not figures:
        raise UsageError("there are no figures to draw.", hint="run some splits first")
    file.parent.mkdir(parents=True, exist_ok=True)
    canvas(figures, others).savefig(file, dpi=110)


def canvas(figures: Sequence[Figure], others: Sequence[Figure] = ()) -> Any:
    """Return the whole figure: one panel for each table, one legend."""
    from matplotlib.figure import Figure as Canvas

    names = list(dict.fromkeys(figure.set for figure in figures))
    many = len(names) > 4  # then the legend takes the place of a panel, otherwise it stands below them
    across = columns(len(names) + 1) if many else len(names)
    down = math.ceil((len(names) + many) / across)
    size = (max(5.5, 2.9 * across), 2.5 * down + (0.3 if many else 1.4))
    picture = Canvas(figsize=size, layout="constrained")
    grid = picture.subplots(down, across, squeeze=False)
    styles = looks(figures, others)
    for number, axes in enumerate(grid.flat):
        if number >= len(names):
            axes.set_axis_off()
            continue
        own = [figure for figure in figures if figure.set == names[number]]
        panel(axes, own, [figure for figure in others if figure.set == names[number]], styles)
        if number % across == 0:
            axes.set_ylabel("accuracy, %", fontsize=9)
        if number + across >= len(names):
            axes.set_xlabel("epsilon", fontsize=9)
    _legend(picture, grid.flat[len(names)] if many else None, figures, styles)
    return picture


def columns(panels: int) -> int:
    """Return how many panels stand in a line: 3 to 5, so that few places stay empty.

    >>> [columns(panels) for panels in (6, 8, 9, 14, 17)]
    [3, 4, 3, 5, 3]
    """
    return min((5, 4, 3), key=lambda across: (-panels % across, across > panels))


def looks(figures: Sequence[Figure], others: Sequence[Figure]) -> dict[str, dict[str, Any]]:
    """Return how the line of each method looks: colour, mark, width."""
    own = list(dict.fromkeys(figure.method for figure in figures))
    theirs = [name for name in dict.fromkeys(figure.method for figure in others) if name not in own]
    return {
        name: {
            "color": COLOURS[place % len(COLOURS)],
            "marker": MARKS[place % len(MARKS)],
            "linewidth": 2.0 if name in own else 1.0,
            "linestyle": "-" if name in own else "-.",
            "markersize": 5 if name in own else 4,
            "capsize": 2.5,
            "elinewidth": 1.0,
            "zorder": 4 if name in own else 3,
        }
        for place, name in enumerate([*own, *theirs])
    }


def panel(axes: Any, own: Sequence[Figure], others: Sequence[Figure], styles: dict[str, dict[str, Any]]) -> None:
    """Draw one table: the majority class, the reference, each method."""
    axes.axhline(own[0].majority, color=MAJORITY, linestyle="--", linewidth=1, zorder=1)
    for name in dict.fromkeys(figure.method for figure in own):
        _reference(axes, [figure for figure in own if figure.method == name])
    for place, (name, style) in enumerate(styles.items()):
        points = sorted(
            (figure for figure in [*own, *others] if figure.method == name), key=lambda figure: float(figure.epsilon)
        )
        if points:
            beside = BESIDE ** (place - (len(styles) - 1) / 2)
            errors = [figure.standard_error or 0.0 for figure in points]
            epsilons = [float(figure.epsilon) * beside for figure in points]
            axes.errorbar(epsilons, [figure.mean for figure in points], yerr=errors, **style)
    _axes(axes, own)


def _reference(axes: Any, points: Sequence[Figure]) -> None:
    reference_points = sorted(
        (float(figure.epsilon), figure.reference) for figure in points if figure.reference is not None
    )
    if reference_points:
        line = {"color": REFERENCE, "linewidth": 1.2, "zorder": 2, "marker": "_", "markersize": 9}
        axes.plot([epsilon for epsilon, _ in reference_points], [value for _, value in reference_points], **line)


def _axes(axes: Any, own: Sequence[Figure]) -> None:
    epsilons = sorted({float(figure.epsilon) for figure in own})
    axes.set_title(own[0].set, fontsize=10)
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.set_xlim(epsilons[0] / 1.35, epsilons[-1] * 1.35)
    lower, upper = axes.get_ylim()
    missing = max(0.0, LEAST_HEIGHT - (upper - lower)) / 2
    axes.set_ylim(max(-1.0, lower - missing), min(101.0, upper + missing))
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _legend(picture: Any, place: Any, figures: Sequence[Figure], styles: dict[str, dict[str, Any]]) -> None:
    """Put the legend where a panel would be, or below a few panels."""
    from matplotlib.lines import Line2D

    keys = ("color", "marker", "linewidth", "linestyle", "markersize")
    lines = {name: Line2D([], [], **{key: style[key] for key in keys}) for name, style in styles.items()}
    if any(figure.reference is not None for figure in figures):
        lines["reference"] = Line2D([], [], color=REFERENCE, linewidth=1.2, marker="_", markersize=9)
    lines["largest class"] = Line2D([], [], color=MAJORITY, linestyle="--", linewidth=1)
    words = {"fontsize": 9, "frameon": False, "title": "bars: standard error", "title_fontsize": 8}
    if place is None:
        picture.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=3, **words)
    else:
        place.legend(lines.values(), lines.keys(), loc="center", **words)
