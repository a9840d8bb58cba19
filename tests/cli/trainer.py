"""A process of its own for the races: opens the file, trains, and perhaps waits to be killed.

trainer.py FILE race NAME ROUNDS THREADS    train for 0.1 in each thread of each round, print who got through
trainer.py FILE stall                       charge, say "reserved", and wait until killed
"""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dpsql.api.database import Database, connect
from dpsql.errors import BudgetExceeded
from dpsql.kernel.session import Session
from dpsql.methods import METHODS


def one(db: Database, request_id: str) -> str | None:
    """Train a small model for 0.1 and return the request's id, or None when the budget says no."""
    try:
        db.train("people", epsilon="0.1", request_id=request_id, method="rosnam", trees=1, depth=1)
    except BudgetExceeded:
        return None
    return request_id


def race(path: Path, name: str, rounds: int, threads: int) -> list[str]:
    """Return the requests that got through, opening the file anew for each round."""
    done: list[str | None] = []
    for number in range(rounds):
        with connect(path, wait=60, who=name) as db, ThreadPoolExecutor(threads) as pool:
            wanted = [f"{name}-{number}-{thread}" for thread in range(threads)]
            done += pool.map(lambda request_id: one(db, request_id), wanted)
    return [request_id for request_id in done if request_id]


def stall(path: Path) -> None:
    """Train with a method that, once charged, says so and never comes back."""

    def train(session: Session) -> None:
        print("reserved", flush=True)
        threading.Event().wait()

    METHODS["rosnam"].train = train  # type: ignore[method-assign,assignment]
    with connect(path, who="killed") as db:
        db.train("people", epsilon="0.5", request_id="killed", method="rosnam", trees=1, depth=1)


if __name__ == "__main__":
    file, what, *rest = sys.argv[1:]
    if what == "stall":
        stall(Path(file))
    print(*race(Path(file), rest[0], int(rest[1]), int(rest[2])))
