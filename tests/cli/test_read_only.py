"""Commands and calls that only look leave every file, folder and catalog as it was, byte for byte."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlglot import parse_one

import dpsql
from dpsql.api.database import Database
from dpsql.cli.main import run_command_line
from dpsql.errors import DatabaseReadOnly, DpsqlError
from tests.servers import OPEN_EMPTY, fresh_database

SCHEMA = {
    "label": "y",
    "classes": ["no", "yes"],
    "features": {"x": {"type": "numeric", "lower": 0, "upper": 1}},
}
ROWS = "SELECT i AS id, (i % 10) / 10.0 AS x, CASE WHEN i % 10 > 4 THEN 'yes' ELSE 'no' END AS y FROM range(60) AS t(i)"
#: Every command that only looks, without --db; OUT stands for a file in another folder.
COMMANDS: dict[str, list[str]] = {
    "draft": ["schema", "draft", "--table", "people", "--label", "y"],
    "budgets": ["budget"],
    "budget": ["budget", "--table", "people"],
    "ledger": ["ledger"],
    "ledger of a table": ["ledger", "--table", "people"],
    "verify": ["ledger", "verify"],
    "models": ["models"],
    "show": ["show", "--model", "m"],
    "advise": ["advise", "--table", "people", "--rows", "60"],
    "advise with a plan": ["advise", "--table", "people", "--buy", "0.1", "--dry-run"],
    "tune": ["advise", "--table", "people", "--rows", "60", "--tune", "rdt"],
    "plan": ["train", "--table", "people", "--method", "rdt", "--trees", "2", "--depth", "2", "--dry-run"],
    "sql of a run": ["train", "--table", "people", "--method", "rdt", "--trees", "2", "--depth", "2", "--sql"],
    "explain a run": ["explain", "--table", "people", "--method", "rdt", "--trees", "2", "--depth", "2"],
    "explain a model": ["explain", "--model", "m"],
    "predict": ["predict", "--model", "m", "--table", "fresh"],
    "predict a file": ["predict", "--model", "m", "--file", "NEW"],
    "predict to a file": ["predict", "--model", "m", "--table", "fresh", "--to", "OUT.csv"],
    "evaluate": ["evaluate", "--model", "m", "--table", "fresh"],
    "plan an evaluation": ["evaluate", "--model", "m", "--table", "people", "--epsilon", "0.1", "--dry-run"],
    "register in a plan": ["register", "--table", "fresh", "--schema", "SCHEMA", "--cap", "1", "--dry-run"],
    "register with a lookup in a plan": [
        "register",
        "--table",
        "fresh",
        "--label",
        "y",
        "--buy",
        "0.1",
        "--cap",
        "1",
        "--values-are-public",
        "y",
        "--dry-run",
    ],
    "sql of a model": ["sql", "--model", "m", "--table", "fresh"],
    "export": ["export", "--model", "m", "--to", "OUT.json"],
    "export sql": ["export", "--model", "m", "--dialect", "sqlite"],
    "structure": ["structure", "--table", "people", "--to", "OUT.json"],
    "shared trees": ["party", "export-structure", "--table", "people", "--depth", "2", "--to", "OUT.json"],
    "doctor": ["doctor"],
}


def stamp(folder: Path) -> dict[str, str]:
    """Return the hash of every file below a folder, and the names of its folders."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
    }


def make_file(folder: Path) -> Path:
    """Write a DuckDB file of two plain tables."""
    with duckdb.connect(str(folder / "data.duckdb")) as connection:
        for table in ("people", "fresh"):
            connection.execute(f"CREATE TABLE {table} AS {ROWS}")
    return folder / "data.duckdb"


def make_folder(folder: Path) -> Path:
    """Write a folder of a Parquet and a CSV file."""
    place = folder / "files"
    place.mkdir()
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({ROWS}) TO '{place / 'people.parquet'}'")
        connection.execute(f"COPY ({ROWS}) TO '{place / 'fresh.csv'}'")
    return place


PLACES: dict[str, Callable[[Path], Path]] = {"file": make_file, "folder": make_folder}


def train_in(place: Path) -> None:
    """Register the table of people, and train a model."""
    with dpsql.connect(place) as db:
        db.register("people", SCHEMA, cap=5)
        db.train("people", method="rdt", epsilon=1, trees=2, depth=2, name="m")


@pytest.fixture(scope="module", params=[(kind, used) for kind in PLACES for used in (False, True)], ids=str)
def prepared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, bool]:
    """Return a folder with data, the place in it to open, and whether dpsql was there before."""
    kind, used = request.param
    folder = tmp_path_factory.mktemp("data")
    place = PLACES[kind](folder)
    if used:
        train_in(place)
    return folder, place, used


def spelled(command: list[str], outside: Path) -> list[str]:
    """Return a command whose own files are in a folder outside."""
    (outside / "schema.json").write_text(str(SCHEMA).replace("'", '"'))
    (outside / "new.csv").write_text("id,x\n1,0.5\n2,0.1\n")
    words = {"SCHEMA": str(outside / "schema.json"), "NEW": str(outside / "new.csv")}
    return [words.get(word, word.replace("OUT", str(outside / "out"))) for word in command]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_looks_leaves_all_files_as_they_were(
    prepared: tuple[Path, Path, bool], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a fresh place, where many are refused, as well as on one with a ledger and a model, where each succeeds."""
    folder, place, used = prepared
    before = stamp(folder)
    command = spelled(COMMANDS[name], tmp_path)
    code = run_command_line([*command, "--db", str(place)])
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    assert stamp(folder) == before
    if used:
        assert code == 0, printed.err
    if name in ("draft", "register in a plan"):
        assert code == 0, printed.err


CALLS: dict[str, Callable[[Database], Any]] = {
    "draft": lambda db: db.draft("people"),
    "budgets": lambda db: db.budgets(),
    "budget": lambda db: db.budget("people"),
    "spent": lambda db: db.spent_on("people"),
    "ledger": lambda db: db.ledger("people"),
    "verify": lambda db: db.verify(),
    "models": lambda db: db.models(),
    "model": lambda db: db.model("m").show(),
    "advise": lambda db: db.advise("people", rows=60),
    "plan advice": lambda db: db.plan_advice("people", buy=0.1),
    "tune": lambda db: db.tune("people", "rdt", rows=60),
    "plan": lambda db: db.plan("people", method="rdt", trees=2, depth=2),
    "explain": lambda db: db.explain("people", method="rdt", trees=2, depth=2),
    "explain a model": lambda db: db.model("m").explain(),
    "predict": lambda db: db.model("m").predict("fresh"),
    "evaluate": lambda db: db.evaluate("m", "fresh"),
    "plan an evaluation": lambda db: db.plan_evaluation("m", "people", epsilon=0.1),
    "export": lambda db: db.model("m").export_sql("sqlite"),
    "structure": lambda db: db.structure("people"),
    "shared trees": lambda db: db.export_structure("people", depth=2),
    "doctor": lambda db: db.doctor(),
    "weaknesses": lambda db: db.weaknesses(),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_looks_leaves_all_files_as_they_were(prepared: tuple[Path, Path, bool], name: str) -> None:
    """In Python a database is opened before it is known what is asked of it: nothing is made before a write."""
    folder, place, used = prepared
    before = stamp(folder)
    with dpsql.connect(place) as db:
        try:
            CALLS[name](db)
        except DpsqlError:
            assert not used
        assert {path for path in stamp(folder) if "dpsql-spill" not in path} == set(before)
    assert stamp(folder) == before


@pytest.mark.parametrize("kind", PLACES)
def test_the_first_write_makes_the_ledger(tmp_path: Path, kind: str) -> None:
    """What was put off is done then, and the same object goes on with it."""
    place = PLACES[kind](tmp_path)
    with dpsql.connect(place) as db:
        assert db.budgets() == []
        db.register("people", SCHEMA, cap=5)
        db.train("people", method="rdt", epsilon=1, trees=2, depth=2, name="m")
        assert db.budget("people").spent_text == "1"
    with dpsql.connect(place, read_only=True) as db:
        assert db.verify() == []
        with pytest.raises(DatabaseReadOnly):
            db.register("fresh", SCHEMA, cap=5)


def test_a_read_only_folder_without_a_ledger_refuses_the_first_write(tmp_path: Path) -> None:
    """It can be looked at; what would write says where a ledger could be."""
    with dpsql.connect(make_folder(tmp_path), read_only=True) as db:
        assert "x:" in db.draft("people").text
        with pytest.raises(DatabaseReadOnly, match="cannot be written"):
            db.register("people", SCHEMA, cap=5)
    assert not list(tmp_path.rglob("*.duckdb"))


#: What writes: the owner's acts, a lookup of values, a run.
WRITES: dict[str, Callable[[Database], Any]] = {
    "register": lambda db: db.register("fresh", SCHEMA, cap=5),
    "buy": lambda db: db.buy_schema("fresh", cap=5, label="y", buy="0.1"),
    "look up": lambda db: db.draft("jobs", label="y", values_are_public=["y"]),
    "look up too many": lambda db: db.draft("jobs", label="y", values_are_public=["job"]),
    "train": lambda db: db.train("people", method="rdt", epsilon=1, trees=2, depth=2),
    "create": lambda db: db.engine.create("copied", parse_one("SELECT 1 AS a")),
}


def facts(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return what every file of a folder holds, and when it was written."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir() if path.is_file()}


BESIDE = ["no ledger", "a ledger beside", "its own ledger"]


def open_read_only(folder: Path, beside: str) -> Database:
    """Return a file opened read-only: with a ledger that is not there, with one beside it, or with its own."""
    place, ledger = make_file(folder), folder / "books.duckdb"
    with duckdb.connect(str(place)) as connection:
        connection.execute("CREATE TABLE jobs AS SELECT 'j' || range AS job, 'no' AS y FROM range(2000)")
    if beside != "no ledger":
        with dpsql.connect(place, ledger=None if beside == "its own ledger" else ledger) as db:
            db.register("people", SCHEMA, cap=5)
    return dpsql.connect(place, read_only=True, ledger=None if beside == "its own ledger" else ledger)


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("name", WRITES)
def test_what_writes_is_refused_before_a_row_is_read(tmp_path: Path, beside: str, name: str) -> None:
    """Whichever file holds the ledger, and also where none is there: no file is made, and none is changed.

    A lookup of too many values would otherwise say that there are so many.
    """
    with open_read_only(tmp_path, beside) as db:
        before = facts(tmp_path)
        registered = beside != "no ledger" or name != "train"
        with pytest.raises(DatabaseReadOnly if registered else DpsqlError) as refused:
            WRITES[name](db)
        assert not registered or "--read-only" in str(refused.value.hint)
        assert [budget.spent_text for budget in db.budgets()] == ["0"] * (beside != "no ledger")
        assert "x:" in db.draft("fresh").text
    assert facts(tmp_path) == before


def test_changed_files_are_looked_at_without_a_write(tmp_path: Path) -> None:
    """The views that stand for files in the ledger's database are brought up to date by the next write alone."""
    place = make_folder(tmp_path)
    train_in(place)
    (place / "more.csv").write_text("x,y\n0.5,no\n")
    before = stamp(tmp_path)
    with dpsql.connect(place) as db:
        assert "x:" in db.draft("more").text
    assert stamp(tmp_path) == before


def test_a_file_without_the_right_to_write_can_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is opened read-only by itself; a write is refused in words."""
    place = make_file(tmp_path)
    train_in(place)
    place.chmod(0o444)
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != place)  # for root every file is writable
    before = stamp(tmp_path)
    with dpsql.connect(place) as db:
        assert db.budget("people").spent_text == "1"
        assert len(db.model("m").predict("fresh")) == 60
        with pytest.raises(DatabaseReadOnly):
            db.train("people", method="rdt", epsilon=1, trees=2, depth=2)
    assert stamp(tmp_path) == before


def test_a_log_that_was_not_merged_stays_beside_its_file(tmp_path: Path) -> None:
    """A killed process leaves a write-ahead log; merging it would be a write."""
    place = make_file(tmp_path)
    train_in(place)
    copy = tmp_path / "copy"
    copy.mkdir()
    with dpsql.connect(place) as db:
        db.set_limits("people", lost_runs=7)
        for path in (place, place.with_name(place.name + ".wal"), *place.parent.glob("*receipt*")):
            if path.exists():
                shutil.copy(path, copy / path.name)
    before = stamp(copy)
    assert f"{place.name}.wal" in before
    assert run_command_line(["models", "--db", str(copy / place.name)]) == 0
    assert stamp(copy) == before


def catalog(url: str) -> list[tuple[Any, ...]]:
    """Return every schema, table and function of a PostgreSQL database that is not the server's own."""
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(url) as connection:
        return list(
            connection.execute(
                "SELECT nspname, relname, relkind::text, xmin::text FROM pg_namespace LEFT JOIN "
                "(SELECT relname, relkind, relnamespace, xmin FROM pg_class) AS c ON c.relnamespace = pg_namespace.oid "
                "WHERE nspname NOT LIKE 'pg\\_%' AND nspname <> 'information_schema' ORDER BY 1, 2, 3"
            ).fetchall()
        )


@pytest.mark.parametrize("used", [False, True])
def test_looks_leave_a_postgres_database_as_it_was(used: bool, tmp_path: Path) -> None:
    """No schema, no table, no change of either."""
    psycopg = pytest.importorskip("psycopg")
    url = fresh_database()
    with psycopg.connect(url, autocommit=True) as connection:
        for table in ("people", "fresh"):
            rows = ROWS.replace("range(60) AS t(i)", "generate_series(0, 59) AS t(i)")
            connection.execute(f"CREATE TABLE {table} AS {rows}".replace("/ 10.0", "/ 10.0::float8"))
    if used:
        with dpsql.connect(url) as db:
            db.register("people", SCHEMA, cap=5)
            db.train("people", method="rdt", epsilon=1, trees=2, depth=2, name="m")
    before = catalog(url)
    for name, command in COMMANDS.items():
        (tmp_path / name.replace(" ", "_")).mkdir()
        code = run_command_line([*spelled(command, tmp_path / name.replace(" ", "_")), "--db", url])
        assert not used or code == 0 or name == "doctor", name  # a test server forgoes fsync, which it tells
        assert catalog(url) == before, name


@pytest.mark.parametrize("engine", ["chdb", "spark"])
def test_looks_leave_no_ledger_where_it_lies_elsewhere(engine: str, tmp_path: Path) -> None:
    """The file that is to hold the ledger of an engine without transactions is made by the first write."""
    opened: Any = OPEN_EMPTY[engine]()
    place = tmp_path / "books.duckdb"
    with dpsql.connect(opened.session, ledger=place) as db:
        if engine == "chdb":
            opened.session.query("CREATE OR REPLACE TABLE looked (x Float64, y String) ENGINE = MergeTree ORDER BY x")
        else:
            opened.session.sql("SELECT 0.5D AS x, 'no' AS y").createOrReplaceTempView("looked")
        for look in (lambda: db.draft("looked"), db.budgets, db.verify, db.models, db.doctor):
            look()
            assert not list(tmp_path.iterdir())
    opened.close()
