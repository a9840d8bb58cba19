"""Refuses a SQLite file that another ledger of its folder knows: renamed, a file keeps the budget that it had.

A SQLite file finds its ledger by its own name. After a rename the old ledger lies beside it unused, and the rows would
have a second budget. So where the ledger in use does not know a file, the other ledgers of the folder are asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import duckdb

from dpsql.engines.duckdb.cursor import fetch_from_duckdb
from dpsql.engines.duckdb.opening import open_duckdb_connection
from dpsql.engines.files.file_parts import stamps_of
from dpsql.engines.files.table_files import LEDGER, SQLITE, TableFiles, file_identities
from dpsql.errors import DatabaseError, DatabaseLocked, DpsqlError

#: The tables in which a ledger says what it knows. A view of that name, which could read anything, is none.
_TABLES = """
SELECT table_name FROM system.main.duckdb_tables()
WHERE database_name = system.main.current_database() AND schema_name = 'dpsql'
"""
#: Whether an entry stores a table of a file, and whether a charged run has read the file as it was last written.
_REGISTERED = "SELECT 1 FROM dpsql.entry WHERE system.main.contains(details, ?) LIMIT 1"
_READ = "SELECT 1 FROM dpsql.part WHERE system.main.starts_with(part, ?) LIMIT 1"


def check_other_ledgers(
    connection: duckdb.DuckDBPyConnection, ledger: Path, tables: Sequence[TableFiles], *, wait: float
) -> None:
    """Raise DatabaseError where another ledger of a SQLite file's folder knows the file, and the one in use does not.

    `connection` is to the ledger in use, which lies at `ledger`, or will.
    """
    for file in {path for table in tables if table.kind == SQLITE for path in table.paths}:
        if _knows(connection, file):
            continue
        for other in sorted(file.parent.glob(f"*.{LEDGER}")):
            if other.resolve() != ledger.resolve() and _knows_file(other, file, wait=wait):
                raise DatabaseError(
                    f'"{file.name}" has a ledger, "{other.name}", under another name: its rows have one budget.',
                    hint=f"rename the file back, or --ledger {other}; a new file that took the number of an old one: "
                    "copy it",
                )


def _knows_file(ledger: Path, file: Path, *, wait: float) -> bool:
    """Whether a ledger that is not open knows a file. One that cannot be read may know it."""
    problem: DatabaseError
    try:
        with closing(open_duckdb_connection(ledger, read_only=True, wait=wait)) as connection:
            return _knows(connection, file)
    except DatabaseLocked:
        problem = DatabaseLocked(
            f'another process holds the ledger "{ledger.name}", which may know "{file.name}".', hint="close it first"
        )
    except DpsqlError:
        problem = DatabaseError(
            f'the ledger "{ledger.name}" may know "{file.name}", and cannot be read.', hint="check the file"
        )
    raise problem


def _knows(connection: duckdb.DuckDBPyConnection, file: Path) -> bool:
    """Whether a ledger has registered a table of a file, or a charged run of its has read the file."""
    with closing(connection.cursor()) as cursor:
        tables = {name for (name,) in fetch_from_duckdb(cursor, _TABLES)}
        looks = [(_REGISTERED, f'"{identity} table ') for identity in file_identities([file]) if "entry" in tables]
        looks += [(_READ, f"{stamp} table ") for stamp in stamps_of([file]) if "part" in tables]
        return any(fetch_from_duckdb(cursor, query, [text]) for query, text in looks)
