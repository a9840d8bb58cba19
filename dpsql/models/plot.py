"""Draws released figures with matplotlib, which is optional: `pip install 'dpsql[plots]'`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsql.errors import ParameterError, UsageError
from dpsql.models.curves import curve
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


def check_curves(classes: int, *, private: bool) -> None:
    """Raise an error where a model has no curve: on private rows there is one for two classes alone."""
    if private and classes > 2:
        raise UsageError(
            f"there is no curve of a model of {classes} classes on private rows: their counts are too few for it.",
            hint="a public table, or the reliability plot",
        )


def reliability_plot(evaluation: Evaluation, path: str | Path) -> None:
    """Draw predicted probabilities against observed shares; points on the diagonal are well calibrated.

    The size of a point says how many rows it stands for; on private rows a bar shows the 95 % confidence interval.
    """
    target = check_plot(path)
    _save(reliability_figure(evaluation), target)


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


def curve_plot(evaluation: Evaluation, path: str | Path) -> None:
    """Draw the ROC curve and the precision-recall curve side by side; on private rows with bands of 95 % intervals."""
    target = check_plot(path)
    _save(curve_figure(evaluation), target)


def curve_figure(evaluation: Evaluation) -> Figure:
    """Return the ROC curve and the precision-recall curve side by side as a figure.

    Of two classes the second has a curve; of more each has one, against the rest.
    """
    check_matplotlib()
    check_curves(len(evaluation.confusion), private=evaluation.epsilon is not None)
    if not evaluation.rows_by_probability:
        raise UsageError("these figures were made without the counts that a curve needs.", hint="evaluate again")
    figure = new_figure(figsize=(9, 4.6), layout="constrained")
    roc, precision_recall = figure.subplots(1, 2)
    roc.plot([0, 1], [0, 1], color="0.7", linewidth=1, zorder=1)
    for rows in evaluation.rows_by_probability:
        points = curve(rows)
        ends = ([0.0, *points["false_positive_rate"][::-1]], [0.0, *points["recall"][::-1]])
        line = roc.plot(*ends, label=text_as_is(rows.label), drawstyle="default", zorder=3)[0]
        share = points["named"].iloc[0] * points["precision"].iloc[0]
        precision_recall.axhline(share, color=line.get_color(), linewidth=1, alpha=0.4, zorder=1)
        precision_recall.plot(points["recall"], points["precision"], color=line.get_color(), zorder=3)
        if "recall_low" in points.columns:
            band = {"color": line.get_color(), "alpha": 0.2, "linewidth": 0}
            roc.fill_between(points["false_positive_rate"], points["recall_low"], points["recall_high"], **band)
            low, high = points["precision_low"], points["precision_high"]
            precision_recall.fill_between(points["recall"], low, high, **band)
    area = "" if evaluation.auc is None else f", AUC {evaluation.auc:.3f}"
    roc.set(xlabel="share of other rows that are named so", ylabel="recall", title=f"ROC{area}")
    precision_recall.set(xlabel="recall", ylabel="precision", title="precision and recall")
    for axes in (roc, precision_recall):
        axes.set(xlim=(0, 1), ylim=(0, 1.02))
    roc.legend(loc="lower right", title="class")
    figure.suptitle(text_as_is(f"{evaluation.model} on {evaluation.table}"))
    return figure


def _save(figure: Figure, target: Path) -> None:
    try:
        figure.savefig(target, dpi=150)
    except OSError as error:
        allowed = f"a file that can be written ({error.strerror})"
        raise ParameterError("plot", allowed=allowed, given=str(target)) from None
