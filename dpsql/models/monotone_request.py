"""Reads which numbers a model is to be monotone in, as `age=up,income=down`, and applies it to what was released."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsql.errors import ParameterError, UnknownName, UsageError
from dpsql.schema import Numeric, Schema
from dpsql.trees.monotone import make_monotone
from dpsql.trees.voting import VotingForest

#: The key of a certificate under which the directions stand.
MONOTONE = "monotone"
_SIGNS = {"up": 1, "down": -1}


def parse_monotone(given: object) -> dict[str, str]:
    """Return the direction of each feature, from a mapping or from text.

    >>> parse_monotone("age=up, debt=down"), parse_monotone({"age": "up"})
    ({'age': 'up', 'debt': 'down'}, {'age': 'up'})
    """
    if isinstance(given, str):
        pairs = [part.rpartition("=") for part in given.split(",")]
        directions: dict[Any, Any] = {name.strip(): direction.strip() for name, _, direction in pairs}
    else:
        directions = dict(given) if isinstance(given, Mapping) else {}
    if not directions or not all(isinstance(name, str) and name for name in directions):
        raise ParameterError("monotone", allowed="FEATURE=up or FEATURE=down, several with commas", given=given)
    for direction in directions.values():
        if direction not in _SIGNS:
            raise ParameterError("monotone", allowed="FEATURE=up or FEATURE=down, several with commas", given=given)
    return directions


def check_monotone(schema: Schema, directions: Mapping[str, str]) -> None:
    """Raise an error where the guarantee cannot be had: several classes, or a feature that is no number."""
    if len(schema.classes) > 2:
        raise UsageError(
            f"monotone is for a number or two classes: of {len(schema.classes)} classes more than one may gain.",
            hint="leave out --monotone, or register the table with two classes",
        )
    for name in directions:
        feature = schema.feature(name)
        if feature is None:
            raise UnknownName("feature", name, [each.name for each in schema.features])
        if not isinstance(feature, Numeric):
            raise ParameterError("monotone", allowed="numbers or dates: categories have no order", given=name)


def monotone_forest(schema: Schema, released: VotingForest, directions: Mapping[str, str]) -> VotingForest:
    """Return the forest with weights that are monotone as asked; the same structure, and at no cost."""
    names = [schema.features[axis.feature].name for axis in released.forest.axes]
    signs = {place: _SIGNS[directions[name]] for place, name in enumerate(names) if name in directions}
    return make_monotone(released, signs)


def monotone_note(schema: Schema, certificate: Mapping[str, Any]) -> str:
    """Return a sentence on what never falls or never rises; "" for a model without such a guarantee."""
    what = schema.label if schema.target is not None else f"the probability of {schema.classes[-1]}"
    parts = [
        f"never {'falls' if direction == 'up' else 'rises'} as {name} grows"
        for name, direction in certificate.get(MONOTONE, {}).items()
    ]
    return f"{what} {' and '.join(parts)}, all else equal" if parts else ""
