"""All tables of a folder of files in DuckDB: which files a connection may read, and what stands in for a table.

A connection reaches these files and nothing else. Queries of dpsql name tables as in any database; before they run,
each table that is files is replaced by the function that reads them. Views of the same names in the ledger's database
are there for SQL typed by people, never for counting: nobody can redefine what is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
from sqlglot import exp

from dpsql.engines.base import TableInfo, Transaction
from dpsql.engines.duckdb.cursor import fetch_from_duckdb, replace_errors
from dpsql.engines.duckdb.files import MARK, FileTable, as_pattern
from dpsql.engines.duckdb.vocabulary import DIALECT
from dpsql.engines.files import file_parts
from dpsql.engines.files.table_files import CSV, SQLITE, TableFiles
from dpsql.engines.table_names import split_parts
from dpsql.errors import DatabaseError

#: Kinds of files that a session loads once: their rows have no address.
LOADED = (CSV, SQLITE)
_HOME = "main"
_MEANWHILE = "while they were read, and what was charged stays charged"
#: The views that stand for files, by the start of their comments.
VIEWS = """
SELECT view_name, comment FROM system.main.duckdb_views()
WHERE database_name = system.main.current_database() AND schema_name = 'main' AND system.main.starts_with(comment, ?)
"""
#: Names of all other tables and views in schema main.
TAKEN = """
SELECT table_name FROM system.main.duckdb_tables()
WHERE database_name = system.main.current_database() AND schema_name = 'main'
UNION ALL
SELECT view_name FROM system.main.duckdb_views()
WHERE database_name = system.main.current_database() AND schema_name = 'main'
AND NOT system.main.starts_with(coalesce(comment, ''), ?)
"""


class FileTables:
    """All tables of a folder, as one hardened connection sees them."""

    def __init__(self, files: Sequence[TableFiles]) -> None:
        self._all_files = files
        self._tables: dict[str, FileTable] = {}

    def paths(self) -> set[str]:
        """Return the files' paths, and the patterns that mean them."""
        return {text for files in self._all_files for path in files.paths for text in (str(path), as_pattern(path))}

    @property
    def place(self) -> Path | None:
        """The folder of the files."""
        return self._all_files[0].place.resolve().parent if self._all_files else None

    def allow(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Let a connection that is not locked yet read these files and no others, once it is closed to the outside."""
        listed = exp.Array(expressions=[exp.Literal.string(path) for path in sorted(self.paths())])
        replace_errors("allow the files", lambda: connection.execute(f"SET allowed_paths = {listed.sql(DIALECT)}"))

    def check_allowed(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Raise unless a connection that was locked before may read these files."""
        allowed = fetch_from_duckdb(connection, "SELECT system.main.current_setting('allowed_paths')")[0][0]
        if not self.paths() <= set(allowed):
            raise DatabaseError(
                "these files are already open in this process, and some are new.", hint="close them first"
            )

    def look(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Read the headers and footers of all files."""
        self._tables = {files.name: FileTable(files, cursor) for files in self._all_files}

    def install(self, transaction: Transaction) -> None:
        """Have a view for each file in the ledger's database; drop the views of files that are gone."""
        self.check_free(transaction)
        shown = {name: table for name, table in self._tables.items() if table.files.kind != SQLITE}
        comments = {name: table.comment() for name, table in shown.items() if table.readable}
        present = {row["view_name"]: row["comment"] for row in transaction.rows(VIEWS, [MARK])}
        for name in sorted(present.keys() - comments.keys()):
            transaction.run(exp.Drop(tables=[exp.table_(name, db="main", quoted=True)], kind="VIEW"))
        for name in sorted(comments):
            if present.get(name) != comments[name]:
                transaction.run(self._tables[name].view())
                transaction.run(self._tables[name].comment_statement())

    def names(self) -> list[str]:
        """Return the tables' names."""
        return list(self._tables)

    def find(self, name: str) -> FileTable | None:
        """Return the table of that name; letter case does not matter, and the home schema may stand before it."""
        folded = {own_name.lower(): table for own_name, table in self._tables.items()}
        if name in self._tables:  # a name as it stands comes before what SQL would read in it
            return self._tables[name]
        parts = split_parts(name)
        if len(parts) == 1 or (len(parts) == 2 and parts[0].lower() == _HOME):
            name = parts[-1]
        bare = name[len(_HOME) + 1 :] if name.lower().startswith(f"{_HOME}.") else name
        return self._tables.get(name) or folded.get(name.lower()) or folded.get(bare.lower())

    def info(self, file: FileTable, transaction: Transaction) -> TableInfo | None:
        """Return what is known of a table of files, with the tables that its files were read as in charged runs."""
        info = file.info()
        if info is None:
            return None
        return replace(info, within=file_parts.read_as(transaction, file.stamps()) - info.rows)

    def stamps(self, reads: Sequence[TableInfo]) -> dict[str, frozenset[str]]:
        """Return the stamps of the files that some tables are, by the tables' names."""
        named = [info.table for info in reads if info.kind == "table" and info.schema == "main"]
        return {file.name: file.stamps() for name in named if (file := self.find(name)) is not None}

    def file_of(self, table: exp.Table) -> FileTable | None:
        """Return the files that a table in a query means."""
        return self._tables.get(table.name) if table.db == "main" and not table.catalog else None

    def stand_in(self, table: exp.Table) -> exp.Expr | None:
        """Return what to read in place of a public table: its files; None when it is not one of them."""
        file = self.file_of(table)
        return None if file is None else _under_name_of(file.rows(), table)

    def check_free(self, transaction: Transaction) -> None:
        """Raise unless no table of the ledger's database has the name of a file."""
        taken = {row["table_name"].lower() for row in transaction.rows(TAKEN, [MARK])}
        for files in self._all_files:
            if files.name.lower() in taken:
                raise DatabaseError(
                    f'{files.words} would be table "{files.name}", but the ledger\'s database has one of that name.',
                    hint="rename the file",
                )


class SessionFiles:
    """The files as one session reads them: Parquet in place, CSV loaded once, both unchanged to the end."""

    def __init__(self, files: FileTables, cursor: duckdb.DuckDBPyConnection) -> None:
        self._files = files
        self._cursor = cursor
        self._used: dict[str, FileTable] = {}

    def stand_in(self, table: exp.Table) -> exp.Expr | None:
        """Return what to read in place of a private table, with an address for each row."""
        file = self._files.file_of(table)
        if file is None:
            return None
        if file.files.kind not in LOADED:
            self._used[file.name] = file
            return _under_name_of(file.rows(addressed=True), table)
        loaded = f"dpsql_rows_of_{file.name}"
        if file.name not in self._used:
            if file.files.kind == CSV:  # SQLite itself shows one state to the one statement that reads
                file.check(_MEANWHILE)
            file.load(self._cursor, loaded)
            if file.files.kind == CSV:
                file.check(_MEANWHILE)
            self._used[file.name] = file
        alias = table.args.get("alias") or exp.TableAlias(this=table.this.copy())
        return exp.table_(loaded, db="main", catalog="temp", quoted=True, alias=alias.this)

    def stand_in_for_public(self, table: exp.Table) -> exp.Expr | None:
        """Return what to read in place of a public table: its files in place, and SQLite loaded once."""
        file = self._files.file_of(table)
        return self.stand_in(table) if file and file.files.kind == SQLITE else self._files.stand_in(table)

    def check(self) -> None:
        """Raise TableChanged unless the Parquet files that were read are still the same."""
        for file in self._used.values():
            if file.files.kind not in LOADED:
                file.check(_MEANWHILE)


def _under_name_of(query: exp.Select, table: exp.Table) -> exp.Subquery:
    """Return a query in place of a table, under the table's own name."""
    return query.subquery(table.args["alias"].this if table.args.get("alias") else table.this.copy())
