"""The part of `dpsql register` that works without a schema file: what is open is bought, and the rest is said."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from dpsql.api.buy_schema import BoughtSchema, PlannedPurchase
from dpsql.cli.options import DatabaseTarget
from dpsql.cli.printing.cap_notes import note_warnings, say_hold_out
from dpsql.cli.printing.output import check_new, note, print_json, say, say_exact, write_new
from dpsql.errors import UsageError
from dpsql.kernel.datasets.hold_out import hold_out_name
from dpsql.ledger import parse_epsilon
from dpsql.owner.drafts.proposal import LEFT_OUT

_Command = TypeVar("_Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--buy", metavar="E", help="Without --schema: buy what is not known of the columns, for epsilon E."),
    click.option("--delta", metavar="D", help="With --buy: lists of texts are bought too, at this delta."),
    click.option("--like", metavar="FILE|TABLE", help="With --buy: a public sample of such rows."),
    click.option("--dictionary", metavar="FILE", help="With --buy: a code book (CSV, YAML, dbt)."),
    click.option("--public-table", "public_tables", multiple=True, metavar="TABLE",
                 help="With --buy: a code table that is public (repeat)."),
    click.option("--values-are-public", multiple=True, metavar="COLUMN",
                 help="With --buy: look this column's values up; you declare them public (repeat)."),
    click.option("--to", metavar="FILE", help="With --buy: write the schema to a new file too."),
)  # fmt: skip


def purchase_options(command: _Command) -> _Command:
    """Add the options of a purchase to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def take_purchase(flags: dict[str, Any]) -> dict[str, Any] | None:
    """Take the options of a purchase out of a command's flags; None where nothing is to be bought."""
    names = ("buy", "delta", "like", "dictionary", "public_tables", "values_are_public", "to")
    purchase = {name: flags.pop(name) for name in names}
    given = [name for name, value in purchase.items() if value]
    if purchase["buy"] is None:
        if given:
            option = given[0].replace("_", "-")
            raise UsageError(
                f"--{option} is given with --buy alone.", hint="--buy EPSILON, or dpsql schema draft --table TABLE"
            )
        return None
    return purchase


def register_purchase(
    target: DatabaseTarget,
    table: str,
    request: Mapping[str, Any],
    *,
    cap: str | None,
    options: Mapping[str, Any],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Register a table by buying what is open, or show what that would ask and cost."""
    given = dict(request)
    to = given.pop("to")
    check_new(to)
    parse_epsilon(cap, "cap")
    with target.open(writes=not dry_run) as db:
        if dry_run:
            with note_warnings():
                purchase = db.plan_purchase(table, cap=cap, **given, **options)
            _show_plan(table, purchase, cap=cap, holdout=options.get("holdout"), as_json=as_json)
            return
        with note_warnings():
            bought = db.buy_schema(table, cap=cap, **given, **options)
        budget = db.budget(bought.dataset.table)
        has_hold_out = bought.dataset.hold_out is not None
        beside = db.budget(hold_out_name(bought.dataset.table)) if has_hold_out else None
    if to is not None:
        write_new(to, bought.draft.text)
    if as_json:
        print_json(_bought_values(bought) | {"cap": budget.cap_text, "spent": budget.spent_text, "to": to})
        return
    _say_bought(bought)
    say(f"Cap {budget.cap_text}, spent {budget.spent_text}, left {budget.left_text}.")
    next_step = f"dpsql train {target.words} --table {shlex.quote(bought.dataset.table)} --epsilon 1"
    say_hold_out(bought.dataset, beside)
    if beside is not None:
        next_step += " --evaluate 0.1"
    if to is not None:
        note(f"Wrote {to}.")
    note(f"Next:  {next_step} --dry-run")


def _show_plan(table: str, purchase: PlannedPurchase, *, cap: str | None, holdout: object, as_json: bool) -> None:
    """Print what registering a table would ask and cost."""
    if as_json:
        plan = None if purchase.plan is None else purchase.plan.to_dict()
        shown = {"table": table, "cap": cap, "holdout": holdout, "unit": str(purchase.likely.unit)}
        print_json({**shown, "plan": plan, "columns": purchase.purposes})
        return
    beside = f", and a hold-out of {holdout}" if holdout else ""
    say(f'Would register "{purchase.draft.table}" with cap {cap} (privacy unit: {purchase.likely.unit}){beside}.')
    if purchase.is_bought_already:
        say("What has to be bought was bought before; it costs nothing again.")
    elif purchase.plan is not None:
        say_exact(f"{purchase.plan}\n")
    else:
        say("Nothing has to be bought.")
    for column, purpose in purchase.purposes.items():
        say(f"  {column}: {purpose}")
    note("Nothing was bought, charged or registered.")


def _say_bought(bought: BoughtSchema) -> None:
    """Print the schema, with the origin of each domain, and what it cost."""
    dataset, domains = bought.dataset, bought.domains
    say_exact(bought.draft.text)
    say(f'Registered "{dataset.table}" as dataset {dataset.id}.')
    say(f"Privacy unit: {dataset.schema.unit}. Neighbours: {dataset.schema.unit.neighbours}.")
    if domains is not None:
        size = domains.deviations["size"]
        say(f"Bought for epsilon {domains.epsilon} (entry {domains.entry}): about {domains.rows} rows, ± {size:.0f}.")
    left_out = [proposal.column for proposal in bought.draft.proposals if proposal.role == LEFT_OUT]
    if left_out:
        say(f"Left out: {', '.join(left_out)}.")


def _bought_values(bought: BoughtSchema) -> dict[str, Any]:
    dataset, domains = bought.dataset, bought.domains
    return {
        "dataset": dataset.id,
        "table": dataset.table,
        "schema": dataset.schema.to_dict(),
        "proposals": bought.draft.to_dict()["proposals"],
        "bought": None if domains is None else {"entry": domains.entry, "epsilon": domains.epsilon},
    }
