"""Registers a private table: its public schema and its cap become a dataset with a budget. The owner's act.

Registering looks at the catalog alone: the table and the columns exist and their types fit. It reads no row.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpsql import schemafile
from dpsql.engines.base import Engine
from dpsql.errors import ParameterError, UsageError
from dpsql.kernel.dataset import Dataset, columns_used, registered, resolve
from dpsql.ledger import Ledger, parse_epsilon
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
