"""Examines a database: driver, server, rights, registered tables, ledger, clock. Each finding says how to mend it."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime

from dpsql.engines.base import Engine, Health
from dpsql.errors import DpsqlError
from dpsql.kernel.datasets.dataset import Dataset, check_unchanged, registered_datasets
from dpsql.ledger import Ledger


def examine(engine: Engine, ledger: Ledger) -> list[Health]:
    """Return what was found, in the order in which one would mend it. Reads no private row, changes nothing."""
    health = list(engine.health())
    try:
        findings = ledger.verify()
    except DpsqlError as error:
        return [*health, Health("ledger", False, error.message, error.hint or "")]
    summary = " ".join(findings) or f"{len(ledger.entries())} entries, chain and sums hold"
    health.append(Health("ledger", not findings, summary, "dpsql ledger verify, then restore a backup or accept"))
    if findings:
        return health
    return [*health, *_tables(engine, ledger), *_runs(ledger), *_times(ledger)]


def _tables(engine: Engine, ledger: Ledger) -> list[Health]:
    """Say of each registered table whether it is still as it was registered."""
    datasets = registered_datasets(ledger)
    if not datasets:
        return [Health("tables", True, "none registered", "dpsql register --table TABLE --schema FILE --cap EPSILON")]
    return [_table(engine, ledger, name, dataset) for name, dataset in datasets.items()]


def _table(engine: Engine, ledger: Ledger, name: str, dataset: Dataset) -> Health:
    """Say whether a table is still as it was registered; one that was registered anew meanwhile is examined again."""
    while True:
        try:
            check_unchanged(engine, dataset)
        except DpsqlError as error:
            now = registered_datasets(ledger).get(name)
            if now is None or now == dataset:
                return Health(f"table {dataset.table}", False, error.message, error.hint or "")
            dataset = now
        else:
            return _way_in(engine, ledger, dataset) or Health(f"table {dataset.table}", True, "as registered")


def _way_in(engine: Engine, ledger: Ledger, dataset: Dataset) -> Health | None:
    """Say in which way an analyst can learn of a private table's rows without dpsql; None where there is no way."""
    if ledger.budget(dataset.payer).cap is None:
        return None
    tables = [engine.table(name, schema=schema) for schema, name in dataset.private_places]
    for info in (info for info in tables if info is not None):
        for way in [*engine.ways_in(info), *engine.readers(info)]:
            return Health(f"table {dataset.table}", False, way.state, way.fix)
    return None


def _runs(ledger: Ledger) -> list[Health]:
    """Say of each registered table how many of its runs are unfinished, and whether further ones wait for the owner."""
    health = []
    for dataset in registered_datasets(ledger).values():
        budget = ledger.budget(dataset.payer)
        standing, fix = budget.standing, f"find out why, then: dpsql ledger accept --table {shlex.quote(dataset.table)}"
        summary = f"{standing.text}, least charge {standing.limits.least_text}"
        health.append(Health(f"runs on {dataset.table}", budget.cap is None or not standing.waits, summary, fix))
    return health


def _times(ledger: Ledger) -> list[Health]:
    """Say whether the last entry is from the past, and whether charges wait for an end."""
    entries = ledger.entries()
    if not entries:
        return []
    last = max(datetime.fromisoformat(entry.recorded_at) for entry in entries)
    waiting = sum(entry.event == "reserve" and entry.state == "reserved" for entry in entries)
    return [
        Health("time", last <= datetime.now(UTC), f"last entry {last:%Y-%m-%d %H:%M} UTC", "set this machine's clock"),
        Health("charges", True, f"{waiting} reserved without an end" if waiting else "all ended"),
    ]
