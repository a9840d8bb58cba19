"""Turns noisy sums of a numeric target into votes: each leaf votes for its mean. It reads released sums alone.

The distances of a target from its two bounds are counted in steps. A leaf has two sums over its rows: L, the steps from
the target up to the upper bound, and U, the steps from the lower bound up to the target. The mean of its targets lies
at the share U/(L + U) of the range. Votes have the same form: a leaf casts votes for both bounds, a row's votes are
added up over its leaves, and the share of the votes for the upper bound is the prediction, as a share of the range.
Votes are whole numbers and each leaf casts at least one for each bound, so SQL and Python divide the same two positive
numbers.

The weight of a leaf makes up for noise. Let N be the leaf's noisy number of rows, v the variance of the noise in
its sum of deviations from the overall mean, and τ² the variance of the leaves' true means. The best linear estimate of
the leaf's deviation is N²/(N² + v/τ²) times what its sums say; that factor is its weight. An empty leaf has a weight
near 0, a large one near 1, so a mean over several leaves follows the certain ones. All leaves together cast
PRIOR_WEIGHT more votes for the overall mean, which decides where no leaf knows anything. The overall mean and τ are
estimated from the noisy sums.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsql.schema import Target
from dpsql.trees.voting import Weights

#: The weight of the overall mean in a prediction; that of each leaf is from 0 to 1.
PRIOR_WEIGHT = 0.2
#: The number of votes that a leaf of weight 1 casts.
VOTES_PER_LEAF = 2**20
#: The smallest and largest standard deviation τ that the leaves' means are taken to have, as a share of the range.
SPREAD_BOUNDS = (0.01, 0.5)

Reals = NDArray[np.float64]


def mean_votes(noisy_sums: NDArray[np.int64], scale: float, trees: int) -> Weights:
    """Return each leaf's votes for the lower and the upper bound (leaves × 2), from sums with noise of this scale.

    >>> mean_votes(np.array([[3000, 1000], [0, 8000]]), scale=1e-9, trees=1).tolist()
    [[817889, 440402], [31457, 1226834]]
    """
    sums = noisy_sums.astype(np.float64)
    total = sums.sum(axis=1)
    middle, spread = _middle_and_spread(sums[:, 1], total, scale)
    variance = _variance(middle, scale)
    rows = np.maximum(total, 0)
    weight = rows**2 / (rows**2 + variance / spread**2)
    share = np.clip(sums[:, 1] / np.where(total > 0, total, 1), 0, 1)
    upper = weight * share + PRIOR_WEIGHT / trees * middle
    lower = weight * (1 - share) + PRIOR_WEIGHT / trees * (1 - middle)
    return np.maximum(np.rint(VOTES_PER_LEAF * np.stack([lower, upper], axis=1)), 1).astype(np.int64)


def predicted_numbers(target: Target, votes: Weights) -> Reals:
    """Return the numbers that rows' votes for both bounds stand for, in the arithmetic of `compile/predict/votes.py`.

    >>> predicted_numbers(Target(10, 20), np.array([[3, 1], [0, 0]])).tolist()
    [12.5, 10.0]
    """
    share = votes[:, 1].astype(np.float64) / np.maximum(votes.sum(axis=1), 1).astype(np.float64)
    return np.minimum(np.maximum(target.lower + target.width * share, target.lower), target.upper)


def _middle_and_spread(upper: Reals, total: Reals, scale: float) -> tuple[float, float]:
    """Return the overall mean, as a share of the range, and the standard deviation of the leaves' means around it.

    Both are found by least squares over the leaves, upper = middle · total, after what noise adds to the squares is
    subtracted: noise of scale b on both sums adds 4b² to the square of a total and 2b² to its product with the upper
    sum. A plain sum over all leaves would gather the noise of the empty ones; squares give them next to no weight.
    Where the sum of squares is not three standard deviations above 0 (√56·b² for one square), the middle
    of the range is taken.
    """
    size = float(np.sum(total**2 - 4 * scale**2))
    if size <= 3 * scale**2 * np.sqrt(56 * len(total)):
        return 0.5, SPREAD_BOUNDS[0]
    middle = float(np.clip(np.sum(upper * total - 2 * scale**2) / size, 0, 1))
    moved = float(np.sum((upper - middle * total) ** 2 - _variance(middle, scale)))
    return middle, float(np.clip(np.sqrt(max(moved, 0.0) / size), *SPREAD_BOUNDS))


def _variance(middle: float, scale: float) -> float:
    """Return the variance of the noise in the sum of a leaf's deviations from the overall mean."""
    return 2 * scale**2 * (middle**2 + (1 - middle) ** 2)
