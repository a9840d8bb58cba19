"""The data folder: one Parquet file per table, and `schemas.json` with the public schema of each by name.

An entry of `schemas.json` may hold notes beside the schema, such as the file's name and which columns have NULLs.
dpsql knows no such keys, so `without_notes` leaves them out before a schema is declared.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from dpsql.errors import UsageError

#: Environment variable that names the data folder where no option does.
VARIABLE = "DPSQL_BENCH_DATA"
#: The folder that `python -m examples.benchmarks tables` fills where nobody names another.
DEFAULT_FOLDER = Path("bench-data")
SCHEMAS = "schemas.json"
#: What a schema may declare of a table, and of a feature.
_TABLE_KEYS = ("label", "classes", "target", "features", "privacy_unit", "rows", "partition", "batch")
_FEATURE_KEYS = ("type", "lower", "upper", "values", "cells", "null", "unknown")
#: Older names of bounds in the notes of a table.
_BOUNDS = {"lo": "lower", "hi": "upper"}

#: The option that names the data folder of a command.
DATA_OPTION = click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_FOLDER,
    show_default=True,
    envvar=VARIABLE,
    help="Folder of the tables.",
)


def data_folder() -> Path:
    """Return the folder that the environment names, or the usual one."""
    return Path(os.environ.get(VARIABLE) or DEFAULT_FOLDER)


def read_schemas(folder: Path) -> dict[str, Any]:
    """Return the entries of a data folder by name; none where it has no `schemas.json`."""
    file = folder / SCHEMAS
    if not file.is_file():
        return {}
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        entries = None
    if not isinstance(entries, dict):
        raise UsageError(f'"{file}" is not a JSON mapping of schemas by name.', hint="check --data")
    return entries


def without_notes(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an entry alone, in the words that dpsql reads.

    >>> entry = {"label": "y", "classes": ["a"], "file": "y.parquet", "features": {"x": {"type": "numeric", "lo": 0,
    ... "hi": 1, "domain_from": "documentation"}}}
    >>> without_notes(entry)["features"], "file" in without_notes(entry)
    ({'x': {'type': 'numeric', 'lower': 0, 'upper': 1}}, False)
    """
    schema = {key: entry[key] for key in _TABLE_KEYS if key in entry}
    schema["features"] = {name: _feature(details) for name, details in entry["features"].items()}
    return schema


def _feature(details: Mapping[str, Any]) -> dict[str, Any]:
    renamed = {_BOUNDS.get(key, key): value for key, value in details.items()}
    bounds = ("lower", "upper")
    return {
        key: renamed[key]
        for key in _FEATURE_KEYS
        if key in renamed and (renamed["type"] == "numeric" or key not in bounds)
    }
