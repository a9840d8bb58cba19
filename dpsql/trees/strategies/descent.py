"""Finds a minimum of a smooth function with its gradient: limited-memory BFGS (Nocedal & Wright 2006, 7.2)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from dpsql.trees.strategies.strategy import Floats

Slope = Callable[[Floats], tuple[float, Floats]]
#: A step, and how much the slope changed over it.
Step = tuple[Floats, Floats]
#: How many earlier steps shape the next one.
MEMORY = 12
#: A step must go down by at least this share of what the slope promises.
_LEAST_DESCENT = 1e-4
#: Where a step gains less than this share of the value, there is no more to gain.
_LEAST_GAIN = 1e-8
#: How often a step is halved before it is given up.
_HALVINGS = 30


def descend(slope: Slope, start: Floats, *, steps: int, go_on: Callable[[], bool] = lambda: True) -> Floats:
    """Return a point from which no step goes further down; the lowest so far after `steps`, or when `go_on` says no.

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
            past.clear()  # earlier steps mislead: straight down from here
            continue
        if lower_point is None:
            break
        there, lower, steeper = lower_point
        if float((there - here) @ (steeper - gradient)) > 0:
            past.append((there - here, steeper - gradient))
        gained = value - lower
        here, value, gradient = there, lower, steeper
        if gained <= _LEAST_GAIN * abs(value):
            break
    return here


def _direction(gradient: Floats, past: deque[Step]) -> Floats:
    """Return where to go: down, bent by the earlier steps."""
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
    """Return a lower point on the way, with its value and slope, halving the step until there is one."""
    promised = float(gradient @ direction)
    if promised >= 0:
        return None
    for halvings in range(_HALVINGS):
        if not go_on():
            return None
        there = here + direction * 0.5**halvings
        lower, steeper = slope(there)
        if np.isfinite(lower) and lower <= value + _LEAST_DESCENT * promised * 0.5**halvings:
            return there, lower, steeper
    return None
