"""One table, one budget, where the ledger is in another database: chDB and Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpsql.api.database import Database, connect
from dpsql.errors import DpsqlError, TableChanged, UsageError
from dpsql.models.score import public_table
from tests.attacks.budgets import SCHEMA, TINY, assert_no_free_look
from tests.servers import chdb, spark

# ClickHouse.


@pytest.fixture
def clicks() -> Iterator[tuple[Database, Any]]:
    """Open chDB in a database of the test's own, with a registered table "people" and a public one."""
    session = chdb()
    session.query("CREATE DATABASE one_budget")
    session.query("USE one_budget")
    for name, kind in (("people", "MergeTree ORDER BY tuple()"), ("newcomers", "Memory")):
        session.query(f"CREATE TABLE {name} (x Float64, c String, y String) ENGINE = {kind}")
        session.query(f"INSERT INTO {name} SELECT number, 'a', 'yes' FROM numbers(10)")
    with connect(session, ledger=":memory:", who="ann") as opened:
        opened.register("people", SCHEMA, cap=1)
        yield opened, session
    session.query("USE default")
    session.query("DROP DATABASE one_budget")


def test_a_renamed_table_of_chdb_keeps_its_budget(clicks: tuple[Database, Any]) -> None:
    """On disk and in memory, renamed or with names exchanged."""
    db, session = clicks
    db.register("newcomers", SCHEMA, cap=1)
    session.query("RENAME TABLE people TO folk, newcomers TO kept")
    for name in ("folk", "kept"):
        with pytest.raises(UsageError, match="one budget"):
            db.register(name, SCHEMA, cap=1)
        assert_no_free_look(db, name)
        with pytest.raises(TableChanged, match="renamed"):
            db.train(name, **TINY)
    session.query("RENAME TABLE folk TO newcomers, kept TO people")
    with pytest.raises(TableChanged, match="another took its name"):
        db.train("people", **TINY)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW look AS SELECT * FROM people",
        "CREATE TABLE look ENGINE = Merge(currentDatabase(), 'people')",
        "CREATE TABLE look AS people ENGINE = Buffer(currentDatabase(), people, 1, 10, 100, 10, 100, 1000, 10000)",
        "CREATE MATERIALIZED VIEW look ENGINE = MergeTree ORDER BY tuple() POPULATE AS SELECT * FROM people",
        "CREATE TABLE look AS merge(currentDatabase(), 'people')",
    ],
)
def test_nothing_in_chdb_shows_private_rows_for_free(clicks: tuple[Database, Any], statement: str) -> None:
    """Views and tables whose rows are those of others are neither read for free nor registered."""
    db, session = clicks
    session.query(statement)
    names = [name for name in db.engine.tables() if name not in ("people", "newcomers") and "." not in name[1:]]
    inner = [name for name in db.engine.tables() if name.startswith(".inner")]
    for name in {"look", *names, *inner}:
        assert_no_free_look(db, name)
        with pytest.raises(DpsqlError):
            db.register(name, SCHEMA, cap=1)


def test_a_decoy_of_chdb_is_refused(clicks: tuple[Database, Any]) -> None:
    """A table called "hr.people" and table "people" of database "hr" are never taken for each other."""
    db, session = clicks
    session.query("CREATE TABLE `one_budget.people` (x Float64, c String, y String) ENGINE = Memory")
    session.query("CREATE DATABASE hr")
    try:
        session.query("CREATE TABLE hr.people (x Float64, c String, y String) ENGINE = Memory")
        session.query("CREATE TABLE `hr.people` (x Float64, c String, y String) ENGINE = Memory")
        with pytest.raises(UsageError, match="can mean two tables"):
            db.register("hr.people", SCHEMA, cap=1)
    finally:
        session.query("DROP DATABASE hr")


# Spark.


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Database, Any, Path]]:
    """Open Spark with a registered table that lies in a folder, in two parts."""
    session = spark()
    folder = tmp_path / "people"
    rows = session.createDataFrame(
        [(float(n), "a", "yes", n % 2) for n in range(10)], "x double, c string, y string, part int"
    )
    rows.write.partitionBy("part").parquet(str(folder))
    session.sql("CREATE DATABASE one_budget")
    session.sql(
        f"CREATE TABLE one_budget.people (x double, c string, y string) USING parquet LOCATION '{folder}/part=0'"
    )
    session.sql("CREATE TABLE one_budget.kept USING parquet AS SELECT 1.0D AS x, 'a' AS c, 'yes' AS y")
    with connect(session, ledger=":memory:", who="ann") as opened:
        opened.register("one_budget.people", SCHEMA, cap=1)
        opened.register("one_budget.kept", SCHEMA, cap=1)
        yield opened, session, folder
    session.sql("DROP DATABASE one_budget CASCADE")
    session.catalog.dropTempView("look")
    session.catalog.dropTempView("again")


def test_two_names_of_one_folder_have_one_budget(cluster: tuple[Database, Any, Path]) -> None:
    """In Spark a table is its files: another table on the same folder, on one above it, and a path have its budget."""
    db, session, folder = cluster
    session.sql(f"CREATE TABLE one_budget.same (x double, c string, y string) USING parquet LOCATION '{folder}/part=0'")
    session.sql(f"CREATE TABLE one_budget.above (x double, c string, y string) USING parquet LOCATION '{folder}'")
    session.read.parquet(f"{folder}/part=0").createOrReplaceTempView("look")
    session.sql("ALTER TABLE one_budget.kept RENAME TO one_budget.moved")
    for name in ("one_budget.same", "one_budget.above", "look", "one_budget.moved"):
        with pytest.raises(UsageError, match="one budget"):
            db.register(name, SCHEMA, cap=1)
        assert_no_free_look(db, name)


def test_a_part_moved_out_of_a_folder_of_spark_keeps_its_budget(cluster: tuple[Database, Any, Path]) -> None:
    """A file that was there when the table was registered, and one that a later run read first."""
    db, session, folder = cluster
    first = next((folder / "part=0").glob("*.parquet"))
    added = next((folder / "part=1").glob("*.parquet")).rename(first.with_name("added.parquet"))
    session.sql("REFRESH TABLE one_budget.people")
    db.train("one_budget.people", **TINY)
    for number, name in enumerate((first.name, added.name)):
        place = folder.parent / f"other{number}"
        place.mkdir()
        (folder / "part=0" / name).rename(place / name)
        columns = "(x double, c string, y string)"
        session.sql(f"CREATE TABLE one_budget.other{number} {columns} USING parquet LOCATION '{place}'")
        with pytest.raises(UsageError, match="one budget"):
            db.register(f"one_budget.other{number}", SCHEMA, cap=1)
        assert_no_free_look(db, f"one_budget.other{number}")


def test_views_of_spark_show_no_private_rows_for_free(cluster: tuple[Database, Any, Path]) -> None:
    """By name, by path, through a function in SQL, or in memory under two names."""
    db, session, folder = cluster
    session.sql("CREATE VIEW one_budget.seen AS SELECT x, c, y FROM one_budget.people")
    session.sql(f"CREATE VIEW one_budget.path AS SELECT x, c, y FROM parquet.`{folder}/part=0`")
    session.sql("CREATE TABLE one_budget.fresh USING parquet AS SELECT 1.0D AS x, 'a' AS c, 'yes' AS y")
    session.sql("CREATE FUNCTION one_budget.total() RETURNS BIGINT RETURN SELECT count(*) FROM one_budget.people")
    session.sql("CREATE VIEW one_budget.counted AS SELECT one_budget.total() AS x, c, y FROM one_budget.fresh")
    for name in ("seen", "path", "counted"):
        assert_no_free_look(db, f"one_budget.{name}")
    frame = session.createDataFrame([(1.0, "a", "yes")], "x double, c string, y string")
    frame.createOrReplaceTempView("look")
    frame.createOrReplaceTempView("again")
    db.register("look", SCHEMA, cap=1)
    with pytest.raises(UsageError, match="one budget"):
        db.register("again", SCHEMA, cap=1)
    assert public_table(db, "one_budget.fresh").name == "one_budget.fresh"
