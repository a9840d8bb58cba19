"""Which noisy counts stand out of noise and chance, after correction for how many ranges could have been picked.

A feature's groups are formed by looking at its noisy counts: a number is cut where its classes differ most. So the
groups that are shown are the most striking of many, and an interval for one range that was fixed beforehand says too
much. The correction is Bonferroni's: a chance of `ERROR` in all is divided evenly among the features, among the classes
and among the sets of cells that a feature's group could have been. Those are the K(K+1)/2 ranges of a number with K
cells; of a category with K cells, K single ones have one half of the chance, and for each size m the sets of m cells
share a K-th of the other half. Neighbouring groups of a number are one of its ranges too: groups each of which
has a chance of at most `ERROR` by itself are named where one such range of them stands out.

Claim: on a table whose label has nothing to do with any feature, at most a share `ERROR` of models name a value.

Proof sketch. Let a group have n rows, and let a class have the share s of all rows. Without any connection, the rows of
the class are binomial(n, s). The deviation a − s·(a + b), where a is the noisy count of the class and b that of the
others, is then a sum of independent parts whose cumulant functions K(λ) = ln E exp(λX) are known: the binomial part, m
cells of noise of variance v with factor 1 − s and m·(C − 1) with factor −s, and the noise in s itself. By Chernoff's
bound it passes t with a chance of at most exp(K(λ) − λt), for every λ > 0; the best of some is taken, and divided by
λ·√(2π·K''(λ)), as Bahadur and Rao sharpen it. Discrete Laplace
noise of variance v has K(λ) = −ln(1 − v·(cosh λ − 1)), which is more than that of Gaussian noise of the same variance:
the bound holds for both. Two things are estimates: n is the noisy number of rows, raised by two standard deviations,
and s is the released share, whose noise is taken as normal.

References: Hochberg & Tamhane, Multiple Comparison Procedures (1987), section 1.3 (Bonferroni); Boucheron, Lugosi &
Massart, Concentration Inequalities (2013), section 2.2 (Chernoff's bound); Bahadur & Rao, On deviations of the sample
mean (1960), theorem 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.models.explain.facts import Counts, Facts
from dpsql.schema import Feature, Numeric

Reals = NDArray[np.float64]
#: The share of models that may name a value for a class where no feature tells anything about the label.
ERROR = 0.05
#: How many standard deviations of noise are added to the noisy number of rows of a group.
_MORE_ROWS = 2.0
#: How many values of λ are tried.
_TRIED = 96
#: The smallest and the largest part of the largest λ that is tried.
_LEAST_PART, _MOST_PART = 1e-4, 0.999
#: The largest λ where noise sets no limit.
_LARGEST = 20.0


def deviations(counts: Counts, shares: Reals) -> Reals:
    """Return by how many rows each count is above what its class's share of the group would be (groups × classes)."""
    noisy = counts.noisy_counts
    return noisy - shares * noisy.sum(axis=1, keepdims=True)


def total_variance(facts: Facts) -> float:
    """Return the variance of the noise on a class's number of rows, as estimated from all features together.

    Every feature's groups add up to the same rows; their sums are weighted by 1 / variance.
    """
    variances = [float((counts.errors**2).sum()) for counts in facts.features.values()]
    return 0.0 if not variances or min(variances) <= 0 else 1 / sum(1 / variance for variance in variances)


def counts_beyond_chance(
    feature: Feature, counts: Counts, shares: Reals, *, features: int, share_variance: float
) -> NDArray[np.bool_]:
    """Return which counts stand out above what their class's share would give (groups × classes).

    `features` is the number of features with counts, among which reasons are picked. `share_variance` is the variance
    of the noise on a class's number of rows (`total_variance`), from which the shares come.
    """
    limit = math.log(ERROR / (features * len(shares)))
    rows = float(np.maximum(counts.noisy_counts, 0.0).sum())
    if not isinstance(feature, Numeric):
        logs = log_chances(counts, shares, share_variance, rows=rows)
        return logs <= (limit - _log_sets(feature, counts))[:, None]
    order = sorted(range(len(counts.groups)), key=lambda place: min(counts.groups[place]))
    spans = [(first, last) for first in range(len(order)) for last in range(first + 1, len(order) + 1)]
    logs = log_chances(
        _join_groups(counts, [order[first:last] for first, last in spans]), shares, share_variance, rows=rows
    )
    clear = logs <= limit - math.log(feature.cells * (feature.cells + 1) / 2)
    above = log_chances(counts, shares, share_variance, rows=rows) <= math.log(ERROR)
    named = np.zeros(above.shape, bool)
    for (first, last), of_span in zip(spans, clear, strict=True):
        named[order[first:last]] |= of_span & above[order[first:last]].all(axis=0)
    return named


def _join_groups(counts: Counts, parts: Sequence[Sequence[int]]) -> Counts:
    """Return the counts of groups that are taken together."""
    return Counts(
        tuple(tuple(cell for place in part for cell in counts.groups[place]) for part in parts),
        np.array([counts.noisy_counts[list(part)].sum(axis=0) for part in parts]),
        np.array([math.sqrt((counts.errors[list(part)] ** 2).sum()) for part in parts]),
    )


def log_chances(counts: Counts, shares: Reals, share_variance: float, *, rows: float) -> Reals:
    """Return the log of the chance that noise and chance alone make each count so large (groups × classes).

    `rows` is the noisy number of all rows of the feature.
    """
    noisy, classes = counts.noisy_counts, len(shares)
    own_rows = np.maximum(noisy.sum(axis=1), 0.0) + _MORE_ROWS * counts.errors * math.sqrt(classes)
    part = own_rows / max(rows, 1.0)
    least = float(counts.errors.min(initial=math.inf))
    is_noisy = 0 < least < math.inf
    cells = np.maximum((counts.errors / least) ** 2, 1.0) if is_noisy else np.ones(len(noisy))
    above, logs = deviations(counts, shares), np.zeros(noisy.shape)
    for number, share in enumerate(shares.tolist()):
        parts = _cumulants(least**2 if is_noisy else 0.0, share, classes, share_variance)
        logs[:, number] = _log_tails(above[:, number], np.stack([cells, own_rows, part**2], axis=1), parts)
    return logs


def _log_tails(above: Reals, times: Reals, parts: tuple[Reals, Reals, Reals]) -> Reals:
    """Return the log of each chance of a deviation; its cumulants are `times` those of three parts, added up."""
    tried, cumulants, curvatures = parts
    bounds = times @ cumulants - above[:, None] * tried
    best = bounds.argmin(axis=1)
    spread = np.sqrt(2 * math.pi * np.einsum("gp,pg->g", times, curvatures[:, best])) * tried[best]
    return np.minimum(bounds[np.arange(len(best)), best] - np.log(np.maximum(spread, 1.0)), 0.0)


def _cumulants(variance: float, share: float, classes: int, share_variance: float) -> tuple[Reals, Reals, Reals]:
    """Return the values of λ that are tried, and K(λ) and K''(λ) of noise in one cell, chance of one row, the share."""
    most = _LARGEST
    if variance > 0:  # beyond this the cumulant of the noise is infinite
        most = min(most, math.acosh(1 + 1 / variance) / max(share, 1 - share))
    tried = most * np.geomspace(_LEAST_PART, _MOST_PART, _TRIED)
    own, others = _noise(variance, (1 - share) * tried), _noise(variance, share * tried)
    tilted = share * np.exp(tried) / (1 + share * np.expm1(tried))
    of_share = share_variance * ((1 - share) ** 2 + (classes - 1) * share**2)
    values = (own[0] + (classes - 1) * others[0], np.log1p(share * np.expm1(tried)) - share * tried,
              of_share * tried**2 / 2)  # fmt: skip
    curvatures = ((1 - share) ** 2 * own[1] + (classes - 1) * share**2 * others[1], tilted * (1 - tilted),
                  np.full(len(tried), of_share))  # fmt: skip
    return tried, np.stack(values), np.stack(curvatures)


def _noise(variance: float, at: Reals) -> tuple[Reals, Reals]:
    """Return K(λ) = ln E exp(λX) and K''(λ) of discrete Laplace noise X of a variance."""
    rest = 1 - variance * (np.cosh(at) - 1)
    return -np.log(rest), variance * np.cosh(at) / rest + (variance * np.sinh(at) / rest) ** 2


def _log_sets(feature: Feature, counts: Counts) -> Reals:
    """Return the log of how many sets of a category's cells each group was picked from, as told above."""
    cells = feature.cells
    sizes = [len(group) for group in counts.groups]
    return np.array([math.log(2 * cells) + (_log_choose(cells, size) if size > 1 else 0.0) for size in sizes])


def _log_choose(count: int, taken: int) -> float:
    """Return the log of how many sets of this size there are."""
    return math.lgamma(count + 1) - math.lgamma(taken + 1) - math.lgamma(count - taken + 1)
