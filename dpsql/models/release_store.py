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
        return is_part_there(engine, self.name)

    def install(self, engine: Engine) -> None:
        """Create the table, unless it exists."""
        create_part(engine, self.name)

    def row_of(self, engine: Engine, entry: Entry) -> dict[str, Any]:
        """Return the row that a ledger entry released; raise DpsqlError where it was charged and released nothing."""
        rows: list[dict[str, Any]] = []
        if entry.state == "released" and self.is_installed(engine):
            with engine.snapshot() as transaction:
                rows = transaction.rows(self.by_entry, (entry.entry_id,))
        if not rows:
            self._refuse_dropped(engine, entry)
            raise DpsqlError(
                f"request {entry.request_id} was charged but released no {self.name} (its entry is {entry.state}).",
                hint="ask again under another request id; the charge stays",
            )
        return rows[0]

    def _refuse_dropped(self, engine: Engine, entry: Entry) -> None:
        """Raise DpsqlError where an entry paid for a model that somebody dropped since."""
        if self.name != "model" or not is_part_there(engine, DROPPED):
            return
        with engine.snapshot() as transaction:
            rows = transaction.rows(_DROPPED_BY_ENTRY, (entry.entry_id,))
        for row in rows:
            raise DpsqlError(
                f'request {entry.request_id} released the model "{row["name"]}", which {row["dropped_by"]} dropped at '
                f"{row['dropped_at']}. What it cost stays charged (entry {entry.entry_id}).",
                hint="ask under another request id, or without one: that trains anew, and charges anew",
            )


def is_part_there(engine: Engine, part: str) -> bool:
    """Return whether a part of dpsql's own tables exists."""
    with engine.snapshot() as transaction:
        return has_part(transaction, part)


def create_part(engine: Engine, part: str) -> None:
    """Create a part of dpsql's own tables from its file in `sql/`, unless it exists."""

    def attempt() -> None:
        if is_part_there(engine, part):
            return
        with engine.transaction() as transaction:
            for statement in sql_files.statements(f"{part}.sql", engine.own_dialect):
                transaction.run(statement)

    wait_in_turn(attempt)  # another process may be creating it


#: The table of models that were dropped, and what it says of an entry's model.
DROPPED = "dropped_model"
_DROPPED_BY_ENTRY = "SELECT name, dropped_at, dropped_by FROM dpsql.dropped_model WHERE entry_id = ?"
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
