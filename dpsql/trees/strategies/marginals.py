"""Strategies of marginals: for some subsets of the features, the counts of all combinations of their values.

HDMM's OPT_M (McKenna, Miklau, Hay & Machanavajjhala 2018), for any workload. Let θ_S weigh the marginal of subset S,
and let U run over subsets too. Tables over a product domain are sums of parts that depend on the features of U and
average to 0 over each of them; on the part of U every marginal strategy acts as one number: AᵀA is

    μ_U = Σ_{S ⊇ U} θ_S² · Π_{i ∉ S} n_i

So the error of a workload W is (Σ θ_S)² · Σ_U w_U / μ_U, where w_U = ‖W·P_U‖², exactly, whatever W is. With `moments`
f_S = Σ_{U ⊆ S} w_U, the w_U follow by inclusion and exclusion. The minimum over θ ≥ 0 is looked for from several
starts: every cell, all marginals of k features, the subsets that the workload weighs most.
"""

from __future__ import annotations

import numpy as np

from dpsql.trees.strategies.descent import descend
from dpsql.trees.strategies.effort import SCATTERED, Effort
from dpsql.trees.strategies.strategy import Floats, Ints, Partition, Strategy
from dpsql.trees.strategies.workload import Workload

#: Weights are rounded to this many parts of the largest; what rounds to 0 is not asked.
PARTS = 1000
#: The most features for which all subsets are looked at.
MOST_FEATURES = 12
#: The most steps of one descent.
STEPS = 400


def marginals(workload: Workload, effort: Effort | None = None) -> tuple[Strategy, float] | None:
    """Return the best strategy of marginals within the effort, with its spread; None for no (or a large) product."""
    count, effort = len(workload.sizes), effort or Effort()
    if not 1 <= count <= MOST_FEATURES:
        return None
    effort.spend(workload.moments_work)
    needed, acts = parts(workload), action(workload.sizes)

    def slope(root: Floats) -> tuple[float, Floats]:
        effort.spend(2 * SCATTERED * acts.size)
        return _slope(root, needed, acts)

    best: tuple[float, Floats] | None = None
    for start in _starts(count, needed):
        weights = descend(slope, np.sqrt(start), steps=STEPS, go_on=effort.allows) ** 2
        error = weighted_error(_round_weights(weights).astype(np.float64), needed, acts)
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
    """Return the strategy that asks for the marginal of each subset as often as its weight says."""
    divisor = int(np.gcd.reduce(weights[weights > 0]))
    blocks = tuple(
        Partition.even(groups(sizes, subset), int(weights[subset]) // divisor)
        for subset in np.flatnonzero(weights).tolist()
    )
    cells = int(np.prod(sizes))
    return Strategy("marginals", cells, blocks)


def groups(sizes: tuple[int, ...], subset: int) -> Ints:
    """Return for each cell which combination of the subset's values it has.

    >>> groups((2, 3), 0b10).tolist()
    [0, 1, 2, 0, 1, 2]
    """
    values = np.unravel_index(np.arange(int(np.prod(sizes))), sizes)
    found = np.zeros(int(np.prod(sizes)), np.int64)
    for place, size in enumerate(sizes):
        if subset >> place & 1:
            found = found * size + values[place]
    return found


def parts(workload: Workload) -> Floats:
    """Return w_U for every subset U: how much of the workload rests on exactly these features."""
    found = workload.moments()
    for place in range(len(workload.sizes)):
        split = found.reshape(-1, 2, 2**place)
        split[:, 1] -= split[:, 0]
    return np.maximum(found, 0)


def action(sizes: tuple[int, ...]) -> Floats:
    """Return the matrix that turns θ_S² into μ_U: Π n_i over the features outside S, where S has all of U."""
    found = np.ones((1, 1))
    for size in sizes:  # rows are U, columns S; the new feature is the highest bit
        found = np.block([[size * found, found], [np.zeros_like(found), found]])
    return found


def weighted_error(weights: Floats, needed: Floats, acts: Floats) -> float:
    """Return the error of weights, in units of the noise of one count; infinite where they leave something out."""
    known = acts @ weights**2
    there = needed > 1e-9 * needed.sum()
    if (known[there] <= 0).any():
        return float("inf")
    return float(weights.sum() ** 2 * (needed[there] / known[there]).sum())


def _slope(root: Floats, needed: Floats, acts: Floats) -> tuple[float, Floats]:
    """Return the logarithm of the error of the weights root², and its gradient."""
    weights = root**2
    known, total = np.maximum(acts @ weights**2, 1e-300), weights.sum()
    each = needed / known
    error = float(each.sum())
    slope = 2 / total - 2 * weights * ((each / known) @ acts) / error
    return float(2 * np.log(total) + np.log(error)), slope * 2 * root


def _round_weights(weights: Floats) -> Ints:
    return np.rint(weights / weights.max() * PARTS).astype(np.int64)


def _starts(count: int, needed: Floats) -> list[Floats]:
    """Return the starts: every cell; all marginals of k features; each subset by its part of the workload."""
    size = np.array([bin(subset).count("1") for subset in range(2**count)])
    floor = np.full(2**count, 1e-3)
    alike = [np.where(size == wanted, 1.0, floor) for wanted in range(1, count + 1)]
    drawn = [np.random.default_rng(seed).random(2**count) ** 2 + 1e-3 for seed in range(6)]
    weighed = np.sqrt(needed / needed.max()) + floor
    return [*reversed(alike), weighed, *drawn]
