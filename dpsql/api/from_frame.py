"""Registers a DataFrame as a private table: a database in memory, with a ledger of its own."""

from __future__ import annotations

from typing import Any

import pandas as pd
from sqlglot import exp

from dpsql.api.database import Database, connect
from dpsql.api.fitting_rows import typed_frame
from dpsql.errors import DataError, ParameterError
from dpsql.ledger.amount import Amount
from dpsql.schema import Schema
from dpsql.schema.schema_file import SchemaSource, load_schema


def from_frame(
    frame: pd.DataFrame,
    schema: SchemaSource | None = None,
    *,
    cap: Amount | None,
    table: str = "rows",
    who: str | None = None,
    **options: Any,
) -> Database:
    """Return a database in memory that has a copy of a DataFrame as its private table, registered under a cap.

    `schema` is what `Database.register` takes. Without one the domains are bought, as `Database.buy_schema` does:
    then `options` has at least `buy` and `label`. All other options are those of the two.

    The index is left out. The ledger lives as long as the database does: what was released is known outside of it, so
    keep one database for one set of rows. Whoever can reach the DataFrame can read the rows.

    >>> people = pd.DataFrame({"age": [34.0, 51.0] * 500, "ill": [False, True] * 500})
    >>> schema = {"label": "ill", "classes": ["false", "true"],
    ...           "features": {"age": {"type": "numeric", "lower": 0, "upper": 110}}}
    >>> with from_frame(people, schema, cap=2, table="people") as db:
    ...     model = db.train("people", epsilon=1)
    ...     db.budget("people").left_text
    '1'
    """
    if not isinstance(frame, pd.DataFrame):
        raise DataError(f"{type(frame).__name__} is no DataFrame.", hint="pd.DataFrame(…), or frame.to_pandas()")
    if not frame.columns.size or not all(isinstance(name, str) for name in frame.columns):
        raise DataError("the columns of a DataFrame need names that are text.", hint="frame.rename(columns=str)")
    if schema is None and "buy" not in options:
        hint = "schema={…}, or buy=0.1, label=COLUMN: domains are bought for that epsilon"
        raise ParameterError("schema", allowed="given, or bought with buy", given=schema, hint=hint)
    if schema is not None and "buy" in options:
        raise ParameterError("buy", allowed="left out where there is a schema", given=options["buy"])
    declared = None if schema is None else load_schema(schema, entry=options.get("entry"))
    database = connect(":memory:", who=who)
    try:
        create_table(database, table, frame, declared)
        if schema is None:
            database.buy_schema(table, cap=cap, **options)
        else:
            database.register(table, schema, cap=cap, **options)
    except BaseException:
        database.close()
        raise
    return database


def create_table(database: Database, table: str, frame: pd.DataFrame, schema: Schema | None) -> None:
    """Create a table of a DataFrame's rows, in columns that a database knows."""
    made = typed_frame(frame.reset_index(drop=True), schema)
    database.engine.create(table, exp.select("*").from_("dpsql_rows"), {"dpsql_rows": made})
