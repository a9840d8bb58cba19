"""The bench of scoring: memory stays below its limit, and a look at the first rows costs less than all of them."""

from __future__ import annotations

import json
import subprocess
import sys


def test_scoring_half_a_million_rows_stays_below_the_limit() -> None:
    """Into files and a table the process takes less than 512 MB; the first rows take less time than all."""
    command = [sys.executable, "-m", "dpsql", "bench", "scoring", "--short", "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=500)
    figures = json.loads(done.stdout)
    assert figures["rows"] == 500_000
    costs = {cost["way"]: cost for cost in figures["cases"]}
    assert set(costs) == {"csv", "parquet", "table", "first rows"}
    assert {way for way, cost in costs.items() if cost["peak_mb"] >= figures["goal_mb"]} == set()
    assert costs["first rows"]["cpu_seconds"] < costs["csv"]["cpu_seconds"]
