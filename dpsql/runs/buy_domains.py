"""Buys the domains of a private table: noisy counts from which bounds, lists of values, classes and a size follow.

A purchase is a release like any other: charged first, stored with its ledger entry, and the same for the same request.
Without a delta it asks for the size, for the magnitudes of all numbers, for how often each of a public list of words is
the label, and for the rows in each cell of a wide public hash of the texts. With a delta it asks for common texts
instead of words and hashes, of all columns of texts together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from dpsql.engines.base import Engine, Transaction
from dpsql.errors import UsageError
from dpsql.kernel.datasets.dataset import Dataset
from dpsql.kernel.noise import approximate
from dpsql.kernel.operations import CommonValues, HashCounts, Histograms, Magnitudes, Size
from dpsql.kernel.plan import Plan, Sequential, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.run import Job
from dpsql.kernel.session import NoisyCounts, Session
from dpsql.ledger import Entry, Ledger, parse_delta, parse_epsilon
from dpsql.models.release_store import DOMAINS, digest_of
from dpsql.runs.noisy_domains import WORDS, NoisyDomains
from dpsql.runs.release import release_once
from dpsql.schema import WIDE_HASH_CELLS, Categorical, Dated, Feature, Hashed, Numeric, Schema, Unit
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from dpsql.trees.magnitude_grid import MAGNITUDES

METHOD = "domains"
#: How much of epsilon each step gets, relative to the others.
_SHARES = {"size": 1, "words": 2, "hashes": 4, "magnitudes": 8, "values": 8}
#: Of how many cells of a hash the noisy counts are stored for each column: the largest; no feature has more cells.
_STORED_CELLS = 128
#: The bounds of a number before its domain is bought: any that every type of numbers can reach would do.
UNKNOWN_BOUNDS = (-1.0, 1.0)
#: The bounds of a date or time before its domain is bought.
UNKNOWN_DAYS = ("1970-01-01", "2070-01-01")
#: The one value of a text before its domain is bought.
UNKNOWN = "?"


@dataclass(frozen=True)
class Wishes:
    """What is to be bought: bounds of numbers, common texts, and the classes of a label among public words.

    `words` is the public list of words. `moments` are columns of dates and times, each with its kind: their bounds are
    bought like those of numbers. `hashed` are columns of texts, of which the cells of a public hash are bought that are
    in use.
    """

    numbers: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    label: str | None = None
    moments: tuple[tuple[str, str], ...] = ()
    words: tuple[str, ...] = WORDS
    hashed: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be bought."""
        return not (self.columns_with_bounds or self.texts or self.label or self.hashed)

    @property
    def columns_with_bounds(self) -> tuple[str, ...]:
        """All columns whose bounds are to be bought."""
        return (*self.numbers, *(name for name, _ in self.moments))

    def schema(self, unit: Unit, known: Sequence[Feature] = ()) -> Schema:
        """Return the schema under which a table is registered until its domains are bought: it says nothing of them.

        `known` are the features whose domains need not be bought.
        """
        features: list[Feature] = [Numeric(name, *UNKNOWN_BOUNDS) for name in self.numbers]
        features += [Dated(name, *UNKNOWN_DAYS, kind=kind) for name, kind in self.moments]
        features += [Categorical(name, (UNKNOWN,)) for name in self.texts]
        features += [Hashed(name) for name in self.hashed]
        features += [Categorical(self.label, self.words)] if self.label else []
        features += known
        return Schema("", (), tuple(features), unit)


def plan_domains(wishes: Wishes, unit: Unit, *, epsilon: object, delta: object | None = None) -> Plan:
    """Return what buying the domains of a table would ask and cost. Reads no row, charges nothing.

    With a delta half of it is set aside for the selection of common texts.
    """
    nano_epsilon = parse_epsilon(epsilon, "buy")
    if wishes.texts and delta is None:
        raise UsageError("common texts can be bought with a delta alone.", hint="--delta 1e-6")
    shapes: dict[str, dict[str, Any]] = {"size": {"operation": Size(), "note": "the number of rows"}}
    if wishes.label:
        note = "how often each of a public list of words is the label"
        shapes["words"] = {"operation": Histograms(), "axes": 1, "cells": len(wishes.words) + 1, "note": note}
    if wishes.hashed:
        count, note = len(wishes.hashed), "rows of each text by the cells of a public hash"
        cells = count * (WIDE_HASH_CELLS + 1)
        shapes["hashes"] = {"operation": HashCounts(), "axes": count, "cells": cells, "note": note}
    if wishes.columns_with_bounds:
        count, note = len(wishes.columns_with_bounds), "rows of each number by sign and power of two"
        shapes["magnitudes"] = {"operation": Magnitudes(), "axes": count, "cells": count * MAGNITUDES, "note": note}
    if wishes.texts:
        count, note = len(wishes.texts), "texts that many rows have"
        shapes["values"] = {"operation": CommonValues(), "axes": count, "cells": count, "note": note}
    amounts = _split(nano_epsilon, list(shapes))
    steps = tuple(Step(name, nano_epsilon=amounts[name], **shape) for name, shape in shapes.items())
    promise = Promise(unit)
    if delta is not None:
        exact = parse_delta(delta)
        promise = Promise(unit, approximate=approximate(nano_epsilon, exact, set_aside(exact, wishes)))
    return Plan(METHOD, Sequential(steps), promise)


def set_aside(delta: Decimal, wishes: Wishes) -> Decimal:
    """Return the part of delta for the selection of common texts: half of it, or nothing where no text is asked for."""
    return delta / 2 if wishes.texts else Decimal(0)


def _split(nano_epsilon: int, names: list[str]) -> dict[str, int]:
    """Return each step's part of epsilon by `_SHARES`; the last one gets what rounding leaves."""
    total = sum(_SHARES[name] for name in names)
    amounts = {name: nano_epsilon * _SHARES[name] // total for name in names}
    amounts[names[-1]] += nano_epsilon - sum(amounts.values())
    return amounts


def buy_domains(
    engine: Engine,
    ledger: Ledger,
    dataset: Dataset,
    wishes: Wishes,
    *,
    epsilon: object,
    who: str,
    delta: object | None = None,
    request_id: str | None = None,
) -> NoisyDomains:
    """Charge epsilon, ask for the noisy answers from which a table's domains follow, keep them, and return them.

    The dataset is registered under a schema that has all columns that are wished for (`Wishes.schema`).
    """
    plan = plan_domains(wishes, dataset.schema.unit, epsilon=epsilon, delta=delta)
    job = Job.of(dataset, plan, who=who, request_id=request_id)
    return release_once(
        engine,
        ledger,
        job,
        DOMAINS,
        ask=lambda session: _DomainsRelease(dataset, _ask(session, wishes)),
        load=lambda row, entry: _noisy_domains(json.loads(row["answers"]), entry),
    )


def bought_domains(engine: Engine, ledger: Ledger, dataset: Dataset) -> NoisyDomains | None:
    """Return what was last bought for a dataset, or None. Another dataset may have paid from the same account."""
    entries = [entry for entry in ledger.entries(dataset.payer) if entry.method == METHOD and entry.state == "released"]
    for entry in reversed(entries if DOMAINS.is_installed(engine) else []):
        row = DOMAINS.row_of(engine, entry)
        if row["dataset"] == dataset.id:
            return _noisy_domains(json.loads(row["answers"]), entry)
    return None


def purchases_of(engine: Engine, ledger: Ledger, payer: str) -> list[dict[str, Any]]:
    """Return entry, epsilon and delta of each purchase of domains that a dataset has paid for.

    A model's schema may follow from any of them, whoever wrote it down: bounds, lists and the size are released values.
    """
    if not DOMAINS.is_installed(engine):
        return []
    with engine.snapshot() as transaction:
        numbers = [row["entry_id"] for row in transaction.rows("SELECT entry_id FROM dpsql.domains ORDER BY entry_id")]
    entries = [entry for entry in map(ledger.find_entry, numbers) if entry is not None and entry.dataset == payer]
    return [
        {"ledger_entry": entry.entry_id, "epsilon": str(entry.plan.get("epsilon", entry.amount_text))}
        | ({"delta": str(entry.plan["delta"])} if "delta" in entry.plan else {})
        for entry in entries
    ]


def _ask(session: Session, wishes: Wishes) -> dict[str, Any]:
    """Return the noisy answers to all that is wished for, as plain values."""
    answers: dict[str, Any] = {"rows": session.size("size")}
    if wishes.label:
        answers["label"] = wishes.label
        grid = axes(session.schema)
        names = [feature.name for feature in session.schema.features]
        place = next(place for place, axis in enumerate(grid) if names[axis.feature] == wishes.label)
        counts = session.histograms("words", Forest(grid, 1, ()), [place], by_class=False)[0, 0, :, 0]
        answers["words"] = dict(zip(wishes.words, counts[: len(wishes.words)].tolist(), strict=True))
    if wishes.hashed:
        counts = session.hash_counts("hashes", list(wishes.hashed))
        answers["hashes"] = dict(zip(wishes.hashed, map(_largest_cells, counts), strict=True))
    if wishes.columns_with_bounds:
        counts = session.magnitudes("magnitudes", list(wishes.columns_with_bounds))
        answers["magnitudes"] = dict(zip(wishes.columns_with_bounds, counts.tolist(), strict=True))
    if wishes.texts:
        answers["asked"] = list(wishes.texts)
        answers["values"] = session.common_values("values", list(wishes.texts))
    return answers


def _largest_cells(noisy_counts: NoisyCounts) -> list[tuple[int, int]]:
    """Return cell and noisy count of the largest cells of a wide hash, and at the end that of NULL."""
    cells = np.sort(np.argsort(-noisy_counts[:WIDE_HASH_CELLS], kind="stable")[:_STORED_CELLS]).tolist()
    return [(cell, int(noisy_counts[cell])) for cell in [*cells, WIDE_HASH_CELLS]]


@dataclass(frozen=True)
class _DomainsRelease:
    """Noisy answers, about to be stored."""

    dataset: Dataset
    answers: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """The hash of the answers."""
        return digest_of(self.answers)

    def save(self, transaction: Transaction, entry: Entry) -> NoisyDomains:
        """Store the answers with their ledger entry."""
        row = (entry.entry_id, self.dataset.id, json.dumps(self.answers))
        transaction.run("INSERT INTO dpsql.domains VALUES (?, ?, ?)", row)
        return _noisy_domains(self.answers, entry)


def _noisy_domains(answers: Mapping[str, Any], entry: Entry) -> NoisyDomains:
    """Return stored answers with what the ledger says of their noise."""
    values: dict[str, list[tuple[str, int]]] = {}
    for column, text, rows in answers.get("values", []):
        values.setdefault(column, []).append((text, rows))
    return NoisyDomains(
        rows=max(1, int(answers["rows"])),
        magnitudes=answers.get("magnitudes", {}),
        words=answers.get("words", {}),
        hashes=answers.get("hashes", {}),
        values=values,
        asked=tuple(answers.get("asked", [])),
        deviations={step["name"]: 2**0.5 * float(step["noise_scale"]) for step in entry.plan["steps"]},
        gaussian=entry.kind == "approximate",
        epsilon=str(entry.plan.get("epsilon", entry.amount_text)),
        entry=entry.entry_id,
        label=answers.get("label", ""),
    )
