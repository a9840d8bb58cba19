"""The analyst's command: train under a charged budget, or see the plan and the SQL that would run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from dpsql.cli import options
from dpsql.cli.options import DatabaseTarget, as_json, database, parameters
from dpsql.cli.output import budget_values, note, print_json, print_plan, say, say_exact, show_progress
from dpsql.errors import UsageError
from dpsql.kernel.describe import larger_noise_notes


@click.command("train")
@database
@options.request_options(names_release=True)
@click.option("--dry-run", is_flag=True, help="Show steps, cost, noise and budget; touch nothing.")
@click.option("--sql", is_flag=True, help="Print the statement that would run; touch nothing.")
@as_json
def train_command(target: DatabaseTarget, dry_run: bool, sql: bool, as_json: bool, **given: Any) -> None:
    """Train a private forest on a registered table.

    \b
    Example:
      dpsql train --db data.duckdb --table adult
      dpsql train --db data.duckdb --table adult --epsilon 0.5 --dry-run

    The charge is in the ledger before the first row is read, and stays whatever happens next. With --delta the run is
    (epsilon, delta)-private and pays from a budget of kind "approximate", which the owner must have opened.
    """
    if sql and dry_run:
        raise UsageError("one thing at a time: the SQL or the plan.", hint="leave out --sql or --dry-run")
    request = parameters(given)
    table, batch = request.pop("table"), request.get("batch")
    with target.open() as db:
        if sql:
            _print_sql(table, db.explain(table, **request).statement_sql, as_json=as_json)
            return
        if dry_run:
            plan = db.plan(table, **request)
            print_plan(plan, db.budget(table, plan.kind), db.spent_on(table, batch, plan.kind), as_json=as_json)
            return
        with show_progress(f'training on "{table}"'):
            model = db.train(table, **request)
        left = db.budget(table, model.certificate.get("kind", "pure"))
    if as_json:
        print_json({"model": model.name, "budget": budget_values(left), "certificate": dict(model.certificate)})
        return
    forest = model.released.forest
    say(f'Model "{model.name}": {model.method}, {forest.trees} trees, depth {forest.depth}, {forest.leaves} leaves.')
    if not model.certificate["private"]:
        say("NOT differentially private: the published variant has no proof.")
    say(f"Charged {_loss(model.certificate)} ({model.certificate['neighbours']}).")
    say(f'Budget of "{left.table}": {left.spent_text} of {left.cap_text} spent, {left.left_text} left.')
    for sentence in larger_noise_notes(model.certificate["plan"]):
        note(sentence)
    note(f"Next:  dpsql predict {target.words} --model {model.name} --table NEW_ROWS")


def _print_sql(table: str, statement: str, *, as_json: bool) -> None:
    """Print the statement that would run on a table."""
    if as_json:
        print_json({"table": table, "sql": statement})
    else:
        say_exact(statement)


def _loss(certificate: Mapping[str, Any]) -> str:
    """Return what a model cost, in words."""
    epsilon = f"epsilon {certificate['epsilon']}"
    return f"rho {certificate['rho']}: {epsilon}, delta {certificate['delta']}" if "rho" in certificate else epsilon
