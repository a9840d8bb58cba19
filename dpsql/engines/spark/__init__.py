"""Spark: the engine, its catalog, its words, and the bridge to Java."""

from __future__ import annotations

from dpsql.engines.spec import EngineSpec

SPEC = EngineSpec(
    name="spark",
    title="Spark",
    module="dpsql.engines.spark.engine",
    drivers=("pyspark",),
    prefixes=("spark://",),
    packages="pyspark and pyarrow",
    ledger_elsewhere=True,
)
