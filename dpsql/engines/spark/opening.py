"""Starts Spark by a URL: quiet, with nothing of a run shown on pages or in logs.

spark://local[2]/data/lake      in this process, on two cores; the Parquet tables of /data/lake
spark://10.0.0.5:7077           a standalone cluster, and the tables of its catalog
"""

from __future__ import annotations

import os
import re
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from dpsql.engines.files import spill_folder
from dpsql.engines.spark import java_bridge
from dpsql.engines.spark.cursor import replace_errors
from dpsql.errors import DatabaseError, ParameterError, QueryFailed

PREFIX = "spark://"
_LOCAL = re.compile(r"local(\[(\*|[1-9][0-9]{0,3})\])?")
_HOSTS = re.compile(r"[^,:/\[\]]+:[0-9]{1,5}(,[^,:/\[\]]+:[0-9]{1,5})*")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
#: What every application that dpsql starts is set to.
_QUIET = {
    "spark.app.name": "dpsql",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    "spark.log.level": "OFF",
}
#: Where Linux says how much memory a container may use: a number, or `max`.
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_SILENT = """
rootLogger.level = off
rootLogger.appenderRef.none.ref = none
appender.none.type = Null
appender.none.name = none
"""


@dataclass(frozen=True)
class Address:
    """Which Spark to start, and the folder with Parquet tables, if any."""

    master: str
    folder: Path | None

    @classmethod
    def parse(cls, target: str) -> Address:
        """Read a URL.

        >>> Address.parse("spark://local[2]/").master, Address.parse("spark://node:7077").master
        ('local[2]', 'spark://node:7077')
        """
        place, slash, rest = target.removeprefix(PREFIX).partition("/")
        if not _LOCAL.fullmatch(place) and not _HOSTS.fullmatch(place):
            allowed = "spark://HOST:PORT or spark://local[2], and a folder of Parquet tables after it, if any"
            raise ParameterError("db", allowed=allowed, given=target)
        folder = Path(slash + rest) if rest else None
        if folder is not None and not folder.is_dir():
            raise DatabaseError(f'there is no folder "{folder}".', hint="check --db")
        return cls(place if _LOCAL.fullmatch(place) else PREFIX + place, folder)

    @property
    def hosts(self) -> list[tuple[str, int]]:
        """The host and port of each master; none where Spark runs in this process."""
        named = self.master.removeprefix(PREFIX)
        if named == self.master:
            return []
        return [(host, int(port)) for host, port in (place.split(":") for place in named.split(","))]


def start(address: Address, *, wait: float) -> tuple[Any, bool]:
    """Return a session, and whether its application is dpsql's own; one that runs in this process already is shared."""
    running = java_bridge.running_context()
    if running is not None:
        if running.master != address.master:
            raise DatabaseError(
                "this process already runs Spark with another master.", hint="dpsql.connect(session, ledger=…)"
            )
        return SparkSession(running).newSession(), False
    _check_reachable(address, wait)
    problem: DatabaseError
    try:
        return replace_errors("start Spark", lambda: _start_session(address)), True
    except QueryFailed:
        problem = DatabaseError(
            f"Spark at {address.master} could not be started.", hint="check --db, Java and JAVA_HOME"
        )
    raise problem


def _start_session(address: Address) -> Any:
    builder = SparkSession.builder.master(address.master)
    for name, value in _QUIET.items():
        builder = builder.config(name, value)
    if not address.hosts:  # the usual 200 parts of a shuffle, and planning anew in mid-statement, are for clusters
        builder = builder.config("spark.sql.shuffle.partitions", str(2 * (os.cpu_count() or 1)))
        builder = builder.config("spark.sql.adaptive.enabled", "false")
        if "SPARK_DRIVER_MEMORY" not in os.environ:
            builder = builder.config("spark.driver.memory", f"{heap(memory())}m")
    if all(host in _LOOPBACK for host, _ in address.hosts):
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as silent:
        silent.write(_SILENT)
        silent.flush()
        builder = builder.config("spark.local.dir", _private_folder())
        option = f"-Dlog4j2.configurationFile={silent.name} -Dlog4j.configurationFile={silent.name}"
        with _mute_stderr():
            return builder.config("spark.driver.extraJavaOptions", option).getOrCreate()


def _private_folder() -> str:
    """Return where this process may put rows that do not fit in memory: a folder that its owner alone can enter.

    It is on the disk that SPARK_LOCAL_DIRS names, if that is set. The variable is then set to this folder, for Java
    too, because it overrides every setting. Where workers of a cluster put their rows is set where they are started.
    """
    disk = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    place = str(spill_folder.make(None, near=Path(disk) if disk else None))
    if disk:
        os.environ["SPARK_LOCAL_DIRS"] = place
    return place


def heap(available: int) -> int:
    """Return how many MB Java may take of the available bytes where it processes all rows itself: a quarter, or 1 GB.

    The larger of the two is taken. A quarter is Java's own rule. Spark's rule is 1 GB on any machine; where that is too
    little, Java ends.

    >>> heap(24 << 30), heap(2 << 30)
    (6144, 1024)
    """
    return max(available >> 22, 1024)


def memory() -> int:
    """Return the bytes of memory that this process may use: the machine's, or less where its container has a limit."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    limits = [file.read_text().strip() for file in _LIMITS if file.is_file()]
    return min([installed, *(int(limit) for limit in limits if limit.isdigit())])


@contextmanager
def _mute_stderr() -> Iterator[None]:
    """Give a program that is started meanwhile nowhere to write: what Java prints there could quote a cell."""
    before, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nowhere)


def _check_reachable(address: Address, wait: float) -> None:
    """Raise DatabaseError unless a master answers: Spark itself would try for a minute."""
    reached = not address.hosts
    for host, port in address.hosts:
        try:
            socket.create_connection((host, port), timeout=max(wait, 0.1)).close()
        except OSError:
            continue
        reached = True
    if not reached:
        raise DatabaseError(f"no master of {address.master} can be reached.", hint="check --db and the cluster")
