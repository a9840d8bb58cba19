"""chDB: sessions left as they were, a ledger elsewhere, nothing left behind, and no error that quotes a cell."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlglot
from sqlglot import exp

import dpsql
from dpsql.api import census
from dpsql.api.database import Database
from dpsql.compile.count import leaves
from dpsql.compile.count.leaves import Slice
from dpsql.compile.rows import EVERY_UNIT, Source, Tickets, table_reference
from dpsql.engines.open_engine import open_engine
from dpsql.errors import DatabaseError, ParameterError, QueryFailed, SchemaError, UsageError
from dpsql.kernel.exact import Rows
from dpsql.schema import Numeric, Schema, Unit
from dpsql.trees.grid import axes
from dpsql.trees.grow.random_trees import random_forest
from tests.engines.aggregate import aggregate
from tests.servers import chdb, fresh_database
from tests.tables import SCHEMA

from . import runs

_HERE = Path(__file__).parent
_TABLES = "SELECT database, name FROM system.tables WHERE lower(database) NOT IN ('system', 'information_schema')"


@pytest.fixture
def session() -> Iterator[Any]:
    """Return the one session of this process, in a database of the test's own."""
    found = chdb()
    found.query("CREATE DATABASE shop")
    found.query("USE shop")
    yield found
    found.query("USE default")
    found.query("DROP DATABASE shop")


@pytest.fixture
def engine(session: Any) -> Iterator[Any]:
    """Open the engine on it, with a ledger in memory."""
    opened = open_engine(session, ledger=":memory:")
    yield opened
    opened.close()


def fill(session: Any, name: str, rows: int = 400, seed: int = 1) -> None:
    """Make a table of x, c and y."""
    session.query(f"CREATE TABLE {name} (x Float64, c String, y String) ENGINE = MergeTree ORDER BY tuple()")
    drawn = f"SELECT rand({seed}) % 6400 / 100, ['a', 'b'][1 + rand({seed + 1}) % 2], ['no', 'yes', 'maybe'][1 + rand({seed + 2}) % 3]"  # noqa: E501
    session.query(f"INSERT INTO {name} {drawn} FROM numbers({rows})")


def left(session: Any) -> str:
    """Return everything that is in the database: tables, databases, functions."""
    return "".join(str(session.query(text)) for text in (f"{_TABLES} ORDER BY ALL", "SHOW DATABASES"))


def own(engine: Any) -> list[str]:
    """Return the tables of the test's own database: others leave theirs in the one session of a process."""
    return [name for name in engine.tables() if "." not in name]


# Opening.


def test_chdb_without_a_ledger_is_refused(session: Any) -> None:
    """The error names the option; chDB itself keeps none."""
    for target in (session, "chdb:///tmp"):
        with pytest.raises(UsageError, match="--ledger"):
            dpsql.connect(target)
    with pytest.raises(ParameterError, match="DuckDB file"):
        dpsql.connect(session, ledger="chdb:///tmp")


@pytest.mark.parametrize("url", ["chdb://", "chdb://here", "chdb:///no/such/folder"])
def test_a_folder_that_is_not_there_is_refused(url: str) -> None:
    """Nothing is made in its place."""
    with pytest.raises(DatabaseError, match="no folder"):
        dpsql.connect(url, ledger=":memory:")


def test_a_folder_is_trained_in_by_its_url(tmp_path: Path) -> None:
    """And found again with its ledger; another folder in the same process is refused."""
    command = [sys.executable, "-m", "tests.engines.chdb_trainer", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=_HERE.parents[1], check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "refused: chDB cannot open" in done.stdout
    assert done.stdout.splitlines()[-2:] == ["['adult', 'fresh'] 1", "True []"]


def test_the_callers_session_stays_as_it_was(session: Any) -> None:
    """Open, and with its own settings, which have no say in ours."""
    fill(session, "people")
    session.query("SET max_query_size = 5000, join_use_nulls = 0, prefer_column_name_to_alias = 0")
    try:
        with dpsql.connect(session, ledger=":memory:") as db:
            db.register("people", SCHEMA, cap=1)
            db.train("people", method="rdt", trees=2, depth=3)
        assert str(session.query("SELECT getSetting('max_query_size'), getSetting('join_use_nulls')")) == "5000,false\n"
    finally:
        session.query("SET max_query_size = 262144")


def test_what_a_session_leaves_open_is_told(engine: Any) -> None:
    """One that dpsql did not open is read by others too."""
    assert any("system.errors" in one for one in engine.weaknesses())


# The catalog.


def test_types_have_our_words(session: Any, engine: Any) -> None:
    """Whatever wraps them; a computed column is none, and an Enum tells its values."""
    session.query(
        "CREATE TABLE t (a LowCardinality(Nullable(String)), b Nullable(UInt8), c Enum8('x\\'y' = 1, 'z' = -2), "
        "d Decimal(9, 2), e Array(Int8), f Nullable(Date32), g Bool, h DateTime, i Int8 ALIAS b + 1) ENGINE = Memory"
    )
    info = engine.table("T")
    found = {column.name: column.family for column in info.columns}
    words = ["text", "integer", "text", "real", "opaque", "date", "boolean", "timestamp"]
    assert found == dict(zip("abcdefgh", words, strict=True))
    assert info.column("c").values == ("z", "x'y")
    assert (info.kind, info.schema, own(engine)) == ("table", "shop", ["t"])


def test_views_and_tables_of_others_are_refused(session: Any, engine: Any) -> None:
    """Neither trained on, nor scored while they could show private rows."""
    fill(session, "people")
    session.query("CREATE VIEW seen AS SELECT x, c, y FROM people")
    session.query("CREATE TABLE merged AS people ENGINE = Merge('shop', 'people')")
    with Database(engine) as db:
        db.register("people", SCHEMA, cap=1)
        model = db.train("people", method="rdt", trees=2, depth=2)
        for name in ("seen", "merged"):
            with pytest.raises(SchemaError, match="cannot be registered"):
                db.register(name, SCHEMA, cap=1)
            with pytest.raises(dpsql.BudgetError, match="private"):
                model.predict(name)


def test_ids_cannot_be_added(session: Any, engine: Any) -> None:
    """The error says what to do instead."""
    fill(session, "people")
    with pytest.raises(DatabaseError, match="generateUUIDv4"):
        engine.add_column(engine.table("people"), "id", lambda count: np.arange(count))


# What SQL means.


@pytest.mark.parametrize("name", ["FLOOR", "Coalesce", "SIPHASH64KEYED"])
def test_a_replaced_function_stops_a_run_before_it_is_charged(session: Any, name: str) -> None:
    """ClickHouse takes a function that differs in letter case alone, and calls it."""
    fill(session, "people")
    session.query(f"CREATE FUNCTION {name} AS (x) -> 1")
    try:
        with dpsql.connect(session, ledger=":memory:") as db:
            db.register("people", SCHEMA, cap=2)
            assert db.engine.user_functions() == [name.lower()]
            with pytest.raises(DatabaseError, match=name.lower()):
                db.train("people", method="rdt", trees=2, depth=2)
            assert db.budget("people").spent == 0
    finally:
        session.query(f"DROP FUNCTION {name}")


def test_the_callers_settings_hide_no_function(session: Any, engine: Any) -> None:
    """A limit of the session's would cut the list short."""
    session.query("CREATE FUNCTION AAA AS (x) -> 1")
    session.query("CREATE FUNCTION FLOOR AS (x) -> 1")
    session.query("SET limit = 1")
    try:
        assert (engine.user_functions(), engine.redefined_functions()) == (["aaa", "floor"], ["floor"])
    finally:
        session.query("SET limit = 0")
        session.query("DROP FUNCTION AAA")
        session.query("DROP FUNCTION FLOOR")


def test_an_error_of_clickhouse_is_not_quoted(engine: Any) -> None:
    """Neither in the message nor in what is behind it; of private rows not even its kind."""
    failing = sqlglot.parse_one("SELECT throwIf(1, 'a secret') AS n", dialect="clickhouse")
    for act in (lambda: engine.frame(failing), lambda: aggregate(engine, failing, {})):
        with pytest.raises(QueryFailed) as caught:
            act()
        assert "secret" not in str(caught.value)
        assert caught.value.__context__ is None
    assert caught.value.kind == "why is withheld too"


def test_a_cast_that_may_fail_is_null(session: Any, engine: Any) -> None:
    """TRY_CAST is what a condition of an analyst may call."""
    session.query("CREATE TABLE t (a String) ENGINE = Memory")
    session.query("INSERT INTO t VALUES ('1'), ('one'), ('')")
    cast = exp.TryCast(this=exp.column("a"), to=exp.DataType.build("INT"))
    found = engine.frame(exp.select(exp.alias_(exp.Count(this=cast), "n")).from_(table_reference("t", "shop")))
    assert found["n"].tolist() == [1]


def test_columns_named_as_our_own_keep_their_names(session: Any) -> None:
    """Also where a join of ours has a column of the same name."""
    fill(session, "people")
    session.query("CREATE TABLE fresh AS SELECT *, 1 AS best, 2 AS score, 3 AS total, 4 AS class, 5 AS node FROM people LIMIT 9")  # fmt: skip  # noqa: E501
    with dpsql.connect(session, ledger=":memory:") as db:
        db.register("people", SCHEMA, cap=1)
        model = db.train("people", method="rdt", trees=2, depth=2)
        found = model.predict_proba("fresh")
        names = ["y", "best", "score", "total", "class", "node", "prediction"]
        assert list(found)[:7] == names
        assert found["best"].tolist() == [1] * 9
        model.predict("fresh", into="scored")
        assert [column.name for column in db.engine.table("scored").columns] == ["x", "c", *names]


def test_texts_and_wide_numbers_come_back_whole(session: Any, engine: Any) -> None:
    """Types that Arrow has no word for are shown as text."""
    session.query("CREATE TABLE t (a Enum8('x' = 1), b Int128, c Nullable(Int64), d Decimal(9, 2)) ENGINE = Memory")
    session.query("INSERT INTO t VALUES ('x', 170141183460469231731687303715884105727, NULL, 1.5)")
    found = engine.frame(exp.select("*").from_(table_reference("t", "shop")))
    assert found.iloc[0, :3].tolist() == ["x", "170141183460469231731687303715884105727", None]


def test_our_statements_are_not_logged(engine: Any) -> None:
    """They hold the keys of a session."""
    asked = exp.select(
        exp.alias_(exp.Anonymous(this="getSetting", expressions=[exp.Literal.string("log_queries")]), "n")
    )
    assert engine.frame(asked)["n"].tolist() == [False]


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
    fill(session, "once")
    session.query("CREATE TABLE again ENGINE = MergeTree ORDER BY (y, x) AS SELECT * FROM once WHERE x < 20")
    session.query("INSERT INTO again SELECT * FROM once WHERE x >= 20")
    before = dealt(engine, "once")
    assert sum(before.values()) == 400
    assert dealt(engine, "again") == before
    session.query("INSERT INTO once VALUES (1.5, 'a', 'no')")
    after = dealt(engine, "once")
    assert len({key for key in {*before, *after} if before.get(key, 0) != after.get(key, 0)}) == 1
    assert sum(after.values()) == 401


def test_keys_decide_and_trees_share_rows_evenly(session: Any, engine: Any) -> None:
    """Other keys are other tickets; NULL has one too."""
    session.query("CREATE TABLE t (x Nullable(Float64)) ENGINE = Memory")
    session.query("INSERT INTO t SELECT if(number = 7, NULL, number) FROM numbers(10000)")

    def tickets(keys: tuple[int, ...]) -> np.ndarray:
        drawn = engine.vocabulary.keyed_hash([exp.column("x")], keys)
        return engine.frame(exp.select(exp.alias_(drawn, "n")).from_(table_reference("t", "shop")))["n"].to_numpy()

    first = tickets((1, 2, 3))
    assert len(set(first.tolist())) == 10000
    assert first.max() < 2**63
    for others in ((1, 2, 4), (3, 2, 1), (1,), (2, 1)):
        assert (tickets(others) != first).all()
    spread = np.bincount((first % 4).astype(int))
    assert np.abs(spread - 2500).max() < 5 * math.sqrt(10000 * 3 / 16)


def test_both_zeros_are_one_unit(session: Any, engine: Any) -> None:
    """Equal numbers are equal units, with one ticket and one cap."""
    session.query("CREATE TABLE t (who Float64, x Float64, y String) ENGINE = Memory")
    session.query("INSERT INTO t SELECT arrayJoin([0., -0., nan, -nan, 0., -0.]), 0.5, 'a'")
    schema = Schema("y", ("a", "b"), (Numeric("x", 0, 1),), Unit("who", 1))
    rows = Rows(engine, Source(schema, table_reference("t", "shop"), {}), {})
    try:
        assert rows.size(EVERY_UNIT) == 2
    finally:
        rows.close()
    drawn = exp.alias_(engine.vocabulary.keyed_hash([exp.column("who")], (1, 2)), "n")
    assert engine.frame(exp.select(drawn).from_(table_reference("t", "shop")))["n"].nunique() == 2


# Runs.


@pytest.mark.parametrize("method", ["rdt", "spe", "auto"])
def test_the_whole_path(session: Any, tmp_path: Path, method: str) -> None:
    """Register, train, predict, evaluate, score into a table; one charge, a refusal at the cap, and nothing left."""
    with dpsql.connect(session, ledger=tmp_path / "ledger.duckdb") as db:
        for name, count, seed in (("adult", 1500, 1), ("fresh", 200, 2)):
            db.engine.create(name, exp.select("*").from_("made"), {"made": census.rows(count, seed)})
        before = left(session)
        db.register("adult", census.SCHEMA, cap=1)
        model = db.train("adult", method=method, request_id="once")
        assert db.train("adult", method=method, request_id="once").model_id == model.model_id
        assert db.budget("adult").spent_text == "1"
        with pytest.raises(dpsql.BudgetError, match="left"):
            db.train("adult", method=method)
        frame = db.engine.frame(exp.select("*").from_(table_reference("fresh", "shop")))
        labels = model.predict("fresh")["prediction"].tolist()
        assert sorted(labels) == sorted(model.predict(frame))
        assert db.evaluate(model, "fresh").rows == 200
        with pytest.raises(dpsql.BudgetError, match="private"):
            model.predict("adult")
        assert left(session) == before
        model.predict("fresh", into="scored")
        assert own(db.engine) == ["adult", "fresh", "scored"]
        assert db.verify() == []


def test_no_cell_can_make_a_run_fail(session: Any) -> None:
    """Infinities, NaN, the largest numbers, and labels that are none."""
    session.query("CREATE TABLE odd (x Nullable(Float64), c Nullable(String), y Nullable(String)) ENGINE = Memory")
    numbers = "inf, -inf, nan, 1.7976931348623157e308, -1.7976931348623157e308, 5e-324, -0., NULL"
    texts = "arrayJoin(['a', '', '\\xff\\0', NULL]), arrayJoin(['no', '?', NULL])"
    session.query(f"INSERT INTO odd SELECT arrayJoin([{numbers}]), {texts}")
    with dpsql.connect(session, ledger=":memory:") as db:
        db.register("odd", SCHEMA, cap=5)
        for method in ("rdt", "spe", "rosnam", "auto"):
            db.train("odd", method=method)


def test_the_ledger_may_be_in_postgresql(session: Any) -> None:
    """Model tables too, in that database's own types."""
    fill(session, "people")
    fill(session, "fresh", rows=50, seed=7)
    with dpsql.connect(session, ledger=fresh_database()) as db:
        db.register("people", SCHEMA, cap=1)
        model = db.train("people", method="rdt", trees=2, depth=3)
        frame = db.engine.frame(exp.select("*").from_(table_reference("fresh", "shop")))
        assert model.predict("fresh")["prediction"].tolist() == list(model.predict(frame))


def test_a_failed_run_keeps_its_charge_and_leaves_nothing(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry is lost, the charge stays, and kept rows are gone."""
    fill(session, "people")
    before = left(session)
    with dpsql.connect(session, ledger=":memory:") as db:
        runs.fail(db, monkeypatch, "dpsql.engines.chdb.workspace.ChdbWorkspace")
        assert left(session) == before


def test_a_table_that_cannot_be_made_is_not_there(session: Any, engine: Any) -> None:
    """Not even a part of it, when its query fails half way."""
    text = "SELECT throwIf(number = 900000) AS x FROM numbers(1000000)"
    with pytest.raises(QueryFailed, match="create the table"):
        engine.create("made", sqlglot.parse_one(text, dialect="clickhouse"))
    assert own(engine) == []


def test_two_runs_at_once_do_not_mix(session: Any) -> None:
    """Each has small tables and kept rows of its own; the caller's session sees neither."""
    fill(session, "people")
    with dpsql.connect(session, ledger=":memory:") as db:
        runs.train_two_at_once(db)
        assert own(db.engine) == ["people"]
