"""The owner's commands: register a table, draft a schema, see and set budgets."""

from __future__ import annotations

from typing import Any

import click

from dpsql.cli.options import DatabaseTarget, as_json, database
from dpsql.cli.output import check_new, note, print_json, print_table, say, say_exact, write_new
from dpsql.errors import ParameterError, UsageError
from dpsql.kernel.datasets.dataset import resolve
from dpsql.ledger import KINDS, Budget, format_delta, limit_details, parse_epsilon
from dpsql.ledger.budget import amount_text
from dpsql.schema import Schema
from dpsql.schema import schema_file as schemafile


@click.command("register")
@database
@click.option("--table", required=True, help="The private table, or a row-to-row view of it.")
@click.option("--schema", "schema_file", metavar="FILE", help="YAML or JSON file with the public schema.")
@click.option("--entry", metavar="NAME", help="Which schema, where the file holds several.")
@click.option("--cap", metavar="E", help="The epsilon that all runs together may cost.")
@click.option("--no-cap", is_flag=True, help="Public data: no cap, for comparisons only.")
@click.option("--label", help="Without --schema: the label column.")
@click.option("--class", "classes", multiple=True, metavar="VALUE", help="Without --schema: a class (repeat).")
@click.option("--target", "bounds", metavar="LOWER:UPPER", help="Without --schema: the bounds of a numeric label.")
@click.option("--numeric", multiple=True, metavar="NAME:LOWER:UPPER", help="Without --schema: a numeric feature.")
@click.option("--categorical", multiple=True, metavar="NAME:A,B,…", help="Without --schema: a categorical feature.")
@click.option("--boolean", multiple=True, metavar="NAME", help="Without --schema: a boolean feature.")
@click.option("--unit", metavar="COLUMN:MAX_ROWS", help="Without --schema: the privacy unit [default: a row].")
@click.option("--rows", type=int, help="Without --schema: the approximate size, declared public.")
@click.option("--public-features", is_flag=True, help="Without --schema: labels alone are private.")
@click.option("--disjoint-from", multiple=True, metavar="TABLE", help="Without --schema: no unit is in that table.")
@click.option("--lost-runs", type=int, metavar="N", help="Unfinished runs before others wait for you [default: 5].")
@click.option("--least-epsilon", metavar="E", help="What a run costs at least [default: 0.001].")
@click.option("--replace", is_flag=True, help="Change schema and cap of a registered table; what is spent stays.")
@click.option("--dry-run", is_flag=True, help="Check the schema file and show it; change nothing.")
@as_json
def register_command(
    target: DatabaseTarget,
    table: str,
    schema_file: str | None,
    entry: str | None,
    cap: str | None,
    no_cap: bool,
    lost_runs: int | None,
    least_epsilon: str | None,
    replace: bool,
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

    Registering looks at the catalog alone and reads no row. It is the owner's act and an entry in the ledger.
    """
    if (cap is None) == (not no_cap):
        raise UsageError("say what all runs together may cost.", hint="--cap EPSILON (or --no-cap for public data)")
    schema = _schema(schema_file, entry, flags)
    with target.open() as db:
        if dry_run:
            if cap is not None:
                parse_epsilon(cap, "cap")
            limit_details(lost_runs, least_epsilon)
            info, _, spelled = resolve(db.engine, table, schema)
            described = {"table": info.name, "schema": spelled.to_dict()}
            if as_json:
                print_json(described)
            else:
                say_exact(schemafile.dump(spelled))
            note("Nothing was changed.")
            return
        dataset = db.register(table, schema, cap=cap, replace=replace, lost_runs=lost_runs, least_epsilon=least_epsilon)
        budget = db.budget(dataset.table)
    if as_json:
        print_json({"dataset": dataset.id, "table": dataset.table, "cap": budget.cap_text, "spent": budget.spent_text})
        return
    say(f'Registered "{dataset.table}" as dataset {dataset.id}.')
    say(f"Privacy unit: {dataset.schema.unit}. Neighbours: {dataset.schema.unit.neighbours}.")
    say(f"Cap {budget.cap_text}, spent {budget.spent_text}, left {budget.left_text}.")


@click.group("schema")
def schema_group() -> None:
    """Propose schema files.

    \b
    Example:
      dpsql schema draft --db data.duckdb --table adult --to adult.yml
    """


@schema_group.command("draft")
@database
@click.option("--table", required=True, help="The table to look up in the catalog.")
@click.option("--label", help="The label column.")
@click.option("--to", metavar="FILE", help="Write to a new file instead of stdout.")
@as_json
def draft_command(target: DatabaseTarget, table: str, label: str | None, to: str | None, as_json: bool) -> None:
    """Propose a schema file from the catalog alone.

    \b
    Example:
      dpsql schema draft --db data.duckdb --table adult --to adult.yml

    Column types, ENUM values and CHECK constraints are used. Rows never are: what only they could tell
    is left as ??? for you to fill in.
    """
    check_new(to)
    with target.open() as db:
        text = db.draft(table, label=label)
    if to is not None:
        write_new(to, text)
    if as_json:
        print_json({"table": table, "to": to} if to else {"table": table, "schema": text})
        return
    if to is None:
        say_exact(text)
        return
    note(f"Wrote {to}. Fill in every ??? before you register.")


@click.command("add-ids")
@database
@click.option("--table", required=True, help="The table.")
@click.option("--column", default="dpsql_id", show_default=True, help="Name of the new column.")
@as_json
def add_ids(target: DatabaseTarget, table: str, column: str, as_json: bool) -> None:
    """Give every row a random id of its own, for tables without a key.

    \b
    Example:
      dpsql add-ids --db data.duckdb --table adult

    Name the column as `partition` in the schema: rows are then dealt out to trees by it. This changes the table.
    """
    with target.open() as db:
        db.add_row_ids(table, column=column)
    if as_json:
        print_json({"table": table, "column": column})
        return
    say(f'Added column "{column}" to "{table}". In the schema file: partition: {column}')


@click.command("budget")
@database
@click.option("--table", help="One table [default: all registered ones].")
@click.option("--set-cap", metavar="E", help="Owner: set the cap.")
@click.option("--analyst", metavar="NAME", help="With --set-cap: this analyst's cap under the dataset's.")
@click.option("--kind", type=click.Choice(KINDS), help="What is promised: pure epsilon, labels alone, or with a delta.")
@click.option("--delta", metavar="D", help="With --set-cap of kind approximate: the delta of all its runs together.")
@click.option("--lost-runs", type=int, metavar="N", help="Owner: unfinished runs before others wait for you.")
@click.option("--least-epsilon", metavar="E", help="Owner: what a run costs at least.")
@as_json
def budget_command(
    target: DatabaseTarget,
    table: str | None,
    set_cap: str | None,
    analyst: str | None,
    kind: str | None,
    delta: str | None,
    lost_runs: int | None,
    least_epsilon: str | None,
    as_json: bool,
) -> None:
    """Show what each table's cap is, what is spent and what is left; as owner, set a cap or limits.

    \b
    Example:
      dpsql budget --db data.duckdb
      dpsql budget --db data.duckdb --table adult --set-cap 5
      dpsql budget --db data.duckdb --table adult --set-cap 1 --analyst alice
      dpsql budget --db data.duckdb --table trials --set-cap 1 --kind label
      dpsql budget --db data.duckdb --table adult --set-cap 3 --kind approximate --delta 1e-6
      dpsql budget --db data.duckdb --table adult --lost-runs 10 --least-epsilon 0.01

    Each kind has a budget of its own. Pure epsilon alone is open until you open another.
    """
    if any(given is not None for given in (set_cap, analyst, delta)) and (table is None or set_cap is None):
        raise UsageError("setting a cap needs a table and a cap.", hint="--table TABLE --set-cap EPSILON")
    limits = {"lost_runs": lost_runs, "least_epsilon": least_epsilon}
    limited = any(given is not None for given in limits.values())
    if limited and table is None:
        raise UsageError("limits are set for one table.", hint="--table TABLE")
    limit_details(lost_runs, least_epsilon)  # before anything is changed
    with target.open() as db:
        if limited and table is not None:
            db.set_limits(table, lost_runs=lost_runs, least_epsilon=least_epsilon)
        if set_cap is not None and table is not None:
            db.set_cap(table, set_cap, analyst=analyst, kind=kind or "pure", delta=delta)
        budgets = [db.budget(table, kind or "pure")] if table is not None else db.budgets()
    if as_json:
        print_json([_budget_dict(budget) for budget in budgets])
        return
    rows: list[list[str]] = []
    for budget in budgets:
        rows.append([budget.table, budget.kind_text, "", budget.cap_text, budget.spent_text, budget.left_text])
        rows += [["", "", share.name, share.cap_text, share.spent_text, share.left_text] for share in budget.analysts]
    print_table(None, ("table", "kind", "analyst", "cap", "spent", "left"), rows)
    for budget in {budget.dataset: budget for budget in budgets if budget.cap is not None}.values():
        least = budget.standing.limits.least_text
        note(f"{budget.table}: {budget.standing.text}; a run costs at least epsilon {least}.")


def _schema(schema_file: str | None, entry: str | None, flags: dict[str, Any]) -> Schema:
    given = [name for name, value in flags.items() if value]
    if schema_file is not None:
        if given:
            raise UsageError("give the schema as a file or as flags, not both.", hint="leave out --schema or the flags")
        return schemafile.load_schema(schema_file, entry=entry)
    if entry is not None:
        raise UsageError("--entry picks one of the schemas in a file.", hint="--schema FILE --entry NAME")
    if not flags["label"] or bool(flags["classes"]) == bool(flags["bounds"]):
        hint = "--schema FILE, or --label, --class (or --target) and features as flags"
        raise UsageError("a schema is needed.", hint=hint)
    features: dict[str, Any] = {}
    for text in flags["numeric"]:
        name, lower, upper = _parts(text, "numeric", "NAME:LOWER:UPPER", 3)
        _refuse_repeated(name, features)
        features[name] = {"type": "numeric", "lower": _number(lower), "upper": _number(upper)}
    for text in flags["categorical"]:
        name, values = _parts(text, "categorical", "NAME:A,B,…", 2)
        _refuse_repeated(name, features)
        features[name] = {"type": "categorical", "values": values.split(",")}
    for name in flags["boolean"]:
        _refuse_repeated(name, features)
        features[name] = {"type": "boolean"}
    declared = {"label": flags["label"], "features": features, "rows": flags["rows"]}
    if flags["bounds"]:
        lower, upper = _parts(flags["bounds"], "target", "LOWER:UPPER", 2)
        declared["target"] = {"lower": _number(lower), "upper": _number(upper)}
    else:
        declared["classes"] = list(flags["classes"])
    if flags["public_features"]:
        declared["public_features"] = True
    if flags["disjoint_from"]:
        declared["disjoint_from"] = list(flags["disjoint_from"])
    if flags["unit"]:
        column, most = _parts(flags["unit"], "unit", "COLUMN:MAX_ROWS", 2)
        declared["privacy_unit"] = {"column": column, "max_rows": _whole_number(most)}
    return Schema.from_dict(declared)


def _refuse_repeated(name: str, features: dict[str, Any]) -> None:
    """Refuse a feature that an earlier flag has declared."""
    if name in features:
        raise UsageError(f'feature "{name}" is given twice.', hint="leave out one of the two flags")


def _parts(text: str, option: str, shape: str, count: int) -> list[str]:
    parts = text.rsplit(":", count - 1)
    if len(parts) != count or not all(parts):
        raise ParameterError(f"--{option}", allowed=f"of the form {shape}", given=text)
    return parts


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ParameterError("a bound", allowed="a number", given=text) from None


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ParameterError("--unit", allowed="COLUMN:MAX_ROWS with a whole number", given=text) from None


def _budget_dict(budget: Budget) -> dict[str, Any]:
    return {
        "dataset": budget.dataset,
        "table": budget.table,
        "kind": budget.kind,
        "cap": None if budget.cap is None else amount_text(budget.cap),
        "spent": amount_text(budget.spent),
        "left": None if budget.left is None else amount_text(budget.left),
        "unfinished": budget.standing.unfinished_runs,
        "lost_runs": budget.standing.limits.lost_runs,
        "least_epsilon": budget.standing.limits.least_text,
        "analysts": [
            {"analyst": share.name, "cap": share.cap_text, "spent": share.spent_text} for share in budget.analysts
        ],
        **_epsilons(budget),
    }


def _epsilons(budget: Budget) -> dict[str, Any]:
    """Return the epsilon at the budget's delta that its amounts of rho stand for; nothing for a budget in epsilon."""
    if budget.delta is None or budget.cap is None or budget.left is None:
        return {}
    epsilons = {"cap": budget.epsilon_text(budget.cap), "spent": budget.epsilon_text(budget.spent, up=True)}
    return {"delta": format_delta(budget.delta), "epsilon": epsilons | {"left": budget.epsilon_text(budget.left)}}
