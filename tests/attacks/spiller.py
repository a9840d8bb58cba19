"""Trains on "people" with little memory, says where rows are spilled to once they are, and waits to be killed."""

from __future__ import annotations

import sys
from typing import Any

import dpsql
from dpsql.engines.duckdb import opening
from dpsql.engines.duckdb.cursor import DuckDBWorkspace

#: Rows kept in a workspace, as a run keeps them.
KEPT = "CREATE TEMP TABLE kept AS SELECT 'unit-' || person AS unit, hash(person) AS ticket FROM main.people"
FACTS = "SELECT (SELECT COUNT(*) FROM duckdb_temporary_files()), current_setting('temp_directory')"


def wait(here: DuckDBWorkspace, *_: Any) -> Any:
    """Keep rows beyond memory in the run's own workspace, and stop there."""
    here._cursor.execute(KEPT).fetchall()
    print(*here._cursor.execute(FACTS).fetchall()[0], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    opening._NOT_YET_CLOSED.update({"memory_limit": "100MB", "threads": "1"})
    DuckDBWorkspace.aggregate = DuckDBWorkspace.keep = wait  # type: ignore[method-assign]
    with dpsql.connect(sys.argv[1], ledger=sys.argv[2] if len(sys.argv) > 2 else None) as db:
        db.train("people", method="rdt", epsilon=1, trees=2, depth=1)
