"""DuckDB: the engine, its catalog, its words, and files of Parquet and CSV that are read through it."""

from __future__ import annotations

from pathlib import Path

from dpsql.engines.files.table_files import is_files
from dpsql.engines.spec import EngineSpec

_MEMORY = ":memory:"


def is_path(target: str) -> bool:
    """Whether the system takes a text as a path at all.

    >>> is_path("people.duckdb"), is_path("n" * 300), is_path("")
    (True, False, False)
    """
    try:
        return bool(target) and "\x00" not in target and Path(target).exists() in (True, False)
    except (OSError, ValueError):
        return False


def is_table_files(target: str) -> bool:
    """Whether a path is a Parquet or CSV file, or a folder of such files."""
    return target != _MEMORY and is_files(Path(target))


def has_ledger_elsewhere(target: str) -> bool:
    """Whether the caller may say where the ledger of a path is: of files of rows, and of a DuckDB file."""
    return target != _MEMORY


SPEC = EngineSpec(
    name="duckdb",
    title="DuckDB",
    module="dpsql.engines.duckdb.open_database",
    drivers=("duckdb", "_duckdb"),
    opens_path=is_path,
    takes_ledger=has_ledger_elsewhere,
    behind_ibis=True,
)
