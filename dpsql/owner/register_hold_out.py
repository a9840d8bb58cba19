"""Registers a hold-out beside its table: which units are in it, under which cap, and when that may still change."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from dpsql.engines.base import Engine, TableInfo
from dpsql.errors import UsageError
from dpsql.kernel.datasets.dataset import Dataset, column_types
from dpsql.kernel.datasets.hold_out import HoldOut, dealing_columns, hold_out_name, same_units
from dpsql.ledger import Block
from dpsql.ledger.entry import Registration
from dpsql.schema import Schema


def decide_hold_out(
    into: Block, info: TableInfo, schema: Schema, earlier: Dataset | None, share: int | None, *, reads_alike: bool
) -> HoldOut | None:
    """Return how the units of a table are divided from now on, or None where it has no hold-out.

    A table that is registered anew keeps key, share and columns. Anything else is refused once a budget of either
    dataset is spent in part: units would move between the two, and what they lost in one would not count in the other.
    `reads_alike` says that every column of the division is made of the same columns of the stored table as before.
    """
    before = None if earlier is None else earlier.hold_out
    if before is not None and share in (None, before.share) and reads_alike and _fits(before, info, schema, earlier):
        return before
    now = None if share is None and before is None else HoldOut.draw(_share(share, before), info, schema)
    if earlier is not None and not same_units(before, now) and _is_spent(into, earlier.id):
        raise UsageError(
            f'"{earlier.table}" has spent budget, and its hold-out would have other units than before.',
            hint="keep the share of the hold-out, the unit and the columns; or register a new table of other units",
        )
    return now


def check_no_hold_out(earlier: Dataset | None) -> None:
    """Refuse a view over several tables in the place of a table with a hold-out, whether anything is spent or not.

    Such a view has no hold-out. It would read the units of the old one, which keeps its registration and its budget,
    and what these units lose in both would have to be added up.
    """
    if earlier is not None and earlier.hold_out is not None:
        raise UsageError(
            f'"{earlier.table}" has a hold-out, and a view over several tables would read its units too.',
            hint="register the table itself, or a row-to-row view of it",
        )


def _share(share: int | None, before: HoldOut | None) -> int:
    if share is not None:
        return share
    assert before is not None
    return before.share


def _fits(before: HoldOut, info: TableInfo, schema: Schema, earlier: Dataset | None) -> bool:
    """Whether a division still tells every unit's place: its columns are there with their types, and it is allowed.

    A unit's own column must be all of it, and where labels alone are private no label may be in it.
    """
    assert earlier is not None
    alone = dealing_columns(schema) == before.columns if schema.unit.column is not None else True
    was_column = earlier.schema.unit.column is not None
    if not alone or (was_column and schema.unit.column is None):
        return False
    if schema.public_features and schema.has_label and schema.label in before.columns:
        return False
    types = column_types(info, before.columns)
    return all(types[name] and types[name] == earlier.columns[name] for name in before.columns)


def _is_spent(into: Block, dataset: str) -> bool:
    """Whether anything was spent on a dataset or on its hold-out, of whatever kind."""
    rows = into.rows(
        "SELECT spent FROM dpsql.budget WHERE dataset = ? OR dataset = ?", (dataset, hold_out_name(dataset))
    )
    return any(row["spent"] for row in rows)


def register_hold_out(
    into: Block, dataset: Dataset, details: Mapping[str, Any], cap: int | None, given: int | None
) -> tuple[Registration, int | None] | None:
    """Return the registration of a dataset's hold-out and its cap, or None where it has none.

    The cap is the one that was given, else the one that it has, else that of the table.
    """
    if dataset.hold_out is None:
        return None
    name = hold_out_name(dataset.id)
    rows = into.rows("SELECT cap FROM dpsql.budget WHERE dataset = ? AND kind = ?", (name, "pure"))
    hold_out = dataclasses.replace(
        dataset,
        id=name,
        table=hold_out_name(dataset.table),
        hold_out=dataclasses.replace(dataset.hold_out, for_evaluation=True),
    )
    registration = Registration(name, hold_out.table, {**details, **hold_out.details()}, replace=bool(rows))
    return registration, given if given is not None else rows[0]["cap"] if rows else cap


def check_free_name(engine: Engine, table: str) -> None:
    """Refuse a hold-out where the database has a table of the name that it would have."""
    name = hold_out_name(table)
    if name in engine.tables():
        raise UsageError(
            f'the hold-out of "{table}" would be called "{name}", and there is a table of that name.',
            hint="rename that table",
        )
