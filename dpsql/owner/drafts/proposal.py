"""Proposals: what a draft says of each column, and where that comes from.

A source is a function from a column to a proposal, or to None where it knows nothing of the column. The first proposal
without a gap is taken; where all have gaps, the first of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from dpsql.engines.base import Column
from dpsql.kernel.datasets.word_offers import known_boolean_mapping, shown_list
from dpsql.schema.features import MAX_VALUES
from dpsql.schema.schema_file import Placeholder

#: What a column can be in a draft.
LABEL, FEATURE, UNIT, IDENTIFIER, LEFT_OUT = "label", "feature", "unit", "identifier", "left out"
#: How the origin of a domain begins that was bought.
BOUGHT = "bought"
#: A part of a proposal that its owner has to fill in.
GAP = Placeholder()

Domain = Mapping[str, Any]


@dataclass(frozen=True)
class Proposal:
    """What a draft proposes for one column.

    `role` is one of the words above; a "unit" is the identifier that is proposed as the privacy unit. `feature` is the
    type and the domain in plain values, with `GAP` where something is missing; it is empty where the column is left
    out. The classes of a label are its `values`, the bounds of a numeric target its `lower` and `upper`.
    `alternatives` are other features that the column could be. `origin` says where the domain comes from, or why the
    column is left out; `advice` says what its owner still has to do.
    """

    column: str
    role: str
    feature: Domain = field(default_factory=dict, hash=False)
    alternatives: tuple[Domain, ...] = field(default=(), hash=False)
    origin: str = ""
    advice: str = ""

    @property
    def gaps(self) -> tuple[str, ...]:
        """The parts of the feature that are missing."""
        return tuple(name for name, value in self.feature.items() if isinstance(value, Placeholder))

    @property
    def is_used(self) -> bool:
        """Whether the column is the label or a feature."""
        return self.role in (LABEL, FEATURE)

    def to_dict(self) -> dict[str, Any]:
        """Return the proposal as plain values; a part that is missing is None, and named in `gaps`."""
        return {
            "column": self.column,
            "role": self.role,
            "feature": _plain(self.feature),
            "gaps": list(self.gaps),
            "alternatives": [_plain(alternative) for alternative in self.alternatives],
            "origin": self.origin,
            "advice": self.advice,
        }


#: The texts that an integer can have.
_WHOLE_NUMBER = re.compile("0|-?[1-9][0-9]*")

Source = Callable[[Column], Proposal | None]


def first_proposal(sources: Iterable[Source], column: Column) -> Proposal | None:
    """Return the first proposal without a gap, or the first with one; None where no source knows the column."""
    incomplete: Proposal | None = None
    for source in sources:
        proposal = source(column)
        if proposal is not None and not proposal.gaps:
            return proposal
        incomplete = incomplete or proposal
    return incomplete


def with_role(proposal: Proposal, role: str) -> Proposal:
    """Return the same proposal for another role."""
    return replace(proposal, role=role)


def from_values(column: Column, values: Sequence[str], origin: str) -> Proposal | None:
    """Return a proposal with a list of values, as far as the column's type allows one; numbers of a real give bounds.

    Words such as no and yes for a column of booleans, which is what reading a CSV file makes of them, become a mapping.
    What no integer can be is left out of the list of an integer column, and said.

    >>> from_values(Column("c", "VARCHAR", "text"), ["a", "b"], "code book").feature
    {'type': 'categorical', 'values': ['a', 'b']}
    >>> from_values(Column("x", "DOUBLE", "real"), ["0.5", "3"], "code book").feature
    {'type': 'numeric', 'lower': 0.5, 'upper': 3.0}
    """
    if column.family == "boolean":
        mapping = known_boolean_mapping(list(dict.fromkeys(values)))
        if mapping is not None:
            return Proposal(column.name, FEATURE, {"type": "categorical", "values": mapping}, origin=origin)
        unfit = [text for text in dict.fromkeys(values) if text.lower() not in ("false", "true", "0", "1")]
        return Proposal(
            column.name, FEATURE, {"type": "boolean"}, origin="catalog: BOOLEAN", advice=_unfit_note(column, unfit)
        )
    if column.family == "real":
        numbers = [number for number in map(as_number, values) if number is not None]
        return from_bounds(column, min(numbers), max(numbers), origin) if numbers else None
    given = list(dict.fromkeys(values))
    unfit = [text for text in given if column.family == "integer" and not _WHOLE_NUMBER.fullmatch(text)]
    texts = given if not unfit else [text for text in given if _WHOLE_NUMBER.fullmatch(text)]
    if column.family not in ("text", "integer", "untyped", "date") or not texts:
        return None
    if len(texts) > MAX_VALUES:
        advice = f"{len(texts)} values are too many: list at most {MAX_VALUES}"
        return Proposal(column.name, FEATURE, {"type": "categorical", "values": GAP}, origin=origin, advice=advice)
    listed = [_as_code(text) for text in texts] if column.family == "integer" else texts
    return Proposal(
        column.name,
        FEATURE,
        {"type": "categorical", "values": listed},
        origin=origin,
        advice=_unfit_note(column, unfit),
    )


def _unfit_note(column: Column, unfit: Sequence[str]) -> str:
    """Return what to say of listed values that a column's type cannot hold."""
    return f"left out, as {column.type[:40]} cannot hold it: {shown_list(unfit)}" if unfit else ""


def _as_code(text: str) -> int | str:
    """Return an integer's text as the integer, which a file shows without quotes; any other text as it is."""
    return int(text) if re.fullmatch("0|-?[1-9][0-9]{0,17}", text) else text


def from_bounds(column: Column, lower: object, upper: object, origin: str) -> Proposal | None:
    """Return a proposal with bounds, as far as the column's type allows them; a bound that is None is a gap.

    >>> from_bounds(Column("x", "INTEGER", "integer"), 0, None, "catalog: CHECK").gaps
    ('upper',)
    """
    if column.family == "boolean":
        return Proposal(column.name, FEATURE, {"type": "boolean"}, origin="catalog: BOOLEAN")
    bounds = {"lower": _bound(lower), "upper": _bound(upper)}
    missing = [name for name, bound in bounds.items() if bound is GAP]
    if column.family not in ("integer", "real", "untyped") or len(missing) == 2:
        return None
    if not missing and not bounds["lower"] < bounds["upper"]:  # one value is no range
        return None
    advice = f"write the public {missing[0]} bound; values beyond are clamped" if missing else ""
    return Proposal(column.name, FEATURE, {"type": "numeric", **bounds}, origin=origin, advice=advice)


def as_number(text: object) -> Decimal | None:
    """Return a finite number that a double can hold, or None.

    >>> as_number(" 1e3 "), as_number("nan"), as_number("1e999"), as_number("x"), as_number(True)
    (Decimal('1E+3'), None, None, None, None)
    """
    if isinstance(text, bool) or text is None:
        return None
    try:
        number = Decimal(str(text).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number) < Decimal("1e300") else None


def _bound(value: object) -> Any:
    number = as_number(value)
    return GAP if number is None else float(number)


def _plain(domain: Domain) -> dict[str, Any]:
    return {name: None if isinstance(value, Placeholder) else value for name, value in domain.items()}
