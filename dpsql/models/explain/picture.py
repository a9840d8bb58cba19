"""Draws an explanation with matplotlib: bars of importance, and a panel for each of the most important features."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsql.errors import ParameterError
from dpsql.models.notebook_figure import check_matplotlib, new_figure, root_figure, text_as_is
from dpsql.schema.dated import tick_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpsql.models.explain.explanation_values import Effect, Group, Learned

#: Okabe & Ito's colours, which colour-blind readers can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
#: The mark of each class, in the order of the colours.
MARKS = ("o", "s", "^", "D", "v")
#: The colour of averages, remarks, and features that noise drowned.
_GREY = "#767676"
#: The features that have a panel, unless the caller asks for more.
PANELS = 6
#: The most bars of importance.
_BARS = 14
#: The most rows of a panel of categories.
_ROWS = 10
#: The most letters of a name.
_LETTERS = 22
#: The standard error from which a group is drawn pale.
_PALE = 0.2


def draw_explanation(
    learned: Learned, file: str | Path | None = None, *, top: int = PANELS, axes: Axes | None = None
) -> Figure:
    """Return the picture, written to a new PNG file if one is named; with `axes` its bars alone are drawn on them."""
    check_matplotlib()
    if file is None:
        return explanation_figure(learned, top) if axes is None else _bars_on(axes, learned)
    path = Path(file)
    if path.suffix.lower() != ".png":
        raise ParameterError("plot", allowed="a file whose name ends in .png", given=str(file))
    figure = explanation_figure(learned, top) if axes is None else _bars_on(axes, learned)
    try:
        with path.open("xb") as opened:
            figure.savefig(opened, dpi=120, format="png")
    except FileExistsError:
        raise ParameterError("plot", allowed="a new file; this one exists", given=str(file)) from None
    except OSError as error:
        allowed = f"a file that can be written ({error.strerror})"
        raise ParameterError("plot", allowed=allowed, given=str(file)) from None
    return figure


def _bars_on(axes: Axes, learned: Learned) -> Figure:
    """Draw the bars of importance on axes of the caller's, and return their figure."""
    _bars(axes, learned)
    return root_figure(axes)


def explanation_figure(learned: Learned, top: int = PANELS) -> Figure:
    """Return the whole figure: bars on the left, panels on the right, one legend."""
    shown = [effect for effect in learned.effects[:top] if effect.importance > 0]
    down = max(1, math.ceil(len(shown) / 2))
    figure = new_figure(figsize=(14, max(4.6, 2.9 * down + 1.3)), layout="constrained")
    figure.suptitle(_title(learned), fontsize=13, x=0.01, ha="left")
    parts: Any = figure.subfigures(1, 2, width_ratios=(1, 2.6), wspace=0.03)
    left, right = parts
    _bars(left.subplots(), learned)
    if shown:
        lines = _lines(learned, shown)
        span = _span(shown, lines)
        grid = right.subplots(down, 2, squeeze=False).flat
        for axes, effect in zip(grid, shown, strict=False):
            _panel(axes, learned, effect, lines, span)
        for axes in list(right.axes)[len(shown) :]:
            axes.set_axis_off()
        _legend(right, learned, shown, lines)
    return figure


def _title(learned: Learned) -> str:
    cost = f"epsilon {learned.epsilon}, {learned.neighbours}" if learned.private else "NOT differentially private"
    return text_as_is(
        f'What "{_shorten(learned.model)}" learned about {_shorten(learned.label)} ({learned.method}, {cost})'
    )


def _bars(axes: Any, learned: Learned) -> None:
    """Draw the importance of the first features, the most important on top."""
    shown = learned.effects[:_BARS]
    places = np.arange(len(shown))
    values = [100 * effect.importance for effect in shown]
    axes.barh(places, values, color=[_GREY if effect.drowned else COLOURS[0] for effect in shown], height=0.7)
    axes.set_yticks(places, [text_as_is(_shorten(effect.feature)) for effect in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    for place, value in zip(places, values, strict=True):
        axes.annotate(f"{value:.1f}", (value, place), (4, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_xlim(0, max(1.0, 1.15 * max(values, default=1.0)))
    axes.set_xlabel("importance (%)" + (", grey: drowned in noise" if any(e.drowned for e in shown) else ""))
    axes.set_title("What predictions depend on", fontsize=11, loc="left")
    axes.spines[["top", "right"]].set_visible(False)


def _lines(learned: Learned, shown: Sequence[Effect]) -> list[int]:
    """Return the outputs that are drawn: the rarer of two classes, or those that vary most, or the one number."""
    if learned.target is not None:
        return [0]
    if len(learned.classes) == 2:
        return [int(np.argmin([profile.share or 0.0 for profile in learned.profiles]))]
    spread = np.zeros(len(learned.classes))
    for effect in shown:
        weight = np.array([group.mass for group in effect.groups]) + 1e-9
        values = np.array([group.values for group in effect.groups])
        spread += weight @ (values - weight @ values / weight.sum()) ** 2 / weight.sum()
    return sorted(np.argsort(-spread)[: len(COLOURS)].tolist())


def _span(shown: Sequence[Effect], lines: Sequence[int]) -> tuple[float, float]:
    """Return the ends of the scale that all panels share, so that a small effect looks small."""
    ends = []
    for group in (group for effect in shown for group in effect.groups if group.mass > 0):
        for line in lines:
            below, above = (0.0, 0.0) if group.errors is None else _whiskers(group, line)[:, 0]
            if _shade(group, line) == 1:
                ends += [group.values[line] - below, group.values[line] + above]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    room = 0.06 * max(high - low, 1e-3 * max(abs(high), abs(low)), 1e-9)
    return low - room, high + room


def _panel(axes: Any, learned: Learned, effect: Effect, lines: Sequence[int], span: tuple[float, float]) -> None:
    """Draw one feature: numbers along the horizontal axis, categories one below the other."""
    if effect.groups[0].low is not None:
        _numbers(axes, effect.groups, lines)
        if effect.unit:
            axes.xaxis.set_major_formatter(lambda number, _: tick_text(number, effect.unit))
        _average(axes.axhline, learned, lines)
        axes.set_ylim(*span)
        axes.set_ylabel(_output(learned, lines), fontsize=9)
    else:
        _categories(axes, effect.groups, lines)
        _average(axes.axvline, learned, lines)
        axes.set_xlim(*span)
        axes.set_xlabel(_output(learned, lines), fontsize=9)
    axes.set_title(text_as_is(_shorten(effect.feature, 40)), fontsize=10, loc="left")
    axes.tick_params(labelsize=8)
    axes.grid(color="#e6e6e6", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _numbers(axes: Any, groups: Sequence[Group], lines: Sequence[int]) -> None:
    """Draw each group as a bar from its low to its high end, with a mark in the middle."""
    ordered = sorted(groups, key=lambda group: group.low or 0.0)
    low, high = (np.array([getattr(group, end) for group in ordered], float) for end in ("low", "high"))
    for number, line in enumerate(lines):
        values = np.array([group.values[line] for group in ordered])
        if len(lines) > 1:
            axes.plot((low + high) / 2, values, color=COLOURS[number], linewidth=0.8, alpha=0.5)
        for group, start, end, value in zip(ordered, low, high, values, strict=True):
            shade = _shade(group, line)
            axes.hlines(value, start, end, color=COLOURS[number], linewidth=2, alpha=shade)
            axes.errorbar((start + end) / 2, value, yerr=_whiskers(group, line), alpha=shade, **_style(number))


def _categories(axes: Any, groups: Sequence[Group], lines: Sequence[int]) -> None:
    """Draw the most frequent groups one below the other, ordered by the first output."""
    occurring = [group for group in groups if group.mass > 0] or groups
    frequent = sorted(occurring, key=lambda group: -group.mass)[:_ROWS]
    ordered = sorted(frequent, key=lambda group: group.values[lines[0]])
    for number, line in enumerate(lines):
        for place, group in enumerate(ordered):
            shade = _shade(group, line)
            error = None if shade < 1 and len(lines) > 1 else _whiskers(group, line)  # several would hide each other
            axes.errorbar(group.values[line], place, xerr=error, alpha=shade, **_style(number))
    axes.set_yticks(range(len(ordered)), [text_as_is(_shorten(group.text)) for group in ordered])
    axes.set_ylim(-0.6, len(ordered) - 0.4)
    if len(occurring) > len(ordered):
        axes.annotate(f"{len(occurring) - len(ordered)} rarer left out", (1, 1.02), xycoords="axes fraction",
                      ha="right", fontsize=8, color=_GREY)  # fmt: skip


def _average(draw_line: Callable[..., Any], learned: Learned, lines: Sequence[int]) -> None:
    """Draw the class's share of all rows, where one class is drawn."""
    if len(lines) == 1 and learned.target is None:
        draw_line(learned.profiles[lines[0]].share, color=_GREY, linewidth=1, linestyle=":")


def _style(number: int) -> dict[str, Any]:
    return {"fmt": MARKS[number], "color": COLOURS[number], "markersize": 4.5, "elinewidth": 1.2, "capsize": 2}


def _shade(group: Group, line: int) -> float:
    """Return the opacity of a group: one with a large standard error is pale."""
    return 1.0 if group.errors is None or group.errors[line] < _PALE else 0.25


def _whiskers(group: Group, line: int) -> Any:
    """Return an error bar of two standard errors, cut off where a share ends; None where the error is not known."""
    if group.errors is None:
        return None
    value, error = group.values[line], 2 * group.errors[line]
    return np.clip([[min(error, value)], [min(error, 1 - value)]], 0, 1)


def _output(learned: Learned, lines: Sequence[int]) -> str:
    if learned.target is not None:
        return text_as_is(f"predicted {_shorten(learned.label)}")
    return "share of class" if len(lines) > 1 else text_as_is(f"share of {_shorten(learned.classes[lines[0]])}")


def _legend(figure: Any, learned: Learned, shown: Sequence[Effect], lines: Sequence[int]) -> None:
    from matplotlib.lines import Line2D

    with_errors = any(group.errors is not None for effect in shown for group in effect.groups)
    bars = "Bars: two standard errors of noise and chance." if with_errors else "What the model predicts on average."
    pale = any(_shade(group, line) < 1 for effect in shown for group in effect.groups for line in lines)
    bars += " Pale: next to nothing is known." if pale else ""
    bars += " Dotted: all rows." if learned.target is None and len(lines) == 1 else ""
    handles = []
    if learned.target is None and len(learned.classes) > 2:
        for number, line in enumerate(lines):
            label = text_as_is(_shorten(learned.classes[line]))
            handles.append(Line2D([], [], color=COLOURS[number], marker=MARKS[number], label=label))
        left_out = len(learned.classes) - len(lines)
        bars += f" {left_out} classes that vary less are left out." if left_out else ""
    title = textwrap.fill(bars, 130)
    figure.legend(handles=handles, loc="outside lower center", ncols=max(1, len(lines)), frameon=False, fontsize=9,
                  title=title, title_fontsize=9)  # fmt: skip


def _shorten(text: str, most: int = _LETTERS) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
