"""Gives every row of a table a random id of its own, for tables that have no key and engines without row addresses.

The ids come from the operating system, 63 bits each, and depend on nothing in the rows. A schema that names the
column as its `partition` then deals rows out to trees by it. This is an act of the owner: it changes the table.
"""

from __future__ import annotations

from dpsql.engines.base import Engine
from dpsql.errors import ParameterError, UnknownName
from dpsql.mechanisms.rng import uniform_words


def add_row_ids(engine: Engine, name: str, column: str = "dpsql_id") -> None:
    """Add a column of random ids to a base table. Rows added later have none and are dealt out by their address."""
    info = engine.table(name)
    if info is None:
        raise UnknownName("table", name, engine.tables())
    if info.kind != "table":
        raise ParameterError("table", allowed="a base table, not a view", given=name)
    if info.column(column) is not None:
        raise ParameterError("column", allowed=f'new in table "{info.name}"', given=column)
    engine.add_column(info, column, lambda count: (uniform_words(count) >> 1).astype("int64"))
