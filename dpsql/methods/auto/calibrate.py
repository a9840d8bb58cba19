"""Makes probabilities mean what they say: one temperature, from noisy counts of how sure and how right a model is.

Dividing all log shares by a temperature makes a model less sure (above 1) or more (below), and changes no label. Its
log loss at each temperature is a sum over the counted cells, so the standard deviation of the noise on the difference
of two losses is known: a temperature other than 1 is taken only where it gains more than twice that deviation. (The
model was learned from the rows that are asked here, which makes it look right a little too often: one more reason to
move with care.)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.session import Session
from dpsql.methods.base import Trained
from dpsql.trees.score_grid import POINTS
from dpsql.trees.voting import VotingForest

#: The temperatures that are tried.
TEMPERATURES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.15, 1.3, 1.5, 1.75, 2.0, 2.5, 3.0)
#: A gain must be this many standard deviations of its noise.
CARE = 2.0
Floats = NDArray[np.float64]


def calibrate(session: Session, released: VotingForest) -> Trained:
    """Ask for the counts of step "calibration" and return the forest at the temperature that follows from them."""
    noisy_counts = session.score_counts("calibration", released, session.schema.features, confidence_alone=True)
    deviation = session.deviation("calibration")
    best = temperature(noisy_counts.astype(np.float64).reshape(2, -1), deviation)
    counts = {"counts": noisy_counts.reshape(2, -1).tolist(), "deviation": round(float(deviation), 3)}
    return Trained(
        replace(released, nat=max(1, round(released.nat * best))), {"temperature": best, "calibration": counts}
    )


def temperature(noisy_counts: Floats, deviation: float) -> float:
    """Return the temperature with the least log loss that stands out of the noise.

    The counts are of rows whose event did not happen and of those whose event did, by the event's probability. With two
    classes the event is that a row has the second class; with more it is that the class that the model names is right.

    >>> sure = np.zeros((2, len(POINTS))); sure[:, -3] = 4000, 6000  # says 0.98, right in 60 of 100
    >>> temperature(sure, 1.0), temperature(sure, 1e6)
    (3.0, 1.0)
    """
    odds = np.log(np.array(POINTS)) - np.log1p(-np.array(POINTS))
    usual = _losses(odds)
    best, gain = 1.0, 0.0
    for candidate in TEMPERATURES:
        saved = usual - _losses(odds / candidate)  # log loss that a row of each cell saves
        sure_gain = float((noisy_counts * saved).sum()) - CARE * deviation * float(np.sqrt((saved**2).sum()))
        if sure_gain > gain:
            best, gain = candidate, sure_gain
    return best


def _losses(odds: Floats) -> Floats:
    """Return the log loss of an event that does not happen, and of one that does, at each log odds."""
    return np.stack([np.logaddexp(0, odds), np.logaddexp(0, -odds)])
