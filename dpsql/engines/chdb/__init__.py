"""chDB, ClickHouse inside this process: the engine, its catalog, its words, its workspace."""

from __future__ import annotations

from dpsql.engines.spec import EngineSpec

SPEC = EngineSpec(
    name="chdb",
    title="chDB",
    module="dpsql.engines.chdb.engine",
    drivers=("chdb",),
    prefixes=("chdb://",),
    packages="chdb and pyarrow",
    ledger_elsewhere=True,
)
