"""The command `dpsql models`: list the stored models, drop, rename and tag them. The ledger stays as it is."""

from __future__ import annotations

from typing import Any

import click

from dpsql.cli.command import command_group
from dpsql.cli.options import DatabaseTarget, as_json, database, maybe_database
from dpsql.cli.printing.output import note, print_json, print_table, readable_time, say
from dpsql.errors import UsageError

#: The columns that a narrow terminal leaves out, in this order.
_LESS = ("depth", "trees", "leaves", "created_at", "method", "table")


@command_group(invoke_without_command=True)
@maybe_database
@click.option("--tag", metavar="TAG", help="Those with this tag alone: a word, a name, or NAME=VALUE.")
@as_json
@click.pass_context
def models(context: click.Context, target: DatabaseTarget, tag: str | None, as_json: bool) -> None:
    """List the stored models; drop, rename or tag one.

    \b
    Example:
      dpsql models --db data.duckdb
      dpsql models --db data.duckdb --tag stage=live
      dpsql models tag adult_1 stage=live --db data.duckdb
      dpsql models rename adult_1 adult_may --db data.duckdb
      dpsql models drop adult_2 --db data.duckdb
    """
    if context.invoked_subcommand is not None:
        if tag is not None or as_json:
            name = context.invoked_subcommand
            raise UsageError("options of a subcommand stand behind it.", hint=f"dpsql models {name} … --json")
        context.default_map = dict.fromkeys(models.commands, _values(target)) if target.db is not None else None
        return
    if target.db is None:
        raise click.UsageError("Missing option '--db'.")
    with target.open(writes=False) as db:
        table = db.models(tag=tag)
    if as_json:
        print_json(table.to_dict("records"))
        return
    shown = table.drop(columns="digest")
    shown["tags"] = [", ".join(tags) for tags in shown["tags"]]
    if not any(shown["tags"]):
        shown = shown.drop(columns="tags")
    shown["created_at"] = [readable_time(when) for when in shown["created_at"]]
    print_table(None, list(shown.columns), shown.to_numpy().tolist(), less=_LESS)


@models.command("drop")
@database
@click.argument("name")
@click.option("--force", is_flag=True, help="Drop it though views or macros read it.")
@as_json
def drop_command(target: DatabaseTarget, name: str, force: bool, as_json: bool) -> None:
    """Drop a stored model, whose charge stays.

    \b
    Example:
      dpsql models drop adult_2 --db data.duckdb

    Its ledger entry stays, and a request id that paid for it trains nothing anew. A model that views or macros of this
    database read is not dropped without --force. Who keeps the database drops models; on a server that is the owner.
    """
    with target.open() as db:
        db.drop_model(name, force=force)
    if as_json:
        print_json({"model": name, "dropped": True})
    else:
        say(f'Dropped model "{name}".')
        note("What it cost stays charged, and its ledger entry stays.")


@models.command("rename")
@database
@click.argument("name")
@click.argument("new")
@as_json
def rename_command(target: DatabaseTarget, name: str, new: str, as_json: bool) -> None:
    """Give a stored model another name, which must be free.

    \b
    Example:
      dpsql models rename adult_1 adult_may --db data.duckdb

    Views and macros made from it keep their names and stay as they are.
    """
    with target.open() as db:
        db.rename_model(name, new)
    if as_json:
        print_json({"model": new, "was": name})
    else:
        say(f'Model "{name}" is now called "{new}".')


@models.command("tag")
@database
@click.argument("name")
@click.argument("tags", nargs=-1, required=True)
@click.option("--remove", is_flag=True, help="Take these tags off the model.")
@as_json
def tag_command(target: DatabaseTarget, name: str, tags: tuple[str, ...], remove: bool, as_json: bool) -> None:
    """Write tags on a stored model: words, or NAME=VALUE.

    \b
    Example:
      dpsql models tag adult_1 approved stage=live --db data.duckdb
      dpsql models tag adult_1 approved --remove --db data.duckdb

    A name has one value, and a new one replaces the old. dpsql models --tag stage=live lists the models that have it.
    """
    with target.open() as db:
        left = db.tag_model(name, *tags, remove=remove)
    if as_json:
        print_json({"model": name, "tags": left})
    else:
        say(f'Tags of "{name}": {", ".join(left) or "none"}.')


def _values(target: DatabaseTarget) -> dict[str, Any]:
    """Return what a target says as the defaults of the options that say it."""
    return {
        "db": target.db,
        "wait": target.wait,
        "read_only": target.read_only,
        "who": target.who,
        "ledger": target.ledger,
        "attach": target.attach,
    }
