"""The command line on files: what opens a database opens a folder, and `--ledger` says where it keeps its ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.schema import schema_file
from tests import tables
from tests.engines.folder import csv, parquet

from .conftest import MARKERS, Cli

PEOPLE = "SELECT range % 64 AS x, 'a' AS c, 'yes' AS y, 'MARKER_NOTE 2718281' AS note FROM range(300)"
TRAIN = ("train", "--table", "people", "--method", "rosnam", "--trees", "3", "--depth", "2", "--name", "forest")


@pytest.fixture
def files(tmp_path: Path, path: Path) -> Path:
    """A folder with private people in Parquet, new rows in CSV, and a schema file elsewhere."""
    folder = tmp_path / "files"
    parquet(folder / "people.parquet", PEOPLE)
    csv(folder / "fresh.csv", "id,x,c,y\n1,3,a,yes\n2,,,no\n")
    (tmp_path / "people.yml").write_text(schema_file.dump(tables.SCHEMA), encoding="utf-8")
    return folder


def test_the_whole_path_on_a_folder(cli: Cli, files: Path) -> None:
    """Draft, register, plan, train, show, predict, evaluate, SQL, budget, ledger, verify: no marked cell is shown."""
    commands = [
        ("schema", "draft", "--table", "people"),
        ("register", "--table", "people", "--schema", "people.yml", "--cap", "3"),
        (*TRAIN, "--dry-run"),
        TRAIN,
        ("models",),
        ("show", "--model", "forest"),
        ("explain", "--model", "forest"),
        ("explain", "--table", "people", "--method", "rosnam", "--trees", "2", "--depth", "2"),
        ("predict", "--model", "forest", "--table", "fresh"),
        ("predict", "--model", "forest", "--table", "fresh", "--into", "scored"),
        ("evaluate", "--model", "forest", "--table", "fresh"),
        ("evaluate", "--model", "forest", "--table", "people", "--epsilon", "1"),
        ("sql", "--model", "forest", "--table", "fresh"),
        ("advise", "--table", "people", "--rows", "300"),
        ("structure", "--table", "people", "--to", "structure.json"),
        ("predict", "--private", "--structure", "structure.json", "--table", "fresh", "--epsilon", "1"),
        ("budget",),
        ("ledger",),
        ("ledger", "verify"),
        ("shell", "-c", "FROM dpsql_budget('people')"),
    ]
    for command in commands:
        ran = cli(*command, db=files)
        assert ran.code == 0, (command, ran.err)
        assert not any(marker in ran.out + ran.err for marker in MARKERS), command
    assert cli("budget", "--json", db=files).json[0]["spent"] == 3


def test_the_ledger_lies_where_it_is_said(cli: Cli, files: Path) -> None:
    """Nothing is written beside the files; without the option there would be another ledger."""
    before = sorted(files.iterdir())
    place = ("--ledger", "elsewhere.duckdb")
    assert cli("register", "--table", "people", "--schema", "people.yml", "--cap", "3", *place, db=files).code == 0
    assert cli(*TRAIN, *place, db=files).code == 0
    assert sorted(files.iterdir()) == before
    assert Path("elsewhere.duckdb.anchor").exists()


@pytest.mark.parametrize(
    ("place", "code", "message"),
    [
        ("dpsql.duckdb", 4, "would share its name"),
        ("none/ledger.duckdb", 4, "cannot be written"),
        ("files/people.parquet", 2, "ledger must be a DuckDB file"),
        ("files", 2, "ledger must be a DuckDB file"),
    ],
)
def test_a_ledger_that_cannot_be(cli: Cli, files: Path, place: str, code: int, message: str) -> None:
    """A name that SQL would mix up, a folder that is not there, a file that is something else."""
    before = (files / "people.parquet").read_bytes()
    ran = cli("models", "--ledger", place, db=files)
    assert (ran.code, message in ran.err) == (code, True), ran.err
    assert (files / "people.parquet").read_bytes() == before
    assert not Path("dpsql.duckdb").exists()


def test_a_database_file_takes_no_ledger(cli: Cli) -> None:
    """It has its own."""
    ran = cli("models", "--ledger", "other.duckdb")
    assert (ran.code, "a ledger of its own" in ran.err) == (2, True)
    assert not Path("other.duckdb").exists()
