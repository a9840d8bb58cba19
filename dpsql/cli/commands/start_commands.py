"""Where to start: a demo that needs no data and no network, and a SQL shell."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from dpsql.api import census
from dpsql.api.demo import Demonstration, demonstrate
from dpsql.api.shell import Answer, Shell
from dpsql.cli.command import command
from dpsql.cli.options import DatabaseTarget, as_json, database
from dpsql.cli.printing.evaluation_lines import evaluation_line
from dpsql.cli.printing.output import note, print_json, print_table, say, show_progress
from dpsql.cli.shell_session import print_answer, talk
from dpsql.errors import DpsqlError, ParameterError
from dpsql.runs.private_evaluation import evaluation_of_training
from dpsql.trees.tree_count import forest_count_text


@command()
@click.option("--db", default="demo.duckdb", show_default=True, metavar="FILE", help="A new DuckDB file.")
@click.option(
    "--rows", type=click.IntRange(1000, 10_000_000), default=census.ROWS, show_default=True, help="Private rows."
)
@as_json
def demo(db: str, rows: int, as_json: bool) -> None:
    """Make a database of made-up people, train on it and predict.

    \b
    Example:
      dpsql demo

    The people are a synthetic census: it needs no data and no network. The ledger is shown at the end.
    """
    if _exists(db):
        raise ParameterError("db", allowed="a new file; this one exists", given=db, hint="dpsql demo --db OTHER.duckdb")
    with show_progress("training on a synthetic census"):
        shown = demonstrate(db, rows=rows)
    if as_json:
        print_json({"db": db, "model": shown.model.name, "evaluation": shown.evaluation.to_dict(),
                    "holdout_evaluation": evaluation_of_training(shown.model),
                    "spent": shown.budget.spent_text, "left": shown.budget.left_text})  # fmt: skip
    else:
        _print_demonstration(shown, db)
    place = f"--db {shlex.quote(db)}"
    note("Next:")
    note(f"  dpsql explain {place} --model {shlex.quote(shown.model.name)}")
    note(f"  dpsql show {place} --model {shlex.quote(shown.model.name)}")
    note(f"  dpsql train {place} --table census --epsilon 0.5 --dry-run")


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


@command()
@database
@click.option("-c", "--command", "commands", multiple=True, metavar="SQL", help="Run this and stop (repeat).")
@as_json
def shell(target: DatabaseTarget, commands: tuple[str, ...], as_json: bool) -> None:
    """Talk SQL to a database in which dpsql can be called.

    \b
    Example:
      dpsql shell --db data.duckdb -c "FROM dpsql_train('adult', epsilon := 0.5)"
      dpsql shell --db data.duckdb < script.sql

    On a terminal it has history, editing and completion; `.help` lists its own commands.
    The connection is hardened: no files, no other databases, no extensions. Who holds the file reads its rows.
    """
    answers: list[dict[str, object]] = []
    with Shell(target.open()) as opened:
        if not commands and not as_json and sys.stdin.isatty():
            talk(opened)
            return
        for text in commands or [sys.stdin.read()]:
            for answer in opened.run(text):
                if answer.error is not None:
                    raise _failure(answer)
                if not as_json:
                    print_answer(answer)
                elif answer.columns:
                    answers.append({"columns": answer.columns, "rows": answer.rows})
    if as_json:
        print_json(answers, rows_of_users=True)


def _failure(answer: Answer) -> DpsqlError:
    """Return the error of a statement, with its own exit code."""
    failed = DpsqlError(answer.message)
    failed.exit_code = answer.exit_code
    return failed
