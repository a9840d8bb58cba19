"""Makes a released forest monotone in some of its numbers: free post-processing of the weights at its leaves.

Guarantee: take two rows that differ in one constrained number alone, which is larger in the second row. Then the second
row's score for the upper output is not lower, and its score for the lower output is not higher (the other way round
where the number is to lower it). The outputs are the second and the first of two classes, or the upper and the lower
bound of a numeric target. So neither the probability of the second class, nor its being the label, nor the predicted
number ever goes the wrong way. It holds exactly, for whole numbers add up exactly.

In each tree leaf i comes before leaf j if some row in i moves into j when the number grows: their cells overlap on
every other axis, and the first cell of i on the number's axis is below the last cell of j. Let u be the largest weight
of a leaf and of all that come before it, directly or through others, and l the smallest of it and of all that come
after it. Both never fall from i to j, so neither does (u + l) / 2 rounded down, which is the new weight. Where the
weights are monotone already, u = l and nothing changes. A sum of monotone trees is monotone.

A tree of more than `LARGEST_TREE` leaves that reads a constrained number is given the same weights everywhere, their
mean: pairs of so many leaves would not fit into memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpsql.schema import CELLS
from dpsql.trees.forest import PASS, Forest, Ints, bits
from dpsql.trees.voting import VotingForest

#: The most leaves of a tree whose pairs are looked at.
LARGEST_TREE = 2048

Masks = NDArray[np.uint64]


def make_monotone(released: VotingForest, signs: Mapping[int, int]) -> VotingForest:
    """Return the forest with weights that are monotone along axes: +1 where the upper output must not fall, else −1.

    Weights must have two columns, the lower output and the upper one.
    """
    forest, weights = released.forest, released.weights.copy()
    for number in range(forest.trees):
        tree = forest.tree(number)
        along = {axis: sign for axis, sign in signs.items() if any((level.axis == axis).any() for level in tree.levels)}
        own = slice(*forest.first_leaf[number : number + 2])
        if along and tree.leaves > LARGEST_TREE:
            weights[own] = weights[own].mean(axis=0).astype(np.int64)
        elif along:
            before = _comes_before(leaf_masks(tree), along)
            weights[own, 1] = _envelope_middle(weights[own, 1], before)
            weights[own, 0] = -_envelope_middle(-weights[own, 0], before)
    return replace(released, weights=weights)


def leaf_masks(tree: Forest) -> Masks:
    """Return the cells of each leaf on each axis, as 64-bit sets (leaves × axes)."""
    masks = np.full((tree.trees, len(tree.axes)), ~np.uint64(0), np.uint64)
    for level in tree.levels:
        parent = np.repeat(np.arange(len(level.axis)), level.arity)
        slot = np.arange(level.width) - level.child[parent]
        masks, axis = masks[parent], level.axis[parent]
        split = np.flatnonzero(axis != PASS)
        taken = level.slots(parent[split, None], np.arange(CELLS)) == slot[split, None]
        masks[split, axis[split]] &= bits(taken)
    for place, axis_here in enumerate(tree.axes):
        masks[:, place] &= np.uint64((1 << axis_here.cells) - 1)
    return masks


def _comes_before(masks: Masks, along: Mapping[int, int]) -> NDArray[np.bool_]:
    """Return whether the weight of a leaf (row) may not be above that of another (column)."""
    before = np.zeros((len(masks), len(masks)), bool)
    for axis, sign in along.items():
        overlap = np.ones(before.shape, bool)
        for other in range(masks.shape[1]):
            if other != axis:
                overlap &= (masks[:, None, other] & masks[None, :, other]) != 0
        member = (masks[:, axis, None] >> np.arange(CELLS, dtype=np.uint64)) & np.uint64(1) != 0
        first, last = member.argmax(axis=1), CELLS - 1 - member[:, ::-1].argmax(axis=1)
        grows = overlap & (first[:, None] < last[None, :]) & member.any(axis=1)[:, None] & member.any(axis=1)[None, :]
        before |= grows if sign > 0 else grows.T
    return before


def _envelope_middle(weights: Ints, before: NDArray[np.bool_]) -> Ints:
    """Return weights that never fall along `before`: the middle of the envelopes from below and from above."""
    upper, lower = weights, weights
    while True:
        raised = np.maximum(upper, np.where(before, upper[:, None], np.iinfo(np.int64).min).max(axis=0))
        lowered = np.minimum(lower, np.where(before, lower[None, :], np.iinfo(np.int64).max).min(axis=1))
        if (raised == upper).all() and (lowered == lower).all():
            return (upper + lower) // 2
        upper, lower = raised, lowered
