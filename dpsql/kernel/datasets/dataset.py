"""Registered datasets: the table, its declared schema, and the proof that neither has changed since.

A dataset is found by the schema and the name of its table. The table there must still be the one that was registered,
by the database's own identity of tables (`kernel/datasets/identity.py`). A copy or an unregistered view has no budget.
A view can be registered if it is provably row-to-row on one base table; what is registered is then its base table. A
view or query over several tables can be registered if each of its rows provably depends on one unit
(`kernel/datasets/many_tables.py`); what is registered is then every private table that it reads.
"""

from __future__ import annotations

import copy
import functools
import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from dpsql.compile.rows import Source, table_reference
from dpsql.compile.views.condition_text import tests_of
from dpsql.compile.views.row_to_row import RowView
from dpsql.engines.base import Column, Engine, TableInfo
from dpsql.errors import DatabaseError, NotRegistered, ParameterError, SchemaError, TableChanged, UnknownName
from dpsql.kernel.datasets.column_checks import HINT, why_unreliable
from dpsql.kernel.datasets.hashed_columns import HASHED_FAMILIES, check_hashed
from dpsql.kernel.datasets.hold_out import HoldOut, hold_out_name, without_suffix
from dpsql.kernel.datasets.identity import Base, why_private
from dpsql.kernel.datasets.looked_up_columns import LOOKUP, identities_given
from dpsql.kernel.datasets.many_tables import ProvedView, check_public, prove_view, query_info, view_source, why_changed
from dpsql.kernel.datasets.possible_values import impossible_declarations, unreadable_features
from dpsql.kernel.datasets.untyped_columns import fits_families, typed_expressions, types_read
from dpsql.kernel.datasets.view_datasets import unfold
from dpsql.ledger import Entry, Ledger
from dpsql.ledger.charge import check_text
from dpsql.schema import Boolean, Categorical, Dated, Feature, Hashed, Numeric, Schema
from dpsql.schema.problems import ProblemList

#: The families of types that a label with classes may have.
LABEL_FAMILIES = ("text", "integer", "boolean")
#: The families of types that a numeric target may have.
TARGET_FAMILIES = ("integer", "real")
#: The families of types that a unit's column or a partition column may have: any, as values are only compared.
_KEY_FAMILIES = ("integer", "real", "text", "boolean", "date", "timestamp", "other")
#: The families of types that a column may have which says the part itself.
_PART_FAMILIES = ("integer",)
#: The families of types that each kind of feature may have.
_FEATURE_FAMILIES = {
    Numeric: ("integer", "real"),
    Categorical: ("text", "integer", "boolean", "date"),
    Boolean: ("boolean",),
    Hashed: HASHED_FAMILIES,
    Dated: ("date", "timestamp"),
}


@dataclass(frozen=True)
class Dataset:
    """A registered table: its id in the ledger, its name, its schema, and the columns that it had when registered.

    `place` is the schema and the name of the table or view in the database, `base` is the stored table behind it,
    `definition` is the SQL of a view, and `registration` is the number of the ledger entry that says all this.
    `hold_out` says how units are divided where one table has two datasets, and which of the two this is. `many`
    says that it is a view or a query over several tables; a query's place has no schema. `account` is the id of the
    dataset whose budget it pays from, "" where it has its own, and `account_table` is that dataset's table.
    """

    id: str
    table: str
    place: tuple[str, str]
    base: Base
    schema: Schema
    columns: Mapping[str, str]
    definition: str = ""
    registration: int = 0
    hold_out: HoldOut | None = None
    many: bool = False
    account: str = ""
    account_table: str = ""

    @property
    def is_hold_out(self) -> bool:
        """Whether this is a hold-out: the units of a table that no model is trained on."""
        return self.hold_out is not None and self.hold_out.for_evaluation

    @property
    def payer(self) -> str:
        """The id of the dataset whose budget pays for runs on this one."""
        return self.account or self.id

    @property
    def payer_table(self) -> str:
        """The table of that dataset, which charges name."""
        return self.account_table or self.table

    @property
    def private_places(self) -> list[tuple[str, str]]:
        """Schema and name of each table or view that analysts must not reach: its own, or all that it reads."""
        own = [self.place] if self.place[0] else []
        return [*own, *((schema, table) for schema, table, _ in self.base.tables)] if self.many else [self.place]

    def details(self) -> dict[str, Any]:
        """Return what the registration entry stores."""
        # The schema is stored as text, because the ledger sorts keys, and the order of features has a meaning.
        schema = json.dumps(self.schema.to_dict(), ensure_ascii=False)
        return {
            "schema": schema,
            "place": list(self.place),
            "base": self.base.stored_values(),
            "columns": dict(self.columns),
            "definition": self.definition,
            **({} if self.hold_out is None else {"holdout": self.hold_out.stored_values()}),
            **({"many": True} if self.many else {}),
            **({"account": self.account} if self.account else {}),
        }


def find_dataset(engine: Engine, ledger: Ledger, name: str) -> Dataset:
    """Return the dataset that is registered for a table, after checking that the table is still as it was.

    A ledger of an older format, which knows tables by name alone, is upgraded first.
    """
    ledger.upgrade()
    return look_at_dataset(engine, ledger, name)


def look_at_dataset(engine: Engine, ledger: Ledger, name: str) -> Dataset:
    """Return what `find_dataset` returns, and write nothing: for plans, which read no row, and for looks at the ledger.

    In a ledger of the first format a table is known by its name alone. A run must not rely on that.
    """
    hold_out = _hold_out_named(ledger, name)
    if hold_out is not None:
        check_unchanged(engine, hold_out)
        return hold_out
    info = engine.table(name)
    dataset = _dataset_at(ledger.registrations(info.name), info) if info else None
    if dataset is None:
        dataset = _search(engine, ledger, name, info)
    same_place = info is not None and dataset.place == (info.schema, info.table)
    if dataset.many:
        own_marks = identities_given(ledger.entries(event=LOOKUP))
        check_public(engine, _check_many(engine, dataset), private_tables(ledger), own_marks=own_marks)
    else:
        _check_catalog(engine, dataset, info if same_place else _catalog(engine, dataset))
    return with_account(ledger, dataset)


def with_account(ledger: Ledger, dataset: Dataset) -> Dataset:
    """Return a dataset with the table of the dataset whose budget it pays from."""
    return replace(dataset, account_table=ledger.budget(dataset.account).table) if dataset.account else dataset


def _hold_out_named(ledger: Ledger, name: str) -> Dataset | None:
    """Return the hold-out that has a name, or None. It has no table of its own in the catalog."""
    entry = registration_of(ledger, name) if without_suffix(name) != name else None
    dataset = None if entry is None else _from_entry(entry)
    return dataset if dataset is not None and dataset.is_hold_out else None


def hold_out_of(ledger: Ledger, dataset: Dataset) -> Dataset | None:
    """Return the hold-out of a dataset's table, or None where it has none."""
    if dataset.hold_out is None or dataset.is_hold_out:
        return None
    return _hold_out_named(ledger, hold_out_name(dataset.table))


def _search(engine: Engine, ledger: Ledger, name: str, info: TableInfo | None) -> Dataset:
    """Return the dataset of a table from all registrations, or raise an error that says why there is none."""
    entries = ledger.registrations()
    dataset = _dataset_at(entries, info) if info else None
    named = next((entry for entry in entries if entry.table.lower() == name.lower()), None)
    if dataset is None and named is not None:
        dataset = _from_entry(named)
    if dataset is None:
        if info is None:
            raise UnknownName("table", name, engine.tables())
        _check_renamed(info, entries)
        raise NotRegistered(name, (entry.table for entry in entries))
    return dataset


def _dataset_at(entries: Iterable[Entry], info: TableInfo) -> Dataset | None:
    """Return the dataset whose table or view is in that place, or None. No other schema is parsed."""
    places = ((entry, _place_and_base(entry)[0]) for entry in entries if not _is_hold_out(entry))
    return next((_from_entry(entry) for entry, place in places if place == (info.schema, info.table)), None)


def registration_of(ledger: Ledger, table: str) -> Entry | None:
    """Return the last registration of the dataset whose table has that name, in upper or lower case, or None."""
    entries = ledger.registrations(table)
    return next((entry for entry in entries if entry.table.lower() == table.lower()), None)


def account_of(entry: Entry) -> str:
    """Return the id of the dataset whose budget pays for the dataset that an entry registers."""
    return str(entry.details.get("account") or entry.dataset)


def private_tables(ledger: Ledger) -> list[tuple[str, Base]]:
    """Return the name and the stored table of each registered dataset."""
    return [(entry.table, _place_and_base(entry)[1]) for entry in ledger.registrations() if not _is_hold_out(entry)]


def _is_hold_out(entry: Entry) -> bool:
    """Whether a registration is that of a hold-out, which shares its table with another dataset."""
    hold_out = HoldOut.read(entry.details.get("holdout"))
    return hold_out is not None and hold_out.for_evaluation


def registered_datasets(ledger: Ledger) -> dict[str, Dataset]:
    """Return the registered datasets by table name in lower case, each as last registered."""
    return datasets_of(ledger.registrations())


def datasets_of(entries: Iterable[Entry]) -> dict[str, Dataset]:
    """Return the datasets that some entries register, by table name in lower case, each as last registered."""
    last = {entry.dataset: _from_entry(entry) for entry in entries if entry.event == "register"}
    return {dataset.table.lower(): dataset for dataset in last.values()}


def resolve(engine: Engine, name: str, schema: Schema) -> tuple[TableInfo, TableInfo, Schema]:
    """Return a table's catalog entry, that of its base table, and the schema as the catalog spells it."""
    info = engine.table(name)
    if info is None:
        raise UnknownName("table", name, engine.tables())
    if info.unfit:
        raise SchemaError(f'"{info.name}" {info.unfit}.', hint=info.remedy or HINT)
    spelled = _catalog_spelling(info, schema)
    unreliable = why_unreliable(engine, info, columns_used(info, spelled))
    if unreliable is not None:
        raise SchemaError(unreliable, hint=info.remedy or HINT)
    return info, _base_of_view(engine, info)[0], spelled


def resolve_view(engine: Engine, name: str, text: str | None, schema: Schema) -> tuple[ProvedView, Schema]:
    """Return the proof of a view or query over several tables, and the schema as its columns are spelled.

    `text` is the query, or None for a view of the database. Where a unit has at most one row, the schema says so.
    """
    info = query_info(name, text) if text is not None else engine.table(name)
    if info is None:
        raise UnknownName("table", name, engine.tables())
    view = prove_view(engine, info, schema)
    spelled = _catalog_spelling(view.info, schema)
    return view, replace(spelled, unit=replace(spelled.unit, max_rows=1)) if view.single else spelled


def columns_used(info: TableInfo, schema: Schema) -> dict[str, str]:
    """Return the type of every column that the schema, or one of its conditions, names."""
    names = [schema.label] if schema.has_label else []
    names += [feature.name for feature in schema.features]
    names += [name for name in (schema.unit.column, schema.partition, schema.batch) if name is not None]
    tested = {test.column for _, text in schema.conditions for test in tests_of(text)}
    names += [column.name for column in info.columns if column.name.lower() in {name.lower() for name in tested}]
    return column_types(info, names)


def column_types(info: TableInfo, names: Iterable[str]) -> dict[str, str]:
    """Return the type of each of these columns, as registrations store it."""
    return {name: _type(info.column(name)) for name in names}


def check_unchanged(engine: Engine, dataset: Dataset) -> None:
    """Raise TableChanged unless the table is still the one that was registered, with its columns and its base."""
    if dataset.many:
        _check_many(engine, dataset)
    else:
        _check_catalog(engine, dataset, _catalog(engine, dataset))


def _check_many(engine: Engine, dataset: Dataset) -> ProvedView:
    """Return a new proof of a view over several tables, or raise TableChanged where it, or a table, has changed."""
    hint = _register_again(dataset.table)
    info = _catalog(engine, dataset)
    if info is None:
        raise TableChanged(f'view "{dataset.table}" was registered but is no longer there.', hint=hint)
    if info.definition != dataset.definition:
        raise TableChanged(f'view "{dataset.table}" was redefined since it was registered.', hint=hint)
    try:
        view = prove_view(engine, info, dataset.schema)
    except SchemaError as error:
        raise TableChanged(error.message, hint=hint) from None
    changed = why_changed(view, dataset.base)
    if changed is not None:
        raise TableChanged(changed, hint=f"{hint}   (the new rows share the old budget)")
    _check_columns(dataset, view.info)
    return view


def _check_catalog(
    engine: Engine, dataset: Dataset, info: TableInfo | None
) -> tuple[TableInfo, TableInfo, RowView | None]:
    """Return a dataset's table, its base table and what a view makes of it, or raise TableChanged.

    `info` is what the catalog says now. The caller uses what is returned, which is what was checked: between two looks
    at the catalog another table could take the name.
    """
    hint = _register_again(dataset.table)
    if info is None:
        raise TableChanged(f'table "{dataset.table}" was registered but is no longer there.', hint=hint)
    _check_columns(dataset, info)
    base, view = _base_of_view(engine, info)
    if not dataset.base.is_place(base):
        raise TableChanged(f'view "{dataset.table}" reads another table than when it was registered.', hint=hint)
    if not dataset.base.is_same(base):
        raise TableChanged(
            f'"{base.name}" is not the table that was registered: it was made anew, or another took its name.',
            hint=f"{hint}   (the new rows share the old budget)",
        )
    if dataset.base.has_grown(base):
        raise TableChanged(f'table "{base.name}" has other parts than when it was registered.', hint=hint)
    if info.definition != dataset.definition:
        raise TableChanged(f'view "{dataset.table}" was redefined since it was registered.', hint=hint)
    unreliable = why_unreliable(engine, info, dataset.columns)
    if unreliable is not None:
        raise TableChanged(unreliable, hint=info.remedy or HINT)
    return info, base, view


def _check_columns(dataset: Dataset, info: TableInfo) -> None:
    """Raise TableChanged unless a table has the columns, with the types, that it had when it was registered."""
    hint = _register_again(dataset.table)
    for name, kind in dataset.columns.items():
        column = info.column(name)
        if column is None:
            raise TableChanged(
                f'table "{dataset.table}" has lost its column "{name}" since it was registered.', hint=hint
            )
        now = _type(column)
        if now != kind:
            raise TableChanged(
                f'column "{name}" of "{dataset.table}" was {kind} when registered and is {now} now.',
                hint=hint,
            )


def scope(dataset: Dataset, batch: str | None) -> str:
    """Return the scope of a charge: the rows of a batch where a unit is one row, and otherwise the whole table ("").

    A row is in one batch. The rows of a unit with several rows may be in several batches, so the whole table is charged
    for it.
    """
    if batch is None:
        return ""
    if dataset.schema.batch is None:
        raise ParameterError(
            "batch", allowed=f'given only where the schema of "{dataset.table}" declares a batch column', given=batch
        )
    check_text("batch", batch)  # The number 0 is not the text "0": a batch must not have two names.
    return f"{dataset.schema.batch}={batch}" if dataset.schema.unit.column is None else ""


def source(engine: Engine, dataset: Dataset, batch: str | None = None) -> Source:
    """Return where the dataset's rows are: the table, or a view unfolded onto its base table, or one batch of it.

    Raises TableChanged when the table is not the one that was registered.
    """
    if dataset.many:
        rows = _many_rows(engine, dataset, _check_many(engine, dataset))
    else:
        rows = _all_rows(engine, dataset, *_check_catalog(engine, dataset, _catalog(engine, dataset)))
    return rows if batch is None else rows.with_value(str(dataset.schema.batch), batch)


def source_to_register(engine: Engine, dataset: Dataset) -> Source:
    """Return where the rows of a dataset are before it is registered, when no identity is known to compare with."""
    info = _catalog(engine, dataset)
    if info is None:
        raise UnknownName("table", dataset.table, engine.tables())
    if dataset.many:
        return _many_rows(engine, dataset, prove_view(engine, info, dataset.schema))
    return _all_rows(engine, dataset, info, *_base_of_view(engine, info))


def _many_rows(engine: Engine, dataset: Dataset, view: ProvedView) -> Source:
    """Return where all rows of a view over several tables are."""
    _check_functions(engine)
    rows = view_source(view, dataset.schema)
    return replace(rows, labelled=dataset.schema.has_label, types=types_read(view.info, dataset.schema))


def _check_functions(engine: Engine) -> None:
    """Refuse a database in which a built-in function means something else."""
    redefined = engine.redefined_functions()
    if redefined:
        raise DatabaseError(
            f"the database redefines the built-in function {redefined[0]}, which training relies on.",
            hint="drop that macro or function",
        )


def _all_rows(engine: Engine, dataset: Dataset, info: TableInfo, base: TableInfo, view: RowView | None) -> Source:
    """Return where all rows of a dataset are, given what the catalog says of its table, its base table and its view."""
    _check_functions(engine)
    if view is None:
        expressions = typed_expressions(info, dataset.schema)
        place = table_reference(info.table, info.schema)
        rows = Source(dataset.schema, place, expressions, integers=info.integers, decimals=info.decimals, reads=(info,))
    else:
        place = table_reference(base.table, base.schema)
        rows = Source(dataset.schema, place, dict(view.columns), view.where, info.integers, info.decimals)
        rows = replace(rows, reads=(info, base))
    if dataset.hold_out is not None:
        rows = rows.where_also(dataset.hold_out.test(info, rows, engine.vocabulary))
    return replace(rows, labelled=dataset.schema.has_label, types=types_read(info, dataset.schema))


def _base_of_view(engine: Engine, info: TableInfo) -> tuple[TableInfo, RowView | None]:
    """Return a table itself, or a view's base table and what the view makes of its rows."""
    return (info, None) if info.kind == "table" else unfold(engine, info)


def _catalog(engine: Engine, dataset: Dataset) -> TableInfo | None:
    """Return what the catalog says now of the table or view in a dataset's place, or None."""
    schema, name = dataset.place
    if dataset.many and not schema:
        return query_info(name, dataset.definition)
    return engine.table(name, schema=schema)


def _register_again(table: str) -> str:
    """Return the command that registers a table again."""
    return f"dpsql register --table {shlex.quote(without_suffix(table))} --schema FILE --cap EPSILON --replace"


def _check_renamed(info: TableInfo, entries: Iterable[Entry]) -> None:
    """Raise TableChanged if a table was registered under another name, and renamed since."""
    for entry in entries:
        if info.identity and info.identity == _place_and_base(entry)[1].identity:
            raise TableChanged(
                f'table "{info.name}" is registered as "{entry.table}", and was renamed since.',
                hint=_register_again(info.name),
            )


def _catalog_spelling(info: TableInfo, schema: Schema) -> Schema:
    """Return the schema with column names as the catalog spells them, or raise if a column is missing or misfits."""
    declared, problems = schema.to_dict(), ProblemList()
    families, role = (LABEL_FAMILIES, "the label") if schema.target is None else (TARGET_FAMILIES, "a numeric target")

    def spell(path: tuple[str, ...], name: str, families: tuple[str, ...], role: str) -> str:
        return problems.attempt(path, lambda: _check_fit(info, name, families, role), name)

    if schema.has_label:
        declared["label"] = spell(("label",), schema.label, families, role)
    features = {}
    for feature in schema.features:
        path, check = ("features", feature.name), partial(_check_feature, info, feature)
        name = problems.attempt(path, check, feature.name)
        features[name] = declared["features"][feature.name]
    declared["features"] = features
    if schema.unit.column is not None:
        name = spell(("privacy_unit", "column"), schema.unit.column, _KEY_FAMILIES, "the privacy unit")
        declared["privacy_unit"]["column"] = name
    if schema.partition is not None and schema.parts is None:
        declared["partition"] = spell(("partition",), schema.partition, _KEY_FAMILIES, "the partition column")
    elif schema.partition is not None:
        role = "a partition column with parts"
        declared["partition"]["column"] = spell(("partition", "column"), schema.partition, _PART_FAMILIES, role)
    if schema.batch is not None:
        declared["batch"] = spell(("batch",), schema.batch, LABEL_FAMILIES, "the batch column")
    misfits = {problem.path[:2] for problem in problems.collected}
    impossible = impossible_declarations(info, schema)
    problems.collected += [problem for problem in impossible if problem.path[:2] not in misfits]
    problems.refuse()
    return Schema.from_dict(declared)


def _check_feature(info: TableInfo, feature: Feature) -> str:
    """Return the name of a feature's column as the catalog spells it, or raise if it is missing or does not fit."""
    if isinstance(feature, Hashed):
        check_hashed(info, feature.name)
    return _check_fit(info, feature.name, _FEATURE_FAMILIES[type(feature)], f"a {feature.kind} feature")


def _check_fit(info: TableInfo, name: str, families: tuple[str, ...], role: str) -> str:
    """Return a column's name as the catalog spells it, or raise if it is missing or its type does not fit the role."""
    column = info.column(name)
    if column is None:
        raise UnknownName(f'column in table "{info.name}" called', name, (entry.name for entry in info.columns))
    if not fits_families(column, families):
        raise SchemaError(
            f'column "{name}" of "{info.name}" is {column.type}; {role} must be {" or ".join(families)}.',
            hint=f"dpsql schema draft --table {shlex.quote(info.name)}",
        )
    return column.name


def _type(column: Column | None) -> str:
    """Return a column's type.

    For an ENUM that is known by a name alone, its values are added: with another value, rows could be in other batches.
    """
    if column is None:
        return ""
    return column.type if not column.values or "(" in column.type else f"{column.type}{column.values}"


@functools.lru_cache(maxsize=256)
def _parse_schema(text: str) -> Schema:
    """Return the schema that a registration stores as text. Each text is parsed once."""
    return Schema.from_dict(json.loads(text))


def _from_entry(entry: Entry) -> Dataset:
    """Return the dataset that a ledger entry registers."""
    details = entry.details
    schema = copy.deepcopy(_parse_schema(details["schema"]))  # A copy: whoever gets it may write to it.
    columns, definition = details["columns"], details["definition"]
    place, base = _place_and_base(entry)
    hold_out = HoldOut.read(details.get("holdout"))
    many, account = bool(details.get("many")), str(details.get("account", ""))
    return Dataset(
        entry.dataset,
        entry.table,
        place,
        base,
        schema,
        columns,
        definition,
        entry.entry_id,
        hold_out=hold_out,
        many=many,
        account=account,
    )


def _place_and_base(entry: Entry) -> tuple[tuple[str, str], Base]:
    """Return where the table or view of a registration is, and the stored table behind it."""
    stored = entry.details["base"]
    if isinstance(stored, str):  # Format 1 has the name of the stored table, and no identity.
        schema, _, name = stored.partition(".")
        return ("", entry.table) if entry.details["definition"] else (schema, name), Base(
            schema, name, named_alone=True
        )
    schema, name = entry.details["place"]
    return (schema, name), Base.read(stored)


def fit_features(info: TableInfo, schema: Schema) -> None:
    """Raise an error unless a table has every feature of the schema, with a type that fits it and can hold its values.

    All that does not fit is reported at once.
    """
    problems = ProblemList()
    for feature in schema.features:
        problems.attempt(("features", feature.name), partial(_check_feature, info, feature), "")
    problems.collected += unreadable_features(info, schema) if not problems.collected else []
    problems.refuse()


def why_not_free(engine: Engine, ledger: Ledger, info: TableInfo) -> str | None:
    """Return why a table or view cannot be read for free, in words that follow its name; None where it can."""
    own_marks = identities_given(ledger.entries(event=LOOKUP))
    return why_private(engine, info, private_tables(ledger), own_marks=own_marks)
