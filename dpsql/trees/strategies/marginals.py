"""Strategies of marginals: for some subsets of the features, the counts of all combinations of their values.

This is OPT_M of HDMM (McKenna, Miklau, Hay & Machanavajjhala 2018), for any workload. Let θ_S be the weight of the
marginal of subset S, let n_i be the number of values of feature i, and let U run over subsets too. Every table over a
product domain is a sum of parts, one for each U: the part of U depends on the features of U alone and averages to 0
over each of them. On the part of U, AᵀA of every marginal strategy A multiplies by a single number,

    μ_U = Σ_{S ⊇ U} θ_S² · Π_{i ∉ S} n_i

Let P_U be the projection onto the part of U, and w_U = ‖W·P_U‖². Then the error of a workload W is exactly
(Σ θ_S)² · Σ_U w_U / μ_U, whatever W is. The workload's `moments` are f_S = Σ_{U ⊆ S} w_U, from which the w_U follow by
inclusion and exclusion. The minimum over θ ≥ 0 is looked for from several starts: every cell, all marginals of k
features, the subsets that the workload weighs most.
"""

from __future__ import annotations

import numpy as np

from dpsql.trees.strategies.descent import descend
from dpsql.trees.strategies.effort import SCATTERED, Effort
from dpsql.trees.strategies.strategy import Floats, Ints, Partition, Strategy
from dpsql.trees.strategies.workload import Workload

#: The largest weight; the others are rounded to whole numbers in proportion, and a marginal of weight 0 is not asked.
PARTS = 1000
#: The most features for which marginals are tried: all 2^features subsets are looked at.
MOST_FEATURES = 12
#: The most steps of one descent.
STEPS = 400


def marginals(workload: Workload, effort: Effort | None = None) -> tuple[Strategy, float] | None:
    """Return the best strategy of marginals within the effort, with its spread.

    Return None where the cells are no product of features, or one of more than MOST_FEATURES.
    """
    count, effort = len(workload.sizes), effort or Effort()
    if not 1 <= count <= MOST_FEATURES:
        return None
    effort.spend(workload.moments_work)
    needed, squares_to_factors = parts(workload), action(workload.sizes)

    def slope(root: Floats) -> tuple[float, Floats]:
        effort.spend(2 * SCATTERED * squares_to_factors.size)
        return _slope(root, needed, squares_to_factors)

    best: tuple[float, Floats] | None = None
    for start in _starts(count, needed):
        weights = descend(slope, np.sqrt(start), steps=STEPS, go_on=effort.allows) ** 2
        error = weighted_error(_round_weights(weights).astype(np.float64), needed, squares_to_factors)
        if best is None or error < best[0]:
            best = error, weights
        if not effort.allows():
            break
    assert best is not None
    if not np.isfinite(best[0]):
        return None
    strategy = of_weights(workload.sizes, _round_weights(best[1]))
    return strategy, best[0] / strategy.sensitivity**2


def of_weights(sizes: tuple[int, ...], weights: Ints) -> Strategy:
    """Return the strategy that asks for each subset's marginal, with its weight over the greatest common divisor."""
    divisor = int(np.gcd.reduce(weights[weights > 0]))
    blocks = tuple(
        Partition.even(groups(sizes, subset), int(weights[subset]) // divisor)
        for subset in np.flatnonzero(weights).tolist()
    )
    cells = int(np.prod(sizes))
    return Strategy("marginals", cells, blocks)


def groups(sizes: tuple[int, ...], subset: int) -> Ints:
    """Return for each cell the number of the combination of values that it has of the subset's features.

    >>> groups((2, 3), 0b10).tolist()
    [0, 1, 2, 0, 1, 2]
    """
    values = np.unravel_index(np.arange(int(np.prod(sizes))), sizes)
    combination = np.zeros(int(np.prod(sizes)), np.int64)
    for place, size in enumerate(sizes):
        if subset >> place & 1:
            combination = combination * size + values[place]
    return combination


def parts(workload: Workload) -> Floats:
    """Return w_U for every subset U: how much of the workload rests on exactly these features."""
    of_subsets = workload.moments()
    for place in range(len(workload.sizes)):
        without_and_with = of_subsets.reshape(-1, 2, 2**place)
        without_and_with[:, 1] -= without_and_with[:, 0]
    return np.maximum(of_subsets, 0)


def action(sizes: tuple[int, ...]) -> Floats:
    """Return the matrix that turns θ_S² into μ_U: Π_{i ∉ S} n_i where S ⊇ U, and 0 elsewhere."""
    matrix = np.ones((1, 1))
    for size in sizes:  # rows are U, columns S; the new feature is the highest bit
        matrix = np.block([[size * matrix, matrix], [np.zeros_like(matrix), matrix]])
    return matrix


def weighted_error(weights: Floats, needed: Floats, squares_to_factors: Floats) -> float:
    """Return the error (Σ θ_S)² · Σ_U w_U / μ_U of weights θ, in units of the variance of the noise on one count.

    `needed` has the w_U, `squares_to_factors` is what `action` returns. The error is infinite where the weights leave a
    part unasked that the workload needs.
    """
    factors = squares_to_factors @ weights**2
    in_workload = needed > 1e-9 * needed.sum()
    if (factors[in_workload] <= 0).any():
        return float("inf")
    return float(weights.sum() ** 2 * (needed[in_workload] / factors[in_workload]).sum())


def _slope(root: Floats, needed: Floats, squares_to_factors: Floats) -> tuple[float, Floats]:
    """Return the logarithm of the error of the weights root², and its gradient by root."""
    weights = root**2
    factors, total = np.maximum(squares_to_factors @ weights**2, 1e-300), weights.sum()
    each = needed / factors
    error = float(each.sum())
    by_weights = 2 / total - 2 * weights * ((each / factors) @ squares_to_factors) / error
    return float(2 * np.log(total) + np.log(error)), by_weights * 2 * root


def _round_weights(weights: Floats) -> Ints:
    """Return the weights as whole numbers, the largest of which is PARTS."""
    return np.rint(weights / weights.max() * PARTS).astype(np.int64)


def _starts(count: int, needed: Floats) -> list[Floats]:
    """Return the weights from which descents start.

    They are: the marginals of all features (every cell), then all marginals of k features for smaller k; each subset
    weighed by its part of the workload; and weights drawn from fixed seeds.
    """
    size = np.array([bin(subset).count("1") for subset in range(2**count)])
    floor = np.full(2**count, 1e-3)
    of_one_size = [np.where(size == features, 1.0, floor) for features in range(1, count + 1)]
    drawn = [np.random.default_rng(seed).random(2**count) ** 2 + 1e-3 for seed in range(6)]
    by_workload = np.sqrt(needed / needed.max()) + floor
    return [*reversed(of_one_size), by_workload, *drawn]
