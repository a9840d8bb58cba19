"""Measures what trees that look at the data cost: all of a training run through the kernel, in units of one scan (S).

A run is everything between the charge and the release: statements, choices, noise. Each size is measured against its
own S: if a method has about the same figure at two sizes, its cost is linear in rows.
"""

from __future__ import annotations

import resource
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from dpsql import methods
from dpsql.bench import table
from dpsql.bench.clock import least
from dpsql.bench.counts import run_scan
from dpsql.compile.rows import Source
from dpsql.engines.base import Engine
from dpsql.engines.duckdb.open_database import open_file
from dpsql.kernel.session import Session


@dataclass(frozen=True)
class GrowthCase:
    """A method with parameters, and what it should cost at most, in S (None: no goal)."""

    method: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    goal: float | None = None


#: Each axis of a number has 63 edges, so 64 candidates are all there are.
CASES = (
    GrowthCase("auto", goal=25),
    GrowthCase("spe", {"trees": 10, "depth": 8}, goal=16),
    GrowthCase("maxtree", {"trees": 10, "depth": 5}),
    GrowthCase("fs", {"depth": 5}),
)


def measure_growth(sizes: Sequence[int], *, repeat: int) -> dict[str, object]:
    """Return the figures of all cases on tables of these sizes, as plain values."""
    figures: list[dict[str, object]] = []
    for rows in sizes:
        with tempfile.TemporaryDirectory() as folder:
            engine = open_file(Path(folder) / "bench.duckdb", create=True)
            try:
                source = table.create_bench_table(engine, rows)
                figures += [_measure_growth(engine, source, case, rows, repeat=repeat) for case in CASES]
            finally:
                engine.close()
    return {"repeat": repeat, "cases": figures}


def _measure_growth(engine: Engine, source: Source, case: GrowthCase, rows: int, *, repeat: int) -> dict[str, object]:
    acts = {"scan": partial(run_scan, engine), "train": partial(train_case, engine, source, case)}
    times = least(acts, repeat=repeat)
    costs = {"s_seconds": times["scan"], "total_s": times["train"] / times["scan"], "peak_mb": peak_megabytes()}
    return {**asdict(case), "rows": rows, **costs}


def peak_megabytes() -> float:
    """Return the most memory that this process has held so far, the database and its table included."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def train_case(engine: Engine, source: Source, case: GrowthCase) -> None:
    """Train as after a charge: no ledger, no model stored."""
    method = methods.get(case.method)
    session = Session(engine, source, method.plan(source.schema, 10**9, case.parameters))
    try:
        method.train(session)
    finally:
        session.close()
