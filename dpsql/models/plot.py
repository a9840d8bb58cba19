"""Draws released figures with matplotlib, which is optional: `pip install 'dpsql[plots]'`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsql.errors import ParameterError
from dpsql.models.notebook_figure import check_matplotlib, new_figure, root_figure, text_as_is

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dpsql.models.evaluate import Evaluation

#: The endings of files that can be drawn.
_KINDS = (".png", ".svg", ".pdf")


def check_plot(path: str | Path) -> Path:
    """Return the path of a plot, or raise an error that says why it cannot be drawn, before anything is charged."""
    target = Path(path)
    check_matplotlib()
    if target.suffix.lower() not in _KINDS:
        raise ParameterError("plot", allowed=f"a file that ends with {' or '.join(_KINDS)}", given=str(path))
    if target.exists():
        raise ParameterError("plot", allowed="a new file; this one exists", given=str(path))
    if not target.parent.is_dir():
        raise ParameterError("plot", allowed="a file in a folder that exists", given=str(path))
    return target


def reliability_plot(evaluation: Evaluation, path: str | Path) -> None:
    """Draw predicted probabilities against observed shares; points on the diagonal are well calibrated.

    The size of a point says how many rows it stands for; on private rows a bar shows the 95 % confidence interval.
    """
    target = check_plot(path)
    figure = reliability_figure(evaluation)
    try:
        figure.savefig(target, dpi=150)
    except OSError as error:
        allowed = f"a file that can be written ({error.strerror})"
        raise ParameterError("plot", allowed=allowed, given=str(path)) from None


def reliability_figure(evaluation: Evaluation, axes: Any = None) -> Figure:
    """Return the reliability diagram as a figure of its own, or drawn on axes of the caller's."""
    check_matplotlib()
    if axes is None:
        axes = new_figure(figsize=(5, 5), layout="constrained").subplots()
    table = evaluation.reliability
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1, zorder=1)
    if "low" in table.columns:
        bars = [table["observed"] - table["low"], table["high"] - table["observed"]]
        axes.errorbar(table["predicted"], table["observed"], yerr=bars, fmt="none", ecolor="tab:blue", zorder=2)
    largest = max(int(table["rows"].max()), 1) if len(table) else 1
    axes.scatter(
        table["predicted"], table["observed"], s=20 + 180 * table["rows"] / largest, color="tab:blue", zorder=3
    )
    whose = f'"{list(evaluation.confusion.columns)[1]}"' if len(evaluation.confusion) == 2 else "the predicted class"
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel=text_as_is(f"predicted probability of {whose}"), ylabel="observed share")
    axes.set_title(text_as_is(f"{evaluation.model} on {evaluation.table}"))
    return root_figure(axes)
