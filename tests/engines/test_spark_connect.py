"""Spark Connect: the same path through a session that is a client of a server, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd

from dpsql.api import census
from tests.servers import spark_connect


def test_the_whole_path_through_spark_connect(tmp_path: Path) -> None:
    """One charge, predictions as the model's own, and no word of Spark's in an error."""
    spark_connect()
    for name, rows, seed in (("adult", 600, 1), ("fresh", 80, 2)):
        (tmp_path / name).mkdir()
        pd.DataFrame(census.rows(rows, seed)).to_parquet(tmp_path / name / "part-0.parquet")
    env = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-W", "ignore", "-m", "tests.engines.connect_trainer", str(tmp_path)]
    done = subprocess.run(
        [*command, str(tmp_path / "l.duckdb")],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=env,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    seen = json.loads(done.stdout.strip().splitlines()[-1])
    assert seen.pop("session") == "pyspark.sql.connect.session"
    assert "cannot be registered" in seen.pop("refused")
    failed = seen.pop("failed")
    assert "could not read the table" in failed
    assert "secret" not in failed
    assert seen == {"equal": True, "rows": 80, "spent": "1", "weak": True, "behind": "None", "open": 3}
