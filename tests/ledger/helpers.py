"""Shared by the ledger's tests: charges in one word, a dump of everything stored, a hand in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

from dpsql.engines.base import Engine
from dpsql.ledger import Charge, parse_epsilon

#: Limits that let a test leave any number of runs unfinished and charge as little as it likes.
LENIENT = {"lost_runs": 10**6, "least_epsilon": "0.000000001"}
WHOLE = {
    "chain": "SELECT ledger_id, installed_at FROM dpsql.chain",
    "entry": "FROM dpsql.entry ORDER BY ALL",
    "budget": "FROM dpsql.budget ORDER BY ALL",
    "scope_budget": "FROM dpsql.scope_budget ORDER BY ALL",
    "analyst_budget": "FROM dpsql.analyst_budget ORDER BY ALL",
}


def charge(request_id: str, epsilon: object = "0.5", **changes: Any) -> Charge:
    """Return a charge on the dataset "adult"."""
    values = {"dataset": "adult", "table": "adult", "method": "rdt", "plan": {"trees": 3}, "who": "eve"} | changes
    return Charge(request_id=request_id, amount=parse_epsilon(epsilon), **values)


def dump(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    """Return every row of the ledger's tables."""
    with engine.transaction() as transaction:
        return {name: transaction.rows(statement) for name, statement in WHOLE.items()}


def meddle(path: Path, *statements: str) -> None:
    """Change a closed database file behind the ledger's back."""
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
