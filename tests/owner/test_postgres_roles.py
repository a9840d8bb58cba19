"""Roles in PostgreSQL: what the owner may, what an analyst may, and that an analyst gets no further by any way."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from dpsql.api import census
from dpsql.api.database import Database, connect
from dpsql.errors import DatabaseError, ParameterError, UnknownName, UsageError
from tests.servers import fresh_database, has_plpython, secret_folder

psycopg = pytest.importorskip("psycopg")
ROWS = 1500
PRIVATE = "private.people"
#: A text that one private row alone holds.
SECRET = "the only one who lives here"


@dataclass
class Prepared:
    """A database with a private table, prepared for an owner and analysts, and how to connect as each."""

    url: str

    def as_role(self, role: str) -> str:
        """Return the URL for another role."""
        return self.url.replace("//tester@", f"//{role}@")


def put(url: str, schema: str, name: str, rows: pd.DataFrame) -> None:
    """Create a table of people."""
    with psycopg.connect(url, autocommit=True) as connection:
        kinds = ["TEXT" if rows[column].dtype.kind in "OUT" else "BIGINT" for column in rows]
        defined = ", ".join(f'"{column}" {kind}' for column, kind in zip(rows, kinds, strict=True))
        connection.execute(f'CREATE TABLE "{schema}"."{name}" ({defined})')
        with connection.cursor() as cursor, cursor.copy(f'COPY "{schema}"."{name}" FROM STDIN') as copy:
            for row in rows.astype(object).itertuples(index=False):
                copy.write_row([None if pd.isna(value) else value for value in row])


@pytest.fixture(scope="module")
def server() -> Prepared:
    """Prepare a database once: private table people, public table newcomers, analyst ann."""
    url = fresh_database()
    people = census.rows(ROWS, seed=1)
    people.loc[0, "region"] = SECRET
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA private")
        connection.execute(f"ALTER DATABASE {url.rsplit('/', 1)[1]} SET search_path = public, private")
    put(url, "private", "people", people)
    put(url, "private", "other_secret", people)
    put(url, "public", "newcomers", census.rows(200, seed=2))
    with connect(url, who="boss") as db:
        secret = secret_folder()
        told = {"owner": "own er", "analyst": "analysts", "tables": [PRIVATE]}
        db.init(**told, plpython=has_plpython(), secret_folder=secret)
        db.register(PRIVATE, census.SCHEMA, cap=5)
        db.train(PRIVATE, epsilon=1, method="rdt", name="first", trees=3, depth=3)
    with psycopg.connect(url, autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'ann'").fetchall():
            connection.execute('CREATE ROLE ann LOGIN IN ROLE "analysts"')
        connection.execute('GRANT SELECT ON newcomers TO ann, "own er"')
        connection.execute("GRANT CREATE ON SCHEMA public TO ann")
        connection.execute("ANALYZE")
    return Prepared(url)


def test_the_analyst_reads_models_ledger_and_budgets(server: Prepared) -> None:
    """All of dpsql that is public, and the books, so that anybody can check the chain."""
    with psycopg.connect(server.as_role("ann"), autocommit=True) as connection:
        assert connection.execute("SELECT name FROM dpsql.model ORDER BY model_id").fetchall()[0] == ("first",)
        assert connection.execute("SELECT who, state FROM dpsql.ledger").fetchall()[0] == ("boss", "released")
        assert connection.execute("SELECT cap FROM dpsql.budgets").fetchall()[0][0] == 5
    with connect(server.as_role("ann")) as db:
        assert db.verify() == []
        assert "prediction" in db.model("first").predict("newcomers").columns


def test_the_generic_function_predicts_as_the_model_does(server: Prepared) -> None:
    """One row at a time as JSON, in plain SQL: NULL, unknown values and numbers out of range too."""
    with connect(server.as_role("ann")) as db:
        model = db.model("first")
    rows = census.rows(60, seed=3)
    records = json.loads(rows.to_json(orient="records"))
    records += [{}, {"age": "abc", "education": 7}, {"age": 1e300, "hours_per_week": -1e300}, {"age": "Infinity"}]
    columns = {feature.name: [record.get(feature.name) for record in records] for feature in model.schema.features}
    columns["age"] = [
        np.nan if value == "abc" else float(value) if value is not None else None for value in columns["age"]
    ]
    expected = [
        model.label({name: [values[place]] for name, values in columns.items()}) for place in range(len(records))
    ]
    with psycopg.connect(server.as_role("ann"), autocommit=True) as connection:
        found = [
            connection.execute("SELECT dpsql.predict('first', %s::jsonb)", (json.dumps(record),)).fetchall()[0][0]
            for record in records
        ]
    assert found == expected


ATTEMPTS = {
    "select": "SELECT * FROM people",
    "count": "SELECT count(*) FROM people",
    "one cell": "SELECT region FROM people LIMIT 1",
    "copy out": "COPY people TO STDOUT",
    "copy a query": "COPY (SELECT * FROM people) TO STDOUT",
    "copy to a program": "COPY newcomers TO PROGRAM 'cat'",
    "table": "TABLE people",
    "view": "CREATE TEMP VIEW peek AS SELECT * FROM people; SELECT * FROM peek",
    "materialized view": "CREATE MATERIALIZED VIEW peek2 AS SELECT * FROM people",
    "create table as": "CREATE TEMP TABLE taken AS SELECT * FROM people",
    "insert from": "CREATE TEMP TABLE t (x TEXT); INSERT INTO t SELECT region FROM people",
    "like with data": "CREATE TEMP TABLE t2 (LIKE people INCLUDING ALL); INSERT INTO t2 SELECT * FROM people",
    "function": "CREATE FUNCTION pg_temp.peek() RETURNS SETOF people LANGUAGE sql AS 'SELECT * FROM people'; "
    "SELECT * FROM pg_temp.peek()",
    "definer function": "CREATE FUNCTION pg_temp.peek3() RETURNS BIGINT SECURITY DEFINER LANGUAGE sql AS "
    "'SELECT count(*) FROM people'; SELECT pg_temp.peek3()",
    "do block": "DO $$ BEGIN PERFORM count(*) FROM people; END $$",
    "prepare": "PREPARE p AS SELECT * FROM people; EXECUTE p",
    "cursor": "BEGIN; DECLARE c CURSOR FOR SELECT * FROM people; FETCH ALL FROM c",
    "explain": "EXPLAIN SELECT * FROM people",
    "explain analyze": "EXPLAIN ANALYZE SELECT * FROM people WHERE age > 40",
    "statistics": "SELECT most_common_vals FROM pg_stats WHERE tablename = 'people' UNION ALL SELECT 1 / 0",
    "raw statistics": "SELECT * FROM pg_statistic",
    "row estimate": "SELECT reltuples FROM pg_class WHERE relname = 'people'",
    "all of pg_class": "SELECT * FROM pg_class",
    "row counters": "SELECT n_live_tup FROM pg_stat_user_tables WHERE relname = 'people'",
    "database counters": "SELECT tup_inserted FROM pg_stat_database",
    "table size": "SELECT pg_relation_size('people')",
    "become the owner": 'SET ROLE "own er"',
    "become somebody": "SET SESSION AUTHORIZATION tester",
    "write the budget": "UPDATE dpsql.budget SET cap = 1000000000000",
    "delete entries": "DELETE FROM dpsql.entry",
    "insert an entry": "INSERT INTO dpsql.chain VALUES ('x', 'y')",
    "drop the ledger": "DROP TABLE dpsql.entry",
    "truncate": "TRUNCATE dpsql.budget",
    "change a model": "UPDATE dpsql.model_leaf SET weight = 0",
    "passwords": "SELECT * FROM pg_authid",
    "server files": "SELECT pg_read_file('postgresql.conf')",
    "large objects": "SELECT lo_import('/etc/passwd')",
    "grant oneself": "GRANT SELECT ON people TO ann",
    "policy": "ALTER TABLE people DISABLE ROW LEVEL SECURITY",
    "new language": "CREATE FUNCTION pg_temp.f() RETURNS INT LANGUAGE plpython3u AS 'return 1'",
    "shadowing type": "CREATE SCHEMA dpsql2; SET search_path = dpsql2; SELECT * FROM public.people",
    "join for an error": "SELECT CAST(region AS INT) FROM people",
    "lock": "LOCK TABLE people IN ACCESS EXCLUSIVE MODE",
}  # fmt: skip


@pytest.mark.parametrize("name", ATTEMPTS)
def test_no_direct_way_reaches_private_rows_counts_or_budget(server: Prepared, name: str) -> None:
    """Every attempt is refused, and what the refusal says holds neither a cell nor a count."""
    for people in ("people", PRIVATE):
        statements = re.sub(r"\bpeople\b(?!')", people, ATTEMPTS[name].replace("public.", "")).split("; ")
        with (
            psycopg.connect(server.as_role("ann"), autocommit=True) as connection,
            pytest.raises(psycopg.Error) as refused,
        ):
            _ = [connection.execute(statement) for statement in statements]
        told = str(refused.value)
        assert SECRET not in told
        assert str(ROWS) not in told


def test_statistics_of_columns_are_out_of_reach(server: Prepared) -> None:
    """The statistics view is there, and has no line for a table that one may not read."""
    with psycopg.connect(server.as_role("ann"), autocommit=True) as connection:
        assert connection.execute("SELECT count(*) FROM pg_stats WHERE tablename = 'people'").fetchall() == [(0,)]


def test_keys_of_a_session_are_nowhere(server: Prepared) -> None:
    """No table of dpsql has a column for partition keys, tickets or exact counts."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        names = connection.execute("SELECT column_name FROM information_schema.columns WHERE table_schema = 'dpsql'")
        assert not {name for (name,) in names.fetchall()} & {"key", "keys", "ticket", "exact", "rows"}


def test_only_a_superuser_prepares(server: Prepared) -> None:
    """An analyst is told what is missing, and nothing changes."""
    with connect(server.as_role("ann")) as db, pytest.raises(DatabaseError, match="superuser"):
        db.init()


def test_bad_names_are_refused(server: Prepared) -> None:
    """Before anything is created."""
    with connect(server.url) as db:
        with pytest.raises(ParameterError, match="analyst"):
            db.init(owner="same", analyst="same")
        with pytest.raises(ParameterError, match="owner"):
            db.init(owner="pg_read_all_data")
        with pytest.raises(UnknownName, match="nobody"):
            db.init(tables=["nobody"])
    with connect(":memory:") as db, pytest.raises(UsageError, match="PostgreSQL"):
        db.init()


needs_plpython = pytest.mark.usefixtures("plpython")


@pytest.fixture
def plpython() -> None:
    """Skip, or fail where it is required, without PL/Python in the server."""
    if not has_plpython():
        from tests.servers import absent

        absent("postgres", "its server has no PL/Python (Debian: postgresql-plpython3)")


@needs_plpython
def test_an_analyst_trains_inside_the_server(server: Prepared) -> None:
    """With nothing but EXECUTE: train, predict, evaluate, advise; the ledger has the caller's name."""
    with psycopg.connect(server.as_role("ann"), autocommit=True) as connection:
        trained = connection.execute(
            "SELECT model, \"left\" FROM dpsql.train('private.people', '0.5', 'rdt', name => 'mine')"
        )
        assert trained.fetchall()[0][0] == "mine"
        whose = connection.execute("SELECT who, state FROM dpsql.ledger ORDER BY entry_id DESC LIMIT 1").fetchall()
        assert whose == [("ann", "released")]
        assert connection.execute("SELECT dpsql.predict('mine', '{\"age\": 30}')").fetchall()[0][0] in census.CLASSES
        figures = dict(connection.execute("SELECT figure, value FROM dpsql.evaluate('mine', 'newcomers')").fetchall())
        assert figures["rows"] == 200
        assert connection.execute("SELECT verdict FROM dpsql.advise('private.people', rows => 1000)").fetchall()


@needs_plpython
def test_the_same_call_in_a_session_is_charged_once(server: Prepared) -> None:
    """Training, evaluation and a bought size: looked at again nothing is charged, until that is asked for."""
    train = "SELECT model FROM dpsql.train('private.people', {}, 'rdt', '{}')"
    same, again = '{"trees": 2, "depth": 2}', '{"trees": 2, "depth": 2, "again": true}'
    with psycopg.connect(server.as_role("ann")) as connection:
        before, first = spent(server), connection.execute(train.format("'0.02'", same)).fetchall()
        connection.rollback()
        connection.execute("SET TimeZone = 'Asia/Tokyo'; SET DateStyle = 'German'; SET extra_float_digits = 0")
        assert connection.execute(train.format("'0.020'", same)).fetchall() == first
        assert spent(server) == before + 20_000_000
        assert connection.execute(train.format("'0.02'", again)).fetchall() != first
        assert spent(server) == before + 40_000_000
        measure = f"SELECT * FROM dpsql.evaluate('{first[0][0]}', 'private.people', '0.01')"
        assert connection.execute(measure).fetchall() == connection.execute(measure).fetchall()
        buy = "SELECT * FROM dpsql.advise('private.people', buy => '0.01')"
        assert connection.execute(buy).fetchall() == connection.execute(buy).fetchall()
        assert spent(server) == before + 60_000_000
    with psycopg.connect(server.as_role("ann")) as another:
        assert another.execute(train.format("'0.02'", same)).fetchall() != first
    assert spent(server) == before + 80_000_000


@needs_plpython
def test_a_rollback_takes_back_no_charge(server: Prepared) -> None:
    """The charge is on disk before a row is read, whatever becomes of the caller's own transaction."""
    before = spent(server)
    with psycopg.connect(server.as_role("ann")) as connection:
        connection.execute("SELECT * FROM dpsql.train('private.people', '0.25', 'rdt')")
        connection.rollback()
    assert spent(server) == before + 250_000_000


@needs_plpython
@pytest.mark.parametrize(
    "call",
    [
        "SELECT * FROM dpsql.train('private.people', '4.9')",
        "SELECT * FROM dpsql.train('private.other_secret', '0.1')",
        "SELECT * FROM dpsql.train('people; DROP TABLE people', '0.1')",
        "SELECT * FROM dpsql.train('private.people', '0.1', 'rdt', '{\"name\": \"x\"}')",
        "SELECT * FROM dpsql.train('private.people', '-1')",
        "SELECT * FROM dpsql.train('private.people', 'NaN')",
        "SELECT * FROM dpsql.train(NULL, '0.1')",
        "SELECT * FROM dpsql.evaluate(NULL, 'newcomers')",
        "SELECT * FROM dpsql.evaluate('first', NULL)",
        "SELECT * FROM dpsql.evaluate('first', 'private.other_secret')",
        "SELECT * FROM dpsql.evaluate('first', 'private.people')",
        "SELECT * FROM dpsql.evaluate('first', 'pg_catalog.pg_authid')",
        "SELECT * FROM dpsql.train('private.people', '0.1', 'rdt', '{\"trees\": \"1); DROP TABLE people\"}')",
        "SELECT * FROM dpsql.advise('private.other_secret')",
        "SELECT * FROM dpsql.train('private.people', '0.1', 'sspe', '{\"unlabelled\": \"private.other_secret\"}')",
        "SELECT * FROM dpsql.train('private.people', '0.1', 'rosnam', '{\"as_published\": true}')",
    ],
)
def test_calls_that_must_not_pass_are_refused(server: Prepared, call: str) -> None:
    """Past the cap, on a table that is not registered, with SQL in arguments: refused, and nothing is charged."""
    before = spent(server)
    with psycopg.connect(server.as_role("ann"), autocommit=True) as connection, pytest.raises(psycopg.Error) as refused:
        connection.execute(call)
    assert SECRET not in str(refused.value)
    assert str(ROWS) not in str(refused.value)
    assert spent(server) == before


@needs_plpython
@pytest.mark.parametrize(
    "trick",
    [
        "CREATE FUNCTION public.greatest_(BIGINT) RETURNS BIGINT LANGUAGE sql AS 'SELECT 0::BIGINT'",
        "CREATE TEMP TABLE budget AS SELECT 1 AS cap",
        "CREATE TEMP TABLE level_0 AS SELECT 1 AS node",
        "SET search_path = pg_temp, public",
        "CREATE OPERATOR public.>= (LEFTARG = TEXT, RIGHTARG = BIGINT, FUNCTION = starts_with_)",
        "SET statement_timeout = '1h'",
        "SET default_transaction_read_only = on",
        "SET client_min_messages = debug5",
        "SET log_statement = 'all'",
        "SET datestyle = 'German'",
        "SET extra_float_digits = 0",
        "SET role analysts",
    ],
)
def test_what_the_caller_sets_changes_nothing_inside(server: Prepared, trick: str) -> None:
    """Temporary objects, search paths and settings of the caller's session: the same run, the same charge."""
    before, told = spent(server), []
    with psycopg.connect(server.as_role("ann"), autocommit=True) as connection:
        connection.add_notice_handler(lambda notice: told.append(notice.message_primary))
        with contextlib.suppress(psycopg.Error):  # refused: just as well
            connection.execute(trick)
        found = connection.execute(
            "SELECT leaves FROM dpsql.train('private.people', '0.01', 'rdt', '{\"trees\": 2, \"depth\": 2}')"
        )
        assert found.fetchall()[0][0] > 0
    assert spent(server) == before + 10_000_000
    assert not any(SECRET in (text or "") for text in told)


def spent(server: Prepared) -> int:
    """Return what the table's budget has spent, in nano-epsilon."""
    with psycopg.connect(server.url) as connection:
        return int(connection.execute("SELECT spent FROM dpsql.budget WHERE kind = 'pure'").fetchall()[0][0])


def test_the_owner_role_alone_can_do_the_work(server: Prepared) -> None:
    """Register aside, everything an owner does works without being a superuser."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute('ALTER ROLE "own er" LOGIN')
    with connect(server.url.replace("//tester@", "//own%20er@"), who="boss") as db:
        assert isinstance(db, Database)
        assert db.train(PRIVATE, epsilon="0.01", method="rdt", trees=2, depth=2).name
        assert {one.what for one in db.doctor() if not one.well} <= {
            "durability",
            "schemas",
        }  # ann may create in public


def test_the_owner_keeps_models_in_order_and_an_analyst_reads_what_they_wrote(server: Prepared) -> None:
    """An analyst sees tags, and can neither drop, rename nor tag: nothing is changed, and the message says who can."""
    with connect(server.url, who="boss") as db:
        db.train(PRIVATE, epsilon="0.1", method="rdt", name="kept", trees=1, depth=1)
        db.tag_model("kept", "stage=live")
    with connect(server.as_role("ann")) as db:
        assert list(db.models(tag="stage")["name"]) == ["kept"]
        for act in (
            lambda: db.drop_model("kept"),
            lambda: db.rename_model("kept", "x"),
            lambda: db.tag_model("kept", "x"),
        ):
            with pytest.raises(DatabaseError, match="this role may not"):
                act()
        assert db.models(tag="stage")["tags"].tolist() == [["stage=live"]]
    with connect(server.url, who="boss") as db:
        db.drop_model("kept")
        assert "kept" not in list(db.models()["name"])
