"""A process of its own for the tests: opens the file, charges, and perhaps dies at a chosen moment.

`racer.py FILE charge NAME ROUNDS THREADS` charges 0.1 in each thread of each round and prints how many went
through. `racer.py FILE kill MOMENT` dies after-reserve, before-commit or before-confirm (of the receipt).
"""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

from dpsql.engines.duckdb.open_database import open_file
from dpsql.errors import BudgetExceeded
from dpsql.ledger import Charge, Ledger, receipt


def one(ledger: Ledger, request_id: str) -> bool:
    """Return whether a charge of 0.1 went through."""
    try:
        ledger.reserve(Charge(request_id, "adult", "adult", "rdt", {}, 100_000_000, who=request_id))
    except BudgetExceeded:
        return False
    return True


def charge(path: Path, name: str, rounds: int, threads: int) -> int:
    """Return how many charges went through, opening the file anew for each round."""
    done = 0
    for number in range(rounds):
        engine = open_file(path, wait=60)
        with ThreadPoolExecutor(threads) as pool:
            done += sum(pool.map(lambda k: one(Ledger(engine), f"{name}-{number}-{k}"), range(threads)))  # noqa: B023
        engine.close()
    return done


def die() -> None:
    """End this process as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


def kill(path: Path, moment: str) -> None:
    """Charge once and die at the named moment."""
    engine = open_file(path)
    write, calls = receipt.write_receipt, []

    def dying_write(receipt_path: Path, written: receipt.Receipt) -> None:
        calls.append(written)
        if moment == "before-confirm" and len(calls) == 2:
            die()
        write(receipt_path, written)
        if moment == "before-commit":
            die()

    with mock.patch.object(receipt, "write_receipt", dying_write):
        one(Ledger(engine), "killed")
    die()


if __name__ == "__main__":
    file, what, *rest = sys.argv[1:]
    if what == "kill":
        kill(Path(file), rest[0])
    print(charge(Path(file), rest[0], int(rest[1]), int(rest[2])))
