"""The command that takes a model elsewhere: as JSON, as a SQL script for another database, as an ONNX file. Free."""

from __future__ import annotations

import click

from dpsql.cli.command import command
from dpsql.cli.options import DatabaseTarget, as_json, database
from dpsql.cli.printing.output import check_new, note, print_json, say_exact, write_new
from dpsql.cli.written_files import new_place, overwrites
from dpsql.errors import UsageError
from dpsql.models.export_onnx import check_onnx
from dpsql.models.export_sql import DIALECTS, FORMS, check_dialect
from dpsql.models.usable_model import Model


@command()
@database
@click.option("--model", required=True, help="The model's name.")
@click.option("--to", metavar="FILE", help="A new file: JSON, or with --dialect a SQL script.")
@click.option("--dialect", metavar="NAME", help=f"Write SQL for another database: {', '.join(DIALECTS)}.")
@click.option("--table", metavar="NAME", help="The table to score there [default: new_rows].")
@click.option("--form", type=click.Choice(FORMS), help="How the script ends [default: select].")
@click.option("--name", help="What the script's tables and view are called [default: the model's name].")
@click.option("--probabilities", is_flag=True, help="Let the script give each class's probability too.")
@click.option("--onnx", metavar="FILE", help="Write a new ONNX file.")
@overwrites
@as_json
def export(
    target: DatabaseTarget,
    model: str,
    to: str | None,
    dialect: str | None,
    table: str | None,
    form: str | None,
    name: str | None,
    probabilities: bool,
    onnx: str | None,
    as_json: bool,
) -> None:
    """Write a model to a file: JSON, SQL for a database, ONNX.

    \b
    Example:
      dpsql export --db data.duckdb --model adult_1 --to adult_1.json
      dpsql export --db data.duckdb --model adult_1 --dialect snowflake --table new_people --to adult_1.sql
      dpsql export --db data.duckdb --model adult_1 --onnx adult_1.onnx

    The file is safe to publish. Predictions elsewhere equal those here, in every row. A script without --to is printed.
    The model's tables are made beside the table to score, which may be qualified: --table sales.new_people.
    """
    given = {"--table": table, "--form": form, "--name": name, "--probabilities": probabilities or None}
    _check_words(to, dialect, onnx, [option for option, value in given.items() if value is not None])
    with target.open(writes=False) as db:
        stored = db.model(model)
    if onnx is not None:
        with new_place(onnx) as place:
            stored.export_onnx(place)
        _report_file(model, onnx, as_json=as_json)
    elif dialect is not None:
        own = {"table": table or "new_rows", "form": form or "select"}
        text = stored.export_sql(dialect, **own, name=name, probabilities=probabilities)
        _give_script(stored, text, to, dialect=dialect, as_json=as_json)
    else:
        write_new(str(to), stored.to_json())
        _report_file(model, str(to), as_json=as_json)


def _check_words(to: str | None, dialect: str | None, onnx: str | None, given: list[str]) -> None:
    """Refuse words that do not go together, before the database is opened."""
    if onnx is not None and (to is not None or dialect is not None):
        raise UsageError("one form at a time: --onnx FILE is a form and a file.", hint="leave out --to and --dialect")
    if given and dialect is None:
        raise UsageError(f"{given[0]} says how a SQL script is made.", hint="--dialect NAME")
    if to is None and dialect is None and onnx is None:
        raise UsageError("name the file to write.", hint="--to FILE.json, --dialect NAME or --onnx FILE.onnx")
    if dialect is not None:
        check_dialect(dialect)
    if onnx is not None:
        check_onnx()
        check_new(onnx, "onnx")
    check_new(to)


def _give_script(model: Model, text: str, to: str | None, *, dialect: str, as_json: bool) -> None:
    """Print a SQL script, or write it to a new file where one is named."""
    if to is None:
        if as_json:
            print_json({"model": model.name, "dialect": dialect, "sql": text})
        else:
            say_exact(text.rstrip("\n"))
        return
    write_new(to, text)
    _report_file(model.name, to, as_json=as_json, dialect=dialect)


def _report_file(model: str, to: str, *, as_json: bool, **more: str) -> None:
    if as_json:
        print_json({"model": model, **more, "to": to})
    note(f"Wrote {to}.")
