"""A charge: what a run is about to spend, on which table, by which plan, under which neighbour relation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from dpsql.errors import ParameterError
from dpsql.ledger.amount import MOST, format_epsilon

#: What an amount may mean. The meaning of a kind never changes; a new meaning is a new kind.
KINDS = ("pure", "label", "approximate")
#: The neighbour relation of a charge that names no other.
NEIGHBOURS = "add/remove one row"
#: The most characters of a text that the ledger stores.
_LONGEST = 100_000


@dataclass(frozen=True)
class Charge:
    """What one run spends, fixed before any row is read.

    Attributes:
        request_id: one request, one charge: asking again with the same id costs nothing.
        dataset, table: the registered dataset and the table behind it.
        method, plan: how the amount will be used; the plan is anything JSON can hold.
        amount: what is spent, 1 to 10**18 billionths of epsilon, or of rho where the kind is "approximate".
        who: the analyst. neighbours, unit: what is protected, in words.
        scope: "" is the whole table; "column=value" is the rows with that value.
        kind: what the amount means, one of `KINDS`.

    >>> Charge("r1", "adult", "adult", "rdt", {"trees": 10}, 250_000_000, who="eve").amount_text
    '0.25'
    """

    request_id: str
    dataset: str
    table: str
    method: str
    plan: Mapping[str, Any] = field(hash=False)
    amount: int
    who: str
    neighbours: str = NEIGHBOURS
    unit: str = "row"
    scope: str = ""
    kind: str = "pure"

    def __post_init__(self) -> None:
        for name in (f.name for f in fields(self) if f.name not in ("plan", "amount", "scope")):
            check_text(name, getattr(self, name))
        if type(self.amount) is not int or not 0 < self.amount <= MOST:
            raise ParameterError("amount", allowed="a whole number from 1 to 10**18", given=self.amount)
        check_kind(self.kind)
        check_scope(self.scope)
        canonical_json("plan", self.plan)

    @property
    def amount_text(self) -> str:
        """Return the amount as exact decimal text: of epsilon, or of rho where the kind is "approximate"."""
        return format_epsilon(self.amount)

    @property
    def measure(self) -> str:
        """Return what the amount measures: "epsilon" or "rho"."""
        return charge_measure(self.kind)

    @property
    def plan_text(self) -> str:
        """Return the plan as it is stored and hashed."""
        return canonical_json("plan", self.plan)

    @property
    def scope_column(self) -> str:
        """Return the column that the scope fixes ("" for the whole table)."""
        return scope_column(self.scope)


def charge_measure(kind: str) -> str:
    """Return what amounts of a kind measure. Approximate runs add up in rho, not in epsilon.

    >>> charge_measure("pure"), charge_measure("label"), charge_measure("approximate")
    ('epsilon', 'epsilon', 'rho')
    """
    return "rho" if kind == "approximate" else "epsilon"


def scope_column(scope: str) -> str:
    """Return the column of a scope.

    >>> scope_column("region=north"), scope_column("")
    ('region', '')
    """
    return scope.partition("=")[0]


def check_scope(scope: object) -> None:
    """Raise ParameterError unless a scope is "" or "column=value"."""
    if scope == "":
        return
    text = check_text("scope", scope)
    column, equals, value = text.partition("=")
    if not (equals and value and column and column == column.strip()):
        raise ParameterError("scope", allowed='"" or "column=value"', given=text)


def check_kind(kind: str) -> None:
    """Raise ParameterError unless `kind` is one of `KINDS`."""
    if kind not in KINDS:
        raise ParameterError("kind", allowed=f"one of {', '.join(KINDS)}", given=kind)


def check_text(name: str, value: object) -> str:
    """Return `value` when it is text that is stored and comes back the same; else raise ParameterError.

    >>> check_text("who", "eve")
    'eve'
    """
    if not isinstance(value, str) or not value or len(value) > _LONGEST:
        raise ParameterError(name, allowed="text, not empty", given=value)
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in value):
        raise ParameterError(name, allowed="text that UTF-8 can hold, without NUL", given=ascii(value))
    return value


def canonical_json(name: str, value: object) -> str:
    """Return the one JSON text for a value: sorted keys, no spaces, ASCII.

    >>> canonical_json("plan", {"b": 1, "a": [1, 2]})
    '{"a":[1,2],"b":1}'
    """
    if isinstance(value, Mapping):
        value = dict(value)
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ParameterError(name, allowed="what JSON can hold", given=type(value).__name__) from error
