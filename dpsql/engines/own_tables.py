"""Whether a table of dpsql's own is there, in this database and in no other that is attached to it."""

from __future__ import annotations

from dpsql.engines.base import Transaction

#: `pg_catalog` is the server's own: no function of a user's stands in for what is called by its full name.
_LISTED = """
SELECT 1 FROM information_schema.tables
WHERE table_catalog = pg_catalog.current_database() AND table_schema = 'dpsql' AND table_name = ?
"""


def has_table(transaction: Transaction, name: str) -> bool:
    """Return whether schema `dpsql` has a table of that name.

    A database where users can change what `information_schema` says has a way of its own: `has_table` of its
    transactions. (In DuckDB that schema is made of `duckdb_tables()`, and a macro of that name stands in for it.)
    """
    own = getattr(transaction, "has_table", None)
    return own(name) if own is not None else bool(transaction.rows(_LISTED, (name,)))
