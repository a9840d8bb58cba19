"""The command `dpsql bench accuracy`: how accurate methods are on tables that need no download."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from dpsql import methods
from dpsql.bench import accuracy as measuring
from dpsql.bench import sample_tables, show
from dpsql.errors import ParameterError, UnknownName, UsageError
from dpsql.ledger import parse_epsilon
from dpsql.ledger.amount import format_epsilon


@click.command("accuracy")
@click.option("--method", "names", default=methods.DEFAULT, show_default=True, help="Methods, separated by commas.")
@click.option("--epsilon", "epsilons", default="0.1,1,4", show_default=True, help="Costs, separated by commas.")
@click.option(
    "--sets",
    help=f"Tables, separated by commas: {', '.join(sample_tables.BOUNDS)} (scikit-learn's), "
    f"{', '.join(sample_tables.MADE_UP)} (made up) [default: scikit-learn's where it is installed, else made up].",
)
@click.option("--splits", type=click.IntRange(1), default=3, show_default=True, help="How often a fifth is held out.")
@click.option("--param", multiple=True, metavar="NAME=VALUE", help="A parameter of the method; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
def accuracy_command(
    names: str, epsilons: str, sets: str | None, splits: int, param: Sequence[str], as_json: bool
) -> None:
    """Train on four fifths of sample tables, evaluate on the fifth, and compare with no privacy.

    \b
    Example:
      dpsql bench accuracy
      dpsql bench accuracy --method rdt,auto --sets census,corners --epsilon 0.5,1

    Every run is charged to a ledger that is thrown away. Split number k draws the fifth and shapes the trees; noise has
    no seed, so figures differ a little each time.
    """
    checked_names = [methods.get(name).name for name in names.split(",")]
    costs = [format_epsilon(parse_epsilon(epsilon)) for epsilon in epsilons.split(",")]
    parameters = parse_parameters(param)
    tables = _tables(sets)
    with ExitStack() as stack:
        progress: Callable[[str], None] = lambda what: None  # noqa: E731 (silent where nobody looks on)
        if sys.stderr.isatty():
            progress = stack.enter_context(Console(stderr=True).status("")).update
        figures = measuring.measure_accuracy(
            tables, checked_names, costs, splits=splits, parameters=parameters, progress=progress
        )
    show.either({"parameters": parameters, "figures": figures}, accuracy_table(figures), as_json=as_json)


def parse_parameters(texts: Sequence[str]) -> dict[str, Any]:
    """Return the parameters of a method by name; a value that is not JSON is text.

    >>> parse_parameters(["trees=3", "votes=hard"])
    {'trees': 3, 'votes': 'hard'}
    """
    parameters: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ParameterError("param", allowed="NAME=VALUE", given=text)
        try:
            parameters[name] = json.loads(value)
        except ValueError:
            parameters[name] = value
    return parameters


def _tables(sets: str | None) -> list[sample_tables.SampleTable]:
    """Return the named tables, or the usual ones; one of scikit-learn's is refused where that is not installed."""
    names = sets.split(",") if sets else sample_tables.default_names()
    offered = (*sample_tables.BOUNDS, *sample_tables.MADE_UP)
    for name in names:
        if name not in offered:
            raise UnknownName("table", name, offered)
        if name in sample_tables.BOUNDS and not sample_tables.scikit_learn_is_here():
            made_up = ",".join(sample_tables.MADE_UP)
            raise UsageError(
                f'"{name}" is a table of scikit-learn, which is not installed.',
                hint=f"pip install scikit-learn, or --sets {made_up}",
            )
    return [sample_tables.load_sample(name) for name in names]


def accuracy_table(figures: Sequence[Mapping[str, Any]]) -> Table:
    """Return the figures as a table."""
    shown = Table(title="Accuracy in % on rows held out; largest class and a forest without privacy beside it")
    headings = ("set", "rows", "method", "epsilon", "splits", "mean", "sd", "largest class", "no privacy", "train s")
    for heading in headings:
        shown.add_column(heading, justify="left" if heading in ("set", "method") else "right")
    for figure in figures:
        forest = figure["without_privacy"]
        shown.add_row(
            figure["table"],
            f"{figure['rows']:,}",
            figure["method"],
            figure["epsilon"],
            str(figure["splits"]),
            show.number_text(figure["mean"], places=1),
            show.number_text(figure["standard_deviation"], places=1),
            show.number_text(figure["majority"], places=1),
            "scikit-learn is not installed" if forest is None else show.number_text(forest, places=1),
            show.number_text(figure["seconds"]),
        )
    return shown
