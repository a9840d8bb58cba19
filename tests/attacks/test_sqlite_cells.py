"""Tables of SQLite files: no cell makes a run fail, whatever its column was declared as, and rows have one budget."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlglot import parse_one

from dpsql.api.database import connect
from dpsql.engines.files.sqlite_rows import LONGEST_CELL, _as_text, read_chunks
from dpsql.engines.open_engine import open_engine
from dpsql.errors import DatabaseError, QueryFailed
from tests.attacks.budgets import SCHEMA, TINY, assert_no_free_look, assert_one_budget

#: Cells that a column of SQLite can hold although it is declared otherwise.
HOSTILE = ["abc", b"\xff\x00", 2**63 - 1, -(2**63), 1e308, float("inf"), None, "", "\x00", "1e999", "nan", "'", b""]


def make(path: Path, cells: list[object], *, table: str = "people") -> None:
    """Make a SQLite file with a table whose every column holds every given cell."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f'CREATE TABLE "{table}" (x INTEGER, c TEXT, y TEXT, "odd "" name" REAL)')
        rows = [(number, "a", "yes", 0.5) for number in range(20)]
        rows += [tuple(cell if place == column else 1 for place in range(4)) for cell in cells for column in range(4)]
        connection.executemany(f'INSERT INTO "{table}" VALUES (?, ?, ?, ?)', rows)
        connection.commit()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a SQLite file whose table "people" holds every hostile cell in every column."""
    make(tmp_path / "shop.db", HOSTILE)
    return tmp_path / "shop.db"


@pytest.mark.parametrize("method", ["rdt", "rosnam", "snr"])
def test_no_cell_makes_a_run_fail(path: Path, method: str) -> None:
    """Text in an INTEGER, bytes that are no text, the ends of the types: a run ends, and predicting too."""
    before = path.read_bytes()
    with connect(path, who="ann") as db:
        db.register("people", SCHEMA, cap=1)
        model = db.train("people", method=method, epsilon="0.5")
        assert db.budget("people").spent_text == "0.5"
        make(path.with_name("new.db"), HOSTILE, table="fresh")
    assert path.read_bytes() == before
    with connect(path.with_name("new.db")) as other:
        assert len(other.add(model).predict("fresh")) == 20 + 4 * len(HOSTILE)


def test_the_rows_are_counted_as_they_are(path: Path) -> None:
    """Every row is there once, and numbers are read as numbers."""
    with closing(open_engine(path)) as engine:
        info = engine.table("people")
        assert info is not None
        assert {column.family for column in info.columns} == {"untyped"}
        query = parse_one(
            "SELECT COUNT(*) AS n, COUNT(TRY_CAST(x AS DOUBLE)) AS numbers FROM main.people", dialect="duckdb"
        )
        with engine.workspace([info]) as workspace:
            counts = workspace.aggregate(query, {})
    assert counts["n"].tolist() == [20 + 4 * len(HOSTILE)]
    assert counts["numbers"].tolist()[0] >= 20 + 3 * len(HOSTILE)


def distinct_texts(path: Path, cells: list[object]) -> list[int]:
    """Return how many cells, and how many different texts, a run finds in a column without a declared type."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE units (u)")
        connection.executemany("INSERT INTO units VALUES (?)", [(cell,) for cell in cells])
        connection.commit()
    with closing(open_engine(path)) as engine:
        info = engine.table("units")
        assert info is not None
        query = parse_one("SELECT COUNT(u) AS n, COUNT(DISTINCT u) AS texts FROM main.units", dialect="duckdb")
        with engine.workspace([info]) as workspace:
            counts = workspace.aggregate(query, {})
    return [int(counts["n"][0]), int(counts["texts"][0])]


def test_different_units_stay_different(tmp_path: Path) -> None:
    """Bytes that are no text, texts that look like their spelling, and long cells: none takes the place of another."""
    long = [b"\xff" * LONGEST_CELL + bytes([last]) for last in range(3)] + ["a" * LONGEST_CELL + "b"]
    cells: list[object] = [
        b"\xff\x01",
        b"\xfe\x01",
        b"\xff",
        "\ufffd",
        "\ufffd\x01",
        "",
        0.1,
        0.1 + 2**-54,
        1,
        1.0,
        *long,
    ]
    cells += [2**53, 2**53 + 1, float(2**53)]
    for _ in range(2):  # what stands for a cell can be a cell itself
        cells += [_as_text(cell.encode() if isinstance(cell, str) else cell) for cell in cells]
    different = {cell if isinstance(cell, bytes) else str(cell).encode() for cell in cells}
    assert distinct_texts(tmp_path / "units.db", cells) == [len(cells), len(different)]


def test_equal_texts_are_one_unit(tmp_path: Path) -> None:
    """A unit is its text, which the cell alone decides: stored as a number, a text or bytes, 5 is 5."""
    assert distinct_texts(tmp_path / "units.db", [5, "5", b"5", None, "5.0", 5.0]) == [5, 2]


def test_few_long_rows_are_handed_over_at_once(tmp_path: Path) -> None:
    """Chunks are bounded by characters too, and a cell beyond the longest stands as its hash, whatever it holds."""
    with closing(sqlite3.connect(tmp_path / "long.db")) as connection:
        connection.execute("CREATE TABLE t (a)")
        cells = ["a" * LONGEST_CELL] * 40 + ["é" * LONGEST_CELL, b"\xff" * 50_000_000]
        connection.executemany("INSERT INTO t VALUES (?)", [(cell,) for cell in cells])
        connection.commit()
    chunks = [chunk["a"] for chunk in read_chunks(tmp_path / "long.db", "t", ["a"])]
    sizes = [sum(len(text or "") for text in chunk) for chunk in chunks]
    assert len(sizes) == 3
    assert max(sizes) < 18_000_000
    hashes = [hashlib.sha256(data).hexdigest() for data in ("é".encode() * LONGEST_CELL, b"\xff" * 50_000_000)]
    assert chunks[-1][-2:] == [f"dpsql cell sha256 {digest}" for digest in hashes]


def test_a_run_sees_one_state(path: Path) -> None:
    """Rows that are written while a session is open are not in it, and do not end it."""
    with closing(open_engine(path)) as engine:
        info = engine.table("people")
        assert info is not None
        query = parse_one("SELECT COUNT(*) AS n FROM main.people", dialect="duckdb")
        with engine.workspace([info]) as workspace:
            before = workspace.aggregate(query.copy(), {})["n"].tolist()
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("INSERT INTO people SELECT * FROM people")
                connection.commit()
            assert workspace.aggregate(query.copy(), {})["n"].tolist() == before


def test_a_column_that_is_gone_is_no_text(path: Path) -> None:
    """SQLite takes a quoted name that no column has for a text; a column that was dropped must fail instead."""
    with pytest.raises(QueryFailed):
        list(read_chunks(path, "people", ["x", "gone"]))


def test_a_moved_file_keeps_its_budget(path: Path, tmp_path: Path) -> None:
    """Its ledger stays behind; named again, it knows the table. Beside it, the table has one budget."""
    with connect(path, who="ann") as db:
        db.register("people", SCHEMA, cap=1)
        db.train("people", **TINY)
        assert_one_budget(db, "main.people")
    ledger = tmp_path / "shop.db.dpsql_ledger.duckdb"
    assert ledger.exists()
    moved = path.rename(tmp_path / "moved.db")
    with connect(moved, ledger=ledger) as db:
        assert db.budget("people").spent_text == "0.5"
        assert_no_free_look(db, "people")


def test_a_damaged_file_fails_with_the_one_sentence(path: Path) -> None:
    """What SQLite says of a damaged page is not shown."""
    with closing(open_engine(path)) as engine:
        info = engine.table("people")
        assert info is not None
        query = parse_one("SELECT COUNT(*) AS n FROM main.people", dialect="duckdb")
        content = bytearray(path.read_bytes())
        content[4096:] = b"\x99" * (len(content) - 4096)
        with engine.workspace([info]) as workspace:
            path.write_bytes(content)
            with pytest.raises(QueryFailed, match="count the rows") as caught:
                workspace.aggregate(query, {})
    assert "malformed" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_file_without_tables_is_refused(tmp_path: Path) -> None:
    """There is nothing to register, and no ledger is left behind."""
    with closing(sqlite3.connect(tmp_path / "empty.db")) as connection:
        connection.execute("CREATE TABLE t (a)")
        connection.execute("DROP TABLE t")
    with pytest.raises(DatabaseError, match="no table in the SQLite file"):
        connect(tmp_path / "empty.db")
    assert [file.name for file in tmp_path.iterdir()] == ["empty.db"]
