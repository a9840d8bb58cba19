"""Which tables a view reads, by its text alone."""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError


def tables_read(definition: str, dialect: str) -> list[tuple[str | None, str]] | None:
    """Return the names of all tables that a view's text mentions, or None when it cannot be read.

    >>> tables_read("CREATE VIEW v AS SELECT * FROM a JOIN s.b USING (k)", "duckdb")
    [(None, 'a'), ('s', 'b')]
    """
    try:
        parsed = sqlglot.parse_one(definition, dialect=dialect)
    except (SqlglotError, RecursionError):
        return None
    query = parsed.expression if isinstance(parsed, exp.Create) else parsed
    if query is None:
        return None
    if any(not isinstance(table.this, exp.Identifier) for table in query.find_all(exp.Table)):
        return None  # a table function: it could read anything
    found = {(table.db or None, table.name) for table in query.find_all(exp.Table)}
    return sorted(found, key=lambda one: (one[0] or "", one[1]))
