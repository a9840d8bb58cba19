"""Figures from noisy counts, with 95 % confidence intervals that allow for both the noise and the sampling of rows.

A figure is a ratio of sums over cells, or a mean of such ratios, or AUC. Negative noisy counts stay as they are, so
that noise cancels in sums; cutting counts off at 0 would add a bias. Intervals follow by the delta method. Let g be the
derivative of a figure by the count of a cell. Rows are taken as a sample from a population, so a count n has a sampling
variance of about n, and noise of variance v on top. The variance of the figure is Σ g²·(n + v), and the interval is
1.96 standard deviations to both sides. A ratio whose denominator is within three standard deviations of its own noise
has no value: there are too few rows to say anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpsql.trees.score_grid import BRIER_SCORES, LOG_LOSSES, LOWER, POINTS, UPPER, ScoreGrid

Reals = NDArray[np.float64]
#: The number of points of probability.
_BINS = len(POINTS)
#: The points of probability as an array.
_POINTS = np.array(POINTS)
#: Which points lie in each tenth of probability, for the reliability table.
_TENTHS = [np.minimum(np.floor(_POINTS * 10 + 1e-9), 9) == tenth for tenth in range(10)]


def _values(loss: Callable[[Reals], Reals]) -> Reals:
    """Return the loss that each point stands for, so that the loss of a row between points is right on average.

    A row is counted at one of the two points around it, drawn so that its expected loss lies on the straight line
    between the two points' values. A line through the loss at the points themselves would lie above a convex loss
    everywhere between them, so the values are those of the line that is closest to the loss by least squares. It is
    weighted by the probability, as the rows of a class are when probabilities are well calibrated.
    """
    values = []
    for points in (np.array(LOWER), np.array(UPPER)):
        inside = np.concatenate([np.linspace(low, high, 50) for low, high in pairwise(points)])
        hats = np.stack([np.interp(inside, points, hat) for hat in np.eye(len(points))], axis=1)
        weight = np.sqrt(inside)[:, None]
        values.append(np.linalg.lstsq(hats * weight, loss(inside) * weight[:, 0])[0])
    return np.concatenate(values)


#: The log loss at each point, where the class whose probability it is is the true one.
_LOG_LOSS = _values(lambda share: -np.log(share))
#: The squared error at each point, in the same case.
_SQUARE = _values(lambda share: (1 - share) ** 2)
#: Standard deviations from a figure to each end of its interval, which then holds 95 % of a normal distribution.
INTERVAL_DEVIATIONS = 1.96
#: Standard deviations of its own noise by which a denominator must be above 0 for its ratio to have a value.
CLEAR_DEVIATIONS = 3.0


@dataclass(frozen=True)
class Estimate:
    """A figure and its 95 % confidence interval; `value` is NaN where there are too few rows to say anything."""

    value: float
    low: float
    high: float


#: The estimate of a figure that has no value.
UNKNOWN = Estimate(float("nan"), float("nan"), float("nan"))


@dataclass(frozen=True, eq=False)
class NoisyFigures:
    """Figures from noisy counts: estimates by name, the noisy confusion table, figures by class, the reliability table.

    `by_class` has F1, precision and recall of each class, in the order of classes. `halves` are, for two classes, the
    noisy counts of rows of the second class and of the first, at each point of probability.

    `reliability` has a row for each tenth of probability: the mean predicted probability, the observed share, the two
    ends of its interval, and the number of rows.
    """

    estimates: dict[str, Estimate]
    confusion: Reals
    by_class: dict[str, list[Estimate]]
    reliability: Reals
    calibration_error: float
    halves: tuple[Reals, Reals] | None = None


def noise_variance(scale: float) -> float:
    """Return the variance of discrete Laplace noise of a scale.

    >>> round(noise_variance(10), 2)
    199.83
    """
    ratio = float(np.exp(-1 / scale))
    return 2 * ratio / (1 - ratio) ** 2


def noisy_figures(noisy_counts: NDArray[np.int64], classes: int, scale: float) -> NoisyFigures:
    """Return all figures from the noisy counts of a `ScoreGrid`; `scale` is that of the noise on each count."""
    grid, variance = ScoreGrid(classes), noise_variance(scale)
    if classes == 2:
        return _two_class_figures(grid.part(noisy_counts, "binary").reshape(2, _BINS), variance)
    return _many_class_figures({name: grid.part(noisy_counts, name) for name, _ in grid.histograms}, classes, variance)


def mean_ratio(
    counts: Reals,
    tops: Reals,
    bottoms: Reals,
    variance: float,
    *,
    most: float = 1.0,
    deviations: float = INTERVAL_DEVIATIONS,
) -> Estimate:
    """Return the mean of the ratios (tops @ counts) / (bottoms @ counts) that have a clear denominator.

    `tops` and `bottoms` are ratios × cells; figures are from 0 to `most`. A ratio without a clear denominator may have
    any value or none at all, and the interval is widened by as far as that could move the mean. Its ends are
    `deviations` standard deviations away.
    """
    below = bottoms @ counts
    clear = below > CLEAR_DEVIATIONS * np.sqrt(variance * (bottoms**2).sum(axis=1))
    if not clear.any():
        return UNKNOWN
    tops, bottoms, below = tops[clear], bottoms[clear], below[clear]
    values = (tops @ counts) / below
    slope = ((tops - values[:, None] * bottoms) / below[:, None]).mean(axis=0)
    estimate = _interval_around(float(values.mean()), slope, counts, variance, most, deviations=deviations)
    if clear.all():
        return estimate
    share = float(clear.mean())
    return Estimate(estimate.value, estimate.low * share, estimate.high * share + most * (1 - share))


def noisy_auc(positives: Reals, negatives: Reals, variance: float) -> Estimate:
    """Return the area under the ROC curve of counts in rising order of probability; rows of one bin are ties."""
    totals = np.array([positives.sum(), negatives.sum()])
    if (totals <= CLEAR_DEVIATIONS * np.sqrt(variance * len(positives))).any():
        return UNKNOWN
    below = np.cumsum(negatives) - negatives / 2
    above = positives.sum() - np.cumsum(positives) + positives / 2
    value = float(positives @ below) / float(totals.prod())
    slope = np.concatenate([below / totals.prod() - value / totals[0], above / totals.prod() - value / totals[1]])
    pairs = len(positives) * (len(positives) - 1) / 2 + len(positives) / 4
    both = pairs * (variance / float(totals.prod())) ** 2  # noise times noise: the slope leaves it out
    return _interval_around(value, slope, np.concatenate([positives, negatives]), variance, 1.0, more=both)


def _two_class_figures(counts: Reals, variance: float) -> NoisyFigures:
    """Return the figures of two classes: true class × point of the second one's probability."""
    flat = counts.ravel()
    upper = np.arange(_BINS) >= len(LOWER)
    named = np.stack([~upper, upper]).astype(float)
    confusion = counts @ named.T
    cells = np.zeros((2, 2, 2 * _BINS))  # the cells that each entry of the confusion table adds up
    for true in range(2):
        for predicted in range(2):
            cells[true, predicted, true * _BINS : (true + 1) * _BINS] = named[predicted]
    losses = np.concatenate([_LOG_LOSS[::-1], _LOG_LOSS])
    squares = np.concatenate([_SQUARE[::-1], _SQUARE])
    everything = np.ones((1, 2 * _BINS))
    estimates = _of_confusion(flat, cells, variance) | {
        "auc": noisy_auc(counts[1], counts[0], variance),
        "log_loss": mean_ratio(flat, losses[None], everything, variance, most=np.inf),
        "brier": mean_ratio(flat, squares[None], everything, variance),
    }
    table = _reliability(counts[1], counts[0], variance)
    return NoisyFigures(
        estimates,
        confusion,
        _by_class(flat, cells, variance),
        table,
        _calibration_error(counts[1], counts[0], variance),
        (counts[1], counts[0]),
    )


def _many_class_figures(parts: dict[str, Reals], classes: int, variance: float) -> NoisyFigures:
    """Return the figures of more than two classes; accuracy is from the histogram with fewer cells, so less noise."""
    flat = parts["confusion"]
    cells = np.eye(classes**2).reshape(classes, classes, classes**2)
    wrong, right = parts["confidence"].reshape(2, _BINS)
    estimates = _of_confusion(flat, cells, variance)
    if classes**2 > 2 * _BINS:
        hits = np.concatenate([np.zeros(_BINS), np.ones(_BINS)])[None]
        estimates["accuracy"] = mean_ratio(parts["confidence"], hits, np.ones((1, 2 * _BINS)), variance)
    estimates["rows"] = _total(parts["brier"], variance)
    estimates["auc"] = UNKNOWN
    for name, points, most in (("log_loss", LOG_LOSSES, np.inf), ("brier", BRIER_SCORES, 2.0)):
        estimates[name] = mean_ratio(parts[name], np.array([points]), np.ones((1, len(points))), variance, most=most)
    table = _reliability(right, wrong, variance)
    confusion = flat.reshape(classes, classes)
    return NoisyFigures(
        estimates, confusion, _by_class(flat, cells, variance), table, _calibration_error(right, wrong, variance)
    )


def _of_confusion(flat: Reals, cells: Reals, variance: float) -> dict[str, Estimate]:
    """Return the figures of a confusion table; `cells` has the cells that each of its entries adds up."""
    right = np.einsum("kkm->km", cells)
    true, everything = cells.sum(axis=1), cells.sum(axis=(0, 1))[None]
    largest = true[[int(np.argmax(true @ flat))]]
    return {
        "rows": _total(flat, variance),
        "accuracy": mean_ratio(flat, right.sum(axis=0)[None], everything, variance),
        "majority_class_share": mean_ratio(flat, largest, everything, variance),
        "balanced_accuracy": mean_ratio(flat, right, true, variance),
        "f1": mean_ratio(flat, 2 * right, true + cells.sum(axis=0), variance),
    }


def _by_class(flat: Reals, cells: Reals, variance: float) -> dict[str, list[Estimate]]:
    """Return F1, precision and recall of each class."""
    right, true, named = np.einsum("kkm->km", cells), cells.sum(axis=1), cells.sum(axis=0)
    ratios = {"f1": (2 * right, true + named), "precision": (right, named), "recall": (right, true)}
    return {
        name: [mean_ratio(flat, tops[[k]], bottoms[[k]], variance) for k in range(len(cells))]
        for name, (tops, bottoms) in ratios.items()
    }


def _total(counts: Reals, variance: float) -> Estimate:
    """Return the number of rows, with an interval for the noise alone: it is a count, not an estimate from a sample."""
    value, reach = float(counts.sum()), INTERVAL_DEVIATIONS * float(np.sqrt(variance * len(counts)))
    return Estimate(value, max(value - reach, 0.0), value + reach)


def _reliability(hits: Reals, misses: Reals, variance: float) -> Reals:
    """Return predicted, observed, low, high and rows for each tenth of probability that has clearly more than noise."""
    lines = []
    for tenth in _TENTHS:
        pairs = np.concatenate([hits[tenth], misses[tenth]])
        ones, count = np.ones((1, len(pairs))), int(tenth.sum())
        share = mean_ratio(pairs, (np.arange(len(pairs)) < count)[None].astype(float), ones, variance)
        predicted = mean_ratio(pairs, np.tile(_POINTS[tenth], 2)[None], ones, variance)
        if not np.isnan(share.value):
            lines.append((predicted.value, share.value, share.low, share.high, pairs.sum()))
    return np.array(lines, np.float64).reshape(len(lines), 5)


def _calibration_error(hits: Reals, misses: Reals, variance: float) -> float:
    """Return the expected calibration error over tenths, after subtracting what noise adds to the square of each."""
    rows = float((hits + misses).sum())
    if rows <= CLEAR_DEVIATIONS * np.sqrt(variance * 2 * _BINS):
        return float("nan")
    apart = (1 - _POINTS) * hits - _POINTS * misses
    noise = variance * ((1 - _POINTS) ** 2 + _POINTS**2)
    squares = [float(apart[tenth].sum()) ** 2 - float(noise[tenth].sum()) for tenth in _TENTHS]
    return float(np.sqrt(np.maximum(squares, 0)).sum() / rows)


def _interval_around(
    value: float,
    slope: Reals,
    counts: Reals,
    variance: float,
    most: float,
    *,
    more: float = 0.0,
    deviations: float = INTERVAL_DEVIATIONS,
) -> Estimate:
    """Return a value from 0 to `most` with its interval: the delta method, with `more` added to the variance."""
    spread = float(np.sqrt((slope**2 * (np.maximum(counts, 0) + variance)).sum() + more))
    low, high = (min(max(value + side * deviations * spread, 0.0), most) for side in (-1, 1))
    return Estimate(min(max(value, 0.0), most), low, high)
