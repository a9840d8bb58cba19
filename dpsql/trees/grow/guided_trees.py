"""Grows trees from the released profiles of the features. It reads no rows, so it costs no privacy.

There are two kinds of trees. A *quantile* tree draws a feature with a chance that grows with its information, and
splits it so that a random share of the rows (30 to 70 %) lies on the left. A *likely* tree takes, at each node and
among a random half of the features, the split that would separate the classes best if features were independent within
each class. Groups of cells are never divided: a split is a threshold between the ordered groups of a profile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.schema import CELLS
from dpsql.trees.estimate.marginal_profile import Floats, MarginalProfile
from dpsql.trees.forest import PASS, Forest, Ints, Level, bits
from dpsql.trees.grid import Axis

#: Kinds of trees: see the head of this file.
QUANTILE = "quantile"
LIKELY = "likely"
#: The chance of a feature without information, relative to that of the feature with the most.
LEAST_CHANCE = 0.02
#: The least share of a node's rows that a likely split must leave on either side.
LEAST_SIDE = 0.1
#: Nodes are worked on in chunks of at most this many floats: 32 MB.
_FLOATS_AT_ONCE = 2**22


@dataclass(frozen=True, eq=False)
class Ladders:
    """The ordered groups of each axis, with running sums, so that the rows between two thresholds are a difference.

    `group` is the group of each cell (axes × 64), `last` the number of groups of each axis. `mass` holds the share of
    rows below each threshold (axes × (most groups + 1)), `shares` the same for each class (classes as third
    dimension). `chance` is each axis's information over the largest, plus LEAST_CHANCE. `prior` is the share of each
    class.
    """

    group: Ints
    last: Ints
    mass: Floats
    shares: Floats
    chance: Floats
    prior: Floats

    @classmethod
    def of(cls, axes: Sequence[Axis], profiles: Sequence[MarginalProfile], prior: Floats) -> Ladders:
        """Return the ladders of the axes' profiles, in which bins are cells."""
        most = max(profile.groups for profile in profiles)
        group = np.stack([np.pad(profile.group, (0, CELLS - len(profile.group)), mode="edge") for profile in profiles])
        mass = np.stack([_running_sums(profile.mass, most) for profile in profiles])
        shares = np.stack([_running_sums(profile.shares, most) for profile in profiles])
        information = np.array([profile.information for profile in profiles])
        chance = information / max(float(information.max()), 1e-12) + LEAST_CHANCE
        return cls(group, np.array([profile.groups for profile in profiles]), mass, shares, chance, prior)

    @classmethod
    def even(cls, axes: Sequence[Axis], seed: int) -> Ladders:
        """Return ladders without information: every cell has the same share of rows, categories are in random order."""
        generator = np.random.default_rng([seed, 1])
        return cls.of(axes, [_even_profile(axis, generator) for axis in axes], np.ones(1))


@dataclass(frozen=True, eq=False)
class _GuidedFrontier:
    """The nodes of a level: the range of groups of each axis that a path allows, class shares, kind and tree."""

    low: Ints
    high: Ints
    classes: Floats
    likely: NDArray[np.bool_]
    tree: Ints


def guided_forest(axes: tuple[Axis, ...], ladders: Ladders, kinds: Sequence[str], *, depth: int, seed: int) -> Forest:
    """Return one tree for each kind, each of up to `depth` levels."""
    generator, count = np.random.default_rng(seed), len(kinds)
    frontier = _GuidedFrontier(
        np.zeros((count, len(axes)), np.int64),
        np.tile(ladders.last, (count, 1)),
        np.tile(ladders.prior, (count, 1)),
        np.array([kind == LIKELY for kind in kinds]),
        np.arange(count),
    )
    levels: list[Level] = []
    for _ in range(depth):
        axis, first = _choose(ladders, frontier, generator)
        if (axis == PASS).all():
            break
        levels.append(_level(ladders, axis, first))
        frontier = _descend(ladders, frontier, axis, first)
    return Forest(axes, count, tuple(levels))


def _choose(ladders: Ladders, frontier: _GuidedFrontier, generator: np.random.Generator) -> tuple[Ints, Ints]:
    """Return the axis of each node (PASS where nothing is left to split) and the first group that goes right."""
    axis, first = _quantile_splits(ladders, frontier, generator)
    likely_nodes = np.flatnonzero(frontier.likely & (axis != PASS))
    each = ladders.shares.size
    for start in range(0, len(likely_nodes), at_once := max(1, _FLOATS_AT_ONCE // each)):
        nodes = likely_nodes[start : start + at_once]
        axis[nodes], first[nodes] = _likely_splits(ladders, frontier, nodes, generator)
    return axis, first


def _quantile_splits(ladders: Ladders, frontier: _GuidedFrontier, generator: np.random.Generator) -> tuple[Ints, Ints]:
    open_axes = frontier.high - frontier.low > 1
    # Every second tree gives all features the same chance.
    power = np.where(frontier.tree % 2 == 0, 0.0, 2.0)[:, None]
    chances = np.cumsum(np.where(open_axes, ladders.chance**power, 0.0), axis=1)
    drawn = generator.random((len(chances), 1)) * chances[:, -1:]
    axis = np.argmax((chances > drawn) & open_axes, axis=1)
    rows = np.arange(len(axis))
    low, high, sums = frontier.low[rows, axis], frontier.high[rows, axis], ladders.mass[axis]
    rows_left = sums[rows, low] + generator.uniform(0.3, 0.7, len(axis)) * (sums[rows, high] - sums[rows, low])
    edges = np.arange(sums.shape[1])
    inside = (edges > low[:, None]) & (edges < high[:, None])
    first = np.argmin(np.where(inside, np.abs(sums - rows_left[:, None]), np.inf), axis=1)
    return np.where(open_axes.any(axis=1), axis, PASS), first


def _likely_splits(
    ladders: Ladders, frontier: _GuidedFrontier, nodes: Ints, generator: np.random.Generator
) -> tuple[Ints, Ints]:
    """Return for each node the split whose sides would be purest if features were independent within each class."""
    low, high, classes = frontier.low[nodes], frontier.high[nodes], frontier.classes[nodes]
    considered = _random_half(high - low > 1, generator)
    places = np.arange(low.shape[1])
    start, end = ladders.shares[places, low], ladders.shares[places, high]
    share_inside = np.maximum(end - start, 1e-12)
    left = (ladders.shares[None] - start[:, :, None]) / share_inside[:, :, None] * classes[:, None, None]
    right = classes[:, None, None] - left
    rows_left, rows_right = left.sum(axis=3), right.sum(axis=3)
    edges = np.arange(ladders.shares.shape[1])
    inside = (edges > low[:, :, None]) & (edges < high[:, :, None]) & considered[:, :, None]
    pure = (left**2).sum(axis=3) / np.maximum(rows_left, 1e-12) + (right**2).sum(axis=3) / np.maximum(rows_right, 1e-12)
    smaller = np.minimum(rows_left, rows_right) / classes.sum(axis=1)[:, None, None]
    # Where no split leaves enough on either side, the most even one is taken.
    value = np.where(inside & (smaller > LEAST_SIDE), 1 + pure, np.where(inside, smaller, -1.0))
    best = value.reshape(len(nodes), -1).argmax(axis=1)
    return np.divmod(best, len(edges))


def _random_half(open_axes: NDArray[np.bool_], generator: np.random.Generator) -> NDArray[np.bool_]:
    """Return half of the open axes of each node, rounded up, drawn at random."""
    keys = np.where(open_axes, generator.random(open_axes.shape), 2.0)
    count = -(-open_axes.sum(axis=1) // 2)
    return np.asarray(keys.argsort(axis=1).argsort(axis=1) < count[:, None])


def _level(ladders: Ladders, axis: Ints, first: Ints) -> Level:
    right = ladders.group[axis] >= first[:, None]
    right[axis == PASS] = False
    return Level(axis.astype(np.int16), np.where(axis == PASS, 1, 2).astype(np.uint8), bits(right)[None, :])


def _descend(ladders: Ladders, frontier: _GuidedFrontier, axis: Ints, first: Ints) -> _GuidedFrontier:
    arity = np.where(axis == PASS, 1, 2)
    parent = np.repeat(np.arange(len(axis)), arity)
    low, high, classes = frontier.low[parent], frontier.high[parent], frontier.classes[parent]
    split = np.flatnonzero(axis[parent] != PASS)
    on, at = axis[parent][split], first[parent][split]
    goes_right = np.concatenate([[False], parent[1:] == parent[:-1]])[split]
    start, end = ladders.shares[on, low[split, on]], ladders.shares[on, high[split, on]]
    left = (ladders.shares[on, at] - start) / np.maximum(end - start, 1e-12)
    classes[split] *= np.maximum(np.where(goes_right[:, None], 1 - left, left), 1e-9)
    low[split[goes_right], on[goes_right]] = at[goes_right]
    high[split[~goes_right], on[~goes_right]] = at[~goes_right]
    return _GuidedFrontier(low, high, classes, frontier.likely[parent], frontier.tree[parent])


def _running_sums(values: Floats, most: int) -> Floats:
    """Return running sums over the groups, starting at 0; entries past the last group repeat the total."""
    padded = np.concatenate([values, np.zeros((most - len(values), *values.shape[1:]))])
    return np.concatenate([np.zeros((1, *values.shape[1:])), np.cumsum(padded, axis=0)])


def _even_profile(axis: Axis, generator: np.random.Generator) -> MarginalProfile:
    """Return a profile in which every cell is a group of its own and holds as many rows as any other."""
    cells = axis.cells
    group = np.arange(cells) if axis.ordered else generator.permutation(cells)
    even = np.full(cells, 1 / cells)
    return MarginalProfile(group, np.zeros((cells, 1)), np.zeros(cells), even, np.zeros((cells, 1)), 1.0)
