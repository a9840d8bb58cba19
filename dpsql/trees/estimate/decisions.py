"""From probabilities to decisions: a threshold for one class, and the few most probable classes of each row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsql.trees.voting import Weights

Shares = NDArray[np.float64]


def past_threshold(scores: Weights, shares: Shares, number: int, least: float) -> NDArray[np.int64]:
    """Return the class `number` where its share is at least `least`, else the best of the others.

    >>> past_threshold(np.array([[7, 3], [9, 1]]), np.array([[0.7, 0.3], [0.9, 0.1]]), 1, 0.3).tolist()
    [1, 0]
    """
    others = scores.copy()
    others[:, number] = np.iinfo(np.int64).min
    return np.where(shares[:, number] >= least, number, np.argmax(others, axis=1))


def most_probable(shares: Shares, best: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the numbers of each row's most probable classes (rows × `count`); among equal ones `best` comes first.

    >>> most_probable(np.array([[0.2, 0.4, 0.4]]), np.array([2]), 2).tolist()
    [[2, 1]]
    """
    rows = np.arange(len(shares))[:, None]
    second = np.ones(shares.shape)
    second[rows[:, 0], best] = 0
    return np.lexsort((second, -shares), axis=1)[:, :count]
