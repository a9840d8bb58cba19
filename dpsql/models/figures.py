"""Figures of a classifier from counts: pure functions, checked against scikit-learn. A figure that has no value is NaN.

A confusion table has a row for each true class and a column for each predicted one. Classes that do not occur are left
out of means over classes; where nothing is left, the mean is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
#: How many bins of predicted probability a reliability table of public rows has.
BINS = 10
#: How many steps from 0 to 1 the thresholds of public rows make.
STEPS = 10_000
#: Added to a probability times `STEPS`, so that rounding does not take a probability of 0.57 below the step 0.57.
STEP_SLACK = 1e-6
#: Probabilities below this count as this in the log loss: one impossible label must not make it infinite.
LEAST_PROBABILITY = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Tally:
    """Sums over the rows with a known label, from which every figure follows, whatever the number of rows.

    `confusion` counts true × predicted classes; `log_loss` and `brier` are sums over rows. `ranks` has for each class
    the Mann–Whitney sum of its probability, the number of rows of the class and the number of other rows. `bins` has
    for each bin the number of rows, the sum of predicted probabilities and the number of hits. `ladders` has for each
    class that a curve is drawn of (the second of two, else all) its rows and the others on the grid of `STEPS` steps.
    """

    confusion: Reals
    log_loss: float
    brier: float
    ranks: Reals
    bins: Reals
    ladders: dict[int, Reals]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.confusion.sum())


def tally_rows(truth: NDArray[np.int64], predicted: NDArray[np.int64], shares: Reals) -> Tally:
    """Return the tally of rows, given their true and predicted class numbers and the probability of each class."""
    classes = shares.shape[1]
    confusion = np.zeros((classes, classes))
    np.add.at(confusion, (truth, predicted), 1)
    of_truth = shares[np.arange(len(truth)), truth]
    ranks = np.array([_ranks(shares[:, number], truth == number) for number in range(classes)])
    score, hit = (shares[:, 1], truth == 1) if classes == 2 else (shares.max(axis=1), truth == predicted)
    place = np.minimum(np.floor(score * BINS).astype(np.int64), BINS - 1)
    columns = [np.bincount(place, weights, BINS) for weights in (np.ones(len(truth)), score, hit.astype(float))]
    losses = (1 - 2 * of_truth + (shares**2).sum(axis=1)) * (0.5 if classes == 2 else 1)
    surprise = -np.log(np.maximum(of_truth, LEAST_PROBABILITY))
    ladders = {number: _ladder(shares[:, number], truth == number) for number in curve_classes(classes)}
    return Tally(confusion, float(surprise.sum()), float(losses.sum()), ranks, np.stack(columns, axis=1), ladders)


def curve_classes(classes: int) -> range:
    """Return the numbers of the classes that have a curve of their own: the second of two, else all.

    >>> list(curve_classes(2)), list(curve_classes(3))
    ([1], [0, 1, 2])
    """
    return range(1, 2) if classes == 2 else range(classes)


def _ladder(share: Reals, hit: NDArray[np.bool_]) -> Reals:
    """Return how many rows of a class and how many others have a probability from each step on to the next."""
    place = np.floor(share * STEPS + STEP_SLACK).astype(np.int64)
    return np.stack([np.bincount(place, weights, STEPS + 1) for weights in (hit, ~hit)], axis=1).astype(float)


def accuracy(confusion: Reals) -> float:
    """Return the share of rows that are named right.

    >>> accuracy(np.array([[8.0, 2.0], [1.0, 9.0]]))
    0.85
    """
    return _ratio(float(np.trace(confusion)), float(confusion.sum()))


def recalls(confusion: Reals) -> Reals:
    """Return the share of each class's rows that are named right; NaN for a class without rows."""
    return _ratios(np.diag(confusion), confusion.sum(axis=1))


def precisions(confusion: Reals) -> Reals:
    """Return the share of the rows named as each class that are of the class; NaN where no row is named so."""
    return _ratios(np.diag(confusion), confusion.sum(axis=0))


def f1_scores(confusion: Reals) -> Reals:
    """Return the F1 score of each class: 2·right / (rows of the class + rows named so); NaN where there are neither."""
    return _ratios(2 * np.diag(confusion), confusion.sum(axis=1) + confusion.sum(axis=0))


def auc(positives: Reals, negatives: Reals) -> float:
    """Return the area under the ROC curve from counts in rising order of probability; rows of one bin are ties.

    >>> auc(np.array([1.0, 2.0, 5.0]), np.array([6.0, 2.0, 0.0]))
    0.890625
    """
    below = np.cumsum(negatives) - negatives / 2
    return _ratio(float(positives @ below), float(positives.sum() * negatives.sum()))


def mean_auc(ranks: Reals) -> float:
    """Return the AUC of the second of two classes, or the mean of all classes, each against the rest."""
    auc_of_classes = _ratios(ranks[:, 0], ranks[:, 1] * ranks[:, 2])
    return float(auc_of_classes[1]) if len(auc_of_classes) == 2 else mean(auc_of_classes)


def calibration_error(bins: Reals) -> float:
    """Return the expected calibration error: how far predicted and observed shares are apart, weighted by rows.

    >>> calibration_error(np.array([[10.0, 1.0, 2.0], [10.0, 9.0, 9.0]]))
    0.05
    """
    return _ratio(float(np.abs(bins[:, 1] - bins[:, 2]).sum()), float(bins[:, 0].sum()))


def mean(values: Reals | Sequence[float]) -> float:
    """Return the mean of the values that are not NaN; NaN where none is."""
    numbers = np.asarray(values, float)
    numbers = numbers[~np.isnan(numbers)]
    return float(numbers.mean()) if len(numbers) else float("nan")


def _ranks(score: Reals, hit: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Return the Mann–Whitney sum (pairs in the right order, where a tie counts half), the hits and the other rows."""
    values, place = np.unique(score, return_inverse=True)
    positives = np.bincount(place, hit, len(values)).astype(float)
    negatives = np.bincount(place, ~hit, len(values)).astype(float)
    below = np.cumsum(negatives) - negatives / 2
    return float(positives @ below), float(hit.sum()), float((~hit).sum())


def _ratio(part: float, total: float) -> float:
    return part / total if total else float("nan")


def _ratios(parts: Reals, totals: Reals) -> Reals:
    return np.where(totals > 0, parts / np.where(totals > 0, totals, 1), np.nan)
