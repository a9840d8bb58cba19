"""What --json prints: amounts as numbers with their exact texts beside them, null for what is empty, errors too.

An amount of the ledger is an exact decimal, and a JSON number is read as a double by most readers. So `"cap": 0.1` is
there to reckon with, and `"cap_exact": "0.1"` says it to the last digit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from dpsql.errors import DpsqlError

#: The keys under which amounts stand, as exact decimal texts where dpsql reckons with them.
AMOUNTS = frozenset(
    ("epsilon", "cap", "spent", "left", "delta", "rho", "least_epsilon", "default_analyst_cap", "selection_delta")
)
#: The keys under which documents, and things that users named, stand as they are.
_AS_THEY_ARE = frozenset(
    ("certificate", "schema", "feature", "alternatives", "parameters", "words", "confusion", "class_f1")
)
#: What a person reads where there is no cap.
_NO_CAP = "no cap"
#: What a certificate says in short: which model it is of, what it cost, for whom it is private, where it is recorded.
_SHORT = (
    "private", "kind", "epsilon", "delta", "rho", "neighbours", "unit", "composition", "dataset", "table", "method",
    "unlabelled_table", "account", "updates", "batches", "request_id", "ledger_entry", "ledger_hash", "created_at",
    "digest", "looked_up", "purchases", "warnings",
)  # fmt: skip


def plain_numbers(value: Any) -> Any:
    """Return a value with amounts as numbers, each with its exact text, and null for what is empty.

    >>> plain_numbers({"table": "t", "cap": "10", "left": "0.1", "analyst": "", "spent": None})
    {'table': 't', 'cap': 10, 'cap_exact': '10', 'left': 0.1, 'left_exact': '0.1', 'analyst': None, 'spent': None}
    >>> plain_numbers({"cap": "no cap", "certificate": {"epsilon": "1"}})
    {'cap': None, 'certificate': {'epsilon': '1'}}
    """
    if isinstance(value, Mapping):
        shown: dict[str, Any] = {}
        for key, inner in value.items():
            shown[key] = None if isinstance(inner, str) and inner == "" else inner
            if key in AMOUNTS and isinstance(inner, str):
                shown |= _amount(key, inner)
            elif key not in _AS_THEY_ARE:
                shown[key] = plain_numbers(shown[key])
        return shown
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain_numbers(inner) for inner in value]
    return value


def short_certificate(certificate: Mapping[str, Any]) -> Any:
    """Return a model's certificate without the plan, the facts and the versions, which `dpsql show --json` prints."""
    parties = certificate.get("parties", ())
    short = plain_numbers({name: certificate[name] for name in _SHORT if name in certificate})
    return short | ({"parties": [short_certificate(party) for party in parties]} if parties else {})


def error_values(error: DpsqlError) -> dict[str, Any]:
    """Return an error as the value that --json prints in place of a result.

    >>> error_values(DpsqlError("it failed.", hint="try again"))
    {'error': 'it failed.', 'try': 'try again', 'code': 1, 'kind': 'DpsqlError'}
    """
    return {"error": error.message, "try": error.hint, "code": error.exit_code, "kind": type(error).__name__}


def _amount(key: str, text: str) -> dict[str, Any]:
    """Return an amount as a number and as its exact text; what is no number stays as it is."""
    if text in ("", _NO_CAP):
        return {key: None}
    try:
        number = Decimal(text)
    except InvalidOperation:
        return {key: text}
    plain = int(number) if number == number.to_integral_value() else float(number)
    return {key: plain, f"{key}_exact": text}
