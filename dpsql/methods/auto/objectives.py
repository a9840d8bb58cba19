"""What a model of `auto` is to be good at, and how the private choice of a mixture and the last step follow from it.

A mixture labels a row with the class of the highest score. Taking λ times the log of each class's share off the scores,
and giving a row of a class with share s the gain s^−λ where it is labelled right, asks how well a mixture does where
classes cost s^−λ: λ = 0 counts rows that are right, λ = 1 gives all classes the same say. Each is a proper rule: a
mixture that knows the true probabilities is worth the most.

| objective | λ |
|---|---|
| accuracy, log-loss | 0 |
| balanced | 1, and the model's own scores have the classes' shares taken off |
| auc | 0 and 1, added up |

AUC and log loss themselves change by more than a row is worth when a row is added, so they are not asked. Measured on
eleven tables, five of them with a class of 88 to 95 %, at epsilon 0.2 and 1 (three splits): with λ = 0 and 1 the AUC is
0.016 and 0.003 below that of the best mixture, with λ = 0 alone 0.018 and 0.006, with λ = 1 alone 0.016 and 0.004, but
λ = 1 alone costs 1.4 points of accuracy. No λ gives a log loss clearly below that of λ = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpsql.trees.voting import VotingForest

#: The default: accuracy, or AUC where about `SKEWED` of the rows have one class.
USUAL = "usual"
ACCURACY = "accuracy"
BALANCED = "balanced"
AUC = "auc"
LOG_LOSS = "log-loss"
OBJECTIVES = (USUAL, ACCURACY, BALANCED, AUC, LOG_LOSS)
#: Where one class has this share of the rows, nearly all mixtures label as many rows right.
SKEWED = 0.8
#: The values of λ that an objective asks for.
_EXPONENTS = {ACCURACY: (0,), LOG_LOSS: (0,), BALANCED: (1,), AUC: (0, 1)}
#: The gain of the rarest class for one λ. Gains are whole numbers.
GAIN_ONE = 512

Floats = NDArray[np.float64]


def choose_objective(asked: str, log_shares: Floats) -> str:
    """Return the objective of a run: what was asked, or what fits the noisy shares of the classes.

    >>> choose_objective("usual", np.log([0.5, 0.5])), choose_objective("usual", np.log([0.9, 0.1]))
    ('accuracy', 'auc')
    """
    if asked != USUAL:
        return asked
    return AUC if float(np.exp(log_shares.max())) >= SKEWED else ACCURACY


def exponents(objective: str) -> Sequence[int]:
    """Return the values of λ that an objective asks for.

    >>> exponents("auc")
    (0, 1)
    """
    return _EXPONENTS[objective]


def class_gains(exponent: int, log_shares: Floats) -> NDArray[np.int64]:
    """Return what a row of each class is worth where it is labelled right, from 1 to `GAIN_ONE`.

    >>> class_gains(1, np.log([0.75, 0.25])), class_gains(0, np.log([0.75, 0.25]))
    (array([171, 512]), array([512, 512]))
    """
    powers = np.exp(-exponent * (log_shares - log_shares.min()))
    return np.maximum(1, np.rint(GAIN_ONE * powers)).astype(np.int64)


def balance_scores(released: VotingForest, log_shares: Floats) -> VotingForest:
    """Return a forest of log scores with the logs of the classes' shares taken off: all classes have the same say."""
    weights = released.weights.copy()
    weights[: released.forest.first_leaf[1]] -= np.rint(released.nat * log_shares).astype(np.int64)
    return replace(released, weights=weights)


def balance_votes(released: VotingForest, log_shares: Floats) -> VotingForest:
    """Return a forest whose votes for a class are divided by the class's share, that of the rarest class taken as 1."""
    return replace(released, weights=np.rint(released.weights * np.exp(log_shares.min() - log_shares)).astype(np.int64))
