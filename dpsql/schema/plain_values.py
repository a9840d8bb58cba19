"""Reads and checks schemas in plain values, as they stand in a YAML or JSON file, and writes them back the same."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from dpsql.errors import SchemaError
from dpsql.schema.dated import DEFAULT_UNITS, Dated
from dpsql.schema.features import (
    CELLS,
    DEFAULT_STEPS,
    Boolean,
    Categorical,
    Feature,
    Numeric,
    Target,
    category_text,
    finite_number,
    whole_number,
)
from dpsql.schema.hashed import HASH_CELLS, Hashed
from dpsql.schema.problems import ProblemList
from dpsql.schema.synonyms import Synonyms, plain_words, words_and_synonyms
from dpsql.schema.unit import Unit

if TYPE_CHECKING:
    from dpsql.schema.schema import Schema

#: The key of a remark for people, in the schema or in a feature; it declares nothing, and is not stored.
_REMARK = "description"
_SCHEMA_KEYS = frozenset(
    (
        "label",
        "classes",
        "target",
        "features",
        "privacy_unit",
        "rows",
        "partition",
        "batch",
        "public_features",
        "disjoint_from",
        "conditions",
        "looked_up",
        "public_tables",
        _REMARK,
    )
)
_FEATURE_KEYS = {
    "numeric": frozenset(("type", "lower", "upper", "cells", "null", _REMARK)),
    "categorical": frozenset(("type", "values", "null", "unknown", _REMARK)),
    "boolean": frozenset(("type", "null", _REMARK)),
    "hashed": frozenset(("type", "cells", "listed", _REMARK)),
    **dict.fromkeys(DEFAULT_UNITS, frozenset(("type", "lower", "upper", "unit", "cells", "null", _REMARK))),
}
_TARGET_KEYS = frozenset(("lower", "upper", "steps"))
_UNIT_KEYS = frozenset(("column", "max_rows"))
_PARTITION_KEYS = frozenset(("column", "parts"))


def declared_fields(declared: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the schema in plain values, or raise a SchemaError that says what is wrong."""
    if not isinstance(declared, Mapping):
        raise SchemaError("a schema must be a mapping with label, classes and features.")
    problems = ProblemList()
    for key in declared:
        problems.attempt((str(key),), partial(_refuse_unknown, "the schema", {key: 0}, _SCHEMA_KEYS), None)
    target = problems.attempt(("target",), lambda: _target(declared.get("target")), None)
    for key in _required_keys(declared, target):
        problems.attempt((key,), partial(_require, declared, key), None)
    no_words: tuple[tuple[str, ...], Synonyms] = ((), ())
    words = problems.attempt(("classes",), lambda: _words(declared.get("classes", ()), "classes"), no_words)
    readers = {
        "label": lambda: "" if declared.get("label", "") is None else _column(declared.get("label", ""), "label"),
        "features": lambda: _features(declared.get("features", {}), problems),
        "unit": lambda: _unit(declared),
        "rows": lambda: whole_number(declared.get("rows"), "rows"),
        "batch": lambda: _column_or_none(declared, "batch"),
        "disjoint_from": lambda: _texts(declared.get("disjoint_from", ()), "disjoint_from"),
        "conditions": lambda: _conditions(declared.get("conditions", {})),
        "looked_up": lambda: _texts(declared.get("looked_up", ()), "looked_up"),
        "public_tables": lambda: _texts(declared.get("public_tables", ()), "public_tables"),
    }
    keys = {"unit": "privacy_unit"}
    read: dict[str, Any] = {
        name: problems.attempt((keys.get(name, name),), reader, None) for name, reader in readers.items()
    }
    problems.attempt(("label",), partial(_refuse_label_as_feature, declared), None)
    nowhere: dict[str, Any] = {}
    partition = problems.attempt(("partition",), lambda: _partition(declared.get("partition")), nowhere)
    problems.refuse()
    return {
        **read,
        **partition,
        "classes": words[0],
        "class_synonyms": words[1],
        "target": target,
        "public_features": declared.get("public_features", False),
    }


def _require(declared: Mapping[str, Any], key: str) -> None:
    if key not in declared:
        raise SchemaError(f'the schema has no "{key}".', hint="dpsql schema draft --table TABLE")


def _refuse_label_as_feature(declared: Mapping[str, Any]) -> None:
    """Refuse a label that is a feature too, in any letter case; a label or features that cannot be read are let by."""
    label, features = declared.get("label"), declared.get("features")
    if not isinstance(label, str) or not isinstance(features, Mapping):
        return
    if label.lower() in {name.lower() for name in features if isinstance(name, str)}:
        raise SchemaError(f'the label "{label[:80]}" is also listed as a feature.', hint="take it out of the features")


def _conditions(declared: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(declared, Mapping):
        raise SchemaError("conditions must be a mapping from a name to a condition on rows.")
    for name, text in declared.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise SchemaError("conditions: each name and each condition must be text.", hint="put quotes around it")
    return tuple(declared.items())


def _required_keys(declared: Mapping[str, Any], target: Target | None) -> tuple[str, ...]:
    """Return the keys that must be there.

    A table without labels must say `label: null`, so that nobody leaves out the label by mistake.
    """
    if target is not None:
        return ("label", "features")
    return ("label", "features") if declared.get("label", "") is None else ("label", "classes", "features")


def plain_values(schema: Schema) -> dict[str, Any]:
    """Return the schema as plain values; `declared_fields` reads them back the same."""
    declared: dict[str, Any] = {"label": schema.label or None}
    if schema.target is not None:
        declared["target"] = _target_dict(schema.target)
    elif schema.has_label:
        declared["classes"] = plain_words(schema.classes, schema.class_synonyms)
    declared["privacy_unit"] = "row"
    if schema.unit.column is not None:
        declared["privacy_unit"] = {"column": schema.unit.column, "max_rows": schema.unit.max_rows}
    for key in ("rows", "partition", "batch"):
        if getattr(schema, key) is not None:
            declared[key] = getattr(schema, key)
    if schema.parts is not None:
        declared["partition"] = {"column": schema.partition, "parts": schema.parts}
    if schema.public_features:
        declared["public_features"] = True
    if schema.disjoint_from:
        declared["disjoint_from"] = list(schema.disjoint_from)
    if schema.conditions:
        declared["conditions"] = dict(schema.conditions)
    if schema.looked_up:
        declared["looked_up"] = list(schema.looked_up)
    if schema.public_tables:
        declared["public_tables"] = list(schema.public_tables)
    declared["features"] = {feature.name: _feature_dict(feature) for feature in schema.features}
    return declared


def _target(declared: object) -> Target | None:
    if declared is None:
        return None
    if not isinstance(declared, Mapping) or not {"lower", "upper"} <= set(declared):
        raise SchemaError("target: a numeric label needs public bounds: {lower: NUMBER, upper: NUMBER}.")
    _refuse_unknown("target", declared, _TARGET_KEYS)
    return Target(declared["lower"], declared["upper"], declared.get("steps", DEFAULT_STEPS))


def _target_dict(target: Target) -> dict[str, Any]:
    shown: dict[str, Any] = {"lower": target.lower, "upper": target.upper}
    return shown if target.steps == DEFAULT_STEPS else {**shown, "steps": target.steps}


def plain_features(declared: Mapping[str, Any]) -> tuple[Feature, ...]:
    """Return features in plain values, as they stand in a file, or raise a SchemaError that says what is wrong."""
    problems = ProblemList()
    features = _features(declared, problems)
    problems.refuse()
    return features


def _features(declared: object, problems: ProblemList) -> tuple[Feature, ...]:
    if declared is None:
        raise SchemaError("features: none is declared, and at least one column must be a feature.")
    if not isinstance(declared, Mapping):
        raise SchemaError("features must be a mapping from column name to its type and domain.")
    features: list[Feature | None] = [
        problems.attempt(("features", str(name)), partial(_feature, name, details), None)
        for name, details in declared.items()
    ]
    return tuple(feature for feature in features if feature is not None)


def _feature(given_name: object, details: object) -> Feature:
    name = _column(given_name, "features")
    where = f'feature "{name}"'
    kind = details.get("type") if isinstance(details, Mapping) else None
    if not isinstance(details, Mapping) or not isinstance(kind, str) or kind not in _FEATURE_KEYS:
        raise SchemaError(f"{where}: type must be numeric, categorical, boolean, hashed, date or timestamp.")
    _refuse_unknown(where, details, _FEATURE_KEYS[kind])
    if kind == "numeric":
        return _numeric(name, details, where)
    if kind == "hashed":
        listed = details.get("listed", ())
        return Hashed(name, details.get("cells", HASH_CELLS), tuple(listed) if isinstance(listed, list) else listed)
    if kind in DEFAULT_UNITS:
        return _moment_feature(name, kind, details, where)
    null = _option(details, "null", where)
    if kind == "boolean":
        return Boolean(name, null=null)
    if "values" not in details:
        raise SchemaError(f"{where}: a categorical feature needs its public values.")
    words, synonyms = _words(details["values"], where)
    return Categorical(name, words, null=null, unknown=_option(details, "unknown", where), synonyms=synonyms)


def _numeric(name: str, details: Mapping[str, Any], where: str) -> Numeric:
    lower, upper = details.get("lower"), details.get("upper")
    if lower is None or upper is None:
        raise SchemaError(f"{where}: a numeric feature needs public bounds, lower and upper.")
    bounds = (finite_number(lower, f"{where}: lower"), finite_number(upper, f"{where}: upper"))
    missing = None if details.get("null") is None else finite_number(details["null"], f"{where}: null")
    return Numeric(name, *bounds, cells=details.get("cells", CELLS), null=missing)


def _moment_feature(name: str, kind: str, details: Mapping[str, Any], where: str) -> Dated:
    lower, upper = details.get("lower"), details.get("upper")
    if lower is None or upper is None:
        raise SchemaError(f"{where}: a {kind} feature needs public bounds, lower and upper.", hint="such as 2026-12-31")
    unit = details.get("unit", DEFAULT_UNITS[kind])
    return Dated(name, lower, upper, details.get("cells", CELLS), details.get("null"), unit, kind)


def _unit(declared: Mapping[str, Any]) -> Unit:
    unit = declared.get("privacy_unit", "row")
    if unit == "row":
        return Unit()
    if not isinstance(unit, Mapping) or "column" not in unit:
        raise SchemaError('privacy_unit must be "row" or {column: NAME, max_rows: NUMBER}.')
    _refuse_unknown("privacy_unit", unit, _UNIT_KEYS)
    max_rows = unit.get("max_rows")
    if max_rows is None:
        raise SchemaError("privacy_unit: say how many rows of one unit may be used: max_rows.")
    return Unit(column=_column(unit["column"], "privacy_unit"), max_rows=max_rows)


def _partition(declared: object) -> dict[str, Any]:
    """Return the partition column, and the number of its parts where it is declared that the column says the part."""
    if not isinstance(declared, Mapping):
        return {"partition": None if declared is None else _column(declared, "partition"), "parts": None}
    _refuse_unknown("partition", declared, _PARTITION_KEYS)
    parts = whole_number(declared.get("parts"), "partition: parts")
    if declared.get("column") is None or parts is None:
        raise SchemaError("partition must be a column's name, or {column: NAME, parts: NUMBER}.")
    return {"partition": _column(declared["column"], "partition"), "parts": parts}


def _feature_dict(feature: Feature) -> dict[str, Any]:
    if isinstance(feature, Numeric):
        shown: dict[str, Any] = {"type": "numeric", "lower": feature.lower, "upper": feature.upper}
        if isinstance(feature, Dated):
            shown = feature.declaration()
        if feature.cells != CELLS:
            shown["cells"] = feature.cells
    elif isinstance(feature, Boolean):
        shown = {"type": "boolean"}
    elif isinstance(feature, Hashed):
        shown = {"type": "hashed"}
        if feature.hash_cells != HASH_CELLS:
            shown["cells"] = feature.hash_cells
        if feature.listed:
            shown["listed"] = list(feature.listed)
    else:
        shown = {"type": "categorical", "values": plain_words(feature.values, feature.synonyms)}
        if feature.unknown is not None:
            shown["unknown"] = feature.unknown
    if feature.null is not None:
        shown["null"] = feature.null_declaration() if isinstance(feature, Dated) else feature.null
    return shown


def _words(declared: object, where: str) -> tuple[tuple[str, ...], Synonyms]:
    """Return declared words, and their synonyms where a mapping from stored texts to words is given."""
    if not isinstance(declared, Mapping):
        return _texts(declared, where), ()
    return words_and_synonyms((_text(text, where), _text(word, where)) for text, word in declared.items())


def _texts(values: object, where: str) -> tuple[str, ...]:
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise SchemaError(f"{where}: a list of values is needed.")
    return tuple(_text(value, where) for value in values)


def _text(value: object, where: str) -> str:
    """Return one declared value as text; lists, mappings and numbers too long to write down are refused."""
    if isinstance(value, int) and value.bit_length() > 1024:
        raise SchemaError(f"{where}: a number among the values is too long.")
    if isinstance(value, Iterable) and not isinstance(value, str):
        raise SchemaError(f"{where}: each value must be one text, number, true or false.")
    text = category_text(value)
    if text is None:
        raise SchemaError(f"{where}: NULL cannot be a declared value.", hint="quote it if it is text")
    return text


def _option(details: Mapping[str, Any], name: str, where: str) -> str | None:
    return None if details.get(name) is None else _text(details[name], f"{where}: {name}")


def _column(name: object, where: str) -> str:
    """Return a column's name; a number is taken as text, anything else is refused."""
    if isinstance(name, bool) or not isinstance(name, str | int | float):
        raise SchemaError(f"{where}: a column's name must be text.", hint="quote the name")
    return _text(name, where)


def _column_or_none(declared: Mapping[str, Any], key: str) -> str | None:
    return None if declared.get(key) is None else _column(declared[key], key)


def _refuse_unknown(where: str, given: Mapping[str, Any], allowed: frozenset[str]) -> None:
    """Refuse a key that is not one of the allowed ones, and name the nearest of those."""
    unknown = sorted(str(key) for key in given if key not in allowed)
    if unknown:
        nearest = [f'"{key}"' for key in difflib.get_close_matches(unknown[0], sorted(allowed), n=2)]
        meant = f" Did you mean {' or '.join(nearest)}?" if nearest else ""
        raise SchemaError(f'{where}: "{unknown[0][:80]}" is not known.{meant} Known: {", ".join(sorted(allowed))}.')
