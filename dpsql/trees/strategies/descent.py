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
_PROMISED = 1e-4
#: Where a step gains less than this share of the value, there is no more to gain.
_SMALL = 1e-8


def descend(slope: Slope, start: Floats, *, steps: int, go_on: Callable[[], bool] = lambda: True) -> Floats:
    """Return a point from which no step goes further down, or the best after so many steps or when told to stop.

    >>> descend(lambda x: (float(((x - 3) ** 2).sum()), 2 * (x - 3)), np.zeros(2), steps=50).round(6).tolist()
    [3.0, 3.0]
    """
    here, (value, gradient) = start, slope(start)
    past: deque[Step] = deque(maxlen=MEMORY)
    for _ in range(steps):
        if not go_on():
            break
        found = _along(slope, here, value, gradient, _direction(gradient, past), go_on)
        if found is None and past:
            past.clear()  # earlier steps mislead: straight down from here
            continue
        if found is None:
            break
        there, lower, steeper = found
        if float((there - here) @ (steeper - gradient)) > 0:
            past.append((there - here, steeper - gradient))
        gained = value - lower
        here, value, gradient = there, lower, steeper
        if gained <= _SMALL * abs(value):
            break
    return here


def _direction(gradient: Floats, past: deque[Step]) -> Floats:
    """Return where to go: down, bent by the earlier steps."""
    found, kept = -gradient, []
    for step, change in reversed(past):
        share = float(step @ found) / float(step @ change)
        found = found - share * change
        kept.append(share)
    if past:
        step, change = past[-1]
        found = found * (float(step @ change) / float(change @ change))
    else:
        found = found / max(float(np.abs(gradient).max()), 1e-300)
    for (step, change), share in zip(past, reversed(kept), strict=True):
        found = found + (share - float(change @ found) / float(step @ change)) * step
    return found


def _along(
    slope: Slope, here: Floats, value: float, gradient: Floats, direction: Floats, go_on: Callable[[], bool]
) -> tuple[Floats, float, Floats] | None:
    """Return a lower point on the way, with its value and slope, halving the step until there is one."""
    promised = float(gradient @ direction)
    if promised >= 0:
        return None
    for halvings in range(30):
        if not go_on():
            return None
        there = here + direction * 0.5**halvings
        lower, steeper = slope(there)
        if np.isfinite(lower) and lower <= value + _PROMISED * promised * 0.5**halvings:
            return there, lower, steeper
    return None
