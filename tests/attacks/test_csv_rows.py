"""Finding 1: one row of a CSV file is one row of the table, however long the file and whatever its cells hold."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsql
from dpsql.engines.files import csv_rows
from dpsql.engines.files.csv_header import Header
from dpsql.engines.files.csv_rows import LONGEST_ROW, check_rows
from dpsql.engines.files.read_rows import read_rows
from dpsql.errors import DatabaseError, TableChanged
from tests.engines.folder import counted, opened
from tests.engines.folder import csv as write
from tests.tables import SCHEMA

#: More than DuckDB reads at once (8 MB for each of several threads, 32 MB for one).
SIZES = (9_000_000, 34_000_000)
#: Rows that are one more, as CSV.
NEW = {
    "short": b"1,2\n",
    "line breaks": b'"' + b"l1\nl2,x\r\n" * 40 + b'",2\n',
    "a row inside a cell": b'"1,2\n3,4\n",5\n',
    "quotes": b'"""\n""","""""\n"\n',
    "long": b'"' + b"line\n" * 150_000 + b'",2\n',
    "more cells": b'1,2,"3\n4"\n',
}


def filled(size: int) -> list[bytes]:
    """Return about so many bytes of rows, half of them with line breaks and commas inside quotes."""
    drawn, rows, length = Random(5), [], 0
    while length < size:
        texts = b"x" * drawn.randint(0, 60), b'"' + b'l1\nl2,""q""\r\n' * drawn.randint(1, 8) + b'"'
        rows.append(drawn.choice(texts) + b"," + drawn.choice(texts) + b"\n")
        length += len(rows[-1])
    return rows


def exact(path: Path) -> int:
    """Return how many rows a run counts."""
    engine = opened(path.parent)
    found = counted(engine, "SELECT COUNT(*) AS n FROM main.t")["n"]
    engine.close()
    return int(found)


@pytest.mark.parametrize(("size", "kinds"), [(SIZES[0], list(NEW)), (SIZES[1], ["line breaks", "long"])])
def test_one_row_more_is_one_row_more(tmp_path: Path, size: int, kinds: list[str]) -> None:
    """Whatever is put before all other rows moves them in the file, and none of them in the count."""
    rows = filled(size)
    whole = b"".join(rows)
    for kind in kinds:
        found = exact(write(tmp_path / "t.csv", b"a,b\n" + NEW[kind] + whole))
        assert found == len(rows) + 1, kind


def test_rows_are_those_of_pythons_reader(tmp_path: Path) -> None:
    """Count and cells are what Python's csv module reads, in private and in public files."""
    path = write(tmp_path / "t.csv", b"a,b\n" + b"".join(filled(SIZES[0])))
    with path.open(newline="") as file:
        rows = [tuple(row) for row in csv.reader(file)][1:]
    engine = opened(tmp_path)
    frame = engine.frame(sqlglot.parse_one("SELECT * FROM main.t", dialect="duckdb")).fillna("")
    engine.close()
    public = read_rows(path, ()).fillna("")
    assert list(frame.itertuples(index=False, name=None)) == rows
    assert list(public.itertuples(index=False, name=None)) == rows


BAD = {
    "an open quote": 'a,b\n1,"2\n3,4\n',
    "an open quote at the end": 'a,b\n1,2\n3,"',
    "a quote inside a plain cell": 'a,b\n5",2\n3,4\n5",6\n',
    "text after a closing quote": 'a,b\n"x"y,2\n3,4\n',
    "two kinds of line ends": "a,b\r\n1,2\n3,4\r\n",
    "a lone return": "a,b\n1\r2,3\n",
    "a row without end": "a,b\n" + "x" * (LONGEST_ROW + 1) + ",2\n",
    "a blank line": "a,b\n1,2\n\n3,4\n",
    "a blank line between lines that end in CR LF": "a,b\r\n1,2\r\n\r\n3,4\r\n",
    "a blank line between lines that end in CR": "a,b\r1,2\r\r3,4\r",
    "a blank line after quotes": 'a,b\n"1","\n"\n\n3,4\n',
    "a blank line at the end": "a,b\r\n1,2\r\n\r\n",
    "a blank line after the header": "a,b\n\n1,2\n",
    "bytes that are not UTF-8": "a,b\n1,\udcff\n3,4\n",
    "such bytes in a last line without end": "a,b\n1,2\n3,zz\udcff",
    "a sign that is cut at the end": "a,b\n1,2\n3,zz\udcc3",
    "half of a pair of UTF-16": "a,b\n1,\udced\udca0\udc80\n",
}


def as_bytes(text: str) -> bytes:
    """Return a text as UTF-8, in which lone halves of pairs stand for bytes that are not."""
    return text.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("bad", BAD)
def test_a_file_whose_rows_cannot_be_told_apart_is_refused_before_the_charge(tmp_path: Path, bad: str) -> None:
    """Neither registering nor training reads it, nothing is charged, and no message quotes it."""
    path = write(tmp_path / "people.csv", "c,x,y\na,1,yes\n")
    with dpsql.connect(tmp_path) as db:
        db.register("people", SCHEMA, cap=2)
    write(path, as_bytes(BAD[bad].replace("a,b", "c,x,y", 1)))
    with dpsql.connect(tmp_path) as db:
        with pytest.raises(DatabaseError, match="cannot be told apart"):
            db.train("people", epsilon=1, method="rdt", trees=2, depth=1)
        assert db.budget("people").spent_text == "0"


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1 << 22])
@pytest.mark.parametrize("bad", BAD)
def test_faults_are_seen_wherever_they_lie(tmp_path: Path, bad: str, piece: int, monkeypatch: Any) -> None:
    """The pieces in which a file is scanned have no say."""
    monkeypatch.setattr(csv_rows, "_PIECE", piece if len(BAD[bad]) < 1000 else 1 << 16)
    with pytest.raises(DatabaseError, match="cannot be told apart"):
        check_rows(write(tmp_path / "t.csv", as_bytes(BAD[bad])), Header(("a", "b"), ","))


def test_an_empty_cell_of_a_table_with_one_column_is_a_blank_line(tmp_path: Path) -> None:
    """It is refused, too; a quoted empty cell is none."""
    check_rows(write(tmp_path / "t.csv", 'a\n1\n""\n2\n'), Header(("a",), ","))
    with pytest.raises(DatabaseError, match="a line is blank"):
        check_rows(write(tmp_path / "t.csv", "a\n1\n\n2\n"), Header(("a",), ","))


CELLS = st.text(st.sampled_from('"\n\r, xé€😀'), max_size=6)


@settings(max_examples=40)
@given(st.lists(st.tuples(CELLS, CELLS)), st.sampled_from(["\n", "\r\n", "\r"]), st.integers(1, 9))
def test_what_a_writer_writes_is_taken_and_read_as_written(
    tmp_path_factory: Any, rows: list[tuple[str, str]], end: str, piece: int
) -> None:
    """Any cells, each kind of line end: the file is not refused, and its rows are those that were written."""
    text = io.StringIO()
    csv.writer(text, lineterminator=end, quoting=csv.QUOTE_ALL).writerows([("a", "b"), *rows])
    folder = tmp_path_factory.mktemp("csv")
    path = write(folder / "t.csv", text.getvalue())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_rows, "_PIECE", piece)
        check_rows(path, Header(("a", "b"), ","))
    engine = opened(folder)
    assert engine.table("t") is not None
    frame = engine.frame(sqlglot.parse_one("SELECT * FROM main.t", dialect="duckdb")).fillna("")
    engine.close()
    assert list(frame.itertuples(index=False, name=None)) == rows


def test_a_file_rewritten_after_it_was_checked_is_not_read(tmp_path: Path) -> None:
    """Same length and same time of writing do not help: the run fails instead of reading an open quote."""
    path = write(tmp_path / "t.csv", "a,b\n1,2\n3,4\n")
    before = path.stat()
    engine = opened(tmp_path)
    info = engine.table("t")
    assert info is not None
    path.write_bytes(b'a,b\n1,"\n3,4\n')
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises((TableChanged, DatabaseError)), engine.workspace([info]):
        pass
    engine.close()
