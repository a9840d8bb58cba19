"""Utilities that `choose` may maximise: a fixed list, each with a proof of how far one row can move it.

Adding one row to a leaf moves the utility of each of its candidate splits by an amount within an interval; the
interval's width is what the exponential mechanism pays for. With rate e/width, a candidate's weight exp(rate · u)
changes by a factor within one interval of ratio exp(e), and so does the sum of all weights: the chance of
any choice changes by a factor of at most exp(e). (McSherry & Talwar 2007, with the interval [−s, s] of width 2s for
sensitivity s; monotone utilities have [0, s].) A row is in one child of each split, so the other children's terms stay.

median     −|rows left − rows right| for a split in two. Adding a row changes the difference by 1, its absolute value by
           at most 1: within [−1, 1], width 2. (The rank utility of Huang et al. 2022 is half of this, with sensitivity
           1/2: the same mechanism.) Of more children: minus the difference of the largest child and the rest.
majority   rows that a majority vote in the children gets right: Σ over children of the largest class count. A
           row adds 0 or 1: width 1. (The "max operator" of Friedman & Schuster 2010.)
gini       Σ over children of Σ_c n_c² / n, in units of 1/GRAIN, rounded down in each child. It is the rows minus the
           Gini impurity of Friedman & Schuster, who give sensitivity 2. Here a row of class a changes the child's term
           (S = Σ n_c²) by (n(2n_a + 1) − S) / (n(n + 1)). S ≥ n_a² makes this at most 1: with n_a = αn it is at
           most (n(2α − α²) + 1)/(n + 1). S ≤ n² makes it more than −1. Rounding down keeps an integer move within
           [−GRAIN, GRAIN]: width 2 GRAIN. Each n_c is first cut off as for `entropy`, so that squares fit into 64 bits.
entropy    minus Σ over children of n log₂ n − Σ_c n_c log₂ n_c, in units of 1/GRAIN, each term rounded; information
           gain without its constant. Each n_c is first cut off at a public B/C, so that n ≤ B ≤ 2^31. With
           f(x) = (x+1)log₂(x+1) − x log₂ x, which grows with x and is at most log₂(x+1) + 1/ln 2, a row moves it by
           f(n_a) − f(n), within [−f(B), 0]; a row cut off moves nothing. Four terms are rounded, each by at most 1/2
           (and 0.02 for the arithmetic of doubles: numbers stay below 2^46), which widens the interval by less than
           5: width ⌈GRAIN · f(B)⌉ + 5.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import UnknownName
from dpsql.trees.grow.splits import Splits

Counts = NDArray[np.int64]
UTILITIES = ("median", "majority", "gini", "entropy")
#: Utilities that do not ask for classes.
CLASSLESS = frozenset(("median",))
#: Units of one row in utilities that are not whole numbers.
UTILITY_UNITS = 2**10
IN_UTILITY_UNITS = frozenset(("gini", "entropy"))
#: How many rows of a node `entropy` sees at most, unless a plan says less.
MOST = 2**31


def width(name: str, most: int = MOST) -> int:
    """Return the width of the interval within which one row moves a utility.

    >>> [width(name) for name in UTILITIES]
    [2, 1, 2048, 33227]
    """
    if name not in UTILITIES:
        raise UnknownName("utility", name, UTILITIES)
    if name == "entropy":
        return math.ceil(UTILITY_UNITS * (math.log2(min(most, MOST) + 1) + 1 / math.log(2))) + 5
    return {"median": 2, "majority": 1, "gini": 2 * UTILITY_UNITS}[name]


def utilities(name: str, counts: Counts, splits: Splits, axis: int, *, most: int = MOST) -> Counts:
    """Return the utility of each split of an axis at each node, from exact counts of (node, cell, class)."""
    if name not in UTILITIES:
        raise UnknownName("utility", name, UTILITIES)
    children = _children(counts, splits.slots(axis))
    if name == "median":
        rows = children.sum(axis=3)
        return np.asarray(-np.abs(2 * rows.max(axis=2) - rows.sum(axis=2)))
    if name == "majority":
        return np.asarray(children.max(axis=3).sum(axis=2))
    seen = np.minimum(children, min(most, MOST) // counts.shape[2])
    return _gini(seen) if name == "gini" else _entropy(seen)


def _children(counts: Counts, slots: NDArray[np.uint8]) -> Counts:
    """Return the counts of (node, split, child, class): each child adds up its cells."""
    arity = int(slots.max(initial=1)) + 1
    member = (slots[:, None, :] == np.arange(arity)[None, :, None]).astype(np.float64)
    cells = counts.transpose(1, 0, 2).reshape(counts.shape[1], -1).astype(np.float64)
    # Doubles are exact: no table has 2^53 rows.
    sums = member.reshape(-1, member.shape[2]) @ cells
    found = sums.reshape(len(slots), arity, len(counts), counts.shape[2]).transpose(2, 0, 1, 3)
    return found.astype(np.int64)


def _gini(children: Counts) -> Counts:
    rows = np.maximum(children.sum(axis=3), 1)
    # Divided in two steps: GRAIN times a square would not fit into 64 bits.
    whole, rest = np.divmod((children * children).sum(axis=3), rows)
    return np.asarray((UTILITY_UNITS * whole + UTILITY_UNITS * rest // rows).sum(axis=2))


def _entropy(children: Counts) -> Counts:
    return np.asarray((_n_log_n(children).sum(axis=3) - _n_log_n(children.sum(axis=3))).sum(axis=2))


def _n_log_n(counts: Counts) -> Counts:
    numbers = counts.astype(np.float64)
    return np.asarray(np.rint(UTILITY_UNITS * numbers * np.log2(np.maximum(numbers, 1))).astype(np.int64))
