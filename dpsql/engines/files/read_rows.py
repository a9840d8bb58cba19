"""Reads new rows from a CSV or Parquet file into a DataFrame, in a throw-away DuckDB of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pandas as pd

from dpsql.engines.duckdb.files import as_pattern
from dpsql.engines.error_replacement import ErrorReplacement
from dpsql.errors import DatabaseError

#: One thread reads: several would guess where a row starts, wrongly where line breaks are inside quotes.
_QUERIES = {
    "csv": "SELECT * FROM read_csv(?, all_varchar := true, parallel := false) LIMIT ?",
    "parquet": "SELECT * FROM read_parquet(?) LIMIT ?",
}
#: The rows that DuckDB computes at a time.
_VECTOR = 2048
_KINDS = {".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".pq": "parquet"}


def is_file(data: str | Path) -> bool:
    """Whether a name is meant as a file: a Path, or text that ends like one.

    >>> is_file("new_rows"), is_file("new_rows.parquet")
    (False, True)
    """
    return isinstance(data, Path) or Path(str(data)).suffix.lower() in _KINDS


def read_rows(path: Path, numeric: Sequence[str], *, limit: int | None = None) -> pd.DataFrame:
    """Return the rows of a file, or its first `limit`.

    In CSV all cells are text, except that `numeric` columns become numbers or NULL.
    """
    with _open_rows(path, limit) as rows:
        frame = _replace_errors(rows.failure, rows.connection.fetchdf)
    return _with_numbers(frame, rows.kind, numeric)


def read_chunks(path: Path, numeric: Sequence[str], count: int) -> Iterator[pd.DataFrame]:
    """Yield the rows of a file as `read_rows` does, about `count` at a time; one chunk where there are none."""
    with _open_rows(path, None) as rows:
        first = True
        while True:
            chunk = _replace_errors(rows.failure, lambda: rows.connection.fetch_df_chunk(max(1, count // _VECTOR)))
            if chunk.empty and not first:
                return
            first = False
            yield _with_numbers(chunk, rows.kind, numeric)


@dataclass(frozen=True)
class _Rows:
    """The rows of a file: its kind, the connection that hands them out, and what is said where they cannot be read."""

    kind: str
    connection: duckdb.DuckDBPyConnection
    failure: str


@contextmanager
def _open_rows(path: Path, limit: int | None) -> Iterator[_Rows]:
    """Ask a DuckDB of its own for the rows of a file."""
    kind = _KINDS.get(path.suffix.lower())
    if kind is None:
        raise DatabaseError(f'"{path}" is neither CSV nor Parquet.', hint="name it .csv or .parquet")
    if not path.is_file():
        raise DatabaseError(f'there is no file "{path}".', hint="check the path")
    text, failure = _QUERIES[kind], f'"{path}" cannot be read as {kind.upper()}.'
    with (
        TemporaryDirectory(prefix="dpsql-") as spill,
        duckdb.connect(config={"temp_directory": spill}) as connection,
    ):
        _replace_errors(failure, lambda: connection.execute(text, [as_pattern(path), limit]))
        yield _Rows(kind, connection, failure)


def _with_numbers(frame: pd.DataFrame, kind: str, numeric: Sequence[str]) -> pd.DataFrame:
    for name in numeric if kind == "csv" else ():
        if name in frame.columns:
            frame[name] = pd.to_numeric(frame[name], errors="coerce")
    return frame


def _reword(doing: str, error: Exception) -> DatabaseError:
    return DatabaseError(doing, hint="check the file")


_replace_errors = ErrorReplacement((duckdb.Error,), _reword)
