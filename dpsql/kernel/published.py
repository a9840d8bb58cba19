"""The published, unproven form of a release. NOT differentially private; for comparison tables alone.

Fletcher & Islam 2017 use the smooth sensitivity e^(−j·epsilon) of "is the most frequent label" inside the exponential
mechanism. Smooth sensitivity does not fit there: the loss is unbounded (a claimed epsilon of 1 gives 2.1, 6.3, 17 at
a lead j of 1, 2, 3). The kernel runs this only on datasets without a cap, and marks what comes out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.rng import uniform_words

#: Beyond this exponent the most frequent label wins with certainty in double precision anyway.
_CERTAIN = 700.0


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
    uniform = (uniform_words(len(counts)) >> np.uint64(11)).astype(float) / 2.0**53
    chosen = np.cumsum(weights, axis=1) > uniform[:, None] * weights.sum(axis=1, keepdims=True)
    return np.argmax(chosen, axis=1)
