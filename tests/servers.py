"""Real servers for tests: found on this machine, started once, and stopped when the tests end.

A server that is absent is skipped by name; named in DPSQL_REQUIRE (as CI does) its absence is a failure.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from dpsql.init import packages

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


@cache
def postgres() -> str:
    """Start PostgreSQL in a folder of its own and return the superuser's URL, without a database's name."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin")) if os.name == "posix" else []
    found = shutil.which("initdb")
    where = Path(found).parent if found else programs[-1] if programs else None
    if where is None:
        absent("postgres", "there is no initdb on this machine")
    assert where is not None
    folder = Path(tempfile.mkdtemp(prefix="dpsql-postgres-"))
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    if as_user:
        shutil.chown(folder, "postgres")
    port = free_port()
    data = str(folder / "data")
    _run(*as_user, str(where / "initdb"), "-D", data, "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-sync")
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=80"
    _run(*as_user, str(where / "pg_ctl"), "-D", data, "-o", options, "-l", str(folder / "log"), "-w", "start")
    atexit.register(_stop_postgres, [*as_user, str(where / "pg_ctl"), "-D", data, "-m", "immediate", "stop"], folder)
    return f"postgresql://tester@127.0.0.1:{port}"


@cache
def spark() -> Any:
    """Start Spark inside this process, on two cores, and return its session: one for all tests of a process."""
    try:
        from dpsql.engines.spark_opening import Address, start
    except ImportError:
        absent("spark", "pyspark or pyarrow is not installed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        absent("spark", "there is no java on this machine")
    session, _ = start(Address.parse("spark://local[2]"), wait=2.0)
    session.conf.set("spark.sql.shuffle.partitions", "2")
    atexit.register(session.stop)
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
            connection.execute(
                f"DO LANGUAGE plpython3u $$import sys; sys.path[:0] = {packages()!r}; import dpsql.inside$$"
            )
        except psycopg.Error:
            return False
    return True
