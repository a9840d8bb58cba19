"""Runs that every engine with its ledger elsewhere must come through: one that fails, and two at once."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from dpsql.errors import QueryFailed
from tests.tables import SCHEMA


def fail(db: Any, monkeypatch: pytest.MonkeyPatch, workspace: str) -> None:
    """Train on "people" where no count succeeds: the entry is lost, the charge stays."""
    db.register("people", SCHEMA, cap=2)

    def broken(*_: object) -> Any:
        raise QueryFailed("count the rows", "why is withheld too")

    monkeypatch.setattr(f"{workspace}.aggregate", broken)
    with pytest.raises(QueryFailed):
        db.train("people", method="spe", trees=2, depth=2)
    assert db.budget("people").spent_text == "1"
    assert db.ledger()["state"].tolist()[-1] == "lost"


def train_two_at_once(db: Any) -> None:
    """Train on "people" in two threads: two models, each of its own depth, and two charges."""
    db.register("people", SCHEMA, cap=10)
    done: list[Any] = []

    def train(depth: int) -> None:
        done.append(db.train("people", method="spe", trees=2, depth=depth))

    threads = [threading.Thread(target=train, args=(depth,)) for depth in (2, 3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(model.released.forest.depth for model in done) == [2, 3]
    assert db.budget("people").spent_text == "2"
