"""What dpsql asks of a database: a catalog, durable transactions, temporary tables, aggregates.

An engine runs SQL and nothing else. It knows no trees and no noise. Three rules hold for each of them:
errors are replaced by our own (an engine's text can quote a cell), private rows are only ever
read by a `Workspace`, and whatever differs between databases lives in that engine's package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
from sqlglot import exp

from dpsql.errors import TableChanged
from dpsql.spelling import Vocabulary

Row = dict[str, Any]
Arrays = dict[str, np.ndarray[Any, Any]]
#: Small tables that a statement joins: for the name of each table, its columns by their names.
Tables = Mapping[str, Mapping[str, np.ndarray[Any, Any]]]
#: The schema of dpsql's own tables.
OWN_SCHEMA = "dpsql"


@dataclass(frozen=True)
class Health:
    """One thing that was looked at: what it is, whether it is well, its state, and what to do where it is not well."""

    what: str
    well: bool
    state: str
    fix: str = ""


@dataclass(frozen=True)
class Column:
    """One column as the catalog describes it.

    `type` is the engine's own name for the column's type. `family` is our name for it: integer, real, text, boolean,
    date, timestamp, other; opaque where nothing can be keyed by it; or untyped, for text that the declared schema says
    how to read (a cell of CSV). `values` are the values of an ENUM. `decimal` says that the type holds numbers which no
    double can.
    `collation` names a rule under which texts of different bytes can be equal, "" where equal means equal bytes.
    `computed` says that the column is generated: an expression that the database may evaluate when a row is read.
    `fallible` says that the column is stored and can hold what the database fails to read (a time in Parquet): nothing
    may look at it. `encoding` names the encoding of its texts where that is not UTF-8.
    """

    name: str
    type: str
    family: str
    values: tuple[str, ...] = ()
    decimal: bool = False
    collation: str = ""
    computed: bool = False
    fallible: bool = False
    encoding: str = ""


@dataclass(frozen=True)
class TableInfo:
    """One table or view as the catalog describes it. Nothing here comes from rows.

    `identity` is how the database itself tells this table from any other, whatever they are called; "" where it cannot.
    `version` tells it from another table of the same name and columns that was put in its place; it means nothing once
    the database is closed.
    `rows` are the identities of all that is stored and read with a table: its own, those of its partitions, the folders
    that it lies in. Two tables that have one of these in common share rows. `within` are the identities of the tables
    that show its rows too: its parents. A view has neither: its text tells what it reads.
    `unfit` is why no run can rely on its rows, in words that follow "it" (it has row-level security); "" where one can.
    `unsafe` is why it is not even read for free (somebody else's code would run), and `remedy` is what mends both.
    """

    name: str
    schema: str
    table: str
    columns: tuple[Column, ...]
    kind: str
    definition: str = ""
    checks: tuple[str, ...] = ()
    identity: str = ""
    version: str = ""
    rows: frozenset[str] = frozenset()
    within: frozenset[str] = frozenset()
    unfit: str = ""
    unsafe: str = ""
    remedy: str = ""

    @property
    def integers(self) -> frozenset[str]:
        """The names of the columns of integer type."""
        return frozenset(column.name for column in self.columns if column.family == "integer")

    @property
    def decimals(self) -> frozenset[str]:
        """The names of the columns whose type holds numbers that no double can."""
        return frozenset(column.name for column in self.columns if column.decimal)

    def column(self, name: str) -> Column | None:
        """Return the column of that name, or the first where letter case alone differs, or None."""
        same = next((column for column in self.columns if column.name == name), None)
        return same or next((column for column in self.columns if column.name.lower() == name.lower()), None)


@dataclass(frozen=True)
class ColumnNote:
    """What the catalog says of a column beside its type. It is read for drafts of schemas, and by no run.

    `comment` is what somebody wrote about the column. `unique` says that no two rows have the same value there.
    `references` is the schema, the table and the column of a foreign key that this column alone makes up.
    """

    comment: str = ""
    unique: bool = False
    references: tuple[str, str, str] | None = None


class Transaction(Protocol):
    """Statements that commit together. `?` marks a parameter; values never become SQL text."""

    def run(self, statement: str | exp.Expr, parameters: Sequence[object] = ()) -> int:
        """Run a statement and return the number of rows it changed (0 where that has no meaning)."""
        ...

    def rows(self, statement: str | exp.Expr, parameters: Sequence[object] = ()) -> list[Row]:
        """Run a query on dpsql's own or public tables and return its rows as dictionaries."""
        ...

    def arrays(self, statement: str | exp.Expr, parameters: Sequence[object] = ()) -> Arrays:
        """Run a query on dpsql's own or public tables and return its columns as arrays."""
        ...

    def insert(self, table: str, columns: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Append whole columns to a table of schema `dpsql` (bulk; one array per column, equal lengths)."""
        ...

    def has_table(self, name: str) -> bool:
        """Return whether schema `dpsql` of this database, and of no other that is attached to it, has such a table.

        No function or view of a user's may stand in for the catalog that is asked.
        """
        ...

    def catalog_columns(self) -> list[Row]:
        """Return a row for each column of each table and view, those of the database's own catalog left out.

        A row has table_schema, table_name, column_name, data_type and column_default.
        """
        ...


class Workspace(Protocol):
    """A place inside the database for one session: rows brought to their nodes wait there for the next statement.

    Nobody else can read it, and it is gone when the session is.
    """

    def keep(self, name: str, query: exp.Expr, tables: Tables) -> None:
        """Keep the rows of a checked query under a name, in place of what was kept there before."""
        ...

    def aggregate(self, query: exp.Expr, tables: Tables) -> Arrays:
        """Run one checked aggregate over private or kept rows, with `tables` loaded as temporary tables for it."""
        ...


class Engine(Protocol):
    """A database that dpsql can work in."""

    dialect: str
    #: The Python package that speaks with this database.
    driver: str
    #: The dialect of the place where dpsql's own tables are: another database's where this one can keep no ledger.
    own_dialect: str
    #: The schema whose tables people call by their names alone.
    home: str
    #: The schema that need not be named in SQL that people store, either; "" where every name there needs its schema.
    implicit_schema: str
    #: The file behind the database, or None where there is none (memory, server).
    path: Path | None

    @property
    def vocabulary(self) -> Vocabulary:
        """How this database spells what has no common spelling."""
        ...

    def health(self) -> list[Health]:
        """Return what can be told of driver, server, rights and clock, for `dpsql doctor`. Reads no private row."""
        ...

    def weaknesses(self) -> list[str]:
        """Return one sentence for each protection that this connection lacks; [] for one that dpsql opened."""
        ...

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Open a write transaction: durable when the block ends, undone when it raises.

        Conflicts with other writers are raised as `Conflict`, so that the caller can try the whole block again.
        """
        ...

    def snapshot(self) -> AbstractContextManager[Transaction]:
        """Open a transaction for reading dpsql's own tables: all of its statements see one state of them."""
        ...

    def tables(self) -> list[str]:
        """Return the names of the user's tables and views (schema `dpsql` and temporary ones left out)."""
        ...

    def table(self, name: str, *, schema: str | None = None) -> TableInfo | None:
        """Return what the catalog says of a table or view, or None. Reads no row.

        With a schema the name is the table's own there. Without, it may have a schema before a dot, and a name that
        could mean two tables is refused.
        """
        ...

    def column_notes(self, info: TableInfo) -> dict[str, ColumnNote]:
        """Return comments, unique keys and foreign keys by column, as far as the catalog has them. Reads no row."""
        ...

    def identify(self, transaction: Transaction, info: TableInfo) -> TableInfo:
        """Return a base table with the identity that tells it from all others from now on; one without is given one.

        `transaction` is the ledger's: what is written to the table's own catalog there is kept or undone with it.
        """
        ...

    def user_functions(self) -> list[str]:
        """Return the names of functions and macros that users defined in this database."""
        ...

    def macros(self) -> dict[str, str]:
        """Return the SQL of each macro and SQL function of users' making by its name; {} where there are none."""
        ...

    def redefined_functions(self) -> list[str]:
        """Return the built-in functions that a user's macro stands in for: SQL no longer means what it says."""
        ...

    def is_built_in(self, name: str) -> bool:
        """Return whether a macro of that name would stand in for a function of SQL's own; False without macros."""
        ...

    def unique_keys(self, info: TableInfo) -> list[frozenset[str]] | None:
        """Return the sets of columns that the catalog says are unique in a stored table, in lower case.

        None where this database's catalog has no keys that hold, and views over several tables are not offered.
        """
        ...

    def ways_in(self, info: TableInfo) -> list[Health]:
        """Return the names by which an analyst gets the planner's row counts of a table, each with what closes it."""
        ...

    def readers(self, info: TableInfo) -> list[Health]:
        """Return which analysts may read the rows of a table themselves, each with what closes the way."""
        ...

    def workspace(self, reads: Sequence[TableInfo] = ()) -> AbstractContextManager[Workspace]:
        """Open a workspace for a session whose statements build on each other: all of them see one state of the tables.

        `reads` are the tables and views that will be read, as `table` described them before the charge. Raises
        TableChanged when one is another table by now (columns, definition, identity), or when an engine that cannot
        hold a state sees that one was written to between two statements.
        """
        ...

    def frame(self, query: exp.Expr, tables: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Run a query over public or released tables and return it as a DataFrame (predictions, never training)."""
        ...

    def chunks(self, query: exp.Expr, rows: int) -> Iterator[pd.DataFrame]:
        """Run a query over public or released tables, and yield its rows as they come, about `rows` at a time.

        Memory is bounded by a chunk. The first one comes even where there are no rows.
        """
        ...

    def create(self, name: str, query: exp.Expr, tables: Mapping[str, Any] | None = None) -> None:
        """Create a table from a query over public or released tables; nothing is left when it fails."""
        ...

    def add_column(self, info: TableInfo, column: str, make: Callable[[int], np.ndarray[Any, Any]]) -> None:
        """Add a BIGINT column to a base table and fill it with what `make` gives for the number of rows."""
        ...

    def close(self) -> None:
        """Let the database go."""
        ...


def check_same(before: TableInfo, now: TableInfo | None) -> None:
    """Raise TableChanged unless a table that is about to be read is the one that was charged for."""
    if now != before:
        raise TableChanged(
            f'table "{before.name}" was replaced or altered after the run was charged, and the charge stays.',
            hint="ask again once nobody changes the table's definition",
        )


class Conflict(Exception):
    """Another writer was faster; the transaction was undone and may be tried again."""
