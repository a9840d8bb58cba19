"""Views as datasets: a view that is provably row-to-row is unfolded onto its base table; any other view is refused."""

from __future__ import annotations

import shlex

from sqlglot import exp

from dpsql.compile.views.row_to_row import RowView, base_name, row_to_row, why_not
from dpsql.compile.views.tables_read import file_read
from dpsql.engines.base import Engine, TableInfo
from dpsql.errors import SchemaError


def unfold(engine: Engine, info: TableInfo) -> tuple[TableInfo, RowView]:
    """Return a view's base table and what the view makes of its rows, or raise SchemaError with the reason."""
    base = _base(engine, info)
    # A collation can make a comparison fail, or make two texts equal. So a column that has one gets an unknown type:
    # the view may hand it on, and may compute nothing from it.
    types = {column.name: "UNKNOWN" if column.collation else column.type for column in base.columns}
    macros = engine.user_functions()
    view = row_to_row(info.definition, engine.dialect, types=types, macros=macros)
    if view is None:
        reason = why_not(info.definition, engine.dialect, types=types, macros=macros)
        raise SchemaError(
            f'view "{info.name}" is not provably row-to-row on one table: it {reason}.',
            hint="register the base table, or a view that only selects, renames and filters",
        )
    _check_types(info, base, view)
    return base, view


def _check_types(info: TableInfo, base: TableInfo, view: RowView) -> None:
    """Refuse a view whose columns had other types when it was made: its catalog entry says nothing of the rows now.

    DuckDB lets a column of the table change its type, and the view keeps the old one. What is read is the table, and
    under another type a value can have another text: a unit would go over to the other side of a hold-out.
    """
    for column in info.columns:
        inner = view.columns.get(column.name, exp.column(column.name)).unnest()
        stored = base.column(inner.name) if type(inner) is exp.Column else None
        if stored is not None and stored.type != column.type:
            raise SchemaError(
                f'column "{column.name}" of view "{info.name}" is {column.type}, and {stored.type} in "{base.name}".',
                hint="make the view anew: CREATE OR REPLACE VIEW",
            )


def look_up(engine: Engine, schema: str | None, name: str, home: str) -> TableInfo | None:
    """Return the table that a view in schema `home` means by a name: the view's own schema comes before the default.

    Schema and name are never joined: a table that is called "hr.people" is not the table "people" of schema "hr".
    """
    if schema:
        return engine.table(name, schema=schema)
    own = engine.table(name, schema=home)
    return own or (engine.table(name, schema=engine.home) if home != engine.home else None)


def _base(engine: Engine, info: TableInfo) -> TableInfo:
    """Return the one stored table that a view reads, or raise SchemaError with the reason why there is none."""
    named = base_name(info.definition, engine.dialect)
    base = look_up(engine, *named, info.schema) if named else None
    file = file_read(info.definition, engine.dialect)
    if file is not None and (base is None or base.kind != "table"):
        raise SchemaError(
            f'view "{info.name}" reads files in place, of which nothing tells whether they stay the same in a run.',
            hint=f"open the files themselves: --db {shlex.quote(file)}, with their ledger beside them or --ledger FILE",
        )
    if base is None or base.kind != "table":
        reason = why_not(info.definition, engine.dialect) if named is None else "reads no table directly"
        raise SchemaError(
            f'view "{info.name}" cannot be registered: it {reason}.',
            hint="register the base table, or a view that only selects, renames and filters",
        )
    return base
