"""The ledger's commands: read it, verify it, accept it after a restored backup or a table's unfinished runs."""

from __future__ import annotations

from typing import Any

import click

from dpsql.cli.command import command_group
from dpsql.cli.known_names import KnownName
from dpsql.cli.options import DatabaseTarget, as_json, database
from dpsql.cli.printing.cap_notes import analyst_text
from dpsql.cli.printing.output import note, print_csv, print_json, print_table, readable_time, say
from dpsql.errors import LedgerBroken, UsageError

_COLUMNS = ("entry", "when", "who", "event", "table", "method", "epsilon", "cap", "state")
#: Those that a narrow terminal leaves out, in this order.
_LESS = ("method", "cap", "state", "event", "who", "when")


@command_group(invoke_without_command=True)
@click.option("--table", type=KnownName("table"), help="Entries of one table.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option("--db", metavar="FILE", envvar="DPSQL_DB", show_envvar=True, help="The DuckDB file.")
@click.option("--wait", type=float, default=2.0, show_default=True, metavar="SECONDS",
              help="How long to wait for another process to let the file go.")  # fmt: skip
@click.option("--read-only", is_flag=True, help="Open the file read-only.")
@click.option("--ledger", "place", metavar="FILE", envvar="DPSQL_LEDGER", show_envvar=True,
              help="Where the ledger is, if not in the database: a file, or postgresql://…")  # fmt: skip
@click.option("--attach", multiple=True, metavar="[NAME=]FILE",
              help="Another DuckDB file, whose tables are NAME.TABLE (repeat).")  # fmt: skip
@as_json
@click.pass_context
def ledger(
    context: click.Context,
    table: str | None,
    as_csv: bool,
    db: str | None,
    wait: float,
    read_only: bool,
    place: str | None,
    attach: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show who spent what, and check that nothing was changed.

    \b
    Example:
      dpsql ledger --db data.duckdb
      dpsql ledger --db data.duckdb --table adult --json
      dpsql ledger verify --db data.duckdb
    """
    if context.invoked_subcommand is not None:
        if table is not None or as_csv or as_json or read_only:
            name = context.invoked_subcommand
            raise UsageError("options of a subcommand stand behind it.", hint=f"dpsql ledger {name} --db PATH …")
        given = {"db": db, "wait": wait, "ledger": place, "attach": attach}
        context.default_map = dict.fromkeys(ledger.commands, given) if db is not None else None
        return
    if as_csv and as_json:
        raise UsageError("one form at a time: CSV or JSON.", hint="leave out --csv or --json")
    if db is None:
        raise click.UsageError("Missing option '--db'.")
    with DatabaseTarget(db, wait, read_only, None, place, attach).open(writes=False) as opened:
        entries = opened.ledger(table)
    if as_json:
        rows = entries.to_dict("records")
        print_json([row | {"lost_runs": int(row["lost_runs"]) if row["lost_runs"] else None} for row in rows])
    elif as_csv:
        print_csv(list(entries.columns), entries.to_dict("records"))
    else:
        limited = entries["event"] == "limit"
        entries.loc[limited, "cap"] = [_limits_text(row) for row in entries[limited].to_dict("records")]
        for column in ("epsilon", "cap"):
            entries[column] += [
                f", delta {delta}" if shown and delta else ""
                for shown, delta in zip(entries[column], entries["delta"], strict=True)
            ]
        entries["cap"] += [f" for {analyst_text(name)}" if name else "" for name in entries["analyst"]]
        entries["when"] = [readable_time(when) for when in entries["when"]]
        print_table(None, _COLUMNS, entries[list(_COLUMNS)].to_numpy().tolist(), less=_LESS)
        if table is None and len(entries) < entries["entry"].max():
            note("A number that is missing here is the end of a run: it is shown in the run's own line, as its state.")


@ledger.command()
@database
@as_json
def verify(target: DatabaseTarget, as_json: bool) -> None:
    """Check the chain, the sums and the receipt outside the file.

    \b
    Example:
      dpsql ledger verify --db data.duckdb

    Exit code 3 when something does not hold.
    """
    with target.open(writes=False) as db:
        findings = db.verify()
    if as_json:
        print_json({"sound": not findings, "findings": findings})
    elif not findings:
        say("The ledger is sound: chain, sums and receipt agree.")
    if findings:
        raise LedgerBroken(findings, hint="find out why; then, as owner: dpsql ledger accept")


@ledger.command("accept")
@database
@click.option("--table", help="Accept this table's lost and unfinished runs, so that further ones go on.")
@as_json
def accept_command(target: DatabaseTarget, table: str | None, as_json: bool) -> None:
    """Take the ledger as it stands for the truth, or accept a table's unfinished runs; the owner's acts.

    \b
    Example:
      dpsql ledger accept --db data.duckdb
      dpsql ledger accept --db data.duckdb --table adult

    The first is for a restored backup or a lost receipt. The second is for a table on which too many runs were lost or
    killed: find out why before you accept, for a failure can tell something of the rows.
    """
    with target.open() as db:
        if table is None:
            db.accept()
        else:
            db.accept_runs(table)
    if as_json:
        print_json({"accepted": True})
    else:
        say("Accepted. The act is an entry in the ledger.")


def _limits_text(row: dict[Any, Any]) -> str:
    """Return what the owner set anew, for the column of caps."""
    set_anew = (("lost runs", row["lost_runs"]), ("least", row["least_epsilon"]))
    return ", ".join(f"{name} {value}" for name, value in set_anew if value != "")
