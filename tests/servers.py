"""Real servers for tests: found on this machine, started once, and stopped when the tests end.

A server that is absent is skipped by name; named in DPSQL_REQUIRE (as CI does) its absence is a failure.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from dpsql.engines.base import Engine
from dpsql.engines.open_engine import open_engine
from dpsql.owner.postgres_roles import packages

_NUMBERS = count()


def absent(name: str, why: str) -> Any:
    """Skip the test by the server's name, or fail where the server is required."""
    if name in os.environ.get("DPSQL_REQUIRE", "").split(","):
        pytest.fail(f"{name} is required here, and {why}")
    pytest.skip(f"{name}: {why}")


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def postgres() -> str:
    """Return the superuser's URL of the tests' own PostgreSQL, without a database's name."""
    return _postgres()[0]


def secret_folder() -> str:
    """Return where that server keeps its way back to itself: beside its data, gone with it."""
    return str(_postgres()[1] / "secret")


def as_server_user() -> list[str]:
    """Return what a command starts with that runs as the server's user: a server refuses to be root's."""
    return ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []


def programs() -> Path:
    """Return where PostgreSQL's programs are, or say that they are absent."""
    known = sorted(Path("/usr/lib/postgresql").glob("*/bin")) if os.name == "posix" else []
    found = shutil.which("initdb")
    where = Path(found).resolve().parent if found else known[-1] if known else None
    if where is None:
        absent("postgres", "there is no initdb on this machine")
    assert where is not None
    return where


def data_folder() -> Path:
    """Return that server's data directory."""
    return _postgres()[1] / "data"


@cache
def _postgres() -> tuple[str, Path]:
    """Start PostgreSQL in a folder of its own and return the superuser's URL, and the folder."""
    where = programs()
    folder = Path(tempfile.mkdtemp(prefix="dpsql-postgres-"))
    as_user = as_server_user()
    if as_user:
        shutil.chown(folder, "postgres")
    port = free_port()
    data = str(folder / "data")
    _run(*as_user, str(where / "initdb"), "-D", data, "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-sync")
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=80"
    _run(*as_user, str(where / "pg_ctl"), "-D", data, "-o", options, "-l", str(folder / "log"), "-w", "start")
    atexit.register(_stop_postgres, [*as_user, str(where / "pg_ctl"), "-D", data, "-m", "immediate", "stop"], folder)
    return f"postgresql://tester@127.0.0.1:{port}", folder


@dataclass
class Cluster:
    """A Spark cluster on this machine: its URL, and one process (a group of its own) for each worker."""

    url: str
    workers: list[subprocess.Popen[bytes]]

    def kill(self, number: int) -> None:
        """End a worker and what it started, without a word."""
        os.killpg(self.workers[number].pid, signal.SIGKILL)
        self.workers[number].wait()


@contextmanager
def cluster(folder: Path, count: int) -> Iterator[Cluster]:
    """Start a master and some workers of one core each, on loopback; end them all when the block ends."""
    home = _spark_home()
    port, page = free_port(), free_port()
    url = f"spark://127.0.0.1:{port}"
    started: list[subprocess.Popen[bytes]] = []

    def begin(role: str, *options: str) -> None:
        log = (folder / f"{role}-{len(started)}.log").open("wb")
        command = [
            str(home / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{role}",
            "--host",
            "127.0.0.1",
            *options,
        ]
        env = os.environ | {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
        started.append(subprocess.Popen(command, stdout=log, stderr=log, env=env, start_new_session=True, cwd=folder))
        log.close()

    try:
        begin("master.Master", "--port", str(port), "--webui-port", str(page))
        _await(folder / "master.Master-0.log", "I have been elected leader", 1)
        for _ in range(count):
            mine = ("--cores", "1", "--memory", "1g", "--webui-port", str(free_port()), "--work-dir", str(folder / "w"))
            begin("worker.Worker", *mine, url)
        _await(folder / "master.Master-0.log", "Registering worker", count)
        yield Cluster(url, started[1:])
    finally:
        for one in started:
            with suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.wait()


def _await(log: Path, words: str, times: int) -> None:
    """Wait until a log has said something so many times."""
    deadline = time.monotonic() + 90
    while log.read_text(errors="replace").count(words) < times:
        if time.monotonic() > deadline:
            raise RuntimeError(f"Spark did not start: {log.read_text(errors='replace')[-1000:]}")
        time.sleep(0.2)


def _spark_home() -> Path:
    """Return where Spark's programs are, or say that they are absent."""
    try:
        import pyarrow  # noqa: F401
        import pyspark
    except ImportError:
        absent("spark", "pyspark or pyarrow is not installed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        absent("spark", "there is no java on this machine")
    return Path(pyspark.__file__).parent


def spark_connect() -> None:
    """Skip, or fail where Spark is required, unless a session can be a client of a Spark Connect server."""
    _spark_home()
    try:
        import grpc  # noqa: F401
    except ImportError:
        absent("spark", "what Spark Connect needs (pyspark[connect]) is not installed")


@cache
def spark() -> Any:
    """Start Spark inside this process, on two cores, and return its session: one for all tests of a process.

    Its tables are in a folder of their own, since processes that test side by side use the same names.
    """
    _spark_home()
    from dpsql.engines.spark.opening import Address, start

    folder = tempfile.mkdtemp(prefix="dpsql-spark-")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_SUBMIT_ARGS", f"--conf spark.sql.warehouse.dir={folder} pyspark-shell")
        session, _ = start(Address.parse("spark://local[2]"), wait=2.0)
    session.conf.set("spark.sql.shuffle.partitions", "2")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(session.stop)
    return session


@cache
def chdb() -> Any:
    """Start chDB inside this process, in memory, and return its session: a process has one, for all of its tests."""
    try:
        from chdb.session import Session
    except ImportError:
        absent("clickhouse", "chdb is not installed")
    session = Session(":memory:")
    atexit.register(session.close)
    return session


def _stop_postgres(command: list[str], folder: Path) -> None:
    subprocess.run(command, check=False, capture_output=True, timeout=60)
    shutil.rmtree(folder, ignore_errors=True)


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(f"{command[-1]} failed: {done.stderr[-2000:]}")


def fresh_database() -> str:
    """Return the URL of an empty database of its own."""
    psycopg = pytest.importorskip("psycopg")
    server = postgres()
    name = f"t{os.getpid()}_{next(_NUMBERS)}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    return f"{server}/{name}"


@cache
def has_plpython() -> bool:
    """Whether the server can run Python functions, with a Python that can load what this one has installed."""
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(f"{postgres()}/postgres", autocommit=True) as connection:
        try:
            connection.execute("CREATE EXTENSION IF NOT EXISTS plpython3u")
            load = f"import sys; sys.path[:0] = {packages()!r}; import dpsql.api.plpython_worker"
            connection.execute(f"DO LANGUAGE plpython3u $${load}$$")
        except psycopg.Error:
            return False
    return True


#: How to open an empty database of each engine: the suites that run on all of them read this.
OPEN_EMPTY: dict[str, Callable[[], Engine]] = {
    "chdb": lambda: open_engine(chdb(), ledger=":memory:"),
    "duckdb": lambda: open_engine(":memory:"),
    "postgres": lambda: open_engine(fresh_database()),
    "spark": lambda: open_engine(spark().newSession(), ledger=":memory:"),  # temporary views of its own
}
