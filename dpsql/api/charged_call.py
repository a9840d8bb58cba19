"""Charges a call in SQL once, however often its result is looked at: the same call in one session is one request.

A relation of DuckDB, a cell of a notebook and a grid of a BI tool run their statement again each time they are looked
at. So a call that is charged gets a request id that follows from the session and from what was asked, and the ledger,
which charges a request once, does the rest:

    session ─┐
    who ─────┼─▶ hash ─▶ request id ─▶ never asked:  run, charged
    asked ───┘             + number    released:     what is stored, for nothing
                                       failed:       ChargedBefore: the charge stays, and no second one follows

`again` asks for the next number: a new run and a new charge, which the same call returns from then on. A call with a
request id of its own is left as it is. The session is not stored: another connection is another session.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from dpsql.api.database import Database
from dpsql.errors import ChargedBefore, ParameterError, RunFailed
from dpsql.kernel.datasets.dataset import Dataset, find_dataset
from dpsql.ledger import Ledger, format_epsilon, parse_epsilon
from dpsql.models import store
from dpsql.models.release_store import MODELS
from dpsql.models.usable_model import Model
from dpsql.runs.compare import compared_table, request_of_model
from dpsql.runs.label_rows import LabelRequest, digest_of_new_rows
from dpsql.runs.parties import read_shared_trees
from dpsql.runs.private_evaluation import charged_table
from dpsql.runs.size_first import size_request
from dpsql.runs.train import ARGUMENTS, TrainRequest

_Value = TypeVar("_Value")
#: How DuckDB's SQL asks for another run.
AGAIN = "again := true runs it anew, for another charge"


@dataclass(frozen=True)
class ChargedCall:
    """A call: the act, what it was asked, parsed, the caller's own request id if any, and whether it is to run anew.

    `asked` is made of plain values. Of tables it names the registration, so that one registered anew is another.
    """

    act: str
    asked: object
    request_id: str | None = None
    again: bool = False

    def __post_init__(self) -> None:
        if self.again and self.request_id is not None:
            raise ParameterError(
                "again", allowed="left out where a request_id is given", given="true", hint="give another request_id"
            )


@dataclass(frozen=True)
class CallResult(Generic[_Value]):
    """What a call gave; `repeated` where the same call, without a request id of its own, had paid for it before."""

    value: _Value
    repeated: bool


@dataclass(frozen=True)
class ChargedCalls:
    """The charged calls of one session. Threads may share it: of two same calls at a time the second waits.

    `way_on` says how the session's SQL asks for another run.
    """

    session: str = field(default_factory=lambda: secrets.token_hex(16))
    way_on: str = AGAIN
    _locks: dict[str, threading.Lock] = field(default_factory=dict, repr=False)

    def make(self, db: Database, call: ChargedCall, run: Callable[[str], _Value]) -> CallResult[_Value]:
        """Have `run` make a call under its request id, unless the same call failed before."""
        if call.request_id is not None:
            return CallResult(run(call.request_id), repeated=False)
        first = self._first_request(db.who, call)
        with self._locks.setdefault(first, threading.Lock()):
            last = _last_number(db.book, first)
            number = last + 1 if call.again or not last else last
            request_id = f"{first}.{number}"
            repeated = number == last and self._is_released(db.book, request_id)
            try:
                return CallResult(run(request_id), repeated)
            except RunFailed as failed:
                if failed.hint == RunFailed().hint:
                    failed.hint = f"its charge stays, and the same call is not charged again by itself; {self.way_on}"
                raise

    def make_model(
        self,
        db: Database,
        call: ChargedCall,
        run: Callable[[str], Model],
        *,
        is_complete: Callable[[Model], bool] = lambda model: True,
    ) -> CallResult[Model]:
        """Make a call whose result is a stored model: one that is stored, and complete, is returned without a plan."""

        def find_or_run(request_id: str) -> Model:
            model = self._stored_model(db, request_id)
            return model if model is not None and is_complete(model) else run(request_id)

        return self.make(db, call, find_or_run)

    def _first_request(self, who: str, call: ChargedCall) -> str:
        said = json.dumps([self.session, who, call.act, call.asked], sort_keys=True, default=str)
        return hashlib.sha256(said.encode()).hexdigest()[:32]

    def _is_released(self, ledger: Ledger, request_id: str) -> bool:
        """Return whether a request has given out what it paid for; raise ChargedBefore where it, or its size, failed.

        A request whose size alone was bought goes on from there.
        """
        for part in _parts_of(request_id):
            entry = ledger.find_request(part)
            if entry is not None and entry.state != "released":
                raise ChargedBefore(entry.entry_id, why="its run failed", hint=self.way_on)
        return ledger.find_request(request_id) is not None

    def _stored_model(self, db: Database, request_id: str) -> Model | None:
        """Return the model of a request that was released; None for a new request."""
        entry = db.book.find_request(request_id)
        if entry is None or entry.state != "released":
            return None
        with db.engine.snapshot() as transaction:
            rows = transaction.rows(MODELS.by_entry, (entry.entry_id,))
        if not rows:
            raise ChargedBefore(entry.entry_id, why="its model is gone", hint=self.way_on)
        return store.load_model(db.engine, rows[0]["name"])


def registration(db: Database, table: str) -> list[Any]:
    """Return what a call says of a registered table: its dataset, and the entry by which it is registered now."""
    dataset: Dataset = find_dataset(db.engine, db.book, table)
    return [dataset.id, dataset.registration]


def asked_of_training(db: Database, request: TrainRequest) -> list[Any]:
    """Return what a call of a training asked: the table as it is registered, and all arguments, parsed."""
    arguments = {name: getattr(request, name) for name in ARGUMENTS if name not in ("table", "request_id")}
    return [*registration(db, request.table), arguments, dict(request.parameters)]


def asked_of_evaluation(db: Database, model: str, table: str, epsilon: object) -> list[Any]:
    """Return what a call of a charged evaluation asked: the model as it is stored, the table, and epsilon."""
    charged = charged_table(db.engine, db.book, table)
    return [*_identity_of(db.model(model)), *registration(db, charged), _amount(epsilon)]


def asked_of_comparison(db: Database, models: Sequence[str], table: str, epsilon: object) -> list[Any]:
    """Return what a call of a charged comparison asked: the models as they are stored, the table that pays, epsilon."""
    stored = [db.model(name) for name in models]
    paying = compared_table(db.engine, db.book, stored, table)
    return [[_identity_of(model) for model in stored], *registration(db, paying), _amount(epsilon)]


def asked_of_purchase(db: Database, table: str, epsilon: object) -> list[Any]:
    """Return what a call that buys a table's size asked: what the size is used for then is not charged."""
    return [*registration(db, table), _amount(epsilon, "buy")]


def asked_of_update(db: Database, model: Model, given: Mapping[str, Any]) -> list[Any]:
    """Return what a call that adds a batch to a model asked."""
    return [*_identity_of(model), *registration(db, model.table), given["batch"], _own(given)]


def asked_of_contribution(db: Database, table: str, shared_trees: str, given: Mapping[str, Any]) -> list[Any]:
    """Return what a call that counts a party's rows asked: shared trees are known by their digest."""
    digest = read_shared_trees(shared_trees)[2]
    return [*registration(db, table), digest, _own(given)]


def asked_of_labels(db: Database, request: LabelRequest, new_rows: str, given: Mapping[str, Any]) -> list[Any]:
    """Return what a call that labels new rows asked: they are public, and known by what they hold."""
    own = {**_own(given), "trees_see": given.get("trees_see")}
    return [*registration(db, request.table), request.to_json(), digest_of_new_rows(db, request, new_rows), own]


def _own(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the epsilon, as the ledger counts it, and the name of a call."""
    epsilon = given.get("epsilon")
    return {"epsilon": None if epsilon is None else _amount(epsilon), "name": given.get("name")}


def _identity_of(model: Model) -> list[Any]:
    """Return what a call says of a stored model: its digest, and the entry that paid for it."""
    return [model.certificate.get("digest"), model.certificate.get("ledger_entry")]


def _amount(epsilon: object, name: str = "epsilon") -> str:
    return format_epsilon(parse_epsilon(epsilon, name))


def _last_number(ledger: Ledger, first: str) -> int:
    """Return how many runs a call has had, counting those that paid for a size alone."""
    number = 0
    while any(ledger.find_request(part) is not None for part in _parts_of(f"{first}.{number + 1}")):
        number += 1
    return number


def _parts_of(request_id: str) -> tuple[str, ...]:
    """Return the requests that a call may have made first: itself, one for a size, one for the first of many models."""
    return request_id, size_request(request_id), request_of_model(request_id, 1)
