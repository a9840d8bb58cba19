"""Releases for tests of the kernel: whatever a question to the session gave, stored as the test says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpsql.engines.base import Transaction
from dpsql.kernel.session import Session
from dpsql.ledger import Entry

Store = Callable[[Transaction, Any, Entry], None]


def _store_nothing(_transaction: Transaction, _value: Any, _entry: Entry) -> None:
    """Leave the value where it is."""


@dataclass(frozen=True, eq=False)
class GivenRelease:
    """A release of any value, with a digest that says nothing of it."""

    value: Any
    store: Store = _store_nothing
    digest: str = "d" * 64

    def save(self, transaction: Transaction, entry: Entry) -> Any:
        """Store the value and return it."""
        self.store(transaction, self.value, entry)
        return self.value


def releasing(ask: Callable[[Session], Any], store: Store = _store_nothing) -> Callable[[Session], GivenRelease]:
    """Return a question whose answer is released as it is."""
    return lambda session: GivenRelease(ask(session), store)
