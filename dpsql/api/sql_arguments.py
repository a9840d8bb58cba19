"""Reads the arguments that SQL hands over: JSON values become words, flags, lists, units and schemas."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlglot import exp

from dpsql.errors import ParameterError, UsageError
from dpsql.ledger import json_text
from dpsql.runs.train import parse_parameter
from dpsql.schema import Schema, Unit, schema_file

#: What stands in the place of an argument that was not given.
LEFT_OUT = "(left out)"
#: Words with which a query begins; a file's name does not.
_QUERY_WORDS = ("select", "with", "from")
#: The arguments of a call as they arrive: name -> JSON text.
Texts = Mapping[str, str | None]
_DRAFTED = ("label", "like", "dictionary", "public_tables", "values_are_public")
_DECLARED = ("label", "classes", "target", "features")
_OF_VIEWS = ("view", "public", "share_budget")


def macro_name(name: str) -> exp.Identifier:
    """Return what a macro calls an argument: "table" is a reserved word of SQL."""
    return exp.to_identifier("table_name" if name == "table" else name, quoted=True)


def read_arguments(texts: Texts) -> dict[str, Any]:
    """Return the arguments that were given, parsed; refuse a NULL."""
    given: dict[str, Any] = {}
    for name, text in texts.items():
        if text is None or text == "null":
            raise ParameterError(macro_name(name).name, allowed="a value, or left out where it can be", given="NULL")
        value = json_text.parse(text) if text[:1] in '"[{tf' else text  # a number stays as it is written: exact
        if value != LEFT_OUT:
            given[name] = value
    return given


def read_words(texts: Texts) -> dict[str, Any]:
    """Return the arguments that were given, all of them texts."""
    return {name: as_text(name, value) for name, value in read_arguments(texts).items()}


def read_charged(texts: Texts) -> tuple[dict[str, Any], str | None, bool]:
    """Return the arguments of an act that is charged, its request id if it has one, and whether it is to run anew."""
    given = read_arguments(texts)
    again = as_flag("again", given.pop("again", False))
    words: dict[str, Any] = {name: as_text(name, value) for name, value in given.items()}
    return words, words.pop("request_id", None), again


def as_text(name: str, value: object) -> str:
    """Return a text, or refuse anything else."""
    if not isinstance(value, str):
        raise ParameterError(name, allowed="a text or a number", given=type(value).__name__)
    return value


def as_flag(name: str, value: object) -> bool:
    """Return true or false, or refuse anything else."""
    if not isinstance(value, bool):
        raise ParameterError(name, allowed="true or false", given=value)
    return value


def as_integer(name: str, value: object) -> int:
    """Return a whole number, or refuse anything else."""
    try:
        return int(str(value))
    except ValueError:
        raise ParameterError(name, allowed="a whole number", given=value) from None


def as_names(name: str, value: object) -> list[str]:
    """Return a list of texts; a single one is a list of one."""
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not values or not all(isinstance(each, str) for each in values):
        raise ParameterError(name, allowed="a text, or a list of texts", given="another value")
    return list(values)


def method_parameters(texts: Texts) -> tuple[str, dict[str, Any]]:
    """Return a table, and a method's own parameters that were given."""
    given = read_words({name: text for name, text in texts.items() if text not in ("true", "false")})
    flags = {name: text == "true" for name, text in texts.items() if text in ("true", "false")}
    table = given.pop("table")
    return table, {name: parse_parameter(name, text) for name, text in given.items()} | flags


def draft_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a draft among those that were given."""
    texts = {name: as_text(name, given[name]) for name in ("label", "like", "dictionary") if name in given}
    lists = {name: as_names(name, given[name]) for name in ("public_tables", "values_are_public") if name in given}
    return texts | lists


def registration_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `Database.register`, or with `buy` those of `Database.buy_schema`."""
    request = registration_options(given)
    if "buy" in given:
        for name in ("schema", "entry", "no_cap", *_OF_VIEWS):
            if name in given:
                raise UsageError("buy is for a table without a schema.", hint=f"leave out {name}")
        request |= {"buy": as_text("buy", given["buy"]), **draft_arguments(given), **declared_domains(given)}
        if "delta" in given:
            request["delta"] = as_text("delta", given["delta"])
        if "unit" in given:
            request["unit"] = unit_given(given["unit"])
        return request
    for name in ("delta", *(each for each in _DRAFTED if each != "label")):
        if name in given:
            raise UsageError(f"{name} goes with buy.", hint="buy := '0.1', or FROM dpsql_draft(…)")
    if "schema" in given:
        for name in _DECLARED:
            if name in given:
                raise UsageError("give the schema, or its parts, not both.", hint=f"leave out schema or {name}")
        request["schema"] = schema_given(given)
        if "entry" in given:
            request["entry"] = as_text("entry", given["entry"])
        if "unit" in given:
            request["unit"] = as_text("unit", given["unit"])
        return request
    if "entry" in given:
        raise UsageError("entry picks one of the schemas in a file.", hint="schema := 'FILE', entry := 'NAME'")
    if not {"label", "features"} <= set(given) or ("classes" in given) == ("target" in given):
        hint = "buy := '0.1', schema := 'FILE', or label, classes (or target) and features"
        raise UsageError("a schema is needed.", hint=hint)
    declared = declared_domains(given) | {"label": as_text("label", given["label"])}
    if "target" in declared:
        lower, upper = declared["target"]
        declared["target"] = {"lower": lower, "upper": upper}
    if "unit" in given:
        unit = unit_given(given["unit"])
        declared["privacy_unit"] = {"column": unit.column, "max_rows": unit.max_rows}
    return request | {"schema": declared}


def registration_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what both ways to register take: the cap, limits, a hold-out, and what a view needs."""
    no_cap = as_flag("no_cap", given.get("no_cap", False))
    share = as_flag("share_budget", given.get("share_budget", False))
    if ("cap" in given) + no_cap + share != 1:
        hint = "cap := '3'; no_cap := true for public data; share_budget := true for a second view of the same rows"
        raise UsageError("say what all runs together may cost.", hint=hint)
    options: dict[str, Any] = {"cap": as_text("cap", given["cap"]) if "cap" in given else None}
    for name in ("replace", "allow_large", "share_budget"):
        if name in given:
            options[name] = as_flag(name, given[name])
    for name in ("least_epsilon", "holdout", "holdout_cap"):
        if name in given:
            options[name] = as_text(name, given[name])
    if "lost_runs" in given:
        options["lost_runs"] = as_integer("lost_runs", given["lost_runs"])
    if "public" in given:
        options["public"] = as_names("public", given["public"])
    if "view" in given:
        view = as_text("view", given["view"])
        is_file = Path(view).suffix == ".sql" and view.split()[0].lower() not in _QUERY_WORDS
        options["view"] = Path(view) if is_file else view
    return options


def declared_domains(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the domains that the owner declares in the call itself."""
    declared: dict[str, Any] = {}
    if "classes" in given:
        if not isinstance(given["classes"], list | dict):
            raise ParameterError(
                "classes", allowed="a list, or a MAP from stored texts to words", given="another value"
            )
        declared["classes"] = given["classes"]
    if "features" in given:
        if not isinstance(given["features"], dict):
            raise ParameterError("features", allowed="a STRUCT or a MAP by column", given="another value")
        declared["features"] = given["features"]
    if "target" in given:
        bounds = given["target"]
        if (
            not isinstance(bounds, list)
            or len(bounds) != 2
            or not all(isinstance(each, int | float) for each in bounds)
        ):
            raise ParameterError("target", allowed="the two bounds, as in [0, 100]", given="another value")
        declared["target"] = (bounds[0], bounds[1])
    return declared


def schema_given(given: Mapping[str, Any]) -> Schema | Mapping[str, Any] | Path:
    """Return a schema as a mapping from a STRUCT, from the text of a schema file, or the file."""
    schema = given["schema"]
    if isinstance(schema, dict):
        return schema
    text = as_text("schema", schema)
    is_json = text.lstrip().startswith("{")
    if "entry" not in given and ("\n" in text or is_json):
        return schema_file.loads(text, kind=".json" if is_json else ".yml")
    return Path(text)


def unit_given(value: object) -> Unit:
    """Return the unit that COLUMN:MAX_ROWS names."""
    column, _, most = as_text("unit", value).rpartition(":")
    if not column:
        raise ParameterError("unit", allowed="of the form COLUMN:MAX_ROWS", given=value)
    return Unit(column, as_integer("unit", most))
