"""How good predicted shares of classes are: balanced accuracy, AUC, log loss, Brier score, as scikit-learn has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Numbers = NDArray[Any]
#: A share below this counts as this in the log loss: one impossible label must not make it infinite.
LEAST_SHARE = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Scores:
    """The figures of one set of rows; what cannot be said of them, such as the AUC of a single class, is None."""

    accuracy: float | None
    majority: float | None
    balanced_accuracy: float | None
    auc: float | None
    log_loss: float | None
    brier: float | None


def scores(truth: Numbers, shares: Numbers) -> Scores:
    """Return the figures of rows by their true class's number and their shares: a row each, a column for each class.

    >>> found = scores(np.array([0, 1, 1]), np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]))
    >>> round(found.accuracy, 2), found.balanced_accuracy, found.auc, round(found.brier, 2)
    (0.67, 0.75, 1.0, 0.14)
    """
    if len(truth) == 0:
        return Scores(None, None, None, None, None, None)
    right = np.argmax(shares, axis=1) == truth
    sizes = np.bincount(truth, minlength=shares.shape[1])
    return Scores(
        accuracy=float(right.mean()),
        majority=float(sizes.max() / len(truth)),
        balanced_accuracy=float(np.mean([right[truth == number].mean() for number in np.flatnonzero(sizes)])),
        auc=auc(truth, shares),
        log_loss=log_loss(truth, shares),
        brier=brier(truth, shares),
    )


def auc(truth: Numbers, shares: Numbers) -> float | None:
    """Return the chance that a row of a class has a larger share of it than another row; ties count half.

    Of two classes it is that of the second; of more, the mean over the classes, each against all others.
    """
    places = [1] if shares.shape[1] == 2 else range(shares.shape[1])
    areas = [area for place in places if (area := _against_others(truth == place, shares[:, place])) is not None]
    return float(np.mean(areas)) if areas else None


def _against_others(own: Numbers, share: Numbers) -> float | None:
    count = int(own.sum())
    pairs = count * (len(own) - count)
    if not pairs:
        return None
    ranks = pd.Series(share).rank().to_numpy()
    return float((ranks[own].sum() - count * (count + 1) / 2) / pairs)


def log_loss(truth: Numbers, shares: Numbers) -> float:
    """Return the mean of −log of the true class's share, a share of 0 counted as 2.2e-16.

    >>> round(log_loss(np.array([0, 1]), np.array([[0.5, 0.5], [1.0, 0.0]])), 2)
    18.37
    """
    true_shares = np.maximum(shares[np.arange(len(truth)), truth], LEAST_SHARE)
    return float(-np.log(true_shares).mean())


def brier(truth: Numbers, shares: Numbers) -> float:
    """Return the mean squared error of the second of two classes' share; of more classes, the sum of all errors."""
    errors = (shares - np.eye(shares.shape[1])[truth]) ** 2
    return float((errors[:, 1] if shares.shape[1] == 2 else errors.sum(axis=1)).mean())
