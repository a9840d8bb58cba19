"""The command `python -m dpsql.bench`: prints what counting and noise cost, and how accurate methods are."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from dpsql import methods
from dpsql.bench import accuracy as measuring
from dpsql.bench import counts as counting
from dpsql.bench import growth as growing
from dpsql.bench import noise as noising
from dpsql.bench.results import Results
from dpsql.bench.splits import SETS, tables
from dpsql.errors import DpsqlError, ParameterError
from dpsql.ledger import parse_epsilon
from dpsql.ledger.amount import format_epsilon

_SHORT = click.option("--short", is_flag=True, help="A smaller run of a few seconds.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
_REPEAT = click.option(
    "--repeat", type=click.IntRange(1), default=5, show_default=True, help="Rounds; the least is kept."
)


@click.group()
def main() -> None:
    """Measure dpsql on this machine. Figures are reported, not judged: the exit code is 0 whatever they are."""


@main.command()
@click.option("--rows", type=click.IntRange(1), default=1_000_000, show_default=True, help="Rows of the table.")
@_REPEAT
@_SHORT
@_JSON
def counts(rows: int, repeat: int, short: bool, as_json: bool) -> None:
    """Count the leaves of forests, in units of one scan that reads every column (S).

    Example:

        python -m dpsql.bench counts --rows 1000000
    """
    figures = counting.measure(100_000 if short else rows, repeat=2 if short else repeat)
    _print(figures, counts_table(figures), as_json=as_json)


@main.command()
@click.option("--rows", type=click.IntRange(1), default=1_000_000, show_default=True, help="Rows of the larger table.")
@_REPEAT
@_SHORT
@_JSON
def growth(rows: int, repeat: int, short: bool, as_json: bool) -> None:
    """Train trees that look at the data, at a quarter of the rows and at all of them, in units of one scan (S).

    Example:

        python -m dpsql.bench growth --rows 1000000
    """
    most = 40_000 if short else rows
    figures = growing.measure((max(1, most // 4), most), repeat=1 if short else repeat)
    _print(figures, growth_table(figures), as_json=as_json)


@main.command()
@click.option("--draws", type=click.IntRange(1), default=1_000_000, show_default=True, help="Numbers to draw.")
@_REPEAT
@_SHORT
@_JSON
def noise(draws: int, repeat: int, short: bool, as_json: bool) -> None:
    """Draw exact noise, beside OpenDP where it is installed.

    Example:

        python -m dpsql.bench noise --draws 1000000
    """
    figures = noising.measure(20_000 if short else draws, repeat=2 if short else repeat)
    _print(figures, noise_table(figures), as_json=as_json)


@main.command()
@click.option("--data", type=click.Path(path_type=Path), default=Path("../shared/data"), help="Folder of the tables.")
@click.option("--method", "names", default="rosnam", show_default=True, help="Methods, separated by commas.")
@click.option("--epsilon", "epsilons", default="1", show_default=True, help="Costs of a run, separated by commas.")
@click.option("--sets", default="all", show_default=True, help="Tables, separated by commas, or all.")
@click.option("--splits", default="10", show_default=True, help="Number of 90/10 splits, or auto: 10 to 100 by spread.")
@click.option("--param", multiple=True, metavar="NAME=VALUE", help="A parameter of the method; may be repeated.")
@click.option("--declare-rows", is_flag=True, help="Declare the number of training rows as public.")
@click.option("--declare-nulls", is_flag=True, help="Declare NULL as a value of each category that has some.")
@click.option(
    "--labelled",
    type=click.IntRange(1, 100),
    default=100,
    show_default=True,
    help="Of 100 training rows, how many keep their label.",
)
@click.option("--reference", help="Compare with this method's reference figures instead of its own.")
@click.option("--csv", "file", type=click.Path(path_type=Path), help="Keep every split here; none is run twice.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Splits to run at a time.")
@_JSON
def accuracy(
    data: Path,
    names: str,
    epsilons: str,
    sets: str,
    splits: str,
    param: Sequence[str],
    declare_rows: bool,
    declare_nulls: bool,
    labelled: int,
    reference: str | None,
    file: Path | None,
    jobs: int,
    as_json: bool,
) -> None:
    """Train on nine tenths of public tables, evaluate on the tenth, and compare with reference figures.

    Example:

        python -m dpsql.bench accuracy --method rdt,snr --epsilon 0.1,1 --splits auto --csv accuracy.csv

    The data folder holds one Parquet file per table, and schemas.json with the public schema of each by name. A table
    that is not there is skipped and named. Split number k draws the tenth and shapes the trees; noise has no seed.
    """
    try:
        asked = _questions(
            names, epsilons, _parameters(param), rows=declare_rows, nulls=declare_nulls, labelled=labelled
        )
        found, missing = tables(data, SETS if sets == "all" else sets.split(","))
        for name, why in missing.items():
            click.echo(f"{name} is skipped: {why}", err=True)
        kept = Results(file, measuring.COLUMNS)
        with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
            line = bar.add_task("splits", total=None)
            figures = measuring.measure(
                data,
                found,
                asked,
                splits=_splits(splits),
                results=kept,
                jobs=jobs,
                progress=lambda done, all_, what: bar.update(line, completed=done, total=all_, description=what),
                reference=reference,
            )
    except DpsqlError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(error.exit_code)
    if as_json:
        shown = {"declared": asked[0].declared.split(), "parameters": _parameters(param), "skipped": missing}
        click.echo(json.dumps({**shown, "figures": [figure.to_dict() for figure in figures]}, indent=2))
        return
    for (method, epsilon), cells in groupby(figures, lambda figure: (figure.method, figure.epsilon)):
        words = [*asked[0].declared.split(), "declared"] if asked[0].declared else ["rows not declared"]
        _show(accuracy_table(", ".join([f"{method}, epsilon {epsilon}", " ".join(words), *param]), list(cells)))


def _questions(
    names: str, epsilons: str, parameters: Mapping[str, Any], *, rows: bool, nulls: bool, labelled: int
) -> list[measuring.Question]:
    given = tuple(sorted(parameters.items()))
    costs = [format_epsilon(parse_epsilon(epsilon)) for epsilon in epsilons.split(",")]
    known = [methods.get(name).name for name in names.split(",")]
    return [measuring.Question(name, cost, given, rows, nulls, labelled) for name in known for cost in costs]


def _parameters(param: Sequence[str]) -> dict[str, Any]:
    """Return the parameters by name; a value that is not JSON is text."""
    found: dict[str, Any] = {}
    for one in param:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise ParameterError("param", allowed="NAME=VALUE", given=one)
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def _splits(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ParameterError("splits", allowed="auto, or a whole number from 1", given=text)
    return int(text)


def accuracy_table(title: str, figures: Sequence[measuring.Figure]) -> Table:
    """Return the cells of one method and epsilon as a table."""
    shown = Table(title=title)
    shown.add_column("set")
    words = ("splits", "mean %", "sd", "standard error", "reference", "difference", "band", "in band", "majority")
    for word in words:
        shown.add_column(word, justify="right")
    for one in figures:
        shown.add_row(
            one.set,
            str(one.splits),
            _number(one.mean, places=1),
            _number(one.sd, places=1),
            _number(one.standard_error, places=1),
            _number(one.reference, places=1),
            "" if one.difference is None else f"{one.difference:+.1f}",
            _number(one.band, places=1),
            one.in_band or "",
            _number(one.majority, places=1),
        )
    return shown


def counts_table(figures: Mapping[str, Any]) -> Table:
    """Return the counting figures as a table."""
    scan = 1000 * figures["s_seconds"]
    shown = Table(title=f"Counting leaves: {figures['rows']:,} rows, S = {scan:.1f} ms of CPU time")
    words = ("trees", "depth", "branches", "leaves", "statement S", "loading S", "total S", "goal S")
    for word in ("rows meet", *words, "per tree S", "growth S", "planning s", f"goal {counting.PLANNING_GOAL}", "SQL"):
        shown.add_column(word, justify="right")
    for cost in figures["cases"]:
        case = cost["case"]
        depth = f"{cost['grown_depth']}" if cost["grown_depth"] == case["depth"] else f"{cost['grown_depth']} (cut)"
        shown.add_row(
            "all trees" if case["shared"] else "one tree",
            f"{case['trees']:,}",
            depth,
            f"{case['branches']}",
            f"{cost['leaves']:,}",
            *(_number(cost[name]) for name in ("statement_s", "loading_s", "total_s")),
            _number(case["goal"], places=0),
            _number(cost["per_tree_s"]),
            _number(cost["growth_s"]),
            _number(cost["planning_seconds"], places=3),
            "met" if cost["planning_seconds"] < counting.PLANNING_GOAL else "missed",
            f"{cost['sql_characters']:,}",
        )
    return shown


def growth_table(figures: Mapping[str, Any]) -> Table:
    """Return the figures of growing trees as a table."""
    shown = Table(title="Training trees that look at the data, CPU time in S, one scan of the same table")
    for word in ("method", "parameters", "rows", "S ms", "total S", "goal S"):
        shown.add_column(word, justify="right")
    for one in figures["cases"]:
        words = ", ".join(f"{name} {value}" for name, value in one["parameters"].items())
        total, goal = _number(one["total_s"], places=1), _number(one["goal"], places=0)
        shown.add_row(one["method"], words, f"{one['rows']:,}", f"{1000 * one['s_seconds']:.1f}", total, goal)
    return shown


def noise_table(figures: Mapping[str, Any]) -> Table:
    """Return the noise figures as a table."""
    shown = Table(title=f"Exact noise: {figures['draws']:,} draws, CPU seconds")
    for word in ("mechanism", "scale", "dpsql s", "OpenDP s", "OpenDP / dpsql", "goal"):
        shown.add_column(word, justify="right")
    for one in figures["discrete_laplace"]:
        theirs = "skipped: opendp is not installed" if one["opendp_seconds"] is None else f"{one['opendp_seconds']:.2f}"
        ratio = _number(one["ratio"], places=1)
        shown.add_row("discrete Laplace", one["scale"], f"{one['seconds']:.3f}", theirs, ratio, str(noising.GOAL))
    shown.add_row("permute-and-flip of 2", "", f"{figures['permute_and_flip_seconds']:.3f}", "", "", "")
    return shown


def _number(value: float | None, *, places: int = 2) -> str:
    return "" if value is None else f"{value:.{places}f}"


def _print(figures: Mapping[str, Any], shown: Table, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(figures, indent=2))
        return
    _show(shown)


def _show(shown: Table) -> None:
    # A pipe has no width: take one at which no line is broken.
    Console(width=None if sys.stdout.isatty() else 160).print(shown)


if __name__ == "__main__":
    main(prog_name="python -m dpsql.bench")
