"""Prints an experiment's results as a table, our figure beside the paper's, and what becomes of the paper's claims."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from statistics import fmean

from rich.console import Console
from rich.table import Table

from examples.papers.experiment import Claim, Experiment, Given, Row, Summary

WORDS = {True: "holds here", False: "DOES NOT HOLD here", None: "cannot be judged from what was run"}

#: With fewer splits than this a verdict says little.
FEW = 3


def show(experiment: Experiment, rows: Sequence[Row]) -> None:
    """Print the table, then one paragraph for each claim."""
    # A pipe has no width: take one at which no line is broken.
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    console.print(results_table(experiment, rows))
    if experiment.exact:
        console.print(f"Not private: {experiment.exact}", style="italic", markup=False)
    for claim in experiment.claims:
        console.print(verdict(claim, Summary(rows, experiment.figures[0])), markup=False)
    splits = len({row["split"] for row in rows})
    if splits < FEW and (experiment.most_splits or FEW) >= FEW:
        console.print(f"Judge with care: splits so far: {splits}.", markup=False)
    console.print()


def results_table(experiment: Experiment, rows: Sequence[Row]) -> Table:
    """Return one line for each cell of the grid: mean and standard deviation over the splits, the paper's figure.

    Where the paper's text gives no figures at all, there are no columns for them.
    """
    figure = experiment.figures[0]
    shown = Table(title=f"{experiment.name}: {experiment.paper}, {experiment.place}\n{experiment.title}")
    numbers = ("splits", figure, "sd", *experiment.also, "the paper", "difference")
    for word in (*experiment.grid, *(numbers if experiment.given else numbers[:-2])):
        shown.add_column(word.replace("_", " "), justify="right" if word in numbers else "left")
    summary = Summary(rows, figure)
    for group in groups(experiment, rows):
        mean, paper = summary.mean(**group), paper_figure(experiment.given, group)
        theirs = ("", "") if paper is None else (f"{paper.value:g}", f"{mean - paper.value:+.1f}")
        ours = (f"{len(summary.values(**group))}", f"{mean:.1f}", f"{summary.spread(**group):.1f}")
        more = (together([row[name] for row in rows if group.items() <= row.items()]) for name in experiment.also)
        shown.add_row(*group.values(), *ours, *more, *(theirs if experiment.given else ()))
    return shown


def together(values: Sequence[str]) -> str:
    """Return what all results say, or their mean where they differ.

    >>> together(["0.5", "0.5"]), together(["7", "8"])
    ('0.5', '7.5')
    """
    return values[0] if len(set(values)) == 1 else f"{fmean(map(float, values)):.1f}"


def groups(experiment: Experiment, rows: Sequence[Row]) -> list[dict[str, str]]:
    """Return the cells that have results, without their splits, in the order of the grid."""
    order = {
        name: {str(value): place for place, value in enumerate(values)} for name, values in experiment.grid.items()
    }
    combinations = {tuple(row[name] for name in experiment.grid) for row in rows}
    cells = [dict(zip(experiment.grid, values, strict=True)) for values in combinations]
    return sorted(cells, key=lambda cell: [(order[name].get(value, 99), value) for name, value in cell.items()])


def paper_figure(given: Sequence[Given], group: Mapping[str, str]) -> Given | None:
    """Return the paper's figure for a group of results, or None where its text gives none."""
    return next((figure for figure in given if figure.fits(group)), None)


def verdict(claim: Claim, summary: Summary) -> str:
    """Return a claim, our figure, and whether it holds."""
    ours, holds = claim.judge(summary)
    words = "not run" if holds is None and "nan" in ours else ours
    return f"{claim.place}: {claim.text}\n    Ours: {words}. The claim {WORDS[holds]}."
