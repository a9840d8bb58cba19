"""A connection that dpsql opens reaches nothing but its database; an adopted one stays the caller's."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
import sqlglot

from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.duckdb.open_database import adopt, open_file
from dpsql.errors import QueryFailed
from tests.engines.aggregate import aggregate

COUNT = sqlglot.parse_one("SELECT COUNT(*) AS n FROM main.people")


def opened(path: str | Path) -> DuckDBEngine:
    """Open a database with a table of three people."""
    engine = open_file(path, create=True)
    with engine.transaction() as transaction:
        transaction.run("CREATE TABLE people AS SELECT range AS n FROM range(3)")
    return engine


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM read_blob('{file}')",
        "SELECT * FROM read_parquet('{file}')",
        "SELECT * FROM glob('{folder}/*')",
        "COPY people TO '{folder}/out.csv'",
        "COPY people FROM '{file}'",
        "EXPORT DATABASE '{folder}/out'",
        "IMPORT DATABASE '{folder}'",
        "ATTACH '{folder}/other.duckdb'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "LOAD '{folder}/x.duckdb_extension'",
    ],
)
def test_nothing_outside_the_database_can_be_reached(tmp_path: Path, statement: str) -> None:
    """Files, other databases and extensions are refused."""
    file = tmp_path / "data.csv"
    file.write_text("a\n1\n")
    engine = opened(tmp_path / "data.duckdb")
    text = statement.format(file=file, folder=tmp_path)
    with pytest.raises(QueryFailed), engine.transaction() as transaction:
        transaction.rows(text)
    engine.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv", "data.duckdb"]


@pytest.mark.parametrize(
    "setting",
    [
        "enable_external_access = true",
        "autoload_known_extensions = true",
        "autoinstall_known_extensions = true",
        "python_enable_replacements = true",
        "lock_configuration = false",
        "disabled_optimizers = ''",
        "memory_limit = '100GB'",
        "allow_community_extensions = true",
    ],
)
def test_the_configuration_is_locked(setting: str) -> None:
    """No setting can be changed once dpsql has opened the database."""
    engine = opened(":memory:")
    with pytest.raises(QueryFailed), engine.transaction() as transaction:
        transaction.run(f"SET {setting}")
    assert engine.weaknesses() == []
    engine.close()


def test_python_variables_are_not_tables() -> None:
    """A DataFrame in the caller's variables is not found under its name."""
    stolen = pd.DataFrame({"n": [1, 2, 3]})
    engine = opened(":memory:")
    with pytest.raises(QueryFailed):
        engine.frame(sqlglot.parse_one("SELECT * FROM stolen"))
    assert len(stolen) == 3
    engine.close()


def test_an_engine_dpsql_opened_has_no_weakness() -> None:
    """All protections hold on a connection that dpsql opened."""
    engine = opened(":memory:")
    assert engine.weaknesses() == []
    engine.close()


def test_adopt_lists_what_is_open() -> None:
    """A plain connection of the caller lacks all six protections, each named in a sentence."""
    connection = duckdb.connect(config={"temp_directory": "/where/others/read"})
    weak = adopt(connection).weaknesses()
    assert [sentence.split()[0] for sentence in weak] == [
        "enable_external_access",
        "autoinstall_known_extensions",
        "autoload_known_extensions",
        "python_enable_replacements",
        "lock_configuration",
        "temp_directory",
    ]
    connection.close()


def test_adopt_never_closes_the_callers_connection() -> None:
    """Closing the engine leaves an adopted connection open."""
    connection = duckdb.connect()
    adopt(connection).close()
    assert connection.execute("SELECT 1").fetchall() == [(1,)]
    connection.close()


def test_closing_lets_the_file_go(tmp_path: Path) -> None:
    """A file that dpsql opened can be opened with other settings once the engine is closed."""
    opened(tmp_path / "data.duckdb").close()
    connection = duckdb.connect(str(tmp_path / "data.duckdb"))
    assert connection.execute("SELECT COUNT(*) FROM people").fetchall() == [(3,)]
    connection.close()


def test_adopt_leaves_a_result_of_the_caller_alone() -> None:
    """A result that the caller has not fetched yet is still there after adopting and counting."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS SELECT range AS n FROM range(3)")
    connection.execute("SELECT n FROM people ORDER BY n")
    aggregate(adopt(connection), COUNT, {})
    assert connection.fetchall() == [(0,), (1,), (2,)]
    connection.close()


def test_adopt_leaves_the_callers_settings_alone() -> None:
    """The optimizer setting that counting needs is put back, whatever it was."""
    connection = duckdb.connect(config={"disabled_optimizers": "filter_pullup"})
    connection.execute("CREATE TABLE people(n INTEGER)")
    engine = adopt(connection)
    aggregate(engine, COUNT, {})
    setting = connection.execute("SELECT current_setting('disabled_optimizers')").fetchall()
    assert setting == [("filter_pullup",)]
    connection.close()


def test_adopt_works_on_a_locked_configuration() -> None:
    """A connection whose settings cannot be changed is counted all the same."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS SELECT range AS n FROM range(3)")
    connection.execute("SET lock_configuration = true")
    assert aggregate(adopt(connection), COUNT, {})["n"].tolist() == [3]
    connection.close()


def test_adopt_knows_the_file(tmp_path: Path) -> None:
    """An adopted connection's file is its database's; in memory there is none."""
    connection = duckdb.connect(str(tmp_path / "data.duckdb"))
    assert adopt(connection).path == tmp_path / "data.duckdb"
    connection.close()
    with duckdb.connect() as memory:
        assert adopt(memory).path is None


def test_temporary_tables_do_not_outlive_a_call() -> None:
    """A table loaded for one aggregate is gone for the next one and never listed."""
    engine = opened(":memory:")
    query = sqlglot.parse_one("SELECT COUNT(*) AS n FROM level_0")
    assert aggregate(engine, query, {"level_0": {"node": np.arange(4)}})["n"].tolist() == [4]
    with pytest.raises(QueryFailed):
        aggregate(engine, query, {})
    assert engine.tables() == ["people"]
    engine.close()


def test_temporary_tables_never_reach_the_file(tmp_path: Path) -> None:
    """After counting, the file holds the user's table and nothing else."""
    engine = opened(tmp_path / "data.duckdb")
    aggregate(engine, COUNT, {"level_0": {"node": np.arange(4)}})
    engine.close()
    connection = duckdb.connect(str(tmp_path / "data.duckdb"))
    assert connection.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("people",)]
    connection.close()


def test_temporary_tables_do_not_reach_an_adopted_connection() -> None:
    """The caller's connection sees none of the tables loaded for a count, nor a registered frame."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people(n INTEGER)")
    aggregate(adopt(connection), COUNT, {"level_0": {"node": np.arange(4)}})
    listed = connection.execute(
        "SELECT table_name FROM duckdb_tables() UNION ALL SELECT view_name FROM duckdb_views() WHERE NOT internal"
    ).fetchall()
    assert listed == [("people",)]
    connection.close()


@pytest.mark.parametrize("name", ["level_0", "roots", "axes"])
def test_a_temporary_table_never_stands_in_for_the_users(name: str) -> None:
    """A user's table with the name of one of ours is still the one that is counted."""
    engine = open_file(":memory:")
    with engine.transaction() as transaction:
        transaction.run(f"CREATE TABLE {name} AS SELECT range AS n FROM range(3)")
    query = sqlglot.parse_one(f"SELECT COUNT(*) AS n FROM main.{name}")
    assert aggregate(engine, query, {name: {"node": np.arange(40)}})["n"].tolist() == [3]
    engine.close()


def test_a_users_table_may_have_the_name_of_a_registered_frame() -> None:
    """A user's table called dpsql_batch disturbs neither loading nor counting."""
    engine = open_file(":memory:")
    with engine.transaction() as transaction:
        transaction.run("CREATE TABLE dpsql_batch AS SELECT range AS n FROM range(3)")
    query = sqlglot.parse_one("SELECT COUNT(*) AS n FROM main.dpsql_batch CROSS JOIN roots")
    assert aggregate(engine, query, {"roots": {"node": np.arange(40)}})["n"].tolist() == [120]
    engine.close()
