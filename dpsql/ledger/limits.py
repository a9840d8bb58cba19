"""Two limits on every run on a dataset, beside its cap: a least charge, and how many runs may stay unfinished.

A run that fails can tell something of the rows, by failing. Nobody knows all causes of failures, so failing is made
costly and visible, whatever its cause: every run charges at least a set amount, and once a few runs of a dataset are
unfinished, no further one is charged before the owner has looked. A run is unfinished when its entry is lost, or
reserved without an end: it was killed, or is still under way. The owner sets both numbers, and they are public.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dpsql.engines.base import Transaction
from dpsql.errors import ParameterError
from dpsql.ledger.amount import format_epsilon, parse_epsilon
from dpsql.ledger.chain import parse_json_column

#: How many unfinished runs make a dataset wait for its owner, unless the owner says otherwise: enough for mishaps.
LOST_RUNS = 5
#: The least charge of a run in nano-epsilon, unless the owner says otherwise: a cap of 3 then ends after 3000 runs.
LEAST = 1_000_000
#: The most unfinished runs that an owner may allow.
_MOST_RUNS = 10**6


@dataclass(frozen=True)
class Limits:
    """How many unfinished runs make a dataset wait, and the least charge of a run in nano-epsilon.

    >>> Limits().least_text
    '0.001'
    """

    lost_runs: int = LOST_RUNS
    least: int = LEAST

    @property
    def least_text(self) -> str:
        """Return the least charge as decimal text."""
        return format_epsilon(self.least)

    def with_changes(self, details: Mapping[str, Any]) -> Limits:
        """Return these limits with what an event's details set anew."""
        least = details.get("least_epsilon")
        return replace(
            self,
            lost_runs=details.get("lost_runs", self.lost_runs),
            least=self.least if least is None else parse_epsilon(least, "least_epsilon"),
        )

    def least_charge(self, cap: int | None, declared: int | None) -> int:
        """Return the least charge against a budget, in its own measure.

        Where a budget counts rho, `declared` is the nano-epsilon that its owner declared the cap for, and the least
        charge is the same share of the cap: cap · least / declared, rounded up. So a cap pays for as many runs as it
        would in epsilon. (The rho that the least epsilon stands for would be no limit at all: rho grows with the
        square of epsilon.)

        >>> Limits(least=10**6).least_charge(3 * 10**9, None), Limits(least=10**6).least_charge(120_000, 3 * 10**9)
        (1000000, 40)
        """
        if cap is None or not declared:
            return self.least
        return max(1, -(-cap * self.least // declared))


@dataclass(frozen=True)
class Standing:
    """A dataset's limits, and its unfinished runs since the owner last accepted them: lost, or reserved without an end.

    >>> Standing(Limits(), lost=2, reserved=1).text
    '3 of 5 runs unfinished (2 lost, 1 reserved without an end)'
    """

    limits: Limits = field(default_factory=Limits)
    lost: int = 0
    reserved: int = 0

    @property
    def unfinished_runs(self) -> int:
        """Return how many runs are lost, killed or under way."""
        return self.lost + self.reserved

    @property
    def waits(self) -> bool:
        """Whether no further run is charged before the owner accepts these."""
        return self.unfinished_runs >= self.limits.lost_runs

    @property
    def text(self) -> str:
        """Return the unfinished runs and their limit, for people."""
        parts = f" ({self.lost} lost, {self.reserved} reserved without an end)" if self.unfinished_runs else ""
        return f"{self.unfinished_runs} of {self.limits.lost_runs} runs unfinished{parts}"


def limit_details(lost_runs: object | None, least_epsilon: object | None) -> dict[str, Any]:
    """Return the given limits as an event's details hold them; raise ParameterError where one is not allowed.

    >>> limit_details(3, "0.01")
    {'lost_runs': 3, 'least_epsilon': '0.01'}
    """
    details: dict[str, Any] = {}
    if lost_runs is not None:
        if type(lost_runs) is not int or not 1 <= lost_runs <= _MOST_RUNS:
            raise ParameterError("lost_runs", allowed="a whole number from 1 to 1000000", given=lost_runs)
        details["lost_runs"] = lost_runs
    if least_epsilon is not None:
        details["least_epsilon"] = format_epsilon(parse_epsilon(least_epsilon, "least_epsilon"))
    return details


def limits_of(details: Iterable[str]) -> Limits:
    """Return the limits that hold after the owner's acts, given the details of those acts in order."""
    limits = Limits()
    for text in details:
        limits = limits.with_changes(parse_json_column(text))
    return limits


def read_standing(transaction: Transaction, dataset: str) -> Standing:
    """Return a dataset's limits and its unfinished runs, as its entries have them."""
    acts = transaction.rows(_ACTS, (dataset,))
    runs = transaction.rows(_UNFINISHED, (dataset, dataset))[0]
    lost = int(runs["lost"])
    return Standing(limits_of(row["details"] for row in acts), lost=lost, reserved=int(runs["unfinished"]) - lost)


_ACTS = """
SELECT details FROM dpsql.entry WHERE dataset = ? AND event IN ('register', 'limit') ORDER BY sequence
"""
_UNFINISHED = """
SELECT count(*) AS unfinished, count(ending.event) AS lost
FROM dpsql.entry AS charge
LEFT JOIN dpsql.entry AS ending ON ending.entry_id = charge.entry_id AND ending.event IN ('release', 'lost')
WHERE charge.event = 'reserve' AND charge.dataset = ? AND coalesce(ending.event, 'lost') = 'lost'
    AND charge.sequence > (
        SELECT coalesce(max(act.sequence), 0) FROM dpsql.entry AS act WHERE act.dataset = ? AND act.event = 'accept')
"""
