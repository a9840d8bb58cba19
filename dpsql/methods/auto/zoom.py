"""Narrows declared ranges that are mostly empty, from noisy histograms of each number without classes.

One look suffices where a range is up to about ten times too wide. Where it is far wider, nearly all rows of a number
lie in one or two of its 64 cells. Then the range is cut down to these and a quarter of a cell on either side, and is
looked at again, 25 times as close. Rows outside are clamped into the outermost cells, never left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import SchemaError
from dpsql.kernel.session import Session
from dpsql.methods.auto.epsilon_shares import numbers
from dpsql.schema import CELLS, Numeric
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes

#: Two neighbouring cells are one bin: its noise is lower relative to its rows, and the range is known well enough.
BINS = CELLS // 2
#: Of the rows that stand out of the noise, this share may lie outside on either side; they are clamped.
TAIL = 0.01
#: A range is narrowed only where the narrower range is less than this share of it.
NARROWER = 0.6
#: Bins count where they stand out of the noise by this many standard deviations.
STANDS = 3.0
#: Nearly all rows: this share of them lies in two neighbouring cells.
NEARLY_ALL = 0.97
#: In so many neighbouring cells; a number whose rows lie there is looked at again.
CROWDED = 2
#: How much of a cell is left on either side of two crowded ones: rows beyond are clamped, and stay apart from theirs.
_MARGIN = 0.25
#: Two cells may fall short of that by this many standard deviations of their sum: it may be noise.
_SHORT = 1.5


@dataclass(frozen=True)
class Narrowed:
    """The range that a number was narrowed to, and in how many cells of the declared range nearly all rows lie."""

    lower: float
    upper: float
    cells: int


def zoom_in(session: Session, rows: float, steps: Sequence[str] = ("zoom",)) -> dict[str, Narrowed]:
    """Ask for the histograms of the steps and narrow the session's schema where they say so; return what they did.

    `rows` is about how many rows the table has. A step after the first is asked only where an earlier one found nearly
    all rows of a number in two neighbouring cells, until another rule has settled that number's range.
    """
    narrowed: dict[str, Narrowed] = {}
    waiting = {session.schema.features[place].name for place in numbers(session.schema)}
    for step in steps:
        ranges = _look(session, step, waiting, rows / session.step(step).parts)
        if ranges:
            session.narrow({name: (part.lower, part.upper) for name, part in ranges.items()})
        for name, part in ranges.items():
            narrowed[name] = replace(part, cells=narrowed[name].cells if name in narrowed else part.cells)
        settled = {name for name, part in ranges.items() if part.cells > CROWDED}
        waiting = {name for name in waiting - settled if name in narrowed}
        if not waiting:
            break
    return narrowed


def _look(session: Session, step: str, waiting: set[str], rows: float) -> dict[str, Narrowed]:
    """Ask for the histograms of one step; return the narrower ranges of those numbers that wait for one."""
    schema, grid = session.schema, axes(session.schema)
    places = [place for place, axis in enumerate(grid) if axis.feature in numbers(schema)]
    noisy_cells = session.histograms(step, Forest(grid, 1, ()), places, by_class=False)[0, :, :, 0].astype(np.float64)
    deviation = session.deviation(step)
    rows = max(rows, _least_rows(noisy_cells, deviation))
    ranges = {}
    for place, cells in zip(places, noisy_cells, strict=True):
        feature = schema.features[grid[place].feature]
        if not isinstance(feature, Numeric) or feature.cells != CELLS or feature.name not in waiting:
            continue
        narrower = narrower_range(feature, cells, deviation, rows)
        if narrower is not None and holds_cells(feature, narrower.lower, narrower.upper):
            ranges[feature.name] = narrower
    return ranges


def _least_rows(noisy_cells: NDArray[np.float64], deviation: float) -> float:
    """Return how many rows there are at least: the cells of each axis add up to all of them."""
    spread = deviation * math.sqrt(CELLS / len(noisy_cells))
    return float(noisy_cells.sum(axis=1).mean()) - 2 * spread


def narrower_range(
    feature: Numeric, noisy_cells: NDArray[np.float64], deviation: float, rows: float
) -> Narrowed | None:
    """Return the part of a declared range that holds nearly all rows; None where the range stays as it is."""
    width = (feature.upper - feature.lower) / CELLS
    pair = crowded_pair(noisy_cells, deviation, rows)
    if pair is not None:
        first, last = pair - _MARGIN, pair + CROWDED + _MARGIN
        return _cut(feature, feature.lower + first * width, feature.lower + last * width, cells=CROWDED)
    noisy_bins = noisy_cells.reshape(BINS, 2).sum(axis=1)
    occupied = occupied_bins(noisy_bins, deviation * math.sqrt(2), rows)
    if occupied is None:
        return None
    low, high = 2 * occupied[0], 2 * occupied[1]
    return _cut(feature, feature.lower + low * width, feature.lower + high * width, cells=high - low)


def _cut(feature: Numeric, lower: float, upper: float, *, cells: int) -> Narrowed:
    return Narrowed(max(lower, feature.lower), min(upper, feature.upper), cells)


def holds_cells(feature: Numeric, lower: float, upper: float) -> bool:
    """Return whether narrower bounds leave room for all cells: floats may lie too far apart.

    >>> far = Numeric("x", 1e15, 1e15 + 100)
    >>> holds_cells(far, 1e15, 1e15 + 50), holds_cells(far, 1e15, 1e15 + 3)
    (True, False)
    """
    try:
        replace(feature, lower=lower, upper=upper)
    except SchemaError:
        return False
    return True


def crowded_pair(noisy_rows: NDArray[np.float64], deviation: float, rows: float) -> int | None:
    """Return the first of two neighbouring cells that hold nearly all rows; None where no two cells do.

    >>> crowded_pair(np.array([0.0] * 10 + [500, 690] + [2.0] * 52), 1.0, 1200)
    10
    >>> crowded_pair(np.array([0.0] * 10 + [500, 600, 100] + [0.0] * 51), 1.0, 1200)
    """
    pairs = noisy_rows[:-1] + noisy_rows[1:]
    fullest = int(pairs.argmax())
    unsure = deviation * math.sqrt(2)
    if 4 * unsure > rows or pairs[fullest] < NEARLY_ALL * rows - _SHORT * unsure:
        return None
    return fullest


def occupied_bins(noisy_rows: NDArray[np.float64], deviation: float, rows: float) -> tuple[int, int] | None:
    """Return the first bin of the narrower range and the bin after its last; None where the range stays as it is.

    >>> occupied_bins(np.array([0.0] * 10 + [500, 400, 300] + [0.0] * 19), 1.0, 1200)
    (9, 14)
    >>> occupied_bins(np.full(32, 40.0), 1.0, 1280)
    """
    if 24 * deviation > rows:
        return None
    standing = np.where(noisy_rows > STANDS * deviation, noisy_rows, 0)
    sums = np.cumsum(standing)
    if sums[-1] < 0.8 * rows:
        return None
    first = int(np.searchsorted(sums, TAIL * sums[-1], side="right"))
    last = int(np.searchsorted(sums, (1 - TAIL) * sums[-1], side="left"))
    low, high = max(first - 1, 0), min(last + 2, len(noisy_rows))
    return (low, high) if high - low < NARROWER * len(noisy_rows) else None
