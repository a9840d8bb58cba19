"""Makes a release once: a request that was made before is answered from the store, a new one by a charged run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from dpsql.engines.base import Engine
from dpsql.kernel.run import Job, Release, run
from dpsql.kernel.session import Session
from dpsql.ledger import Entry, Ledger
from dpsql.models.release_store import ReleaseTable

_Value = TypeVar("_Value")


def release_once(
    engine: Engine,
    ledger: Ledger,
    job: Job,
    table: ReleaseTable,
    *,
    ask: Callable[[Session], Release[_Value]],
    load: Callable[[dict[str, Any], Entry], _Value],
    check: Callable[[], None] = lambda: None,
) -> _Value:
    """Return what a job releases; a request that was made before is answered from its table, for nothing.

    `ask` makes the release from noisy answers; `load` makes the same value from a stored row. `check` is called before
    a new request is charged, and may refuse it.
    """
    if ledger.find_request(job.charge.request_id) is not None:
        entry = ledger.reserve(job.charge)  # checks that the same was asked
    else:
        table.install(engine)
        check()
        released = run(engine, ledger, job, ask)
        if released.value is not None:
            return released.value
        entry = released.entry  # another caller made the same request at the same time
    return load(table.row_of(engine, entry), entry)
