"""Joins two forests into one that has the trees of both; their features are the same, or all different."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsql.schema import Schema
from dpsql.trees.forest import PASS, Forest, Level
from dpsql.trees.grid import Axis, axes
from dpsql.trees.voting import VotingForest


def join_over_different_features(schema: Schema, first: VotingForest, second: VotingForest) -> VotingForest:
    """Return one forest with the trees of both; `schema` has the features of the first, then those of the second."""
    return _join_voting(axes(schema), first, second, offset=len(first.forest.axes))


def join_over_same_features(first: VotingForest, second: VotingForest) -> VotingForest:
    """Return one forest with the trees of both, over the features that both have."""
    return _join_voting(first.forest.axes, first, second, offset=0)


def join_trees(first: Forest, second: Forest) -> Forest:
    """Return the trees of both, over the features that both have."""
    return _join_forests(first.axes, first, second, offset=0)


def _join_voting(grid: tuple[Axis, ...], first: VotingForest, second: VotingForest, *, offset: int) -> VotingForest:
    forest = _join_forests(grid, first.forest, second.forest, offset=offset)
    return VotingForest(forest, np.concatenate([first.weights, second.weights]), first.same_nat(second))


def _join_forests(grid: tuple[Axis, ...], first: Forest, second: Forest, *, offset: int) -> Forest:
    depth = max(first.depth, second.depth)
    pairs = zip(_pad_levels(first, depth, 0), _pad_levels(second, depth, offset), strict=True)
    return Forest(
        grid, first.trees + second.trees, tuple(_join_levels(level, other_level) for level, other_level in pairs)
    )


def _pad_levels(forest: Forest, depth: int, offset: int) -> list[Level]:
    """Return the levels with `offset` added to the axes, and more levels that pass every row on, down to `depth`."""
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


def _join_levels(first: Level, second: Level) -> Level:
    count = max(len(first.planes), len(second.planes))
    planes = np.concatenate([_planes(first, count), _planes(second, count)], axis=1)
    return Level(np.concatenate([first.axis, second.axis]), np.concatenate([first.arity, second.arity]), planes)


def _planes(level: Level, count: int) -> NDArray[np.uint64]:
    missing = np.zeros((count - len(level.planes), len(level.axis)), np.uint64)
    return np.concatenate([level.planes, missing])
