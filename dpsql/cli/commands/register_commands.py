"""The command `dpsql register`: a private table gets a public schema and a cap."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from dpsql.cli.command import command
from dpsql.cli.options import DatabaseTarget, as_json, maybe_database
from dpsql.cli.printing.cap_notes import note_exhausted, note_warnings, say_hold_out
from dpsql.cli.printing.output import note, print_json, say, say_exact
from dpsql.cli.register_form import fill_in_form, is_form_wanted
from dpsql.cli.register_purchase import purchase_options, register_purchase, take_purchase
from dpsql.cli.schema_flags import declared_parts, schema_of
from dpsql.cli.written_files import overwrites
from dpsql.errors import UsageError
from dpsql.kernel.datasets.hold_out import hold_out_name, parse_share
from dpsql.ledger import limit_details, parse_epsilon
from dpsql.ledger.odds import note_large
from dpsql.owner.resolve_table import read_query, resolve_table, with_unit
from dpsql.schema import schema_file as schemafile


@command("register")
@maybe_database
@click.option("--table", help="The private table, or a view; with --view the query's name [default: the file's].")
@click.option("--view", metavar="FILE", help="A file with a query over several private tables, in place of a table.")
@click.option("--public", multiple=True, metavar="TABLE", help="A table that a view joins and that is public (repeat).")
@click.option("--share-budget", is_flag=True, help="Pay from the budget that the same rows have already; no --cap.")
@click.option("--schema", "schema_file", metavar="FILE", help="YAML or JSON file with the public schema.")
@click.option("--entry", metavar="NAME", help="Which schema, where the file holds several.")
@click.option("--cap", metavar="E", help="The epsilon that all runs together may cost.")
@click.option("--no-cap", is_flag=True, help="Public data: no cap, for comparisons only.")
@click.option("--label", help="Without --schema: the label column.")
@click.option(
    "--class",
    "classes",
    multiple=True,
    metavar="VALUE|STORED=WORD",
    help="Without --schema: a class (repeat); true=yes maps what is stored.",
)
@click.option("--target", "bounds", metavar="LOWER:UPPER", help="Without --schema: the bounds of a numeric label.")
@click.option("--numeric", multiple=True, metavar="NAME:LOWER:UPPER", help="Without --schema: a numeric feature.")
@click.option(
    "--categorical",
    multiple=True,
    metavar="NAME:A,B,…",
    help="Without --schema: a categorical feature; NAME:true=yes,false=no maps.",
)
@click.option("--boolean", multiple=True, metavar="NAME", help="Without --schema: a boolean feature.")
@click.option("--unit", metavar="COLUMN[:MAX_ROWS]", help="The privacy unit [default: as in --schema, else a row].")
@click.option("--rows", type=int, help="Without --schema: the approximate size, declared public.")
@click.option("--public-features", is_flag=True, help="Without --schema: labels alone are private.")
@click.option("--disjoint-from", multiple=True, metavar="TABLE", help="Without --schema: no unit is in that table.")
@purchase_options
@overwrites
@click.option("--lost-runs", type=int, metavar="N", help="Unfinished runs before others wait for you [default: 5].")
@click.option("--least-epsilon", metavar="E", help="What a run costs at least [default: 0.001].")
@click.option("--holdout", metavar="SHARE", help="A share of the units that no model is trained on, such as 10%.")
@click.option("--holdout-cap", metavar="E", help="The cap of the hold-out's own budget [default: that of --cap].")
@click.option("--replace", is_flag=True, help="Change schema and cap of a registered table; what is spent stays.")
@click.option("--yes", "allow_large", is_flag=True, help="A cap above 20 is meant.")
@click.option("--dry-run", is_flag=True, help="Check the schema file and show it; change nothing.")
@as_json
def register_command(
    target: DatabaseTarget,
    table: str | None,
    view: str | None,
    public: tuple[str, ...],
    share_budget: bool,
    schema_file: str | None,
    entry: str | None,
    cap: str | None,
    no_cap: bool,
    lost_runs: int | None,
    least_epsilon: str | None,
    holdout: str | None,
    holdout_cap: str | None,
    replace: bool,
    allow_large: bool,
    dry_run: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Register a private table under a public schema and a cap.

    \b
    Example:
      dpsql register --db data.duckdb --table adult --schema adult.yml --cap 3
      dpsql register --db data.duckdb --table visits --cap 2 --label ill --class yes --class no \\
          --numeric age:0:110 --categorical ward:A,B,C --unit person_id:3
      dpsql register --db bank.duckdb --table clients --label y --cap 3 --buy 0.1
      dpsql register --db data.duckdb --table adult --schema adult.yml --cap 3 --holdout 10%
      dpsql register --db w.duckdb --view features.sql --unit person_id --public codes --schema s.yml --cap 3

    On a terminal, without a schema, the open questions are asked one by one, and the file is written for you.
    With --buy no schema file is needed: bounds, a size and the classes of the label are bought for that epsilon. Texts
    become hashed categories whose cells in use are bought, or lists of values where --delta allows it. --dry-run shows
    what it would cost.
    Otherwise registering looks at the catalog alone and reads no row. It is the owner's act and an entry in the ledger.
    """
    purchase = take_purchase(flags)
    others = [schema_file, entry, no_cap, lost_runs, least_epsilon, holdout, holdout_cap, replace, dry_run, as_json]
    if is_form_wanted([view, share_budget, *others, *(value for name, value in flags.items() if name != "label")]):
        fill_in_form(target, table=table, label=flags["label"], cap=cap)
        return
    if target.db is None:
        raise click.UsageError("Missing option '--db'.")
    if table is None and view is None:
        raise UsageError("say what to register.", hint="--table TABLE, or --view FILE for a query over several tables")
    if (cap is None) == (not no_cap) and not (share_budget and not no_cap):
        raise UsageError("say what all runs together may cost.", hint="--cap EPSILON (or --no-cap for public data)")
    if purchase is not None:
        if schema_file is not None or entry is not None or view is not None or no_cap or share_budget:
            hint = "leave out --schema, --entry, --view, --no-cap"
            raise UsageError("--buy is for a table without a schema file.", hint=hint)
        options = {"replace": replace, "lost_runs": lost_runs, "least_epsilon": least_epsilon, "holdout": holdout,
                   "holdout_cap": holdout_cap, "allow_large": allow_large}  # fmt: skip
        declared = declared_parts(flags)
        register_purchase(target, str(table), purchase | declared, cap=cap, options=options, dry_run=dry_run,
                          as_json=as_json)  # fmt: skip
        return
    name = table or Path(view or "").stem
    unit = flags.pop("unit") if (view or schema_file) and flags["unit"] and ":" not in flags["unit"] else None
    schema = with_unit(schema_of(schema_file, entry, {"unit": None, **flags}), unit, public)
    query = None if view is None else read_query(view)
    with target.open(writes=not dry_run) as db:
        if dry_run:
            if cap is not None:
                with note_warnings():
                    note_large("cap", parse_epsilon(cap, "cap"), allow_large=allow_large, table=name)
            limit_details(lost_runs, least_epsilon)
            if holdout is not None:
                parse_share(holdout)
            with schemafile.lines_from(schema_file, entry=entry):
                resolved = resolve_table(db.engine, name, schema, query)
            spelled = resolved.schema
            described = {"table": resolved.info.name, "schema": spelled.to_dict()}
            if as_json:
                print_json(described)
            else:
                say_exact(schemafile.dump(spelled))
            note("Nothing was changed.")
            return
        with note_warnings(), schemafile.lines_from(schema_file, entry=entry):
            dataset = db.register(
                name,
                schema,
                cap=cap,
                replace=replace,
                lost_runs=lost_runs,
                least_epsilon=least_epsilon,
                holdout=holdout,
                holdout_cap=holdout_cap,
                allow_large=allow_large,
                view=query,
                share_budget=share_budget,
            )
        budget = db.budget(dataset.table)
        beside = None if dataset.hold_out is None else db.budget(hold_out_name(dataset.table))
    if as_json:
        described = {
            "dataset": dataset.id, "table": dataset.table, "cap": budget.cap_text, "spent": budget.spent_text
        }  # fmt: skip
        if dataset.hold_out is not None and beside is not None:
            share = dataset.hold_out.share_text
            described["holdout"] = {"table": beside.table, "share": share, "cap": beside.cap_text}
        print_json(described)
        return
    say(f'Registered "{dataset.table}" as dataset {dataset.id}.')
    say(f"Privacy unit: {dataset.schema.unit}. Neighbours: {dataset.schema.unit.neighbours}.")
    if dataset.many:
        names = ", ".join(f'"{place[1]}"' for place in dataset.base.tables)
        say(f"Private tables: {names}. Public: {', '.join(dataset.schema.public_tables) or 'none'}.")
    if dataset.account:
        say(f'It pays from the budget of "{dataset.account_table}".')
    say(f"Cap {budget.cap_text}, spent {budget.spent_text}, left {budget.left_text}.")
    note_exhausted(budget, None)
    next_step = f"dpsql train {target.words} --table {shlex.quote(dataset.table)}"
    say_hold_out(dataset, beside)
    if beside is not None:
        note(f"Next:  {next_step} --epsilon 1 --evaluate 0.1")
    else:
        note(f"Next:  {next_step} --dry-run")
