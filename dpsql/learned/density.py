"""Tells from a forest's own noisy leaves how rows spread over each feature, for models that released nothing else.

Leaves that hold noisy counts say how many rows are in every branch. Where a path splits an axis for the first time, the
rows of each branch, spread evenly over the branch's cells, are an estimate of how the axis is distributed; the sum over
all such nodes is the average of these estimates, weighted by rows. Noise has no bias, so it cancels out in these sums.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsql.schema import CELLS, Schema
from dpsql.trees.forest import PASS, Forest, Ints, Level
from dpsql.trees.grid import BITS
from dpsql.trees.voting import VotingForest

Reals = NDArray[np.float64]
#: Levels are looked at while nodes × axes stays within this.
_LIMIT = 2**24
_CHUNK = 2**13


def loudness(schema: Schema, released: VotingForest) -> Reals | None:
    """Return how many rows each leaf seems to hold, up to a factor; None where leaves do not tell.

    Noisy counts tell: some are below zero, as no vote, share or probability is. So do the leaves of a numeric target,
    whose votes weigh more the more rows they rest on. Scores in nats do not.
    """
    if getattr(released, "nat", 0) or (schema.target is None and int(released.weights.min(initial=0)) >= 0):
        return None
    return released.weights.sum(axis=1).astype(np.float64)


def axis_masses(forest: Forest, leaf_rows: Reals) -> Reals:
    """Return how rows spread over the cells of each axis (axes × 64), up to a factor; zeros for an axis never read."""
    found = np.zeros((len(forest.axes), CELLS))
    used = np.zeros((forest.trees, len(forest.axes)), bool)
    rows = _by_level(forest, leaf_rows)
    for level, below in zip(forest.levels, rows[1:], strict=True):
        split = np.flatnonzero(level.axis != PASS)
        fresh = split[~used[split, level.axis[split]]]
        for first in range(0, len(fresh), _CHUNK):
            _add(found, forest, level, fresh[first : first + _CHUNK], below)
        used[split, level.axis[split]] = True
        if level.width * len(forest.axes) > _LIMIT:
            break
        used = np.repeat(used, level.arity, axis=0)
    return np.maximum(found, 0.0)


def feature_mass(forest: Forest, masses: Reals, position: int, cells: int) -> Reals:
    """Return how rows spread over the cells of a feature; digits of a wide category are taken as independent."""
    found = np.ones(cells)
    for axis, mass in zip(forest.axes, masses, strict=True):
        if axis.feature == position and mass.any():
            found *= mass[np.arange(cells) >> (BITS * axis.digit) & (CELLS - 1)]
    return found


def _add(found: Reals, forest: Forest, level: Level, nodes: Ints, rows: Reals) -> None:
    """Add the rows of these nodes' branches to the cells of the axes that they split."""
    axis = level.axis[nodes]
    wide = np.array([one.values for one in forest.axes])[axis]  # NULL and unknown only go along
    child = level.child[nodes][:, None] + level.slots(nodes[:, None], np.arange(CELLS))
    inside = np.arange(CELLS) < wide[:, None]
    size = np.bincount(child[inside], minlength=len(rows))
    spread = np.where(inside, rows[child] / np.maximum(size[child], 1), 0.0)
    np.add.at(found, axis, spread)


def _by_level(forest: Forest, of_leaves: Reals) -> list[Reals]:
    """Return the rows of each node, one array per level, roots first, leaves last."""
    found = [of_leaves]
    for level in reversed(forest.levels):
        found.append(np.add.reduceat(found[-1], level.child))
    return found[::-1]
