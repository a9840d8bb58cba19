"""The open questions of a draft as plain values: what to ask, what the answer makes public, how an answer is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpsql.engines.base import Column, Engine, TableInfo
from dpsql.errors import SchemaError, UsageError
from dpsql.kernel.datasets.dataset import resolve
from dpsql.owner.drafts.catalog_sources import HASHED
from dpsql.owner.drafts.code_book_entry import listed_texts
from dpsql.owner.drafts.proposal import FEATURE, LABEL, LEFT_OUT, Domain, Proposal, as_number
from dpsql.schema.schema import Schema

#: The answer that leaves a column out of the features.
SKIP = "-"
#: The answer that leaves a domain to be bought; it is offered only where something can buy it.
BUY = "buy"
#: The families of columns whose domains can be bought in pure epsilon: bounds, or the cells of a hash that are in use.
_BUYABLE = ("integer", "real", "date", "timestamp", "text", "untyped")
#: Answers that are no values: where one of them is not offered, it is refused, and never taken for a list.
_WORDS = ("boolean", "hashed", BUY)
_RANGE = re.compile(r"(\S+?)\s*(?:\.\.+|…|\bto\b)\s*(\S+)")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_FORMS = {
    "bounds": "bounds as 0..110",
    "days": "bounds as 2020-01-01..2024-12-31",
    "list": "a list as red, green",
    "boolean": '"boolean"',
    "hashed": '"hashed"',
    BUY: '"buy"',
}
#: Forms of answers that lead to a type of feature which not every dpsql has, with an example of the type.
_NEW_FORMS = {"hashed": HASHED, "days": {"type": "date", "lower": "2020-01-01", "upper": "2024-12-31"}}


@dataclass(frozen=True)
class Question:
    """One open question about a column: what is asked, the forms an answer may have, and what it makes public."""

    column: str
    family: str
    is_label: bool
    ask: str
    forms: tuple[str, ...]
    makes_public: str


def open_questions(info: TableInfo, proposals: Sequence[Proposal], *, can_buy: bool = False) -> list[Question]:
    """Return a question for the label and for each feature that lacks something, the label first."""
    unanswered = [proposal for proposal in proposals if proposal.is_used and proposal.gaps]
    ordered = sorted(unanswered, key=lambda proposal: proposal.role != LABEL)
    return [_question(info, proposal, can_buy=can_buy) for proposal in ordered]


def _question(info: TableInfo, proposal: Proposal, *, can_buy: bool) -> Question:
    column = info.column(proposal.column)
    assert column is not None, "proposals are made from the table's own columns"
    is_label = proposal.role == LABEL
    forms = _forms(column, is_label=is_label, can_buy=can_buy)
    ask = f"{column.name} ({column.type[:40]})"
    if proposal.origin:
        ask += f", {proposal.origin}"
    if is_label:
        makes_public = "every value that you list is public, whether or not a row has it"
    elif "list" in forms and "bounds" not in forms:
        makes_public = "the values that you list are public; others share one cell"
    else:
        makes_public = "the bounds or values are public; numbers beyond the bounds are clamped"
    return Question(column.name, column.family, is_label, ask, forms, makes_public)


def _forms(column: Column, *, is_label: bool, can_buy: bool) -> tuple[str, ...]:
    forms = {
        "text": ["list", "hashed"],
        "integer": ["bounds", "list"],
        "real": ["bounds"],
        "untyped": ["bounds", "list", "boolean", "hashed"],
        "date": ["days", "list"],
    }.get(column.family, ["days"])
    if is_label:
        return tuple(form for form in forms if form in ("bounds", "list"))
    known = [form for form in forms if form not in _NEW_FORMS or is_known(_NEW_FORMS[form])]
    return (*known, BUY) if can_buy and column.family in _BUYABLE else tuple(known)


def describe_forms(question: Question) -> str:
    """Return which answers are possible, in words.

    >>> describe_forms(Question("x", "real", False, "x", ("bounds",), ""))
    'bounds as 0..110, or - to leave it out'
    """
    words = ", ".join(_FORMS[form] for form in question.forms)
    return words if question.is_label else f"{words}, or {SKIP} to leave it out"


def read_answer(question: Question, answer: str) -> Domain | None:
    """Return the domain that an answer declares, or None where it leaves the column out; raise UsageError otherwise.

    The answer "buy" is a domain of type "buy", for whoever offered it.

    >>> read_answer(Question("x", "integer", False, "x", ("bounds", "list"), ""), "0..110")
    {'type': 'numeric', 'lower': 0.0, 'upper': 110.0}
    >>> read_answer(Question("x", "text", False, "x", ("list",), ""), "red, green")
    {'type': 'categorical', 'values': ['red', 'green']}
    """
    text = answer.strip()
    if text in ("", SKIP) and not question.is_label:
        return None
    if text.lower() in _WORDS:
        return _word(question, text.lower())
    domain = _range(question, text) or _list(question, text)
    if domain is None:
        raise UsageError(f"that is none of: {describe_forms(question)}.")
    if not question.is_label:
        check_domain(question.column, domain)
    return domain


def _word(question: Question, word: str) -> Domain:
    """Return the domain that one of the words stands for, where it is offered."""
    if word not in question.forms:
        raise UsageError(f'"{word}" is not offered for this column, but: {describe_forms(question)}.')
    return HASHED if word == "hashed" else {"type": word}


def _range(question: Question, text: str) -> Domain | None:
    match = _RANGE.fullmatch(text)
    if match is None:
        return None
    if "days" in question.forms and _DAY.fullmatch(match[1]) and _DAY.fullmatch(match[2]):
        kind = "date" if question.family == "date" else "timestamp"
        return {"type": kind, "lower": match[1], "upper": match[2]}
    lower, upper = as_number(match[1]), as_number(match[2])
    if "bounds" not in question.forms or lower is None or upper is None:
        return None
    if not lower < upper:
        raise UsageError("the lower bound must be below the upper one.")
    return {"type": "numeric", "lower": float(lower), "upper": float(upper)}


def _list(question: Question, text: str) -> Domain | None:
    values = list(dict.fromkeys(listed_texts(text)))
    if "list" not in question.forms or not values:
        return None
    if question.is_label and len(values) < 2:
        raise UsageError("a label has at least two classes.")
    if len(values) == 1 and question.family != "text":
        raise UsageError(f"that is a single value; needed: {describe_forms(question)}.")
    return {"type": "categorical", "values": values}


def with_answer(proposal: Proposal, domain: Domain | None) -> Proposal:
    """Return a proposal with the domain that its owner answered, or left out."""
    if domain is None:
        return Proposal(proposal.column, LEFT_OUT, origin="by your answer")
    return replace(proposal, feature=domain, alternatives=(), origin="your answer", advice="")


def with_label(proposals: Sequence[Proposal]) -> list[str]:
    """Return the columns that can be the label: what is a feature or the label already."""
    return [proposal.column for proposal in proposals if proposal.role in (LABEL, FEATURE)]


def check_domain(column: str, domain: Domain) -> None:
    """Raise SchemaError unless a schema can have this column as a feature with this domain."""
    Schema.from_dict({"label": None, "features": {column: domain}})


def check_answer(engine: Engine, table: str, question: Question, domain: Domain) -> None:
    """Raise an error unless the type of a column allows the domain that was answered: as registering checks it.

    The catalog alone is read. Texts that are to be bought are checked as hashed categories, which they become.
    """
    if domain.get("type") == BUY:
        if question.family != "text":
            return
        domain = HASHED
    resolve(engine, table, Schema.from_dict({"label": None, "features": {question.column: domain}}))


def check_unit(engine: Engine, table: str, label: Proposal, column: str) -> None:
    """Raise an error unless a column can be the privacy unit of a schema with this label, by the catalog alone."""
    if column.lower() == label.column.lower():
        raise UsageError(f'"{column}" is the label, which cannot be the privacy unit.')
    domain = {"type": "categorical", **label.feature}
    unit = {"column": column, "max_rows": 1}
    declared = {"label": None, "privacy_unit": unit, "features": {label.column: domain}}
    resolve(engine, table, Schema.from_dict(declared))


def is_known(domain: Domain) -> bool:
    """Whether a schema can have a feature of this type."""
    try:
        check_domain("x", domain)
    except SchemaError:
        return False
    return True
