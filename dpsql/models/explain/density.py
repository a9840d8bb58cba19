"""Estimates from a forest's own noisy leaves how rows spread over each feature, for models that released nothing else.

Leaves that hold noisy counts say how many rows are in every branch. Where a path splits an axis for the first time, its
branches divide all cells of the axis among themselves, and the rows of a branch are those of its cells. Different nodes
divide the cells differently. A distribution that fits all of them is found by expectation and maximisation (Dempster,
Laird & Rubin 1977): begin with equal cells; spread the rows of each branch over its cells in proportion to the present
estimate; add up; repeat. Noise has no bias, so most of it cancels in these sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.schema import CELLS, Schema
from dpsql.trees.forest import PASS, Forest, Ints
from dpsql.trees.grid import BITS
from dpsql.trees.voting import VotingForest

Reals = NDArray[np.float64]
#: Levels are read while nodes × axes stays within this: bounds memory.
_LIMIT = 2**22
#: Levels are read until more nodes than this were used: further ones add little.
_NODES = 2**15
#: Nodes that are worked on at once: bounds memory.
_CHUNK = 2**13
#: Rounds of expectation and maximisation; later ones change little.
_ROUNDS = 8
#: With fewer trees than this, noise hides how rows spread over a feature.
_LEAST_TREES = 3
#: Stands in for 0 where a number is divided by.
_TINY = 1e-300


def rows_of_leaves(schema: Schema, released: VotingForest) -> Reals | None:
    """Return the estimated rows of each leaf, up to a common factor; None where the leaves do not show them.

    Leaves with noisy counts show them; they are known by a count below 0, which no vote, share or probability is. So do
    the leaves of a numeric target, which cast more votes the more rows they have. Log-scores do not, and neither do
    fewer than _LEAST_TREES trees.
    """
    counts = schema.target is not None or int(released.weights.min(initial=0)) < 0
    if released.nat or not counts or released.forest.trees < _LEAST_TREES:
        return None
    return released.weights.sum(axis=1).astype(np.float64)


def axis_masses(forest: Forest, leaf_rows: Reals) -> Reals:
    """Return the share of rows in each cell of each axis (axes × 64, each axis sums to 1); 0 for an axis never read."""
    branches = list(_branches(forest, leaf_rows))
    wide = np.array([axis.values for axis in forest.axes])
    masses = (np.arange(CELLS) < wide[:, None]) / wide[:, None]  # cells of declared values alone
    for _ in range(_ROUNDS):
        spread = np.zeros_like(masses)
        for branch in branches:
            _spread_rows(spread, masses, branch)
        total = np.maximum(spread, 0.0).sum(axis=1, keepdims=True)
        masses = np.where(total > 0, np.maximum(spread, 0.0) / np.where(total > 0, total, 1.0), 0.0)
    return masses


def feature_mass(forest: Forest, masses: Reals, position: int, cells: int) -> Reals:
    """Return the share of rows in each cell of a feature; the digits of a wide category are taken as independent."""
    mass_of_cells = np.ones(cells)
    for axis, mass in zip(forest.axes, masses, strict=True):
        if axis.feature == position and mass.any():
            mass_of_cells *= mass[np.arange(cells) >> (BITS * axis.digit) & (CELLS - 1)]
    return mass_of_cells


@dataclass(frozen=True, eq=False)
class _Branches:
    """Nodes that split an axis for the first time on their path: their axis, each cell's branch, each branch's rows."""

    axis: NDArray[np.int16]
    branch: Ints
    rows: Reals


def _branches(forest: Forest, leaf_rows: Reals) -> Iterator[_Branches]:
    """Yield, level by level, the nodes that split an axis for the first time on their path."""
    used = np.zeros((forest.trees, len(forest.axes)), bool)
    rows, nodes_used = _by_level(forest, leaf_rows), 0
    for level, below in zip(forest.levels, rows[1:], strict=True):
        split = np.flatnonzero(level.axis != PASS)
        fresh = split[~used[split, level.axis[split]]]
        for first in range(0, len(fresh), _CHUNK):
            nodes = fresh[first : first + _CHUNK]
            child = level.child[nodes][:, None] + level.slots(nodes[:, None], np.arange(CELLS))
            yield _Branches(level.axis[nodes], child - child.min(), below[child.min() : child.max() + 1])
        used[split, level.axis[split]] = True
        nodes_used += len(fresh)
        if level.width * len(forest.axes) > _LIMIT or nodes_used > _NODES:
            return
        used = np.repeat(used, level.arity, axis=0)


def _spread_rows(spread: Reals, masses: Reals, branches: _Branches) -> None:
    """Add the rows of branches to `spread`, over their cells in proportion to the present estimate `masses`."""
    share = masses[branches.axis]
    branch_mass = np.bincount(branches.branch.ravel(), weights=share.ravel(), minlength=len(branches.rows))
    within = share / np.maximum(branch_mass, _TINY)[branches.branch]
    np.add.at(spread, branches.axis, branches.rows[branches.branch] * within)


def _by_level(forest: Forest, of_leaves: Reals) -> list[Reals]:
    """Return the rows of each node, one array per level, roots first, leaves last."""
    sums = [of_leaves]
    for level in reversed(forest.levels):
        sums.append(np.add.reduceat(sums[-1], level.child))
    return sums[::-1]
