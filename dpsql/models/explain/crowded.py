"""Says which declared ranges fit so badly that nearly all rows lie in a few cells, and which bounds would do.

Such a range is far too wide, or far too narrow: values beyond a bound are clamped to it, so that they pile up in the
first or the last cell. Released values cannot tell a pile of clamped values from one value that nearly all rows have.

All of it comes from noisy values that a run released and stored in its model's certificate: the looks of `auto`'s step
`zoom`, or the counts of a feature's groups. Nothing is asked, and nothing is charged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpsql.errors import SchemaError
from dpsql.models.explain.facts import FACTS, Counts, read_facts
from dpsql.schema import Numeric, Schema

#: A range is crowded where nearly all rows lie in so many of its cells or fewer.
FEW_CELLS = 4
#: Rows are piled up at a bound where this share of them is in the group of its cell, however narrow the range became.
_PILED = 0.9
#: After two looks or more that all led to the bound, no more than this part of the declared range is left.
_SMALL_PART = 0.002
#: Nearly all rows: this share of them.
_NEARLY_ALL = 0.97


@dataclass(frozen=True)
class CrowdedRange:
    """A number whose rows lie in a few cells of its declared range, and bounds that would hold nearly all of them.

    `piled_at` is "lower" or "upper" where the rows pile up at that bound, which may then be too narrow.
    """

    feature: str
    cells: int
    of: int
    declared: tuple[float, float]
    lower: float
    upper: float
    piled_at: str | None = None

    def __str__(self) -> str:
        if self.piled_at is not None:
            return self._narrow_text()
        where = f"nearly all rows lie in {self.cells} of {self.of} cells"
        return f"{self.feature}: {where}; bounds about {self.lower:.6g} … {self.upper:.6g} would help"

    def _narrow_text(self) -> str:
        place, bound = ("first", self.declared[0]) if self.piled_at == "lower" else ("last", self.declared[1])
        where = f"nearly all rows lie at its {self.piled_at} bound {bound:.6g}, in the {place} of {self.of} cells"
        narrow = "the bounds may be too narrow, as values beyond them are clamped to the edge"
        return f"{self.feature}: {where}; {narrow}. If none lie beyond, {self.lower:.6g} … {self.upper:.6g} would help"


def crowded_heading(ranges: Sequence[CrowdedRange]) -> str:
    """Return how ranges were declared, in words: too wide, too narrow, or some of both."""
    narrow = sum(crowded.piled_at is not None for crowded in ranges)
    if not narrow:
        return "far too wide"
    return "far too narrow" if narrow == len(ranges) else "far too wide or too narrow"


def crowded_ranges(schema: Schema, certificate: Mapping[str, Any]) -> tuple[CrowdedRange, ...]:
    """Return the crowded ranges of a model, in the order of its features; `schema` is the model's own."""
    return tuple(_crowded_ranges(schema, certificate))


def _crowded_ranges(schema: Schema, certificate: Mapping[str, Any]) -> Iterator[CrowdedRange]:
    facts = read_facts(schema, certificate)
    zoomed = (certificate.get(FACTS) or {}).get("zoom") or {}
    for feature in schema.numeric:
        try:
            if feature.name in zoomed:
                yield from _range_of_zoom(feature, zoomed[feature.name], facts.features.get(feature.name))
            elif feature.name in facts.features:
                yield from _range_of_counts(feature, facts.features[feature.name])
        except (LookupError, TypeError, ValueError, OverflowError, AttributeError):
            raise SchemaError("the facts in the model's certificate are damaged: they do not fit its schema.") from None


def _range_of_zoom(feature: Numeric, look: Mapping[str, Any], counts: Counts | None) -> Iterator[CrowdedRange]:
    """Yield a range that `zoom` found crowded: the schema has the narrower bounds, the look has the declared ones."""
    lower, upper = (float(bound) for bound in look["declared"])
    if int(look["cells"]) <= FEW_CELLS and (lower, upper) != (feature.lower, feature.upper):
        bounds = outward(feature.lower, feature.upper)
        ends = ("lower", 0, feature.lower == lower), ("upper", feature.cells - 1, feature.upper == upper)
        part = (feature.upper - feature.lower) / (upper - lower)
        piled = next((bound for bound, cell, meets in ends if meets and _is_piled(counts, cell, part)), None)
        yield CrowdedRange(feature.name, int(look["cells"]), feature.cells, (lower, upper), *bounds, piled)


def _is_piled(counts: Counts | None, cell: int, part: float) -> bool:
    """Whether one group of few cells, with the outermost one of the narrowed range, holds the most of noisy rows.

    Where all cells are one group, its rows are taken for a pile if a small part of the declared range is left of it.
    """
    if counts is None or len(counts.groups) == 1:
        return part <= _SMALL_PART
    rows = counts.noisy_counts.clip(min=0).sum(axis=1)
    group = next(place for place, cells in enumerate(counts.groups) if cell in cells)
    return len(counts.groups[group]) <= FEW_CELLS and bool(rows[group] >= _PILED * rows.sum() > 0)


def _range_of_counts(feature: Numeric, counts: Counts) -> Iterator[CrowdedRange]:
    """Yield a range of which one group of few cells holds nearly all noisy rows."""
    rows = counts.noisy_counts.clip(min=0).sum(axis=1)
    fullest = int(rows.argmax())
    cells = counts.groups[fullest]
    if rows[fullest] < _NEARLY_ALL * rows.sum() or not rows.sum() or len(cells) > FEW_CELLS:
        return
    edges = (feature.lower, *feature.edges, feature.upper)
    bounds = outward(edges[min(cells)], edges[max(cells) + 1])
    piled = "lower" if cells == (0,) else "upper" if cells == (feature.cells - 1,) else None
    yield CrowdedRange(feature.name, len(cells), feature.cells, (feature.lower, feature.upper), *bounds, piled)


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
