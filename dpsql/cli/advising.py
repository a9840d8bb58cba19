"""The command that advises before anything is spent."""

from __future__ import annotations

import click

from dpsql import schemafile
from dpsql.advise import Recommendation
from dpsql.advise import advise as advise_schema
from dpsql.cli.analyst import print_plan
from dpsql.cli.options import Target, as_json, maybe_database
from dpsql.cli.output import note, print_json, say
from dpsql.errors import UsageError


@click.command()
@maybe_database
@click.option("--table", help="The registered table.")
@click.option("--schema", "schema_file", metavar="FILE", help="Without a database: the YAML or JSON file of a schema.")
@click.option("--entry", metavar="NAME", help="Which schema, where the file holds several.")
@click.option("--epsilon", default="1", show_default=True, metavar="E", help="What a training run may cost.")
@click.option("--rows", type=int, metavar="N", help="Your own guess of the size.")
@click.option("--buy", metavar="E", help="Buy a noisy size first, for this epsilon: charged, and kept for later.")
@click.option("--majority", type=float, metavar="SHARE", help="Your own guess of the largest class's share.")
@click.option("--request-id", metavar="ID", help="With --buy: ask twice under one id, the same size, one charge.")
@click.option("--dry-run", is_flag=True, help="With --buy: show its cost, noise and budget; touch nothing.")
@as_json
def advise(
    target: Target,
    table: str | None,
    schema_file: str | None,
    entry: str | None,
    epsilon: str,
    rows: int | None,
    buy: str | None,
    majority: float | None,
    request_id: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Advise before anything is spent: method, noise, and whether epsilon is worth it.

    \b
    Example:
      dpsql advise --db data.duckdb --table adult --epsilon 0.5
      dpsql advise --db data.duckdb --table adult --buy 0.01
      dpsql advise --schema adult.yml --rows 30000

    Free: it reads the schema and no row. Only --buy is charged. The size is the declared one, the last one that was
    bought, or your own guess; without any you get advice for several sizes.
    """
    if (table is None) == (schema_file is None):
        raise UsageError("advice is about a registered table or a schema file.", hint="--table NAME, or --schema FILE")
    if schema_file is not None:
        if buy is not None or dry_run or request_id is not None:
            raise UsageError("a schema file has no rows to count.", hint="--rows N, or --db FILE --table NAME --buy E")
        schema = schemafile.load(schema_file, entry=entry)
        _print(advise_schema(schema, epsilon=epsilon, rows=rows, majority=majority), as_json=as_json)
        return
    if entry is not None:
        raise UsageError("an entry is one of several in a schema file.", hint="--schema FILE --entry NAME")
    assert table is not None
    if dry_run and buy is None:
        raise UsageError("advice without --buy is free and touches nothing.", hint="leave out --dry-run")
    with target.open() as db:
        if dry_run:
            print_plan(db.plan_advice(table, buy=buy), db.budget(table), db.spent_on(table), as_json=as_json)
            return
        found = db.advise(table, epsilon=epsilon, rows=rows, buy=buy, majority=majority, request_id=request_id)
    _print(found, as_json=as_json)
    if as_json:
        return
    if buy is not None and found.bought is not None:
        note(f"Charged epsilon {found.bought.epsilon} for the size (entry {found.bought.entry}).")
    asked = f"--db {target.db} --table {table} --epsilon {found.epsilon}"
    note(f"Next:  dpsql train {asked} --dry-run")


def _print(found: Recommendation, *, as_json: bool) -> None:
    print_json(found.to_dict()) if as_json else say(str(found))
