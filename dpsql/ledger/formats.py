"""The format number of everything that dpsql stores, and the refusal of what a newer dpsql has written.

A number changes when older code could misread what is stored. Tables of schema `dpsql` have theirs in `dpsql.format`,
one row per part; each file of `sql/` that creates a part also writes its row. Documents (receipts, certificates,
exported models, shared structures) carry a name and a number in themselves. What has no number is format 1: it was
written before there were numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsql.engines.base import Transaction
from dpsql.errors import LedgerBroken, NewerFormat

#: The newest format of each part of the database that this code reads and writes.
PARTS = {
    "ledger": 3,
    "model": 1,
    "size": 1,
    "evaluation": 1,
    "domains": 1,
    "part": 1,
    "dropped_model": 1,
    "model_tag": 1,
}
#: The table by which a part is known to be there; a part that is not named here has a table of its own name.
_TABLES = {"ledger": "chain"}
#: The newest format of each kind of document.
DOCUMENTS = {
    "dpsql-receipt": 1,
    "dpsql-certificate": 1,
    "dpsql-model": 1,
    "dpsql-structure": 1,
    "dpsql-label-request": 1,
}
#: Kinds of document that were written before documents had numbers: one without a number is of the first format.
_ONCE_UNNUMBERED = ("dpsql-receipt", "dpsql-certificate", "dpsql-label-request")
#: The format of everything that was written before there were numbers.
FIRST = 1
#: The newest format of the ledger.
LEDGER = PARTS["ledger"]


def has_part(transaction: Transaction, part: str) -> bool:
    """Return whether the tables of a part are there. Raises NewerFormat where a newer dpsql has written any part."""
    check(transaction)
    return transaction.has_table(_TABLES.get(part, part))


def check(transaction: Transaction) -> dict[str, int]:
    """Return the number of each part that has a row; raise NewerFormat where one is newer than this code knows.

    One newer part is enough to refuse the whole database: what the other parts mean may depend on it. Raises
    LedgerBroken where a row was edited into something that dpsql never wrote.
    """
    rows = transaction.rows("SELECT part, number FROM dpsql.format") if transaction.has_table("format") else []
    numbers: dict[str, int] = {row["part"]: row["number"] for row in rows}
    if len(numbers) < len(rows) or any(type(number) is not int or number < FIRST for number in numbers.values()):
        raise LedgerBroken(["dpsql.format must hold one row for each part, with a whole number above 0."])
    for part, newest in PARTS.items():
        if numbers.get(part, FIRST) > newest:
            raise NewerFormat(f'part "{part}" of this database', number=numbers[part], known=newest)
    return numbers


def read_ledger_format(transaction: Transaction) -> int | None:
    """Return the ledger's format, or None where there is no ledger."""
    number = check(transaction).get("ledger")
    if number is None and transaction.has_table(_TABLES["ledger"]):
        return FIRST
    return number


def record(transaction: Transaction, part: str, number: int) -> None:
    """Write a part's number into `dpsql.format`."""
    if not transaction.run("UPDATE dpsql.format SET number = ? WHERE part = ?", (number, part)):
        transaction.run("INSERT INTO dpsql.format (part, number) VALUES (?, ?)", (part, number))


def record_parts(transaction: Transaction) -> None:
    """Write the first number for every part whose tables were there before parts had numbers."""
    numbers = check(transaction)
    for part in PARTS:
        if part not in numbers and transaction.has_table(_TABLES.get(part, part)):
            record(transaction, part, FIRST)


def stamp(name: str) -> dict[str, Any]:
    """Return the two fields that say what a document is and in which format it was written.

    >>> stamp("dpsql-receipt")
    {'format': 'dpsql-receipt', 'version': 1}
    """
    return {"format": name, "version": DOCUMENTS[name]}


def check_document(document: Mapping[str, Any], name: str) -> None:
    """Raise NewerFormat where a newer dpsql has written a document, and ValueError where its number is not valid.

    >>> check_document({}, "dpsql-receipt")
    >>> check_document({"version": 7}, "dpsql-receipt")
    Traceback (most recent call last):
    dpsql.errors.NewerFormat: this receipt was written by a newer dpsql (format 7; this one knows up to 1).
    Try:   pip install -U dpsql
    """
    number = document.get("version", FIRST if name in _ONCE_UNNUMBERED else None)
    if type(number) is not int or number < FIRST or document.get("format", name) != name:
        raise ValueError(f"this is not a {name}")
    if number > DOCUMENTS[name]:
        words = name.removeprefix("dpsql-").replace("-", " ")
        raise NewerFormat(f"this {words}", number=number, known=DOCUMENTS[name])
