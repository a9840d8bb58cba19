"""A bought size is replaced only by a better one: a cheap purchase must not spoil what was paid for."""

from __future__ import annotations

from dpsql.kernel.datasets.dataset import find_dataset
from dpsql.runs.buy_size import best_size
from tests.tables import memory, some_rows


def test_a_noisier_purchase_does_not_push_out_a_better_size() -> None:
    """After 1000 and then 0.01 were paid, free advice still has the size that 1000 bought."""
    with memory(some_rows()) as db:
        good = db.advise("people", buy=500).bought
        db.advise("people", buy="0.01")
        assert db.advise("people").bought == good


def test_a_less_noisy_purchase_replaces_a_worse_size() -> None:
    """After 0.01 and then 500 were paid, free advice has the size that 500 bought."""
    with memory(some_rows()) as db:
        db.advise("people", buy="0.01")
        good = db.advise("people", buy=500).bought
        assert db.advise("people").bought == good


def test_of_equally_noisy_sizes_the_latest_counts() -> None:
    """Rows come and go: the same price bought later tells more of today."""
    with memory(some_rows()) as db:
        db.advise("people", buy=1)
        later = db.advise("people", buy=1).bought
        assert best_size(db.engine, db.book, find_dataset(db.engine, db.book, "people")) == later
