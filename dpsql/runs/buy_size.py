"""Buys the size of a private table: a noisy number of rows, charged first, kept with its ledger entry.

A bought size is a release like any other: asking again under the same request id gives the same number and charges
nothing. Whoever asks for advice later gets the least noisy size that was bought, for free; of equally noisy ones, the
latest.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.engines.base import Engine, Transaction
from dpsql.kernel.datasets.dataset import Dataset
from dpsql.kernel.operations import Size
from dpsql.kernel.plan import Plan, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.run import Job
from dpsql.kernel.session import Session
from dpsql.ledger import Entry, Ledger, parse_epsilon
from dpsql.models.release_store import SIZES, digest_of
from dpsql.runs.release import release_once

METHOD = "advise"
_STEP = "size"


@dataclass(frozen=True)
class BoughtSize:
    """A noisy number of rows, what it cost as decimal text, and the ledger entry that paid for it.

    `deviation` is the standard deviation of its noise: √2 times the noise's scale.
    """

    rows: int
    epsilon: str
    deviation: float
    entry: int


def plan_size(dataset: Dataset, *, epsilon: object, method: str = METHOD) -> Plan:
    """Return what buying a table's size would ask and cost. Reads no row, charges nothing.

    `method` is what the size is bought for: advice, or the training that starts with it.
    """
    note = "the number of rows that training would use; advice about this table is free from then on"
    step = Step(_STEP, Size(), parse_epsilon(epsilon, "buy"), note=note)
    return Plan(method, step, Promise(dataset.schema.unit))


def buy_size(
    engine: Engine,
    ledger: Ledger,
    dataset: Dataset,
    *,
    epsilon: object,
    who: str,
    request_id: str | None = None,
    method: str = METHOD,
    batch: str | None = None,
) -> BoughtSize:
    """Charge epsilon, count the rows with noise, keep the number, and return it; with `batch` the rows of one batch."""
    plan = plan_size(dataset, epsilon=epsilon, method=method)
    job = Job.of(dataset, plan, who=who, request_id=request_id, batch=batch)

    def ask(session: Session) -> _SizeRelease:
        return _SizeRelease(dataset, session.size(_STEP))

    return release_once(
        engine, ledger, job, SIZES, ask=ask, load=lambda row, entry: _bought_size(row["noisy_rows"], entry)
    )


@dataclass(frozen=True)
class _SizeRelease:
    """The noisy number of rows of a dataset, about to be stored."""

    dataset: Dataset
    noisy_rows: int

    @property
    def digest(self) -> str:
        """The hash of the number."""
        return digest_of(self.noisy_rows)

    def save(self, transaction: Transaction, entry: Entry) -> BoughtSize:
        """Store the number with its ledger entry."""
        transaction.run("INSERT INTO dpsql.size VALUES (?, ?, ?)", (entry.entry_id, self.dataset.id, self.noisy_rows))
        return _bought_size(self.noisy_rows, entry)


def best_size(engine: Engine, ledger: Ledger, dataset: Dataset, *, batch: str | None = None) -> BoughtSize | None:
    """Return the least noisy size that was bought for a dataset, or None; of equally noisy ones the latest.

    A later, cheaper purchase does not push out a better one that was paid for. With `batch` it is the size of that
    batch; the size of a batch is never taken for that of the table.
    """
    sizes = sizes_of(engine, ledger, dataset, batch=batch)
    return min(sizes, key=lambda size: (size.deviation, -size.entry), default=None)


def sizes_of(engine: Engine, ledger: Ledger, dataset: Dataset, *, batch: str | None = None) -> list[BoughtSize]:
    """Return all sizes that were bought for a dataset, or for one batch of it."""
    if not SIZES.is_installed(engine):
        return []
    with engine.snapshot() as transaction:
        rows = transaction.rows(_OF_DATASET, (dataset.id,))
    bought = [(row["noisy_rows"], ledger.find_entry(row["entry_id"])) for row in rows]
    return [
        _bought_size(size, entry)
        for size, entry in bought
        if entry is not None and entry.dataset == dataset.payer and entry.plan.get("batch") == batch
    ]


def _bought_size(noisy_rows: int, entry: Entry) -> BoughtSize:
    scale = float(entry.plan["steps"][0]["noise_scale"])
    return BoughtSize(max(1, int(noisy_rows)), entry.amount_text, 2**0.5 * scale, entry.entry_id)


_OF_DATASET = "SELECT entry_id, noisy_rows FROM dpsql.size WHERE dataset = ?"
