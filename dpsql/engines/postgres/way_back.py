"""PostgreSQL from inside: the kernel's own way back to the server that called it, and the caller's own session.

The way back is proved on every connection: the process that called holds an advisory lock on a random number, and
only the very same server shows that lock, for that process, in that database. What was reached otherwise (a copy, a
server that has taken over the port) is not worked on.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, cast

import psycopg

from dpsql.engines.postgres.caller_session import Ask, CallerConnection
from dpsql.engines.postgres.cursor import Connection, fetch_from_postgres
from dpsql.engines.postgres.engine import PostgresEngine, open_postgres_connection
from dpsql.errors import DatabaseError

#: Seconds to wait for a lock.
_WAIT = 2.0
#: What "every address" means for a process on the same machine.
_LOOPBACK = {"*": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
_PROOF = """
SELECT 1 FROM pg_locks
WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND pid = ?
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND ((CAST(classid AS BIGINT) << 32) | CAST(objid AS BIGINT)) = CAST(? AS BIGINT)
"""


class _Elsewhere(Exception):
    """What was reached is not the server and database that called."""


def connect_back(request: Mapping[str, Any], password: str) -> PostgresEngine | None:
    """Return an engine on the server and database that called, as the owner role; None where another was reached.

    `request` says where the server listens, who calls (`pid`) and which number its lock is on (`lock`).
    """
    for conninfo in _ways(request, password):
        engine = PostgresEngine(conninfo, wait=_WAIT, opener=lambda way=conninfo: _prove(way, request))  # type: ignore[misc]
        try:
            engine.tables()
        except DatabaseError:
            continue
        except _Elsewhere:
            return None
        return engine
    raise DatabaseError(
        f'role "{request["owner"]}" cannot log in to its own server.',
        hint="pg_hba.conf must let it in by password (scram-sha-256) from this machine; or run dpsql init again",
    )


def through_caller(ask: Ask) -> PostgresEngine:
    """Return an engine whose statements run in the caller's session, under the caller's rights."""
    return PostgresEngine("", wait=_WAIT, opener=lambda: cast("Connection", CallerConnection(ask)))


def _ways(request: Mapping[str, Any], password: str) -> list[str]:
    """Return how the server can be reached: by the address it listens on, then by its socket."""
    server = request["server"]
    hosts = [_LOOPBACK.get(server["address"], server["address"]), server["socket"]]
    settings = {
        "port": server["port"],
        "dbname": request["database"],
        "user": request["owner"],
        "password": password,
        "gssencmode": "disable",
    }
    if psycopg.pq.version() >= 160000:
        settings["require_auth"] = "scram-sha-256,none"  # the password itself is never sent
    if sys.platform == "linux":
        settings["options"] = "-c client_connection_check_interval=500"  # a killed worker's statement ends too
    return [psycopg.conninfo.make_conninfo(host=host, **settings) for host in hosts if host]


def _prove(conninfo: str, request: Mapping[str, Any]) -> Connection:
    connection = open_postgres_connection(conninfo, wait=_WAIT)
    if not fetch_from_postgres(connection, _PROOF, [request["pid"], request["lock"]]):
        connection.close()
        raise _Elsewhere
    return connection
