"""The command that advises before anything is spent."""

from __future__ import annotations

import shlex

import click

from dpsql.advice.advise import Recommendation, advise_schema
from dpsql.advice.tune import Tuning
from dpsql.advice.tune import tune as tune_method
from dpsql.cli.command import command
from dpsql.cli.options import DatabaseTarget, as_json, maybe_database
from dpsql.cli.printing.output import note, print_json, print_plan, print_table, say, show_progress
from dpsql.errors import UsageError
from dpsql.schema import schema_file as schemafile


@command("advise")
@maybe_database
@click.option("--table", help="The registered table.")
@click.option("--schema", "schema_file", metavar="FILE", help="Without a database: the YAML or JSON file of a schema.")
@click.option("--entry", metavar="NAME", help="Which schema, where the file holds several.")
@click.option("--epsilon", default="1", show_default=True, metavar="E", help="What a training run may cost.")
@click.option("--rows", type=int, metavar="N", help="Your own guess of the size.")
@click.option("--buy", metavar="E", help="Buy a noisy size first, for this epsilon: charged, and kept for later.")
@click.option("--majority", type=float, metavar="SHARE", help="Your own guess of the largest class's share.")
@click.option("--tune", metavar="METHOD", help="The noise of a grid of forests: mrf, rdt, rosnam, snr or spe.")
@click.option("--request-id", metavar="ID", help="With --buy: ask twice under one id, the same size, one charge.")
@click.option("--details", is_flag=True, help="Also the epsilon of each step, the noise, and what is assumed.")
@click.option("--dry-run", is_flag=True, help="With --buy: show its cost, noise and budget; touch nothing.")
@as_json
def advise_command(
    target: DatabaseTarget,
    table: str | None,
    schema_file: str | None,
    entry: str | None,
    epsilon: str,
    rows: int | None,
    buy: str | None,
    majority: float | None,
    tune: str | None,
    request_id: str | None,
    details: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Say before anything is spent whether epsilon is worth it.

    \b
    Example:
      dpsql advise --db data.duckdb --table adult --epsilon 0.5
      dpsql advise --db data.duckdb --table adult --buy 0.01
      dpsql advise --schema adult.yml --rows 30000
      dpsql advise --db data.duckdb --table cars --rows 1700 --tune mrf

    Says which method, what noise and what to expect.

    Free: it reads the schema and no row. Only --buy is charged. The size is the declared one, the least noisy one
    that was bought, or your own guess; without any you get advice for several sizes. With --tune you get the expected
    noise on leaves and votes for a grid of trees and depths, and one of them picked: still no row is read.
    """
    if (table is None) == (schema_file is None):
        raise UsageError("advice is about a registered table or a schema file.", hint="--table NAME, or --schema FILE")
    if schema_file is not None:
        if buy is not None or dry_run or request_id is not None:
            raise UsageError("a schema file has no rows to count.", hint="--rows N, or --db PATH --table NAME --buy E")
        schema = schemafile.load_schema(schema_file, entry=entry)
        if tune is not None:
            size = rows or schema.rows
            if size is None:
                raise UsageError("tuning weighs noise against rows: say how many there are.", hint="--rows N")
            _print_grid(tune_method(schema, tune, epsilon=epsilon, rows=size), epsilon, as_json=as_json)
            return
        _print(advise_schema(schema, epsilon=epsilon, rows=rows, majority=majority), details=details, as_json=as_json)
        return
    if entry is not None:
        raise UsageError("an entry is one of several in a schema file.", hint="--schema FILE --entry NAME")
    assert table is not None
    if dry_run and buy is None:
        raise UsageError("advice without --buy is free and touches nothing.", hint="leave out --dry-run")
    with target.open(writes=buy is not None and tune is None and not dry_run) as db:
        if tune is not None:
            with show_progress(f"tuning {tune}"):
                tuned = db.tune(table, tune, epsilon=epsilon, rows=rows)
            _print_grid(tuned, epsilon, as_json=as_json, place=f"{target.words} --table {shlex.quote(table)}")
            return
        if dry_run:
            print_plan(db.plan_advice(table, buy=buy), db.budget(table), db.spent_on(table), as_json=as_json)
            return
        advice = db.advise(table, epsilon=epsilon, rows=rows, buy=buy, majority=majority, request_id=request_id)
    _print(advice, details=details, as_json=as_json)
    if as_json:
        return
    if buy is not None and advice.bought is not None:
        note(f"Charged epsilon {advice.bought.epsilon} for the size (entry {advice.bought.entry}).")
    words = f"{target.words} --table {shlex.quote(table)} --epsilon {advice.epsilon}"
    note(f"Next:  dpsql train {words} --dry-run")


def _print(advice: Recommendation, *, details: bool, as_json: bool) -> None:
    if as_json:
        print_json(advice.to_dict())
        return
    say(advice.text(details=details))
    if not details:
        note("More:  --details says where epsilon goes, how strong the noise is, and what is assumed.")


def _print_grid(tuned: Tuning, epsilon: str, *, as_json: bool, place: str = "--db PATH --table TABLE") -> None:
    """Print the noise that a method's forests would have, and the setting that was picked."""
    if as_json:
        print_json(tuned.to_dict())
        return
    columns = ("trees", "depth", "ensembles", "features", "leaves", "asks for", "noise per leaf", "noise of votes",
               "rows of votes", "times the noise")  # fmt: skip
    rows = [
        (
            setting.trees,
            setting.depth,
            setting.ensembles,
            setting.features,
            setting.leaves,
            setting.strategy,
            f"{setting.leaf_deviation:.3g}",
            f"{setting.vote_deviation:.3g}",
            f"{setting.signal:.3g}",
            f"{setting.clear:.2g}",
        )
        for setting in tuned.settings
    ]
    print_table(f"{tuned.method} at epsilon {epsilon}", columns, rows)
    words = " ".join(f"--{name} {value}" for name, value in tuned.best_setting.parameters.items())
    say(f"Picked: {words}. The deepest forest whose votes stand out of their noise.")
    note("Noise alone was weighed: how good the splits are is not known without rows. Nothing was read or charged.")
    note(f"Next:  dpsql train {place} --method {shlex.quote(tuned.method)} {words} --epsilon {epsilon} --dry-run")
