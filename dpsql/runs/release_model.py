"""Releases a model: a charged run whose forest is stored under a name, with a certificate that says what it cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from dpsql.engines.base import Engine, Transaction
from dpsql.kernel.border import copy_plain_value, rebuild_plan, rebuild_voting_forest
from dpsql.kernel.datasets.looked_up_columns import columns_looked_up
from dpsql.kernel.run import Job
from dpsql.kernel.session import Session
from dpsql.ledger import Entry, Ledger, formats
from dpsql.methods.base import Trained
from dpsql.methods.shared.row_evidence import likely_reasons
from dpsql.models import store
from dpsql.models.model import CERTIFICATE, LOOKED_UP, PURCHASES
from dpsql.models.release_store import MODELS
from dpsql.models.usable_model import Model
from dpsql.runs.buy_domains import purchases_of
from dpsql.runs.no_rows_warning import no_rows_warning
from dpsql.runs.release import release_once
from dpsql.schema import Schema
from dpsql.trees.grid import axes
from dpsql.trees.voting import VotingForest


@dataclass(frozen=True)
class ModelLabel:
    """What a released model is called: a name that was asked for, or `base` and a number.

    `notes` are put into its certificate. `size_is_bought` says that the number of rows in the schema was bought for the
    run and not declared by the owner: the model's schema then leaves it out.
    """

    base: str
    name: str | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    size_is_bought: bool = False


def release_model(
    engine: Engine, ledger: Ledger, job: Job, label: ModelLabel, *, ask: Callable[[Session], Trained]
) -> Model:
    """Charge a job, let `ask` use its session, and return the stored model; a repeated request asks nothing."""
    looked_up, purchases = _columns_looked_up(ledger, job), _purchases(engine, ledger, job)
    job = replace(job, plan=rebuild_plan(job.plan))  # no method holds this one: the certificate is written from it

    def check_name() -> None:
        if label.name is not None:
            store.check_free(engine, label.name)

    def make_release(session: Session) -> _ModelRelease:
        trained = ask(session)
        schema = session.own_schema()
        schema = replace(schema, rows=None) if label.size_is_bought else schema
        forest = rebuild_voting_forest(trained.forest, axes(schema), schema.leaf_values)
        facts = copy_plain_value(trained.facts)
        return _ModelRelease(job, label, forest, schema, facts, _versions(engine), looked_up, purchases)

    return release_once(
        engine,
        ledger,
        job,
        MODELS,
        ask=make_release,
        load=lambda row, _: store.load_model(engine, row["name"]),
        check=check_name,
    )


def _columns_looked_up(ledger: Ledger, job: Job) -> tuple[str, ...]:
    """Return the columns of the rows of a job, its unlabelled rows too, whose domains the owner ever looked up."""
    sides = [job.dataset] if job.other is None else [job.dataset, job.other]
    names = [name for side in sides for name in (*columns_looked_up(ledger, side.base), *side.schema.looked_up)]
    return tuple(sorted(set(names)))


def _purchases(engine: Engine, ledger: Ledger, job: Job) -> tuple[Mapping[str, Any], ...]:
    """Return what was paid for domains of the rows of a job, its unlabelled rows too: its schema may follow from it."""
    payers = dict.fromkeys(side.payer for side in (job.dataset, job.other) if side is not None)
    return tuple(purchase for payer in payers for purchase in purchases_of(engine, ledger, payer))


@dataclass(frozen=True, eq=False)
class _ModelRelease:
    """A forest from noisy answers, about to be stored: rebuilt by the kernel, with the schema of the session."""

    job: Job
    label: ModelLabel
    forest: VotingForest
    schema: Schema
    facts: Mapping[str, Any]
    versions: Mapping[str, str]
    looked_up: tuple[str, ...] = ()
    purchases: tuple[Mapping[str, Any], ...] = ()

    @property
    def digest(self) -> str:
        """The hash of the forest."""
        return self.forest.digest()

    def save(self, transaction: Transaction, entry: Entry) -> Model:
        """Store the model with its ledger entry, under a name that is free."""
        model = Model(
            name=store.name_for(transaction, self.label.name, self.label.base),
            method=self.job.plan.method,
            table=self.job.dataset.table,
            schema=self.schema,
            released=self.forest,
            certificate=self._certificate(entry),
        )
        return store.save(transaction, model, entry_id=entry.entry_id)

    def _certificate(self, entry: Entry) -> dict[str, Any]:
        """Return what a model says of itself: cost, neighbours, plan, where it is in the ledger, what made it."""
        dataset, plan, batch, other = self.job.dataset, self.job.plan, self.job.batch, self.job.other
        certificate: dict[str, Any] = {
            **formats.stamp(CERTIFICATE),
            "private": plan.private,
            "kind": plan.kind,
            **plan.loss,
            "neighbours": plan.promise.neighbours,
            "unit": str(plan.promise),
            "dataset": dataset.id,
            "table": dataset.table,
            "method": plan.method,
            "plan": plan.to_dict(),
            "request_id": entry.request_id,
            "ledger_entry": entry.entry_id,
            "ledger_hash": entry.hash,
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "digest": self.digest,
            "versions": dict(self.versions),
        }
        if dataset.account:
            certificate["account"] = dataset.account
        if batch is not None:
            certificate["batches"] = [batch]
        if other is not None:
            certificate |= {"unlabelled_table": other.table, "unlabelled_dataset": other.id}
        if self.looked_up or self.schema.looked_up:
            certificate[LOOKED_UP] = sorted({*self.looked_up, *self.schema.looked_up})
        if self.purchases:
            certificate[PURCHASES] = [dict(purchase) for purchase in self.purchases]
        certificate |= self.label.notes
        if self.facts:
            certificate["facts"] = self.facts
        declared = self.schema.rows if batch is None else None  # what is declared is the size of all batches
        counted = f'batch "{batch}"' if batch is not None else "view" if dataset.definition else "table"
        reasons = likely_reasons(self.schema, label_type=dataset.columns.get(self.schema.label, ""), rows=counted)
        sentence = no_rows_warning(plan, self.forest, self.facts, rows=declared, reasons=reasons)
        if sentence is not None:
            certificate["warnings"] = [sentence]
        return certificate


def _versions(engine: Engine) -> dict[str, str]:
    """Return the versions of what made a model: dpsql, the database's driver, and the packages for numbers and SQL."""
    return {package: version(package) for package in ("dpsql", engine.driver, "numpy", "sqlglot")}
