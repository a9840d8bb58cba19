"""An analyst cannot name a private table: PostgreSQL plans, and tells its estimates, before it checks any right."""

from __future__ import annotations

import re

import pytest

from dpsql.api import census
from dpsql.api.database import connect
from dpsql.errors import UsageError
from tests.attacks.analyst import OWNER, Server, prepared, put
from tests.servers import fresh_database

psycopg = pytest.importorskip("psycopg")
ROWS = 700
COLUMNS = ", ".join(f'"{name}"' for name in [*census.SCHEMA["features"], "income"])


@pytest.fixture(scope="module")
def server() -> Server:
    """Prepare a database, with fresh statistics of its private table."""
    server = prepared(rows=ROWS)
    server.run("ANALYZE private.people")
    return server


def estimates(server: Server, query: str) -> list[int]:
    """Return the row counts that ann is told by the planner, whatever becomes of her statement."""
    heard: list[str] = []
    with psycopg.connect(server.as_role("ann"), autocommit=True) as connection:
        connection.add_notice_handler(lambda notice: heard.append(notice.message_detail or ""))
        for setting in ("debug_print_plan = on", "debug_pretty_print = off", "client_min_messages = log"):
            connection.execute(f"SET {setting}")
        with pytest.raises(psycopg.Error):
            connection.execute(query)
    return [int(float(text)) for text in re.findall(r"plan_rows (\S+)", " ".join(heard))]


def test_the_planner_tells_nothing_of_a_table_in_a_closed_schema(server: Server) -> None:
    """A plan for a table that one may enter would say its exact size; for a closed one there is no plan."""
    server.run("CREATE TABLE public.shown AS SELECT * FROM private.people", "ANALYZE public.shown")
    assert ROWS in estimates(server, "SELECT * FROM public.shown")
    server.run("DROP TABLE public.shown")
    assert estimates(server, "SELECT * FROM private.people") == []
    assert estimates(server, "SELECT * FROM people WHERE region = 'north'") == []


#: What shows rows of a private table in a schema that ann may enter, and how it is made; "closed.whole" is registered.
COPY = "CREATE TABLE closed.whole AS SELECT * FROM private.people"
OPEN = {
    "a partition": (
        "CREATE TABLE closed.whole (LIKE private.people) PARTITION BY LIST (sex)",
        "CREATE TABLE opened.way PARTITION OF closed.whole DEFAULT",
    ),
    "a parent": (
        "CREATE TABLE opened.way (LIKE private.people) PARTITION BY LIST (sex)",
        "CREATE TABLE closed.whole PARTITION OF opened.way DEFAULT",
    ),
    "the base of a view": (
        "CREATE TABLE opened.way AS SELECT * FROM private.people",
        f"CREATE VIEW closed.whole AS SELECT {COLUMNS} FROM opened.way",
    ),
    "a view of it": (COPY, "CREATE VIEW opened.way AS SELECT age FROM closed.whole"),
    "a view of a view of it": (
        COPY,
        "CREATE VIEW closed.middle AS SELECT age FROM closed.whole",
        "CREATE VIEW opened.way AS SELECT age FROM closed.middle",
    ),
    "a stored view of it": (COPY, "CREATE MATERIALIZED VIEW opened.way AS SELECT age FROM closed.whole"),
    "a function that reads it": (
        COPY,
        """CREATE FUNCTION opened.way() RETURNS SETOF BIGINT LANGUAGE sql STABLE
           BEGIN ATOMIC SELECT age FROM closed.whole; END""",
    ),
    "a policy that reads it": (
        COPY,
        "CREATE TABLE opened.way (age BIGINT)",
        "CREATE POLICY one ON opened.way USING (EXISTS (SELECT 1 FROM closed.whole))",
    ),
}


@pytest.mark.parametrize("name", OPEN)
def test_a_private_table_that_can_be_named_is_refused(server: Server, name: str) -> None:
    """Registering and `init --table` say what stands open and what closes it; nothing is written."""
    server.run(
        "DROP SCHEMA IF EXISTS closed, opened CASCADE",
        "CREATE SCHEMA closed",
        "CREATE SCHEMA opened",
        "GRANT USAGE ON SCHEMA opened TO PUBLIC",
        *OPEN[name],
    )
    with connect(server.url) as db:
        with pytest.raises(UsageError, match=r"opened\.way.* may enter") as refused:
            db.register("closed.whole", census.SCHEMA, cap=1)
        assert "SET SCHEMA private" in str(refused.value.hint)
        with pytest.raises(UsageError, match=r"opened\.way.* may enter"):
            db.init(owner=OWNER, analyst="analysts", tables=["closed.whole"])
    assert server.run("SELECT count(*) FROM dpsql.budget WHERE table_name = 'closed.whole'") == [(0,)]


def test_a_private_table_in_schema_public_is_refused(server: Server) -> None:
    """The usual place, with the two statements that mend it."""
    server.run("CREATE TABLE public.lying AS SELECT * FROM private.people")
    with connect(server.url) as db, pytest.raises(UsageError) as refused:
        db.register("lying", census.SCHEMA, cap=1)
    assert refused.value.hint == "CREATE SCHEMA private; ALTER TABLE public.lying SET SCHEMA private"


def test_public_data_may_be_named(server: Server) -> None:
    """Without a cap a table is public, and its row count no secret."""
    server.run("CREATE TABLE public.known AS SELECT * FROM newcomers")
    with connect(server.url) as db:
        assert db.register("known", census.SCHEMA, cap=None).table == "known"
        with pytest.raises(UsageError, match="may enter"):
            db.set_cap("known", 1)


def test_a_schema_that_one_analyst_may_enter_is_named_with_the_role(server: Server) -> None:
    """Closed to PUBLIC is not enough; what was registered before is named by doctor and by init."""
    server.run("CREATE SCHEMA hr", "CREATE TABLE hr.staff AS SELECT * FROM private.people")
    with connect(server.url) as db:
        db.register("hr.staff", census.SCHEMA, cap=1)
        assert next(one for one in db.doctor() if one.what == "table hr.staff").well
        server.run("GRANT USAGE ON SCHEMA hr TO ann")
        (told,) = [one for one in db.doctor() if one.what == "table hr.staff"]
        assert not told.well
        assert 'REVOKE USAGE ON SCHEMA "hr" FROM "ann"' in told.fix
        again = db.init(owner=OWNER, analyst="analysts")
        assert [one for one in again.warnings if "hr.staff" in one]
    server.run("REVOKE USAGE ON SCHEMA hr FROM ann")


def test_an_analyst_who_reads_the_rows_is_named(server: Server) -> None:
    """By a right to the table, or as a member of a role that reads everything."""
    server.run("GRANT USAGE ON SCHEMA private TO ann", "GRANT SELECT ON private.people TO ann")
    try:
        with connect(server.url) as db:
            (told,) = [one for one in db.doctor() if one.what == "table private.people"]
            assert 'role "ann" reads its rows' in told.state
    finally:
        server.run("REVOKE SELECT ON private.people FROM ann", "REVOKE USAGE ON SCHEMA private FROM ann")
    server.run("GRANT pg_read_all_stats TO ann")
    try:
        with connect(server.url) as db:
            (told,) = [one for one in db.doctor() if one.what == "analysts"]
            assert "ann (pg_read_all_stats)" in told.state
    finally:
        server.run("REVOKE pg_read_all_stats FROM ann")


def test_where_there_are_no_analysts_nothing_is_asked_for() -> None:
    """A database of one person's own works in schema public as before."""
    url = fresh_database()
    put(url, "people", 50)
    with connect(url) as db:
        assert db.register("people", census.SCHEMA, cap=1).table == "people"
