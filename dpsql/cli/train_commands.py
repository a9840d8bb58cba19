"""The analyst's command: train under a charged budget, or see the plan and the SQL that would run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from dpsql.cli import options
from dpsql.cli.options import Target, as_json, database, parameters
from dpsql.cli.output import note, print_json, print_table, say, say_exact, working
from dpsql.errors import BudgetExceeded, UsageError
from dpsql.kernel.describe import larger_noise_notes, loss_text
from dpsql.kernel.plan import Plan
from dpsql.ledger import Budget, format_epsilon, measure
from dpsql.ledger.budget import amount_text, left_of
from dpsql.ledger.spend import how_to_open


@click.command()
@database
@options.training
@click.option("--name", help="Name of the model [default: the table's name and a number].")
@click.option("--request-id", metavar="ID", help="Ask twice under one id: the same model, one charge.")
@click.option("--batch", metavar="VALUE", help="Only the rows of one batch, charged on that batch alone.")
@click.option("--dry-run", is_flag=True, help="Show steps, cost, noise and budget; touch nothing.")
@click.option("--sql", is_flag=True, help="Print the statement that would run; touch nothing.")
@as_json
def train(
    target: Target,
    table: str,
    epsilon: str,
    delta: str | None,
    method: str,
    name: str | None,
    request_id: str | None,
    batch: str | None,
    dry_run: bool,
    sql: bool,
    as_json: bool,
    **given: Any,
) -> None:
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
    chosen: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "method": method} | parameters(given)
    with target.open() as db:
        if sql:
            statement = db.explain(table, batch=batch, **chosen).statement_sql
            print_json({"table": table, "sql": statement}) if as_json else say_exact(statement)
            return
        if dry_run:
            plan = db.plan(table, batch=batch, **chosen)
            print_plan(plan, db.budget(table, plan.kind), db.spent_on(table, batch, plan.kind), as_json=as_json)
            return
        with working(f'training on "{table}"'):
            ids: dict[str, Any] = {"name": name, "request_id": request_id, "batch": batch}
            model = db.train(table, **ids, **chosen)
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


def print_plan(plan: Plan, budget: Budget, before: int, *, as_json: bool) -> None:
    """Print a plan and what it would leave of a budget; raise BudgetExceeded when it would be refused."""
    after = before + plan.charge
    fits = budget.cap is None or after <= budget.cap
    described = plan.to_dict()
    if as_json:
        print_json({"plan": described, **plan.loss, "budget": budget_values(budget), "fits": fits})
    else:
        _print_steps(described, plan)
        say(f'\nBudget of "{budget.table}": {budget.text(before, up=True)} of {budget.cap_text} spent before.')
        say(f"After this run: {budget.text(after, up=True)} spent." if fits else "This run would be refused.")
        for sentence in larger_noise_notes(described):
            note(sentence)
        note("Nothing was read and nothing was charged.")
    if not fits:
        raise BudgetExceeded(
            f'table "{budget.table}"',
            needed=format_epsilon(plan.charge),
            left=amount_text(left_of(budget.cap, before)),
            cap=amount_text(budget.cap),
            measure=measure(plan.kind),
            hint=f"dpsql ledger --table {budget.table}" if budget.cap else how_to_open(budget.table, plan.kind),
        )


def _print_steps(described: dict[str, Any], plan: Plan) -> None:
    say(f"Plan of {plan.method}: {loss_text(described, plan.nano_epsilon)} in all, {described['neighbours']}.")
    if not plan.private:
        say("NOT differentially private: the published variant has no proof.")
    spent = "epsilon" if plan.promise.approximate is None else "rho"
    columns = ("step", "asks for", spent, "noise scale", "scans", "values", "expected error")
    rows = [
        (
            s["name"],
            s["operation"],
            s["epsilon"] if spent == "epsilon" else f"{s['rho']:.4g}",
            f"{s['noise_scale']:.4g}" if step.operation.answers else "–",
            s["scans"],
            s["values"],
            s["expected_error"],
        )
        for s, step in zip(described["steps"], plan.steps, strict=True)
    ]
    print_table(None, columns, rows)
    for step in described["steps"]:
        say(f"{step['name']}: {step['note']}.")
    given = [f"{name} {value}" for name, value in plan.parameters.items() if value is not None]
    if given:
        say("Parameters: " + ", ".join(given))


def _loss(certificate: Mapping[str, Any]) -> str:
    """Return what a model cost, in words."""
    epsilon = f"epsilon {certificate['epsilon']}"
    return f"rho {certificate['rho']}: {epsilon}, delta {certificate['delta']}" if "rho" in certificate else epsilon


def budget_values(budget: Budget) -> dict[str, Any]:
    """Return a budget as plain values."""
    amounts = {"cap": budget.cap, "spent": budget.spent, "left": budget.left}
    return {"table": budget.table, "kind": budget.kind} | {name: amount_text(one) for name, one in amounts.items()}
