"""Texts in Parquet that are not UTF-8: one such cell must not make charged runs fail."""

from __future__ import annotations

from pathlib import Path

import pytest

import dpsql
from dpsql.errors import DatabaseError
from dpsql.schema import Categorical, Schema

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

SCHEMA = Schema("y", ("no", "yes"), (Categorical("c", ("a", "b")),))


def write(path: Path, cells: list[bytes]) -> None:
    """Write a table of a text column with these bytes, whatever they are, and a label."""
    raw = pa.array(cells, pa.binary())
    texts = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    pq.write_table(pa.table({"c": texts, "y": ["no"] * len(raw)}), path)


def test_a_file_with_such_a_cell_is_refused_before_it_is_registered(tmp_path: Path) -> None:
    """The owner is told to write the file again; the cell is not shown."""
    write(tmp_path / "people.parquet", [b"a"] * 100 + [b"\xff4711"])
    with dpsql.connect(tmp_path) as db, pytest.raises(DatabaseError, match="UTF-8") as caught:
        db.register("people", SCHEMA, cap=1)
    assert "4711" not in f"{caught.value!r}{caught.value}{vars(caught.value)}"


def test_a_file_that_gets_such_a_cell_later_charges_nothing(tmp_path: Path) -> None:
    """The files are looked at before each run that opens them."""
    write(tmp_path / "people.parquet", [b"a", b"b"] * 50)
    with dpsql.connect(tmp_path) as db:
        db.register("people", SCHEMA, cap=1)
    with (tmp_path / "people.parquet").open("r+b") as file:
        start = file.read().index(b"\x01\x00\x00\x00b") + 4
        file.seek(start)
        file.write(b"\xff")
    with dpsql.connect(tmp_path) as db:
        with pytest.raises(DatabaseError, match="UTF-8"):
            db.train("people", epsilon=0.5, method="rdt", trees=1, depth=1)
        assert db.book.entries(event="reserve") == []
