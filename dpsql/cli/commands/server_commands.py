"""Commands for whoever keeps the database: prepare a server's roles, look a database over."""

from __future__ import annotations

from dataclasses import asdict

import click

from dpsql.cli.command import command
from dpsql.cli.options import DatabaseTarget, as_json, database
from dpsql.cli.printing.output import print_json, say
from dpsql.errors import DatabaseError


@command("init")
@database
@click.option("--owner", default="dpsql_owner", show_default=True, help="The role that owns dpsql's tables.")
@click.option("--analyst", default="dpsql_analyst", show_default=True, help="The role that analysts are members of.")
@click.option("--table", "tables", multiple=True, help="A private table that the owner role may read; repeatable.")
@click.option("--plpython", is_flag=True, help="Install functions that train inside the server (PL/Python).")
@click.option("--python-path", metavar="FOLDER", help="Where the server's Python finds dpsql [default: this one].")
@click.option("--secret-folder", metavar="FOLDER", help="Where the server keeps its secret [default: ~/.dpsql there].")
@click.option("--keep-statistics", is_flag=True, help="Leave row counts in the catalog open to every role.")
@as_json
def init_command(
    target: DatabaseTarget,
    owner: str,
    analyst: str,
    tables: tuple[str, ...],
    plpython: bool,
    python_path: str | None,
    secret_folder: str | None,
    keep_statistics: bool,
    as_json: bool,
) -> None:
    """Prepare a PostgreSQL database: schema, roles, rights.

    \b
    Example:
      dpsql init --db postgresql://postgres@localhost/data --analyst analysts --table private.adult
      dpsql init --db postgresql://postgres@localhost/data --plpython

    Makes the owner's and the analysts' role, and says who may do what.
    """
    with target.open() as db:
        done = db.init(
            owner=owner,
            analyst=analyst,
            tables=tables,
            plpython=plpython,
            python_path=python_path,
            secret_folder=secret_folder,
            keep_statistics=keep_statistics,
        )
    if as_json:
        print_json(asdict(done))
        return
    say(f'Schema "dpsql" belongs to role "{done.owner}".')
    say(f'Members of "{done.analyst}" may read models, ledger and budgets.')
    if done.plpython:
        say("They may call dpsql.train, dpsql.evaluate and dpsql.advise, which run inside the server.")
    if done.statistics:
        say("Row counts in the catalog and in the server's counters are closed to all but pg_monitor.")
    for warning in done.warnings:
        say(f"LOOK: {warning}")
    say(f'Next: make people members of "{done.analyst}".')
    say(f'Let "{done.owner}" read a private table:  dpsql init {target.words} --table NAME')


@command()
@database
@as_json
def doctor(target: DatabaseTarget, as_json: bool) -> None:
    """Look a database over: rights, tables, ledger, clock.

    \b
    Example:
      dpsql doctor --db data.duckdb
      dpsql doctor --db postgresql://owner@localhost/data

    One line each for the driver, its version, rights, registered tables, the ledger and the clock.
    """
    with target.open(writes=False) as db:
        checks = db.doctor()
    if as_json:
        print_json(
            [{"what": check.what, "well": check.well, "found": check.state, "fix": check.fix} for check in checks]
        )
    else:
        width = max(len(check.what) for check in checks)
        for check in checks:
            say(f"{'ok  ' if check.well else 'LOOK'}  {check.what:{width}}  {check.state}")
            if not check.well and check.fix:
                say(f"      {'':{width}}  fix: {check.fix}")
    ill = sum(not check.well for check in checks)
    if ill:
        raise DatabaseError(f"{ill} of {len(checks)} things need a look.", hint="the fixes are in the list above")
