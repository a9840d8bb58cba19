"""Narrows declared ranges that are mostly empty, from one noisy histogram of each number without classes."""

from __future__ import annotations

import math
from dataclasses import replace

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


def zoom_in(session: Session, rows: float) -> bool:
    """Ask for the histograms of step "zoom" and narrow the session's schema where they say so; return whether they did.

    `rows` is about how many rows the step looks at.
    """
    schema, grid = session.schema, axes(session.schema)
    numeric = numbers(schema)
    places = [place for place, axis in enumerate(grid) if axis.feature in numeric]
    noisy_cells = session.histograms("zoom", Forest(grid, 1, ()), places, by_class=False)[0, :, :, 0]
    deviation = session.deviation("zoom")
    bounds = {}
    for place, cells in zip(places, noisy_cells, strict=True):
        feature = schema.features[grid[place].feature]
        if not isinstance(feature, Numeric) or feature.cells != CELLS:
            continue
        noisy_bins = cells.reshape(BINS, 2).sum(axis=1).astype(np.float64)
        occupied = occupied_bins(noisy_bins, deviation * math.sqrt(2), rows)
        if occupied is not None:
            width = (feature.upper - feature.lower) / BINS
            narrower = (feature.lower + occupied[0] * width, min(feature.lower + occupied[1] * width, feature.upper))
            if holds_cells(feature, *narrower):
                bounds[feature.name] = narrower
    if bounds:
        session.narrow(bounds)
    return bool(bounds)


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
