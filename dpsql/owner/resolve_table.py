"""What an owner registers: a table, a row-to-row view of one, or a view or query over several tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dpsql.engines.base import Engine, TableInfo
from dpsql.errors import SchemaError, UsageError
from dpsql.kernel.datasets.dataset import resolve, resolve_view
from dpsql.kernel.datasets.identity import Base
from dpsql.kernel.datasets.many_tables import ProvedView, base_of
from dpsql.schema import Schema, Unit

#: The largest file with a query that is read.
MAX_BYTES = 200_000


@dataclass(frozen=True, eq=False)
class Resolved:
    """What a name or a query means now: how it looks as a table, the private tables behind it, the schema as spelled.

    `view` is the proof of a view or query over several tables, and None for everything else.
    """

    info: TableInfo
    bases: tuple[TableInfo, ...]
    schema: Schema
    view: ProvedView | None = None

    @property
    def private(self) -> tuple[TableInfo, ...]:
        """The tables and views by which analysts could reach the rows."""
        if self.view is None:
            return (self.info,)
        return self.bases if self.view.info.kind == "query" else (self.info, *self.bases)

    def base(self, identified: Sequence[TableInfo], earlier: Base | None) -> Base:
        """Return the stored tables, each with its identity, and those that had the budget before them."""
        return Base.of(identified[0], earlier) if self.view is None else base_of(identified, earlier)


def resolve_table(engine: Engine, name: str, schema: Schema, query: str | None = None) -> Resolved:
    """Return what is to be registered, or raise an error that says what is wrong with it.

    `query` is the text of a query, which then gets the name. A view of the database is taken for a row-to-row one
    where it is one, and otherwise for one over several tables where the schema names a unit.
    """
    if query is not None:
        if engine.table(name) is not None:
            raise UsageError(f'there is a table "{name}"; a query needs a name of its own.', hint="--table NAME")
        return _resolve_many(engine, name, schema, query)
    info = engine.table(name)
    if info is None or info.kind == "table" or schema.unit.column is None:
        return _resolve_one(engine, name, schema)
    try:
        return _resolve_one(engine, name, schema)
    except SchemaError as error:
        first = error
    try:
        return _resolve_many(engine, name, schema, None)
    except SchemaError as error:
        message = f"{first.message} As a view over several tables: {error.message}"
        raise SchemaError(message, hint=error.hint) from None


def _resolve_one(engine: Engine, name: str, schema: Schema) -> Resolved:
    if schema.public_tables:
        raise SchemaError(
            f'"{name}" reads one table, and the schema names public tables.', hint="leave out public_tables"
        )
    info, base, spelled = resolve(engine, name, schema)
    return Resolved(info, (base,), spelled)


def _resolve_many(engine: Engine, name: str, schema: Schema, query: str | None) -> Resolved:
    view, spelled = resolve_view(engine, name, query, schema)
    return Resolved(view.info, view.private, spelled, view)


def read_query(file: str | Path) -> str:
    """Return the text of a file with a query."""
    path = Path(file)
    try:
        size = path.stat().st_size
        text = path.read_text(encoding="utf-8") if size <= MAX_BYTES else ""
    except (OSError, UnicodeDecodeError):
        raise UsageError(f'"{path}" cannot be read as a file with a query.', hint="--view FILE, in UTF-8") from None
    if size > MAX_BYTES:
        raise UsageError(f'"{path}" is larger than {MAX_BYTES} bytes.', hint="a shorter query")
    return text


def with_unit(schema: Schema, unit: str | None, public: Sequence[str]) -> Schema:
    """Return a schema with a unit's column and further public tables, which a command gives beside its file."""
    if unit is not None:
        if schema.unit.column is not None and schema.unit.column.lower() != unit.lower():
            raise UsageError(
                f'the schema protects "{schema.unit.column}", and --unit says "{unit}".', hint="leave out --unit"
            )
        schema = replace(schema, unit=Unit(unit, schema.unit.max_rows))
    names = dict.fromkeys((*schema.public_tables, *public))
    return replace(schema, public_tables=tuple(names)) if public else schema
