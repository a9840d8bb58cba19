"""The command `objectives` of `python -m examples.benchmarks`: what each objective of `auto` gains and costs.

Tables of two classes, as they are and with rows of the rarer class left out until it has a given share.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Shown

from dpsql.bench import show
from dpsql.errors import ParameterError, UsageError
from dpsql.methods.auto.objectives import OBJECTIVES
from dpsql.schema import category_text
from examples.benchmarks.folder import DATA_OPTION
from examples.benchmarks.splits import Outcome, Table, run_split, tables

#: Tables of two classes.
SETS = "adult,magic04,mushroom"
#: The share that stands for a table as it is.
AS_IT_IS = "own"


@dataclass(frozen=True)
class ObjectiveFigure:
    """Means over the splits of one table and objective; the AUC of the worst and the best split too."""

    set: str
    rarer: str
    epsilon: str
    objective: str
    splits: int
    accuracy: float
    balanced_accuracy: float
    auc: float
    least_auc: float
    most_auc: float
    log_loss: float


@click.command()
@DATA_OPTION
@click.option("--sets", default=SETS, show_default=True, help="Tables of two classes, separated by commas.")
@click.option("--rarer", default=f"{AS_IT_IS},0.12,0.05", show_default=True,
              help=f"Shares of the rarer class; {AS_IT_IS}: the table as it is.")  # fmt: skip
@click.option("--epsilon", "epsilons", default="0.2,1", show_default=True, help="What each run may cost.")
@click.option("--splits", type=click.IntRange(1), default=5, show_default=True, help="Number of 90/10 splits.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
def objectives(data: Path, sets: str, rarer: str, epsilons: str, splits: int, as_json: bool) -> None:
    """Train for each objective, and say what that does to accuracy, balanced accuracy, AUC and log loss.

    \b
    Example:
      python -m examples.benchmarks get-tables --sets adult,magic04
      python -m examples.benchmarks objectives --sets adult,magic04 --rarer 0.12

    Noise has no seed: figures differ a little each time.
    """
    available, missing = tables(data, sets.split(","))
    for name, why in missing.items():
        click.echo(f"{name} is skipped: {why}", err=True)
    if not available:
        raise UsageError("none of the tables can be had.", hint="--data FOLDER, or --sets syn5d")
    with Console(stderr=True).status("") as status:
        figures = measure_objectives(
            available,
            rarer.split(","),
            epsilons.split(","),
            splits=splits,
            progress=lambda what: status.update(what) if sys.stderr.isatty() else None,
        )
    show.either({"figures": [asdict(figure) for figure in figures]}, objectives_table(figures), as_json=as_json)


def measure_objectives(
    some_tables: Sequence[Table],
    shares: Sequence[str],
    epsilons: Sequence[str],
    *,
    splits: int,
    progress: Callable[[str], None] = lambda what: None,
) -> list[ObjectiveFigure]:
    """Return a figure for each table, share of the rarer class, epsilon and objective, on the same splits."""
    figures = []
    for table in some_tables:
        for share in shares:
            thinned = table if share == AS_IT_IS else thin(table, share)
            for epsilon in epsilons:
                for objective in OBJECTIVES:
                    outcomes = []
                    for split in range(splits):
                        progress(f"{table.name} {share} epsilon {epsilon}: {objective}, split {split}")
                        asked = {"objective": objective}
                        outcomes.append(run_split(thinned, split, method="auto", epsilon=epsilon, parameters=asked))
                    figures.append(_figure(table.name, share, epsilon, objective, outcomes))
    return figures


def thin(table: Table, share: str) -> Table:
    """Return a table whose rarer class has about this share: some of its rows, always the same ones, are left out."""
    try:
        wanted = float(share)
    except ValueError:
        wanted = 0.0
    if not 0 < wanted < 0.5 or len(table.schema["classes"]) != 2:
        raise ParameterError("rarer", allowed="shares between 0 and 0.5 of a table with two classes", given=share)
    labels = table.frame[table.schema["label"]].map(category_text)
    rarer = labels == labels.value_counts().index[-1]
    keep = min(int(rarer.sum()), round(int((~rarer).sum()) * wanted / (1 - wanted)))
    chosen = np.random.default_rng(0).choice(np.flatnonzero(rarer), keep, replace=False)
    places = np.sort(np.concatenate([np.flatnonzero(~rarer), chosen]))
    return Table(table.name, table.schema, table.frame.iloc[places].reset_index(drop=True), table.null_columns)


def _figure(name: str, share: str, epsilon: str, objective: str, outcomes: Sequence[Outcome]) -> ObjectiveFigure:
    areas = [outcome.auc or 0.0 for outcome in outcomes]
    return ObjectiveFigure(
        name,
        share,
        epsilon,
        objective,
        len(outcomes),
        100 * fmean(outcome.accuracy for outcome in outcomes),
        100 * fmean(outcome.balanced_accuracy or 0.0 for outcome in outcomes),
        fmean(areas),
        min(areas),
        max(areas),
        fmean(outcome.log_loss or 0.0 for outcome in outcomes),
    )


def objectives_table(figures: Sequence[ObjectiveFigure]) -> Shown:
    """Return the figures as a table."""
    shown = Shown(title="Objectives: accuracy and balanced accuracy in %, AUC and log loss on rows held out")
    for heading in ("set", "rarer", "epsilon", "objective", "splits", "accuracy", "balanced", "AUC", "from", "to",
                    "log loss"):  # fmt: skip
        shown.add_column(heading, justify="left" if heading in ("set", "objective") else "right")
    for figure in figures:
        shown.add_row(
            figure.set,
            figure.rarer,
            figure.epsilon,
            figure.objective,
            str(figure.splits),
            *(show.number_text(value, places=1) for value in (figure.accuracy, figure.balanced_accuracy)),
            *(
                show.number_text(value, places=3)
                for value in (figure.auc, figure.least_auc, figure.most_auc, figure.log_loss)
            ),
        )
    return shown
