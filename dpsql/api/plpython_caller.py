"""The half of dpsql that runs in a caller's own server process: it starts the other half, waits for it, and can stop.

`sql/postgres/plpython.sql` loads this file anew for each call, so nothing of it stays in the session's Python. It
needs the standard library alone, does everything under the caller's own rights, and holds no secret, no connection
and no count of the owner's: those are in a process of their own (`dpsql/api/plpython_worker.py`), which the caller
cannot reach.

While it waits it asks the server ten times a second whether the call was cancelled, timed out or terminated.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

#: Seconds between two looks for a cancel.
_TICK = 0.1
#: Seconds that a worker may take to end before it is left alone.
_GRACE = 0.4
#: The program of the worker's process.
_START = (
    "import json, sys; sys.path[:0] = json.loads(sys.argv[1]); "
    "from dpsql.api.plpython_worker import run_worker; run_worker()"
)
#: Nothing of the server's environment reaches the worker: no PG… variable that leads elsewhere, and no PYTHON… one.
_ENVIRONMENT = {"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
#: The SQLSTATE of a call that was cancelled.
_CANCELLED = "57014"
_ACCEPT = "a superuser runs dpsql init --plpython on it; its ledger is as old as the copy"
_WHO = """
SELECT session_user AS who, pg_catalog.current_database() AS name, pg_catalog.pg_backend_pid() AS pid,
       (SELECT system_identifier FROM pg_catalog.pg_control_system()) AS system,
       (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()) AS number,
       (SELECT CAST(1000000 * pg_catalog.date_part('epoch', backend_start) AS pg_catalog.int8)
        FROM pg_catalog.pg_stat_activity WHERE pid = pg_catalog.pg_backend_pid()) AS since
"""


def call(plpy: Any, place: Mapping[str, Any], act: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Have a worker do one act for the caller and return its rows; its error is the caller's.

    An advisory lock on a random number, held while the worker connects back, shows the worker that it has reached the
    very server and database that it was called from.
    """
    caller = dict(plpy.execute(_WHO)[0])
    if place["place"] != f"dpsql of system {caller['system']}, database {caller['number']}":
        plpy.error("this database is a copy, or was restored.", hint=_ACCEPT)
    key = str(secrets.randbits(62))
    request = {
        "act": act,
        "values": dict(values),
        "who": caller["who"],
        "owner": place["owner"],
        "folder": place["folder"],
        "system": str(caller["system"]),
        "server": _server(),
        "database": caller["name"],
        "pid": caller["pid"],
        # After SET ROLE the server may not say since when the session is there: then each call is one of its own.
        "session": f"{caller['system']} {caller['pid']} {caller['since'] or secrets.token_hex(16)}",
        "lock": key,
    }
    _lock(plpy, "SELECT pg_catalog.pg_advisory_lock($1::pg_catalog.int8)", key)
    worker = None
    try:
        worker = _start(plpy, place["path"])
        _send(worker, request)
        return _answer(plpy, worker)
    finally:
        if worker is not None:
            _end(worker)
        _lock(plpy, "SELECT pg_catalog.pg_advisory_unlock($1::pg_catalog.int8)", key)


def _lock(plpy: Any, statement: str, key: str) -> None:
    plpy.execute(plpy.prepare(statement, ["text"]), [key])


def _server() -> dict[str, str]:
    """Return where the server of this process listens, as its own postmaster wrote it into the data directory."""
    with open("postmaster.pid", encoding="utf-8") as file:
        _, _, _, port, socket, address = (file.read().split("\n") + [""] * 6)[:6]
    return {"port": port.strip(), "socket": socket.strip(), "address": address.strip()}


def _start(plpy: Any, path: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a worker with the Python that the server itself uses."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    program = os.path.join(sys.base_exec_prefix, "bin", version)
    if not os.access(program, os.X_OK):
        plpy.error(f"the server's machine has no {program}.", hint="install the Python that PL/Python uses")
    return subprocess.Popen(
        [program, "-I", "-c", _START, json.dumps(list(path))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_ENVIRONMENT,
        start_new_session=True,
    )


def _send(worker: subprocess.Popen[bytes], message: Mapping[str, Any]) -> None:
    assert worker.stdin is not None
    worker.stdin.write(json.dumps(message, default=str).encode() + b"\n")
    worker.stdin.flush()


def _answer(plpy: Any, worker: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
    """Wait for the worker's rows or error; run for it, under the caller's rights, the statements that it asks for."""
    assert worker.stdout is not None
    rest = b""
    while True:
        plpy.execute("SELECT 1")  # raises when the call was cancelled; ends the process when it was terminated
        if not select.select([worker.stdout], [], [], _TICK)[0]:
            continue
        piece = os.read(worker.stdout.fileno(), 1 << 16)
        if not piece:
            plpy.error("dpsql could not finish.", hint="ask again; what was charged stays charged")
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "rows" in message:
                for note in message.get("notes", ()):
                    plpy.warning(note)
                rows: list[dict[str, Any]] = message["rows"]
                return rows
            if "error" in message:
                plpy.error(message["error"], hint=message["hint"])
            _send(worker, _read(plpy, message["statement"], message["parameters"]))


def _read(plpy: Any, statement: str, parameters: Sequence[Any]) -> dict[str, Any]:
    """Run a statement of the worker's under the caller's rights; of a failure, return the SQLSTATE alone."""
    kinds = {bool: "bool", int: "int8", float: "float8"}
    try:
        plan = plpy.prepare(statement, [kinds.get(type(value), "text") for value in parameters])
        result = plpy.execute(plan, list(parameters))
    except plpy.SPIError as error:
        if error.sqlstate == _CANCELLED:
            raise
        return {"failed": error.sqlstate}
    names = result.colnames()
    return {"names": names, "types": result.coltypes(), "rows": [[row[name] for name in names] for row in result]}


def _end(worker: subprocess.Popen[bytes]) -> None:
    """Tell a worker that still works to stop, wait a moment, and leave it: it marks its charge lost and ends itself."""
    for pipe in (worker.stdin, worker.stdout):
        assert pipe is not None
        with contextlib.suppress(OSError):
            pipe.close()
    try:
        worker.wait(_GRACE / 4)
    except subprocess.TimeoutExpired:
        worker.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.wait(_GRACE)
