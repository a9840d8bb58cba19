"""Collects the cells of a feature into a few groups, with what was counted or is predicted in each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.models.explain.explanation_values import Group
from dpsql.models.explain.facts import Counts
from dpsql.models.explain.phrases import short_phrase
from dpsql.models.explain.sweep import Swept
from dpsql.schema import Feature, Numeric

Reals = NDArray[np.float64]
#: The most groups of a feature that has no counts of its own.
MOST_GROUPS = 12
#: Averages that differ by less than this count as equal.
_SAME_AVERAGE = 1e-9


def counted_groups(feature: Feature, counts: Counts, rows: float) -> tuple[Group, ...]:
    """Return the groups whose noisy counts were released, with the share of each class and its standard error.

    A count n with noise of standard deviation s has the variance s² + max(n, 0): that of the noise, and that of
    sampling the rows. A share a/(a + b) then has the variance (b²·var a + a²·var b)/(a + b)⁴.
    """
    groups = []
    for cells, noisy, error in zip(counts.groups, counts.noisy_counts, counts.errors, strict=True):
        own = np.maximum(noisy, 0.0)
        total = max(float(own.sum()), 1.0)
        variance = error**2 + own
        spread = ((total - own) ** 2 * variance + own**2 * (variance.sum() - variance)) / total**4
        errors = tuple(np.minimum(np.sqrt(spread), 1.0).tolist())
        shares = own / total if own.any() else np.full(len(own), 1 / len(own))
        mass = total / rows if own.any() else 0.0
        groups.append(
            Group(short_phrase(feature, cells), cells, mass, tuple(shares.tolist()), errors, *_ends(feature, cells))
        )
    return tuple(groups)


def predicted_groups(feature: Feature, swept: Swept) -> tuple[Group, ...]:
    """Return at most MOST_GROUPS groups of cells with about the same average prediction, and that average.

    A group of a number is a range of neighbouring cells; a group of a category has the values with similar averages.
    """
    varied = int(np.argmax(swept.average.std(axis=0)))
    ordered = isinstance(feature, Numeric)
    order = np.arange(len(swept.cells)) if ordered else np.argsort(swept.average[:, varied], kind="stable")
    if not ordered and len(order) <= MOST_GROUPS:
        parts = [np.array([place]) for place in range(len(order))]
    else:
        parts = [order[first:last] for first, last in _runs_of_equals(swept.average[order], swept.mass[order])]
    return tuple(_group(feature, swept, part) for part in parts)


def _group(feature: Feature, swept: Swept, part: NDArray[np.int64]) -> Group:
    cells = tuple(sorted(swept.cells[part].tolist()))
    mass = swept.mass[part]
    weight = mass if mass.any() else np.ones(len(part))
    values = np.average(swept.average[part], axis=0, weights=weight)
    return Group(
        short_phrase(feature, cells), cells, float(mass.sum()), tuple(values.tolist()), None, *_ends(feature, cells)
    )


def _ends(feature: Feature, cells: Sequence[int]) -> tuple[float | None, float | None]:
    """Return where the range of a number's cells starts and ends; two times None for a category."""
    if not isinstance(feature, Numeric):
        return None, None
    edges = (feature.lower, *feature.edges, feature.upper)
    return edges[min(cells)], edges[max(cells) + 1]


def _runs_of_equals(average: Reals, mass: Reals) -> list[tuple[int, int]]:
    """Return runs of neighbours, each by its first place and the place after its last.

    The two neighbouring runs that differ least are joined until at most MOST_GROUPS are left and no two neighbours are
    equal. The difference of two runs is what joining them adds to the sum of squares (Ward 1963).
    """
    starts = np.arange(len(average))
    weight, middle = np.maximum(mass, 1e-12), average
    while len(starts) > 1:
        costs = weight[:-1] * weight[1:] / (weight[:-1] + weight[1:]) * (np.diff(middle, axis=0) ** 2).sum(axis=1)
        best = int(np.argmin(costs))
        if len(starts) <= MOST_GROUPS and costs[best] > _SAME_AVERAGE**2:
            break
        pair = slice(best, best + 2)
        joined = np.average(middle[pair], axis=0, weights=weight[pair])
        middle = np.concatenate([middle[:best], joined[None, :], middle[best + 2 :]])
        weight = np.concatenate([weight[:best], [weight[pair].sum()], weight[best + 2 :]])
        starts = np.delete(starts, best + 1)
    return list(zip(starts.tolist(), [*starts[1:].tolist(), len(average)], strict=True))
