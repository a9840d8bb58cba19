"""Views over tables of attached files: no rows of another ledger beside those of this one, and no file by two names."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pytest

from dpsql.api.database import Database, connect
from dpsql.errors import DpsqlError, SchemaError, UsageError
from dpsql.schema import Numeric, Schema, Unit
from tests.attacks.budgets import assert_no_free_look

TINY = {"epsilon": 0.5, "method": "rdt", "trees": 1, "depth": 1}
OWN = Schema("y", ("a", "b"), (Numeric("x", 0, 100),), Unit("person"))
VISITS = Schema("y", ("a", "b"), (Numeric("z", 0, 100),), Unit("person"))
JOINED = "SELECT t.person, u.z, u.y FROM t JOIN hr.u ON t.person = u.person"
ROWS = "SELECT CAST(range AS INTEGER) AS person, CAST(range AS DOUBLE) AS {}, 'a' AS y FROM range(50)"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Return a DuckDB file with a private table "t"."""
    return file_with(tmp_path / "own.duckdb", "t", "x")


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Return a DuckDB file with a private table "u" of the same people."""
    return file_with(tmp_path / "other.duckdb", "u", "z")


def file_with(path: Path, table: str, number: str) -> Path:
    """Return a new DuckDB file with one table."""
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE {table} AS {ROWS.format(number)}")
    return path


def attached(own: Path, other: Path) -> Database:
    """Return an open database with another one attached as "hr"."""
    return connect(own, who="ann", attach=[f"hr={other}"])


def test_a_view_reads_tables_of_an_attached_file(own: Path, other: Path) -> None:
    """Both tables have the view's budget, and a run on it takes place."""
    with attached(own, other) as db:
        db.register("joined", VISITS, cap=1, view=JOINED)
        db.train("joined", **TINY)
        for table, schema in (("t", OWN), ("hr.u", VISITS)):
            with pytest.raises(UsageError, match="one budget, not two"):
                db.register(table, schema, cap=1)
    with connect(other, who="ann") as direct, pytest.raises(UsageError, match="another ledger"):
        direct.register("u", VISITS, cap=1)


def file_with_keys(path: Path) -> Path:
    """Return a new DuckDB file with a private table of one row for each person, and a public table of codes."""
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE codes (code INTEGER PRIMARY KEY, z DOUBLE)")
        connection.execute("INSERT INTO codes SELECT range, range FROM range(5)")
        connection.execute("CREATE TABLE persons (person INTEGER PRIMARY KEY, code INTEGER, y VARCHAR)")
        connection.execute("COMMENT ON COLUMN persons.code IS 'a code'")
        connection.execute("INSERT INTO persons SELECT range, range % 5, 'a' FROM range(50)")
    return path


def test_names_alone_in_a_view_mean_the_tables_of_the_rows_own_file(tmp_path: Path) -> None:
    """Where the ledger is in another file; and the keys of that file's tables are known."""
    place = file_with_keys(tmp_path / "people.duckdb")
    schema = Schema("y", ("a", "b"), (Numeric("z", 0, 100),), Unit("person"), public_tables=("codes",))
    text = "SELECT p.person, c.z, p.y FROM persons p LEFT JOIN codes c ON p.code = c.code"
    with connect(place, who="ann", ledger=tmp_path / "books.duckdb") as db:
        db.register("joined", schema, cap=1, view=text)
        db.train("joined", **TINY)
        with pytest.raises(UsageError, match="one budget, not two"):
            db.register("persons", Schema("y", ("a", "b"), (Numeric("code", 0, 5),), Unit("person")), cap=1)
        assert_no_free_look(db, "persons")
        info = db.engine.table("persons")
        assert info is not None
        notes = db.engine.column_notes(info)
        assert (notes["person"].unique, notes["code"].comment) == (True, "a code")
    with connect(place, who="ann", ledger=tmp_path / "books.duckdb") as db:
        assert db.budget("joined").spent_text == "0.5"
        db.train("joined", **TINY)


def test_a_schema_in_a_view_is_one_of_the_rows_own_file(tmp_path: Path) -> None:
    """Where the ledger is in another file, whether the view names a private table so or a public one."""
    place = file_with_keys(tmp_path / "people.duckdb")
    with duckdb.connect(str(place)) as connection:
        connection.execute("CREATE SCHEMA hr")
        for table, key in (("persons", "person"), ("codes", "code")):
            connection.execute(
                f"CREATE TABLE hr.{table} AS FROM main.{table}; ALTER TABLE hr.{table} ADD UNIQUE ({key})"
            )
    schema = Schema("y", ("a", "b"), (Numeric("z", 0, 100),), Unit("person"), public_tables=("hr.codes",))
    text = "SELECT p.person, c.z, p.y FROM hr.persons p LEFT JOIN hr.codes c ON p.code = c.code"
    with connect(place, who="ann", ledger=tmp_path / "books.duckdb") as db:
        db.register("joined", schema, cap=1, view=text)
        db.train("joined", **TINY)
        persons = Schema("y", ("a", "b"), (Numeric("code", 0, 5),), Unit("person"))
        with pytest.raises(UsageError, match="one budget, not two"):
            db.register("hr.persons", persons, cap=1)
        db.register("persons", persons, cap=1)  # other rows


def test_a_quoted_name_with_a_dot_is_one_name_in_a_view(tmp_path: Path) -> None:
    """It does not mean a table of an attached file."""
    with (
        connect(file_with(tmp_path / "own.duckdb", "t", "x"), attach=[f"hr={file_with_keys(tmp_path / 'o.db')}"]) as db,
        pytest.raises(SchemaError, match="no stored table here"),
    ):
        db.register("joined", VISITS, cap=1, view='SELECT p.person, p.code AS z, p.y FROM "hr.persons" AS p')


@pytest.mark.parametrize("options", [{"cap": None, "share_budget": True}, {"cap": 1, "replace": True}])
def test_rows_of_another_ledger_are_refused_beside_those_of_this_one(
    own: Path, other: Path, options: dict[str, object]
) -> None:
    """That one table of a view has a budget here does not let in a table that has its budget elsewhere."""
    with connect(other, who="ann") as direct:
        direct.register("u", VISITS, cap=1)
        direct.train("u", epsilon=1, method="rdt", trees=1, depth=1)
    with attached(own, other) as db:
        db.register("t", OWN, cap=1)
        with pytest.raises(UsageError, match="another ledger"):
            db.register("joined", VISITS, view=JOINED, **options)  # type: ignore[arg-type]
        with pytest.raises(DpsqlError):
            db.train("joined", **TINY)


def test_a_table_of_another_ledger_cannot_take_the_place_of_a_registered_one(own: Path, other: Path) -> None:
    """A name that has a budget here is no cover for rows that have theirs elsewhere."""
    with attached(own, other) as db:
        db.register("hr.u", VISITS, cap=1)
    elsewhere = file_with(own.parent / "elsewhere.duckdb", "u", "z")
    with connect(elsewhere, who="ann") as direct:
        direct.register("u", VISITS, cap=1)
    with attached(own, elsewhere) as db, pytest.raises(UsageError, match="another ledger"):
        db.register("hr.u", VISITS, cap=1, replace=True)


def test_the_file_with_the_ledger_is_not_reached_by_a_hard_link(own: Path) -> None:
    """A mark that is written by one name of a file is not seen by the other, so the other is refused."""
    link = own.with_name("link.duckdb")
    os.link(own, link)
    with attached(own, link) as db:
        db.register("t", OWN, cap=1)
        with pytest.raises(DpsqlError, match="second time"):
            db.register("hr.t", OWN, cap=1)
        with pytest.raises(DpsqlError, match="second time"):
            db.register("joined", OWN, cap=1, view="SELECT person, x, y FROM hr.t")
        assert_no_free_look(db, "hr.t")


def test_a_refusal_leaves_no_second_ledger_behind(other: Path) -> None:
    """Whoever opens a file without its ledger and is refused does not shut that ledger out of the file."""
    ledger = other.with_name("ledger.duckdb")
    with connect(other, who="ann", ledger=ledger, create=True) as db:
        db.register("u", VISITS, cap=1)
    with connect(other, who="eve") as direct, pytest.raises(UsageError, match="another ledger"):
        direct.register("u", VISITS, cap=1)
    with connect(other, who="ann", ledger=ledger) as db:
        db.train("u", **TINY)
        assert db.budget("u").spent_text == "0.5"
