"""What a classifier does at each threshold of a class's probability: recall, precision, lift, cost.

Everything follows from how many rows of the class, and how many other rows, lie between two thresholds. On public rows
these counts are exact. On private rows they are the noisy counts of an evaluation (`trees/score_grid.py`), whose points
are few: a row between two points was counted at one of them, so a threshold halfway between two points stands for a
ramp from one to the other. Curves and costs are post-processing of those counts, and cost nothing more.

The cheapest of several thresholds is picked by the same noisy costs that are then shown. Its interval is therefore as
wide as if all thresholds had been asked for at once (Bonferroni): it holds whichever is picked.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpsql.models.figures import STEPS
from dpsql.models.noisy_figures import INTERVAL_DEVIATIONS, Estimate, mean_ratio
from dpsql.trees.score_grid import POINTS

Reals = NDArray[np.float64]
#: The chance that an interval does not hold its figure.
MISSES = 0.05
#: Thresholds of a curve that is shown as text or JSON.
SHOWN = tuple(step / 20 for step in range(1, 20))
#: The threshold that stands for naming no row: no probability reaches it.
NOBODY = 2.0
#: The columns of a curve.
COLUMNS = ("class", "threshold", "named", "recall", "precision", "lift", "false_positive_rate")
#: Columns of a curve of noisy rows: the ends of intervals.
_ENDS = ("recall_low", "recall_high", "precision_low", "precision_high")


@dataclass(frozen=True, eq=False)
class RowsByProbability:
    """Rows of one class, and all others, from each threshold up to the next one, in rising order from 0.

    `variance` is that of the noise on each count, 0 where counts are exact.
    """

    label: str
    thresholds: Reals
    positives: Reals
    negatives: Reals
    variance: float = 0.0


@dataclass(frozen=True)
class CheapestThreshold:
    """The threshold of `label` with the lowest mean cost of a row, and what the other ways to decide cost.

    `usual` is the cost of naming the more probable class, `always` and `never` that of naming `label` for every row or
    for none. A threshold of 0 names every row so, one above 1 none. On private rows each cost has a 95 % confidence
    interval; on public rows, which are exact, its ends are NaN.
    """

    label: str
    threshold: float
    cost: Estimate
    usual: Estimate
    always: Estimate
    never: Estimate

    def to_dict(self) -> dict[str, object]:
        """Return the figures as plain values; None stands for what has no value."""
        costs = {name: _plain(getattr(self, name)) for name in ("cost", "usual", "always", "never")}
        return {"class": self.label, "threshold": self.threshold, **costs}


def rows_on_grid(label: str, cells: Reals) -> RowsByProbability:
    """Return exact rows from counts on the grid of `STEPS` steps (cells × (rows of the class, others))."""
    filled = np.union1d(np.flatnonzero(cells.sum(axis=1) > 0), [0])
    return RowsByProbability(label, filled / STEPS, cells[filled, 0], cells[filled, 1])


def rows_at_points(label: str, positives: Reals, negatives: Reals, variance: float) -> RowsByProbability:
    """Return noisy rows from the counts at the points of a score grid; thresholds lie halfway between points."""
    points = np.array(POINTS)
    thresholds = np.concatenate([[0.0], (points[:-1] + points[1:]) / 2])
    return RowsByProbability(label, thresholds, positives, negatives, variance)


def curve(rows: RowsByProbability) -> pd.DataFrame:
    """Return what naming the class from each threshold on does; on noisy rows with the ends of 95 % intervals.

    `named` is the share of all rows that is named so, `lift` how many times as frequent the class is among them. A
    figure that has no value, or whose rows do not stand out from the noise, is NaN.

    >>> counts = RowsByProbability("yes", np.array([0, 0.5]), np.array([1.0, 3.0]), np.array([5.0, 1.0]))
    >>> curve(counts)[["threshold", "recall", "precision"]].to_dict("records")[1]
    {'threshold': 0.5, 'recall': 0.75, 'precision': 0.75}
    """
    if not rows.variance:
        return _exact_curve(rows)
    lines = [_noisy_point(rows, place) for place in range(len(rows.thresholds))]
    return pd.DataFrame(lines, columns=[*COLUMNS, *_ENDS])


def _exact_curve(rows: RowsByProbability) -> pd.DataFrame:
    positives, negatives = (np.cumsum(part[::-1])[::-1] for part in (rows.positives, rows.negatives))
    every_positive, every_negative = float(rows.positives.sum()), float(rows.negatives.sum())
    everything = every_positive + every_negative
    precision = _ratios(positives, positives + negatives)
    figures = (
        rows.label,
        rows.thresholds,
        _ratios(positives + negatives, everything),
        _ratios(positives, every_positive),
        precision,
        _ratios(precision * everything, every_positive),
        _ratios(negatives, every_negative),
    )
    return pd.DataFrame(dict(zip(COLUMNS, figures, strict=True)))


def _noisy_point(rows: RowsByProbability, place: int) -> dict[str, object]:
    counts, steps = np.concatenate([rows.positives, rows.negatives]), len(rows.thresholds)
    is_class, is_named = np.arange(2 * steps) < steps, np.tile(np.arange(steps) >= place, 2)
    everything = np.ones(2 * steps, bool)

    def ratio(top: NDArray[np.bool_], bottom: NDArray[np.bool_]) -> Estimate:
        return mean_ratio(counts, top.astype(float)[None], bottom.astype(float)[None], rows.variance)

    recall, precision = ratio(is_named & is_class, is_class), ratio(is_named & is_class, is_named)
    figures = (
        rows.label,
        float(rows.thresholds[place]),
        ratio(is_named, everything).value,
        recall.value,
        precision.value,
        float(_ratios(precision.value, ratio(is_class, everything).value)),
        ratio(is_named & ~is_class, ~is_class).value,
    )
    ends = (recall.low, recall.high, precision.low, precision.high)
    return dict(zip((*COLUMNS, *_ENDS), (*figures, *ends), strict=True))


def cheapest(rows: RowsByProbability, *, missed: float, false_alarm: float) -> CheapestThreshold:
    """Return the threshold with the lowest mean cost of a row; of several the one that is nearest to 1/2.

    `missed` is what a row of the class costs when it is not named so, `false_alarm` what another row costs when it is.

    >>> counts = RowsByProbability("yes", np.array([0, 0.2, 0.5]), np.array([1.0, 2, 3]), np.array([9.0, 2, 1]))
    >>> found = cheapest(counts, missed=5, false_alarm=1)
    >>> found.threshold, round(found.cost.value, 3), round(found.usual.value, 3)
    (0.2, 0.444, 0.889)
    """
    steps = len(rows.thresholds)
    thresholds = np.append(rows.thresholds, NOBODY)
    missed_rows = np.append(0.0, np.cumsum(rows.positives))
    alarms = np.append(np.cumsum(rows.negatives[::-1])[::-1], 0.0)
    costs = missed * missed_rows + false_alarm * alarms
    ties = np.flatnonzero(costs <= costs.min() + 1e-9 * max(abs(costs.min()), 1))
    best = int(ties[np.argmin(np.abs(thresholds[ties] - 0.5))])
    half = int(np.searchsorted(rows.thresholds, 0.5))
    together = NormalDist().inv_cdf(1 - MISSES / (2 * len(costs)))

    def cost(place: int, deviations: float = INTERVAL_DEVIATIONS) -> Estimate:
        if not rows.variance:
            return exact(float(_ratios(costs[place], rows.positives.sum() + rows.negatives.sum())))
        named = np.arange(steps) >= place
        tops = np.concatenate([missed * ~named, false_alarm * named])[None]
        counts, most = np.concatenate([rows.positives, rows.negatives]), max(missed, false_alarm)
        everything = np.ones((1, 2 * steps))
        return mean_ratio(counts, tops, everything, rows.variance, most=most, deviations=deviations)

    others = (cost(place) for place in (half, 0, steps))
    return CheapestThreshold(rows.label, float(thresholds[best]), cost(best, together), *others)


def exact(value: float) -> Estimate:
    """Return a figure of public rows, which has no interval."""
    return Estimate(value, float("nan"), float("nan"))


def shown_points(points: pd.DataFrame, thresholds: tuple[float, ...] = SHOWN) -> pd.DataFrame:
    """Return the lines of a curve that hold at the thresholds to show; a curve of few points is returned whole."""
    if len(points) <= len(POINTS):
        return points
    places = np.searchsorted(points["threshold"].to_numpy(), np.array(thresholds), side="left")
    inside = places < len(points)
    return points.iloc[places[inside]].assign(threshold=np.array(thresholds)[inside])


def _plain(estimate: Estimate) -> dict[str, float | None]:
    values = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    return {name: None if np.isnan(value) else float(value) for name, value in values.items()}


def _ratios(parts: Reals | float, totals: Reals | float) -> Reals:
    """Return parts / totals, NaN where a total is not above 0."""
    totals = np.asarray(totals, float)
    return np.where(totals > 0, parts / np.where(totals > 0, totals, 1), np.nan)
