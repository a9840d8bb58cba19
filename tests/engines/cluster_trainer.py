"""A process that trains on a Spark cluster, and says after each statement that it was answered.

Arguments: the cluster's URL with its folder, the ledger, the method. The last line is `done`, or `error` and its kind.
"""

from __future__ import annotations

import sys
from typing import Any

import dpsql
from dpsql.api import census
from dpsql.engines.spark.cursor import SparkWorkspace
from dpsql.errors import DpsqlError


def main(url: str, ledger: str, method: str) -> None:
    """Register if need be, train, and tell."""
    answered = SparkWorkspace.aggregate

    def told(self: Any, query: Any, tables: Any) -> Any:
        found = answered(self, query, tables)
        print("answered", flush=True)
        return found

    SparkWorkspace.aggregate = told  # type: ignore[method-assign]
    with dpsql.connect(url, ledger=ledger) as db:
        if not db.budgets():
            db.register("adult", census.SCHEMA, cap=10)
        try:
            model = db.train("adult", method=method, request_id="the only one")
        except DpsqlError as error:
            print("error", type(error).__name__, error.message, flush=True)
            return
        print("done", db.evaluate(model, "fresh").accuracy, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
