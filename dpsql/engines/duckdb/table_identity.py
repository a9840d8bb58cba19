"""Gives a DuckDB table an identity that lasts, in its comment: DuckDB numbers tables anew whenever a file is opened."""

from __future__ import annotations

import secrets
from dataclasses import replace

from sqlglot import exp

from dpsql.engines.base import TableInfo, Transaction
from dpsql.engines.duckdb.catalog import COMMENT
from dpsql.engines.identity_texts import with_mark, without_mark
from dpsql.spelling import split_catalog


def write_identity(transaction: Transaction, info: TableInfo) -> TableInfo:
    """Write a random identity into a table's comment, after what stands there, and return the table with it."""
    catalog, schema = split_catalog(info.schema)
    here = catalog or transaction.rows("SELECT system.main.current_database() AS here")[0]["here"]
    row = transaction.rows(COMMENT, (here, schema, info.table))[0]
    identity = secrets.token_hex(16)
    _write_comment(transaction, (here, schema, info.table), with_mark(row["comment"], identity))
    return replace(info, identity=identity, rows=info.rows | {identity})


def remove_identity(transaction: Transaction, info: TableInfo) -> None:
    """Take the identity out of the comment of a table of an attached database: its registration was undone."""
    catalog, schema = split_catalog(info.schema)
    for row in transaction.rows(COMMENT, (catalog, schema, info.table)):
        _write_comment(transaction, (str(catalog), schema, info.table), without_mark(row["comment"]))


def _write_comment(transaction: Transaction, place: tuple[str, str, str], comment: str) -> None:
    catalog, schema, table = place
    reference = exp.table_(table, db=schema, catalog=catalog, quoted=True)
    text = exp.Literal.string(comment) if comment else exp.null()
    transaction.run(exp.Comment(this=reference, kind="TABLE", expression=text))
