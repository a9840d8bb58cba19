"""Starting Spark by a URL: what is refused before anything starts, how much memory Java gets, one that died."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import dpsql
from dpsql.engines.spark.opening import heap, memory
from dpsql.errors import DatabaseError, ParameterError
from tests.servers import spark


@pytest.fixture(autouse=True)
def _running() -> None:
    """Start Spark in this process, or skip."""
    spark()


@pytest.mark.parametrize("url", ["spark://", "spark://local[0]", "spark://nowhere", "spark://a:b", "spark://local[2"])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    """Nothing is started for it."""
    with pytest.raises(ParameterError, match="spark://HOST:PORT"):
        dpsql.connect(url, ledger=":memory:")


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """Nothing is started for it either."""
    with pytest.raises(DatabaseError, match="no folder"):
        dpsql.connect(f"spark://local[2]{tmp_path}/none", ledger=":memory:")


def test_another_master_in_the_same_process_is_refused() -> None:
    """A process has one Spark application."""
    with pytest.raises(DatabaseError, match="another master"):
        dpsql.connect("spark://127.0.0.1:1", ledger=":memory:")


_HEAP = """
import dpsql

with dpsql.connect("spark://local[1]", ledger=":memory:") as db:
    print(db.engine.session.sparkContext.getConf().get("spark.driver.memory"))
"""


@pytest.mark.parametrize("asked", [None, "700m"])
def test_java_gets_memory_by_the_machine_or_as_asked(asked: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of it, where Spark would take 1 GB of any; a user's word in the environment stands."""
    monkeypatch.delenv("SPARK_DRIVER_MEMORY", raising=False)
    if asked:
        monkeypatch.setenv("SPARK_DRIVER_MEMORY", asked)
    done = subprocess.run([sys.executable, "-c", _HEAP], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == (asked or f"{heap(memory())}m"), done.stderr


_KILLED = """
import os, signal, sys
import dpsql
from dpsql.errors import QueryFailed

try:
    with dpsql.connect(f"spark://local[1]{sys.argv[1]}", ledger=":memory:") as db:
        java = db.engine.session.sparkContext._gateway.proc
        os.kill(java.pid, signal.SIGKILL)
        java.wait()
        db.engine.tables()
except QueryFailed as error:
    print(error.message)
"""


def test_an_application_that_died_hides_no_error(tmp_path: Path) -> None:
    """What is told is what could not be done, not that a dead application could not be stopped."""
    done = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("the database could not read its catalog"), done.stdout
