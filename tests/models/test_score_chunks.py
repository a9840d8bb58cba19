"""Scoring chunk by chunk: the rows of `predict`, in its order, whatever a chunk's length; files whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from sqlglot import exp

from dpsql.api.database import Database
from dpsql.engines.files.write_rows import write_rows
from dpsql.errors import BudgetError, DpsqlError, ParameterError, SchemaError, UsageError
from dpsql.models.score_chunks import predict_chunks
from dpsql.models.usable_model import Model
from dpsql.schema import Boolean, Categorical, Schema
from tests.tables import SCHEMA, memory, model_of, run, small_forest, some_rows, voting

#: Rows of several chunks, the smallest of which DuckDB makes of 2048 rows. A column has values in later chunks alone.
MANY = """
CREATE TABLE many AS SELECT
    i AS id, i % 64 AS x, ['a', 'b', 'z', NULL][1 + i % 4] AS c,
    CASE WHEN i < 3000 THEN NULL ELSE 'late ' || i END AS late,
    TIMESTAMP '2026-01-01' + TO_HOURS(i) AS moment, DATE '2026-01-01' + CAST(i % 9 AS INTEGER) AS day,
    CASE WHEN i = 2500 THEN NULL ELSE i + 9007199254740993 END AS large, CAST(NULL AS INTEGER) AS never
FROM RANGE(6000) AS made(i)
"""


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[Database, Model]]:
    """Open a database with a private table, tables of new rows and a model; tests only add to it."""
    with memory(some_rows()) as opened:
        bare, none = "CREATE TABLE bare AS SELECT x, c FROM many", "CREATE TABLE none AS FROM many LIMIT 0"
        run(opened.engine, MANY, bare, none)
        yield opened, opened.add(model_of(voting(small_forest(depth=3), 3), SCHEMA, "model"))


@pytest.fixture
def database(shared: tuple[Database, Model]) -> Database:
    """Return the database."""
    return shared[0]


@pytest.fixture
def model(shared: tuple[Database, Model]) -> Model:
    """Return the model on its shelf."""
    return shared[1]


def read_back(path: Path) -> list[tuple[Any, ...]]:
    """Return the rows of a file that dpsql wrote, as DuckDB reads them."""
    with duckdb.connect() as connection:
        reader = "read_csv" if path.suffix == ".csv" else "read_parquet"
        return connection.execute(f"FROM {reader}(?)", [str(path)]).fetchall()


@pytest.fixture(params=["csv", "parquet"])
def file(request: pytest.FixtureRequest, database: Database, tmp_path: Path) -> Path:
    """Return a file with keys and features of the many rows."""
    path = tmp_path / f"many.{request.param}"
    with duckdb.connect() as connection:
        connection.register("given", database.engine.frame(exp.select("id", "x", "c").from_("many")))
        connection.execute(f"COPY (FROM given) TO '{path}'")
    return path


@pytest.mark.parametrize("rows", [1, 2048, 5000, 100_000])
def test_chunks_are_the_rows_of_predict_in_order(model: Model, rows: int) -> None:
    """However long a chunk is, all chunks together are what `predict` gives at once."""
    chunks = list(model.predict_chunks("many", key="id", rows=rows))
    assert len(chunks) == {1: 3, 2048: 3, 5000: 2, 100_000: 1}[rows]
    joined = pd.concat(chunks, ignore_index=True)
    pd.testing.assert_frame_equal(joined, model.predict("many", key="id"))


def test_rows_without_a_key_are_numbered_across_chunks(model: Model, file: Path) -> None:
    """The number of a row is that in the table or file, not that in its chunk."""
    joined = pd.concat(model.predict_chunks("bare", rows=2048), ignore_index=True)
    assert joined["dpsql_row"].tolist() == list(range(1, 6001))
    keyless = file.with_name(f"keyless{file.suffix}")
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT x, c FROM '{file}') TO '{keyless}'")
    joined = pd.concat(model.predict_chunks(keyless, rows=2048), ignore_index=True)
    assert joined["row"].tolist() == list(range(1, 6001))


def test_probabilities_and_thresholds_come_in_chunks_too(model: Model) -> None:
    """What can be asked of all rows at once can be asked of chunks."""
    joined = pd.concat(model.predict_chunks("many", key="id", probabilities=True, rows=2048), ignore_index=True)
    pd.testing.assert_frame_equal(joined, model.predict_proba("many", key="id"))
    joined = pd.concat(model.predict_chunks("many", key="id", threshold={"yes": 0.2}, rows=2048), ignore_index=True)
    pd.testing.assert_frame_equal(joined, model.predict("many", key="id", threshold={"yes": 0.2}))


def test_a_file_comes_in_chunks_as_it_does_at_once(model: Model, file: Path) -> None:
    """Rows of a CSV or Parquet file are scored as they are read."""
    chunks = list(model.predict_chunks(file, rows=2048))
    assert len(chunks) == 3
    joined = pd.concat(chunks, ignore_index=True)
    pd.testing.assert_frame_equal(joined, model.predict(file))
    assert joined["prediction"].tolist() == model.predict("many", key="id")["prediction"].tolist()


def test_no_rows_are_one_empty_chunk(model: Model, tmp_path: Path) -> None:
    """A table without rows gives one chunk, so that a file has its columns."""
    (chunk,) = model.predict_chunks("none", key="id")
    assert list(chunk.columns) == ["id", "prediction"]
    model.predict("none", key="id", to=tmp_path / "none.csv")
    assert (tmp_path / "none.csv").read_text() == "id,prediction\n"
    model.predict("none", key="id", to=tmp_path / "none.parquet")
    assert read_back(tmp_path / "none.parquet") == []


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("rows", [2048, 100_000])
def test_a_file_holds_every_row_with_the_values_of_the_table(
    model: Model, database: Database, tmp_path: Path, kind: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large numbers, dates, times, and columns that are empty in some chunks are what they are in the table."""
    monkeypatch.setitem(predict_chunks.__kwdefaults__, "rows", rows)
    assert model.predict("many", to=tmp_path / f"out.{kind}") is None
    with database.engine.snapshot() as transaction:
        keys = [tuple(row.values()) for row in transaction.rows("SELECT id, late, moment, day, large, never FROM many")]
    labels = model.predict("many", key="id")["prediction"]
    assert read_back(tmp_path / f"out.{kind}") == [(*key, label) for key, label in zip(keys, labels, strict=True)]


def test_times_have_one_spelling_in_all_chunks(model: Model, tmp_path: Path) -> None:
    """A time at midnight is written as a time, whatever else its chunk holds; a date as a date."""
    model.predict("many", to=tmp_path / "out.csv")
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[1].startswith("0,,2026-01-01 00:00:00,2026-01-01,9007199254740993,,")
    assert lines[2501].startswith("2500,,2026-04-15 04:00:00,")
    assert ",,," in lines[2501]


def test_a_limit_scores_the_first_rows_alone(model: Model, file: Path) -> None:
    """The first rows of a table or file get the labels that they get among all."""
    every = model.predict("many", key="id")
    pd.testing.assert_frame_equal(model.predict("many", key="id", limit=21), every.head(21))
    assert model.predict(file, limit=3)["prediction"].tolist() == every["prediction"].tolist()[:3]
    assert len(model.predict_proba("many", limit=5)) == 5
    assert len(model.predict_top("many", 2, limit=5)) == 5
    assert len(model.predict("many", limit=0)) == 0


@pytest.mark.parametrize(
    "asked",
    [
        {"limit": -1}, {"limit": True}, {"limit": "3"}, {"limit": 3, "into": "new"}, {"limit": 3, "to": "x.csv"},
        {"into": "new", "to": "x.csv"}, {"to": "x.xlsx"}, {"to": "noending"},
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(
    model: Model, asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels go to one place, of a known kind; nothing is written otherwise."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError):
        model.predict("many", **asked)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("asked", [{"limit": 3}, {"to": "x.csv"}, {"into": "new"}])
def test_a_dataframe_has_no_place_of_its_own(model: Model, asked: dict[str, Any]) -> None:
    """Rows in memory are returned, all of them."""
    with pytest.raises(ParameterError, match="table or file"):
        model.predict(pd.DataFrame({"x": [1], "c": ["a"]}), **asked)


def test_private_rows_are_refused_in_chunks_too(model: Model, tmp_path: Path) -> None:
    """A registered private table is refused before a file is made, and a look at its first rows is no less refused."""
    with pytest.raises(BudgetError):
        model.predict_chunks("people")
    with pytest.raises(BudgetError):
        model.predict("people", to=tmp_path / "out.csv")
    with pytest.raises(BudgetError):
        model.predict("people", limit=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_that_exists_stays(model: Model, tmp_path: Path, kind: str) -> None:
    """Nothing is ever overwritten, and nothing is left beside it."""
    path = tmp_path / f"out.{kind}"
    path.write_text("mine")
    with pytest.raises(UsageError, match="exists"):
        model.predict("many", to=path)
    assert [other.name for other in tmp_path.iterdir()] == [path.name]
    assert path.read_text() == "mine"


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_what_fails_half_way_leaves_nothing(model: Model, tmp_path: Path, kind: str) -> None:
    """The file gets its name when it is complete."""

    def chunks() -> Iterator[pd.DataFrame]:
        yield pd.DataFrame({"a": [1]})
        assert not (tmp_path / f"out.{kind}").exists()
        raise DpsqlError("the second chunk failed")

    with pytest.raises(DpsqlError, match="second chunk"):
        write_rows(tmp_path / f"out.{kind}", chunks())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("feature", [Boolean("flag"), Categorical("flag", ("no", "yes"))])
def test_booleans_are_told_from_words_by_all_chunks(feature: Categorical, tmp_path: Path) -> None:
    """A chunk that holds other values than the rest of its column is no reason to refuse; a whole column is."""
    scorer = model_of(
        voting(small_forest(Schema("y", ("no", "yes"), (feature,))), 2), Schema("y", ("no", "yes"), (feature,)), "m"
    )
    known, other = ("true", "no") if isinstance(feature, Boolean) else ("yes", "true")
    mixed, wrong = tmp_path / "mixed.csv", tmp_path / "wrong.csv"
    mixed.write_text("flag\n" + f"{known}\n" * 2048 + f"{other}\n" * 3)
    wrong.write_text("flag\n" + f"{other}\n" * 2051)
    assert sum(len(chunk) for chunk in scorer.predict_chunks(mixed, rows=2048)) == 2051
    with pytest.raises(SchemaError, match="flag"):
        list(scorer.predict_chunks(wrong, rows=2048))
