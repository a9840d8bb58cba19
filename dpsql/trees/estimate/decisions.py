"""From probabilities to decisions: a threshold for one class, weights of classes, the few most probable classes.

With class weights the label is the class whose weight times probability is the largest. Where a weight is what a row of
its class costs when it is named otherwise, and probabilities mean what they say, that label costs the least on average.
For two classes, weights are a threshold: with weight w of the second class it is named above a probability of
1 / (1 + w), and a threshold names it at exactly that probability too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.trees.voting import Weights

Shares = NDArray[np.float64]


@dataclass(frozen=True)
class Threshold:
    """The class `number` is named where its probability is at least `least`, else the best of the others."""

    number: int
    least: float


@dataclass(frozen=True)
class ClassWeights:
    """The class whose weight times probability is the largest is named, the first among equals."""

    weights: tuple[float, ...]


#: How a label follows from a row's probabilities; without one it is the class with the highest score.
Decision = Threshold | ClassWeights


def decide(decision: Decision, scores: Weights, shares: Shares) -> NDArray[np.int64]:
    """Return the number of each row's class, from its scores and probabilities (rows × classes).

    >>> decide(ClassWeights((1, 3)), np.array([[7, 3], [9, 1]]), np.array([[0.7, 0.3], [0.9, 0.1]])).tolist()
    [1, 0]
    """
    if isinstance(decision, Threshold):
        return past_threshold(scores, shares, decision.number, decision.least)
    return np.argmax(shares * np.array(decision.weights), axis=1)


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
