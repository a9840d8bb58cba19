"""Puts two forests side by side: the trees of both, over the features of both, which are the same or all different."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsql.schema import Schema
from dpsql.trees.forest import PASS, Forest, Level
from dpsql.trees.grid import Axis, axes
from dpsql.trees.voting import VotingForest


def side_by_side(schema: Schema, first: VotingForest, second: VotingForest) -> VotingForest:
    """Return one forest with the trees of both; `schema` has the features of the first, then those of the second."""
    return _joined(axes(schema), first, second, offset=len(first.forest.axes))


def together(first: VotingForest, second: VotingForest) -> VotingForest:
    """Return one forest with the trees of both, over the features that both have."""
    return _joined(first.forest.axes, first, second, offset=0)


def beside(first: Forest, second: Forest) -> Forest:
    """Return the trees of both, over the features that both have."""
    return _joined_trees(first.axes, first, second, offset=0)


def _joined(grid: tuple[Axis, ...], first: VotingForest, second: VotingForest, *, offset: int) -> VotingForest:
    forest = _joined_trees(grid, first.forest, second.forest, offset=offset)
    return VotingForest(forest, np.concatenate([first.weights, second.weights]), first.same_nat(second))


def _joined_trees(grid: tuple[Axis, ...], first: Forest, second: Forest, *, offset: int) -> Forest:
    depth = max(first.depth, second.depth)
    pairs = zip(_padded(first, depth, 0), _padded(second, depth, offset), strict=True)
    return Forest(grid, first.trees + second.trees, tuple(_beside(one, other) for one, other in pairs))


def _padded(forest: Forest, depth: int, offset: int) -> list[Level]:
    """Return the levels with axes moved by `offset`, and levels that pass everything on down to `depth`."""
    moved = [
        Level(np.where(level.axis == PASS, PASS, level.axis + offset).astype(np.int16), level.arity, level.planes)
        for level in forest.levels
    ]
    passing = Level(
        np.full(forest.leaves, PASS, np.int16),
        np.ones(forest.leaves, np.uint8),
        np.zeros((1, forest.leaves), np.uint64),
    )
    return moved + [passing] * (depth - forest.depth)


def _beside(one: Level, other: Level) -> Level:
    count = max(len(one.planes), len(other.planes))
    planes = np.concatenate([_planes(one, count), _planes(other, count)], axis=1)
    return Level(np.concatenate([one.axis, other.axis]), np.concatenate([one.arity, other.arity]), planes)


def _planes(level: Level, count: int) -> NDArray[np.uint64]:
    missing = np.zeros((count - len(level.planes), len(level.axis)), np.uint64)
    return np.concatenate([level.planes, missing])
