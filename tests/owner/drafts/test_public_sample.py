"""Samples: bounds rounded outwards, lists of values, identifiers by uniqueness; a sample of private rows is refused."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.api.database import Database, connect
from dpsql.engines.base import Column
from dpsql.errors import BudgetError, DatabaseError, UnknownName, UsageError
from dpsql.owner.drafts.proposal import IDENTIFIER, Proposal
from dpsql.owner.drafts.public_sample import outward_bounds, sample_source
from dpsql.schema import Boolean, Categorical, Numeric
from dpsql.schema.schema_file import loads
from tests.tables import run

INTEGER, REAL, TEXT, CELL = (
    Column("x", "INTEGER", "integer"), Column("x", "DOUBLE", "real"), Column("x", "VARCHAR", "text"),
    Column("x", "VARCHAR", "untyped"),
)  # fmt: skip


@pytest.fixture
def db() -> Iterator[Database]:
    """Open a database with a private table of four columns, and no row in it."""
    with connect(":memory:", who="ann") as opened:
        run(opened.engine, "CREATE TABLE t (age INTEGER, job VARCHAR, wage DOUBLE, y VARCHAR)")
        yield opened


def read(column: Column, values: list[object]) -> Proposal | None:
    """Return what a sample with these values proposes for a column."""
    return sample_source(pd.DataFrame({"X": pd.Series(values, dtype=object)}), "folder/s.csv")(column)


def test_a_table_gives_a_whole_schema(db: Database) -> None:
    """Bounds, values and classes of a public table fill every gap, and say where they come from."""
    run(db.engine, "CREATE TABLE public (AGE INTEGER, job VARCHAR, wage DOUBLE, y VARCHAR)")
    run(db.engine, "INSERT INTO public SELECT 17 + i % 74, ['a', 'b'][1 + i % 2], i / 10, ['no', 'yes'][1 + i % 2] "
        "FROM range(300) r (i)")  # fmt: skip
    draft = db.draft("t", label="y", like="public")
    schema = loads(draft.text)
    assert schema.classes == ("no", "yes")
    assert schema.features == (Numeric("age", 5, 100), Categorical("job", ("a", "b")), Numeric("wage", 0, 34))
    assert all(proposal.origin == "sample public" for proposal in draft.proposals)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_gives_the_same(db: Database, tmp_path: Path, ending: str) -> None:
    """CSV cells are read as the private table's types say; Parquet has types of its own."""
    rows = pd.DataFrame({"age": [17, 90] * 30, "job": ["a", "b"] * 30, "wage": [0.5, 1.5] * 30, "y": ["n", "j"] * 30})
    path = tmp_path / f"people.{ending}"
    rows.to_csv(path, index=False) if ending == "csv" else rows.to_parquet(path)
    schema = loads(db.draft("t", label="y", like=path).text)
    assert schema.features == (Numeric("age", 5, 100), Categorical("job", ("a", "b")), Numeric("wage", 0.4, 1.6))
    assert schema.classes == ("j", "n")


def test_cells_of_csv_are_typed_by_the_sample(tmp_path: Path) -> None:
    """A private CSV file has no types: the sample's cells say what is a number, a boolean, a text."""
    (tmp_path / "t.csv").write_text("a,b,c,y\n")
    sample = tmp_path / "elsewhere"
    sample.mkdir()
    pd.DataFrame({"a": [1, 50], "b": ["true", "false"], "c": ["p", "q"], "y": ["0", "1"]}).to_csv(
        sample / "s.csv", index=False
    )
    with connect(tmp_path / "t.csv") as files:
        schema = loads(files.draft("t", label="y", like=sample / "s.csv").text)
    assert schema.features == (Numeric("a", 0, 56), Boolean("b"), Categorical("c", ("p", "q")))
    assert schema.classes == ("0", "1")


@given(st.decimals(-(10**9), 10**9, places=3), st.decimals(-(10**9), 10**9, places=3))
def test_bounds_hold_the_sample(one_end: Decimal, other_end: Decimal) -> None:
    """Bounds lie outside the sample's extremes, at most half its range further, and do not pass zero by the margin."""
    lowest, highest = sorted((one_end, other_end))
    lower, upper = outward_bounds(lowest, highest)
    assert lower <= lowest <= highest <= upper
    assert lower < upper
    span = (highest - lowest) or abs(lowest) or Decimal(1)
    assert upper - lower <= 2 * span
    assert lowest < 0 or lower >= 0


def test_nan_and_infinities_are_passed_over() -> None:
    """Cells that are no finite number say nothing of the bounds."""
    values = [float("nan"), float("inf"), float("-inf"), None, 3.0, 5.0, 1e308, "x"]
    proposal = read(REAL, values)
    assert proposal is not None
    assert proposal.feature == {"type": "numeric", "lower": 2.8, "upper": 5.2}
    assert read(REAL, [float("nan"), None]) is None


def test_few_integers_are_offered_as_categories() -> None:
    """Integers that look like codes by their name are categories, with bounds as the alternative; others reversed."""
    values: list[object] = [1, 2, 3] * 10
    bounds = read(INTEGER, values)
    frame = pd.DataFrame({"sex": values})
    codes = sample_source(frame, "s.csv")(Column("sex", "INTEGER", "integer"))
    assert bounds is not None
    assert codes is not None
    assert bounds.alternatives == ({"type": "categorical", "values": [1, 2, 3]},)
    assert codes.feature == {"type": "categorical", "values": [1, 2, 3]}


def test_texts_that_differ_everywhere_are_identifiers() -> None:
    """A column with a value of its own for nearly every row is left out; too many values are left to the owner."""
    names = read(TEXT, [f"name {number}" for number in range(100)])
    assert names is not None
    assert names.role == IDENTIFIER
    many = read(TEXT, [f"{number % 1500}" for number in range(6000)])
    assert many is not None
    assert many.gaps == ("values",)


def test_a_sample_is_not_the_private_table(db: Database, tmp_path: Path) -> None:
    """The drafted table, a view of it, and a registered table are refused; no value is in the message."""
    run(db.engine, "INSERT INTO t VALUES (47, 'SECRET', 1, 'no')", "CREATE VIEW v AS SELECT * FROM t")
    for name in ("t", "T", "v"):
        with pytest.raises(UsageError, match='rows of the private table "t"') as refused:
            db.draft("t", like=name)
        assert "SECRET" not in str(refused.value)
    db.register("t", {"label": "y", "classes": ["a", "b"], "features": {"age": _AGE}}, cap=1)
    run(db.engine, "CREATE TABLE u (age INTEGER)", "CREATE VIEW w AS SELECT age FROM t")
    for name in ("t", "w"):
        with pytest.raises(BudgetError, match="registered private table"):
            db.draft("u", like=name)


_AGE = {"type": "numeric", "lower": 0, "upper": 9}


def test_a_sample_is_not_the_private_file(tmp_path: Path) -> None:
    """A private file, by another name too, is no public sample of itself; nor is a registered file of another table."""
    (tmp_path / "t.csv").write_text("a,y\n1,no\n")
    (tmp_path / "u.csv").write_text("a,y\n1,no\n")
    other = tmp_path.parent / f"{tmp_path.name}-link.csv"
    other.symlink_to(tmp_path / "t.csv")
    with connect(tmp_path) as files:
        for path in (tmp_path / "t.csv", other):
            with pytest.raises(UsageError, match='rows of the private table "t"'):
                files.draft("t", like=path)
        files.register("u", {"label": "y", "classes": ["no", "yes"], "features": {"a": _AGE}}, cap=1)
        with pytest.raises(BudgetError, match='registered private table "u"'):
            files.draft("t", like=tmp_path / "u.csv")


def test_what_is_not_there_is_told(db: Database, tmp_path: Path) -> None:
    """A missing file or table, and one that is no CSV, are clear errors."""
    with pytest.raises(DatabaseError, match="there is no file"):
        db.draft("t", like=tmp_path / "none.csv")
    with pytest.raises(UnknownName, match="publik"):
        db.draft("t", like="publik")
    (tmp_path / "broken.parquet").write_text("no parquet")
    with pytest.raises(DatabaseError, match="cannot be read as PARQUET"):
        db.draft("t", like=tmp_path / "broken.parquet")


def test_a_sample_without_the_column_says_nothing() -> None:
    """A column that the sample does not have is left to the other sources; odd names do no harm."""
    frame = pd.DataFrame({"other\nname": [1], "": [2], 3: [4]})
    assert sample_source(frame, "s")(REAL) is None
    assert sample_source(frame, "s")(Column("Other\nName", "DOUBLE", "real")) is not None


def test_cells_without_numbers_are_texts() -> None:
    """One cell of text makes an untyped column a text."""
    proposal = read(CELL, ["1", "2", "n/a"])
    assert proposal is not None
    assert proposal.feature == {"type": "categorical", "values": ["1", "2", "n/a"]}
