"""Times things in CPU seconds of this process, all threads together, in turns, so that noise hits all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

Act = Callable[[], object]


def cpu_seconds(act: Act) -> float:
    """Return the CPU time that an act takes, in seconds; never 0.

    >>> 0 < cpu_seconds(lambda: sum(range(1000))) < 10
    True
    """
    started = time.process_time_ns()
    act()
    return max(time.process_time_ns() - started, 1) / 1e9


def least(acts: Mapping[str, Act], *, repeat: int) -> dict[str, float]:
    """Return the least CPU time of each act over `repeat` rounds; every round does each act once.

    The least is what the work costs; whatever is above it, others on the machine caused.
    """
    rounds = [{name: cpu_seconds(act) for name, act in acts.items()} for _ in range(repeat)]
    return {name: min(times[name] for times in rounds) for name in acts}
