"""The owner's commands on tables and budgets: draft a schema, add ids, see and set budgets."""

from __future__ import annotations

import shlex
from typing import Any

import click

from dpsql.api.database import Database
from dpsql.cli.command import command, command_group
from dpsql.cli.options import DatabaseTarget, as_json, database
from dpsql.cli.printing.cap_notes import OTHERS, analyst_text, note_claimed_names, note_exhausted, note_warnings
from dpsql.cli.printing.output import check_new, note, print_json, print_table, say, say_exact, write_new
from dpsql.cli.written_files import overwrites
from dpsql.errors import UsageError
from dpsql.kernel.datasets.hold_out import hold_out_name
from dpsql.ledger import KINDS, Budget, format_delta, limit_details
from dpsql.ledger.budget import ANY_ANALYST, Share, amount_text


@command_group("schema")
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
@click.option("--like", metavar="FILE|TABLE", help="A public sample: a CSV or Parquet file, or a public table.")
@click.option("--dictionary", metavar="FILE", help="A code book in CSV or YAML, or a dbt schema.yml.")
@click.option("--public-table", "public_tables", multiple=True, metavar="TABLE", help="A public code table (repeat).")
@click.option(
    "--values-are-public", multiple=True, metavar="COLUMN", help="Look this column's values up in the rows (repeat)."
)
@click.option("--buy", metavar="E", help="Register the table under --cap, and buy what is open for this epsilon.")
@click.option("--delta", metavar="D", help="With --buy: lists of texts are bought too, at this delta.")
@click.option("--cap", metavar="E", help="With --buy: the epsilon that all runs together may cost.")
@click.option("--to", metavar="FILE", help="Write to a new file instead of stdout.")
@overwrites
@as_json
def draft_command(target: DatabaseTarget, table: str, to: str | None, as_json: bool, **given: Any) -> None:
    """Propose a schema file, one line for each column, each with the origin of its domain.

    \b
    Example:
      dpsql schema draft --db data.duckdb --table adult --to adult.yml
      dpsql schema draft --db data.duckdb --table adult --label income --dictionary codes.csv --like sample.csv
      dpsql schema draft --db data.duckdb --table adult --label income --buy 0.1 --cap 3 --to adult.yml

    The catalog is used (types, keys, ENUM, CHECK, comments), and what you name as public. Rows of the table never are,
    but for --values-are-public: you declare that the list of a column's values is public knowledge, dpsql reads them
    once, the ledger says so, and so does every certificate of a model of this table. With --buy noisy counts of the
    rows give bounds, charged to the table's budget. What nothing tells is left as ??? for you to fill in.
    """
    check_new(to)
    with target.open(writes=bool(given["values_are_public"] or given["buy"])) as db:
        draft = db.draft(table, **given)
    if to is not None:
        write_new(to, draft.text)
    if as_json:
        print_json({"to": to, **draft.to_dict()})
        return
    if to is None:
        say_exact(draft.text)
    for column in draft.looked_up:
        note(f'The values of "{column}" were looked up in the rows: ledger entry {draft.entry}.')
    if given["buy"]:
        note("The table is registered for the purchase, and waits for its schema.")
    if to is not None:
        note(f"Wrote {to}. Fill in every ??? before you register." if draft.gaps else f"Wrote {to}. It has no gaps.")
        named = f"--table {shlex.quote(draft.table)} --schema {shlex.quote(to)}"
        cap = f"{shlex.quote(given['cap'])} --replace" if given["buy"] else "EPSILON"
        note(f"Next:  dpsql register {target.words} {named} --cap {cap}")


@command("add-ids")
@database
@click.option("--table", required=True, help="The table.")
@click.option("--column", default="dpsql_id", show_default=True, help="Name of the new column.")
@as_json
def add_ids(target: DatabaseTarget, table: str, column: str, as_json: bool) -> None:
    """Give every row a random id, for tables without a key.

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


@command("budget")
@database
@click.option("--table", help="One table [default: all registered ones].")
@click.option("--set-cap", metavar="E", help="Owner: set the cap.")
@click.option("--analyst", metavar="NAME", help="With --set-cap: this analyst's cap under the dataset's.")
@click.option("--default-analyst", is_flag=True, help="With --set-cap: the cap of every analyst without one.")
@click.option("--kind", type=click.Choice(KINDS), help="What is promised: pure epsilon, labels alone, or with a delta.")
@click.option("--delta", metavar="D", help="With --set-cap of kind approximate: the delta of all its runs together.")
@click.option("--selection-delta", metavar="D", help="With --delta: the part of it for buying lists of values.")
@click.option("--lost-runs", type=int, metavar="N", help="Owner: unfinished runs before others wait for you.")
@click.option("--least-epsilon", metavar="E", help="Owner: what a run costs at least.")
@click.option("--yes", "allow_large", is_flag=True, help="A cap above 20 is meant.")
@as_json
def budget_command(
    target: DatabaseTarget,
    table: str | None,
    set_cap: str | None,
    analyst: str | None,
    default_analyst: bool,
    kind: str | None,
    delta: str | None,
    selection_delta: str | None,
    lost_runs: int | None,
    least_epsilon: str | None,
    allow_large: bool,
    as_json: bool,
) -> None:
    """Show what is spent and what is left; as owner, set a cap.

    \b
    Example:
      dpsql budget --db data.duckdb
      dpsql budget --db data.duckdb --table adult --set-cap 5
      dpsql budget --db data.duckdb --table adult --set-cap 1 --analyst alice
      dpsql budget --db data.duckdb --table adult --set-cap 0.5 --default-analyst
      dpsql budget --db data.duckdb --table trials --set-cap 1 --kind label
      dpsql budget --db data.duckdb --table adult --set-cap 3 --kind approximate --delta 1e-6
      dpsql budget --db data.duckdb --table adult --lost-runs 10 --least-epsilon 0.01

    An owner sets limits on lost runs and on the least charge here too.

    Each kind has a budget of its own. Pure epsilon alone is open until you open another.
    """
    given = (set_cap, analyst, delta, selection_delta, True if default_analyst else None)
    if any(value is not None for value in given) and (table is None or set_cap is None):
        raise UsageError("setting a cap needs a table and a cap.", hint="--table TABLE --set-cap EPSILON")
    limits = {"lost_runs": lost_runs, "least_epsilon": least_epsilon}
    limited = any(given is not None for given in limits.values())
    if limited and table is None:
        raise UsageError("limits are set for one table.", hint="--table TABLE")
    limit_details(lost_runs, least_epsilon)  # before anything is changed
    with target.open(writes=limited or set_cap is not None) as db:
        if limited and table is not None:
            db.set_limits(table, lost_runs=lost_runs, least_epsilon=least_epsilon)
        if set_cap is not None and table is not None:
            with note_warnings():
                budget = db.set_cap(
                    table,
                    set_cap,
                    analyst=analyst,
                    default_analyst=default_analyst,
                    kind=kind or "pure",
                    delta=delta,
                    selection_delta=selection_delta,
                    allow_large=allow_large,
                )
            note_exhausted(budget, ANY_ANALYST if default_analyst else analyst)
            if analyst is not None or default_analyst:
                note_claimed_names(db)
        budgets = _budgets_of(db, table, kind)
    if as_json:
        print_json([_budget_dict(budget) for budget in budgets])
        return
    rows: list[list[str]] = []
    for budget in budgets:
        rows.append([budget.table, budget.kind_text, "", budget.cap_text, budget.spent_text, budget.left_text])
        rows += [
            [
                "",
                "",
                analyst_text(share.name),
                _analyst_cap_text(budget, share),
                share.spent_text,
                amount_text(budget.left_for(share.name)),
            ]
            for share in budget.analysts
        ]
    print_table(None, ("table", "kind", "analyst", "cap", "spent", "left"), rows, less=("kind", "spent"))
    for budget in {budget.dataset: budget for budget in budgets if budget.cap is not None}.values():
        least = budget.standing.limits.least_text
        note(f"{budget.table}: {budget.standing.text}; a run costs at least epsilon {least}.")


def _analyst_cap_text(budget: Budget, share: Share) -> str:
    """Return the cap that holds for an analyst; that of all others where they have none of their own."""
    default = budget.default_analyst_cap
    return share.cap_text if share.cap is not None or default is None else f"{amount_text(default)} ({OTHERS})"


def _budgets_of(db: Database, table: str | None, kind: str | None) -> list[Budget]:
    """Return all budgets, or that of one table and its hold-out."""
    if table is None:
        return db.budgets()
    own = db.budget(table, kind or "pure")
    beside = [budget for budget in db.budgets() if budget.dataset == hold_out_name(own.dataset)]
    return [own, *(beside if own.kind == "pure" else [])]


def _budget_dict(budget: Budget) -> dict[str, Any]:
    default_cap = budget.default_analyst_cap
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
        "default_analyst_cap": None if default_cap is None else amount_text(default_cap),
        "analysts": [
            {
                "analyst": share.name,
                "cap": share.cap_text if share.cap is not None or default_cap is None else amount_text(default_cap),
                "spent": share.spent_text,
                "left": amount_text(budget.left_for(share.name)),
            }
            for share in budget.analysts
            if share.name != ANY_ANALYST
        ],
        **_epsilons(budget),
    }


def _epsilons(budget: Budget) -> dict[str, Any]:
    """Return the epsilon at the budget's delta that its amounts of rho stand for; nothing for a budget in epsilon."""
    if budget.delta is None or budget.cap is None or budget.left is None:
        return {}
    epsilons = {"cap": budget.epsilon_text(budget.cap), "spent": budget.epsilon_text(budget.spent, up=True)}
    return {"delta": format_delta(budget.delta), "epsilon": epsilons | {"left": budget.epsilon_text(budget.left)}}
