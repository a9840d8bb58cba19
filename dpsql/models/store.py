"""Stores released models in tables of schema `dpsql`, and loads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dpsql.engines.base import Engine, Transaction
from dpsql.errors import ParameterError, SchemaError, UnknownName
from dpsql.ledger import json_text
from dpsql.ledger.formats import has_part
from dpsql.ledger.waiting import wait_in_turn
from dpsql.models.model import check_certificate
from dpsql.models.release_store import DROPPED, MODELS
from dpsql.models.usable_model import Model
from dpsql.schema import Schema
from dpsql.trees.serialize import from_columns, leaf_columns, node_columns


def save(transaction: Transaction, model: Model, *, entry_id: int | None) -> Model:
    """Store a released model in an open transaction and return it with its number."""
    stored = _with_nat(model.with_number(_next_number(transaction)))
    forest = stored.released.forest
    transaction.run(
        _INSERT,
        (
            stored.model_id,
            stored.name,
            stored.method,
            stored.table,
            forest.trees,
            forest.depth,
            forest.leaves,
            stored.certificate["epsilon"],
            stored.certificate["created_at"],
            stored.certificate["digest"],
            entry_id,
            json.dumps(stored.schema.to_dict()),
            json.dumps(stored.certificate),
        ),
    )
    for name, columns in (("model_node", node_columns(forest)), ("model_leaf", leaf_columns(stored.released))):
        if columns:
            length = len(next(iter(columns.values())))
            transaction.insert(name, {"model_id": np.full(length, stored.model_id, np.int32), **columns})
    return stored


def _next_number(transaction: Transaction) -> int:
    """Return a number that no model has or ever had: a view made from a dropped one must not show another."""
    queries = [_NEWEST, *([_NEWEST_DROPPED] if has_part(transaction, DROPPED) else [])]
    return max(int(transaction.rows(query)[0]["newest"] or 0) for query in queries) + 1


def add(engine: Engine, model: Model) -> Model:
    """Store an imported model: public from the start, with no ledger entry of this database."""
    MODELS.install(engine)

    def attempt() -> Model:
        check_free(engine, model.name)
        with engine.transaction() as transaction:
            return save(transaction, model, entry_id=None)

    return wait_in_turn(attempt)  # another model may get the same number at the same moment


def add_evaluation(transaction: Transaction, model: Model, summary: Mapping[str, Any]) -> None:
    """Put the figures of a charged evaluation into a stored model's certificate; one stored elsewhere stays as it is.

    It is done in the transaction that stores the evaluation itself, with its ledger event.
    """
    if not transaction.has_table("model"):
        return
    key = (model.name, model.certificate["digest"])
    for row in transaction.rows("SELECT certificate FROM dpsql.model WHERE name = ? AND digest = ?", key):
        certificate = json_text.parse(row["certificate"])
        certificate["evaluations"] = [*certificate.get("evaluations", []), summary]
        transaction.run(_RECERTIFY, (json.dumps(certificate), *key))


def check_free(engine: Engine, name: str) -> None:
    """Refuse a model name that cannot be used or is already taken."""
    if not isinstance(name, str) or not name.strip() or len(name) > 200 or not _is_storable(name):
        raise ParameterError("name", allowed="text of 1 to 200 characters", given=ascii(name))
    if name in (row["name"] for row in list_models(engine)):
        raise name_taken(name)


def name_taken(name: str) -> ParameterError:
    """Return the error for a name that another model has."""
    return ParameterError("name", allowed="new: a model of that name exists", given=name, hint="dpsql models")


def name_for(transaction: Transaction, name: str | None, base: str) -> str:
    """Return `name` if it is still free, else that name (or `base`) with the first number that is free.

    Where another run has taken the name meanwhile, a model that was paid for must not be lost.
    """
    names = {row["name"] for row in transaction.rows("SELECT name FROM dpsql.model")}
    if name is not None and name not in names:
        return name
    number = 1
    while f"{name or base}_{number}" in names:
        number += 1
    return f"{name or base}_{number}"


def list_models(engine: Engine) -> list[dict[str, Any]]:
    """Return one row per model, oldest first, without the forests."""
    if not MODELS.is_installed(engine):
        return []
    with engine.snapshot() as transaction:
        return transaction.rows(_LIST)


def load_model(engine: Engine, name: str) -> Model:
    """Return the model of that name, or raise UnknownName with the nearest ones."""
    names = {row["name"]: row for row in list_models(engine)}
    if name not in names:
        raise UnknownName("model", str(name), names, hint="dpsql models")
    return _load_model(engine, name)


def _load_model(engine: Engine, name: str) -> Model:
    with engine.snapshot() as transaction:
        row = transaction.rows("SELECT * FROM dpsql.model WHERE name = ?", (name,))[0]
        nodes = transaction.arrays(_NODES, (row["model_id"],))
        leaves = transaction.arrays(_LEAVES, (row["model_id"],))
    try:
        schema = Schema.from_dict(json_text.parse(row["schema"]))
        certificate = dict(json_text.parse(row["certificate"]))
        check_certificate(certificate)
        released = from_columns(schema, row["trees"], nodes, leaves, nat=certificate.get("nat", 0))
    except (LookupError, TypeError, ValueError):
        raise SchemaError(f'the stored model "{name}" is damaged: its tables were changed.') from None
    return Model(
        name=row["name"],
        method=row["method"],
        table=row["table_name"],
        schema=schema,
        released=released,
        certificate=certificate,
        model_id=row["model_id"],
    )


def _with_nat(model: Model) -> Model:
    """Return the model with its points per natural-log unit in the certificate: the tables have no column for them."""
    nat = model.released.nat
    return replace(model, certificate={**model.certificate, "nat": nat}) if nat else model


def _is_storable(name: str) -> bool:
    return not any(character == "\x00" or "\ud800" <= character <= "\udfff" for character in name)


_NEWEST = "SELECT max(model_id) AS newest FROM dpsql.model"
_NEWEST_DROPPED = "SELECT max(model_id) AS newest FROM dpsql.dropped_model"
_INSERT = "INSERT INTO dpsql.model VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_RECERTIFY = "UPDATE dpsql.model SET certificate = ? WHERE name = ? AND digest = ?"
_LIST = """
SELECT model_id, name, method, table_name, trees, depth, leaves, epsilon, created_at, digest, entry_id
FROM dpsql.model ORDER BY model_id
"""
_NODES = (
    "SELECT level, axis, arity, plane_0, plane_1, plane_2, plane_3, plane_4, plane_5 "
    "FROM dpsql.model_node WHERE model_id = ? ORDER BY level, node"
)
_LEAVES = "SELECT leaf, class, weight FROM dpsql.model_leaf WHERE model_id = ?"
