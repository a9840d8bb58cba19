"""Says what is possible with a database or a file that dpsql does not open, instead of looking for a file of that name.

A URL is never shown: it can hold a password. What a file is, its first bytes or its ending tell; nothing else is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from dpsql.errors import UsageError

#: A URL, perhaps as JDBC writes it: jdbc:mysql://…
_URL = re.compile(r"((?:jdbc:)?[A-Za-z][A-Za-z0-9+.-]*)://", re.IGNORECASE)
#: Databases by the schemes of their URLs, as people call them. The driver may follow a plus: `mysql+pymysql://`.
_TITLES = {
    "mysql": "MySQL", "mariadb": "MariaDB", "snowflake": "Snowflake", "bigquery": "BigQuery", "mssql": "SQL Server",
    "sqlserver": "SQL Server", "oracle": "Oracle", "redshift": "Redshift", "trino": "Trino", "presto": "Presto",
    "databricks": "Databricks", "clickhouse": "a ClickHouse server", "mongodb": "MongoDB", "duckdb": "DuckDB",
    "sqlite": "SQLite", "postgres": "PostgreSQL by such URLs", "postgresql": "PostgreSQL by such URLs",
    "s3": "object storage", "gs": "object storage", "az": "object storage",
    "http": "web addresses", "https": "web addresses", "iceberg": "Iceberg", "ducklake": "DuckLake",
}  # fmt: skip
#: The dialect of `dpsql export --dialect`, where it is not called like the scheme.
_DIALECTS = {
    "mysql": "mysql", "mariadb": "mysql", "snowflake": "snowflake", "bigquery": "bigquery", "mssql": "tsql",
    "sqlserver": "tsql", "redshift": "redshift", "trino": "trino", "presto": "trino", "databricks": "databricks",
    "clickhouse": "clickhouse",
}  # fmt: skip
#: What to open instead, where the database is one that dpsql works in.
_INSTEAD = {
    "duckdb": "give the file's path: --db PATH",
    "sqlite": "give the file's path: --db PATH",
    "postgres": "--db postgresql://USER@HOST/DATABASE",
    "postgresql": "--db postgresql://USER@HOST/DATABASE",
    "s3": "copy the files to this machine, or read them in place with Spark: --db spark://…",
    "gs": "copy the files to this machine, or read them in place with Spark: --db spark://…",
    "az": "copy the files to this machine, or read them in place with Spark: --db spark://…",
    "http": "download the file, and give its path",
    "https": "download the file, and give its path",
    "iceberg": "read it with Spark: --db spark://…, or attach it to a DuckDB connection of your own",
    "ducklake": "attach it to a DuckDB connection of your own: dpsql.connect(connection)",
}
_AS_PARQUET = "write it as Parquet, and give that file: dpsql … --db FILE.parquet"


@dataclass(frozen=True)
class _Kind:
    """A kind of file that dpsql does not open: its name, and how it is told."""

    title: str
    endings: tuple[str, ...] = ()
    magic: bytes = b""
    hint: str = _AS_PARQUET


_KINDS = (
    _Kind("an Excel file", (".xlsx", ".xls", ".xlsm", ".ods"), hint="save the sheet as CSV, and give that file"),
    _Kind("an Arrow file", (".arrow", ".feather", ".arrows"), b"ARROW1"),
    _Kind("a JSON file", (".json", ".jsonl", ".ndjson")),
    _Kind("an ORC file", (".orc",), b"ORC"),
    _Kind("an Avro file", (".avro",), b"Obj\x01"),
    _Kind("a compressed file", (".gz", ".zst", ".bz2", ".xz", ".zip"), b"\x1f\x8b", hint="unpack it first"),
    _Kind("a SAS, SPSS or Stata file", (".sas7bdat", ".xpt", ".sav", ".dta")),
    _Kind("a pickle", (".pkl", ".pickle")),
    _Kind("a Parquet file", magic=b"PAR1", hint="let its name end in .parquet"),
)
#: Bytes at the start of a file that tell its kind, and what stands there from the ninth on in a DuckDB file.
_START = 16
_DUCKDB = b"DUCK"


def scheme_of(target: str) -> str:
    """Return the scheme of a URL in lower case; "" for what is none.

    >>> scheme_of("MySQL+pymysql://ann:secret@host/x"), scheme_of("people.duckdb")
    ('mysql+pymysql', '')
    """
    match = _URL.match(target)
    return match[1].lower() if match else ""


def url_refusal(target: str) -> UsageError | None:
    """Return the error for a URL that no engine opens; None for what is no URL. Nothing behind the scheme is shown.

    >>> print(url_refusal("mysql://ann:secret@host/x").message)
    dpsql does not open MySQL (mysql://…).
    """
    scheme = scheme_of(target)
    if not scheme:
        return None
    base = scheme.removeprefix("jdbc:").split("+")[0]
    title = _TITLES.get(base, "such URLs")
    return UsageError(f"dpsql does not open {title} ({scheme[:40]}://…).", hint=_INSTEAD.get(base) or _ways(base))


def _ways(base: str) -> str:
    """Return what can be done with a database that dpsql does not work in."""
    ways = "train on an export of the table: Parquet or CSV files (--db FOLDER), or a DuckDB file (--db FILE)"
    dialect = _DIALECTS.get(base)
    if dialect is None:
        return ways
    return f"{ways}; scoring there works: dpsql export --db FILE --model NAME --dialect {dialect} --to FILE.sql"


def file_refusal(path: Path) -> UsageError | None:
    """Return the error for a file of a kind that dpsql does not open, by its first bytes or its ending; None else."""
    kind = kind_of_file(path)
    if kind is None:
        return None
    return UsageError(f'"{path}" is {kind.title}, which dpsql does not open.', hint=kind.hint)


def kind_of_file(path: Path) -> _Kind | None:
    """Return the kind of a file that exists and that dpsql does not open; None for any other."""
    try:
        with path.open("rb") as file:
            start = file.read(_START)
    except OSError:
        return None
    if start[8:12] == _DUCKDB:
        return None
    by_bytes = next((kind for kind in _KINDS if kind.magic and start.startswith(kind.magic)), None)
    return by_bytes or next((kind for kind in _KINDS if path.name.lower().endswith(kind.endings or "\x00")), None)


def other_files(folder: Path) -> str:
    """Return what kinds of files a folder without tables holds, in words that follow a sentence; "" where none."""
    endings = {path.suffix.lower() for path in folder.iterdir() if path.is_file()}
    titles = sorted({kind.title for kind in _KINDS if endings & set(kind.endings)})
    return f" It holds {' and '.join(titles)}, which dpsql does not open." if titles else ""
