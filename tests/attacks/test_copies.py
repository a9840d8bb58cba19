"""A copy of a database reaches nothing but itself, and no copy, dump or log holds a secret (issue 15, finding 11)."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpsql.api.database import connect
from dpsql.errors import DatabaseError
from tests.attacks.analyst import OWNER, Server, prepared
from tests.servers import as_server_user, data_folder, free_port, fresh_database, programs, secret_folder

psycopg = pytest.importorskip("psycopg")
TRAIN = "SELECT * FROM dpsql.train('private.people', '0.1', 'rdt', '{\"trees\": 2, \"depth\": 2}')"
LOGGED = "?options=-c%20log_statement%3Dall"


@pytest.fixture(scope="module")
def server() -> Server:
    """Prepare a database by statements that the server writes into its log."""
    url = fresh_database()
    prepared(url=url)
    with connect(url + LOGGED) as db:
        db.init(owner=OWNER, analyst="analysts", plpython=True, secret_folder=secret_folder())
    return Server(url)


def tool(name: str, *arguments: str, given: str | None = None) -> str:
    """Run a program of PostgreSQL's and return what it prints; other tests' databases have other encodings."""
    done = subprocess.run(
        [*as_server_user(), str(programs() / name), *arguments],
        input=given,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def secrets_kept() -> list[str]:
    """Return the passwords that the server keeps, as its own user reads them."""
    return [path.read_text(encoding="ascii") for path in Path(secret_folder()).iterdir()]


def test_the_secret_is_a_file_of_the_servers_user_alone(server: Server) -> None:
    """Folder and file belong to the server's user, who alone may read them, and lie outside the data."""
    folder = Path(secret_folder())
    kept = list(folder.iterdir())
    assert kept
    assert {path.stat().st_mode & 0o077 for path in (folder, *kept)} == {0}
    assert {path.stat().st_uid for path in (folder, *kept)} == {data_folder().stat().st_uid}
    assert data_folder() not in folder.parents


def test_no_dump_and_no_log_holds_the_secret(server: Server) -> None:
    """Neither a dump of the whole server, roles included, nor the log of every statement of `dpsql init`."""
    server.run(TRAIN, role="ann")
    dumped = tool("pg_dumpall", "--dbname", server.url)
    logged = (data_folder().parent / "log").read_text(errors="replace")
    assert "ALTER ROLE" in logged
    assert [one for one in secrets_kept() if one in dumped or one in logged] == []


#: Lines for pg_hba.conf: the owner role must show its password, over TCP or, where that is shut, over the socket.
RULES = {
    "address": f'host all "{OWNER}" 127.0.0.1/32 scram-sha-256',
    "socket": f'host all "{OWNER}" 127.0.0.1/32 reject\nlocal all "{OWNER}" scram-sha-256',
}


@contextmanager
def rule(server: Server, text: str) -> Iterator[None]:
    """Put rules before the server's others."""
    rules = data_folder() / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"{text}\n{before}")
    server.run("SELECT pg_reload_conf()")
    try:
        yield
    finally:
        rules.write_text(before)
        server.run("SELECT pg_reload_conf()")


@pytest.fixture(params=RULES)
def strict(server: Server, request: pytest.FixtureRequest) -> Iterator[Server]:
    """Make the server ask the owner role for its password."""
    with rule(server, RULES[request.param]):
        yield server


@pytest.fixture
def shut(server: Server) -> Iterator[None]:
    """Let the owner role in by no way."""
    with rule(server, f'host all "{OWNER}" all reject\nlocal all "{OWNER}" reject'):
        yield


def test_the_kernel_logs_in_with_the_secret_and_nobody_without(strict: Server) -> None:
    """Where the server asks for the password, calls work all the same, and others who are the owner in name do not."""
    before = strict.spent()
    with pytest.raises(psycopg.OperationalError):
        strict.run("SELECT 1", role=OWNER.replace(" ", "%20"))
    strict.run(TRAIN, role="ann")
    assert strict.spent() == before + 100_000_000


def test_an_owner_role_that_is_shut_out_is_told(server: Server, shut: None) -> None:
    """Where the server lets the owner role in by no way, `dpsql init` says so."""
    with connect(server.url) as db:
        done = db.init(owner=OWNER, analyst="analysts", plpython=True, secret_folder=secret_folder())
    assert [one for one in done.warnings if "cannot log in to its own server" in one]


def test_a_way_back_below_the_data_is_refused(server: Server) -> None:
    """A base backup would carry it away: refused, with the folder named."""
    with connect(server.url) as db, pytest.raises(DatabaseError, match="backups carry away"):
        db.init(owner=OWNER, analyst="analysts", plpython=True, secret_folder=str(data_folder() / "secret"))


@pytest.fixture(params=["template", "dump"])
def copy(server: Server, request: pytest.FixtureRequest) -> Iterator[Server]:
    """Make a copy of the database on the same server."""
    copied = Server(f"{server.url}_{request.param}")
    if request.param == "template":
        server.run(f"CREATE DATABASE {copied.name} TEMPLATE {server.name}", database="postgres")
    else:
        server.run(f"CREATE DATABASE {copied.name} TEMPLATE template0", database="postgres")
        tool("psql", "--quiet", copied.url, given=tool("pg_dump", "--dbname", server.url))
    yield copied
    server.run(f"DROP DATABASE {copied.name} WITH (FORCE)", database="postgres")


def test_a_copy_is_refused_until_it_is_prepared(server: Server, copy: Server) -> None:
    """Its functions charge neither ledger; after `dpsql init` its ledger says what it is a copy of."""
    before = server.spent(), copy.spent()
    with pytest.raises(psycopg.Error, match="this database is a copy"):
        copy.run(TRAIN, role="ann")
    assert (server.spent(), copy.spent()) == before
    with connect(copy.url, who="boss") as db:
        assert [one.what for one in db.doctor() if one.what == "place" and not one.well]
        db.init(owner=OWNER, analyst="analysts", plpython=True, secret_folder=secret_folder())
        assert not [one.what for one in db.doctor() if one.what == "place" and not one.well]
        assert "boss, for a copy: dpsql of system" in db.ledger()["who"].iloc[-1]
        assert db.verify() == []


def test_a_table_of_a_copy_is_another_table(server: Server, copy: Server) -> None:
    """The engine tells a copied table from the original, so that its budget does not count for both."""
    with connect(server.url) as one, connect(copy.url) as other:
        tables = [db.engine.table("private.people") for db in (one, other)]
    assert len({table.identity for table in tables if table is not None}) == 2


def test_a_copied_server_reaches_neither_the_original_nor_itself(server: Server) -> None:
    """A base backup, started beside the original by the same user, finds no secret of its own: nothing is charged.

    Once it is prepared its ledger says so.
    """
    place = data_folder().parent / "backup"
    tool("pg_basebackup", "--dbname", server.url, "--pgdata", str(place), "--checkpoint", "fast")
    port = free_port()
    options = f"-p {port} -k {place} -c listen_addresses=127.0.0.1"
    before = server.spent()
    tool("pg_ctl", "-D", str(place), "-o", options, "-l", str(place / "log"), "-w", "start")
    try:
        copied = Server(f"postgresql://tester@127.0.0.1:{port}/{server.name}")
        with pytest.raises(psycopg.Error, match="this database is a copy"):
            copied.run(TRAIN, role="ann")
        assert copied.spent() == before
        with connect(copied.url, who="boss") as db:
            db.init(owner=OWNER, analyst="analysts", plpython=True, secret_folder=secret_folder())
            assert "boss, for a server that was moved or restored" in db.ledger()["who"].iloc[-1]
    finally:
        tool("pg_ctl", "-D", str(place), "-m", "immediate", "stop")
        shutil.rmtree(place, ignore_errors=True)
    assert server.spent() == before


def test_the_way_back_is_proved(server: Server) -> None:
    """A server that does not show the caller's own lock is not worked on, whatever it lets one do."""
    from dpsql.engines.postgres.way_back import connect_back

    known = psycopg.conninfo.conninfo_to_dict(server.url)
    request = {
        "server": {"port": known["port"], "address": "127.0.0.1", "socket": ""},
        "database": server.name,
        "owner": OWNER,
        "lock": "4242",
    }
    with psycopg.connect(server.url, autocommit=True) as caller, psycopg.connect(server.url) as stranger:
        caller.execute("SELECT pg_advisory_lock(4242)")
        mine = connect_back({**request, "pid": caller.info.backend_pid}, "")
        assert mine is not None
        mine.close()
        assert connect_back({**request, "pid": stranger.info.backend_pid}, "") is None
        elsewhere = {**request, "pid": caller.info.backend_pid, "database": "postgres"}
        assert connect_back(elsewhere, "") is None
        assert connect_back({**request, "pid": caller.info.backend_pid, "lock": "4243"}, "") is None


def test_the_environment_leads_nowhere_else(server: Server) -> None:
    """The address comes from the server's own process file; nothing in any table says where to connect."""
    found = server.run(
        "SELECT prosrc FROM pg_proc WHERE pronamespace = 'dpsql'::regnamespace AND prosrc LIKE '%runpy%'"
    )
    port = str(psycopg.conninfo.conninfo_to_dict(server.url)["port"])
    assert found
    assert [text for (text,) in found if port in text or "password" in text.lower()] == []
