"""Gives a DuckDB table an identity that lasts, in its comment: DuckDB numbers tables anew whenever a file is opened."""

from __future__ import annotations

import secrets
from dataclasses import replace

from sqlglot import exp

from dpsql.engines.base import TableInfo, Transaction
from dpsql.engines.duckdb.catalog import COMMENT
from dpsql.engines.identity_texts import with_mark


def write_identity(transaction: Transaction, info: TableInfo) -> TableInfo:
    """Write a random identity into a table's comment, after what stands there, and return the table with it."""
    row = transaction.rows(COMMENT, (info.schema, info.table))[0]
    identity = secrets.token_hex(16)
    place = exp.table_(info.table, db=info.schema, catalog=row["here"], quoted=True)
    text = exp.Literal.string(with_mark(row["comment"], identity))
    transaction.run(exp.Comment(this=place, kind="TABLE", expression=text))
    return replace(info, identity=identity, rows=frozenset([identity]))
