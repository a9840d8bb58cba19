"""Utilities that `choose` may maximise: a fixed list, each with its row sensitivity proved.

median     −|rows left − rows right|. A row is on one side, so adding it changes the difference by exactly 1, and its
           absolute value by at most 1. Not monotone: it may rise or fall. (The rank utility of Huang et al. 2022
           is half of this, with sensitivity 1/2: the same mechanism.)
majority   rows that a majority vote in the two children gets right: Σ over children of the largest class
           count. A row adds 0 or 1, for every candidate: sensitivity 1, monotone. (The "max operator" of
           Friedman & Schuster 2010.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import UnknownName
from dpsql.kernel.candidates import Candidates
from dpsql.schema import CELLS

MONOTONE = {"median": False, "majority": True}


def utilities(name: str, counts: NDArray[np.int64], candidates: Candidates) -> NDArray[np.int64]:
    """Return the utility of each candidate of each leaf, from exact counts of (leaf, axis, cell, class)."""
    if name not in MONOTONE:
        raise UnknownName("utility", name, MONOTONE)
    places = np.searchsorted(candidates.used_axes, candidates.axis)
    leaves = np.arange(len(counts))
    scores = np.empty(candidates.axis.shape, np.int64)
    for column in range(candidates.axis.shape[1]):
        cells = counts[leaves, places[:, column]]
        right = (candidates.right[:, column, None] >> np.arange(CELLS, dtype=np.uint64) & np.uint64(1)).astype(np.int64)
        on_right = np.einsum("lcy,lc->ly", cells, right)
        on_left = cells.sum(axis=1) - on_right
        scores[:, column] = _median(on_left, on_right) if name == "median" else _majority(on_left, on_right)
    return scores


def _median(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    return -np.abs(left.sum(axis=1) - right.sum(axis=1))


def _majority(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    return left.max(axis=1) + right.max(axis=1)
