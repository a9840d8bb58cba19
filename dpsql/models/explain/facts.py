"""Reads the noisy counts that a method released during the run and stored in its model's certificate.

All of `certificate["facts"]` is released. `classes` has the noisy rows of each class; `features` has for each feature
`groups`, the cells of its public grid that were counted together, and `counts`, the noisy rows of each class in each
group. The noise of a count is given by `errors` (a standard deviation for each group), or by one `scale`, of a feature
or of all: that of the noise on each cell, so that a group of k cells has a standard deviation of scale · √(2k). Where
neither is given the noise is not known, and errors allow for chance alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import SchemaError
from dpsql.schema import Feature, Schema

Reals = NDArray[np.float64]
#: The key of a certificate under which the counts are stored.
FACTS = "facts"


@dataclass(frozen=True, eq=False)
class Counts:
    """The noisy counts of one feature (groups × classes), and the standard deviation of the noise for each group."""

    groups: tuple[tuple[int, ...], ...]
    noisy_counts: Reals
    errors: Reals


@dataclass(frozen=True, eq=False)
class Facts:
    """The facts of a certificate: the noisy rows of each class (None where it has none), and the counts by feature."""

    noisy_classes: Reals | None = None
    features: Mapping[str, Counts] = field(default_factory=dict)


def read_facts(schema: Schema, certificate: Mapping[str, Any]) -> Facts:
    """Return the facts of a certificate, which may be empty; raise SchemaError where they do not fit the schema."""
    stored = certificate.get(FACTS)
    if not stored or not schema.classes:
        return Facts()
    try:
        scale = float(stored.get("scale", 0.0))
        features = {
            feature.name: _counts(schema, feature, stored["features"][feature.name], scale)
            for feature in schema.features
            if feature.name in stored.get("features", {})
        }
        return Facts(_classes(schema, stored), features)
    except (LookupError, TypeError, ValueError, OverflowError, AttributeError):
        raise SchemaError("the facts in the model's certificate are damaged: they do not fit its schema.") from None


def _classes(schema: Schema, stored: Mapping[str, Any]) -> Reals | None:
    if not stored.get("classes"):
        return None
    return np.maximum(_finite_numbers([stored["classes"][name] for name in schema.classes]), 1.0)


def _counts(schema: Schema, feature: Feature, stored: Mapping[str, Any], scale: float) -> Counts:
    groups = tuple(tuple(int(cell) for cell in group) for group in stored["groups"])
    counts = _finite_numbers(stored["counts"])
    cells = [cell for group in groups for cell in group]
    if counts.shape != (len(groups), len(schema.classes)) or not all(groups):
        raise ValueError("counts do not fit")
    if len(set(cells)) != len(cells) or not all(0 <= cell < feature.cells for cell in cells):
        raise ValueError("cells do not fit")
    scale = float(stored.get("scale", scale))
    errors = _finite_numbers(stored.get("errors", [scale * math.sqrt(2 * len(group)) for group in groups]))
    if errors.shape != (len(groups),) or (errors < 0).any():
        raise ValueError("errors do not fit")
    return Counts(groups, counts, errors)


def _finite_numbers(values: Any) -> Reals:
    numbers = np.array(values, np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError("not finite")
    return numbers
