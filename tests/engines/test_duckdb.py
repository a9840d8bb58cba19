"""The DuckDB engine: opening files, transactions, replaced errors, the catalog."""

from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest
import sqlglot

from dpsql.engines.base import Conflict
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.duckdb.open_database import open_file
from dpsql.errors import DatabaseError, DatabaseLocked, DatabaseReadOnly, QueryFailed
from tests.engines.aggregate import aggregate
from tests.hostile import HOSTILE

SECRET = "a-secret-cell"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the database file lies."""
    return tmp_path / "data.duckdb"


@pytest.fixture
def opened(path: Path) -> Iterator[DuckDBEngine]:
    """Open a database file with a table that holds a secret."""
    engine = open_file(path, create=True)
    with engine.transaction() as transaction:
        transaction.run("CREATE TABLE people(name VARCHAR PRIMARY KEY, n INTEGER)")
        transaction.run("INSERT INTO people VALUES (?, 1)", [SECRET])
    yield engine
    engine.close()


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Start another process that holds the database file."""
    command = [sys.executable, str(Path(__file__).with_name("holder.py")), str(path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    yield process
    process.communicate(timeout=60)


def value(engine: DuckDBEngine) -> int:
    """Return the one number in the table."""
    with engine.transaction() as transaction:
        return int(transaction.rows("SELECT n FROM people")[0]["n"])


# Opening


def test_a_file_held_by_another_process_is_locked(path: Path, holder: subprocess.Popen[str]) -> None:
    """When the wait is over and another process still holds the file, DatabaseLocked says so."""
    with pytest.raises(DatabaseLocked, match="another process"):
        open_file(path, wait=0.1)


def test_a_file_let_go_within_the_wait_is_opened(path: Path, holder: subprocess.Popen[str]) -> None:
    """The engine opens the file as soon as the other process ends."""
    assert holder.stdin is not None
    holder.stdin.close()
    holder.stdin = None
    engine = open_file(path, wait=60)
    assert engine.tables() == []
    engine.close()


def test_a_missing_file_is_not_created_unasked(path: Path) -> None:
    """Opening a file that is not there fails and leaves none behind."""
    with pytest.raises(DatabaseError, match="no database file"):
        open_file(path)
    assert not path.exists()


def test_a_missing_folder_is_not_created(path: Path) -> None:
    """Asking to create a file in a folder that is not there fails."""
    with pytest.raises(DatabaseError, match="no database file"):
        open_file(path.parent / "none" / "data.duckdb", create=True)


@pytest.mark.parametrize("name", ["data.duckdb", "clock.duckdb", "read-only.duckdb"])
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, name: str) -> None:
    """Another kind of file is refused at once as what it is, whatever its name."""
    (tmp_path / name).write_text("this is not a database" * 500)
    with pytest.raises(DatabaseError, match="cannot be opened") as caught:
        open_file(tmp_path / name, wait=60)
    assert type(caught.value) is DatabaseError


def test_a_folder_is_refused(tmp_path: Path) -> None:
    """A folder is not a database."""
    with pytest.raises(DatabaseError, match="cannot be opened"):
        open_file(tmp_path)


def test_a_file_open_with_other_settings_in_this_process_is_refused(path: Path) -> None:
    """A file that this process has open without protection is not opened a second time."""
    with duckdb.connect(str(path)), pytest.raises(DatabaseError, match="already open in this process"):
        open_file(path)


def test_a_read_only_database_refuses_to_write(opened: DuckDBEngine, path: Path) -> None:
    """Writing to a database opened read-only raises DatabaseReadOnly and changes nothing."""
    opened.close()
    engine = open_file(path, read_only=True)
    with pytest.raises(DatabaseReadOnly), engine.transaction() as transaction:
        transaction.run("UPDATE people SET n = 2")
    engine.close()


def test_a_read_only_database_can_be_counted(opened: DuckDBEngine, path: Path) -> None:
    """Temporary tables and aggregates work on a database opened read-only."""
    opened.close()
    engine = open_file(path, read_only=True)
    query = sqlglot.parse_one("SELECT COUNT(*) AS n FROM main.people CROSS JOIN roots")
    assert aggregate(engine, query, {"roots": {"node": np.arange(5)}})["n"].tolist() == [5]
    engine.close()


# Transactions


def test_a_finished_block_is_durable(opened: DuckDBEngine, path: Path) -> None:
    """What a finished block wrote is in the file when it is opened again."""
    with opened.transaction() as transaction:
        transaction.run("UPDATE people SET n = 2")
    opened.close()
    again = open_file(path)
    assert value(again) == 2
    again.close()


def test_a_block_that_raises_is_undone(opened: DuckDBEngine) -> None:
    """When a block raises, all its statements are undone and the error goes through."""

    def interrupted() -> None:
        with opened.transaction() as transaction:
            transaction.run("UPDATE people SET n = 2")
            transaction.run("CREATE TABLE other(n INTEGER)")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert (value(opened), opened.tables()) == (1, ["people"])


def test_a_failed_statement_undoes_the_block(opened: DuckDBEngine) -> None:
    """When one statement fails, the earlier ones are undone too."""

    def failing() -> None:
        with opened.transaction() as transaction:
            transaction.run("UPDATE people SET n = 2")
            transaction.run("SELECT nonsense FROM nowhere")

    with pytest.raises(QueryFailed):
        failing()
    assert value(opened) == 1


def test_an_open_block_is_not_seen_by_others(opened: DuckDBEngine) -> None:
    """Until a block ends, others read the old value."""
    with opened.transaction() as transaction:
        transaction.run("UPDATE people SET n = 2")
        assert value(opened) == 1
    assert value(opened) == 2


def test_two_writers_of_one_row_conflict(opened: DuckDBEngine) -> None:
    """The slower of two writers of the same row gets Conflict, and the faster one's value stays."""
    with opened.transaction() as first:
        first.run("UPDATE people SET n = 2")
        with pytest.raises(Conflict), opened.transaction() as second:
            second.run("UPDATE people SET n = 3")
    assert value(opened) == 2


def test_run_returns_the_number_of_changed_rows(opened: DuckDBEngine) -> None:
    """An update says how many rows it changed, also when there are none."""
    with opened.transaction() as transaction:
        assert transaction.run("UPDATE people SET n = 5") == 1
        assert transaction.run("UPDATE people SET n = 5 WHERE n = 99") == 0


def test_parameters_never_become_sql(opened: DuckDBEngine) -> None:
    """Every hostile text comes back as it was stored."""
    with opened.transaction() as transaction:
        transaction.run("CREATE TABLE texts(place INTEGER, text VARCHAR)")
        for place, text in enumerate(HOSTILE):
            transaction.run("INSERT INTO texts VALUES (?, ?)", [place, text])
        rows = transaction.rows("SELECT text FROM texts ORDER BY place")
    assert [row["text"] for row in rows] == HOSTILE


def test_insert_appends_whole_columns(opened: DuckDBEngine) -> None:
    """Whole arrays are appended to a table of schema dpsql, by column name."""
    with opened.transaction() as transaction:
        transaction.run("CREATE SCHEMA dpsql")
        transaction.run("CREATE TABLE dpsql.nodes(a INTEGER, b VARCHAR)")
        transaction.insert("nodes", {"b": np.array(["x", "y"], object), "a": np.array([1, 2])})
        rows = transaction.rows("SELECT a, b FROM dpsql.nodes ORDER BY a")
    assert rows == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


# Errors


FAILURES: dict[str, Callable[[DuckDBEngine], object]] = {
    "cast": lambda engine: aggregate(
        engine, sqlglot.parse_one("SELECT SUM(CAST(name AS INTEGER)) AS n FROM main.people"), {}
    ),
    "cast in frame": lambda engine: engine.frame(sqlglot.parse_one("SELECT CAST(name AS DATE) AS n FROM people")),
    "error function": lambda engine: engine.frame(sqlglot.parse_one("SELECT error(name) AS n FROM people")),
    "constraint": lambda engine: _written(engine, "INSERT INTO people SELECT name, 2 FROM people"),
    "cast while writing": lambda engine: _written(engine, "UPDATE people SET n = name"),
    "cast while reading": lambda engine: _read(engine, "SELECT CAST(name AS INTEGER) FROM people"),
    "enum": lambda engine: _read(engine, "SELECT CAST(name AS ENUM('x')) FROM people"),
    "json": lambda engine: _read(engine, "SELECT strptime(name, '%Y') FROM people"),
    "create": lambda engine: engine.create("made", sqlglot.parse_one("SELECT CAST(name AS INTEGER) AS n FROM people")),
}


def _written(engine: DuckDBEngine, statement: str) -> None:
    with engine.transaction() as transaction:
        transaction.run(statement)


def _read(engine: DuckDBEngine, query: str) -> None:
    with engine.transaction() as transaction:
        transaction.rows(query)


@pytest.mark.parametrize("failure", sorted(FAILURES))
def test_errors_never_quote_a_cell(opened: DuckDBEngine, failure: str) -> None:
    """A failing query raises our own error: no text, argument, cause or context of it holds the cell."""
    with pytest.raises((QueryFailed, Conflict)) as caught:
        FAILURES[failure](opened)
    error = caught.value
    everything = [str(error), repr(error), repr(error.args), repr(vars(error))]
    everything += traceback.format_exception(error)
    assert not any(SECRET in text for text in everything)
    assert error.__cause__ is None
    assert error.__context__ is None


@pytest.mark.parametrize("failure", ["cast", "cast while reading", "error function"])
def test_the_engines_own_error_does_quote_the_cell(path: Path, opened: DuckDBEngine, failure: str) -> None:
    """The test above has power: what DuckDB itself says holds the cell."""
    cursor = opened.connection.cursor()
    text = "SELECT error(name) FROM people" if failure == "error function" else "SELECT name::INTEGER FROM people"
    with pytest.raises(duckdb.Error, match=SECRET):
        cursor.execute(text).fetchall()


def test_a_failed_query_names_the_kind_of_error(opened: DuckDBEngine) -> None:
    """QueryFailed carries the class of the engine's error, not its text."""
    with pytest.raises(QueryFailed) as caught:
        FAILURES["cast in frame"](opened)
    assert caught.value.kind == "ConversionException"


def test_a_failed_count_does_not_even_name_the_kind(opened: DuckDBEngine) -> None:
    """Over private rows the kind of failure depends on cells, so that it is withheld: a cast and a typo look alike."""
    queries = ("SELECT SUM(CAST(name AS INTEGER)) AS n FROM main.people", "SELECT COUNT(nobody) AS n FROM main.people")
    shown = set()
    for query in queries:
        with pytest.raises(QueryFailed) as caught:
            aggregate(opened, sqlglot.parse_one(query), {})
        shown.add((str(caught.value), caught.value.kind))
    assert len(shown) == 1


def test_a_closed_database_is_our_own_error(opened: DuckDBEngine) -> None:
    """Asking a closed engine raises an error of ours, not the driver's."""
    opened.close()
    with pytest.raises(QueryFailed):
        opened.tables()


# The catalog


def test_the_catalog_knows_types_and_families(opened: DuckDBEngine) -> None:
    """Columns come in order, with the engine's type, our family and an ENUM's values."""
    _written(opened, "CREATE TABLE t(a BIGINT, b DECIMAL(9,2), c ENUM('x', 'it''s'), d BOOLEAN, e DATE, f VARCHAR)")
    info = opened.table("t")
    assert info is not None
    assert [column.family for column in info.columns] == ["integer", "real", "text", "boolean", "date", "text"]
    assert info.columns[2].values == ("x", "it's")


def test_an_enum_with_hostile_values_comes_back_the_same(opened: DuckDBEngine) -> None:
    """The values of an ENUM are read from the catalog unchanged, whatever characters they hold."""
    listed = ", ".join("'" + text.replace("'", "''") + "'" for text in HOSTILE)
    _written(opened, f"CREATE TABLE t(c ENUM({listed}))")
    info = opened.table("t")
    assert info is not None
    assert list(info.columns[0].values) == HOSTILE


def test_the_catalog_says_nothing_of_rows(opened: DuckDBEngine) -> None:
    """What the catalog says of a table is the same with one row and with a thousand."""
    before = opened.table("people")
    _written(opened, "INSERT INTO people SELECT range::VARCHAR, range FROM range(1000)")
    assert opened.table("people") == before


def test_the_catalog_runs_no_view(opened: DuckDBEngine) -> None:
    """A view that fails as soon as a row is read can still be described."""
    _written(opened, "CREATE VIEW broken AS SELECT CAST(name AS INTEGER) AS n FROM people")
    info = opened.table("broken")
    assert info is not None
    assert (info.kind, [column.name for column in info.columns]) == ("view", ["n"])


def test_tables_are_found_whatever_their_letter_case(opened: DuckDBEngine) -> None:
    """Letter case does not count, and the catalog's own spelling comes back."""
    _written(opened, 'CREATE TABLE "Mixed"("Col" INTEGER)')
    info = opened.table("mIXED")
    assert info is not None
    assert (info.name, info.column("COL")) == ("Mixed", info.columns[0])


def test_two_tables_that_only_unicode_folds_together_stay_apart(opened: DuckDBEngine) -> None:
    """DuckDB folds ASCII letters only: "É" and "é" are two tables, each found under its own name."""
    _written(opened, 'CREATE TABLE "É"(a INTEGER)')
    _written(opened, 'CREATE TABLE "é"(b INTEGER)')
    found = [opened.table(name) for name in ("É", "é")]
    assert [info.columns[0].name for info in found if info] == ["a", "b"]


def test_tables_of_other_schemas_are_qualified(opened: DuckDBEngine) -> None:
    """A table outside schema main is listed and found as schema.table."""
    _written(opened, "CREATE SCHEMA clinic")
    _written(opened, "CREATE TABLE clinic.visits(n INTEGER)")
    info = opened.table("Clinic.Visits")
    assert info is not None
    assert (info.name, info.schema, info.table) == ("clinic.visits", "clinic", "visits")
    assert opened.tables() == ["clinic.visits", "people"]


def test_dpsqls_own_tables_are_left_out(opened: DuckDBEngine) -> None:
    """Tables of schema dpsql are neither listed nor found."""
    _written(opened, "CREATE SCHEMA dpsql")
    _written(opened, "CREATE TABLE dpsql.entry(n INTEGER)")
    assert opened.table("dpsql.entry") is None
    assert opened.tables() == ["people"]


def test_an_unknown_table_is_none(opened: DuckDBEngine) -> None:
    """A table that is not there is None, not an error."""
    assert opened.table("nobody") is None


def test_check_constraints_are_listed(opened: DuckDBEngine) -> None:
    """CHECK constraints come as text, for public domains."""
    _written(opened, "CREATE TABLE t(age INTEGER CHECK (age BETWEEN 0 AND 120))")
    info = opened.table("t")
    assert info is not None
    assert len(info.checks) == 1
    assert "120" in info.checks[0]
