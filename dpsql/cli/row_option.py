"""Reads the row that `dpsql explain --row` is asked about: from the option itself, or from a file of new rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpsql.engines.files.read_rows import read_rows
from dpsql.errors import ParameterError, UnknownName, UsageError
from dpsql.ledger import json_text
from dpsql.models.score import number_columns, public_file, with_moments
from dpsql.models.usable_model import Model


def read_row(model: Model, given: Sequence[str], file: str | None) -> Mapping[str, Any]:
    """Return a row as a mapping from features to values, or raise an error that says how to write one.

    `given` has texts `COL=VALUE,COL=VALUE` or JSON objects; together they are one row. With a file it is one number.
    """
    if file is not None:
        return _row_of_file(model, given, Path(file))
    row: dict[str, Any] = {}
    for text in given:
        row |= parse_row(text)
    names = [feature.name for feature in model.schema.features]
    for name in row:
        if name not in names:
            raise UnknownName("feature", name, names, hint=f"the features are {', '.join(names)}")
    return row


def parse_row(text: str) -> dict[str, Any]:
    """Return the values of one text; a value that is left empty is NULL.

    >>> parse_row("age=39,job=nurse,since="), parse_row('{"job": "clerk, senior"}')
    ({'age': '39', 'job': 'nurse', 'since': None}, {'job': 'clerk, senior'})
    """
    if text.lstrip().startswith("{"):
        return _parse_object(text)
    row: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals:
            as_object = json.dumps({"COL": "VALUE, WITH COMMA"})
            raise ParameterError(
                "row", allowed="COL=VALUE,COL=VALUE", given=text, hint=f"where a value has a comma: --row '{as_object}'"
            )
        row[name.strip()] = value or None
    return row


def _parse_object(text: str) -> dict[str, Any]:
    try:
        row = json_text.parse(text)
    except ValueError:
        row = None
    plain = str | int | float | bool | None
    if not isinstance(row, dict) or not all(isinstance(value, plain) for value in row.values()):
        raise ParameterError("row", allowed="a JSON object with one plain value for each feature", given=text)
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in row.items()}


def _row_of_file(model: Model, given: Sequence[str], path: Path) -> Mapping[str, Any]:
    """Return a row of a file of new rows, counted from 1."""
    if len(given) != 1 or not given[0].isdigit():
        raise UsageError("which row of the file?", hint="--row 1 for the first one")
    frame = with_moments(read_rows(public_file(model.database, path), number_columns(model.schema)), model.schema)
    number = int(given[0])
    if not 1 <= number <= len(frame):
        raise ParameterError(
            "row", allowed=f"a whole number from 1 to {len(frame)}, the rows of the file", given=number
        )
    row = frame.iloc[number - 1]
    return {feature.name: row[feature.name] for feature in model.schema.features if feature.name in frame.columns}
