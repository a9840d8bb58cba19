"""The published, unproven forms of two releases. They are NOT differentially private, and serve for comparisons alone.

Fletcher & Islam 2017 use the smooth sensitivity e^(−j·epsilon) of "is the most frequent label" inside the exponential
mechanism. Smooth sensitivity does not fit there: the loss is unbounded (for a claimed epsilon of 1 it is 2.1, 6.3 and
17 at a lead j of 1, 2 and 3 rows).

Huang, Lei & Kaban 2022 draw candidate medians between the smallest and the largest value at a node, and do not split a
node of 10 rows or fewer. Both depend on the data, and nothing pays for them: a single row can move the range, and with
it which splits are possible at all, or make a node a leaf.

The kernel runs these forms only on datasets without a cap, and marks the models that come out as not private.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.candidates import Candidates
from dpsql.kernel.utility import utilities
from dpsql.mechanisms.rng import uniform_words
from dpsql.trees.forest import PASS

#: Beyond this exponent the most frequent label wins with certainty in double precision anyway.
_CERTAIN = 700.0
#: A node of this many rows or fewer is not split.
FEWEST = 10


def smooth_labels(counts: NDArray[np.int64], epsilon: float) -> NDArray[np.int64]:
    """Return one class per leaf, as published. This is not differentially private."""
    return _draw_columns(label_chances(counts, epsilon))


def label_chances(counts: NDArray[np.int64], epsilon: float) -> NDArray[np.float64]:
    """Return the probability with which each class of each leaf is named, as published (Table 6, "original").

    Ties share the score 1, as in equation 7 of the paper.

    >>> round(100 * float(label_chances(np.array([[5, 0]]), 0.1)[0, 0]), 1)
    52.1
    """
    ordered = np.sort(counts, axis=1)
    sensitivity = smooth_sensitivity((ordered[:, -1] - ordered[:, -2]).astype(float), epsilon)
    exponent = np.minimum(epsilon / 2 / sensitivity, _CERTAIN)
    best = counts == counts.max(axis=1, keepdims=True)
    weights = np.where(best, 1.0, np.exp(-exponent)[:, None])
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def smooth_sensitivity(lead: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """Return Theorem 1's smooth sensitivity for leads of j rows (Table 2 of the paper)."""
    return np.exp(-np.minimum(lead * epsilon, _CERTAIN))


def medians(counts: NDArray[np.int64], candidates: Candidates, epsilon: float) -> NDArray[np.int64]:
    """Return one split per leaf as published, and −1 where a node is not split. This is not differentially private.

    `counts` holds for each asking leaf the rows in each cell of the one axis that it asks for. The candidates are the
    edges between the smallest and the largest value at the node; for a category they are its values. A node of 10 rows
    or fewer is not split.
    """
    asking, axis = candidates.asking_leaves, candidates.axis[candidates.asking_leaves, 0]
    allowed = (candidates.weights[asking, 0] > 0) & _inside(counts, candidates, axis)
    allowed[counts.sum(axis=1) <= FEWEST] = False
    scores = np.zeros(allowed.shape)
    for number in np.unique(axis[axis != PASS]):
        here = axis == number
        scores[here] = utilities("median", counts[here][:, :, None], candidates.splits, int(number))
    scores -= np.where(allowed, scores, -np.inf).max(axis=1, initial=-1e18, keepdims=True)
    weights = np.where(allowed, np.exp(np.minimum(0.0, epsilon / 2 * scores)), 0.0)
    splits = np.full(len(candidates.axis), -1, np.int64)
    splits[asking] = np.where(allowed.any(axis=1), _draw_columns(weights), -1)
    return splits


def _inside(counts: NDArray[np.int64], candidates: Candidates, axis: NDArray[np.int16]) -> NDArray[np.bool_]:
    """Return which splits of a leaf's axis have rows of the leaf on both sides: those within the range of the data."""
    present = (counts > 0).astype(np.int64)
    inside = np.zeros((len(counts), candidates.splits.most), bool)
    for number in np.unique(axis):
        here = axis == number
        right = candidates.splits.slots(int(number)).astype(np.int64) @ present[here].T
        inside[here] = ((right > 0) & (right < present[here].sum(axis=1))).T
    return inside


def _draw_columns(weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return for each row the number of one column, drawn with probability proportional to its weight."""
    uniform = (uniform_words(len(weights)) >> np.uint64(11)).astype(float) / 2.0**53
    passed = np.cumsum(weights, axis=1) > uniform[:, None] * weights.sum(axis=1, keepdims=True)
    return np.argmax(passed, axis=1)
