"""Which engine a target means: a DuckDB file, or Parquet and CSV files with a ledger beside them."""

from __future__ import annotations

import os
from pathlib import Path

from dpsql.engines.base import Engine
from dpsql.engines.duckdb import open_file
from dpsql.engines.duckdb_folder import FileTables
from dpsql.engines.tablefiles import find_tables, is_files, ledger_file
from dpsql.errors import DatabaseReadOnly, ParameterError


def open_engine(target: str | Path, *, create: bool, read_only: bool, wait: float, ledger: str | Path | None) -> Engine:
    """Open what a target names. `ledger` says where the ledger of files lies; a database has its own."""
    if str(target) != ":memory:" and is_files(Path(target)):
        return _open_files(Path(target), read_only=read_only, wait=wait, ledger=ledger)
    if ledger is not None:
        raise ParameterError(
            "ledger",
            allowed="given only for files, which cannot keep one themselves",
            given=str(ledger),
            hint="leave it out: a DuckDB file has its own ledger",
        )
    return open_file(target, create=create, read_only=read_only, wait=wait)


def _open_files(target: Path, *, read_only: bool, wait: float, ledger: str | Path | None) -> Engine:
    """Open files through a DuckDB file that holds their ledger, made at the first time."""
    tables = find_tables(target)
    place = ledger_file(target, tables, ledger)
    if read_only and not place.exists():
        raise DatabaseReadOnly(f'"{target}" has no ledger yet.', hint="open it once without --read-only")
    if not read_only and not os.access(place if place.exists() else place.parent, os.W_OK):
        raise DatabaseReadOnly(
            f'the ledger "{place}" cannot be written.', hint="--ledger FILE, in a folder that can be written"
        )
    return open_file(place, create=True, read_only=read_only, wait=wait, files=FileTables(tables))
