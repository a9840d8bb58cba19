"""Waits for other writers as long as any of them gets its turn, and not for ever where none does."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import TypeVar

from dpsql.engines.base import Conflict
from dpsql.errors import DatabaseLocked

#: The seconds that may pass without any writer having had its turn. A block stores a model: seconds, not minutes.
PATIENCE = 60.0
#: The pause before the second attempt, in seconds. Each pause is twice the last.
_FIRST_PAUSE = 0.001
#: The longest pause between two attempts, in seconds.
_LONGEST_PAUSE = 0.05
_Result = TypeVar("_Result")


def wait_in_turn(
    attempt: Callable[[], _Result], *, turn: Callable[[], object] = lambda: None, patience: float = PATIENCE
) -> _Result:
    """Return what `attempt` returns; try again while other writers are faster.

    `turn` returns how many writers have had their turn, and is asked only once somebody is in the way. Whenever that
    number moves, patience starts anew: a queue of any length is waited for, since a run that was charged must not be
    lost because others are at work. Raises DatabaseLocked once nothing has moved for `patience` seconds.
    """
    before, since, pause = object(), time.monotonic(), _FIRST_PAUSE
    while True:
        try:
            return attempt()
        except (Conflict, DatabaseLocked):
            now = turn()
            if now != before:
                before, since, pause = now, time.monotonic(), _FIRST_PAUSE
            if time.monotonic() - since > patience:
                break
        time.sleep(pause * (1 + secrets.randbelow(1000) / 1000))
        pause = min(2 * pause, _LONGEST_PAUSE)
    raise DatabaseLocked(
        f"another session holds the ledger, and nothing has moved for {patience:.0f} seconds.",
        hint="see what holds it (a session left open?), then try again",
    )
