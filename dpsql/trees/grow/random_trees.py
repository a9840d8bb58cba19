"""Grows random trees without data: Fletcher & Islam 2017, Algorithm 2, all trees of a level at once.

At each node a feature is drawn uniformly from those that can still be split on the path. A continuous feature is split
at a random edge between the path's remaining cells and may be split again below. A discrete one is used once per path;
it has one branch for each value or, when it has more values than `branches`, for each of `branches` random groups of
values. Cells that stand for no declared value (NULL, unknown) go with one of the branches, drawn at the node.

The grid of leaves is bounded by a public rule: a level is grown only while trees × leaves × classes stays within
`limit`. The structure depends on the schema, the parameters and the seed; never on rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.schema import CELLS
from dpsql.trees.forest import PASS, Forest, Level, bits
from dpsql.trees.grid import Axis

#: The most counts (leaves of all trees × classes) of a release, unless the caller sets another limit.
MOST_COUNTS = 2**22
#: The most branches of one split: categories with more values are split by random groups of values.
MOST_BRANCHES = 8
#: Nodes for which axes are drawn at once: bounds memory, and is part of what a seed means.
_CHUNK = 2**15


@dataclass(frozen=True, eq=False)
class _RandomFrontier:
    """The open nodes of a level: the first and last cell of each axis that a path still allows (nodes × axes)."""

    low: NDArray[np.uint8]
    high: NDArray[np.uint8]


def random_forest(
    axes: tuple[Axis, ...],
    *,
    trees: int,
    depth: int,
    seed: int,
    classes: int = 2,
    branches: int = MOST_BRANCHES,
    limit: int = MOST_COUNTS,
) -> Forest:
    """Return a forest of random trees, each of `depth` levels or of as many as the limit allows.

    >>> forest = random_forest((Axis(0, 0, 64, 64, ordered=True),), trees=3, depth=2, seed=1)
    >>> forest.trees, forest.depth, forest.leaves
    (3, 2, 12)
    """
    generator = np.random.default_rng(seed)
    last = np.array([axis.cells - 1 for axis in axes], np.uint8)
    frontier = _RandomFrontier(np.zeros((trees, len(axes)), np.uint8), np.tile(last, (trees, 1)))
    levels: list[Level] = []
    for _ in range(depth):
        level = _grow_level(axes, frontier, generator, branches)
        if level.width * classes > limit or level.width == len(level.axis):
            break
        levels.append(level)
        frontier = _descend(axes, frontier, level)
    return Forest(axes, trees, tuple(levels))


def _grow_level(
    axes: tuple[Axis, ...], frontier: _RandomFrontier, generator: np.random.Generator, branches: int
) -> Level:
    node_axis = np.concatenate(
        [
            _choose_axes(axes, frontier.low[start : start + _CHUNK], frontier.high[start : start + _CHUNK], generator)
            for start in range(0, len(frontier.low), _CHUNK)
        ]
    )
    arity = np.ones(len(node_axis), np.uint8)
    planes = np.zeros((max(1, (branches - 1).bit_length()), len(node_axis)), np.uint64)
    for position in np.unique(node_axis[node_axis != PASS]):
        nodes = np.flatnonzero(node_axis == position)
        if axes[position].ordered:
            arity[nodes] = 2
            planes[0, nodes] = _thresholds(frontier, nodes, position, generator)
        else:
            arity[nodes], planes[:, nodes] = _groups(axes[position], len(nodes), generator, branches, len(planes))
    used = max(1, int(arity.max(initial=1) - 1).bit_length())
    return Level(node_axis, arity, planes[:used])


def _choose_axes(
    axes: tuple[Axis, ...], low: NDArray[np.uint8], high: NDArray[np.uint8], generator: np.random.Generator
) -> NDArray[np.int16]:
    """Draw a feature that can still be split, then one of its axes that can; PASS where there is none."""
    open_axes = high > low
    feature = np.array([axis.feature for axis in axes])
    starts = np.flatnonzero(np.diff(feature, prepend=-1))
    if len(starts) == len(axes):
        return np.where(open_axes.any(axis=1), _draw(open_axes, generator), PASS).astype(np.int16)
    open_features = np.logical_or.reduceat(open_axes, starts, axis=1)
    drawn = _draw(open_features, generator)
    axes_of_drawn = open_axes & (feature == feature[starts][drawn][:, None])
    return np.where(open_features.any(axis=1), _draw(axes_of_drawn, generator), PASS).astype(np.int16)


def _draw(allowed: NDArray[np.bool_], generator: np.random.Generator) -> NDArray[np.int64]:
    """Draw one allowed column of each row uniformly (0 where none is allowed)."""
    counts = allowed.sum(axis=1)
    picks = np.minimum((generator.random(len(allowed)) * counts).astype(np.int64), np.maximum(counts - 1, 0))
    passed = np.cumsum(allowed, axis=1, dtype=np.int32) > picks[:, None]
    return np.argmax(passed & allowed, axis=1)


def _thresholds(
    frontier: _RandomFrontier, nodes: NDArray[np.int64], axis: int, generator: np.random.Generator
) -> NDArray[np.uint64]:
    """Draw the first cell that goes right, uniformly from the path's remaining cells without the first of them."""
    low, high = frontier.low[nodes, axis].astype(np.int64), frontier.high[nodes, axis].astype(np.int64)
    first_right = generator.integers(low + 1, high + 1)
    return np.uint64(2**64 - 1) << first_right.astype(np.uint64)


def _groups(
    axis: Axis, count: int, generator: np.random.Generator, branches: int, planes: int
) -> tuple[int, NDArray[np.uint64]]:
    """Return the arity of a discrete split and the bit planes of `count` of them."""
    arity = max(2, min(branches, axis.values))
    others = generator.integers(0, arity, count) if axis.values > 1 else np.ones(count, np.int64)
    if axis.values <= arity:
        declared = np.arange(axis.values, dtype=np.uint8)[None, :]
    else:
        declared = _shuffled_groups(axis.values, arity, count, generator)
    other_cells = bits(np.arange(CELLS)[None, :] >= axis.values)
    return arity, np.stack(
        [
            bits((declared >> plane & 1).astype(bool)) | np.where(others >> plane & 1, other_cells, np.uint64(0))
            for plane in range(planes)
        ]
    )


def _shuffled_groups(values: int, arity: int, count: int, generator: np.random.Generator) -> NDArray[np.uint8]:
    """Deal the values out to `arity` groups of equal size (give or take one), anew for each of `count` splits."""
    dealt = np.broadcast_to((np.arange(values) % arity).astype(np.uint8), (count, values)).copy()
    return generator.permuted(dealt, axis=1, out=dealt)


def _descend(axes: tuple[Axis, ...], frontier: _RandomFrontier, level: Level) -> _RandomFrontier:
    """Return the open nodes of the next level: ranges narrowed, used categories closed."""
    low = np.repeat(frontier.low, level.arity, axis=0)
    high = np.repeat(frontier.high, level.arity, axis=0)
    axis = np.repeat(level.axis, level.arity)
    slot = np.arange(level.width) - np.repeat(level.child, level.arity)
    ordered = np.array([grid_axis.ordered for grid_axis in axes])
    children = np.flatnonzero((axis != PASS) & ~ordered[axis])
    high[children, axis[children]] = low[children, axis[children]]
    first_right = np.repeat(_lowest_bit(level.planes[0]), level.arity)
    split = (axis != PASS) & ordered[axis]
    left, right = np.flatnonzero(split & (slot == 0)), np.flatnonzero(split & (slot == 1))
    high[left, axis[left]] = first_right[left] - 1
    low[right, axis[right]] = first_right[right]
    return _RandomFrontier(low, high)


def _lowest_bit(masks: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return the place of the lowest set bit of each word (64 for an empty one).

    >>> _lowest_bit(np.array([12, 1, 0], np.uint64)).tolist()
    [2, 0, 64]
    """
    isolated = masks & (~masks + np.uint64(1))
    return np.where(masks == 0, 64, np.log2(np.maximum(isolated, np.uint64(1)).astype(np.float64))).astype(np.uint8)
