"""dpsql inside a PostgreSQL server: what the PL/Python functions of `sql/postgres/plpython.sql` call.

The kernel runs in the server's own process, under the owner's rights. It reads rows and writes the ledger over a
connection of its own back to the same server: a charge is on disk before the first row is read, and the caller's
ROLLBACK, settings and search path have no say in any of it. Exact counts stay on the server; noise is drawn there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, TypeVar

_Result = TypeVar("_Result")
#: One thread: this is somebody's database server.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
_CASES = ("now", "twice_rows", "twice_epsilon", "fewer_rows", "smaller_epsilon")


def train(
    plpy: Any,
    table: str,
    epsilon: str,
    method: str,
    options: str | None,
    name: str | None,
    request_id: str | None,
    delta: str | None,
) -> list[dict[str, Any]]:
    """Train under a charged budget and describe the new model in one row."""

    def act(db: Any) -> list[dict[str, Any]]:
        given = _options(options)
        ids = {"name": name, "request_id": request_id}
        model = db.train(table, epsilon=epsilon, delta=delta, method=method, **ids, **given)
        budget, forest = db.budget(table, model.certificate.get("kind", "pure")), model.released.forest
        return [
            {
                "model": model.name,
                "method_used": model.method,
                "trees": forest.trees,
                "depth": forest.depth,
                "leaves": forest.leaves,
                "epsilon_spent": model.certificate["epsilon"],
                "neighbours": model.certificate["neighbours"],
                "spent": budget.spent_text,
                "left": budget.left_text,
            }
        ]

    return _sealed(plpy, act)


def evaluate(plpy: Any, model: str, table: str, epsilon: str | None, request_id: str | None) -> list[dict[str, Any]]:
    """Measure a model: for free on a table that the caller may read, for epsilon on a registered private one."""

    def act(db: Any) -> list[dict[str, Any]]:
        if epsilon is None:
            _check_readable(plpy, db, table)
        found = db.evaluate(model, table, epsilon=epsilon, request_id=request_id).to_dict()
        bounds = found.get("intervals", {})
        return [
            {"figure": figure, "value": value, "low": low, "high": high}
            for figure, value in found.items()
            if isinstance(value, int | float) and not isinstance(value, bool) and figure != "ledger_entry"
            for low, high in [bounds.get(figure, (None, None))]
        ]

    return _sealed(plpy, act)


def advise(
    plpy: Any, table: str, epsilon: str, rows: int | None, buy: str | None, request_id: str | None
) -> list[dict[str, Any]]:
    """Advise on a registered table: one row for now and for each what if."""

    def act(db: Any) -> list[dict[str, Any]]:
        told = db.advise(table, epsilon=epsilon, rows=rows, buy=buy, request_id=request_id).to_dict()
        cases = [(name.replace("_", " "), told[name]) for name in _CASES if told[name] is not None]
        cases += [("if so many rows", one) for one in told["by_size"]]
        names = ("rows", "epsilon", "trees", "depth", "expected_gain", "method", "verdict")
        return [{"case": case, **{name: one[name] for name in names}} for case, one in cases]

    return _sealed(plpy, act)


def _sealed(plpy: Any, act: Callable[[Any], _Result]) -> _Result:
    """Do something as the owner, for the caller; errors pass in our own words, or without words."""
    from dpsql.database import connect
    from dpsql.errors import DpsqlError

    conninfo = plpy.execute("SELECT conninfo FROM dpsql.loopback")[0]["conninfo"]
    who = plpy.execute("SELECT session_user AS who")[0]["who"]
    try:
        with connect(conninfo, who=who) as db:
            return act(db)
    except DpsqlError as error:
        told, hint = error.message, error.hint
    except Exception as error:  # noqa: BLE001  the border to the server: what passes it is shown to anyone
        told, hint = f"dpsql could not finish ({type(error).__name__}; its message is withheld).", None
    plpy.error(told, hint=hint or "")
    raise AssertionError  # plpy.error does not come back


def _check_readable(plpy: Any, db: Any, table: str) -> None:
    """Refuse what the caller may not read: the owner's rights are for registered tables, and for a charge."""
    from dpsql.errors import DatabaseError

    info = db.engine.table(table)
    if info is None:
        return  # the caller is told so next
    ask = plpy.prepare(
        "SELECT has_table_privilege(session_user, format('%I.%I', $1, $2)::regclass, 'SELECT') AS may", ["text", "text"]
    )
    if not plpy.execute(ask, [info.schema, info.table])[0]["may"]:
        raise DatabaseError(f'you may not read "{info.name}".', hint="on a registered private table give an epsilon")


def _options(given: str | None) -> dict[str, Any]:
    """Return a method's parameters; PL/Python hands JSON over as text."""
    from dpsql.errors import ParameterError

    found = json.loads(given) if isinstance(given, str) else given or {}
    if not isinstance(found, dict) or set(found) & {"name", "request_id", "epsilon", "delta", "method", "batch"}:
        raise ParameterError("options", allowed="an object of the method's own parameters", given=type(found).__name__)
    return found
