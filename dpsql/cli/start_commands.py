"""Where to start: a demo that needs no data and no network, and a SQL shell."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from dpsql.api import census
from dpsql.api.demo import Demonstration, demonstrate
from dpsql.api.shell import Answer, Shell
from dpsql.cli.evaluation_lines import evaluation_line
from dpsql.cli.options import DatabaseTarget, as_json, database
from dpsql.cli.output import note, print_json, print_table, say, show_progress
from dpsql.errors import DpsqlError, ParameterError
from dpsql.runs.private_evaluation import evaluation_of_training
from dpsql.trees.tree_count import forest_count_text


@click.command()
@click.option("--db", default="demo.duckdb", show_default=True, metavar="FILE", help="A new DuckDB file.")
@click.option(
    "--rows", type=click.IntRange(1000, 10_000_000), default=census.ROWS, show_default=True, help="Private rows."
)
@as_json
def demo(db: str, rows: int, as_json: bool) -> None:
    """Make a database with a synthetic census, train on it, predict, and show the ledger.

    \b
    Example:
      dpsql demo
    """
    if _exists(db):
        raise ParameterError("db", allowed="a new file; this one exists", given=db, hint="dpsql demo --db other.duckdb")
    with show_progress("training on a synthetic census"):
        shown = demonstrate(db, rows=rows)
    if as_json:
        print_json({"db": db, "model": shown.model.name, "evaluation": shown.evaluation.to_dict(),
                    "holdout_evaluation": evaluation_of_training(shown.model),
                    "spent": shown.budget.spent_text, "left": shown.budget.left_text})  # fmt: skip
    else:
        _print_demonstration(shown, db)
    note("Next:")
    note(f"  dpsql explain --db {db} --model {shown.model.name}")
    note(f"  dpsql show --db {db} --model {shown.model.name}")
    note(f"  dpsql train --db {db} --table census --epsilon 0.5 --dry-run")


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:
        return False  # opening it will say why not


def _print_demonstration(shown: Demonstration, db: str) -> None:
    say(f'Made {db}: private table "census" and public table "census_holdout" of other people, both synthetic.')
    say(f'Registered "census" with a cap of {shown.budget.cap_text} (privacy unit: {shown.model.certificate["unit"]}), '
        f"and 10 % of it as a hold-out, never trained on, with a cap of {shown.hold_out_budget.cap_text}.")  # fmt: skip
    forest = shown.model.released.forest
    say(f'Trained "{shown.model.name}" for epsilon {shown.model.certificate["epsilon"]}: {forest_count_text(forest)}, '
        f"{forest.leaves} leaves.")  # fmt: skip
    for measured in shown.model.certificate["evaluations"]:
        say(f"On the hold-out: {evaluation_line(measured)}.")
    say(f"For free: {shown.evaluation}\n")
    print_table("Predictions", list(shown.predictions.columns), shown.predictions.head(3).to_numpy().tolist())
    say("")
    columns = ["entry", "who", "event", "table", "method", "epsilon", "cap", "state"]
    print_table("Ledger", columns, shown.ledger[columns].to_numpy().tolist())
    say("")
    for budget in (shown.budget, shown.hold_out_budget):
        say(f'Left of "{budget.table}": {budget.left_text} of {budget.cap_text}.')
    say("")


@click.command()
@database
@click.option("-c", "--command", "commands", multiple=True, metavar="SQL", help="Run this and stop (repeat).")
@as_json
def shell(target: DatabaseTarget, commands: tuple[str, ...], as_json: bool) -> None:
    """Talk SQL to a database in which dpsql can be called.

    \b
    Example:
      dpsql shell --db data.duckdb -c "FROM dpsql_train('adult', epsilon := 0.5)"
      dpsql shell --db data.duckdb < script.sql

    The connection is hardened: no files, no other databases, no extensions. Who holds the file reads its rows.
    """
    talking = not commands and sys.stdin.isatty()
    answers: list[dict[str, object]] = []
    with Shell(target.open()) as opened:
        source: Iterable[str] = _read_statements() if talking else commands or [sys.stdin.read()]
        for text in source:
            for answer in opened.run(text):
                if answer.error is not None and not talking:
                    raise _failure(answer)
                if not as_json or answer.error is not None:
                    _print_answer(answer)
                elif answer.columns:
                    answers.append({"columns": answer.columns, "rows": answer.rows})
    if as_json:
        print_json(answers)


def _read_statements() -> Iterator[str]:
    """Yield statements typed on a terminal, each up to a semicolon at the end of a line."""
    lines: list[str] = []
    note("SQL, ended by a semicolon. Ctrl-D leaves.")
    while True:
        click.echo("...> " if lines else "dpsql> ", err=True, nl=False)
        line = sys.stdin.readline()
        if line:
            lines.append(line)
        if lines and (not line or line.rstrip().endswith(";")):
            yield "".join(lines)
            lines = []
        if not line:
            return


def _failure(answer: Answer) -> DpsqlError:
    """Return the error of a statement, with its own exit code."""
    failed = DpsqlError(answer.message)
    failed.exit_code = answer.exit_code
    return failed


def _print_answer(answer: Answer) -> None:
    if answer.error is not None:
        note(f"Error: {answer.message}")
    elif answer.columns:
        print_table(None, answer.columns, answer.rows)
