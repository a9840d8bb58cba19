"""Says which declared ranges are so wide that nearly all rows lie in a few cells, and which bounds would do.

All of it comes from noisy values that a run released and stored in its model's certificate: the looks of `auto`'s step
`zoom`, or the counts of a feature's groups. Nothing is asked, and nothing is charged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dpsql.errors import SchemaError
from dpsql.models.explain.facts import FACTS, Counts, read_facts
from dpsql.schema import Numeric, Schema

#: A range is crowded where nearly all rows lie in so many of its cells or fewer.
FEW_CELLS = 4
#: Nearly all rows: this share of them.
_NEARLY_ALL = 0.97


@dataclass(frozen=True)
class CrowdedRange:
    """A number whose rows lie in a few cells of its declared range, and bounds that would hold nearly all of them."""

    feature: str
    cells: int
    of: int
    declared: tuple[float, float]
    lower: float
    upper: float

    def __str__(self) -> str:
        where = f"nearly all rows lie in {self.cells} of {self.of} cells"
        return f"{self.feature}: {where}; bounds about {self.lower:.6g} … {self.upper:.6g} would help"


def crowded_ranges(schema: Schema, certificate: Mapping[str, Any]) -> tuple[CrowdedRange, ...]:
    """Return the crowded ranges of a model, in the order of its features; `schema` is the model's own."""
    return tuple(_crowded_ranges(schema, certificate))


def _crowded_ranges(schema: Schema, certificate: Mapping[str, Any]) -> Iterator[CrowdedRange]:
    facts = read_facts(schema, certificate)
    zoomed = (certificate.get(FACTS) or {}).get("zoom") or {}
    for feature in schema.numeric:
        try:
            if feature.name in zoomed:
                yield from _range_of_zoom(feature, zoomed[feature.name])
            elif feature.name in facts.features:
                yield from _range_of_counts(feature, facts.features[feature.name])
        except (LookupError, TypeError, ValueError, OverflowError, AttributeError):
            raise SchemaError("the facts in the model's certificate are damaged: they do not fit its schema.") from None


def _range_of_zoom(feature: Numeric, look: Mapping[str, Any]) -> Iterator[CrowdedRange]:
    """Yield a range that `zoom` found crowded: the schema has the narrower bounds, the look has the declared ones."""
    lower, upper = (float(bound) for bound in look["declared"])
    if int(look["cells"]) <= FEW_CELLS and (lower, upper) != (feature.lower, feature.upper):
        bounds = outward(feature.lower, feature.upper)
        yield CrowdedRange(feature.name, int(look["cells"]), feature.cells, (lower, upper), *bounds)


def _range_of_counts(feature: Numeric, counts: Counts) -> Iterator[CrowdedRange]:
    """Yield a range of which one group of few cells holds nearly all noisy rows."""
    rows = counts.noisy_counts.clip(min=0).sum(axis=1)
    fullest = int(rows.argmax())
    cells = counts.groups[fullest]
    if rows[fullest] < _NEARLY_ALL * rows.sum() or not rows.sum() or len(cells) > FEW_CELLS:
        return
    edges = (feature.lower, *feature.edges, feature.upper)
    bounds = outward(edges[min(cells)], edges[max(cells) + 1])
    yield CrowdedRange(feature.name, len(cells), feature.cells, (feature.lower, feature.upper), *bounds)


def outward(lower: float, upper: float) -> tuple[float, float]:
    """Return bounds rounded outwards to about a twentieth of their distance, so that they are short to write.

    >>> outward(-487.3, 2950.1), outward(0.0, 0.0123)
    ((-500.0, 3000.0), (0.0, 0.0125))
    """
    distance = upper - lower
    if not math.isfinite(distance) or distance <= 0:
        return lower, upper
    step = 10.0 ** math.floor(math.log10(distance / 20))
    step *= next((factor for factor in (5.0, 2.5, 2.0) if step * factor <= distance / 20), 1.0)
    return _tidy(math.floor(lower / step) * step), _tidy(math.ceil(upper / step) * step)


def _tidy(number: float) -> float:
    """Return a number without the last digits, in which a product of decimals is not exact."""
    return float(f"{number:.15g}") + 0.0
