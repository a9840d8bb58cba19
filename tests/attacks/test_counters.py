"""No counter of the server, read from whichever of its databases, tells of private rows (issue 15, finding 10)."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pytest

from dpsql.api import census
from dpsql.api.database import connect
from dpsql.engines.postgres.closed_functions import unknown_functions
from tests.attacks.analyst import OWNER, Server, prepared, put, wait_for

psycopg = pytest.importorskip("psycopg")
ROWS = 6000
MORE = 25
#: Counters that a run over private rows would move by numbers that follow from the rows.
WRITTEN = ("tup_inserted", "tup_updated", "tup_deleted", "temp_files", "temp_bytes")
READ = ("tup_returned", "tup_fetched")
COUNTERS = (*WRITTEN, *READ)
#: The neighbours: what is asked of one table is asked of another with 25 rows more.
TABLES = ("private.people", "private.more_people")
CALLS = {
    "train, one scan": "SELECT * FROM dpsql.train('{table}', '0.1', 'rdt', '{{\"trees\": 2, \"depth\": 3}}')",
    "train, rows kept": "SELECT * FROM dpsql.train('{table}', '0.1', 'spe', '{{\"trees\": 2, \"depth\": 3}}')",
    "evaluate": "SELECT * FROM dpsql.evaluate('first', '{table}', '0.1')",
    "advise": "SELECT * FROM dpsql.advise('{table}', buy => '0.1')",
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Prepare a database with two private tables, one of which has 25 rows more, on a server that does nothing else."""
    server = prepared(rows=ROWS)
    server.run("ALTER SYSTEM SET autovacuum = off", "SELECT pg_reload_conf()")
    put(server.url, "more_people", ROWS + MORE, schema="private")
    server.run(f'GRANT SELECT ON more_people TO "{OWNER}"')
    with connect(server.url) as db:
        db.register("private.more_people", census.SCHEMA, cap=10)
    yield server
    server.run("ALTER SYSTEM RESET autovacuum", "SELECT pg_reload_conf()")


def counted(server: Server) -> dict[str, Decimal | int]:
    """Return the database's counters as a superuser sees them from another database, once all sessions have told."""

    def quiet() -> bool:
        busy = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND datname = '{}'"
        return server.run(busy.format(server.name), database="postgres") == [(0,)]

    assert wait_for(quiet)
    columns = ", ".join(COUNTERS)
    (found,) = server.run(
        f"SELECT {columns} FROM pg_stat_database WHERE datname = '{server.name}'", database="postgres"
    )
    return dict(zip(COUNTERS, found, strict=True))


def moved(server: Server, call: str, table: str) -> dict[str, Decimal | int]:
    """Return by how much each counter moves while ann makes a call."""
    before = counted(server)
    server.run(call.format(table=table), role="ann")
    after = counted(server)
    return {name: after[name] - before[name] for name in COUNTERS}


@pytest.mark.parametrize("call", CALLS)
def test_no_row_that_the_kernel_touches_is_counted(server: Server, call: str) -> None:
    """Written rows and files are not counted at all; of read ones, no more than the catalog's."""
    for table in TABLES:
        found = moved(server, CALLS[call], table)
        assert {name: found[name] for name in WRITTEN} == dict.fromkeys(WRITTEN, 0)
        assert max(found[name] for name in READ) < ROWS


def test_sorting_on_disk_is_not_counted(server: Server) -> None:
    """What the owner role spills to temporary files is in no counter: its size would follow from the rows."""
    before = counted(server)
    server.run(
        "SET work_mem = '64kB'",
        "SELECT count(*) FROM (SELECT * FROM people ORDER BY education, age OFFSET 10) AS sorted",
        role=OWNER.replace(" ", "%20"),
    )
    after = counted(server)
    assert (after["temp_files"], after["temp_bytes"]) == (before["temp_files"], before["temp_bytes"])


LOOKS = {
    "rows changed": "SELECT tup_inserted, tup_updated, tup_deleted FROM pg_stat_database WHERE datname = '{}'",
    "files": "SELECT temp_files, temp_bytes FROM pg_stat_database WHERE datname = '{}'",
    "size of the database": "SELECT pg_database_size('{}')",
    "size of all databases": "SELECT pg_tablespace_size('pg_default')",
    "place in the log": "SELECT pg_current_wal_lsn()",
    "place of inserts in the log": "SELECT pg_current_wal_insert_lsn()",
    "bytes of the log": "SELECT wal_bytes FROM pg_stat_wal",
    "blocks written": "SELECT buffers_backend FROM pg_stat_bgwriter",
    "checkpoints": "SELECT redo_lsn FROM pg_control_checkpoint()",
    "place of a message in the log": "SELECT pg_logical_emit_message(false, '', '')",
    "place of a transaction's message": "SELECT pg_logical_emit_message(true, '', '\\x00'::bytea)",
    "place that a standby needs": "SELECT restart_lsn FROM pg_replication_slots",
    "the next number": "SELECT lo_create(0)",
    "the next number, by another name": "SELECT lo_creat(-1)",
    "the next number, with contents": "SELECT lo_from_bytea(0, ''::bytea)",
    "caches": "SELECT blks_hit FROM pg_stat_slru",
    "by database number": "SELECT pg_stat_get_db_tuples_inserted(oid) FROM pg_database WHERE datname = '{}'",
    "by database number, files": "SELECT pg_stat_get_db_temp_bytes(oid) FROM pg_database WHERE datname = '{}'",
}


@pytest.mark.parametrize("database", ["postgres", "template1", None])
@pytest.mark.parametrize("look", LOOKS)
def test_counters_are_closed_in_every_database(server: Server, look: str, database: str | None) -> None:
    """An analyst reads no counter of the whole server, whichever of its databases they connect to."""
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        server.run(LOOKS[look].format(server.name), role="ann", database=database)


def test_another_roles_statements_are_hidden(server: Server) -> None:
    """While the owner role works, the list of sessions shows an analyst neither its statement nor what it waits for."""
    with psycopg.connect(server.as_role(OWNER.replace(" ", "%20"))) as owner:
        owner.execute("SELECT count(*) FROM people")
        pid = owner.info.backend_pid
        shown = server.run(f"SELECT query, wait_event, xact_start FROM pg_stat_activity WHERE pid = {pid}", role="ann")
    assert shown == [("<insufficient privilege>", None, None)]


def test_a_database_that_tells_is_found(server: Server) -> None:
    """Doctor names a database in which the counters are open, such as one made from template0 later."""
    later = f"later_{server.name}"
    server.run(f"CREATE DATABASE {later} TEMPLATE template0")
    try:
        with connect(server.url) as db:
            told = [one.state for one in db.doctor() if one.what == "other databases" and not one.well]
    finally:
        server.run(f"DROP DATABASE {later}")
    assert [text for text in told if later in text]


def test_no_function_is_open_that_nobody_has_looked_at(server: Server) -> None:
    """A newer server's new function is seen here, and named by doctor: it may be a counter."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        assert unknown_functions(connection) == []
    server.run("CREATE FUNCTION public.counter() RETURNS BIGINT VOLATILE LANGUAGE sql AS 'SELECT 1'")
    server.run("SET allow_system_table_mods = on", "ALTER FUNCTION public.counter() SET SCHEMA pg_catalog")
    try:
        with connect(server.url) as db:
            (told,) = [one for one in db.doctor() if one.what == "functions"]
    finally:
        server.run("SET allow_system_table_mods = on", "DROP FUNCTION pg_catalog.counter()")
    assert "counter" in told.state


def test_a_database_whose_owner_has_set_a_role_is_closed_too(server: Server) -> None:
    """ALTER DATABASE … SET role makes everybody who enters, superusers too, somebody who can revoke nothing."""
    own = f"own_{server.name}"
    server.run(f"CREATE DATABASE {own} OWNER ann TEMPLATE template0")
    server.run(f"ALTER DATABASE {own} SET role = 'ann'", role="ann", database=own)
    try:
        with connect(server.url) as db:
            db.init(owner=OWNER, analyst="analysts")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            server.run("SELECT tup_inserted FROM pg_stat_database", role="ann", database=own)
    finally:
        server.run(f"DROP DATABASE {own}")


def test_a_database_that_is_shut_is_named(server: Server) -> None:
    """Its owner can let people in again once nobody looks."""
    own = f"shut_{server.name}"
    server.run(f"CREATE DATABASE {own} OWNER ann TEMPLATE template0 ALLOW_CONNECTIONS false")
    try:
        with connect(server.url) as db:
            assert [one for one in db.init(owner=OWNER, analyst="analysts").warnings if own in one]
            (told,) = [one for one in db.doctor() if one.what == "other databases"]
    finally:
        server.run(f"DROP DATABASE {own}")
    assert not told.well
    assert own in told.state


def test_one_process_reads_a_table_of_any_size(server: Server) -> None:
    """Every role sees the processes of a run, and how many there are would follow from the table's pages."""
    for url in (server.url, server.as_role(OWNER.replace(" ", "%20"))):
        with connect(url) as db, db.engine.transaction() as transaction:
            (found,) = transaction.rows("SELECT current_setting('max_parallel_workers_per_gather') AS most")
            assert found["most"] == "0"
