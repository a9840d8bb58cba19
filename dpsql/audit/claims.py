"""What the records of an act say it cost, beside what its releases lost: charges, budgets, certificates.

Three records speak of the same loss, and an owner may look at any of them. A loss above one of them is a broken
promise, even where another record would cover it:

- the **charges** that the ledger's entries hold, added up;
- the **budget**: how much further its `spent` has come, which is what the cap is compared with;
- the **certificate** that a model carries, for all sessions whose releases went into that model. With a delta it states
  rho, and epsilon and delta; what these allow in rho is worked out once more, and the less of the two counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpsql.audit.loss import SLACK
from dpsql.ledger import Entry, Ledger
from dpsql.mechanisms.concentrated import largest_rho
from dpsql.models.usable_model import Model
from dpsql.runs.size_first import FOR_THIS_RUN

#: Nano-units in one epsilon, or in one rho.
NANO = 10**9
#: The two records that speak of everything an act released; each certificate speaks of one model.
CHARGES = "the charges"
BUDGET = "the budget"
#: What a certificate says of the moment and of the place, not of the run.
_OF_THE_MOMENT = ("created_at", "ledger_hash", "ledger_entry", "dataset", "unlabelled_dataset", "account", "versions")

#: What is spent of each budget, in nano-epsilon (or nano-rho), by dataset and kind.
Spent = Mapping[tuple[str, str], int]


@dataclass(frozen=True)
class Outcome:
    """One thing that an act gave out: all its text, and the cost that it states for some of the act's sessions.

    `certified` is the epsilon that it states (rho for the kind "approximate"), None where it states nothing; `sessions`
    are those whose releases went into it, numbered from 0 in the order in which the act opened them.
    """

    text: str
    certified: Fraction | None = None
    sessions: range = range(0)


@dataclass(frozen=True)
class Claim:
    """What one record says: the releases that it covers lose at most `promise`. In truth they lose `loss`."""

    record: str
    loss: Fraction
    promise: Fraction

    @property
    def holds(self) -> bool:
        """Whether no more was lost than the record says."""
        return self.loss <= self.promise + SLACK

    @property
    def ratio(self) -> float:
        """The loss over the promise: at most 1, where the claim holds; infinite, where nothing was promised."""
        if not self.promise:
            return float("inf") if self.loss else 0.0
        return float(self.loss / self.promise)


def model_outcome(model: Model, *, sessions: range | None = None) -> Outcome:
    """Return a model as an outcome: its text, but for moment and place, and what its certificate states.

    By default `sessions` are those of its own training, the first of the act.
    """
    own = range(count_sessions(model)) if sessions is None else sessions
    return Outcome(model_text(model), _stated_loss(model.certificate), own)


def count_sessions(model: Model) -> int:
    """Return how many sessions a training had: two where it bought a size by a charge of its own, else one.

    The model's certificate must cover both.
    """
    return 2 if model.certificate.get("size", {}).get("bought") == FOR_THIS_RUN else 1


def model_text(model: Model) -> str:
    """Return all that a model says, but for the moment and the place it was made in."""
    stored = json.loads(model.to_json())
    stored["certificate"] = {name: value for name, value in stored["certificate"].items() if name not in _OF_THE_MOMENT}
    return json.dumps([model.released.digest(), stored], sort_keys=True)


def _stated_loss(certificate: Mapping[str, Any]) -> Fraction:
    """Return what a certificate states: epsilon, or the rho that it names, unless its epsilon and delta allow less."""
    epsilon = Fraction(certificate["epsilon"])
    if certificate.get("kind") != "approximate":
        return epsilon
    return min(Fraction(certificate["rho"]), largest_rho(epsilon, Fraction(certificate["delta"])))


def read_spent(book: Ledger) -> Spent:
    """Return what is spent of every budget of a ledger."""
    return {
        (dataset, kind): book.budget(dataset, kind).spent for dataset in book.datasets() for kind in book.kinds(dataset)
    }


def claims_of(
    losses: Mapping[int, Fraction],
    paid: Sequence[Entry],
    outcomes: Sequence[Outcome],
    *,
    before: Spent,
    after: Spent,
) -> tuple[Claim, ...]:
    """Return what each record claims: `losses` by session, `paid` the charges that the differing unit pays.

    A budget counts when the unit pays for one of its charges. A unit that is in two tables has two budgets, and its
    loss is compared with both together.
    """
    total = sum(losses.values(), Fraction(0))
    budgets = {(entry.dataset, entry.kind) for entry in paid}
    growth = sum(after[budget] - before.get(budget, 0) for budget in budgets)
    certificates = [
        Claim(f"certificate {number}", _loss_of(losses, outcome.sessions), outcome.certified)
        for number, outcome in enumerate(outcomes, 1)
        if outcome.certified is not None
    ]
    charges = Claim(CHARGES, total, Fraction(sum(entry.amount for entry in paid), NANO))
    return (charges, Claim(BUDGET, total, Fraction(growth, NANO)), *certificates)


def _loss_of(losses: Mapping[int, Fraction], sessions: range) -> Fraction:
    return sum((loss for session, loss in losses.items() if session in sessions), Fraction(0))
