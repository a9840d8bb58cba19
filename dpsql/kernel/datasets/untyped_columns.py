"""How columns without a type are read: cells of CSV are text, and the declared schema says what they mean.

A numeric feature is what TRY_CAST makes of a cell, NULL where it holds no number; no cell can make it fail.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from dpsql.compile.vocabulary import column
from dpsql.engines.base import Column, TableInfo
from dpsql.schema import Boolean, Numeric, Schema

UNTYPED = "untyped"


def fits_families(found: Column, families: tuple[str, ...]) -> bool:
    """Whether a column can have a role: its type is right, or it has none and its text will be read so."""
    return found.family in families or found.family == UNTYPED


def typed_expressions(info: TableInfo, schema: Schema) -> dict[str, exp.Expr]:
    """Return what each untyped column is read as, by its name in the schema; text needs no reading."""
    return {name: exp.TryCast(this=column(name), to=exp.DataType.build(kind)) for name, kind in _meant(info, schema)}


def types_read(info: TableInfo, schema: Schema) -> dict[str, str]:
    """Return the type of every column as conditions on rows see it."""
    return {found.name: found.type for found in info.columns} | dict(_meant(info, schema))


def _meant(info: TableInfo, schema: Schema) -> Iterator[tuple[str, str]]:
    kinds = {one.name: "DOUBLE" for one in schema.features if isinstance(one, Numeric)}
    kinds |= {one.name: "BOOLEAN" for one in schema.features if isinstance(one, Boolean)}
    if schema.has_label and schema.target is not None:
        kinds[schema.label] = "DOUBLE"
    for name, kind in kinds.items():
        found = info.column(name)
        if found is not None and found.family == UNTYPED:
            yield name, kind
