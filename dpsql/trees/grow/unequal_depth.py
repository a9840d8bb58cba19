"""Grows random trees of unequal depth without data: Fletcher & Islam 2015, section 4.3, all trees of a level at once.

A node carries an estimate of its rows: those of its parent, divided evenly among the branches. It is split by an axis
that its path has not used, drawn uniformly from those whose branches would still have `threshold` rows or more; where
there is none it is a leaf. Roots are split by distinct axes as long as there are enough, whatever the estimate. A
category has one branch for each value, or for each of `branches` random groups of values; a number has `bins` branches
of equal width. Cells that stand for no declared value (NULL, unknown) go with one of the branches, drawn at the node.

The structure depends on the schema, the parameters, the estimate and the seed; never on rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.schema import CELLS
from dpsql.trees.forest import PASS, Forest, Level, bits
from dpsql.trees.grid import Axis
from dpsql.trees.grow.random_trees import MOST_COUNTS

#: Nodes that are worked on at once: bounds memory, and is part of what a seed means.
_CHUNK = 2**15
Sizes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _UnequalFrontier:
    """The nodes of a level: the axes that each path has not used (nodes × axes), and the estimated rows of each."""

    unused: NDArray[np.bool_]
    rows: NDArray[np.float64]


def domain_sizes(axes: tuple[Axis, ...], bins: int, branches: int) -> Sizes:
    """Return how many branches a split by each axis has; 1 where an axis has a single cell and cannot be split.

    >>> number, color = Axis(0, 0, 64, 64, ordered=True), Axis(1, 0, 4, 3, ordered=False)
    >>> domain_sizes((number, color), bins=5, branches=64).tolist()
    [5, 3]
    """
    most = [bins if axis.ordered else branches for axis in axes]
    return np.array([min(axis.cells, max(2, min(m, axis.values))) for axis, m in zip(axes, most, strict=True)])


def unequal_forest(
    axes: tuple[Axis, ...],
    *,
    trees: int,
    seed: int,
    rows: float = math.inf,
    threshold: float = 0.0,
    depth: int | None = None,
    bins: int = 5,
    branches: int = CELLS,
    classes: int = 2,
    limit: int = MOST_COUNTS,
) -> Forest:
    """Return random trees whose paths end where fewer than `threshold` of `rows` rows are expected.

    No path is longer than `depth`; levels are grown only while leaves × classes stays within `limit`.

    >>> colors = tuple(Axis(number, 0, 4, 3, ordered=False) for number in range(4))
    >>> forest = unequal_forest(colors, trees=2, seed=1, rows=100, threshold=10)
    >>> forest.depth, forest.leaves
    (2, 18)
    """
    generator = np.random.default_rng(seed)
    sizes = domain_sizes(axes, bins, branches)
    frontier = _UnequalFrontier(np.tile(sizes > 1, (trees, 1)), np.full(trees, float(rows)))
    node_axis = _roots(sizes, trees, generator)
    levels: list[Level] = []
    while len(levels) < (len(axes) if depth is None else depth) and (node_axis != PASS).any():
        level = _level(axes, node_axis, sizes, generator)
        if level.width * classes > limit:
            break
        levels.append(level)
        frontier = _descend(frontier, level)
        node_axis = _choose(frontier, sizes, threshold, generator)
    return Forest(axes, trees, tuple(levels))


def _roots(sizes: Sizes, trees: int, generator: np.random.Generator) -> NDArray[np.int16]:
    """Deal the axes out to the roots in random order, again from the start when they run out."""
    order = generator.permutation(np.flatnonzero(sizes > 1))
    return np.resize(order if len(order) else np.array([PASS]), trees).astype(np.int16)


def _choose(
    frontier: _UnequalFrontier, sizes: Sizes, threshold: float, generator: np.random.Generator
) -> NDArray[np.int16]:
    """Draw each node's axis from those that are unused and leave enough rows in a branch; PASS where there is none."""
    node_axis = np.full(len(frontier.rows), PASS, np.int16)
    for start in range(0, len(node_axis), _CHUNK):
        part = slice(start, start + _CHUNK)
        allowed = frontier.unused[part] & (frontier.rows[part, None] >= threshold * sizes)
        drawn = np.argmax(np.where(allowed, generator.random(allowed.shape), -1.0), axis=1)
        node_axis[part] = np.where(allowed.any(axis=1), drawn, PASS)
    return node_axis


def _level(axes: tuple[Axis, ...], node_axis: NDArray[np.int16], sizes: Sizes, generator: np.random.Generator) -> Level:
    """Return the level in which each node is split by its axis."""
    arity = np.where(node_axis == PASS, 1, sizes[node_axis]).astype(np.uint8)
    planes = np.zeros((max(1, int(arity.max() - 1).bit_length()), len(node_axis)), np.uint64)
    for position in np.unique(node_axis[node_axis != PASS]):
        nodes = np.flatnonzero(node_axis == position)
        for start in range(0, len(nodes), _CHUNK):
            part = nodes[start : start + _CHUNK]
            branch = _branches(axes[position], int(sizes[position]), len(part), generator)
            for plane in range(len(planes)):
                planes[plane, part] = bits((branch >> plane & 1).astype(bool))
    return Level(node_axis, arity, planes)


def _branches(axis: Axis, size: int, count: int, generator: np.random.Generator) -> NDArray[np.uint8]:
    """Return the branch of each of the 64 cells, for `count` splits by one axis."""
    if axis.ordered:
        bins = np.minimum(np.arange(CELLS) * size // axis.cells, size - 1)
        return np.broadcast_to(bins.astype(np.uint8), (count, CELLS))
    dealt = np.tile((np.arange(axis.values) % size).astype(np.uint8), (count, 1))
    if axis.values > size:
        dealt = generator.permuted(dealt, axis=1)
    others = generator.integers(0, size, (count, 1)) if axis.values > 1 else np.ones((count, 1), np.int64)
    return np.concatenate([dealt, np.repeat(others, CELLS - axis.values, axis=1).astype(np.uint8)], axis=1)


def _descend(frontier: _UnequalFrontier, level: Level) -> _UnequalFrontier:
    """Return the nodes of the next level: the axis is used up, the rows are divided evenly."""
    unused = frontier.unused.copy()
    split = np.flatnonzero(level.axis != PASS)
    unused[split, level.axis[split]] = False
    unused[level.axis == PASS] = False
    return _UnequalFrontier(np.repeat(unused, level.arity, axis=0), np.repeat(frontier.rows / level.arity, level.arity))
