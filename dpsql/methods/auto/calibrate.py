"""Makes probabilities mean what they say: one temperature, from noisy counts of how sure and how right a model is.

Dividing all log shares by a temperature makes a model less sure (above 1) or more (below), and changes no label. Its
log loss at each temperature is a sum over the counted cells, so the noise on the difference of two is known: a
temperature other than 1 is taken only where it gains more than twice that noise. (The rows that are asked shaped the
model too, which makes it look a little too right: one more reason to move with care.)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.session import Session
from dpsql.methods.base import Trained
from dpsql.trees.score_grid import POINTS
from dpsql.trees.voting import VotingForest

TEMPERATURES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.15, 1.3, 1.5, 1.75, 2.0, 2.5, 3.0)
#: How many standard deviations of its noise a gain must have.
CARE = 2.0
Floats = NDArray[np.float64]


def calibrate(session: Session, released: VotingForest) -> Trained:
    """Ask for the counts of step "calibration" and return the forest at the temperature that they tell."""
    noisy_counts = session.score_counts("calibration", released, session.schema.features, confidence_alone=True)
    found = temperature(noisy_counts.astype(np.float64).reshape(2, -1), session.deviation("calibration"))
    return Trained(replace(released, nat=max(1, round(released.nat * found))), {"temperature": found})


def temperature(noisy_counts: Floats, deviation: float) -> float:
    """Return the temperature with the least log loss that stands out of the noise.

    The counts are of rows whose event did not happen and of those whose event did, by the event's probability. Of two
    classes the event is the second class, of more it is that the named class is right.

    >>> sure = np.zeros((2, len(POINTS))); sure[:, -3] = 4000, 6000  # says 0.98, right in 60 of 100
    >>> temperature(sure, 1.0), temperature(sure, 1e6)
    (3.0, 1.0)
    """
    odds = np.log(np.array(POINTS)) - np.log1p(-np.array(POINTS))
    usual = _losses(odds)
    best, gain = 1.0, 0.0
    for one in TEMPERATURES:
        apart = usual - _losses(odds / one)
        found = float((noisy_counts * apart).sum()) - CARE * deviation * float(np.sqrt((apart**2).sum()))
        if found > gain:
            best, gain = one, found
    return best


def _losses(odds: Floats) -> Floats:
    """Return the log loss of an event that does not happen, and of one that does, at each log odds."""
    return np.stack([np.logaddexp(0, odds), np.logaddexp(0, -odds)])
