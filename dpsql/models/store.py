"""Keeps released models in tables of schema `dpsql`, and finds them again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from dpsql import jsontext, sqlfiles
from dpsql.engines.base import Engine, Transaction
from dpsql.errors import ParameterError, SchemaError, UnknownName
from dpsql.ledger.formats import has_part
from dpsql.ledger.waiting import wait_in_turn
from dpsql.models.model import Model, check_certificate
from dpsql.schema import Schema
from dpsql.trees.serialize import from_columns, leaf_columns, node_columns


def install(engine: Engine) -> None:
    """Create the model tables from `sql/model.sql`, unless they are there."""

    def attempt() -> None:
        if _installed(engine):
            return
        with engine.transaction() as transaction:
            for statement in sqlfiles.statements("model.sql", engine.own_dialect):
                transaction.run(statement)

    wait_in_turn(attempt)  # another one may be creating them


def save(transaction: Transaction, model: Model, *, entry_id: int | None) -> Model:
    """Store a released model in an open transaction and return it with its number."""
    found = transaction.rows("SELECT coalesce(max(model_id), 0) + 1 AS next FROM dpsql.model")
    stored = _with_nat(model.numbered(int(found[0]["next"])))
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


def add(engine: Engine, model: Model) -> Model:
    """Store an imported model: public from the start, with no ledger entry of this database."""
    install(engine)

    def attempt() -> Model:
        check_free(engine, model.name)
        with engine.transaction() as transaction:
            return save(transaction, model, entry_id=None)

    return wait_in_turn(attempt)  # another model may get the same number at the same moment


def check_free(engine: Engine, name: str) -> None:
    """Refuse a model name that cannot be used or is already taken."""
    if not isinstance(name, str) or not name.strip() or len(name) > 200 or not _storable(name):
        raise ParameterError("name", allowed="text of 1 to 200 characters", given=ascii(name))
    if name in (row["name"] for row in listed(engine)):
        raise taken(name)


def taken(name: str) -> ParameterError:
    """Return the error for a name that another model has."""
    return ParameterError("name", allowed="new: a model of that name exists", given=name, hint="dpsql models")


def name_for(transaction: Transaction, name: str | None, base: str) -> str:
    """Return the wanted name if it is still free, else that name (or `base`) with the first number that is free.

    A name that another run took meanwhile is no reason to throw away a model that was paid for.
    """
    names = {row["name"] for row in transaction.rows("SELECT name FROM dpsql.model")}
    if name is not None and name not in names:
        return name
    number = 1
    while f"{name or base}_{number}" in names:
        number += 1
    return f"{name or base}_{number}"


def listed(engine: Engine) -> list[dict[str, Any]]:
    """Return one row per model, oldest first, without the forests."""
    if not _installed(engine):
        return []
    with engine.transaction() as transaction:
        return transaction.rows(_LIST)


def shown(engine: Engine) -> pd.DataFrame:
    """Return the same as people read it."""
    columns = ["name", "method", "table_name", "trees", "depth", "leaves", "epsilon", "created_at", "digest"]
    rows = [{name: row[name] for name in columns} for row in listed(engine)]
    return pd.DataFrame(rows, columns=columns).rename(columns={"table_name": "table"})


def load(engine: Engine, name: str) -> Model:
    """Return the model of that name, or raise UnknownName with the nearest ones."""
    known = {row["name"]: row for row in listed(engine)}
    if name not in known:
        raise UnknownName("model", str(name), known, hint="dpsql models")
    return _load(engine, name)


def load_entry(engine: Engine, entry_id: int) -> Model | None:
    """Return the model that a ledger entry released, or None."""
    if not _installed(engine):
        return None
    with engine.transaction() as transaction:
        found = transaction.rows("SELECT name FROM dpsql.model WHERE entry_id = ?", (entry_id,))
    return _load(engine, found[0]["name"]) if found else None


def _load(engine: Engine, name: str) -> Model:
    with engine.transaction() as transaction:
        row = transaction.rows("SELECT * FROM dpsql.model WHERE name = ?", (name,))[0]
        nodes = transaction.arrays(_NODES, (row["model_id"],))
        leaves = transaction.arrays(_LEAVES, (row["model_id"],))
    try:
        schema = Schema.from_dict(jsontext.parse(row["schema"]))
        certificate = dict(jsontext.parse(row["certificate"]))
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
    """Return the model with its points per natural-log unit in the certificate, where the tables have no place."""
    nat = model.released.nat
    return replace(model, certificate={**model.certificate, "nat": nat}) if nat else model


def _storable(name: str) -> bool:
    return not any(character == "\x00" or "\ud800" <= character <= "\udfff" for character in name)


def _installed(engine: Engine) -> bool:
    with engine.transaction() as transaction:
        return has_part(transaction, "model")


_INSERT = "INSERT INTO dpsql.model VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_LIST = """
SELECT name, method, table_name, trees, depth, leaves, epsilon, created_at, digest, entry_id
FROM dpsql.model ORDER BY model_id
"""
_NODES = (
    "SELECT level, axis, arity, plane_0, plane_1, plane_2, plane_3, plane_4, plane_5 "
    "FROM dpsql.model_node WHERE model_id = ? ORDER BY level, node"
)
_LEAVES = "SELECT leaf, class, weight FROM dpsql.model_leaf WHERE model_id = ?"
