"""How columns without a type are read: cells of CSV are text, and the declared schema says what they mean.

A numeric feature, or a stored part, is what TRY_CAST makes of a cell, which is NULL where the cell holds no number. So
reading cannot fail, whatever a cell holds. A date or timestamp is likewise what TRY_CAST makes of it as a TIMESTAMP.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from dpsql.compile.vocabulary import column
from dpsql.engines.base import Column, TableInfo
from dpsql.schema import Boolean, Dated, Numeric, Schema

#: The family of columns without a type.
UNTYPED = "untyped"


def fits_families(candidate: Column, families: tuple[str, ...]) -> bool:
    """Whether a column's type is of one of these families, or it has no type and its text will be read as such."""
    return candidate.family in families or candidate.family == UNTYPED


def typed_expressions(info: TableInfo, schema: Schema) -> dict[str, exp.Expr]:
    """Return the expression that each untyped column is read by, by its name in the schema; text is read as it is."""
    return {
        name: exp.TryCast(this=column(name), to=exp.DataType.build(kind))
        for name, kind in _declared_types(info, schema)
    }


def types_read(info: TableInfo, schema: Schema) -> dict[str, str]:
    """Return the type of every column as conditions on rows see it."""
    return {entry.name: entry.type for entry in info.columns} | dict(_declared_types(info, schema))


def _declared_types(info: TableInfo, schema: Schema) -> Iterator[tuple[str, str]]:
    """Yield the name of each untyped column that is not text by the schema, and the type that the schema gives it."""
    types = {feature.name: "DOUBLE" for feature in schema.features if isinstance(feature, Numeric)}
    types |= {feature.name: "TIMESTAMP" for feature in schema.features if isinstance(feature, Dated)}
    types |= {feature.name: "BOOLEAN" for feature in schema.features if isinstance(feature, Boolean)}
    if schema.has_label and schema.target is not None:
        types[schema.label] = "DOUBLE"
    if schema.partition is not None and schema.parts is not None:
        types[schema.partition] = "BIGINT"
    for name, kind in types.items():
        entry = info.column(name)
        if entry is not None and entry.family == UNTYPED:
            yield name, kind
