"""Views as datasets: a view that is provably row-to-row is unfolded onto its base table; any other view is refused."""

from __future__ import annotations

from dpsql.compile.views.row_to_row import RowView, base_name, row_to_row, why_not
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
    return base, view


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
    if base is None or base.kind != "table":
        reason = why_not(info.definition, engine.dialect) if named is None else "reads no table directly"
        raise SchemaError(
            f'view "{info.name}" cannot be registered: it {reason}.',
            hint="register the base table, or a view that only selects, renames and filters",
        )
    return base
