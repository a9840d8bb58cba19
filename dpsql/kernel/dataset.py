"""Registered datasets: the table, its declared schema, and the proof that neither has changed since.

A dataset is found by its table's name, never guessed: a copy or an unregistered view has no budget. A view counts
only when it is provably row-to-row on one base table, and then its base table is what is registered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dpsql.compile.source import Source, table
from dpsql.compile.tables import tables_read
from dpsql.engines.base import Engine, TableInfo
from dpsql.errors import DatabaseError, NotRegistered, ParameterError, SchemaError, TableChanged, UnknownName
from dpsql.kernel.readings import fits, readings
from dpsql.kernel.views import look_up, unfold
from dpsql.ledger import Entry, Ledger
from dpsql.ledger.charge import check_text
from dpsql.schema import Boolean, Categorical, Numeric, Schema

#: Types that a label may have, and a label that is a numeric target.
LABEL_FAMILIES = ("text", "integer", "boolean")
TARGET_FAMILIES = ("integer", "real")
_FITTING = {
    Numeric: ("integer", "real"),
    Categorical: ("text", "integer", "boolean", "date"),
    Boolean: ("boolean",),
}


@dataclass(frozen=True)
class Dataset:
    """A registered table: its id in the ledger, its name, its schema, and the columns it had when registered."""

    id: str
    table: str
    base: str
    schema: Schema
    columns: Mapping[str, str]
    definition: str = ""

    def details(self) -> dict[str, Any]:
        """Return what the registration entry stores."""
        # As text, because the ledger sorts keys and the order of features has a meaning.
        schema = json.dumps(self.schema.to_dict(), ensure_ascii=False)
        return {
            "schema": schema,
            "base": self.base,
            "columns": dict(self.columns),
            "definition": self.definition,
        }


def find(engine: Engine, ledger: Ledger, name: str) -> Dataset:
    """Return the dataset registered for a table, after checking that the table is still as it was."""
    known = registered(ledger)
    dataset = known.get(name.lower())
    info = engine.table(name)
    if dataset is None and info is not None:
        dataset = known.get(info.name.lower())
    if dataset is None:
        if info is None:
            raise UnknownName("table", name, engine.tables())
        raise NotRegistered(name, (one.table for one in known.values()))
    check_unchanged(engine, dataset)
    return dataset


def registered(ledger: Ledger) -> dict[str, Dataset]:
    """Return the registered datasets by table name in lower case, each as last registered."""
    found: dict[str, Dataset] = {}
    for entry in ledger.entries(event="register"):
        dataset = _from_entry(entry)
        found = {name: one for name, one in found.items() if one.id != dataset.id}
        found[dataset.table.lower()] = dataset
    return found


def resolve(engine: Engine, name: str, schema: Schema) -> tuple[TableInfo, str, Schema]:
    """Return a table's catalog entry, its base table, and the schema as the catalog spells it."""
    info = engine.table(name)
    if info is None:
        raise UnknownName("table", name, engine.tables())
    spelled = _spelled(info, schema)
    return info, _base(engine, info), spelled


def columns_used(info: TableInfo, schema: Schema) -> dict[str, str]:
    """Return the type of every column that the schema names."""
    names = [schema.label] if schema.labelled else []
    names += [feature.name for feature in schema.features]
    names += [name for name in (schema.unit.column, schema.partition, schema.batch) if name is not None]
    return {name: _type(info, name) for name in names}


def check_unchanged(engine: Engine, dataset: Dataset) -> None:
    """Raise TableChanged unless the table still has the columns and the base it was registered with."""
    hint = f"dpsql register --table {dataset.table} --schema FILE --replace"
    info = engine.table(dataset.table)
    if info is None:
        raise TableChanged(f'table "{dataset.table}" was registered but is no longer there.', hint=hint)
    for name, kind in dataset.columns.items():
        column = info.column(name)
        if column is None:
            raise TableChanged(
                f'table "{dataset.table}" has lost its column "{name}" since it was registered.', hint=hint
            )
        if column.type != kind:
            raise TableChanged(
                f'column "{name}" of "{dataset.table}" was {kind} when registered and is {column.type} now.',
                hint=hint,
            )
    if _base(engine, info) != dataset.base:
        raise TableChanged(f'view "{dataset.table}" reads another table than when it was registered.', hint=hint)
    if info.definition != dataset.definition:
        raise TableChanged(f'view "{dataset.table}" was redefined since it was registered.', hint=hint)


def scope(dataset: Dataset, batch: str | None) -> str:
    """Return the ledger's scope of a batch: its rows alone, where no unit can have rows in two batches.

    Rows are in one batch each. A person's rows may be in several, so at unit level the whole table is charged.
    """
    if batch is None:
        return ""
    if dataset.schema.batch is None:
        raise ParameterError(
            "batch", allowed=f'given only where the schema of "{dataset.table}" declares a batch column', given=batch
        )
    check_text("batch", batch)  # the number 0 is not the text "0": a batch must not go by two names
    return f"{dataset.schema.batch}={batch}" if dataset.schema.unit.column is None else ""


def source(engine: Engine, dataset: Dataset, batch: str | None = None) -> Source:
    """Return where the dataset's rows are: the table, or a view unfolded onto its base table, or one batch of it."""
    rows = _all_rows(engine, dataset)
    return rows if batch is None else rows.only(str(dataset.schema.batch), batch)


def _all_rows(engine: Engine, dataset: Dataset) -> Source:
    info = engine.table(dataset.table)
    if info is None:
        raise UnknownName("table", dataset.table, engine.tables())
    redefined = engine.redefined()
    if redefined:
        raise DatabaseError(
            f"the database redefines the built-in function {redefined[0]}, which training relies on.",
            hint="drop that macro",
        )
    if info.kind == "table":
        read, place = readings(info, dataset.schema), table(info.table, info.schema)
        rows = Source(dataset.schema, place, read, whole=info.integers, decimals=info.decimals)
    else:
        base, view = unfold(engine, info)
        place = table(base.table, base.schema)
        rows = Source(dataset.schema, place, dict(view.columns), view.where, info.integers, info.decimals)
    return replace(rows, labelled=dataset.schema.labelled)


def _base(engine: Engine, info: TableInfo) -> str:
    base = info if info.kind == "table" else unfold(engine, info)[0]
    return f"{base.schema}.{base.table}"


def _spelled(info: TableInfo, schema: Schema) -> Schema:
    """Return the schema with column names as the catalog spells them, or say which column is missing or misfits."""
    declared = schema.to_dict()
    families, role = (LABEL_FAMILIES, "the label") if schema.target is None else (TARGET_FAMILIES, "a numeric target")
    if schema.labelled:
        declared["label"] = _fitting(info, schema.label, families, role)
    features = {}
    for feature in schema.features:
        name = _fitting(info, feature.name, _FITTING[type(feature)], f"a {feature.kind} feature")
        features[name] = declared["features"][feature.name]
    declared["features"] = features
    if schema.unit.column is not None:
        name = _fitting(info, schema.unit.column, _KEYS, "the privacy unit")
        declared["privacy_unit"]["column"] = name
    if schema.partition is not None:
        declared["partition"] = _fitting(info, schema.partition, _KEYS, "the partition column")
    if schema.batch is not None:
        declared["batch"] = _fitting(info, schema.batch, LABEL_FAMILIES, "the batch column")
    return Schema.from_dict(declared)


_KEYS = ("integer", "real", "text", "boolean", "date", "other")


def _fitting(info: TableInfo, name: str, families: tuple[str, ...], role: str) -> str:
    column = info.column(name)
    if column is None:
        raise UnknownName(f'column in table "{info.name}" called', name, (one.name for one in info.columns))
    if not fits(column, families):
        raise SchemaError(
            f'column "{name}" of "{info.name}" is {column.type}; {role} must be {" or ".join(families)}.',
            hint=f"dpsql schema draft --table {info.name}",
        )
    return column.name


def _type(info: TableInfo, name: str) -> str:
    column = info.column(name)
    return column.type if column else ""


def _from_entry(entry: Entry) -> Dataset:
    details = entry.details
    schema = Schema.from_dict(json.loads(details["schema"]))
    return Dataset(entry.dataset, entry.table, details["base"], schema, details["columns"], details["definition"])


def fit_features(info: TableInfo, schema: Schema) -> None:
    """Raise unless a table has every feature of the schema in a fitting type."""
    for feature in schema.features:
        _fitting(info, feature.name, _FITTING[type(feature)], f"a {feature.kind} feature")


def exposed(engine: Engine, ledger: Ledger, info: TableInfo) -> str | None:
    """Return the registered table whose rows a table or view would show, or None."""
    private = {}
    for dataset in registered(ledger).values():
        private[dataset.base.lower()] = dataset.table
        private[_full_name(dataset.table).lower()] = dataset.table
    return _exposed(engine, info, private, depth=0)


def _exposed(engine: Engine, info: TableInfo, private: Mapping[str, str], *, depth: int) -> str | None:
    found = private.get(f"{info.schema}.{info.table}".lower())
    if found is not None or info.kind == "table":
        return found
    read = tables_read(info.definition, engine.dialect)
    if depth > 20 or read is None:
        return next(iter(private.values()), None)
    for schema, name in read:
        inner = look_up(engine, schema, name, info.schema)
        hit = _exposed(engine, inner, private, depth=depth + 1) if inner else None
        if hit is not None:
            return hit
    return None


def _full_name(table: str) -> str:
    return table if "." in table else f"main.{table}"
