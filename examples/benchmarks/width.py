"""The command `width` of `python -m examples.benchmarks`: what bounds that are far too wide cost.

Each numeric range of a public table is declared several times as wide as in its schema, around the same middle or only
upwards. Accuracy and AUC on the rows held out stand beside those with the schema's own bounds.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from dpsql import methods
from dpsql.bench import show
from dpsql.errors import ParameterError, UsageError
from dpsql.ledger import parse_epsilon
from dpsql.ledger.amount import format_epsilon
from examples.benchmarks import accuracy as measuring
from examples.benchmarks.figures import Figure
from examples.benchmarks.folder import DATA_OPTION
from examples.benchmarks.results import Results
from examples.benchmarks.splits import tables

#: Tables with many numbers, large enough for `zoom` at epsilon 1.
SETS = "adult,magic04,pendigits,wall_robot"
_SIDES = {"both": (False,), "above": (True,), "each": (False, True)}


@dataclass(frozen=True)
class Width:
    """The means of one table at one width: accuracy in %, AUC, and what both lose against the schema's own bounds."""

    set: str
    side: str
    times: float
    splits: int
    accuracy: float
    standard_error: float | None
    auc: float | None
    accuracy_lost: float
    auc_lost: float | None


@click.command()
@DATA_OPTION
@click.option("--sets", default=SETS, show_default=True, help="Tables, separated by commas; syn5d needs no download.")
@click.option("--times", default="1,10,100,1000,100000", show_default=True, help="Widths, separated by commas.")
@click.option(
    "--side", type=click.Choice(list(_SIDES)), default="each", show_default=True, help="Around the middle, or upwards."
)
@click.option("--method", "name", default=methods.DEFAULT, show_default=True, help="The method.")
@click.option("--epsilon", default="1", show_default=True, help="What each run may cost.")
@click.option("--splits", type=click.IntRange(1), default=10, show_default=True, help="Number of 90/10 splits.")
@click.option(
    "--first-split", type=click.IntRange(0, 2**31), default=0, show_default=True, help="Number of the first one."
)
@click.option("--csv", "file", type=click.Path(path_type=Path, dir_okay=False), help="Keep every split here.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Splits to run at a time.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
def width(
    data: Path,
    sets: str,
    times: str,
    side: str,
    name: str,
    epsilon: str,
    splits: int,
    first_split: int,
    file: Path | None,
    jobs: int,
    as_json: bool,
) -> None:
    """Train with bounds that are far too wide, and say what that costs.

    \b
    Example:
      python -m examples.benchmarks get-tables --sets adult,magic04
      python -m examples.benchmarks width --sets adult,magic04 --times 1,1000

    Noise has no seed: figures differ a little each time. A run that was stopped goes on from its CSV file.
    """
    available, missing = tables(data, sets.split(","))
    for table, why in missing.items():
        click.echo(f"{table} is skipped: {why}", err=True)
    if not available:
        raise UsageError("none of the tables can be had.", hint="--data FOLDER, or --sets syn5d")
    cost, results = format_epsilon(parse_epsilon(epsilon)), Results(file, measuring.COLUMNS)
    figures = []
    with Console(stderr=True).status("") as status:
        for above, factor in _widths(_factors(times), _SIDES[side]):
            question = measuring.Question(methods.get(name).name, cost, widen=factor, above=above and factor != 1)
            measured = measuring.measure(
                data,
                available,
                [question],
                splits=splits,
                first=first_split,
                results=results,
                jobs=jobs,
                progress=lambda done, all_, what: status.update(what) if sys.stderr.isatty() else None,
            )
            figures += [(above, factor, figure) for figure in measured]
    widths = compare_widths(figures)
    show.either({"figures": [vars(entry) for entry in widths]}, width_table(widths), as_json=as_json)


def _factors(text: str) -> list[float]:
    try:
        factors = [float(word) for word in text.split(",")]
    except ValueError:
        factors = []
    if not factors or not all(1 <= factor <= 1e6 for factor in factors):
        raise ParameterError("times", allowed="numbers from 1 to 1000000, separated by commas", given=text)
    return sorted({1.0, *factors})


def _widths(factors: Sequence[float], sides: Sequence[bool]) -> list[tuple[bool, float]]:
    """Return the widths to measure, narrowest first; the schema's own bounds stand once, for both sides."""
    return [(above, factor) for factor in factors for above in (sides if factor > 1 else sides[:1])]


def compare_widths(figures: Sequence[tuple[bool, float, Figure]]) -> list[Width]:
    """Return each figure beside that of its table with the schema's own bounds."""
    own = {figure.set: figure for _, factor, figure in figures if factor == 1}
    return [
        Width(
            figure.set,
            "own bounds" if factor == 1 else "above" if above else "both",
            factor,
            figure.splits,
            figure.mean,
            figure.standard_error,
            figure.auc,
            own[figure.set].mean - figure.mean,
            None if figure.auc is None else (own[figure.set].auc or 0.0) - figure.auc,
        )
        for above, factor, figure in sorted(figures, key=lambda entry: (entry[2].set, entry[0], entry[1]))
    ]


def width_table(widths: Sequence[Width]) -> Table:
    """Return the figures as a table."""
    shown = Table(title="Bounds that are too wide: accuracy in % and AUC on rows held out")
    for heading in ("set", "widened", "times", "splits", "accuracy", "±", "AUC", "lost", "AUC lost"):
        shown.add_column(heading, justify="left" if heading in ("set", "widened") else "right")
    for entry in widths:
        shown.add_row(
            entry.set,
            entry.side,
            f"{entry.times:g}",
            str(entry.splits),
            show.number_text(entry.accuracy, places=1),
            show.number_text(entry.standard_error, places=1),
            show.number_text(entry.auc, places=3),
            show.number_text(entry.accuracy_lost, places=1),
            show.number_text(entry.auc_lost, places=3),
        )
    return shown
