"""However many charge at once, in threads or processes, the cap holds and each request is charged once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.duckdb.open_database import adopt, open_file
from dpsql.errors import BudgetExceeded
from dpsql.ledger import Ledger, anchor_path, parse_epsilon

from .helpers import LENIENT, charge
from .racer import one

ROOT = Path(__file__).parents[2]


def start(path: Path, *words: str) -> subprocess.Popen[str]:
    """Start `racer.py` on a file."""
    command = [sys.executable, str(Path(__file__).with_name("racer.py")), str(path), *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def test_eight_threads_never_pass_the_cap(ledger: Ledger, engine: DuckDBEngine) -> None:
    """Of 32 charges of 0.1 racing for 2, exactly 20 go through."""
    with ThreadPoolExecutor(8) as pool:
        done = sum(pool.map(lambda number: one(Ledger(engine), f"r{number}"), range(32)))
    assert done == 20
    assert ledger.budget("adult").left == 0
    assert len(ledger.entries(event="reserve")) == 20
    assert ledger.verify() == []


def test_the_database_alone_keeps_eight_threads_in_order() -> None:
    """In memory each ledger has a lock of its own, so only the guarded update stands between the threads."""
    engine = open_file(":memory:")
    Ledger(engine).register("adult", "adult", parse_epsilon("0.7"), LENIENT, "ann")
    with ThreadPoolExecutor(8) as pool:
        done = sum(pool.map(lambda number: one(Ledger(engine), f"r{number}"), range(24)))
    assert done == 7
    assert Ledger(engine).budget("adult").left == 0
    assert Ledger(engine).verify() == []
    engine.close()


def test_two_engines_on_one_file_share_one_receipt(ledger: Ledger, engine: DuckDBEngine) -> None:
    """Two engines on the same file in one process take turns, and the receipt never goes back."""
    connection = engine.connection.cursor()
    other = adopt(connection)
    with ThreadPoolExecutor(8) as pool:
        ledgers = [ledger, Ledger(other)]
        done = sum(pool.map(lambda number: one(ledgers[number % 2], f"r{number}"), range(24)))
    assert done == 20
    assert other.path is not None
    assert ledger.verify() == []
    connection.close()


def test_two_processes_never_pass_the_cap(ledger: Ledger, engine: DuckDBEngine, path: Path) -> None:
    """Two processes of three threads, taking turns at the file, spend exactly the cap."""
    ledger.set_cap("adult", parse_epsilon("1.5"), "ann")
    engine.close()
    racers = [start(path, "charge", name, "3", "3") for name in ("left", "right")]
    printed = [racer.communicate(timeout=60)[0] for racer in racers]
    again = open_file(path)
    assert sum(int(text) for text in printed) == 15
    assert Ledger(again).budget("adult").left == 0
    assert Ledger(again).verify() == []
    again.close()


@pytest.mark.parametrize("memory", [False, True], ids=["file", "memory"])
def test_one_request_in_eight_threads_is_charged_once(path: Path, memory: bool) -> None:
    """Racing with the same request id, one caller is fresh and all get the same entry."""
    engine = open_file(":memory:" if memory else path, create=True)
    Ledger(engine).register("adult", "adult", parse_epsilon("2"), LENIENT, "ann")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: Ledger(engine).reserve(charge("same", "0.5")), range(16)))
    assert sum(entry.fresh for entry in found) == 1
    assert len(set(found)) == 1
    assert Ledger(engine).budget("adult").spent_text == "0.5"
    engine.close()


def test_racing_scopes_never_pass_the_cap(ledger: Ledger, engine: DuckDBEngine) -> None:
    """Charges on two scopes and on the whole table race; no kind of row loses more than the cap."""
    scopes = ("region=north", "region=south", "")

    def attempt(number: int) -> None:
        try:
            Ledger(engine).reserve(charge(f"r{number}", "0.25", scope=scopes[number % 3]))
        except BudgetExceeded:
            return

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(attempt, range(36)))
    budget = ledger.budget("adult")
    assert budget.spent == budget.spent_on_table + max(share.spent for share in budget.scopes) <= parse_epsilon("2")
    assert budget.left == 0
    assert ledger.verify() == []


@pytest.mark.parametrize(
    ("moment", "spent"), [("after-reserve", "0.1"), ("before-confirm", "0.1"), ("before-commit", "0")]
)
def test_a_killed_process_leaves_what_it_had_committed(
    ledger: Ledger, engine: DuckDBEngine, path: Path, moment: str, spent: str
) -> None:
    """Whenever the power goes, the charge stands if and only if it was committed, and the ledger goes on."""
    engine.close()
    racer = start(path, "kill", moment)
    racer.communicate(timeout=60)
    assert racer.returncode == -signal.SIGKILL
    again = open_file(path)
    assert Ledger(again).verify() == []
    assert Ledger(again).budget("adult").spent_text == spent
    assert [entry.state for entry in Ledger(again).entries(event="reserve")] == ["reserved"] * (spent != "0")
    assert Ledger(again).reserve(charge("next", "0.5")).fresh
    assert Ledger(again).verify() == []
    assert '"pending": null' in anchor_path(path).read_text()
    again.close()
