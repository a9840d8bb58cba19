"""Commands on released models: show, predict, SQL, import. All are free of charge but `predict --private`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from dpsql.cli.class_numbers import numbers_of_classes
from dpsql.cli.command import command
from dpsql.cli.commands.label_commands import label_new_rows, label_options, refuse_label_options
from dpsql.cli.options import DatabaseTarget, as_json, database
from dpsql.cli.printing.evaluation_lines import evaluation_line
from dpsql.cli.printing.labels_shown import Display
from dpsql.cli.printing.output import check_new, note, print_json, say, say_exact
from dpsql.cli.written_files import overwrites
from dpsql.engines.files.write_rows import check_ending
from dpsql.errors import UsageError
from dpsql.models.model import lookup_note, purchase_note
from dpsql.models.monotone_request import monotone_note
from dpsql.models.scoring_sql import FORMS
from dpsql.runs.update import rebuild_gain
from dpsql.trees.tree_count import forest_count_text

#: What an imported model's certificate may leave out.
_UNSAID = "not said"
_PRIVATE = {True: "yes", False: "NO: the published variant has no proof", None: f"{_UNSAID}: do not rely on it"}


@command()
@database
@click.option("--model", required=True, help="The model's name.")
@click.option("--tree", type=int, default=0, show_default=True, help="Which tree to draw.")
@click.option("--depth", type=int, default=3, show_default=True, help="How many levels to draw.")
@as_json
def show(target: DatabaseTarget, model: str, tree: int, depth: int, as_json: bool) -> None:
    """Show a model: its certificate, and one tree drawn as text.

    \b
    Example:
      dpsql show --db data.duckdb --model adult_1 --tree 2 --depth 4
    """
    with target.open(writes=False) as db:
        stored = db.model(model)
    drawn = stored.show(tree, depth=depth)
    if as_json:
        print_json({"model": stored.name, "certificate": dict(stored.certificate), "tree": tree, "drawn": drawn})
        return
    card = stored.certificate
    forest = stored.released.forest
    trees = forest_count_text(forest)
    say(f'Model "{stored.name}": {stored.method}, {trees}, depth {forest.depth}, {forest.leaves} leaves')
    if stored.schema.target is not None:
        say(f"Predicts:    {stored.schema.label}, {stored.schema.target}")
    say(f"Private:     {_PRIVATE[card.get('private')]}")
    say(f"Epsilon:     {card['epsilon']}")
    say(f"Neighbours:  {card.get('neighbours', _UNSAID)}")
    if monotone_note(stored.schema, card):
        say(f"Monotone:    {monotone_note(stored.schema, card)}")
    for sentence in filter(None, (lookup_note(card), purchase_note(card))):
        say(f"Domains:     {sentence}")
    say(f"Trained on:  {card.get('table', _UNSAID)} (dataset {card.get('dataset', _UNSAID)}), {card['created_at']}")
    if card.get("ledger_entry") is not None:
        say(f"Ledger:      entry {card['ledger_entry']}, {card.get('ledger_hash', _UNSAID)[:16]}…")
    if "composition" in card:
        say(f"Composition: {card['composition']}")
    gain = rebuild_gain(card)
    if gain:
        say(f"Updates:     {gain}")
    for measured in card.get("evaluations", []):
        say(f"Measured:    {evaluation_line(measured)}")
    say(f"Digest:      {card['digest'][:16]}…")
    say(f"\nTree {tree} of {forest.trees}:")
    say(drawn)
    if stored.released.nat:
        note("Each leaf shows the shares of the classes as far as it alone says; those of all trees are multiplied.")
        note(f"All of them in a few words:  dpsql explain {target.words} --model {shlex.quote(stored.name)}")


@command()
@database
@click.option("--model", help="The model's name; with --private a name for what is released.")
@click.option("--table", help="A table of new rows in the database.")
@click.option("--file", "file", metavar="PATH", help="A CSV or Parquet file of new rows.")
@click.option("--into", metavar="TABLE", help="Leave the scored rows in the database as a new table.")
@click.option("--key", metavar="COLUMN", help="Which column names a row [default: all that are not features].")
@click.option("--probabilities", "--proba", "proba", is_flag=True, help="Add each class's probability.")
@click.option("--threshold", metavar="CLASS=P", help="Name this class where its probability is at least P.")
@click.option("--class-weight", metavar="CLASS=W", multiple=True, help="Weigh a class's probability; for one or more.")
@click.option("--top", type=int, metavar="K", help="The K most probable classes of each row, in place of the label.")
@click.option("--to", metavar="PATH", help="Write all predictions to a new .csv or .parquet file, chunk by chunk.")
@overwrites
@label_options
@as_json
def predict(
    target: DatabaseTarget,
    model: str | None,
    table: str | None,
    file: str | None,
    into: str | None,
    key: str | None,
    proba: bool,
    threshold: str | None,
    class_weight: tuple[str, ...],
    top: int | None,
    to: str | None,
    as_json: bool,
    private: bool,
    **labelling: Any,
) -> None:
    """Score new rows, in the database or from a file.

    \b
    Example:
      dpsql predict --db data.duckdb --model adult_1 --table new_rows --into scored
      dpsql predict --db data.duckdb --model adult_1 --file new_rows.csv --to labels.parquet
      dpsql predict --db data.duckdb --model adult_1 --table new_rows --threshold ">50K=0.3"
      dpsql predict --db data.duckdb --private --structure cars.json --table new_cars --epsilon 1

    Free of charge, for ever. A registered private table is refused. Without --into, --to or --json only the first 20
    rows are scored, and shown. With --threshold a class that is not probable enough gives way to the most probable of
    the others. With --class-weight the class is named whose weight, 1 unless given, times probability is the largest:
    what does it cost to miss a row of the class?

    With --private there is no model yet: the rows are labelled straight from the private table that the structure
    names, and epsilon is CHARGED for this batch. What is released is stored as a model, so that the same labels can
    be read again for nothing. dpsql structure writes a structure.
    """
    if table is not None and file is not None:
        raise UsageError("name one: --table or --file.", hint="leave out the other")
    if table is None and file is None:
        raise UsageError("name the rows to score.", hint="--table TABLE or --file PATH")
    for name, value in (("--to", to), ("--probabilities", proba), ("--top", top is not None), ("--key", key)):
        if into is not None and value:
            raise UsageError(f"{name} does not go with --into, which keeps every column.", hint=f"leave out {name}")
    if sum((proba, top is not None, threshold is not None, bool(class_weight))) > 1:
        ways = "--probabilities, --threshold, --class-weight or --top"
        raise UsageError(f"one thing at a time: {ways}.", hint="leave out the others")
    decision = _decision(threshold, class_weight, is_read=not private)  # with --private they are refused unread
    check_new(to)
    if to is not None:
        check_ending(to)
    data: str | Path = table if table is not None else Path(str(file))
    shown = Display(key=key, probabilities=proba, decision=decision, top=top, into=into, to=to, as_json=as_json)
    if private:
        with target.open(writes=not labelling["dry_run"]) as db:
            labels = label_new_rows(db, data, model, as_json=as_json, into=into, shown=shown.options, **labelling)
            if labels is not None:
                shown.show(labels, data)
        return
    refuse_label_options(labelling)
    if model is None:
        raise UsageError("name the model to score with.", hint="--model NAME, or dpsql models to see them")
    name = model
    shown.open_and_show(target, lambda db: db.model(name), data)


@command()
@database
@click.option("--model", required=True, help="The model's name.")
@click.option("--form", type=click.Choice(FORMS), default="select", show_default=True, help="What to generate.")
@click.option("--table", default="new_rows", show_default=True, help="The table to score (select, view).")
@click.option("--name", help="Name of the view or macro.")
@click.option("--probabilities", is_flag=True, help="Add each class's probability (select, view, table_macro).")
@click.option("--create", is_flag=True, help="Also create the view or macro in the database.")
@as_json
def sql(
    target: DatabaseTarget,
    model: str,
    form: str,
    table: str,
    name: str | None,
    probabilities: bool,
    create: bool,
    as_json: bool,
) -> None:
    """Print SQL that predicts: a SELECT, a view or a macro.

    \b
    Example:
      dpsql sql --db data.duckdb --model adult_1 --form macro --create
    """
    if create and form == "select":
        raise UsageError("a SELECT cannot be created.", hint="--form view, table_macro or macro")
    with target.open(writes=create) as db:
        stored = db.model(model)
        settings: dict[str, Any] = {"name": name, "probabilities": probabilities}
        if not create:
            text = stored.sql(form, table=table, **settings)
        elif form == "view":
            text = stored.create_view(table, **settings)
        else:
            text = stored.create_macro(whole_table=form == "table_macro", **settings)
    if as_json:
        print_json({"model": model, "form": form, "created": create, "sql": text})
    else:
        say_exact(text)


@command("import")
@database
@click.option("--from", "source", required=True, metavar="FILE", help="A JSON file that dpsql export wrote.")
@click.option("--name", help="A name in this database [default: the model's own].")
@as_json
def import_(target: DatabaseTarget, source: str, name: str | None, as_json: bool) -> None:
    """Store a model from a JSON file.

    \b
    Example:
      dpsql import --db other.duckdb --from adult_1.json
    """
    with target.open() as db:
        stored = db.add(Path(source), name=name)
    if as_json:
        print_json({"model": stored.name})
    else:
        say(f'Stored model "{stored.name}".')


def _decision(threshold: str | None, class_weight: Sequence[str], *, is_read: bool) -> dict[str, dict[str, float]]:
    """Return the arguments of `predict` that say how labels follow from probabilities; unread, their names alone."""
    if not is_read:
        return {name: {} for name, given in (("threshold", threshold), ("class_weight", class_weight)) if given}
    if threshold is not None:
        allowed = "CLASS=P with a probability P, as in yes=0.3"
        return {"threshold": numbers_of_classes("threshold", [threshold], allowed=allowed)}
    allowed = "CLASS=W with a weight W, as in yes=5"
    return {"class_weight": numbers_of_classes("class_weight", class_weight, allowed=allowed)} if class_weight else {}
