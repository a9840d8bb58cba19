"""The ledger's commands: read it, verify it, accept it after a restored backup."""

from __future__ import annotations

import click

from dpsql.cli.options import Target, as_json, database
from dpsql.cli.output import print_csv, print_json, print_table, say
from dpsql.errors import LedgerBroken, UsageError

_COLUMNS = ("entry", "when", "who", "event", "table", "method", "epsilon", "cap", "state")


@click.group(invoke_without_command=True)
@click.option("--table", help="Entries of one table.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option("--db", metavar="FILE", envvar="DPSQL_DB", help="The DuckDB file.")
@click.option("--wait", type=float, default=2.0, show_default=True, metavar="SECONDS",
              help="How long to wait for another process to let the file go.")  # fmt: skip
@click.option("--read-only", is_flag=True, help="Open the file read-only.")
@as_json
@click.pass_context
def ledger(
    context: click.Context, table: str | None, as_csv: bool, db: str | None, wait: float, read_only: bool, as_json: bool
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
        context.default_map = {name: {"db": db, "wait": wait} for name in ledger.commands} if db is not None else None
        return
    if as_csv and as_json:
        raise UsageError("one form at a time: CSV or JSON.", hint="leave out --csv or --json")
    if db is None:
        raise click.UsageError("Missing option '--db'.")
    with Target(db, wait, read_only, None).open() as opened:
        found = opened.ledger(table)
    if as_json:
        print_json(found.to_dict("records"))
    elif as_csv:
        print_csv(list(found.columns), found.to_dict("records"))
    else:
        for column in ("epsilon", "cap"):
            found[column] += [
                f", delta {delta}" if shown and delta else ""
                for shown, delta in zip(found[column], found["delta"], strict=True)
            ]
        print_table(None, _COLUMNS, found[list(_COLUMNS)].to_numpy().tolist())


@ledger.command()
@database
@as_json
def verify(target: Target, as_json: bool) -> None:
    """Check the chain, the sums and the receipt outside the file.

    \b
    Example:
      dpsql ledger verify --db data.duckdb

    Exit code 3 when something does not hold.
    """
    with target.open() as db:
        findings = db.verify()
    if as_json:
        print_json({"sound": not findings, "findings": findings})
    elif not findings:
        say("The ledger is sound: chain, sums and receipt agree.")
    if findings:
        raise LedgerBroken(findings, hint="find out why; then, as owner: dpsql ledger accept")


@ledger.command()
@database
@as_json
def accept(target: Target, as_json: bool) -> None:
    """Take the ledger as it stands for the truth; the owner's act, after a restored backup or a lost receipt.

    \b
    Example:
      dpsql ledger accept --db data.duckdb
    """
    with target.open() as db:
        db.accept()
    print_json({"accepted": True}) if as_json else say("Accepted. The act is an entry in the ledger.")
