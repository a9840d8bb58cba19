"""The owner's acts on a table: register it under a public schema and a cap, set caps and limits, accept lost runs.

Registering looks at the catalog alone, to check that the table and its columns exist and that their types fit. It reads
no row.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpsql.compile.views.tables_read import expression_of
from dpsql.engines.base import Engine, TableInfo
from dpsql.errors import NotPrivate, ParameterError, UsageError
from dpsql.kernel.datasets.dataset import Dataset, columns_used, datasets_of, find_dataset, registered_datasets, resolve
from dpsql.kernel.datasets.identity import Base, has_other_ledger
from dpsql.kernel.datasets.row_conditions import check_conditions
from dpsql.kernel.noise import approximate
from dpsql.ledger import (
    Block,
    Budget,
    Ledger,
    Limits,
    format_delta,
    format_epsilon,
    limit_details,
    parse_delta,
    parse_epsilon,
)
from dpsql.ledger.entry import Entry, Registration, fold
from dpsql.schema import Schema, schema_file


def register_table(
    engine: Engine,
    ledger: Ledger,
    table: str,
    schema: Schema | Mapping[str, Any] | str | Path,
    *,
    cap: object | None,
    who: str,
    entry: str | None = None,
    replace: bool = False,
    lost_runs: object | None = None,
    least_epsilon: object | None = None,
) -> Dataset:
    """Register a table under a schema and a cap, and return the dataset.

    `cap` is the epsilon that all runs together may cost; None registers public data without one, for comparisons.
    A table is registered once, under its own name or as a row-to-row view: the database's own identity of the base
    table decides, inside the ledger's block. `replace` changes name, schema and cap, and what is spent stays spent.
    Where a row may be in another batch from then on, what was spent on any batch counts for all rows. `lost_runs` says
    how many runs may stay unfinished before further ones wait for the owner, and `least_epsilon` what a run costs at
    least. Where they are left out, the defaults hold, or with `replace` what held before.
    """
    limits = limit_details(lost_runs, least_epsilon)
    usual = {"lost_runs": Limits().lost_runs, "least_epsilon": Limits().least_text}
    declared = schema_file.load_schema(schema, entry=entry)
    cap_nano = None if cap is None else parse_epsilon(cap, "cap")
    shown, _, _ = resolve(engine, table, declared)  # raises what is wrong with it before the ledger is touched
    if cap_nano is not None:
        _check_closed(engine, shown)
    decided: list[Dataset] = []  # the dataset of the last call of `decide`

    def decide(into: Block) -> Registration:
        info, base, spelled = resolve(engine, table, declared)
        earlier = _earlier_dataset(into, info, base, replace=replace)
        now = Base.of(engine.identify(into, base), earlier.base if earlier else None)
        number = earlier.id if earlier else f"{info.name[:40]}-{secrets.token_hex(4)}"
        place, columns = (info.schema, info.table), columns_used(info, spelled)
        dataset = Dataset(number, info.name, place, now, spelled, columns, info.definition)
        check_conditions(engine, dataset)
        _check_disjoint(into, dataset)
        if earlier is not None:
            _check_unit(into, engine.dialect, earlier, dataset)
        decided[:] = [dataset]
        moved = earlier is not None and _batches_moved(engine.dialect, earlier, dataset)
        details = dataset.details() | (limits if earlier else usual | limits)
        return Registration(number, dataset.table, details, replace=earlier is not None, fold=moved)

    entered = ledger.register_as(decide, cap_nano, who)
    return dataclasses.replace(decided[0], registration=entered.entry_id)


def _check_closed(engine: Engine, info: TableInfo) -> None:
    """Refuse a private table that an analyst can name: the database's planner would tell them how many rows it has."""
    for way in engine.ways_in(info):
        raise UsageError(way.state, hint=way.fix)


def _earlier_dataset(into: Block, info: TableInfo, base: TableInfo, *, replace: bool) -> Dataset | None:
    """Return the dataset whose budget the base table's rows have, which only `replace` may change; None where none has.

    This is decided inside the ledger's block: of two who register the same rows at the same moment, one sees the other.
    """
    datasets = datasets_of(fold(into.registrations())).values()
    place = (info.schema, info.table)
    sharing = [dataset for dataset in datasets if dataset.base.shares(base) or dataset.place == place]
    if not sharing:
        if replace:
            raise ParameterError("replace", allowed="given only for a registered table", given=info.name)
        if has_other_ledger(base):
            raise UsageError(
                f'table "{base.name}" was registered in another ledger; its rows have one budget, not two.',
                hint="restore that ledger; or, if these are other rows, take the [dpsql …] out of the table's comment",
            )
        return None
    if not replace:
        raise UsageError(
            f'table "{info.name}" is already registered as "{sharing[0].table}"; its rows have one budget, not two.',
            hint=f"dpsql register --table {info.name} … --replace   (what is spent stays spent)",
        )
    if len(sharing) > 1:
        raise UsageError(
            f'"{info.name}" shares rows with "{sharing[0].table}" and "{sharing[1].table}", which have two budgets.',
            hint="keep them apart: two budgets cannot become one",
        )
    return sharing[0]


def _check_unit(into: Block, dialect: str, earlier: Dataset, dataset: Dataset) -> None:
    """Refuse another privacy unit once anything is spent, of whatever kind: losses of two units do not add up."""
    unit, column = dataset.schema.unit, dataset.schema.unit.column
    same = (
        column is None
        or _base_expression(dialect, earlier, column) == _base_expression(dialect, dataset, column) is not None
    )
    rows = into.rows("SELECT spent FROM dpsql.budget WHERE dataset = ?", (earlier.id,))
    if (earlier.schema.unit != unit or not same) and any(row["spent"] for row in rows):
        raise UsageError(
            f'"{dataset.table}" has spent budget under privacy unit {earlier.schema.unit}; another would not add up.',
            hint="keep the privacy unit, and what its column is made of",
        )


def _check_disjoint(into: Block, dataset: Dataset) -> None:
    """Refuse a name about which another dataset's owner said something when it meant other rows.

    `disjoint_from` names tables. A dataset that takes such a name over would inherit the declaration, and rows that are
    in both tables would be charged as if they were in one.
    """
    entries = fold(into.registrations())
    for other in datasets_of(entries).values():
        if dataset.table.lower() not in (name.lower() for name in other.schema.disjoint_from):
            continue
        meant = _dataset_meant(entries, dataset.table, other.registration)
        if other.id != dataset.id and meant not in (None, dataset.id):
            raise UsageError(
                f'"{other.table}" is declared disjoint from "{dataset.table}", which was another table then.',
                hint=f"first say what holds now: dpsql register --table {other.table} --schema FILE --replace",
            )


def _dataset_meant(entries: Sequence[Entry], table: str, when: int) -> str | None:
    """Return the dataset that had a table's name when an entry was made, else the first that had it afterwards."""
    names: dict[str, str] = {}
    for entry in entries:
        if entry.entry_id > when and table.lower() in names.values():
            break
        names[entry.dataset] = entry.table.lower()
    return next((dataset for dataset, name in names.items() if name == table.lower()), None)


def _batches_moved(dialect: str, earlier: Dataset, dataset: Dataset) -> bool:
    """Whether a row may be in another batch than before. What was charged on batches then counts for every row."""
    before, now = earlier.schema.batch, dataset.schema.batch
    if before is None:
        return False
    if now is None or before != now or earlier.base.identity != dataset.base.identity:
        return True
    meaning = _base_expression(dialect, earlier, before)
    return (
        meaning is None
        or meaning != _base_expression(dialect, dataset, now)
        or earlier.columns[before] != dataset.columns[now]
    )


def _base_expression(dialect: str, dataset: Dataset, column: str) -> str | None:
    """Return what a column of a dataset is made of in its base table, as text to compare."""
    return expression_of(dataset.definition, dialect, column)


def set_table_cap(
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

    A delta makes it a cap of kind "approximate". It is stored as the rho that epsilon and delta together allow.
    """
    dataset = find_dataset(engine, book, table)
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
    if nano is not None and book.budget(dataset.id).cap is None:  # public data until now
        _check_closed(engine, resolve(engine, dataset.table, dataset.schema)[0])
    book.set_cap(dataset.id, nano, who, analyst=analyst, kind=kind, details=details)
    return book.budget(dataset.id, kind)


def set_table_limits(
    engine: Engine,
    book: Ledger,
    table: str,
    *,
    who: str,
    lost_runs: object | None = None,
    least_epsilon: object | None = None,
) -> Budget:
    """Set how many runs may stay unfinished, the least charge of a run, or both, and return the budget."""
    dataset = registered_datasets(book).get(table.lower()) or find_dataset(engine, book, table)
    book.set_limits(dataset.id, who, lost_runs=lost_runs, least_epsilon=least_epsilon)
    return book.budget(dataset.id)


def accept_table_runs(engine: Engine, book: Ledger, table: str, *, who: str) -> Budget:
    """Accept a dataset's unfinished runs, so that further ones are charged again, and return the budget."""
    dataset = registered_datasets(book).get(table.lower()) or find_dataset(engine, book, table)
    book.accept_runs(dataset.id, who)
    return book.budget(dataset.id)
