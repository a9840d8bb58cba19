"""Three plain tables from a CSV file to an evaluated model: without a schema file, and with one written by hand.

    python -m examples.plain_tables

Each run types what a user would type: CREATE TABLE from the CSV file, `dpsql register`, `dpsql train --evaluate`. What
is bought and what is trained cost epsilon 1 together; the hold-out pays for its own measurement. Accuracy and AUC in
the table are those on fresh rows, which no run has seen.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev

import duckdb
from click.testing import CliRunner
from rich.table import Table

from dpsql.bench import show
from dpsql.cli.main import app
from examples.plain_tables.make_tables import TABLES, PlainTable

HERE = Path(__file__).resolve().parent
#: How many fresh rows a model is measured on.
FRESH_ROWS = 20_000
#: The seeds of the private rows and of the fresh ones.
PRIVATE_SEED, FRESH_SEED = 0, 1
HASHED, LISTED, BY_HAND = "bought", "bought, with a delta", "by hand"
FORMS = (BY_HAND, HASHED, LISTED)


@dataclass(frozen=True)
class Outcome:
    """What one run gave: accuracy in % and AUC on fresh rows, and the seconds from CREATE TABLE to the evaluated model.

    `characters` is what the owner typed to register the table: the schema file, if there is one, and the command.
    """

    accuracy: float
    auc: float
    seconds: float
    characters: int


@dataclass(frozen=True)
class PlainFigure:
    """The means of one table and form; `lost` is accuracy against the schema written by hand, in points.

    `seconds` are those of the first run, whose commands are processes of their own.
    """

    table: str
    form: str
    runs: int
    columns: int
    rows: int
    characters: int
    seconds: float
    accuracy: float
    standard_error: float | None
    auc: float
    lost: float
    auc_lost: float


def commands(table: PlainTable, form: str) -> tuple[str, str]:
    """Return the two commands that a user types, `register` and `train`.

    >>> print("\\n".join(commands(TABLES[0], HASHED)))
    dpsql register --db clients.duckdb --table clients --label subscribed --cap 1 --buy 0.1 --holdout 10%
    dpsql train --db clients.duckdb --table clients --epsilon 0.9 --evaluate 0.1 --name m
    """
    where = f"--db {table.name}.duckdb --table {table.name}"
    # A purchase with a delta is paid from a budget of its own kind, so that the cap is what is left for training.
    asked = {
        BY_HAND: f"--schema {table.name}.yml --cap 1",
        HASHED: f"--label {table.label} --cap 1 --buy 0.1",
        LISTED: f"--label {table.label} --cap 0.9 --buy 0.1 --delta 1e-6",
    }[form]
    epsilon = "1" if form == BY_HAND else "0.9"
    return (
        f"dpsql register {where} {asked} --holdout 10%",
        f"dpsql train {where} --epsilon {epsilon} --evaluate 0.1 --name m",
    )


def write_rows(table: PlainTable, folder: Path, *, rows: int, fresh_rows: int = FRESH_ROWS) -> None:
    """Write a table's private rows and fresh rows as CSV files."""
    table.make(rows, PRIVATE_SEED).to_csv(folder / f"{table.name}.csv", index=False)
    table.make(fresh_rows, FRESH_SEED).to_csv(folder / f"{table.name}_fresh.csv", index=False)


def schema_text(table: PlainTable) -> str:
    """Return the schema file of a table that was written by hand."""
    return (HERE / f"{table.name}.yml").read_text(encoding="utf-8")


def run_form(table: PlainTable, form: str, rows: Path, folder: Path, *, timed: bool = True) -> Outcome:
    """Go from the CSV file in `rows` to an evaluated model in an empty folder, and measure it on fresh rows.

    A run that is `timed` starts a process for each command, as a shell does; others run the same commands in this one.
    """
    run = _run_process if timed else _run_here
    database = folder / f"{table.name}.duckdb"
    (folder / f"{table.name}.yml").write_text(schema_text(table), encoding="utf-8")
    register, train = commands(table, form)
    started = time.perf_counter()
    with duckdb.connect(str(database)) as connection:
        connection.execute(f"CREATE TABLE {table.name} AS FROM '{rows / table.name}.csv'")
    run(register, folder)
    run(train, folder)
    seconds = time.perf_counter() - started
    with duckdb.connect(str(database)) as connection:
        connection.execute(f"CREATE TABLE fresh AS FROM '{rows / table.name}_fresh.csv'")
    measured = json.loads(_run_here(f"dpsql evaluate --db {database.name} --model m --table fresh --json", folder))
    typed = len(register) + (len(schema_text(table)) if form == BY_HAND else 0)
    return Outcome(100 * measured["accuracy"], measured["auc"], seconds, typed)


def _run_process(command: str, folder: Path) -> str:
    """Run a command of dpsql in a folder and return what it prints; a failure shows its message."""
    words = [sys.executable, "-m", *shlex.split(command)]
    paths = os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command}\n{done.stderr}")
    return done.stdout


def _run_here(command: str, folder: Path) -> str:
    """Run a command of dpsql in this process and return what it prints."""
    with contextlib.chdir(folder):
        done = CliRunner().invoke(app, shlex.split(command)[1:], catch_exceptions=False)
    if done.exit_code:
        raise SystemExit(f"{command}\n{done.stderr}")
    return done.stdout


def measure_table(
    table: PlainTable, *, runs: int, rows: int | None = None, progress: Callable[[str], None] = lambda what: None
) -> list[PlainFigure]:
    """Return the figures of all forms of one table, the one by hand first; `progress` hears of each run."""
    size = rows or table.rows
    outcomes: dict[str, list[Outcome]] = {form: [] for form in FORMS}
    with tempfile.TemporaryDirectory() as written:
        write_rows(table, Path(written), rows=size)
        for run in range(runs):
            for form in FORMS:
                with tempfile.TemporaryDirectory() as folder:
                    outcome = run_form(table, form, Path(written), Path(folder), timed=not run)
                outcomes[form].append(outcome)
                progress(f"{table.name}, {form}, run {run}: {asdict(outcome)}")
    columns = table.make(1, PRIVATE_SEED).shape[1]
    by_hand = outcomes[BY_HAND]
    return [summarize(table.name, form, outcomes[form], by_hand, columns=columns, rows=size) for form in FORMS]


def summarize(
    name: str, form: str, outcomes: Sequence[Outcome], by_hand: Sequence[Outcome], *, columns: int, rows: int
) -> PlainFigure:
    """Return the means of some runs, beside those with the schema written by hand."""
    accuracies, aucs = [outcome.accuracy for outcome in outcomes], [outcome.auc for outcome in outcomes]
    return PlainFigure(
        table=name,
        form=form,
        runs=len(outcomes),
        columns=columns,
        rows=rows,
        characters=outcomes[0].characters,
        seconds=outcomes[0].seconds,
        accuracy=fmean(accuracies),
        standard_error=stdev(accuracies) / len(accuracies) ** 0.5 if len(accuracies) > 1 else None,
        auc=fmean(aucs),
        lost=fmean(outcome.accuracy for outcome in by_hand) - fmean(accuracies),
        auc_lost=fmean(outcome.auc for outcome in by_hand) - fmean(aucs),
    )


def plain_table(figures: Sequence[PlainFigure]) -> Table:
    """Return the figures as a table."""
    shown = Table(title="Plain tables at epsilon 1 in all: accuracy in % and AUC on fresh rows")
    for heading in (
        "table",
        "schema",
        "columns",
        "rows",
        "runs",
        "typed",
        "seconds",
        "accuracy",
        "±",
        "AUC",
        "lost",
        "AUC lost",
    ):
        shown.add_column(heading, justify="left" if heading in ("table", "schema") else "right")
    for figure in figures:
        shown.add_row(
            figure.table,
            figure.form,
            *map(str, (figure.columns, figure.rows, figure.runs, figure.characters)),
            show.number_text(figure.seconds, places=1),
            show.number_text(figure.accuracy, places=1),
            show.number_text(figure.standard_error, places=1),
            show.number_text(figure.auc, places=3),
            show.number_text(figure.lost, places=1),
            show.number_text(figure.auc_lost, places=3),
        )
    return shown


def _note(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def main() -> None:
    """Print the commands, and one table of all figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="runs of each table and form")
    parser.add_argument("--rows", type=int, help="private rows of each table, if not 25,000 to 40,000")
    parser.add_argument("--table", action="append", choices=[table.name for table in TABLES], help="this one (repeat)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON and nothing else")
    given = parser.parse_args()
    wanted = [table for table in TABLES if not given.table or table.name in given.table]
    figures = [
        figure for table in wanted for figure in measure_table(table, runs=given.runs, rows=given.rows, progress=_note)
    ]
    if not given.json:
        for table in wanted:
            print(f"CREATE TABLE {table.name} AS FROM '{table.name}.csv';")
            print("\n".join(commands(table, HASHED)), end="\n\n")
    show.either({"figures": [asdict(figure) for figure in figures]}, plain_table(figures), as_json=given.json)


if __name__ == "__main__":
    main()
