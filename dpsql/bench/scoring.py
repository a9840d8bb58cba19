"""Measures what it takes to score a long table into files and a table, memory above all: the command in a process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlglot import exp

from dpsql.api import census
from dpsql.api.database import connect
from dpsql.api.demo import demonstrate
from dpsql.compile.vocabulary import int_literal

#: What the process may take at its peak, in MB of 1024 · 1024 bytes, with Python and DuckDB.
GOAL_MB = 512
#: The table of rows to score, and the rows of one insertion.
_TABLE = "new_people"
_PART = 10_000
#: Linux counts the peak in kilobytes, macOS in bytes.
_PEAKS_IN_ONE_MB = 2**20 if sys.platform == "darwin" else 2**10


def measure_scoring(rows: int, *, folder: Path | None = None) -> dict[str, Any]:
    """Return the peak of memory and the time of each way to score `rows` synthetic people, none like another."""
    with TemporaryDirectory(prefix="dpsql-", dir=folder) as place:
        database = Path(place) / "people.duckdb"
        # A process starts with the peak of the one that starts it, so this one stays small: another makes the table.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            pool.submit(_make_people, database, rows).result()
        ways = {
            "csv": ("--to", str(Path(place) / "labels.csv")),
            "parquet": ("--to", str(Path(place) / "labels.parquet")),
            "table": ("--into", "labels"),
            "first rows": (),
        }
        costs = [{"way": way, **_measure(database, options)} for way, options in ways.items()]
        size = database.stat().st_size / 2**20
    return {"rows": rows, "file_mb": size, "goal_mb": GOAL_MB, "cases": costs}


def _make_people(database: Path, rows: int) -> None:
    """Make a model, and a table of new rows: the same people again and again, with other numbers each time."""
    demonstrate(database, rows=_PART)
    people = census.rows(_PART, seed=3)
    numbers = [name for name in people.columns if people[name].dtype.kind in "iuf" and name != "person_id"]
    copies = exp.alias_(exp.Anonymous(this="RANGE", expressions=[int_literal(-(-rows // _PART))]), "copies", table=True)
    jittered = [
        exp.alias_(exp.Add(this=exp.column(name), expression=exp.Anonymous(this="RANDOM")), name, quoted=True)
        for name in numbers
    ]
    query = exp.select(exp.Star(replace=jittered)).from_("made").join(copies, join_type="cross").limit(rows)
    with connect(database) as db:
        db.engine.create(_TABLE, query, {"made": people})


def _measure(database: Path, options: tuple[str, ...]) -> dict[str, float]:
    """Run the command in a process of its own and return what it took."""
    words = ["predict", "--db", str(database), "--model", "census_forest", "--table", _TABLE, *options]
    started = time.perf_counter()
    with subprocess.Popen([sys.executable, "-m", "dpsql", *words], stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss / _PEAKS_IN_ONE_MB,
    }
