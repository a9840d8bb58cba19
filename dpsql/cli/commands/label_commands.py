"""Labels straight from private rows: the command `dpsql structure`, and what `dpsql predict --private` does first."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from dpsql.api.database import Database
from dpsql.cli.command import command
from dpsql.cli.options import DatabaseTarget, as_json, database, method_options, parameters
from dpsql.cli.printing.output import check_new, note, print_json, print_plan, say, show_progress, write_new
from dpsql.cli.written_files import overwrites
from dpsql.errors import UsageError
from dpsql.methods.mrf.mrf import Mrf
from dpsql.models.score import check_new_table
from dpsql.models.usable_model import Model
from dpsql.runs.label_rows import ALL_ROWS, TREES_SEE

_Command = TypeVar("_Command", bound=Callable[..., Any])


def label_options(command: _Command) -> _Command:
    """Add the options of a charged label request."""
    for decorate in (
        click.option("--dry-run", is_flag=True, help="With --private: show steps, cost and budget; touch nothing."),
        click.option("--request-id", metavar="ID", help="Ask twice under one id: the same labels, one charge."),
        click.option(
            "--trees-see",
            type=click.Choice(list(TREES_SEE)),
            help="Which rows a tree sees: all, or a part of its own.",
        ),
        click.option("--epsilon", metavar="E", help="With --private: what this batch may cost [default: 1]."),
        click.option("--structure", metavar="FILE|MODEL", help="The trees: see dpsql structure."),
        click.option("--private", is_flag=True, help="Label this batch from private rows, CHARGED for the batch."),
    ):
        command = decorate(command)
    return command


def refuse_label_options(options: Mapping[str, Any]) -> None:
    """Refuse options that say how a label request is charged: prediction from a stored model is free."""
    for name, value in options.items():
        if value:
            raise UsageError(
                f"--{name.replace('_', '-')} goes with --private.", hint="prediction from a stored model is free"
            )


def label_new_rows(
    db: Database,
    data: str | Path,
    name: str | None,
    *,
    structure: str | None,
    epsilon: str | None,
    trees_see: str | None,
    request_id: str | None,
    dry_run: bool,
    as_json: bool,
    into: str | None = None,
    shown: Sequence[str] = (),
) -> Model | None:
    """Charge for the labels of new rows and return the model that labels them; None where only the plan is printed.

    `shown` are options that say what to show of the labels. They could turn out wrong once the labels are paid for, so
    they are refused here; they can be given when the labels are read again.
    """
    if shown:
        raise UsageError(
            f"{shown[0]} does not go with --private.", hint=f"read the labels again with {shown[0]}: that is free"
        )
    if into is not None:
        check_new_table(db, into)
    if structure is None:
        raise UsageError("name what the trees look like.", hint="--structure FILE; dpsql structure writes one")
    settings: dict[str, Any] = {"epsilon": "1" if epsilon is None else epsilon, "trees_see": trees_see or ALL_ROWS}
    if dry_run:
        plan, table = db.plan_batch(structure, data, **settings)
        print_plan(plan, db.budget(table, plan.kind), db.spent_on(table, None, plan.kind), as_json=as_json)
        return None
    with show_progress(f"labelling {data}"):
        model = db.predict_private(structure, data, name=name, request_id=request_id, **settings)
    left = db.budget(str(model.table))
    note(f'Epsilon {model.certificate["epsilon"]} of "{left.table}" pays for this batch: {left.left_text} left.')
    place, source = DatabaseTarget.words_of_command(), f"--{_kind(db, data)} {shlex.quote(str(data))}"
    note(f"These labels again, for nothing:  dpsql predict {place} --model {shlex.quote(model.name)} {source}")
    return model


@command("structure")
@database
@click.option("--table", required=True, help="The registered private table that will be asked.")
@click.option("--to", required=True, metavar="FILE", help="A new JSON file.")
@overwrites
@method_options(Mrf())
@as_json
def label_request_command(target: DatabaseTarget, table: str, to: str, as_json: bool, **given: Any) -> None:
    """Write down what trees will look like, for predict --private.

    \b
    Example:
      dpsql structure --db data.duckdb --table cars --trees 128 --depth 4 --to cars.json
      dpsql predict --db data.duckdb --private --structure cars.json --table new_cars --epsilon 1

    Free of charge: the trees are random, and no row is read.
    """
    check_new(to)
    with target.open(writes=False) as db:
        request = db.structure(table, **parameters(given))
    write_new(to, request.to_json())
    if as_json:
        print_json({"table": request.table, "to": to, "parameters": dict(request.parameters)})
        return
    say(f'Wrote {to}: trees for "{request.table}".')
    note(f"Next:  dpsql predict {target.words} --private --structure {shlex.quote(to)} --table NEW_ROWS --epsilon 1")


def _kind(db: Database, data: str | Path) -> str:
    return "file" if isinstance(data, Path) and db.engine.table(str(data)) is None else "table"
