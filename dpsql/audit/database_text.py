"""What a run left in its database, table by table, as text: the same for two runs unless it depends on private rows.

The text covers all tables and views of the schema `dpsql`, every table or view that the run made elsewhere, and the
columns of all tables with their types and defaults. What differs between any two databases is left out or replaced:
times are left out; the random ids of the ledger and of its datasets, and the hashes of its chain (which depend on
times), are replaced by names in their order. The rows of the private tables differ on purpose and are not compared.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from sqlglot import exp

from dpsql.engines.base import Row, Transaction
from dpsql.ledger import Ledger

#: Columns, and keys of stored JSON, that hold a time, or a table's identity in its own database.
_OF_THE_MOMENT = ("installed_at", "recorded_at", "created_at", "base")
_HOME = "dpsql"
#: The entry under which the columns of all tables stand.
COLUMNS = "the columns of tables"

Place = tuple[str, str]


def table_places(transaction: Transaction) -> set[Place]:
    """Return the schema and name of every table and view of a database."""
    return {(row["table_schema"], row["table_name"]) for row in transaction.catalog_columns()}


def database_text(transaction: Transaction, book: Ledger, *, before: Collection[Place]) -> dict[str, str]:
    """Return the text of all that a run stored; `before` are the tables that were there when it began."""
    compared = sorted(place for place in table_places(transaction) if place[0] == _HOME or place not in before)
    names = _names(transaction, book)
    texts = {".".join(place): _table_text(transaction, place, names) for place in compared}
    columns = transaction.catalog_columns()
    return texts | {COLUMNS: "\n".join(sorted(str(sorted(row.items())) for row in columns))}


def _table_text(transaction: Transaction, place: Place, names: Mapping[str, str]) -> str:
    schema, table = place
    rows = transaction.rows(exp.select("*").from_(exp.table_(table, db=schema, quoted=True)))
    text = "\n".join(sorted(_row_text(row) for row in rows))
    for random, name in names.items():
        text = text.replace(random, name)
    return text


def _row_text(row: Row) -> str:
    return json.dumps(
        {name: _without_times(value) for name, value in row.items() if name not in _OF_THE_MOMENT}, default=str
    )


def _without_times(value: Any) -> Any:
    """Return a cell; one that holds a JSON object without what is of the moment."""
    if not isinstance(value, str) or not value.startswith("{"):
        return value
    try:
        stored = json.loads(value)
    except json.JSONDecodeError:
        return value
    return {name: part for name, part in stored.items() if name not in _OF_THE_MOMENT}


def _names(transaction: Transaction, book: Ledger) -> dict[str, str]:
    """Return a name for each random id and each hash of the ledger."""
    chain = transaction.rows(exp.select("ledger_id").from_(exp.table_("chain", db=_HOME)))
    entry = exp.select("sequence", "previous_hash", "hash").from_(exp.table_("entry", db=_HOME))
    names = {row["ledger_id"]: "<ledger>" for row in chain}
    names |= {dataset: f"<dataset {number}>" for number, dataset in enumerate(book.datasets())}
    for row in transaction.rows(entry):
        names |= {row["previous_hash"]: f"<hash {row['sequence'] - 1}>", row["hash"]: f"<hash {row['sequence']}>"}
    return {random: name for random, name in names.items() if random}
