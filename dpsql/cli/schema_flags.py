"""Reads a schema from the flags of a command, or from the file that a flag names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from dpsql.errors import ParameterError, UsageError
from dpsql.schema import Schema, Unit
from dpsql.schema import schema_file as schemafile

#: A stored text and the word that it means, on the command line; a comparison (`<=50K`) is a word.
_STORED_WORD = re.compile("([^=<>!]+)=([^=].*)", re.DOTALL)


def schema_of(schema_file: str | None, entry: str | None, flags: dict[str, Any]) -> Schema:
    """Return the schema in a file, or the one that flags declare."""
    given = [name for name, value in flags.items() if value]
    if schema_file is not None:
        if given:
            raise UsageError("give the schema as a file or as flags, not both.", hint="leave out --schema or the flags")
        return schemafile.load_schema(schema_file, entry=entry)
    if entry is not None:
        raise UsageError("--entry picks one of the schemas in a file.", hint="--schema FILE --entry NAME")
    if not flags["label"] or bool(flags["classes"]) == bool(flags["bounds"]):
        hint = "--buy EPSILON, --schema FILE, or --label, --class (or --target) and features as flags"
        raise UsageError("a schema is needed.", hint=hint)
    parts = declared_parts(flags)
    declared = {"label": parts["label"], "features": parts["features"], **parts["more"]}
    if parts["target"]:
        declared["target"] = {"lower": parts["target"][0], "upper": parts["target"][1]}
    else:
        declared["classes"] = parts["classes"]
    if parts["unit"].column is not None:
        declared["privacy_unit"] = {"column": parts["unit"].column, "max_rows": parts["unit"].max_rows}
    return Schema.from_dict(declared)


def declared_parts(flags: dict[str, Any]) -> dict[str, Any]:
    """Return what flags declare: label, classes, target, features, unit, and further keys of a schema in `more`."""
    features: dict[str, Any] = {}
    for text in flags["numeric"]:
        name, lower, upper = _parts(text, "numeric", "NAME:LOWER:UPPER", 3)
        _refuse_repeated(name, features)
        features[name] = {"type": "numeric", "lower": _number(lower), "upper": _number(upper)}
    for text in flags["categorical"]:
        name, values = _parts(text, "categorical", "NAME:A,B,…", 2)
        _refuse_repeated(name, features)
        features[name] = {"type": "categorical", "values": _words(values.split(","))}
    for name in flags["boolean"]:
        _refuse_repeated(name, features)
        features[name] = {"type": "boolean"}
    bounds = None
    if flags["bounds"]:
        lower, upper = _parts(flags["bounds"], "target", "LOWER:UPPER", 2)
        bounds = (_number(lower), _number(upper))
    unit = Unit()
    if flags["unit"]:
        column, most = _parts(flags["unit"], "unit", "COLUMN:MAX_ROWS", 2)
        unit = Unit(column, _whole_number(most))
    more: dict[str, Any] = {"public_features": True} if flags["public_features"] else {}
    if flags["rows"] is not None:
        more["rows"] = flags["rows"]
    if flags["disjoint_from"]:
        more["disjoint_from"] = list(flags["disjoint_from"])
    return {
        "label": flags["label"],
        "classes": _words(flags["classes"]),
        "target": bounds,
        "features": features,
        "unit": unit,
        "more": more,
    }


def _words(given: Sequence[str]) -> list[str] | dict[str, str]:
    """Return words as a schema declares them: with STORED=WORD among them, as a mapping from stored texts to words.

    A sign of comparison is no such form: `<=50K` and `a>=b` are words.

    >>> _words(["<=50K", ">50K"]), _words(["true=yes", "false=no"])
    (['<=50K', '>50K'], {'true': 'yes', 'false': 'no'})
    """
    pairs = [_STORED_WORD.fullmatch(text) for text in given]
    if not any(pairs):
        return list(given)
    return {pair[1] if pair else text: pair[2] if pair else text for pair, text in zip(pairs, given, strict=True)}


def _refuse_repeated(name: str, features: dict[str, Any]) -> None:
    """Refuse a feature that an earlier flag has declared."""
    if name in features:
        raise UsageError(f'feature "{name}" is given twice.', hint="leave out one of the two flags")


def _parts(text: str, option: str, shape: str, count: int) -> list[str]:
    parts = text.rsplit(":", count - 1)
    if len(parts) != count or not all(parts):
        raise ParameterError(f"--{option}", allowed=f"of the form {shape}", given=text)
    return parts


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ParameterError("a bound", allowed="a number", given=text) from None


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ParameterError("--unit", allowed="COLUMN:MAX_ROWS with a whole number", given=text) from None
