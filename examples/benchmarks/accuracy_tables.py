"""The tables that `accuracy` prints: one for each method and epsilon, one beside the peers, and the means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table

from dpsql.bench.show import number_text
from examples.benchmarks.figures import Figure, Mean


def cells(title: str, figures: Sequence[Figure]) -> Table:
    """Return the cells of one method and epsilon as a table."""
    shown = Table(title=title)
    shown.add_column("set", no_wrap=True)
    words = ("splits", "mean %", "sd", "error", "reference", "difference", "reached", "in band", "majority")
    for word in (*words, "balanced", "AUC", "log loss", "Brier", "train s"):
        shown.add_column(word, justify="right")
    for figure in figures:
        shown.add_row(
            figure.set,
            str(figure.splits),
            *(
                number_text(value, places=1)
                for value in (figure.mean, figure.sd, figure.standard_error, figure.reference)
            ),
            number_text(figure.difference, places=1, sign=True),
            *((word or "").removeprefix("within ") for word in (figure.reached, figure.in_band)),
            number_text(figure.majority, places=1),
            number_text(figure.balanced_accuracy, places=1),
            *(number_text(value, places=3) for value in (figure.auc, figure.log_loss, figure.brier)),
            number_text(figure.seconds, places=2),
        )
    return shown


def side_by_side(epsilon: str, figures: Sequence[Figure]) -> Table:
    """Return all methods and peers of one epsilon beside each other, a line for each table and one for the means.

    The best of a line is bold. Means are over all tables, for those that have all, and over what everybody has.
    """
    methods = list(dict.fromkeys(figure.method for figure in figures))
    shown = Table(title=f"Accuracy %, epsilon {epsilon}", min_width=24)
    shown.add_column("set")
    for name in methods:
        shown.add_column(name, justify="right")
    accuracies = {(figure.set, figure.method): figure.mean for figure in figures}
    names = list(dict.fromkeys(figure.set for figure in figures))
    for name in names:
        shown.add_row(name, *best([accuracies.get((name, method)) for method in methods]))
    shown.add_section()
    common = [name for name in names if all((name, method) in accuracies for method in methods)]
    for over in (names, common) if 0 < len(common) < len(names) else (names,):
        shown.add_row(f"mean of {len(over)}", *best([_mean(accuracies, over, method) for method in methods]))
    return shown


def _mean(accuracies: Mapping[tuple[str, str], float], names: Sequence[str], method: str) -> float | None:
    """Return a method's mean over tables; None where it lacks one of them."""
    own = [accuracies[name, method] for name in names if (name, method) in accuracies]
    return sum(own) / len(own) if len(own) == len(names) else None


def best(values: Sequence[float | None]) -> list[str]:
    """Return numbers as text, the largest in bold.

    >>> best([70, None, 71.26])
    ['70.0', '', '[bold]71.3[/bold]']
    """
    largest = max((value for value in values if value is not None), default=None)
    return [
        f"[bold]{number_text(value, places=1)}[/bold]" if value == largest else number_text(value, places=1)
        for value in values
    ]


def overview(means: Sequence[Mean]) -> Table:
    """Return the means over tables of every method and epsilon, beside the reference's."""
    shown = Table(title="Mean over the tables, in %")
    shown.add_column("method")
    for word in ("epsilon", "sets", "mean %", "reference", "difference", "cells that reach it"):
        shown.add_column(word, justify="right")
    for mean in means:
        shown.add_row(
            mean.method,
            mean.epsilon,
            str(mean.sets),
            number_text(mean.mean, places=2),
            number_text(mean.reference, places=2),
            number_text(mean.difference, places=2, sign=True),
            "" if mean.reached is None else f"{mean.reached} of {mean.sets}",
        )
    return shown
