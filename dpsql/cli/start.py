"""Where to start: a demo that needs no data and no network, and a SQL shell."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from dpsql.cli.options import Target, database
from dpsql.cli.output import note, print_table, say, working
from dpsql.demo import demonstrate
from dpsql.errors import DpsqlError, ParameterError
from dpsql.shell import Answer, Shell


@click.command()
@click.option("--db", default="demo.duckdb", show_default=True, metavar="FILE", help="A new DuckDB file.")
@click.option("--rows", type=click.IntRange(1000, 10_000_000), default=30_000, show_default=True, help="Private rows.")
def demo(db: str, rows: int) -> None:
    """Make a database with a synthetic census, train on it, predict, and show the ledger.

    \b
    Example:
      dpsql demo
    """
    if Path(db).exists():
        raise ParameterError("db", allowed="a new file; this one exists", given=db, hint="dpsql demo --db other.duckdb")
    with working("training on a synthetic census"):
        shown = demonstrate(db, rows=rows)
    say(f'Made {db}: private table "census" and hold-out table "census_holdout", both synthetic.')
    say(f'Registered "census" with a cap of {shown.budget.cap_text} (privacy unit: {shown.model.certificate["unit"]}).')
    forest = shown.model.released.forest
    say(f'Trained "{shown.model.name}" for epsilon {shown.model.certificate["epsilon"]}: {forest.trees} trees, '
        f"{forest.leaves} leaves.")  # fmt: skip
    say(str(shown.evaluation) + "\n")
    print_table("Predictions", list(shown.predictions.columns), shown.predictions.head(3).to_numpy().tolist())
    say("")
    columns = ["entry", "who", "event", "table", "method", "epsilon", "cap", "state"]
    print_table("Ledger", columns, shown.ledger[columns].to_numpy().tolist())
    say(f"\nLeft: {shown.budget.left_text} of {shown.budget.cap_text}.\n")
    note("Next:")
    note(f"  dpsql show --db {db} --model {shown.model.name}")
    note(f"  dpsql train --db {db} --table census --epsilon 0.5 --dry-run")
    note(f"  dpsql explain --db {db} --table census --leaf 3")


@click.command()
@database
@click.option("-c", "--command", "commands", multiple=True, metavar="SQL", help="Run this and stop (repeat).")
def shell(target: Target, commands: tuple[str, ...]) -> None:
    """Talk SQL to a database in which dpsql can be called.

    \b
    Example:
      dpsql shell --db data.duckdb -c "FROM dpsql_train('adult', epsilon := 0.5)"
      dpsql shell --db data.duckdb < script.sql

    The connection is hardened: no files, no other databases, no extensions. Who holds the file reads its rows.
    """
    with Shell(target.open()) as opened:
        source: Iterable[str] = commands or _typed()
        for text in source:
            for answer in opened.run(text):
                _print_answer(answer)


def _typed() -> Iterator[str]:
    """Yield statements from stdin, each up to a semicolon at the end of a line."""
    prompted = sys.stdin.isatty()
    held: list[str] = []
    if prompted:
        note("SQL, ended by a semicolon. Ctrl-D leaves.")
    while True:
        if prompted:
            click.echo("...> " if held else "dpsql> ", err=True, nl=False)
        line = sys.stdin.readline()
        if line:
            held.append(line)
        if held and (not line or line.rstrip().endswith(";")):
            yield "".join(held)
            held = []
        if not line:
            return


def _print_answer(answer: Answer) -> None:
    if answer.error is not None:
        if sys.stdin.isatty():
            note(f"Error: {answer.error}")
            return
        failed = DpsqlError(answer.error)
        failed.exit_code = answer.exit_code
        raise failed
    if answer.columns:
        print_table(None, answer.columns, answer.rows)
