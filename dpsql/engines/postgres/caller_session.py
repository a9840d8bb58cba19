"""Stands in for a connection: statements go to a caller's own session, and run there under the caller's rights.

What is free is read this way (`dpsql/api/plpython_worker.py`): the statement is built in a process that the caller
cannot reach, and run where the caller could have run it just as well. Nothing is written, and no temporary table is
made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

Ask = Callable[[dict[str, Any]], dict[str, Any]]
#: Statements that are not run, because the transaction is the caller's.
_NO_STATEMENTS = ("BEGIN", "COMMIT", "ROLLBACK")


@dataclass(frozen=True)
class _Described:
    """A result's column, as psycopg describes one."""

    name: str
    type_code: int


@dataclass(frozen=True)
class _Status:
    """Always idle: the transaction is the caller's."""

    transaction_status: psycopg.pq.TransactionStatus = psycopg.pq.TransactionStatus.IDLE


class CallerCursor:
    """The result of one statement."""

    def __init__(self, names: Sequence[str], types: Sequence[int], rows: Sequence[Sequence[Any]]) -> None:
        self.description = [_Described(*pair) for pair in zip(names, types, strict=True)]
        self._rows = [tuple(row) for row in rows]
        self.rowcount = len(self._rows)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows."""
        return self._rows


class CallerConnection:
    """As much of a psycopg connection as reading needs; `ask` runs a statement in the caller's session."""

    info = _Status()
    closed = False

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def execute(self, statement: bytes | str, parameters: Sequence[object] = ()) -> CallerCursor:
        """Run a statement in the caller's transaction; its failure has the SQLSTATE and no text."""
        text = statement.decode() if isinstance(statement, bytes) else statement
        if text.split(None, 1)[0] in _NO_STATEMENTS:
            return CallerCursor([], [], [])
        reply = self._ask({"statement": _number_parameters(text, len(parameters)), "parameters": list(parameters)})
        if "failed" in reply:
            raise _error(reply["failed"])
        return CallerCursor(reply["names"], reply["types"], reply["rows"])

    def close(self) -> None:
        """Do nothing: the session is the caller's."""


def _number_parameters(text: str, count: int) -> str:
    """Return a statement with its parameters as PostgreSQL itself marks them.

    >>> _number_parameters("SELECT 7 %% 2 WHERE a = %s AND b = %s", 2)
    'SELECT 7 % 2 WHERE a = $1 AND b = $2'
    """
    if not count:
        return text
    places = iter(range(1, count + 1))
    return re.sub("%%|%s", lambda mark: "%" if mark[0] == "%%" else f"${next(places)}", text)


def _error(sqlstate: str) -> psycopg.Error:
    try:
        return psycopg.errors.lookup(sqlstate)()
    except KeyError:
        return psycopg.DatabaseError()
