"""Finding 6: rows that do not fit in memory lie where their owner alone can read them, and do not stay there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
import sqlglot

import dpsql
from dpsql.engines.duckdb.open_database import adopt, open_file
from dpsql.engines.files.read_rows import read_rows
from dpsql.engines.open_engine import open_engine
from tests.servers import chdb, spark
from tests.tables import UNITS

PEOPLE = "SELECT i AS person, i % 64 AS x, 'a' AS c, 'yes' AS y FROM range(4000000) AS made(i)"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an empty folder that others may enter."""
    tmp_path.chmod(0o755)
    return tmp_path


def database(folder: Path) -> Path:
    """Return a database file with many people, registered."""
    path = folder / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE people AS {PEOPLE}")
    with dpsql.connect(path) as db:
        db.register("people", UNITS, cap=10)
    return path


@contextmanager
def spilling(*arguments: str) -> Iterator[Path]:
    """Run a training in another process up to where it has spilled rows; yield where to; kill it without a word."""
    command = [sys.executable, "-m", "tests.attacks.spiller", *arguments]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=env) as run:
        try:
            assert run.stdout is not None
            files, place = run.stdout.readline().strip().split(" ", 1)
            assert int(files) > 0
            yield Path(place)
        finally:
            run.kill()


def ids(folder: Path) -> int:
    """Return how many unit ids lie in the files of a folder in plain text."""
    return sum(path.read_bytes().count(b"unit-") for path in folder.rglob("*") if path.is_file())


def others_can_enter(place: Path, top: Path) -> bool:
    """Whether every folder from the top down to a place lets others in."""
    between = [place, *(path for path in place.parents if path.is_relative_to(top))]
    return all(path.stat().st_mode & 0o077 for path in between)


def test_nobody_else_reads_spilled_rows_and_they_go_after_a_kill(folder: Path) -> None:
    """While a run spills, after kill -9, and when the database is opened again: never where others can enter."""
    path = database(folder)
    with spilling(str(path)) as place:
        assert ids(place) > 0
        assert not others_can_enter(place, folder)
    assert ids(place) > 0
    assert not others_can_enter(place, folder)
    with dpsql.connect(path):
        assert not place.exists()
    assert not [one for one in folder.iterdir() if one.is_dir()]


def test_rows_of_a_living_process_are_left_alone(folder: Path) -> None:
    """Two may read a file at once: the second opens it, and the first still has what it spilled."""
    path = database(folder)
    first = open_file(path, read_only=True)
    (spill,) = first.connection.execute("SELECT current_setting('temp_directory')").fetchall()[0]
    with subprocess.Popen(
        [sys.executable, "-c", f"import dpsql; dpsql.connect({str(path)!r}, read_only=True).close()"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    ) as second:
        assert second.wait() == 0
    assert Path(spill).parent.is_dir()
    first.close()
    assert not Path(spill).parent.exists()


def test_rows_of_files_do_not_spill_beside_a_ledger_elsewhere(folder: Path) -> None:
    """The ledger may lie where analysts look; rows stay with the files."""
    data, books = folder / "data", folder / "books"
    data.mkdir(mode=0o755)
    books.mkdir(mode=0o755)
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({PEOPLE}) TO '{data}/people.parquet'")
    ledger = str(books / "ledger.duckdb")
    with dpsql.connect(data, ledger=ledger) as db:
        db.register("people", UNITS, cap=10)
    with spilling(str(data), ledger) as place:
        assert place.is_relative_to(data)
        assert not others_can_enter(place, folder)
        assert ids(books) == 0
    with dpsql.connect(data, ledger=ledger):
        assert not place.exists()


def test_what_another_tool_left_is_removed_too(folder: Path) -> None:
    """DuckDB's own folder beside a file, with rows of a killed process: gone when dpsql opens the file to write."""
    path = database(folder)
    left = folder / "people.duckdb.tmp" / "duckdb_temp_1_0_storage_S32K-0.tmp"
    left.parent.mkdir()
    left.write_text("unit-1")
    with dpsql.connect(path):
        assert not left.parent.exists()


def test_a_database_in_memory_spills_to_a_folder_of_its_own() -> None:
    """Not into `.tmp` of the folder where the program was started."""
    engine = open_file(":memory:")
    (spill,) = engine.connection.execute("SELECT current_setting('temp_directory')").fetchall()[0]
    assert Path(spill).parent.stat().st_mode & 0o077 == 0
    engine.close()
    assert not Path(spill).parent.exists()


def test_a_folder_that_others_enter_is_named(folder: Path) -> None:
    """A caller's own connection may spill where others read: `weaknesses` says so, and not where they cannot."""
    for mode, named in ((0o755, True), (0o700, False)):
        place = Path(f"/tmp/dpsql-test-{os.getpid()}-{mode}")
        place.mkdir()
        place.chmod(mode)
        connection = duckdb.connect(config={"temp_directory": str(place / "spill")})
        weak = [sentence for sentence in adopt(connection).weaknesses() if sentence.startswith("temp_directory")]
        connection.close()
        place.rmdir()
        assert bool(weak) is named


def test_public_files_are_read_without_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """New rows are read by a throw-away database, which leaves nothing where the program was started."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new.csv").write_text("a,b\n1,2\n")
    assert len(read_rows(tmp_path / "new.csv", ["a"])) == 1
    assert [one.name for one in tmp_path.iterdir()] == ["new.csv"]


def test_spark_keeps_rows_where_its_owner_alone_can_enter() -> None:
    """A Spark that dpsql starts puts blocks into a folder of mode 0700 of its own, not into /tmp."""
    place = Path(spark().sparkContext.getConf().get("spark.local.dir"))
    assert place.parent.stat().st_mode & 0o077 == 0
    assert any(one.name.startswith("blockmgr") for one in place.iterdir())


def test_chdb_spills_nothing() -> None:
    """What does not fit in memory fails: chDB's own folder for temporary files can be entered by others."""
    engine = open_engine(chdb(), ledger=":memory:")
    with engine.workspace() as here:
        asked = sqlglot.parse_one(
            "SELECT name, value FROM system.settings WHERE name LIKE 'max_bytes%before_external%'", dialect="clickhouse"
        )
        found = here.run("read its settings", asked, {}, here.fetch).to_pylist()
    engine.close()
    assert len(found) >= 4
    assert {float(setting["value"]) for setting in found} == {0.0}
