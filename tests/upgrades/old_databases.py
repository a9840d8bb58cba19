"""The databases of `format1/`, unpacked for a test: a DuckDB file, one on a PostgreSQL server, a folder of files."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.servers import fresh_database, programs

FOLDER = Path(__file__).resolve().parent / "format1"


@dataclass(frozen=True)
class OldDatabase:
    """Where a database of format 1 is, and what the code that wrote it said of it."""

    place: str
    told: dict[str, Any]


def unpack_duckdb(folder: Path) -> OldDatabase:
    """Write the DuckDB file and its receipt into a folder."""
    return OldDatabase(str(_unpack("everything.duckdb", folder)), _told("told.json"))


def unpack_files(folder: Path) -> OldDatabase:
    """Write the folder of CSV files, with the ledger beside them, into a folder."""
    _unpack("files/dpsql_ledger.duckdb", folder)
    shutil.copy(FOLDER / "files" / "people.csv", folder)
    return OldDatabase(str(folder), _told("files/told.json"))


def load_postgres() -> OldDatabase:
    """Load the dump into a new database of the tests' server."""
    url = fresh_database()
    dump = gzip.decompress((FOLDER / "everything.sql.gz").read_bytes())
    command = [str(programs() / "psql"), "-q", "-v", "ON_ERROR_STOP=1", url]
    subprocess.run(command, input=dump, check=True, capture_output=True, timeout=60)
    return OldDatabase(url, _told("everything.sql.json"))


def _unpack(name: str, folder: Path) -> Path:
    path = folder / Path(name).name
    path.write_bytes(gzip.decompress((FOLDER / f"{name}.gz").read_bytes()))
    shutil.copy(FOLDER / f"{name}.anchor", folder)
    return path


def _told(name: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return told
