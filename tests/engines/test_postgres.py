"""PostgreSQL itself: what the catalog tells, refusals in our words, lost connections, one charge whatever happens."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from dpsql.api import census
from dpsql.api.database import Database, connect
from dpsql.engines.open_engine import open_engine
from dpsql.errors import DatabaseError, DatabaseLocked, DpsqlError, ParameterError, RunFailed, SchemaError, UsageError
from tests.servers import fresh_database, postgres

psycopg = pytest.importorskip("psycopg")


@pytest.fixture
def url() -> str:
    """Return the URL of an empty database."""
    return fresh_database()


@pytest.fixture
def people(url: str) -> Iterator[Database]:
    """Open a database with a registered table of people."""
    run(url, "CREATE TABLE people (id BIGINT, x DOUBLE PRECISION, y TEXT)")
    run(
        url,
        "INSERT INTO people SELECT n, n % 64, substr('abb', 1 + n % 3, 1) FROM generate_series(1, 3000) AS n",
    )
    with connect(url, who="ann") as db:
        db.register("people", SCHEMA, cap=5)
        yield db


SCHEMA = {"label": "y", "classes": ["a", "b"], "features": {"x": {"type": "numeric", "lower": 0, "upper": 64}}}


def run(url: str, *statements: str) -> None:
    """Run statements as the superuser."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def test_the_catalog_tells_types_domains_enums_and_checks(url: str) -> None:
    """Integers, decimals, domains, enums, booleans, CHECKs; nothing of it is read from rows."""
    run(
        url,
        "CREATE TYPE mood AS ENUM ('sad', 'it''s fine')",
        "CREATE DOMAIN years AS INTEGER CHECK (VALUE >= 0)",
        "CREATE TABLE t (a years, b NUMERIC, c NUMERIC(8, 2), d mood, e BOOLEAN, f JSON, g CHAR(3), CHECK (c > 0))",
    )
    engine = open_engine(url)
    info = engine.table("t")
    engine.close()
    assert info is not None
    assert [column.family for column in info.columns] == [
        "integer", "real", "real", "text", "boolean", "opaque", "text",
    ]  # fmt: skip
    assert [column.decimal for column in info.columns] == [False, True, True, False, False, False, False]
    assert info.column("d").values == ("sad", "it's fine")
    assert any("c >" in check for check in info.checks)


def test_numbers_that_no_double_can_hold_are_counted(url: str) -> None:
    """A NUMERIC far out of range, infinite, NaN or tiny has its place: no cast fails, whatever a cell holds."""
    run(url, "CREATE TABLE people (x NUMERIC, y TEXT)")
    values = ["1e400", "-1e400", "1e-400", "'NaN'", "'Infinity'", "'-Infinity'", "NULL", "12.5"]
    run(url, *(f"INSERT INTO people VALUES ({value}, 'a')" for value in values))
    with connect(url) as db:
        db.register("people", SCHEMA, cap=None)
        assert db.train("people", epsilon=1, method="rdt", trees=2, depth=2).name
        assert db.train("people", epsilon=100, method="auto").name


@pytest.mark.parametrize(
    "made",
    [
        "CREATE MATERIALIZED VIEW peek AS SELECT * FROM people",
        "CREATE VIEW peek AS SELECT y, count(*) AS x FROM people GROUP BY y",
        "CREATE VIEW peek AS SELECT one.x, one.y FROM people AS one, people AS other",
        "CREATE TABLE peek () INHERITS (people)",
    ],
)
def test_what_is_no_table_of_its_own_is_not_registered(people: Database, url: str, made: str) -> None:
    """Its rows would have two budgets, or not be rows of one person."""
    run(url, made)
    with pytest.raises(UsageError, match="cannot be registered|not provably|one budget"):
        people.register("peek", SCHEMA, cap=1)


def test_a_row_to_row_view_can_be_registered(url: str) -> None:
    """The server's own spelling of a view is understood."""
    run(url, "CREATE TABLE base (a DOUBLE PRECISION, b TEXT)", "INSERT INTO base VALUES (3, 'a'), (40, 'b')")
    run(url, "CREATE VIEW people AS SELECT a AS x, b AS y FROM base WHERE a > 2")
    with connect(url) as db:
        db.register("people", SCHEMA, cap=3)
        assert db.train("people", epsilon=1, method="rdt", trees=2, depth=2).name


def test_a_unit_without_a_hash_is_refused(url: str) -> None:
    """At registration, before anything could be charged."""
    run(url, "CREATE TABLE people (who JSON, x DOUBLE PRECISION, y TEXT)")
    with connect(url) as db, pytest.raises(SchemaError, match="json"):
        db.register("people", {**SCHEMA, "privacy_unit": {"column": "who", "max_rows": 1}}, cap=1)


def test_a_count_that_takes_too_long_fails_as_any_other_does(url: str) -> None:
    """How long it takes follows from the rows, so why it ended is not told; charged once, and no model is there."""
    run(url, "CREATE TABLE people AS SELECT random() * 64 AS x, 'a' AS y FROM generate_series(1, 1000000)")
    with connect(url) as db:
        db.register("people", SCHEMA, cap=3)
    with connect(f"{url}?options=-c%20statement_timeout%3D200ms") as db:
        with pytest.raises(RunFailed, match="why is withheld"):
            db.train("people", method="rdt", trees=8, depth=5)
        assert db.budget("people").spent_text == "1"
        assert list(db.models()["name"]) == []
        assert db.verify() == []


def test_a_held_lock_is_a_clear_error(url: str) -> None:
    """Another session holds the ledger: where nothing moves the error says so, and nothing is charged."""
    run(url, "CREATE TABLE people (x DOUBLE PRECISION, y TEXT)")
    with connect(url, wait=0.2) as db:
        db.register("people", SCHEMA, cap=3)
        db.book.patience = 0.2
        with psycopg.connect(url) as other:
            other.execute("LOCK TABLE dpsql.chain IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(DatabaseLocked, match="another session"):
                db.train("people", epsilon=1)
        assert db.budget("people").spent == 0


def test_no_server_is_a_clear_error() -> None:
    """With the host, without the password."""
    with pytest.raises(DatabaseError, match="cannot be reached") as told:
        connect("postgresql://nobody:hunter2@127.0.0.1:1/nowhere")
    assert "hunter2" not in str(told.value)
    assert told.value.__context__ is None


def test_a_connection_of_psycopg_will_do(people: Database, url: str) -> None:
    """dpsql connects as it does, and leaves it alone."""
    with psycopg.connect(url) as connection:
        with connect(connection, who="bob") as db:
            assert db.train("people", epsilon=1, method="rdt", trees=2, depth=2).name
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
    assert people.ledger().iloc[-1]["who"] == "bob"


def test_the_ledger_of_a_server_is_its_own(url: str) -> None:
    """--ledger is for files."""
    with pytest.raises(ParameterError, match="ledger"):
        connect(url, ledger="other.duckdb")


def test_a_killed_backend_leaves_one_charge(people: Database, url: str) -> None:
    """The server ends the session that counts: a clear error, and the charge stays, once."""
    stop = threading.Event()

    def kill() -> None:
        with psycopg.connect(f"{postgres()}/postgres", autocommit=True) as connection:
            name = url.rsplit("/", 1)[1]
            while not stop.is_set():
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND state = 'active' "
                    "AND application_name = 'dpsql' AND query LIKE 'WITH packed%%'",
                    (name,),
                )
                time.sleep(0.001)

    killer = threading.Thread(target=kill)
    killer.start()
    told = []
    try:
        for _ in range(4):
            try:
                people.train("people", epsilon="0.5", method="rdt", trees=100, depth=8)
            except DpsqlError as error:
                told.append(str(error))
    finally:
        stop.set()
        killer.join()
    charged = people.ledger()
    assert people.budget("people").spent == 4 * 500_000_000
    assert len(charged[charged["event"] == "reserve"]) == 4
    assert people.verify() == []
    assert len(told) + len(people.models()) == 4
    assert all("lost" in text or "could not" in text for text in told)


def test_a_second_training_at_once_is_charged_once_each(people: Database, url: str) -> None:
    """Two processes' worth of connections: the cap holds to the last nano."""
    results: list[str] = []

    def train() -> None:
        with connect(url, who="bob", wait=20) as db:
            try:
                results.append(db.train("people", epsilon=2, method="rdt", trees=2, depth=2).name)
            except DpsqlError as error:
                results.append(type(error).__name__)

    threads = [threading.Thread(target=train) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(result == "BudgetExceeded" for result in results) == [False, False, True, True]
    assert people.budget("people").spent == 4_000_000_000


def test_row_ids_are_added(people: Database, url: str) -> None:
    """Every row gets an id of its own."""
    people.add_row_ids("people")
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*), count(DISTINCT dpsql_id) FROM people").fetchall()
    assert found == [(3000, 3000)]


def test_every_method_trains_and_predicts(url: str) -> None:
    """On a synthetic census, better than nothing."""
    rows = census.rows(400, seed=5)
    with connect(url) as db:
        kinds = ["TEXT" if rows[name].dtype.kind in "OUT" else "BIGINT" for name in rows]
        run(url, "CREATE TABLE people (" + ", ".join(f'"{n}" {k}' for n, k in zip(rows, kinds, strict=True)) + ")")
        db.register("people", census.SCHEMA, cap=100)
        for method in ("auto", "rosnam", "rdt", "id3", "snr", "spe", "fs", "maxtree", "mrf"):
            model = db.train("people", epsilon=1, method=method)
            assert set(model.predict(rows.head(20))) <= set(census.CLASSES), method


@pytest.mark.parametrize("form", ["view", "macro"])
def test_generated_sql_runs_in_the_server(people: Database, url: str, form: str) -> None:
    """A view and a function that predict are created, and label rows as the model does."""
    model = people.train("people", epsilon=1, method="rdt", trees=3, depth=2, name="m")
    run(
        url, "CREATE TABLE fresh (id BIGINT, x DOUBLE PRECISION)", "INSERT INTO fresh VALUES (1, 3), (2, 50), (3, NULL)"
    )
    run(url, model.sql(form, table="fresh", name="scored"))
    asked = "SELECT prediction FROM scored ORDER BY id" if form == "view" else "SELECT scored(x) FROM fresh ORDER BY id"
    with psycopg.connect(url) as connection:
        found = [label for (label,) in connection.execute(asked).fetchall()]
    assert found == list(model.predict("fresh", key="id").sort_values("id")["prediction"])
    people.model("m").predict("fresh", into="kept")
    with psycopg.connect(url) as connection:
        assert [row[0] for row in connection.execute("SELECT prediction FROM kept ORDER BY id").fetchall()] == found
