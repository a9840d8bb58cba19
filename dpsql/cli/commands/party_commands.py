"""Commands for data that arrives in batches or belongs to several parties."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dpsql.cli.command import command, command_group
from dpsql.cli.options import DatabaseTarget, as_json, database, method_options, parameters
from dpsql.cli.printing.json_values import short_certificate
from dpsql.cli.printing.output import check_new, note, print_json, say, show_progress, write_new
from dpsql.cli.written_files import overwrites
from dpsql.methods.rdt import Rdt
from dpsql.models.usable_model import Model
from dpsql.runs.parties import merge as merge_models
from dpsql.runs.parties import unite as unite_models
from dpsql.trees.tree_count import forest_count_text


@command("update")
@database
@click.option("--model", required=True, help="A model of counts that was trained on a batch.")
@click.option("--batch", required=True, metavar="VALUE", help="The new batch, by the batch column's value.")
@click.option("--epsilon", metavar="E", help="What the batch may cost [default: as the last one].")
@click.option("--name", help="Name of the new model [default: the table's name and a number].")
@click.option("--request-id", metavar="ID", help="Ask twice under one id: the same model, one charge.")
@as_json
def update_command(
    target: DatabaseTarget,
    model: str,
    batch: str,
    epsilon: str | None,
    name: str | None,
    request_id: str | None,
    as_json: bool,
) -> None:
    """Add a new batch of rows to a model of counts.

    \b
    Example:
      dpsql update --db data.duckdb --model sales_1 --batch 2026-11

    The noisy counts of the new rows alone are released and added. The ledger charges that batch only.
    """
    with target.open() as db, show_progress(f"counting batch {batch}"):
        updated = db.update(model, batch, epsilon=epsilon, name=name, request_id=request_id)
    _print_model(updated, as_json=as_json)


@command_group()
def party() -> None:
    """Train one model with several parties, passing on no rows.

    \b
    Example:
      dpsql party export-structure --db a.duckdb --table visits --depth 4 --to structure.json
      dpsql party contribute --db b.duckdb --table visits --structure structure.json --to b.json
      dpsql party merge --from a.json --from b.json --to merged.json
    """


@party.command("export-structure")
@database
@click.option("--table", required=True, help="A registered table with the schema that all parties share.")
@click.option("--to", required=True, metavar="FILE", help="A new JSON file.")
@overwrites
@method_options(Rdt())
@as_json
def export_trees_command(target: DatabaseTarget, table: str, to: str, as_json: bool, **given: Any) -> None:
    """Write the public trees that all parties count in.

    \b
    Example:
      dpsql party export-structure --db a.duckdb --table visits --depth 4 --to structure.json

    Reads no row and charges nothing.
    """
    check_new(to)
    with target.open(writes=False) as db:
        text = db.export_structure(table, **parameters(given))
    _write(to, text)
    if as_json:
        print_json({"structure": to, "table": table})


@party.command("contribute")
@database
@click.option("--table", required=True, help="This party's registered table.")
@click.option("--structure", "shared_trees", required=True, metavar="FILE", help="The shared structure.")
@click.option("--epsilon", default="1", show_default=True, metavar="E", help="What the run may cost this party's rows.")
@click.option("--name", help="Name of the model in this database.")
@click.option("--request-id", metavar="ID", help="Ask twice under one id: the same counts, one charge.")
@click.option("--to", required=True, metavar="FILE", help="A new JSON file with the noisy counts.")
@overwrites
@as_json
def contribute_command(
    target: DatabaseTarget,
    table: str,
    shared_trees: str,
    epsilon: str,
    name: str | None,
    request_id: str | None,
    to: str,
    as_json: bool,
) -> None:
    """Count this party's rows in a shared structure, under its own ledger.

    \b
    Example:
      dpsql party contribute --db b.duckdb --table visits --structure structure.json --epsilon 0.5 --to b.json
    """
    check_new(to)
    with target.open() as db, show_progress(f"counting {table}"):
        counted = db.contribute(table, Path(shared_trees), epsilon=epsilon, name=name, request_id=request_id)
    _write(to, counted.to_json())
    if as_json:
        _print_model(counted, as_json=True)


@party.command("merge")
@click.option("--from", "sources", multiple=True, required=True, metavar="FILE", help="A contribution (repeat).")
@click.option("--name", default="merged", show_default=True, help="Name of the model.")
@click.option("--to", required=True, metavar="FILE", help="A new JSON file.")
@overwrites
@as_json
def merge_command(sources: tuple[str, ...], name: str, to: str, as_json: bool) -> None:
    """Add up the noisy counts of parties that hold different people.

    \b
    Example:
      dpsql party merge --from a.json --from b.json --to merged.json

    Any subset of the contributions works. The model's epsilon is the largest of theirs.
    """
    _join(merge_models, sources, name, to, as_json=as_json)


@party.command("unite")
@click.option("--from", "sources", multiple=True, required=True, metavar="FILE", help="A party's model (repeat).")
@click.option("--name", default="united", show_default=True, help="Name of the model.")
@click.option("--to", required=True, metavar="FILE", help="A new JSON file.")
@overwrites
@as_json
def unite_command(sources: tuple[str, ...], name: str, to: str, as_json: bool) -> None:
    """Unite the models of parties that hold different columns of the same people.

    \b
    Example:
      dpsql party unite --from bank.json --from clinic.json --to united.json

    Everyone is in all parties' tables, so the epsilons add up.
    """
    _join(unite_models, sources, name, to, as_json=as_json)


def _join(join: Callable[..., Model], sources: tuple[str, ...], name: str, to: str, *, as_json: bool) -> None:
    """Join the models of several parties, write the result to a new file and say what it is."""
    check_new(to)
    joined = join([Model.from_json(Path(source)) for source in sources], name=name)
    _write(to, joined.to_json())
    _print_model(joined, as_json=as_json)


def _print_model(model: Model, *, as_json: bool) -> None:
    if as_json:
        print_json({"model": model.name, "certificate": short_certificate(model.certificate)})
        return
    forest = model.released.forest
    trees = forest_count_text(forest)
    say(f'Model "{model.name}": {model.method}, {trees}, depth {forest.depth}, {forest.leaves} leaves.')
    say(f"Epsilon {model.certificate['epsilon']} ({model.certificate.get('composition', 'one run')}).")


def _write(to: str, text: str) -> None:
    write_new(to, text)
    note(f"Wrote {to}.")
