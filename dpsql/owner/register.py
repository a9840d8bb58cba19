"""The owner's acts on a table: register it under a public schema and a cap, set caps and limits, accept lost runs.

Registering looks at the catalog alone, to check that the table and its columns exist and that their types fit. It reads
no row.
"""

from __future__ import annotations

import dataclasses
import secrets
import shlex
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from dpsql.compile.views.tables_read import expression_of
from dpsql.engines.base import Engine, TableInfo
from dpsql.errors import NotPrivate, ParameterError, UsageError
from dpsql.kernel.datasets.dataset import (
    Dataset,
    column_types,
    columns_used,
    datasets_of,
    find_dataset,
    registered_datasets,
    with_account,
)
from dpsql.kernel.datasets.hold_out import hold_out_name, parse_share
from dpsql.kernel.datasets.identity import Base
from dpsql.kernel.datasets.looked_up_columns import LOOKUP, columns_in, identities_given
from dpsql.kernel.datasets.many_tables import check_public
from dpsql.kernel.datasets.possible_values import real_booleans
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
from dpsql.ledger.budget import ANY_ANALYST
from dpsql.ledger.entry import Entry, Registration, fold
from dpsql.ledger.odds import note_large
from dpsql.owner.register_hold_out import check_free_name, check_no_hold_out, decide_hold_out, register_hold_out
from dpsql.owner.resolve_table import Resolved, resolve_table, with_unit
from dpsql.owner.shared_budget import (
    check_account_cap,
    check_no_other_ledger,
    check_no_public_features,
    check_not_public,
    check_same_person,
    check_undivided,
    earlier_dataset,
)
from dpsql.schema import Schema, schema_file
from dpsql.schema.problems import ProblemList


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
    holdout: object | None = None,
    holdout_cap: object | None = None,
    allow_large: bool = False,
    view: str | None = None,
    unit: str | None = None,
    public: Sequence[str] = (),
    share_budget: bool = False,
) -> Dataset:
    """Register a table under a schema and a cap, and return the dataset.

    `cap` is the epsilon that all runs together may cost; None registers public data without one, for comparisons.
    A table is registered once, under its own name or as a row-to-row view: the database's own identity of the base
    table decides, inside the ledger's block. `replace` changes name, schema and cap, and what is spent stays spent.
    Where a row may be in another batch from then on, what was spent on any batch counts for all rows. `lost_runs` says
    how many runs may stay unfinished before further ones wait for the owner, and `least_epsilon` what a run costs at
    least. Where they are left out, the defaults hold, or with `replace` what held before. `holdout` is a share of the
    units that no model is trained on, which get a dataset and a budget of their own (`kernel/datasets/hold_out.py`).
    A cap above 20 is refused unless `allow_large` says that it is meant.

    `view` is the text of a query over several tables, which then has the name `table`; `unit` and `public` are the
    unit's column and the tables of it that are public, beside those of the schema. With `share_budget` a dataset that
    shares rows with a registered one pays from that one's budget (`owner/shared_budget.py`).
    """
    limits = limit_details(lost_runs, least_epsilon)
    usual = {"lost_runs": Limits().lost_runs, "least_epsilon": Limits().least_text}
    declared = with_unit(schema_file.load_schema(schema, entry=entry), unit, public)
    cap_nano = None if cap is None else parse_epsilon(cap, "cap")
    share = None if holdout is None else parse_share(holdout)
    holdout_nano = None if holdout_cap is None else parse_epsilon(holdout_cap, "holdout_cap")
    note_large("cap", cap_nano, allow_large=allow_large, table=table)
    note_large("holdout_cap", holdout_nano, allow_large=allow_large, table=table)
    if share is not None and (cap_nano is None or share_budget):
        allowed = "left out for public data and for a shared budget"
        raise ParameterError("holdout", allowed=allowed, given=holdout)
    with schema_file.lines_from(schema, entry=entry):
        shown = resolve_table(engine, table, declared, view)  # raises what is wrong before the ledger is touched
    _check_real_booleans(shown.info, schema, entry)
    if share is not None:
        if shown.view is not None:
            raise ParameterError("holdout", allowed="left out for a view over several tables", given=holdout)
        check_free_name(engine, shown.info.name)
    if cap_nano is not None or share_budget:
        for info in shown.private:
            _check_closed(engine, info)
    marks = identities_given(ledger.entries(event=LOOKUP))
    here = sharing_datasets(list(registered_datasets(ledger).values()), shown)
    check_no_other_ledger(here, [base for base in shown.bases if base.identity not in marks])
    decided: list[Dataset] = []  # the dataset of the last call of `decide`

    def decide(into: Block) -> Registration:
        resolved = resolve_table(engine, table, declared, view)
        info, spelled, proof = resolved.info, resolved.schema, resolved.view
        registered = datasets_of(fold(into.registrations())).values()
        datasets = [dataset for dataset in registered if not dataset.is_hold_out]  # a hold-out goes with its table
        looked_up = identities_given(fold(into.lookups()))
        sharing = sharing_datasets(datasets, resolved)
        strangers = [base for base in resolved.bases if base.identity not in looked_up]
        earlier, account = earlier_dataset(sharing, info, strangers, replace=replace, share=share_budget)
        now = resolved.base([engine.identify(into, base) for base in resolved.bases], earlier.base if earlier else None)
        number = earlier.id if earlier else f"{info.name[:40]}-{secrets.token_hex(4)}"
        place, columns = (info.schema, info.table), columns_used(info, spelled)
        spelled = _with_lookups(spelled, fold(into.lookups()), now)
        dataset = Dataset(number, info.name, place, now, spelled, columns, info.definition,
                          many=proof is not None, account=account)  # fmt: skip
        if proof is None:
            dataset = _with_hold_out(into, engine.dialect, info, dataset, earlier, share)
        else:
            check_no_hold_out(earlier)
        if holdout_nano is not None and dataset.hold_out is None:
            raise ParameterError("holdout_cap", allowed="given only with a hold-out", given=holdout_cap)
        check_conditions(engine, dataset)
        _check_disjoint(into, dataset)
        others = [other for other in datasets if other.id != number]
        check_not_public(engine, others, resolved.bases)
        if proof is not None:
            private = [(other.table, other.base) for other in others]
            check_public(engine, proof, private, own_marks=looked_up, before=earlier.base if earlier else None)
        if earlier is not None:
            _check_unit(into, engine.dialect, earlier, dataset)
        members = [other for other in others if other.payer == dataset.payer]
        check_same_person(members, dataset, lambda member: _unit_expression(engine.dialect, member))
        check_no_public_features([dataset, *members])
        check_undivided([dataset, *members])
        if account:
            check_account_cap(into, account, cap_nano)
        decided[:] = [dataset]
        moved = earlier is not None and _batches_moved(engine.dialect, earlier, dataset)
        details = dataset.details() | (limits if earlier else usual | limits)
        beside = register_hold_out(into, dataset, details, cap_nano, holdout_nano)
        return Registration(number, dataset.table, details, replace=earlier is not None, fold=moved, beside=beside)

    # What shares a budget has none of its own: a cap of 0, which older versions of dpsql respect too.
    entered = ledger.register_as(decide, 0 if share_budget else cap_nano, who)
    return with_account(ledger, dataclasses.replace(decided[0], registration=entered.entry_id))


def _check_real_booleans(info: TableInfo, schema: object, entry: str | None) -> None:
    """Refuse a mapping in Python that declares real booleans where the column stores none."""
    if not isinstance(schema, Mapping):
        return
    declared = schema if entry is None else schema[entry]
    problems = ProblemList()
    problems.collected += real_booleans(info, declared)
    problems.refuse()


def _with_hold_out(
    into: Block, dialect: str, info: TableInfo, dataset: Dataset, earlier: Dataset | None, share: int | None
) -> Dataset:
    """Return a dataset with its hold-out, if it has one; the columns that divide its units are checked at each run."""
    before = () if earlier is None or earlier.hold_out is None else earlier.hold_out.columns
    alike = earlier is None or all(
        _base_expression(dialect, earlier, name) == _base_expression(dialect, dataset, name) is not None
        for name in before
    )
    hold_out = decide_hold_out(into, info, dataset.schema, earlier, share, reads_alike=alike)
    if hold_out is None:
        return dataset
    return dataclasses.replace(
        dataset, hold_out=hold_out, columns={**column_types(info, hold_out.columns), **dataset.columns}
    )


def _check_closed(engine: Engine, info: TableInfo) -> None:
    """Refuse a private table that an analyst can name: the database's planner would tell them how many rows it has."""
    for way in engine.ways_in(info):
        raise UsageError(way.state, hint=way.fix)


def sharing_datasets(datasets: Sequence[Dataset], resolved: Resolved) -> list[Dataset]:
    """Return the datasets whose budget rows of these tables have, and the one in their place.

    This is decided inside the ledger's block: of two who register the same rows at the same moment, one sees the other.
    """
    place = (resolved.info.schema, resolved.info.table)
    return [
        dataset
        for dataset in datasets
        if dataset.place == place or any(dataset.base.shares(base) for base in resolved.bases)
    ]


def _unit_expression(dialect: str, dataset: Dataset) -> str | None:
    """Return what the unit of a dataset is made of in its base tables, as text to compare; None for rows."""
    column = dataset.schema.unit.column
    return None if column is None else _base_expression(dialect, dataset, column)


def _with_lookups(schema: Schema, entries: Sequence[Entry], base: Base) -> Schema:
    """Return a schema that names all columns of its table that were ever looked up, whatever its file says."""
    return dataclasses.replace(schema, looked_up=tuple(sorted({*schema.looked_up, *columns_in(entries, base)})))


def _check_unit(into: Block, dialect: str, earlier: Dataset, dataset: Dataset) -> None:
    """Refuse another privacy unit once anything is spent, of whatever kind: losses of two units do not add up."""
    unit, column = dataset.schema.unit, dataset.schema.unit.column
    same = (
        column is None
        or _base_expression(dialect, earlier, column) == _base_expression(dialect, dataset, column) is not None
    )
    both = (earlier.payer, hold_out_name(earlier.payer))
    rows = into.rows("SELECT spent FROM dpsql.budget WHERE dataset = ? OR dataset = ?", both)
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
                hint=f"first say what holds: dpsql register --table {shlex.quote(other.table)} --schema FILE "
                "--cap EPSILON --replace",
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
    """Return what a column of a dataset is made of in its base table, as text to compare.

    The unit of a view over several tables has the same name in each of them.
    """
    is_unit = dataset.many and column == dataset.schema.unit.column
    return expression_of("" if is_unit else dataset.definition, dialect, column)


def set_table_cap(
    engine: Engine,
    book: Ledger,
    table: str,
    cap: object | None,
    *,
    who: str,
    analyst: str | None = None,
    default_analyst: bool = False,
    kind: str = "pure",
    delta: object | None = None,
    selection_delta: object | None = None,
    allow_large: bool = False,
) -> Budget:
    """Set a dataset's cap, or one analyst's cap under it, and return the budget.

    With `default_analyst` it is the cap of every analyst who has none of their own; None lifts it.

    A delta makes it a cap of kind "approximate". It is stored as the rho that epsilon and delta together allow, once
    `selection_delta` is set aside of delta for selections of common values (where it is left out, what was set aside
    before stays so).
    """
    if default_analyst and analyst is not None:
        raise UsageError(
            f'a cap is for "{analyst}" or for all analysts without one, not both.',
            hint="--analyst NAME, or --default-analyst",
        )
    if analyst == ANY_ANALYST:
        raise ParameterError("analyst", allowed="the name of one analyst", given=analyst, hint="--default-analyst")
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
    note_large("cap", nano, allow_large=allow_large, table=dataset.table)
    details: dict[str, str] = {}
    if nano is not None and delta is not None:
        allowance = approximate(nano, parse_delta(delta), _set_aside(book, dataset, selection_delta))
        details = {"epsilon": format_epsilon(nano), "delta": format_delta(allowance.delta)}
        if allowance.selection_delta:
            details["selection_delta"] = format_delta(allowance.selection_delta)
        nano = allowance.nano_rho
    if nano is not None and book.budget(dataset.payer).cap is None:  # public data until now
        for schema, name in dataset.private_places:
            info = engine.table(name, schema=schema)
            if info is not None:
                _check_closed(engine, info)
    whose = ANY_ANALYST if default_analyst else analyst
    book.set_cap(dataset.payer, nano, who, analyst=whose, kind=kind, details=details)
    return book.budget(dataset.payer, kind)


def _set_aside(book: Ledger, dataset: Dataset, selection_delta: object | None) -> Decimal:
    """Return the part of delta to set aside for selections: as given, or as the last cap of that kind had it."""
    if selection_delta is not None:
        return parse_delta(selection_delta, "selection_delta")
    kinds = book.kinds(dataset.payer)
    return book.budget(dataset.payer, "approximate").selection_delta if "approximate" in kinds else Decimal(0)


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
    book.set_limits(dataset.payer, who, lost_runs=lost_runs, least_epsilon=least_epsilon)
    return book.budget(dataset.payer)


def accept_table_runs(engine: Engine, book: Ledger, table: str, *, who: str) -> Budget:
    """Accept a dataset's unfinished runs, so that further ones are charged again, and return the budget."""
    dataset = registered_datasets(book).get(table.lower()) or find_dataset(engine, book, table)
    book.accept_runs(dataset.payer, who)
    return book.budget(dataset.payer)
