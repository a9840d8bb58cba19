"""Statements that the holder of a DuckDB file types: run as they are, with errors that quote no cell."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import duckdb

from dpsql.engines.interruption import run_stoppable

#: Columns, rows, and the error in words or None.
Answer = tuple[list[str], list[tuple[object, ...]], str | None]


def run_typed(connection: duckdb.DuckDBPyConnection, text: str, *, on_files: bool) -> Iterator[Answer]:
    """Run each statement of a text and yield what it gave; `on_files`: tables are files, which none may write to.

    Errors about the statement itself keep their words; those that arise from data could quote a cell and lose them.
    Ctrl-C stops the statement that runs.
    """
    try:
        statements = connection.extract_statements(text)
    except duckdb.Error as error:
        yield [], [], str(error)
        return
    for statement in statements:
        if on_files and _may_write(statement):
            yield [], [], "COPY and PREPARE are off where tables are files: they could write to them."
            return
        yield run_stoppable(partial(_answer, connection, statement), connection.interrupt)


def _answer(connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> Answer:
    try:
        result = connection.execute(statement)
        columns = [column[0] for column in result.description or []]
        return columns, result.fetchall(), None
    except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as error:
        return [], [], str(error)
    except duckdb.InvalidInputException as error:
        text = str(error)
        ours = "Python exception occurred while executing the UDF: "
        return [], [], text.split(ours, 1)[1] if ours in text else "the statement failed (InvalidInputException)."
    except duckdb.Error as error:
        return [], [], f"the statement failed ({type(error).__name__}; its message could quote a private value)."


def _may_write(statement: duckdb.Statement) -> bool:
    """Whether a statement could write to a file that the connection may read: DuckDB allows both or neither."""
    if statement.type == duckdb.StatementType.EXPLAIN:
        return "copy" in statement.query.lower()
    return statement.type in (duckdb.StatementType.COPY, duckdb.StatementType.PREPARE)
