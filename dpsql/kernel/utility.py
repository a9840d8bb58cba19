"""Utilities that `choose` may maximise: a fixed list, each with a proof of how far one row can move it.

Adding one row to a leaf moves the utility u of each of its candidate splits by an amount within an interval. The width
of that interval is what the exponential mechanism pays for: with rate e/width, the weight exp(rate · u) of each
candidate changes by a factor within an interval whose ends have the ratio exp(e), and so does the sum of all weights.
So the probability of any choice changes by a factor of at most exp(e). (McSherry & Talwar 2007, with the interval
[−s, s] of width 2s for sensitivity s; monotone utilities have the interval [0, s].) A row is in one child of each
split, so the terms of the other children do not change.

In what follows, n is the number of rows in a child, n_c the number of them with class c, C the number of classes, and
U = `UTILITY_UNITS`.

median     −|rows left − rows right| for a split in two. Adding a row changes the difference by 1, and its absolute
           value by at most 1: the change is within [−1, 1], of width 2. (The rank utility of Huang et al. 2022 is half
           of this, with sensitivity 1/2, which gives the same mechanism.) For a split into more children, the utility
           is −|rows of the largest child − rows of all others|.
majority   The rows that a majority vote in the children gets right: Σ over children of the largest n_c. A row adds 0
           or 1: the width is 1. (This is the "max operator" of Friedman & Schuster 2010.)
gini       Σ over children of Σ_c n_c² / n, in units of 1/U, rounded down in each child. It is the number of rows minus
           the Gini impurity of Friedman & Schuster, who give sensitivity 2. Here, with S = Σ_c n_c², a row of class a
           changes the term of its child by (n(2n_a + 1) − S) / (n(n + 1)). Because S ≥ n_a², this is at most 1: with
           n_a = αn it is at most (n(2α − α²) + 1)/(n + 1). Because S ≤ n², it is more than −1. Rounding down keeps the
           change, now a whole number, within [−U, U]: the width is 2U. Each n_c is first cut off as for `entropy`, so
           that squares fit into 64 bits.
entropy    −Σ over children of (n log₂ n − Σ_c n_c log₂ n_c), in units of 1/U, each term rounded: the information gain
           without its constant. Each n_c is first cut off at B/C, where B is public, so that n ≤ B ≤ 2^31. Let
           f(x) = (x+1)log₂(x+1) − x log₂ x, which grows with x and is at most log₂(x+1) + 1/ln 2. A row of class a
           changes the utility by f(n_a) − f(n), which is within [−f(B), 0]; a row that is cut off changes nothing. Four
           terms are rounded, each by at most 1/2 (and 0.02 for the arithmetic of doubles: numbers stay below 2^46),
           which widens the interval by less than 5: the width is ⌈U · f(B)⌉ + 5, with the bound on f above for f(B).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import UnknownName
from dpsql.trees.grow.splits import Splits

Counts = NDArray[np.int64]
#: The names of all utilities.
UTILITIES = ("median", "majority", "gini", "entropy")
#: Utilities that do not ask for classes.
CLASSLESS = frozenset(("median",))
#: U: how many units make one row, in utilities that are not whole numbers of rows and are rounded.
UTILITY_UNITS = 2**10
#: The utilities that are counted in these units.
IN_UTILITY_UNITS = frozenset(("gini", "entropy"))
#: B: how many rows of a node `gini` and `entropy` see at most, unless a plan says less.
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
    cut_off = np.minimum(children, min(most, MOST) // counts.shape[2])
    return _gini(cut_off) if name == "gini" else _entropy(cut_off)


def _children(counts: Counts, slots: NDArray[np.uint8]) -> Counts:
    """Return the counts of (node, split, child, class). The count of a child is the sum over its cells."""
    arity = int(slots.max(initial=1)) + 1
    member = (slots[:, None, :] == np.arange(arity)[None, :, None]).astype(np.float64)
    cells = counts.transpose(1, 0, 2).reshape(counts.shape[1], -1).astype(np.float64)
    # Doubles are exact: no table has 2^53 rows.
    sums = member.reshape(-1, member.shape[2]) @ cells
    children = sums.reshape(len(slots), arity, len(counts), counts.shape[2]).transpose(2, 0, 1, 3)
    return children.astype(np.int64)


def _gini(children: Counts) -> Counts:
    """Return ⌊U · Σ_c n_c² / n⌋, added up over the children."""
    rows = np.maximum(children.sum(axis=3), 1)
    # The division is done in two steps, because U times a square would not fit into 64 bits.
    quotient, rest = np.divmod((children * children).sum(axis=3), rows)
    return np.asarray((UTILITY_UNITS * quotient + UTILITY_UNITS * rest // rows).sum(axis=2))


def _entropy(children: Counts) -> Counts:
    """Return −(n log₂ n − Σ_c n_c log₂ n_c) in units of 1/U, added up over the children."""
    return np.asarray((_n_log_n(children).sum(axis=3) - _n_log_n(children.sum(axis=3))).sum(axis=2))


def _n_log_n(counts: Counts) -> Counts:
    """Return U · n log₂ n for each count n, rounded to a whole number; 0 for n = 0."""
    numbers = counts.astype(np.float64)
    return np.asarray(np.rint(UTILITY_UNITS * numbers * np.log2(np.maximum(numbers, 1))).astype(np.int64))
