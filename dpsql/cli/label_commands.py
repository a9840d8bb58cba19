"""Private labels for one batch: the command `structure`, and what `predict --private` does before it reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from dpsql.api.database import Database
from dpsql.cli.options import Target, as_json, database, parameters
from dpsql.cli.output import check_new, note, print_json, say, working, write_new
from dpsql.cli.train_commands import print_plan
from dpsql.errors import UsageError
from dpsql.methods.mrf.mrf import Mrf
from dpsql.methods.mrf.row_strategies import WAYS
from dpsql.models.model import Model
from dpsql.models.score import check_new_table

_Command = TypeVar("_Command", bound=Callable[..., Any])


def batch_options(command: _Command) -> _Command:
    """Add what labels for a batch take."""
    for decorate in (
        click.option("--dry-run", is_flag=True, help="With --private: show steps, cost and budget; touch nothing."),
        click.option("--request-id", metavar="ID", help="Ask twice under one id: the same labels, one charge."),
        click.option("--way", type=click.Choice(WAYS), help="Trees that see all rows, or disjoint parts of them."),
        click.option("--epsilon", metavar="E", help="With --private: what this batch may cost [default: 1]."),
        click.option("--model-structure", "structure", metavar="FILE|MODEL", help="The trees: see dpsql structure."),
        click.option("--private", is_flag=True, help="Label this batch from private rows, CHARGED for the batch."),
    ):
        command = decorate(command)
    return command


def charged_batch(
    db: Database,
    data: str | Path,
    name: str | None,
    *,
    private: bool,
    structure: str | None,
    epsilon: str | None,
    way: str | None,
    request_id: str | None,
    dry_run: bool,
    as_json: bool,
    into: str | None = None,
    shown: Sequence[str] = (),
) -> Model | None:
    """Return the model that scores the rows: a stored one, or the one that this batch is charged for.

    None where only the plan was asked for. `shown` are options that say what to show of the labels: with --private they
    could turn out wrong once the batch is paid for, so they wait until it is read again.
    """
    asked = {"--model-structure": structure, "--epsilon": epsilon, "--way": way, "--request-id": request_id}
    if not private:
        given = [option for option, value in asked.items() if value is not None] + ["--dry-run"] * dry_run
        if given:
            raise UsageError(f"{given[0]} goes with --private.", hint="prediction from a stored model is free")
        if name is None:
            raise UsageError("name the model to score with.", hint="--model NAME, or dpsql models to see them")
        return db.model(name)
    if shown:
        raise UsageError(
            f"{shown[0]} does not go with --private.", hint=f"read the labels again with {shown[0]}: that is free"
        )
    if into is not None:
        check_new_table(db, into)
    if structure is None:
        raise UsageError("name what the trees look like.", hint="--model-structure FILE; dpsql structure writes one")
    chosen: dict[str, Any] = {"epsilon": "1" if epsilon is None else epsilon, "way": way or WAYS[0]}
    if dry_run:
        plan, table = db.plan_batch(structure, data, **chosen)
        print_plan(plan, db.budget(table, plan.kind), db.spent_on(table, None, plan.kind), as_json=as_json)
        return None
    with working(f"labelling {data}"):
        model = db.predict_private(structure, data, name=name, request_id=request_id, **chosen)
    left = db.budget(str(model.table))
    note(f'Epsilon {model.certificate["epsilon"]} of "{left.table}" pays for this batch: {left.left_text} left.')
    note(f"These labels again, for nothing:  dpsql predict --model {model.name} --{_kind(db, data)} {data}")
    return model


@click.command()
@database
@click.option("--table", required=True, help="The registered private table that will be asked.")
@click.option("--to", required=True, metavar="FILE", help="A new JSON file.")
@click.option("--trees", type=int, help=Mrf.parameters["trees"].help)
@click.option("--depth", type=int, help=Mrf.parameters["depth"].help)
@click.option("--bins", type=int, help=Mrf.parameters["bins"].help)
@click.option("--ensembles", type=int, help=Mrf.parameters["ensembles"].help)
@click.option("--features", type=int, help=Mrf.parameters["features"].help)
@click.option("--cells", type=int, help=Mrf.parameters["cells"].help)
@click.option("--strategy", type=str, help=Mrf.parameters["strategy"].help)
@click.option("--effort", type=int, help=Mrf.parameters["effort"].help)
@click.option("--seed", type=int, help=Mrf.parameters["seed"].help)
@as_json
def structure(target: Target, table: str, to: str, as_json: bool, **given: Any) -> None:
    """Write down what trees will look like, for predict --private.

    \b
    Example:
      dpsql structure --db data.duckdb --table cars --trees 128 --depth 4 --to cars.json
      dpsql predict --db data.duckdb --private --model-structure cars.json --table new_cars --epsilon 1

    Free of charge: the trees are random, and no row is read.
    """
    check_new(to)
    with target.open() as db:
        found = db.structure(table, **parameters(given))
    write_new(to, found.to_json())
    if as_json:
        print_json({"table": found.table, "to": to, "parameters": dict(found.parameters)})
        return
    say(f'Wrote {to}: trees for "{found.table}".')
    note(f"Next:  dpsql predict {target.words} --private --model-structure {to} --table NEW_ROWS --epsilon 1")


def _kind(db: Database, data: str | Path) -> str:
    return "file" if isinstance(data, Path) and db.engine.table(str(data)) is None else "table"
