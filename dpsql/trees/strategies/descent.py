"""Finds a local minimum of a smooth function from its values and gradients.

The algorithm is limited-memory BFGS (Nocedal & Wright 2006, section 7.2).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from dpsql.trees.strategies.strategy import Floats

#: A function of a point that returns its value and its gradient there.
Slope = Callable[[Floats], tuple[float, Floats]]
#: A step from one point to the next, and the change of the gradient over it.
Step = tuple[Floats, Floats]
#: The number of earlier steps from which the curvature is estimated.
MEMORY = 12
#: A step must lower the value by at least this share of what the gradient promises for its length.
_LEAST_DESCENT = 1e-4
#: The descent ends when a step lowers the value by less than this share of it.
_LEAST_GAIN = 1e-8
#: The number of lengths that are tried along one direction, each half of the one before.
_HALVINGS = 30


def descend(slope: Slope, start: Floats, *, steps: int, go_on: Callable[[], bool] = lambda: True) -> Floats:
    """Return a point from which no step leads further down.

    The descent ends early after `steps` steps, or when `go_on()` is false; the lowest point so far is then returned.

    >>> descend(lambda x: (float(((x - 3) ** 2).sum()), 2 * (x - 3)), np.zeros(2), steps=50).round(6).tolist()
    [3.0, 3.0]
    """
    here, (value, gradient) = start, slope(start)
    past: deque[Step] = deque(maxlen=MEMORY)
    for _ in range(steps):
        if not go_on():
            break
        lower_point = _lower_point(slope, here, value, gradient, _direction(gradient, past), go_on)
        if lower_point is None and past:
            past.clear()  # the earlier steps mislead: go straight down the gradient from here
            continue
        if lower_point is None:
            break
        next_point, next_value, next_gradient = lower_point
        if float((next_point - here) @ (next_gradient - gradient)) > 0:
            past.append((next_point - here, next_gradient - gradient))
        gained = value - next_value
        here, value, gradient = next_point, next_value, next_gradient
        if gained <= _LEAST_GAIN * abs(value):
            break
    return here


def _direction(gradient: Floats, past: deque[Step]) -> Floats:
    """Return the direction of the next step: downhill, corrected by the curvature that the earlier steps showed."""
    direction, shares = -gradient, []
    for step, change in reversed(past):
        share = float(step @ direction) / float(step @ change)
        direction = direction - share * change
        shares.append(share)
    if past:
        step, change = past[-1]
        direction = direction * (float(step @ change) / float(change @ change))
    else:
        direction = direction / max(float(np.abs(gradient).max()), 1e-300)
    for (step, change), share in zip(past, reversed(shares), strict=True):
        direction = direction + (share - float(change @ direction) / float(step @ change)) * step
    return direction


def _lower_point(
    slope: Slope, here: Floats, value: float, gradient: Floats, direction: Floats, go_on: Callable[[], bool]
) -> tuple[Floats, float, Floats] | None:
    """Return a lower point along the direction, with its value and gradient; the step is halved until there is one.

    Return None where the direction does not lead down, or no step along it does.
    """
    promised = float(gradient @ direction)
    if promised >= 0:
        return None
    for halvings in range(_HALVINGS):
        if not go_on():
            return None
        next_point = here + direction * 0.5**halvings
        next_value, next_gradient = slope(next_point)
        if np.isfinite(next_value) and next_value <= value + _LEAST_DESCENT * promised * 0.5**halvings:
            return next_point, next_value, next_gradient
    return None
