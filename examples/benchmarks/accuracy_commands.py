"""The commands `accuracy` and `peers` of `python -m examples.benchmarks`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from dpsql import methods
from dpsql.bench import show
from dpsql.bench.accuracy_commands import parse_parameters
from dpsql.errors import ParameterError, UsageError
from dpsql.ledger import parse_epsilon
from dpsql.ledger.amount import format_epsilon
from examples.benchmarks import accuracy as measuring
from examples.benchmarks import accuracy_tables
from examples.benchmarks import peers as peering
from examples.benchmarks.figures import Figure, means, recorded_figures, write
from examples.benchmarks.folder import DATA_OPTION
from examples.benchmarks.plot import check, draw
from examples.benchmarks.results import Results
from examples.benchmarks.splits import GROUPS, tables
from examples.benchmarks.splits import Table as Split

_JSON = click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command()
@DATA_OPTION
@click.option(
    "--method",
    "names",
    default=methods.DEFAULT,
    help="Methods, separated by commas, or none. Without it the default method.",
)
@click.option("--peer", "peer_names", help=f"Peers, separated by commas: {', '.join(peering.NAMES)}, or all.")
@click.option("--epsilon", "epsilons", default="0.1,0.5,1,2", show_default=True, help="Costs, separated by commas.")
@click.option("--sets", default="real", show_default=True, help="Tables, separated by commas, or all, real, small.")
@click.option("--splits", default="10", show_default=True, help="Number of 90/10 splits, or auto: 10 to 100 by spread.")
@click.option(
    "--first-split", type=click.IntRange(0, 2**31), default=0, show_default=True, help="Number of the first one."
)
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
@click.option(
    "--widen",
    type=click.FloatRange(1, 1e6),
    default=1,
    show_default=True,
    help="Declare every number's range this many times as wide.",
)
@click.option("--reference", help="Compare with this method's reference figures instead of its own.")
@click.option("--csv", "file", type=_FILE, help="Keep every split here; none is run twice.")
@click.option("--summary", type=_FILE, help="Write the figures to this CSV file, a line for each cell.")
@click.option("--plot", type=_FILE, help="Draw the figures into this PNG, SVG or PDF file.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Splits to run at a time.")
@click.option("--no-run", is_flag=True, help="Run nothing: show what the CSV file has.")
@click.option("--no-peers", is_flag=True, help="Leave out the peers' recorded figures.")
@click.option(
    "--peer-folder",
    type=_FOLDER,
    default=Path("dpsql-peers"),
    show_default=True,
    envvar="DPSQL_PEERS",
    help="Environment of the peers.",
)
@_JSON
def accuracy(
    data: Path,
    names: str,
    peer_names: str | None,
    epsilons: str,
    sets: str,
    splits: str,
    first_split: int,
    param: Sequence[str],
    declare_rows: bool,
    declare_nulls: bool,
    labelled: int,
    widen: float,
    reference: str | None,
    file: Path | None,
    summary: Path | None,
    plot: Path | None,
    jobs: int,
    no_run: bool,
    no_peers: bool,
    peer_folder: Path,
    as_json: bool,
) -> None:
    """Train on nine tenths of public tables, evaluate on the tenth, and compare.

    \b
    Example:
      python -m examples.benchmarks accuracy --method rdt,snr --epsilon 0.1,1 --csv accuracy.csv --plot accuracy.png

    The data folder holds one Parquet file per table, and schemas.json with the public schema of each by name. A table
    that is not there is skipped and named. Split number k draws the tenth and shapes the trees; noise has no seed. A
    run that was stopped goes on from its CSV file. Peers are other libraries, which the
    command peers installs.
    """
    parameters = parse_parameters(param)
    questions = _questions(names, peer_names, epsilons, parameters, declare_rows, declare_nulls, labelled, widen)
    if plot is not None:
        check(plot)
    available, missing = _tables(data, sets)
    _name_unfit(questions, available)
    with Progress(*_progress(), console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        line = bar.add_task("splits", total=None)
        figures = measuring.measure(
            data,
            available,
            questions,
            splits=_splits(splits),
            first=first_split,
            results=Results(file, measuring.COLUMNS, older=measuring.OLD_COLUMNS),
            jobs=jobs,
            progress=lambda done, all_, what: bar.update(line, completed=done, total=all_, description=what),
            reference=reference,
            peer_folder=peer_folder,
            run=not no_run,
        )
    if not figures:
        raise UsageError("there are no results to show.", hint="leave out --no-run")
    # Recorded figures are of all labels and of the schema's own ranges: they stand beside no others.
    comparable = not no_peers and labelled == 100 and widen == 1
    others = recorded_figures(figures, without=[question.method for question in questions]) if comparable else []
    if summary is not None:
        write(summary, figures, remarks=_remarks(questions, peer_folder))
    if plot is not None:
        draw(plot, figures, others)
    if as_json:
        settings = {"declared": questions[0].declaration.split(), "parameters": parameters, "skipped": missing}
        click.echo(json.dumps({**settings, **_plain(figures, others)}, indent=2))
        return
    for shown in _tables_to_show(figures, others, [_words(questions[0].declaration), *param]):
        show.text_table(shown)


@click.command()
@click.option("--install", "folder", type=_FOLDER, help="Make an environment with the peers in this folder.")
@click.option("--peer-folder", "there", type=_FOLDER, default=Path("dpsql-peers"), show_default=True,
              envvar="DPSQL_PEERS", help="Environment to look at.")  # fmt: skip
@_JSON
def peers(folder: Path | None, there: Path, as_json: bool) -> None:
    """Install other libraries' private classifiers, or say which are there.

    \b
    Example:
      python -m examples.benchmarks peers --install dpsql-peers
      python -m examples.benchmarks accuracy --peer all --peer-folder dpsql-peers

    They live in a virtual environment of their own; the bench starts it as another process and never imports them.
    """
    environment = peering.Environment(there if folder is None else folder)
    if folder is not None:
        environment.install()
    status: dict[str, Any] = {
        "peers": list(peering.NAMES),
        "requirements": list(peering.REQUIREMENTS),
        "folder": str(environment.folder),
        "installed": environment.versions() if environment.is_installed else None,
    }
    if as_json:
        click.echo(json.dumps(status, indent=2))
        return
    click.echo(f"Peers: {', '.join(status['peers'])}.")
    if status["installed"] is None:
        click.echo(
            f"Not installed in {environment.folder}: python -m examples.benchmarks peers --install {environment.folder}"
        )
    else:
        versions = ", ".join(f"{name} {version}" for name, version in status["installed"].items())
        click.echo(f"Installed in {environment.folder}: {versions}.")


def _questions(
    names: str,
    peer_names: str | None,
    epsilons: str,
    parameters: Mapping[str, Any],
    rows: bool,
    nulls: bool,
    labelled: int,
    widen: float,
) -> list[measuring.Question]:
    costs = [format_epsilon(parse_epsilon(epsilon)) for epsilon in epsilons.split(",")]
    own_names = [] if names == "none" else [methods.get(name).name for name in names.split(",")]
    others = [] if peer_names is None else peering.find_peers(peer_names)
    if not own_names and not others:
        raise UsageError("there is nothing to measure: no method and no peer.", hint="--method NAME or --peer NAME")
    given = tuple(sorted(parameters.items()))
    own = [measuring.Question(name, cost, given, rows, nulls, labelled, widen) for name in own_names for cost in costs]
    return own + [measuring.Question(name, cost, labelled=labelled, widen=widen) for name in others for cost in costs]


def _tables(data: Path, sets: str) -> tuple[list[Split], dict[str, str]]:
    available, missing = tables(data, GROUPS.get(sets) or sets.split(","))
    for name, why in missing.items():
        click.echo(f"{name} is skipped: {why}", err=True)
    if not available:
        raise UsageError("none of the tables can be had.", hint="--data FOLDER, or --sets syn5d")
    return available, missing


def _name_unfit(questions: Sequence[measuring.Question], available: Sequence[Split]) -> None:
    for peer in dict.fromkeys(question.method for question in questions):
        left_out = {table.name: why for table in available if (why := peering.unfit(peer, table))}
        if left_out:
            click.echo(f"{peer} leaves out {', '.join(left_out)}: {next(iter(left_out.values()))}", err=True)


def _progress() -> tuple[Any, ...]:
    return TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()


def _splits(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ParameterError("splits", allowed="auto, or a whole number from 1", given=text)
    return int(text)


def _remarks(questions: Sequence[measuring.Question], folder: Path) -> list[str]:
    """Return what a file of figures should tell: in which units they are, and which libraries the peers are."""
    remarks = [
        "Means over 90/10 splits. mean, standard_error, majority and balanced_accuracy in %, seconds of training."
    ]
    if any(question.method in peering.NAMES for question in questions) and peering.Environment(folder).is_installed:
        versions = peering.Environment(folder).versions()
        remarks.append("Peers: " + ", ".join(f"{name} {version}" for name, version in versions.items()) + ".")
    return remarks


def _words(declared: str) -> str:
    """Say in a title what is declared, and what else is unusual.

    >>> _words("rows nulls 5xwide"), _words("50%labelled")
    ('rows declared, nulls declared, 5xwide', 'rows not declared, 50%labelled')
    """
    words = [f"{word} declared" if word in ("rows", "nulls") else word for word in declared.split()]
    return ", ".join(words if "rows declared" in words else ["rows not declared", *words])


def _plain(figures: Sequence[Figure], others: Sequence[Figure]) -> dict[str, Any]:
    return {
        "figures": [figure.to_dict() for figure in figures],
        "means": [figure.to_dict() for figure in means(figures)],
        "recorded_peers": [figure.to_dict() for figure in others],
    }


def _tables_to_show(figures: Sequence[Figure], others: Sequence[Figure], words: Sequence[str]) -> list[Table]:
    """Return the tables: each method and epsilon, all beside each other where there are several, the means."""
    shown_tables = [
        accuracy_tables.cells(", ".join([f"{method}, epsilon {epsilon}", *words]), list(cells))
        for (method, epsilon), cells in groupby(figures, lambda figure: (figure.method, figure.epsilon))
    ]
    everything = [*figures, *others]
    if len({figure.method for figure in everything}) > 1:
        for epsilon in dict.fromkeys(figure.epsilon for figure in figures):
            beside = [figure for figure in everything if float(figure.epsilon) == float(epsilon)]
            shown_tables.append(accuracy_tables.side_by_side(epsilon, beside))
    return [*shown_tables, accuracy_tables.overview(means(figures))]
