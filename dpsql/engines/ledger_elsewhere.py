"""What engines share whose ledger is in another database, because they have no transactions of their own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np

from dpsql.engines.base import Engine, Health, TableInfo, Transaction
from dpsql.errors import DatabaseError


class LedgerElsewhere:
    """A database of private rows beside the one with the ledger: a charge is durable there before a row is read."""

    #: What people call the database.
    title: str
    #: The call of its function that makes a random id.
    random_id: str
    implicit_schema = ""

    def __init__(self, ledger: Engine) -> None:
        self.ledger = ledger
        self.path = ledger.path
        self.own_dialect = ledger.own_dialect

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Open a write transaction in the database that holds the ledger."""
        return self.ledger.transaction()

    def snapshot(self) -> AbstractContextManager[Transaction]:
        """Open a transaction for reading in the database that holds the ledger."""
        return self.ledger.snapshot()

    def ledger_health(self) -> list[Health]:
        """Return how the ledger's database is."""
        return [replace(finding, what=f"ledger's {finding.what}") for finding in self.ledger.health()]

    def is_built_in(self, name: str) -> bool:
        """Return False: there are no macros."""
        return False

    def unique_keys(self, info: TableInfo) -> list[frozenset[str]] | None:
        """Return None: keys are not enforced here."""
        return None

    def ways_in(self, info: TableInfo) -> list[Health]:
        """Return nothing: there are no roles, so whoever can name a table can read it."""
        return []

    def readers(self, info: TableInfo) -> list[Health]:
        """Return nothing: there are no roles."""
        return []

    def add_column(self, info: TableInfo, column: str, make: Callable[[int], np.ndarray[Any, Any]]) -> None:
        """Refuse: rows here have no address to give an id to."""
        raise DatabaseError(
            f'{self.title} cannot add a column of ids to "{info.name}": its rows have no address.',
            hint=f"make a table of its rows, once, with {self.random_id} as {column}, and register that one",
        )
