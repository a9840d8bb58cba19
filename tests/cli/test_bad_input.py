"""Bad input: its own message, its exit code, nothing charged, nothing on stdout."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tests.engines
from dpsql.api.database import connect
from dpsql.engines.open_engine import url_forms
from tests import tables

from .conftest import Cli, kept

HOLDER = Path(tests.engines.__file__).with_name("holder.py")
TRAIN = ("train", "--table", "people")
ROSNAM = (*TRAIN, "--method", "rosnam")
PREDICT = ("predict", "--model", "m")
SCORE = (*PREDICT, "--table", "fresh")

CASES: list[tuple[tuple[str, ...], int, str]] = [
    (("train", "--table", "peopel"), 2, 'there is no table "peopel". Did you mean "people"?'),
    (("train", "--table", "fresh"), 3, 'table "fresh" is not registered'),
    (("train", "--table", ""), 2, "there is no table"),
    (("train", "--table", "dpsql.budget"), 2, "there is no table"),
    *[
        ((*TRAIN, f"--epsilon={value}"), 2, "epsilon must be a number above 0 and at most 1000000000")
        for value in ("nan", "0", "-1", "1e400", "abc", "", "inf", "1,5", "1e-400x", "0x10", "١")
    ],
    ((*TRAIN, "--epsilon", "9.000000001"), 3, 'needs epsilon 9.000000001, but table "people" has 9 of 10 left'),
    ((*TRAIN, "--epsilon", "1e9"), 3, "needs epsilon 1000000000"),
    ((*TRAIN, "--method", "rosnan"), 2, 'there is no method "rosnan". Did you mean "rosnam"?'),
    ((*TRAIN, "--trees", "0"), 2, "trees must be a whole number from 1"),
    ((*TRAIN, "--trees", "1.5"), 2, "not a valid integer"),
    ((*TRAIN, "--trees", "nan"), 2, "not a valid integer"),
    ((*TRAIN, "--trees", "9" * 30), 2, "trees must be a whole number from 1"),
    ((*ROSNAM, "--depth", "61"), 2, "depth must be a whole number from 1 to 60"),
    ((*ROSNAM, "--depth-rule", "table5"), 2, "depth_rule must be one of theorem2, table4"),
    ((*ROSNAM, "--branches", "1"), 2, "branches must be a whole number from 2"),
    ((*TRAIN, "--depth", "99"), 2, "depth must be a whole number from 1 to"),
    ((*TRAIN, "--branches", "2"), 2, "method auto has no --branches; it belongs to fs, id3, maxtree, rdt"),
    ((*TRAIN, "--seed", "-1"), 2, "seed must be a whole number from 0"),
    ((*TRAIN, "--name", ""), 2, "name must be text of 1 to 200 characters"),
    ((*TRAIN, "--name", "m"), 2, "a model of that name exists"),
    ((*TRAIN, "--request-id", ""), 2, "request_id must be text, not empty"),
    ((*ROSNAM, "--request-id", "first", "--epsilon", "2"), 2, "this one was used with another"),
    ((*TRAIN, "--as", "\udcff"), 2, "who must be text that UTF-8 can hold"),
    ((*TRAIN, "--sql", "--dry-run"), 2, "one thing at a time"),
    ((*TRAIN, "--read-only"), 4, "opened read-only"),
    ((*TRAIN, "--wait", "nan"), 2, "wait must be a number of seconds from 0"),
    ((*TRAIN, "--wait", "-1"), 2, "wait must be a number of seconds from 0"),
    (("explain", "--table", "people", "--leaf", "100000"), 2, "leaf must be a whole number from 0 to"),
    (("budget", "--table", "peopel"), 2, 'Did you mean "people"?'),
    (("budget", "--table", "fresh"), 3, "not registered"),
    (("budget", "--set-cap", "1"), 2, "needs a table and a cap"),
    (("budget", "--table", "people", "--analyst", "eve"), 2, "needs a table and a cap"),
    (("budget", "--table", "people", "--set-cap", "nan"), 2, "cap must be a number above 0"),
    (("budget", "--table", "people", "--set-cap", "1", "--analyst", ""), 2, "analyst must be text, not empty"),
    (("register", "--table", "fresh", "--cap", "1", "--no-cap"), 2, "say what all runs together may cost"),
    (("register", "--table", "fresh"), 2, "say what all runs together may cost"),
    (("add-ids", "--table", "frsh"), 2, 'Did you mean "fresh"?'),
    (("add-ids", "--table", "fresh", "--column", "x"), 2, 'column must be new in table "fresh"'),
    (("schema", "draft", "--table", "peopel"), 2, 'Did you mean "people"?'),
    (("schema", "draft", "--table", "people", "--label", "yy"), 2, "yy"),
    (("schema", "draft", "--table", "people", "--to", "data.duckdb"), 2, "exists, and is not overwritten"),
    (("schema", "draft", "--table", "people", "--to", "none/people.yml"), 2, "a folder that exists"),
    (("show", "--model", "mm"), 2, 'there is no model "mm". Did you mean "m"?'),
    (("show", "--model", "m", "--tree", "3"), 2, "tree must be a whole number from 0 to 2"),
    (("show", "--model", "m", "--depth", "0"), 2, "depth must be a whole number from 1"),
    (PREDICT, 2, "name the rows to score"),
    ((*SCORE, "--file", "x.csv"), 2, "name one: --table or --file"),
    (("predict", "--model", "n", "--table", "fresh"), 2, 'there is no model "n". Known: m.'),
    ((*PREDICT, "--table", "frsh"), 2, 'Did you mean "fresh"?'),
    ((*PREDICT, "--file", "none.csv"), 4, "there is no file"),
    ((*PREDICT, "--file", "data.duckdb"), 4, "neither CSV nor Parquet"),
    ((*SCORE, "--key", "persn"), 2, 'Did you mean "person"?'),
    ((*SCORE, "--to", "data.duckdb"), 2, "exists, and is not overwritten"),
    ((*SCORE, "--to", "none/labels.csv"), 2, "a folder that exists"),
    ((*SCORE, "--to", "n" * 300 + ".csv"), 2, "a file that can be written"),
    ((*SCORE, "--into", "fresh"), 2, "exists, and tables are never overwritten"),
    ((*SCORE, "--into", " "), 2, "the name of a new table"),
    ((*SCORE, "--into", "s", "--to", "s.csv"), 2, "--to does not go with --into"),
    ((*SCORE, "--into", "s", "--proba"), 2, "--probabilities does not go with --into"),
    ((*SCORE, "--into", "s", "--key", "x"), 2, "--key does not go with --into"),
    (("evaluate", "--model", "m", "--table", "keyed"), 2, 'called "y"'),
    (("sql", "--model", "m", "--form", "vew"), 2, "vew"),
    (("export", "--model", "m", "--to", "data.duckdb"), 2, "exists, and is not overwritten"),
    (("export", "--model", "m"), 2, "name the file to write"),
    (("export", "--model", "m", "--to", "m.json", "--table", "fresh"), 2, "--table says how a SQL script is made"),
    (("export", "--model", "m", "--onnx", "m.onnx", "--probabilities"), 2, "--probabilities says how"),
    (("export", "--model", "m", "--dialect", "snowflak"), 2, 'Did you mean "snowflake"?'),
    (("export", "--model", "m", "--dialect", "oracle"), 2, "one of bigquery, clickhouse"),
    (("export", "--model", "m", "--dialect", "mysql", "--to", "data.duckdb"), 2, "exists, and is not overwritten"),
    (("export", "--model", "m", "--dialect", "mysql", "--name", "a b"), 2, "name must be up to 50 letters"),
    (("export", "--model", "m", "--onnx", "data.duckdb"), 2, "exists, and is not overwritten"),
    (("export", "--model", "m", "--onnx", "none/m.onnx"), 2, "a folder that exists"),
    (("export", "--model", "m", "--onnx", "m.onnx", "--to", "m.json"), 2, "one form at a time"),
    (("import", "--from", "none.json"), 2, "there is no model file"),
    (("import", "--from", "data.duckdb"), 2, "cannot be read"),
    (("import", "--from", "."), 2, "there is no model file"),
    (("ledger", "--csv", "--json"), 2, "one form at a time"),
    (("ledger", "--table", "fresh"), 3, "not registered"),
    (("shell", "-c", "FROM dpsql_train('people', epsilon := 50)"), 3, "needs epsilon 50"),
]


@pytest.mark.parametrize(("words", "code", "message"), CASES, ids=[" ".join(case[0])[:60] for case in CASES])
def test_bad_input_has_its_own_message(cli: Cli, path: Path, words: tuple[str, ...], code: int, message: str) -> None:
    """The message names what is wrong, the code fits, stdout has no result, and file and receipt are as they were."""
    if "--onnx" in words:
        pytest.importorskip("onnx")
    before = kept(path)
    ran = cli(*words)
    said = ran.json["error"] if "--json" in words else ran.err
    assert ran.code == code
    assert "--json" in words or ran.out == ""
    assert message in said
    assert "Traceback" not in ran.err
    assert kept(path) == before


@pytest.mark.parametrize(
    ("db", "code", "message"),
    [
        ("missing.duckdb", 4, 'there is no database file "missing.duckdb"'),
        ("none/missing.duckdb", 4, "there is no database file"),
        (".", 4, "there is no Parquet or CSV file"),
        ("notes.txt", 4, "cannot be opened as a DuckDB database"),
        ("", 2, f"db must be a path, a {url_forms()} URL"),
        ("n" * 300, 2, f"db must be a path, a {url_forms()} URL"),
    ],
)
def test_a_file_that_is_no_database(cli: Cli, db: str, code: int, message: str) -> None:
    """What cannot be opened is said, and no file is made."""
    Path("notes.txt").write_text("not a database, but long enough to be looked into" * 100)
    before = sorted(Path().iterdir())
    ran = cli("models", db=db)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    assert sorted(Path().iterdir()) == before


@pytest.fixture
def held(path: Path) -> Iterator[None]:
    """Let another process hold the database file."""
    process = subprocess.Popen(
        [sys.executable, str(HOLDER), str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    yield
    process.communicate(timeout=60)


@pytest.mark.usefixtures("held")
def test_a_locked_file_is_out_of_reach(cli: Cli, path: Path) -> None:
    """While another process holds the file, training exits with 4 and says who is in the way."""
    before = path.read_bytes()
    ran = cli(*TRAIN, "--wait", "0")
    assert ran.code == 4
    assert ran.err.startswith(f'Error: another process holds "{path}".\nTry:   close it, or wait longer')
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("ALTER TABLE people DROP COLUMN x", 'has lost its column "x"'),
        ("ALTER TABLE people ALTER x TYPE INTEGER USING 0", 'column "x" of "people" was DOUBLE when registered'),
        ("ALTER TABLE people RENAME y TO z", 'has lost its column "y"'),
        ("DROP TABLE people", "no longer there"),
    ],
)
def test_a_table_that_changed_since_it_was_registered(cli: Cli, path: Path, change: str, message: str) -> None:
    """Lost, retyped or renamed columns and a lost table exit with 4 and charge nothing."""
    with connect(path) as opened:
        tables.run(opened.engine, change)
    before = kept(path)
    ran = cli(*TRAIN)
    assert ran.code == 4
    assert message in ran.err
    assert "--replace" in ran.err
    assert kept(path) == before


def test_the_budget_of_a_lost_table_can_still_be_read(cli: Cli, path: Path) -> None:
    """What was spent outlives the table."""
    with connect(path) as opened:
        tables.run(opened.engine, "DROP TABLE people")
    assert cli("budget", "--table", "people", "--json").json[0]["spent"] == 1


@pytest.mark.parametrize("damage", ["[]", "{}", '{"format": "dpsql-model"}', "null", "[[[", "\ufeff{}", '{"a": NaN}'])
def test_a_damaged_model_file_is_refused(cli: Cli, path: Path, damage: str) -> None:
    """Importing nonsense exits with 2 and stores nothing."""
    Path("bad.json").write_text(damage)
    before = kept(path)
    ran = cli("import", "--from", "bad.json")
    assert ran.code == 2
    assert ran.err.startswith("Error: ")
    assert kept(path) == before
