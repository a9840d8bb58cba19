"""Finding 4 on files: a run over Parquet files that change while it reads them fails, whatever stays alike."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlglot

from dpsql.errors import TableChanged
from tests.engines.folder import csv, opened, parquet

COUNT = sqlglot.parse_one("SELECT COUNT(*) AS n FROM main.sales", dialect="duckdb")


def rewrite(folder: Path) -> None:
    """Write other rows into a file, in place, with the same length and time of writing."""
    part = folder / "a.parquet"
    before = part.stat()
    other = parquet(folder.parent / "other.parquet", "SELECT 'y' AS s FROM range(3)").read_bytes()
    assert len(other) == before.st_size
    with part.open("r+b") as file:
        file.write(other)
    os.utime(part, ns=(before.st_atime_ns, before.st_mtime_ns))


def add(folder: Path) -> None:
    """Add a file to the table."""
    parquet(folder / "c.parquet", "SELECT 'x' AS s FROM range(3)")


def remove(folder: Path) -> None:
    """Remove a file of the table."""
    (folder / "b.parquet").unlink()


@pytest.mark.parametrize("change", [rewrite, add, remove])
def test_a_table_of_files_that_changes_fails_the_run(tmp_path: Path, change: Callable[[Path], None]) -> None:
    """Between two statements of one workspace, and between what the catalog said and the first statement."""
    for name in "ab":
        parquet(tmp_path / "sales" / f"{name}.parquet", "SELECT 'x' AS s FROM range(3)")
    engine = opened(tmp_path)
    info = engine.table("sales")
    assert info is not None
    with engine.workspace([info]) as here:
        assert here.aggregate(COUNT, {})["n"].tolist() == [6]
        change(tmp_path / "sales")
        with pytest.raises(TableChanged):
            here.aggregate(COUNT, {})
    with pytest.raises(TableChanged), engine.workspace([info]):
        pass
    engine.close()


def test_a_csv_file_is_read_once(tmp_path: Path) -> None:
    """Rows written to it after the first statement are in none of the others."""
    csv(tmp_path / "sales.csv", "n\n1\n2\n")
    engine = opened(tmp_path)
    info = engine.table("sales")
    assert info is not None
    with engine.workspace([info]) as here:
        counts = [here.aggregate(COUNT, {})["n"].tolist()]
        csv(tmp_path / "sales.csv", "n\n1\n2\n3\n")
        counts.append(here.aggregate(COUNT, {})["n"].tolist())
    engine.close()
    assert counts == [[2], [2]]
