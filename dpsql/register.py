"""Registers a private table: its public schema and its cap become a dataset with a budget; sets caps. The owner's acts.

Registering looks at the catalog alone: the table and the columns exist and their types fit. It reads no row.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpsql import schemafile
from dpsql.engines.base import Engine
from dpsql.errors import NotPrivate, ParameterError, UsageError
from dpsql.kernel.dataset import Dataset, columns_used, find, registered, resolve
from dpsql.kernel.noise import approximate
from dpsql.ledger import Budget, Ledger, format_delta, format_epsilon, parse_delta, parse_epsilon
from dpsql.schema import Schema, Unit


def register(
    engine: Engine,
    ledger: Ledger,
    table: str,
    schema: Schema | Mapping[str, Any] | str | Path,
    *,
    cap: object | None,
    who: str,
    entry: str | None = None,
    replace: bool = False,
) -> Dataset:
    """Register a table under a schema and a cap, and return the dataset.

    `cap` is the epsilon that all runs together may cost; None registers public data without one, for comparisons.
    A table is registered once, under its own name or as a row-to-row view; `replace` changes schema and cap, and what
    is spent stays spent.
    """
    declared = schemafile.load(schema, entry=entry)
    cap_nano = None if cap is None else parse_epsilon(cap, "cap")
    info, base, spelled = resolve(engine, table, declared)
    earlier = _earlier(ledger, info.name, base, spelled.unit, replace=replace)
    identity = earlier.id if earlier else f"{info.name[:40]}-{secrets.token_hex(4)}"
    dataset = Dataset(identity, info.name, base, spelled, columns_used(info, spelled), info.definition)
    ledger.register(dataset.id, dataset.table, cap_nano, dataset.details(), who, replace=earlier is not None)
    return dataset


def _earlier(ledger: Ledger, name: str, base: str, unit: Unit, *, replace: bool) -> Dataset | None:
    """Return the dataset already registered on the same base table, which only `replace` may change."""
    known = registered(ledger)
    earlier = next((one for one in known.values() if one.base.lower() == base.lower()), None)
    if earlier is None:
        if replace:
            raise ParameterError("replace", allowed="given only for a registered table", given=name)
        return None
    if not replace:
        raise UsageError(
            f'table "{name}" is already registered as "{earlier.table}"; its rows have one budget, not two.',
            hint=f"dpsql register --table {name} … --replace   (what is spent stays spent)",
        )
    if earlier.schema.unit != unit and ledger.budget(earlier.id).spent:
        raise UsageError(
            f'"{name}" has spent budget under privacy unit {earlier.schema.unit}; another would not add up.',
            hint="keep the privacy unit",
        )
    return earlier


def set_cap(
    engine: Engine,
    book: Ledger,
    table: str,
    cap: object | None,
    *,
    who: str,
    analyst: str | None = None,
    kind: str = "pure",
    delta: object | None = None,
) -> Budget:
    """Set a dataset's cap, or one analyst's cap under it, and return the budget.

    A delta makes it a cap of kind "approximate", kept as the zero-concentrated allowance that both together give.
    """
    dataset = find(engine, book, table)
    if kind == "label" and not dataset.schema.public_features:
        raise NotPrivate(
            f'the features of "{dataset.table}" are private, so protecting labels alone is not enough.',
            hint="declare public_features: true in its schema, if they are public",
        )
    if (kind == "approximate" and cap is not None) != (delta is not None):
        allowed = "given for kind approximate, and for no other"
        raise ParameterError("delta", allowed=allowed, given=delta, hint="--kind approximate --delta 1e-6")
    nano = None if cap is None else parse_epsilon(cap, "cap")
    details: dict[str, str] = {}
    if nano is not None and delta is not None:
        allowance = approximate(nano, parse_delta(delta))
        details = {"epsilon": format_epsilon(nano), "delta": format_delta(allowance.delta)}
        nano = allowance.nano_rho
    book.set_cap(dataset.id, nano, who, analyst=analyst, kind=kind, details=details)
    return book.budget(dataset.id, kind)
