"""Reads new rows from a CSV or Parquet file into a DataFrame, in a throw-away DuckDB of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pandas as pd

from dpsql.engines.duckdb.files import as_pattern
from dpsql.errors import DatabaseError

#: One thread reads: several would guess where a row starts, wrongly where line breaks are inside quotes.
_CSV = "SELECT * FROM read_csv(?, all_varchar := true, parallel := false)"
_KINDS = {".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".pq": "parquet"}


def is_file(data: str | Path) -> bool:
    """Whether a name is meant as a file: a Path, or text that ends like one.

    >>> is_file("new_rows"), is_file("new_rows.parquet")
    (False, True)
    """
    return isinstance(data, Path) or Path(str(data)).suffix.lower() in _KINDS


def read_rows(path: Path, numeric: Sequence[str]) -> pd.DataFrame:
    """Return the rows of a file. In CSV all cells are text, except that `numeric` columns become numbers or NULL."""
    kind = _KINDS.get(path.suffix.lower())
    if kind is None:
        raise DatabaseError(f'"{path}" is neither CSV nor Parquet.', hint="name it .csv or .parquet")
    if not path.is_file():
        raise DatabaseError(f'there is no file "{path}".', hint="check the path")
    frame: pd.DataFrame | None = None
    try:
        with (
            TemporaryDirectory(prefix="dpsql-") as spill,
            duckdb.connect(config={"temp_directory": spill}) as connection,
        ):
            if kind == "parquet":
                frame = connection.execute("SELECT * FROM read_parquet(?)", [as_pattern(path)]).fetchdf()
            else:
                frame = connection.execute(_CSV, [as_pattern(path)]).fetchdf()
    except duckdb.Error:
        frame = None
    if frame is None:
        raise DatabaseError(f'"{path}" cannot be read as {kind.upper()}.', hint="check the file")
    for name in numeric if kind == "csv" else ():
        if name in frame.columns:
            frame[name] = pd.to_numeric(frame[name], errors="coerce")
    return frame
