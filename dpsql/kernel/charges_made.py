"""Remembers which entries of the ledger a call has charged, so that Ctrl-C can say what stays charged.

A call may be several runs: a size first, then a model, then its evaluation. `kernel/run.py` reports each charge and its
end here. What is said of them is public: the ledger shows the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TypeVar

from dpsql.errors import ChargeLeft, Interrupted
from dpsql.ledger import Entry, charge_measure

_Result = TypeVar("_Result")
#: The charges of each call that is under way, by the entry's number, the outermost call first.
_calls: ContextVar[tuple[dict[int, ChargeLeft], ...]] = ContextVar("calls", default=())


def name_charges(call: Callable[[], _Result]) -> _Result:
    """Return what a call returns; raise Ctrl-C as Interrupted, with all that the call has charged.

    What is raised has no frame of what was stopped: these can hold exact counts.
    """
    charges: dict[int, ChargeLeft] = {}
    token = _calls.set((*_calls.get(), charges))
    try:
        return call()
    except KeyboardInterrupt:
        pass  # raised below: inside this block it would have the old one as its context
    finally:
        _calls.reset(token)
    raise Interrupted(charges.values())


def note_charges(entries: Sequence[Entry]) -> None:
    """Note entries that were charged, or what became of them."""
    for entry in entries:
        left = ChargeLeft(entry.entry_id, entry.state, entry.amount_text, charge_measure(entry.kind))
        for charges in _calls.get():
            charges[entry.entry_id] = left
