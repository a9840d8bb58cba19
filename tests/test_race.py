"""Training races: processes and threads never pass the cap together, and a kill never gives budget back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dpsql.api.database import connect
from dpsql.errors import DpsqlError
from tests import tables
from tests.cli import trainer

ROOT = Path(__file__).parents[1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file with a tiny registered table and a cap of 1."""
    tables.on_disk(tmp_path / "data.duckdb", tables.some_rows(4), cap=1, lost_runs=16).close()
    return tmp_path / "data.duckdb"


def start(path: Path, *words: str) -> subprocess.Popen[str]:
    """Start `trainer.py` on a file."""
    command = [sys.executable, str(Path(trainer.__file__)), str(path), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)})


def check(path: Path, done: list[str]) -> None:
    """Assert that exactly the cap is spent and that each success is in the ledger once, with its model."""
    with connect(path) as db:
        charged = db.book.entries(event="reserve")
        assert db.budget("people").left == 0
        assert sorted(entry.request_id or "" for entry in charged) == sorted(done)
        assert {entry.state for entry in charged} == {"released"}
        assert len(db.models()) == len(done)
        assert db.verify() == []


def test_eight_threads_never_pass_the_cap(path: Path) -> None:
    """Of 16 runs for 0.1 racing for 1, exactly 10 get through, each charged once."""
    with connect(path) as db, ThreadPoolExecutor(8) as pool:
        done = [name for name in pool.map(lambda number: trainer.one(db, f"r{number}"), range(16)) if name]
    assert len(done) == 10
    check(path, done)


def test_two_processes_of_four_threads_never_pass_the_cap(path: Path) -> None:
    """Two processes of four threads, taking turns at the file, spend the cap and no more."""
    racers = [start(path, "race", name, "2", "4") for name in ("left", "right")]
    done = [name for racer in racers for name in racer.communicate(timeout=120)[0].split()]
    assert [racer.returncode for racer in racers] == [0, 0]
    assert len(done) == 10
    check(path, done)


def test_one_request_in_eight_threads_is_one_charge(path: Path) -> None:
    """Racing under one request id, all that get a model get the same, and one charge is made."""

    def ask(_: int) -> str:
        try:
            return db.train("people", epsilon="0.5", request_id="same", method="rosnam", trees=1, depth=1).name
        except DpsqlError as error:  # asked while the first is still at work
            return error.message

    with connect(path) as db, ThreadPoolExecutor(8) as pool:
        found = set(pool.map(ask, range(8)))
        early = "request same was charged but released no model (its entry is reserved)."
        assert found - {early} == {"people_1"}
        assert db.budget("people").spent_text == "0.5"
        assert len(db.models()) == 1


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_kill_between_reserve_and_release_leaves_the_charge(path: Path) -> None:
    """A process killed while it trains has spent its epsilon: no model, no refund, and the ledger goes on."""
    racer = start(path, "stall")
    assert racer.stdout is not None
    assert racer.stdout.readline() == "reserved\n"
    os.kill(racer.pid, signal.SIGKILL)
    racer.communicate(timeout=60)
    assert racer.returncode == -signal.SIGKILL
    with connect(path) as db:
        [entry] = db.book.entries(event="reserve")
        assert (entry.request_id, entry.state, db.budget("people").spent_text) == ("killed", "reserved", "0.5")
        assert len(db.models()) == 0
        assert db.verify() == []
        with pytest.raises(DpsqlError, match="charged but released no model"):
            db.train("people", epsilon="0.5", request_id="killed", method="rosnam", trees=1, depth=1)
        db.train("people", epsilon="0.5", trees=1, depth=1)
        assert db.budget("people").left == 0
