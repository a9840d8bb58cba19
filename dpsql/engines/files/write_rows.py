"""Writes rows that come in chunks to a new CSV or Parquet file: all of them or nothing, in bounded memory.

They go into a folder beside the file that was asked for, which gets its name when it is complete. For Parquet each
chunk is a file of its own first: a column may be without any value in one chunk, and only all chunks tell its type.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

import duckdb
import pandas as pd
from sqlglot import exp

from dpsql.engines.duckdb.files import as_pattern
from dpsql.errors import ParameterError, UsageError

#: The endings of files that can be written.
ENDINGS = (".csv", ".parquet")
#: What DuckDB may use of memory while it writes Parquet; a chunk of 100,000 rows takes some 10 MB.
_MEMORY = "64MB"
_DIALECT = "duckdb"
_CHUNK = "chunk"


def check_ending(path: str | Path) -> None:
    """Raise ParameterError unless a file's ending says what to write."""
    if Path(path).suffix.lower() not in ENDINGS:
        raise ParameterError("to", allowed=f"a file whose name ends in {' or '.join(ENDINGS)}", given=str(path))


def write_rows(
    path: str | Path, chunks: Iterable[pd.DataFrame], *, on_rows: Callable[[int], object] | None = None
) -> int:
    """Write rows to a new file and return their number; a file that exists is left as it is.

    There is at least one chunk, perhaps without rows; all have the same columns. `on_rows` is told after each chunk how
    many rows there are so far.
    """
    target = Path(path)
    check_ending(target)
    work = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    write = _write_csv if target.suffix.lower() == ".csv" else _write_parquet
    counted = _CountedChunks(chunks, on_rows or (lambda rows: None))
    try:
        _refuse_existing(target)
        work.mkdir()
        write(work, counted)
        _publish(_only_file(work), target)
    except OSError as error:
        raise _not_written(target, error.strerror or type(error).__name__) from None
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return counted.rows


class _CountedChunks:
    """Chunks, and the number of the rows that were written."""

    def __init__(self, chunks: Iterable[pd.DataFrame], on_rows: Callable[[int], object]) -> None:
        self._chunks = chunks
        self._on_rows = on_rows
        self.rows = 0

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Yield each chunk; when the next is asked for, the one before is written."""
        for chunk in self._chunks:
            yield chunk
            self.rows += len(chunk)
            self._on_rows(self.rows)


def _write_csv(work: Path, chunks: _CountedChunks) -> None:
    """Write all rows below one header."""
    with _only_file(work).open("x", encoding="utf-8", newline="") as file:
        for number, chunk in enumerate(chunks):
            _append_csv(file, chunk, header=number == 0)


def _append_csv(file: IO[str], chunk: pd.DataFrame, *, header: bool) -> None:
    """Write a chunk's rows; a time has one spelling, whatever other times its chunk has."""
    columns = [
        column.map(str, na_action="ignore").astype(object) if getattr(column.dtype, "kind", "") == "M" else column
        for _, column in chunk.items()
    ]
    pd.concat(columns, axis=1).to_csv(file, index=False, header=header)


def _write_parquet(work: Path, chunks: _CountedChunks) -> None:
    """Write each chunk as a file, and then all of them as one; a column has the type that holds all its values."""
    names: list[str] = []
    with duckdb.connect(config={"memory_limit": _MEMORY, "threads": 1, "temp_directory": str(work)}) as connection:
        try:
            for number, chunk in enumerate(chunks):
                names = names or [str(name) for name in chunk.columns]
                connection.register(_CHUNK, chunk.dropna(axis=1, how="all") if len(chunk) else chunk)
                _copy(connection, exp.select("*").from_(_CHUNK), _part(work, number))
                connection.unregister(_CHUNK)
            _copy(connection, _all_parts(connection, work, names), _only_file(work))
        except duckdb.Error as error:
            raise OSError(0, type(error).__name__) from None


def _all_parts(connection: duckdb.DuckDBPyConnection, work: Path, names: list[str]) -> exp.Select:
    """Return the query of the rows of all chunks, in order; a column without any value is one of texts."""
    pattern = exp.Literal.string(str(Path(as_pattern(work)) / "*.part"))
    wide = exp.Kwarg(this=exp.var("union_by_name"), expression=exp.true())
    parts = exp.Anonymous(this="READ_PARQUET", expressions=[pattern, wide])
    known = [
        row[0] for row in connection.execute(exp.Describe(this=exp.select("*").from_(parts)).sql(_DIALECT)).fetchall()
    ]
    columns = [
        exp.column(name, quoted=True)
        if name in known
        else exp.alias_(exp.cast(exp.null(), exp.DataType.Type.TEXT), name, quoted=True)
        for name in names
    ]
    return exp.select(*columns).from_(parts.copy())


def _copy(connection: duckdb.DuckDBPyConnection, query: exp.Select, to: Path) -> None:
    """Write the rows of a query to a Parquet file."""
    place, form = exp.Literal.string(str(to)), exp.CopyParameter(this=exp.var("FORMAT"), expression=exp.var("PARQUET"))
    connection.execute(exp.Copy(this=query.subquery(), kind=False, files=[place], params=[form]).sql(_DIALECT))


def _part(work: Path, number: int) -> Path:
    """Return the name of a chunk's file; names are in the order of their chunks."""
    return work / f"{number:09d}.part"


def _only_file(work: Path) -> Path:
    return work / "all"


def _publish(complete: Path, target: Path) -> None:
    """Give a complete file its name, without ever replacing another file."""
    with suppress(OSError):  # a file system without links
        target.hardlink_to(complete)
        return
    _refuse_existing(target)
    complete.rename(target)


def _refuse_existing(target: Path) -> None:
    """Raise UsageError where a file exists, in the words of all commands."""
    if target.exists():
        raise UsageError(f'"{target}" exists, and is not overwritten.', hint="another name behind --to, or remove it")


def _not_written(target: Path, reason: str) -> ParameterError:
    return ParameterError("to", allowed=f"a file that can be written ({reason})", given=str(target))
