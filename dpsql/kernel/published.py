"""The published, unproven forms of two releases. NOT differentially private; for comparison tables alone.

Fletcher & Islam 2017 use the smooth sensitivity e^(−j·epsilon) of "is the most frequent label" inside the exponential
mechanism. Smooth sensitivity does not fit there: the loss is unbounded (a claimed epsilon of 1 gives 2.1, 6.3, 17 at
a lead j of 1, 2, 3).

Huang, Lei & Kaban 2022 draw candidate medians between the smallest and largest value at a node, and stop at 10 rows.
Both are facts about the data that nothing pays for: a single row can move the range, and with it which splits are
possible at all, or make a node a leaf.

The kernel runs these only on datasets without a cap, and marks what comes out.
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


def smooth_sensitivity(lead: int, epsilon: float) -> float:
    """Return Theorem 1's smooth sensitivity for a lead of j rows (Table 2 of the paper).

    >>> round(smooth_sensitivity(5, 0.1), 5), round(smooth_sensitivity(1, 1.0), 5)
    (0.60653, 0.36788)
    """
    return float(np.exp(-lead * epsilon))


def smooth_probability(lead: int, epsilon: float, classes: int = 2) -> float:
    """Return how likely the most frequent of the classes is named, as published (Table 6, "original").

    >>> round(100 * smooth_probability(5, 0.1), 1)
    52.1
    """
    exponent = (
        min(epsilon / (2 * smooth_sensitivity(lead, epsilon)), _CERTAIN) if lead * epsilon < _CERTAIN else _CERTAIN
    )
    return float(1 / (1 + (classes - 1) * np.exp(-exponent)))


def smooth_labels(counts: NDArray[np.int64], epsilon: float) -> NDArray[np.int64]:
    """Return one class per leaf as published. Not differentially private.

    Ties share the score 1, as in equation 7 of the paper.
    """
    ordered = np.sort(counts, axis=1)
    lead = (ordered[:, -1] - ordered[:, -2]).astype(float)
    exponent = np.minimum(epsilon / 2 * np.exp(np.minimum(lead * epsilon, _CERTAIN)), _CERTAIN)
    best = counts == counts.max(axis=1, keepdims=True)
    weights = np.where(best, 1.0, np.exp(-exponent)[:, None])
    return _drawn(weights)


def medians(counts: NDArray[np.int64], candidates: Candidates, epsilon: float) -> NDArray[np.int64]:
    """Return one split per leaf as published, −1 for a leaf: data range, true-size stop. Not differentially private.

    `counts` are those of the one axis that each asking leaf asks for, by cell. Candidates are the edges between the
    node's smallest and largest value; of a category its values. A node of 10 rows or fewer is not split.
    """
    asking, axis = candidates.asking, candidates.axis[candidates.asking, 0]
    allowed = (candidates.weights[asking, 0] > 0) & _inside(counts, candidates, axis)
    allowed[counts.sum(axis=1) <= FEWEST] = False
    scores = np.zeros(allowed.shape)
    for one in np.unique(axis[axis != PASS]):
        here = axis == one
        scores[here] = utilities("median", counts[here][:, :, None], candidates.splits, int(one))
    scores -= np.where(allowed, scores, -np.inf).max(axis=1, initial=-1e18, keepdims=True)
    weights = np.where(allowed, np.exp(np.minimum(0.0, epsilon / 2 * scores)), 0.0)
    chosen = np.full(len(candidates.axis), -1, np.int64)
    chosen[asking] = np.where(allowed.any(axis=1), _drawn(weights), -1)
    return chosen


def _inside(counts: NDArray[np.int64], candidates: Candidates, axis: NDArray[np.int16]) -> NDArray[np.bool_]:
    """Return which splits of a leaf's axis leave a row of the leaf on either side: those within the data's range."""
    present = (counts > 0).astype(np.int64)
    found = np.zeros((len(counts), candidates.splits.most), bool)
    for one in np.unique(axis):
        right = candidates.splits.slots(int(one)).astype(np.int64) @ present[axis == one].T
        found[axis == one] = ((right > 0) & (right < present[axis == one].sum(axis=1))).T
    return found


def _drawn(weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Draw a column of each row in proportion to its weight."""
    uniform = (uniform_words(len(weights)) >> np.uint64(11)).astype(float) / 2.0**53
    chosen = np.cumsum(weights, axis=1) > uniform[:, None] * weights.sum(axis=1, keepdims=True)
    return np.argmax(chosen, axis=1)
