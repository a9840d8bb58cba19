"""Where releases are stored: models, sizes, domains and evaluations, each in a table of schema `dpsql`.

Every release is stored in the transaction that writes its ledger event, and is found again by its ledger entry. So a
request that is repeated gets the same release and charges nothing.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from dpsql.engines import sql_files
from dpsql.engines.base import Engine
from dpsql.errors import DpsqlError
from dpsql.ledger import Entry
from dpsql.ledger.formats import has_part
from dpsql.ledger.waiting import wait_in_turn


@dataclass(frozen=True)
class ReleaseTable:
    """The table of one kind of release: its name, which is also that of its file in `sql/`, and a query by entry."""

    name: str
    by_entry: str

    def is_installed(self, engine: Engine) -> bool:
        """Return whether the table exists."""
        with engine.snapshot() as transaction:
            return has_part(transaction, self.name)

    def install(self, engine: Engine) -> None:
        """Create the table, unless it exists."""

        def attempt() -> None:
            if self.is_installed(engine):
                return
            with engine.transaction() as transaction:
                for statement in sql_files.statements(f"{self.name}.sql", engine.own_dialect):
                    transaction.run(statement)

        wait_in_turn(attempt)  # another process may be creating it

    def row_of(self, engine: Engine, entry: Entry) -> dict[str, Any]:
        """Return the row that a ledger entry released; raise DpsqlError where it was charged and released nothing."""
        rows: list[dict[str, Any]] = []
        if entry.state == "released" and self.is_installed(engine):
            with engine.snapshot() as transaction:
                rows = transaction.rows(self.by_entry, (entry.entry_id,))
        if not rows:
            raise DpsqlError(
                f"request {entry.request_id} was charged but released no {self.name} (its entry is {entry.state}).",
                hint="ask again under another request id; the charge stays",
            )
        return rows[0]


#: The models, by the entry of the run that trained them.
MODELS = ReleaseTable("model", "SELECT name FROM dpsql.model WHERE entry_id = ?")
#: The noisy numbers of rows.
SIZES = ReleaseTable("size", "SELECT entry_id, noisy_rows FROM dpsql.size WHERE entry_id = ?")
#: The noisy answers from which domains follow.
DOMAINS = ReleaseTable("domains", "SELECT entry_id, dataset, answers FROM dpsql.domains WHERE entry_id = ?")
#: The noisy counts of evaluations on private rows.
EVALUATIONS = ReleaseTable("evaluation", "SELECT noisy_counts FROM dpsql.evaluation WHERE entry_id = ?")


def digest_of(value: Any) -> str:
    """Return the hash under which the ledger knows a released number, or lists of them.

    >>> digest_of([1, 2])[:8]
    '3a316d6d'
    """
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
