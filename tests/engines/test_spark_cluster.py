"""A real Spark cluster on loopback: a master, two workers, a run over them, and a worker that dies in the middle."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpsql
from dpsql.api import census
from dpsql.errors import DatabaseError
from tests.servers import Cluster, cluster, free_port


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a private and a public table, each in several parts."""
    found = tmp_path_factory.mktemp("cluster")
    for name, rows, seed in (("adult", 4000, 1), ("fresh", 500, 2)):
        (found / "lake" / name).mkdir(parents=True)
        made = pd.DataFrame(census.rows(rows, seed))
        for part in range(4):
            made.iloc[part::4].to_parquet(found / "lake" / name / f"part-{part}.parquet")
    return found


@pytest.fixture
def running(folder: Path, tmp_path: Path) -> Iterator[Cluster]:
    """Start a cluster of two workers for one test."""
    with cluster(tmp_path, 2) as found:
        yield found


def trainer(running: Cluster, folder: Path, ledger: Path, method: str) -> subprocess.Popen[str]:
    """Start a process that trains on the cluster."""
    command = [
        sys.executable,
        "-m",
        "tests.engines.cluster_trainer",
        f"{running.url}{folder}/lake",
        str(ledger),
        method,
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Return the last line that a process said, and all of its errors."""
    out, err = process.communicate(timeout=240)
    return out.strip().splitlines()[-1], err


def charges(ledger: Path) -> list[dict[str, Any]]:
    """Return the charges of a ledger, after checking that it is sound."""
    with dpsql.connect(ledger) as db:
        assert db.verify() == []
        found = db.ledger()
        return list(found[found["event"] == "reserve"].to_dict("records"))


def test_a_cluster_trains_a_model(running: Cluster, folder: Path, tmp_path: Path) -> None:
    """Over two workers, with one charge, and without a word of Spark's own."""
    last, errors = ended(trainer(running, folder, tmp_path / "l.duckdb", "rosnam"))
    assert last.startswith("done"), (last, errors)
    assert float(last.split()[1]) > 0.6
    assert errors == ""
    found = charges(tmp_path / "l.duckdb")
    assert sum(Decimal(str(entry["epsilon"])) for entry in found) == 1
    assert {entry["state"] for entry in found} == {"released"}


def test_a_worker_that_dies_costs_one_charge(running: Cluster, folder: Path, tmp_path: Path) -> None:
    """The run ends with a model or with a clear error; either way it was charged once."""
    process = trainer(running, folder, tmp_path / "l.duckdb", "spe")
    assert process.stdout is not None
    assert process.stdout.readline() == "answered\n"
    running.kill(0)
    last, errors = ended(process)
    found = charges(tmp_path / "l.duckdb")
    assert sum(Decimal(str(entry["epsilon"])) for entry in found) == 1  # the size by itself, and the rest
    state = "released" if last.startswith("done") else "lost"
    assert found[-1]["state"] == state, (last, errors)
    if state == "lost":
        assert "count the rows" in last
    assert errors == ""


def test_a_master_that_is_not_there_is_told_at_once() -> None:
    """Spark itself would try for a minute; the error has the exit code of a database out of reach."""
    script = f"import dpsql; dpsql.connect('spark://127.0.0.1:{free_port()}', ledger=':memory:')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert f"{DatabaseError.__name__}: no master of" in done.stderr
