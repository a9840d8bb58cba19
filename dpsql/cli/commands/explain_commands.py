"""`dpsql explain`: what a model learned, or the SQL of a training run. Both free of charge."""

from __future__ import annotations

from typing import Any

import click

from dpsql.cli import options
from dpsql.cli.command import command
from dpsql.cli.options import DatabaseTarget, as_json, database, parameters
from dpsql.cli.printing.output import check_new, note, print_json, say, say_exact, show_progress
from dpsql.cli.row_option import read_row
from dpsql.cli.written_files import new_place, overwrites
from dpsql.errors import ParameterError, UsageError
from dpsql.models.explain import PANELS, TOP
from dpsql.models.explain.hash_words import words_with_cells
from dpsql.models.explain.row_contributions import TOP_VALUES
from dpsql.runs.train import ARGUMENTS

#: Arguments that have a value whether or not they were given.
_DEFAULTS = [name for name, argument in ARGUMENTS.items() if argument.default is not None]


@command("explain")
@database
@click.option("--model", metavar="NAME", help="A stored model: show what it learned.")
@click.option("--top", type=int, metavar="N", help=f"How many features to show [default: {TOP}].")
@click.option("--plot", metavar="FILE", help="Also draw it, as a new PNG file.")
@overwrites
@click.option("--background", metavar="TABLE", help="A public table that says how often values occur.")
@click.option(
    "--row",
    multiple=True,
    metavar="COL=VALUE,…",
    help="Why this row gets its label; as JSON too. With --file the number of a row.",
)
@click.option("--file", "file", metavar="PATH", help="With --row N: a CSV or Parquet file of new rows.")
@click.option("--word", multiple=True, metavar="FEATURE=WORD", help="Say which cell of a hashed feature a word is in.")
@click.option("--leaf", type=int, default=0, show_default=True, help="Which leaf, numbered over all trees.")
@options.request_options(names_release=False, table="A registered table: show the SQL of training on it.")
@as_json
def explain_command(
    target: DatabaseTarget,
    model: str | None,
    top: int | None,
    plot: str | None,
    background: str | None,
    row: tuple[str, ...],
    file: str | None,
    word: tuple[str, ...],
    table: str | None,
    leaf: int,
    as_json: bool,
    **given: Any,
) -> None:
    """Show what a model learned, or the SQL of a training run.

    \b
    Example:
      dpsql explain --db data.duckdb --model adult_1 --plot adult_1.png
      dpsql explain --db data.duckdb --model adult_1 --row age=39,job=nurse
      dpsql explain --db data.duckdb --table adult --method rosnam --trees 10 --leaf 3

    With --model: which features its predictions depend on and what speaks for each class, from released values alone.
    With --row too: what each value of one row of yours adds to its score; features left out count as NULL.
    With --table: one leaf as WHERE … GROUP BY, beside the one statement that runs. Where trees follow from noisy
    answers, as with auto, it is a leaf of the trees that a run begins with.
    No private row is read and nothing is charged.
    """
    if (model is None) == (table is None):
        raise UsageError("name what to explain.", hint="--model NAME or --table TABLE")
    if table is not None:
        given_for_model = {"--top": top, "--plot": plot, "--background": background, "--word": word or None}
        _refuse({**given_for_model, "--row": row or None, "--file": file}, "--model")
        request = parameters(given)
        options.refuse_foreign_parameters(request["method"], request)
        with target.open(writes=False) as db:
            explanation = db.explain(table, leaf=leaf, **request)
        if as_json:
            print_json(explanation.to_dict())
        else:
            say_exact(str(explanation))
        return
    _refuse({f"--{name.replace('_', '-')}": value for name, value in given.items() if name not in _DEFAULTS}, "--table")
    if top is not None and top < 1:
        raise ParameterError("top", allowed="a whole number from 1", given=top)
    check_new(plot, "plot")
    if row or file is not None:
        _refuse({"--plot": plot, "--word": word or None}, "--model without --row")
        with target.open(writes=False) as db:
            stored = db.model(str(model))
            why = stored.explain_row(read_row(stored, row, file), background)
        if as_json:
            print_json(why.to_dict())
        else:
            say(why.text(top=top or TOP_VALUES))
        return
    with target.open(writes=False) as db:
        stored = db.model(str(model))
        words = list(words_with_cells(stored.schema, word))
        with show_progress(f'reading "{model}"'):
            learned = stored.explain(background)
            if plot is not None:
                with new_place(plot) as place:
                    learned.plot(place, top=min(top or PANELS, PANELS))
    if plot is not None:
        note(f"Wrote {plot}.")
    if as_json:
        print_json({**learned.to_dict(), **({"words": words} if words else {})})
    else:
        say(learned.text(top=top or TOP))
        for line in words:
            say(f"{line['feature']} {line['word']} is in {line['cell']} (a hash cell).")


def _refuse(given: dict[str, object], other: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"{name} goes with {other} only.", hint=f"leave out {name}")
