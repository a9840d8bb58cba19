"""DuckDB over files: what a hardened connection reaches, columns, row addresses, and files that change."""

from __future__ import annotations

import os
import random
from pathlib import Path

import duckdb
import pytest
import sqlglot

from dpsql.engines.files.table_files import LEDGER
from dpsql.errors import DatabaseError, DatabaseReadOnly, ParameterError, QueryFailed, TableChanged, UsageError
from tests.hostile import HOSTILE

from .folder import counted, csv, opened, parquet

MANY = "SELECT range AS n FROM range({})"
DISTINCT = "SELECT COUNT(*) AS n, COUNT(DISTINCT rowid) AS addresses FROM main.{}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with each kind of table, and a file that is none."""
    parquet(tmp_path / "adult.parquet", MANY.format(10_000))
    csv(tmp_path / "people.csv", "n\n" + "\n".join("same" for _ in range(5000)))
    parquet(tmp_path / "sales" / "year=2023" / "a.parquet", MANY.format(3000))
    parquet(tmp_path / "sales" / "year=none" / "b.parquet", MANY.format(4000))
    csv(tmp_path / "secret.txt", "n\n1\n")
    return tmp_path


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('{folder}/secret.txt')",
        "SELECT * FROM read_text('{folder}/dpsql_ledger.duckdb.anchor')",
        "SELECT * FROM read_parquet('{folder}/*.parquet')",
        "SELECT * FROM read_parquet('{folder}/sales/*/*.parquet')",
        "SELECT * FROM glob('{folder}/*')",
        "COPY (SELECT 1 AS n) TO '{folder}/out.csv'",
        "ATTACH '{folder}/other.duckdb'",
        "INSTALL httpfs",
        "SET allowed_paths = []",
        "SET allowed_directories = ['{folder}']",
        "SET enable_external_access = true",
    ],
)
def test_nothing_but_the_files_can_be_reached(folder: Path, statement: str) -> None:
    """Other files of the same folder, patterns, databases and settings are refused."""
    engine = opened(folder)
    with pytest.raises(QueryFailed), engine.transaction() as transaction:
        transaction.rows(statement.format(folder=folder))
    assert engine.weaknesses() == []
    engine.close()


def test_each_row_has_an_address_of_its_own(folder: Path) -> None:
    """In one file, in the parts of a partitioned table, and in CSV with equal rows."""
    engine = opened(folder)
    for name, rows in (("adult", 10_000), ("sales", 7000), ("people", 5000)):
        assert counted(engine, DISTINCT.format(name)) == {"n": rows, "addresses": rows}
    engine.close()


@pytest.mark.parametrize("name", ["adult", "sales", "people"])
def test_an_address_is_the_same_in_every_statement_of_a_session(folder: Path, name: str) -> None:
    """Whatever a statement filters, and on how many threads."""
    engine = opened(folder)
    query = sqlglot.parse_one(f"SELECT rowid AS a, n FROM main.{name}", dialect="duckdb")
    half = sqlglot.parse_one(f"SELECT rowid AS a, n FROM main.{name} WHERE HASH(rowid) % 2 = 0", dialect="duckdb")
    with engine.workspace() as here:
        first, second = (here.aggregate(one, {}) for one in (query, half))
    known = dict(zip(first["a"].tolist(), first["n"].tolist(), strict=True))
    again = dict(zip(second["a"].tolist(), second["n"].tolist(), strict=True))
    assert again
    assert again.items() <= known.items()
    engine.close()


def test_columns_come_from_footers_and_headers(folder: Path) -> None:
    """Parquet has types; cells of CSV and names of folders have none, whatever they look like."""
    engine = opened(folder)
    found = {name: engine.table(name) for name in ("adult", "people", "sales")}
    shown = {name: [(one.name, one.type, one.family) for one in info.columns] for name, info in found.items() if info}
    assert shown == {
        "adult": [("n", "BIGINT", "integer")],
        "people": [("n", "VARCHAR", "untyped")],
        "sales": [("n", "BIGINT", "integer"), ("year", "VARCHAR", "untyped")],
    }
    assert {info.kind for info in found.values() if info} == {"table"}
    engine.close()


def test_no_row_changes_the_type_of_a_cell(tmp_path: Path) -> None:
    """Numbers, dates or text: a CSV column is text all the same."""
    for number, body in enumerate(("1\n2\n", "2024-01-01\n", "true\n", "x\n", "")):
        csv(tmp_path / f"t{number}.csv", "a\n" + body)
    engine = opened(tmp_path)
    found = [engine.table(f"t{number}") for number in range(5)]
    assert {info.columns for info in found if info} == {found[0].columns}  # type: ignore[union-attr]
    engine.close()


def test_no_line_of_csv_makes_counting_fail(tmp_path: Path) -> None:
    """Unclosed quotes, bad bytes, too few or too many cells: what is not CSV is left out."""
    parts = [b'"', b",", b"\n", b"\r", b"\r\n", b"x", b"\xff", b"\x00", "🌲".encode(), b"1", b"'", b"\\", b"#"]
    shuffled = random.Random(7)
    for number in range(150):
        body = b"".join(shuffled.choice(parts) for _ in range(shuffled.randint(0, 40)))
        csv(tmp_path / f"t{number}.csv", b"a,b\n" + body + (b"z" * 3_000_000 if number % 50 == 0 else b""))
    engine = opened(tmp_path)
    for number in range(150):
        assert counted(engine, f"SELECT COUNT(*) AS n FROM main.t{number}")["n"] >= 0
    engine.close()


def test_cells_are_read_as_they_stand(tmp_path: Path) -> None:
    """Empty is NULL; quotes, commas, line breaks and emoji inside quotes are text."""
    csv(tmp_path / "t.csv", 'a,b\n1,\n"x, ""y""","line\nbreak"\n🌲,NULL\n')
    engine = opened(tmp_path)
    frame = engine.frame(sqlglot.parse_one("SELECT * FROM main.t", dialect="duckdb"))
    cells = frame.astype(object).where(frame.notna(), None).to_numpy().tolist()
    assert cells == [["1", None], ['x, "y"', "line\nbreak"], ["🌲", "NULL"]]
    engine.close()


@pytest.mark.parametrize("text", ["n\n", "n"])
def test_a_header_alone_is_an_empty_table(tmp_path: Path, text: str) -> None:
    """No rows are no error; so in Parquet."""
    csv(tmp_path / "t.csv", text)
    parquet(tmp_path / "u.parquet", MANY.format(0))
    engine = opened(tmp_path)
    assert [counted(engine, DISTINCT.format(name))["n"] for name in "tu"] == [0, 0]
    engine.close()


def test_hostile_names_are_names(tmp_path: Path) -> None:
    """Whatever a file is called, it is that file that is read, and nothing happens to the others."""
    names = [name for name in HOSTILE if "/" not in name and "\\" not in name and not name.startswith((".", "_"))]
    names = [name for name in names if len(name.encode()) < 200]
    for number, name in enumerate([*names, "a*", "a[b]?"]):
        parquet(tmp_path / f"{name}.parquet", f"SELECT {number} AS n")
    engine = opened(tmp_path)
    for number, name in enumerate([*names, "a*", "a[b]?"]):
        table = sqlglot.exp.table_(name, db="main", quoted=True)
        assert engine.frame(sqlglot.exp.select("n").from_(table))["n"].tolist() == [number], name
        assert engine.table(name) is not None
    engine.close()


def test_odd_column_names_are_columns(tmp_path: Path) -> None:
    """Quotes, emoji and words of SQL, in headers and footers."""
    csv(tmp_path / "t.csv", '"it\'s","say ""so""",🌲,select\n1,2,3,4\n')
    parquet(tmp_path / "u.parquet", """SELECT 1 AS "it's", 2 AS "say ""so""\", 3 AS "🌲", 4 AS "select" """)
    engine = opened(tmp_path)
    for name in "tu":
        found = engine.table(name)
        assert found is not None
        assert [column.name for column in found.columns] == ["it's", 'say "so"', "🌲", "select"]
        assert counted(engine, DISTINCT.format(name))["addresses"] == 1
    engine.close()


def test_a_column_called_rowid_is_the_address(tmp_path: Path) -> None:
    """As in a table of the database: rows of one value share a ticket."""
    parquet(tmp_path / "t.parquet", "SELECT range % 3 AS rowid, range AS file_row_number FROM range(9)")
    engine = opened(tmp_path)
    assert counted(engine, DISTINCT.format("t")) == {"n": 9, "addresses": 3}
    engine.close()


@pytest.mark.parametrize("name", ["file_row_number", "FILE_INDEX"])
def test_a_column_that_would_hide_the_address_is_refused(tmp_path: Path, name: str) -> None:
    """When it is asked for, with its name."""
    parquet(tmp_path / "t.parquet", f"SELECT 1 AS {name}")
    engine = opened(tmp_path)
    with pytest.raises(DatabaseError, match=name.lower()):
        engine.table("t")
    engine.close()


def test_a_broken_file_spoils_nothing_else(tmp_path: Path) -> None:
    """The folder opens; the file is refused when it is asked for, without a word of its content."""
    parquet(tmp_path / "good.parquet")
    csv(tmp_path / "bad.parquet", "SECRET is no Parquet")
    csv(tmp_path / "rows.csv", "39,SECRET\n")
    engine = opened(tmp_path)
    assert engine.tables() == ["bad", "good", "rows"]
    for name in ("bad", "rows"):
        with pytest.raises(DatabaseError) as raised:
            engine.table(name)
        assert "SECRET" not in str(raised.value)
        assert raised.value.__cause__ is None
    assert counted(engine, DISTINCT.format("good"))["n"] == 2
    engine.close()


@pytest.mark.parametrize(
    ("place", "query"),
    [
        ("year=2024", "SELECT 'x' AS n, 1 AS m"),
        ("year=2024", "SELECT 1 AS n"),
        ("year=2024", "SELECT 1 AS m, 1 AS n"),
        ("year=2024", "SELECT 1::BIGINT AS n, 1 AS m"),
        ("plain2024", "SELECT 1 AS n, 1 AS m"),
        ("month=2024", "SELECT 1 AS n, 1 AS m"),
    ],
)
def test_parts_that_differ_are_refused(tmp_path: Path, place: str, query: str) -> None:
    """All files of a table have the same columns, types and partitions; which one differs is not told."""
    parquet(tmp_path / "sales" / "year=2023" / "a.parquet", "SELECT 1 AS n, 1 AS m")
    parquet(tmp_path / "sales" / place / "b.parquet", query)
    engine = opened(tmp_path)
    with pytest.raises(DatabaseError, match='folder "sales" differ in their columns') as raised:
        engine.table("sales")
    assert "2024" not in str(raised.value)
    engine.close()


def test_an_optional_column_is_the_same_column(tmp_path: Path) -> None:
    """Whether a part happens to hold a NULL is no difference."""
    parquet(tmp_path / "sales" / "a.parquet", "SELECT 1 AS n")
    parquet(tmp_path / "sales" / "b.parquet", "SELECT CAST(NULL AS INTEGER) AS n")
    engine = opened(tmp_path)
    assert counted(engine, DISTINCT.format("sales"))["n"] == 2
    assert engine.table("sales") is not None
    engine.close()


def test_a_file_that_changes_is_noticed(folder: Path) -> None:
    """Between two looks, and between two statements of one session."""
    engine = opened(folder)
    query = sqlglot.parse_one("SELECT COUNT(*) AS n FROM main.adult", dialect="duckdb")
    with engine.workspace() as here:
        here.aggregate(query, {})
        parquet(folder / "adult.parquet", MANY.format(5))
        with pytest.raises(TableChanged, match="while they were read"):
            here.aggregate(query, {})
    with pytest.raises(TableChanged, match="since they were opened"):
        engine.table("adult")
    engine.close()


def test_a_session_keeps_the_csv_rows_it_began_with(folder: Path) -> None:
    """A CSV file that grows meanwhile is read again by the next session only."""
    engine = opened(folder)
    query = sqlglot.parse_one("SELECT COUNT(*) AS n FROM main.people", dialect="duckdb")
    with engine.workspace() as here:
        before = here.aggregate(query, {})["n"].tolist()
        csv(folder / "people.csv", "n\n1\n")
        assert here.aggregate(query, {})["n"].tolist() == before == [5000]
    engine.close()


def test_a_file_that_vanished_is_no_table(folder: Path) -> None:
    """Neither now nor when the folder is opened again, and its view is gone then."""
    engine = opened(folder)
    (folder / "adult.parquet").unlink()
    assert engine.table("adult") is None
    engine.close()
    again = opened(folder)
    assert again.tables() == ["people", "sales"]
    with pytest.raises(QueryFailed), again.transaction() as transaction:
        transaction.rows("SELECT * FROM adult")
    again.close()


def test_no_row_stays_behind(folder: Path) -> None:
    """After counting, the ledger's database holds views and no table, and nothing else lies in the folder."""
    csv(folder / "people.csv", "n\n" + "\n".join(f"MARKER_{number}" for number in range(2000)))
    engine = opened(folder)
    engine.prepare_to_write()
    for name in ("adult", "people", "sales"):
        counted(engine, DISTINCT.format(name))
    engine.close()
    assert {path.name for path in folder.iterdir()} == {
        "adult.parquet", "people.csv", "sales", "secret.txt", LEDGER,
    }  # fmt: skip
    assert b"MARKER_" not in (folder / LEDGER).read_bytes()
    with duckdb.connect(str(folder / LEDGER)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM duckdb_tables()").fetchall() == [(0,)]


def test_a_view_that_was_redefined_is_not_what_is_counted(folder: Path) -> None:
    """Whoever changes the view of a file changes nothing for counting."""
    engine = opened(folder)
    with engine.transaction() as transaction:
        transaction.run("CREATE OR REPLACE VIEW adult AS SELECT 1 AS n FROM range(3)")
    assert counted(engine, "SELECT COUNT(*) AS n FROM main.adult")["n"] == 10_000
    found = engine.table("adult")
    assert found is not None
    assert found.kind == "table"
    engine.close()


def test_a_table_of_the_same_name_is_refused(folder: Path) -> None:
    """A table that was made in the ledger's database is not hidden by a new file."""
    engine = opened(folder)
    engine.create("scored", sqlglot.parse_one("SELECT 1 AS n"))
    engine.close()
    csv(folder / "scored.csv")
    with pytest.raises(DatabaseError, match='file "scored.csv" would be table "scored"'):
        opened(folder)
    (folder / "scored.csv").unlink()
    opened(folder).close()


def test_a_file_opened_alone_leaves_the_others_out(folder: Path) -> None:
    """Neither listed nor within reach; opened as a folder they are back."""
    alone = opened(folder / "people.csv")
    assert alone.tables() == ["people"]
    with pytest.raises(QueryFailed), alone.transaction() as transaction:
        transaction.rows(f"SELECT * FROM read_parquet('{folder / 'adult.parquet'}')")
    alone.close()
    both = opened(folder)
    assert both.tables() == ["adult", "people", "sales"]
    both.close()


def test_links_are_read_where_they_lead(tmp_path: Path) -> None:
    """A file and a folder behind links are tables."""
    parquet(tmp_path / "store" / "v1" / "a.parquet")
    parquet(tmp_path / "store" / "v2.parquet", MANY.format(5))
    (tmp_path / "data").mkdir()
    os.symlink(tmp_path / "store" / "v1", tmp_path / "data" / "old")
    os.symlink(tmp_path / "store" / "v2.parquet", tmp_path / "data" / "new.parquet")
    engine = opened(tmp_path / "data")
    assert [counted(engine, DISTINCT.format(name))["n"] for name in ("old", "new")] == [2, 5]
    engine.close()


def test_read_only_needs_no_ledger_and_writes_nothing(folder: Path) -> None:
    """The first write makes the ledger; a read-only opening can do without, and leaves one that it finds."""
    engine = opened(folder, read_only=True)
    assert counted(engine, DISTINCT.format("people"))["n"] == 5000
    with pytest.raises(DatabaseReadOnly, match="cannot be written"):
        engine.prepare_to_write()
    engine.close()
    assert not (folder / LEDGER).exists()
    engine = opened(folder)
    engine.prepare_to_write()
    engine.close()
    csv(folder / "fresh.csv")
    before = (folder / LEDGER).read_bytes()
    engine = opened(folder, read_only=True)
    assert counted(engine, DISTINCT.format("fresh"))["n"] == 2
    assert len(engine.frame(sqlglot.parse_one("SELECT * FROM main.fresh", dialect="duckdb"))) == 2
    engine.close()
    assert (folder / LEDGER).read_bytes() == before


def test_a_folder_that_cannot_be_written_asks_for_a_ledger(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next step is --ledger; with it the files are open."""
    place = folder.parent / f"{folder.name}.duckdb"
    writable = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != folder and writable(path, mode))
    engine = opened(folder)
    with pytest.raises(DatabaseReadOnly, match="cannot be written") as raised:
        engine.prepare_to_write()
    engine.close()
    assert "--ledger FILE" in str(raised.value.hint)
    engine = opened(folder, ledger=place)
    assert (engine.path, counted(engine, DISTINCT.format("people"))["n"]) == (place, 5000)
    engine.prepare_to_write()
    engine.close()
    assert not (folder / LEDGER).exists()
    place.unlink()


def test_a_database_has_its_own_ledger(tmp_path: Path) -> None:
    """Naming another one is refused, for one in memory and for a file that has one."""
    with pytest.raises(ParameterError, match="ledger must be given only for files"):
        opened(Path(":memory:"), ledger=tmp_path / "other.duckdb")


def test_files_can_be_opened_twice_in_a_process(folder: Path) -> None:
    """The second opening sees the same files; one that has new ones waits until the first is closed."""
    first, second = opened(folder), opened(folder)
    first.prepare_to_write()
    assert first.tables() == second.tables()
    csv(folder / "fresh.csv")
    with pytest.raises(DatabaseError, match="already open in this process"):
        opened(folder)
    first.close()
    second.close()
    third = opened(folder)
    assert "fresh" in third.tables()
    third.close()


def test_files_are_never_written(folder: Path) -> None:
    """Neither ids nor SQL that a person types."""
    engine = opened(folder)
    found = engine.table("adult")
    assert found is not None
    with pytest.raises(UsageError, match="never writes"):
        engine.add_column(found, "id", lambda count: None)  # type: ignore[arg-type,return-value]
    before = (folder / "adult.parquet").read_bytes()
    copy = f"COPY (SELECT 1 AS n) TO '{folder / 'adult.parquet'}' (FORMAT parquet, USE_TMP_FILE false)"
    for text in (copy, f"PREPARE p AS {copy}; EXECUTE p", f"EXPLAIN ANALYZE {copy}"):
        [(_, _, error)] = engine.interactive(text)  # type: ignore[attr-defined]
        assert "COPY and PREPARE are off" in error
    assert (folder / "adult.parquet").read_bytes() == before
    engine.close()
