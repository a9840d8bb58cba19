"""Spark: rows that stay in the cluster, sessions left as they were, a ledger elsewhere, nothing left behind."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
import sqlglot
from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger
from sqlglot import exp

import dpsql
from dpsql.api import census
from dpsql.compile.count import leaves
from dpsql.compile.count.leaves import Slice
from dpsql.compile.count.levels import SHARED_LEVELS, level_name
from dpsql.compile.rows import Source, Tickets, table_reference
from dpsql.engines.open_engine import open_engine
from dpsql.engines.spark.vocabulary import SparkVocabulary
from dpsql.errors import DatabaseError, ParameterError, QueryFailed, SchemaError, UsageError
from dpsql.trees.grid import axes
from dpsql.trees.grow.random_trees import random_forest
from tests.engines.aggregate import aggregate
from tests.servers import fresh_database, spark
from tests.tables import SCHEMA

from . import runs

pytestmark = pytest.mark.usefixtures("session")


@pytest.fixture
def session() -> Any:
    """Return a session with temporary views and settings of its own."""
    return spark().newSession()


@pytest.fixture
def engine(session: Any) -> Iterator[Any]:
    """Open the engine on it, with a ledger in memory."""
    opened = open_engine(session, ledger=":memory:")
    yield opened
    opened.close()


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Return a folder with two Parquet tables of the census, a private and a public one."""
    pd.DataFrame(census.rows(1500, 1)).to_parquet(tmp_path / "adult.parquet")
    (tmp_path / "fresh").mkdir()
    pd.DataFrame(census.rows(200, 2)).to_parquet(tmp_path / "fresh" / "part-0.parquet")
    (tmp_path / "notes.txt").write_text("not a table")
    return tmp_path


def view(session: Any, name: str, rows: int = 400, parts: int = 2, seed: int = 1) -> None:
    """Make a temporary view of x, c and y."""
    chance = np.random.default_rng(seed)
    made = [
        (float(x), str(c), str(y))
        for x, c, y in zip(
            chance.uniform(0, 64, rows),
            chance.choice(["a", "b"], rows),
            chance.choice(["no", "yes", "maybe"], rows),
            strict=True,
        )
    ]
    session.createDataFrame(made, "x double, c string, y string").repartition(parts).createOrReplaceTempView(name)


def kept(session: Any) -> int:
    """Return how many sets of rows are stored in the cluster."""
    return int(session.sparkContext._jsc.getPersistentRDDs().size())


# Opening.


def test_spark_without_a_ledger_is_refused(session: Any) -> None:
    """The error names the option."""
    with pytest.raises(UsageError, match="--ledger"):
        dpsql.connect(session)
    with pytest.raises(ParameterError, match="DuckDB file"):
        dpsql.connect(session, ledger="spark://local[2]")


def test_a_session_of_the_callers_stays_open(session: Any, tmp_path: Path) -> None:
    """Closing lets the ledger go, and leaves the session alone."""
    dpsql.connect(session, ledger=tmp_path / "l.duckdb").close()
    assert session.range(3).count() == 3


def test_what_a_session_leaves_open_is_told(session: Any) -> None:
    """One that dpsql did not start keeps a log of its own."""
    with dpsql.connect(session, ledger=":memory:") as db:
        assert any("log" in one for one in db.weaknesses())


# The catalog.


def test_parquet_files_and_folders_of_them_are_tables(lake: Path) -> None:
    """By their names, with types from the footer."""
    with dpsql.connect(f"spark://local[2]{lake}", ledger=":memory:") as db:
        assert {"adult", "fresh"} <= set(db.engine.tables())  # views of other tests may stand beside them
        info = db.engine.table("ADULT")
        assert (info.name, info.kind) == ("adult", "table")
        assert info.column("age").family == "integer"
        assert info.column("income").family == "text"


def test_a_database_may_be_called_parquet(session: Any, engine: Any) -> None:
    """Its tables are tables, not files."""
    session.sql("CREATE DATABASE IF NOT EXISTS parquet")
    try:
        session.sql("CREATE TABLE parquet.people AS SELECT 1.5D AS x, 'a' AS c, 'no' AS y")
        info = engine.table("parquet.people")
        assert info.column("x").family == "real"
        source = Source(SCHEMA, table_reference(info.table, info.schema), {})
        made = leaves.row_count(source, engine.vocabulary, Tickets((1, 2, 3)))
        assert aggregate(engine, made.query, made.tables)["rows"].tolist() == [1]
    finally:
        session.sql("DROP DATABASE parquet CASCADE")


def test_a_footer_is_read_again_when_its_file_changes(lake: Path) -> None:
    """What was known of the file before is not told of the new one."""
    with dpsql.connect(f"spark://local[2]{lake}", ledger=":memory:") as db:
        assert db.engine.table("adult") == db.engine.table("adult")
        pd.DataFrame({"age": ["old"], "more": [1.5]}).to_parquet(lake / "adult.parquet")
        columns = db.engine.table("adult").columns
        assert [(column.name, column.family) for column in columns] == [("age", "text"), ("more", "real")]
        pd.DataFrame({"age": ["older"]}).to_parquet(lake / "fresh" / "part-1.parquet")
        (lake / "fresh" / "part-0.parquet").unlink()
        assert [column.name for column in db.engine.table("fresh").columns] == ["age"]


def test_tables_and_views_of_the_catalog(session: Any, engine: Any) -> None:
    """A row-to-row view is unfolded onto its table; a temporary one over a table proves nothing."""
    session.sql("CREATE DATABASE IF NOT EXISTS shop")
    session.sql("CREATE TABLE shop.people (x DOUBLE, c STRING, y STRING) USING parquet")
    try:
        session.sql("USE shop")
        session.sql("CREATE VIEW adults AS SELECT x, c, y FROM people WHERE x > 18")
        session.sql("CREATE TEMPORARY VIEW mine AS SELECT * FROM shop.people")
        session.sql("USE default")
        assert {"shop.people", "shop.adults", "mine"} <= set(engine.tables())
        assert engine.table("shop.people").kind == "table"
        with dpsql.api.database.Database(engine) as db:
            base = db.register("shop.adults", SCHEMA, cap=1).base
            assert (base.schema, base.table) == ("shop", "people")
            with pytest.raises(SchemaError, match="cannot be registered"):
                db.register("mine", SCHEMA, cap=1)
    finally:
        session.sql("DROP DATABASE shop CASCADE")


def test_a_view_of_random_rows_is_refused(session: Any, engine: Any) -> None:
    """Each reading of it would be another table."""
    session.sql("SELECT rand() AS x").createOrReplaceTempView("chance")
    with pytest.raises(DatabaseError, match="random"):
        engine.table("chance")


def test_a_unit_whose_equal_values_hash_differently_is_refused(session: Any) -> None:
    """Texts that are equal whatever their letter case are two hashes, and would be in two trees."""
    session.sql("SELECT 'a' COLLATE UTF8_LCASE AS who, 1.0D AS x, 'a' AS c, 'no' AS y").createOrReplaceTempView("t")
    units = {**SCHEMA.to_dict(), "privacy_unit": {"column": "who", "max_rows": 2}}
    with dpsql.connect(session, ledger=":memory:") as db, pytest.raises(SchemaError, match='"who".*collation'):
        db.register("t", units, cap=1)


def test_ids_cannot_be_added(session: Any, engine: Any) -> None:
    """The error says what to do instead."""
    view(session, "t")
    with pytest.raises(DatabaseError, match="uuid"):
        engine.add_column(engine.table("t"), "id", lambda count: np.arange(count))


# What SQL means.


def test_a_replaced_function_stops_a_run_before_it_is_charged(session: Any) -> None:
    """A session's own FLOOR could do anything. Newer Sparks prefer the built-in one: then it stops nothing."""
    view(session, "t")
    session.udf.register("floor", lambda x: 1)
    replaced = int(session.sql("SELECT floor(2.5D) AS n").collect()[0].n) == 1
    with dpsql.connect(session, ledger=":memory:") as db:
        db.register("t", SCHEMA, cap=2)
        assert "floor" in db.engine.user_functions()
        assert db.engine.redefined_functions() == ["floor"] * replaced
        if replaced:
            with pytest.raises(DatabaseError, match="floor"):
                db.train("t", method="rdt", trees=2, depth=2)
        assert db.budget("t").spent == 0


def test_settings_of_the_caller_have_no_say(session: Any) -> None:
    """Texts, numbers and names mean what they should, and the caller's settings are as they were."""
    odd = {
        "spark.sql.ansi.enabled": "true",
        "spark.sql.parser.escapedStringLiterals": "true",
        "spark.sql.parser.quotedRegexColumnNames": "true",
        "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "true",
        "spark.sql.caseSensitive": "true",
    }
    session.createDataFrame([("\\", "${spark.app.name}")], "x string, y string").createOrReplaceTempView("t")
    for name, value in odd.items():
        session.conf.set(name, value)
    query = sqlglot.parse_one("SELECT COUNT(CASE WHEN x = '\\\\' AND y = '${spark.app.name}' THEN 1 END) AS n FROM t", dialect="spark")  # fmt: skip  # noqa: E501
    query.find(sqlglot.exp.Table).set("db", sqlglot.exp.to_identifier("(session)"))
    engine = open_engine(session, ledger=":memory:")
    assert engine.frame(query)["n"].tolist() == [1]
    assert {name: session.conf.get(name) for name in odd} == odd


def test_an_error_of_spark_is_not_quoted(engine: Any) -> None:
    """Neither in the message nor in what is behind it."""
    with pytest.raises(QueryFailed) as caught:
        engine.frame(sqlglot.parse_one("SELECT RAISE_ERROR('a secret') AS n"))
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


def test_pyspark_logs_no_error_of_ours(session: Any, engine: Any) -> None:
    """It logs the text of an error, to the terminal, unless it happens in one of our calls."""
    logged: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    logger.addHandler(handler)
    try:
        with pytest.raises(QueryFailed):
            engine.frame(sqlglot.parse_one("SELECT a_secret AS n"))
        assert logged == []
        with pytest.raises(AnalysisException):
            session.sql("SELECT a_secret AS n")
        assert "a_secret" in logged[0]
    finally:
        logger.removeHandler(handler)


# Tickets.


def dealt(engine: Any, name: str) -> dict[tuple[int, int], int]:
    """Return the counts of trees that share no rows, under fixed keys."""
    info = engine.table(name)
    forest = random_forest(axes(SCHEMA), trees=5, depth=2, seed=3, branches=2)
    source = Source(SCHEMA, table_reference(info.table, info.schema), {})
    made = leaves.leaf_counts(source, forest, engine.vocabulary, Tickets((1, 2, 3)), Slice(False, 0, 5))
    found = aggregate(engine, made.query, made.tables)
    return {(leaf, label): n for leaf, label, n in zip(found["leaf"], found["class"], found["rows"], strict=True)}


def test_a_rows_tree_follows_from_the_row_alone(session: Any, engine: Any) -> None:
    """Rows in other parts, in another order, or beside other rows, go where they went."""
    view(session, "once", parts=2)
    view(session, "again", parts=7)
    session.table("again").orderBy("x").repartition(3).createOrReplaceTempView("sorted")
    before = dealt(engine, "once")
    assert dealt(engine, "again") == before
    assert dealt(engine, "sorted") == before
    one = session.createDataFrame([(1.5, "a", "no")], "x double, c string, y string")
    session.table("once").unionAll(one).createOrReplaceTempView("more")
    after = dealt(engine, "more")
    changed = {key for key in {*before, *after} if before.get(key, 0) != after.get(key, 0)}
    assert len(changed) == 1
    assert sum(after.values()) == sum(before.values()) + 1


@pytest.mark.parametrize("count", [1, 2, 5, 40, 3000])
def test_a_texts_place_is_found(session: Any, count: int) -> None:
    """Whatever map it is in; what is not in the list has none, nor has NULL."""
    values = [f"välue {place} 🌲" for place in range(count)]
    texts = [*values[::-1], "välue", "", None]
    session.createDataFrame([(text,) for text in texts], "t string").createOrReplaceTempView("texts")
    place = SparkVocabulary().position(values, exp.column("t"))
    found = session.sql(exp.select("t", place.as_("p")).from_("texts").sql("spark")).collect()
    expected = {text: values.index(text) if text in values else None for text in texts}
    assert {row["t"]: row["p"] for row in found} == expected


@pytest.mark.parametrize("branches", [2, 4])
def test_large_forests_are_counted_as_in_duckdb(session: Any, engine: Any, branches: int) -> None:
    """The first levels share a table, the others have their own."""
    view(session, "people", rows=60)
    forest = random_forest(axes(SCHEMA), trees=150, depth=6, seed=3, branches=branches)
    own = duckdb.connect()
    own.register("frame", session.table("people").toArrow())
    own.execute("CREATE TABLE people AS FROM frame")
    other = open_engine(own)
    found = []
    for one, schema in ((engine, "(session)"), (other, "main")):
        source = Source(SCHEMA, table_reference("people", schema), {})
        made = leaves.leaf_counts(source, forest, one.vocabulary, Tickets((1, 2, 3)), Slice(True, 0, 150))
        groups = aggregate(one, made.query, made.tables)
        found.append(sorted(zip(*(groups[name].tolist() for name in ("leaf", "class", "rows")), strict=True)))
        assert (SHARED_LEVELS in made.tables) == (one is engine)
        assert level_name(5) in made.tables
    other.close()
    own.close()
    assert found[0] == found[1]
    assert sum(rows for _, _, rows in found[0]) > 60 * 100


# Runs.


def test_the_whole_path_on_parquet(lake: Path, tmp_path: Path) -> None:
    """Register, train, predict, evaluate, score into a table; one charge each, and nothing left in the cluster."""
    ledger = tmp_path / "ledger.duckdb"
    with dpsql.connect(f"spark://local[2]{lake}", ledger=ledger) as db:
        db.register("adult", census.SCHEMA, cap=3)
        model = db.train("adult", method="rosnam", trees=3, depth=3, request_id="once")
        assert db.train("adult", method="rosnam", trees=3, depth=3, request_id="once").model_id == model.model_id
        assert db.budget("adult").spent_text == "1"
        labels = model.predict("fresh")
        assert set(labels["prediction"]) <= set(census.CLASSES)
        assert db.evaluate(model, "fresh").rows == 200
        model.predict("fresh", into="scored")
        assert "scored" in db.engine.tables()
        assert db.verify() == []
        assert kept(spark()) == 0
        with pytest.raises(dpsql.BudgetError, match="private"):
            model.predict("adult")
        with pytest.raises(UsageError, match="export"):
            model.sql()
    assert sorted(one.name for one in lake.iterdir() if one.suffix == ".parquet") == ["adult.parquet", "scored.parquet"]
    with dpsql.connect(f"spark://local[2]{lake}", ledger=ledger) as db:
        again = db.model(model.name).predict("fresh")
        assert again["prediction"].tolist() == labels["prediction"].tolist()


def test_the_ledger_may_be_in_postgresql(session: Any) -> None:
    """Model tables too, in that database's own types."""
    view(session, "people")
    view(session, "fresh", rows=50, seed=2)
    with dpsql.connect(session, ledger=fresh_database()) as db:
        db.register("people", SCHEMA, cap=1)
        model = db.train("people", method="rdt", trees=2, depth=3)
        frame = session.table("fresh").toArrow().to_pandas()
        assert model.predict("fresh")["prediction"].tolist() == list(model.predict(frame))


def test_a_failed_run_keeps_its_charge(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry is lost, the charge stays, and kept rows are gone."""
    view(session, "people")
    with dpsql.connect(session, ledger=":memory:") as db:
        runs.fail(db, monkeypatch, "dpsql.engines.spark.cursor.SparkWorkspace")
    assert kept(spark()) == 0


def test_two_runs_at_once_do_not_mix(session: Any) -> None:
    """Each has small tables and kept rows of its own; the caller's session sees neither."""
    view(session, "people")
    with dpsql.connect(session, ledger=":memory:") as db:
        runs.train_two_at_once(db)
    names = [one.name for one in session.catalog.listTables()]
    assert names.count("people") >= 1
    assert not any(name.startswith(("dpsql", "kept", "packed")) for name in names)
    assert kept(spark()) == 0
