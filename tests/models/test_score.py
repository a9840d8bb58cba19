"""Scoring new rows: tables, files and `into`; private tables and broken requests are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from dpsql.api.database import Database
from dpsql.errors import BudgetError, DatabaseError, DpsqlError, ParameterError, SchemaError, UnknownName, UsageError
from dpsql.models.usable_model import Model
from tests.tables import SCHEMA, fill, frame_of, memory, model_of, rows_of, run, small_forest, some_rows, voting

NEW = some_rows(30)


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[Database, Model]]:
    """Open a database with a private table, the table "fresh" of new rows, and a model; tests add to it only."""
    with memory(some_rows()) as opened:
        fill(opened.engine, "fresh", NEW)
        yield opened, opened.add(model_of(voting(small_forest(depth=3), 3), SCHEMA, "model"))


@pytest.fixture
def database(shared: tuple[Database, Model]) -> Database:
    """Return the database."""
    return shared[0]


@pytest.fixture
def model(shared: tuple[Database, Model]) -> Model:
    """Return the model on its shelf."""
    return shared[1]


def expected(model: Model) -> list[str]:
    """Return the labels that Python gives to the new rows."""
    return model.labels(frame_of(NEW)).tolist()


def test_a_table_gives_its_other_columns_and_the_label(model: Model) -> None:
    """Columns that are no features come back with the label, in the order of the table."""
    found = model.predict("fresh")
    assert list(found.columns) == ["person", "y", "prediction"]
    assert found["prediction"].tolist() == expected(model)


def test_a_key_is_given_alone(model: Model) -> None:
    """With `key` only that column comes back, whatever its letter case."""
    found = model.predict("fresh", key="PERSON")
    assert list(found.columns) == ["person", "prediction"]


def test_rows_that_are_equal_are_all_scored(database: Database, model: Model) -> None:
    """Duplicates are kept, each with its label."""
    fill(database.engine, "twins", [NEW[3]] * 7)
    assert model.predict("twins")["prediction"].tolist() == [expected(model)[3]] * 7


def test_a_table_of_features_alone_gets_row_numbers(database: Database, model: Model) -> None:
    """Without any other column the rows are numbered from 1."""
    run(database.engine, "CREATE OR REPLACE TABLE bare AS SELECT x, c FROM fresh")
    found = model.predict("bare")
    assert found.iloc[:, 0].tolist() == list(range(1, len(NEW) + 1))
    assert found["prediction"].tolist() == expected(model)


def test_a_table_of_another_schema_is_scored(database: Database, model: Model) -> None:
    """A table outside "main" is found by its full name, in `predict` and in the SQL for it."""
    run(database.engine, "CREATE SCHEMA IF NOT EXISTS other", "CREATE OR REPLACE TABLE other.rows AS FROM fresh")
    assert model.predict("other.rows")["prediction"].tolist() == expected(model)
    scored = rows_of(database.engine, model.sql("select", table="other.rows"))
    assert sorted(row["prediction"] for row in scored) == sorted(expected(model))


def test_a_view_of_new_rows_is_scored(database: Database, model: Model) -> None:
    """A view over public tables is as good as a table."""
    run(database.engine, "CREATE OR REPLACE VIEW recent AS SELECT * FROM fresh WHERE person = 3")
    assert len(model.predict("recent")) == 2


def test_into_keeps_the_scored_rows_in_the_database(database: Database, model: Model) -> None:
    """`into` makes a table of all columns and the label, and hands nothing back."""
    assert model.predict("fresh", into="scored") is None
    kept = rows_of(database.engine, "FROM scored")
    assert list(kept[0]) == ["person", "x", "c", "y", "prediction"]
    assert sorted(row["prediction"] for row in kept) == sorted(expected(model))


@pytest.mark.parametrize("into", ["fresh", "FRESH", "people", "", " ", "\x00"], ids=ascii)
def test_a_table_that_exists_is_never_overwritten(database: Database, model: Model, into: str) -> None:
    """`into` must name a new table; nothing changes otherwise."""
    before = rows_of(database.engine, "SELECT table_name FROM information_schema.tables ORDER BY ALL")
    with pytest.raises((ParameterError, UsageError), match="into must be|exists, and tables are never overwritten"):
        model.predict("fresh", into=into)
    assert rows_of(database.engine, "SELECT table_name FROM information_schema.tables ORDER BY ALL") == before
    assert len(rows_of(database.engine, "FROM fresh")) == len(NEW)


def test_a_failed_into_leaves_no_table(database: Database, model: Model) -> None:
    """When scoring fails halfway nothing is left of the new table."""
    run(database.engine, "CREATE OR REPLACE VIEW trap AS SELECT CAST(y AS DOUBLE) AS x, c, y FROM fresh")
    with pytest.raises(DpsqlError):
        model.predict("trap", into="half")
    assert "half" not in database.engine.tables()


@pytest.mark.parametrize("suffix", ["csv", "parquet", "tsv"])
@pytest.mark.parametrize("keep", [False, True], ids=["frame", "into"])
def test_files_are_scored_like_tables(
    database: Database, model: Model, tmp_path: Path, suffix: str, keep: bool
) -> None:
    """CSV and Parquet files give the labels of the same rows in a table."""
    path = tmp_path / f"rows.{suffix}"
    frame = frame_of([row for row in NEW if row[1] is None or np.isfinite(row[1])]).astype({"x": float})
    with duckdb.connect() as writer:
        writer.register("frame", frame)
        options = (
            "FORMAT parquet" if suffix == "parquet" else "FORMAT csv, HEADER" + (", DELIMITER '\t'" * (suffix == "tsv"))
        )
        writer.execute(f"COPY (SELECT * FROM frame) TO '{path}' ({options})")
    labels = model.labels(frame).tolist()
    if keep:
        name = f"kept_{suffix}"
        assert model.predict(path, into=name) is None
        assert [row["prediction"] for row in rows_of(database.engine, f"FROM {name}")] == labels
    else:
        found = model.predict(str(path))
        assert list(found.columns) == ["person", "y", "prediction"]
        assert found["prediction"].tolist() == labels


def test_a_file_needs_no_database(tmp_path: Path) -> None:
    """A model that was never stored scores files."""
    path = tmp_path / "rows.csv"
    path.write_text("x,c\n3,a\nabc,\n,zz\n", encoding="utf-8")
    found: Any = model_of(voting(small_forest(), 3), SCHEMA).predict_proba(path)
    assert found["row"].tolist() == [1, 2, 3]
    assert np.allclose(found[["p_no", "p_yes", "p_maybe"]].to_numpy().sum(axis=1), 1)


@pytest.mark.parametrize(
    ("name", "content"), [("gone.csv", None), ("broken.parquet", b"no parquet"), ("rows.xlsx", b""), ("a.csv", b"")]
)
def test_a_file_that_cannot_be_read_is_refused(model: Model, tmp_path: Path, name: str, content: bytes | None) -> None:
    """A missing, broken, empty or unknown kind of file is one of our errors."""
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises((DatabaseError, UnknownName)):
        model.predict(path)


@pytest.mark.parametrize("act", ["predict", "predict_proba", "evaluate", "into"])
@pytest.mark.parametrize("name", ["people", "PEOPLE", "seen", "nested", "joined", "hidden", "function"])
def test_private_rows_cannot_be_read_for_free(database: Database, model: Model, name: str, act: str) -> None:
    """A registered table, and any view that leads to it, is refused with exit code 3."""
    run(
        database.engine,
        "CREATE OR REPLACE VIEW seen AS SELECT * FROM people",
        "CREATE OR REPLACE VIEW nested AS SELECT * FROM seen",
        "CREATE OR REPLACE VIEW joined AS SELECT fresh.* FROM fresh, main.people",
        "CREATE OR REPLACE VIEW hidden AS FROM fresh WHERE x IN (SELECT x FROM (WITH w AS (FROM seen) FROM w))",
        "CREATE OR REPLACE VIEW function AS SELECT * FROM query_table('people')",
    )
    acts: dict[str, Any] = {
        "predict": lambda: model.predict(name),
        "predict_proba": lambda: model.predict_proba(name),
        "evaluate": lambda: database.evaluate("model", name),
        "into": lambda: model.predict(name, into="stolen"),
    }
    with pytest.raises(BudgetError) as caught:
        acts[act]()
    assert caught.value.exit_code == 3
    assert "stolen" not in database.engine.tables()


def test_an_unknown_table_offers_near_names(model: Model) -> None:
    """A misspelled table is refused with the one that was meant."""
    with pytest.raises(UnknownName) as caught:
        model.predict("fresch")
    assert "fresh" in caught.value.nearest


def test_a_missing_column_offers_near_names(database: Database, model: Model, tmp_path: Path) -> None:
    """A table or file without a feature is refused with the columns that come near."""
    run(database.engine, "CREATE OR REPLACE TABLE lacking AS SELECT x AS xx, c FROM fresh")
    (tmp_path / "rows.csv").write_text("xx,c\n1,a\n", encoding="utf-8")
    for data in ("lacking", tmp_path / "rows.csv"):
        with pytest.raises(UnknownName) as caught:
            model.predict(data)
        assert "xx" in caught.value.nearest


def test_an_unknown_key_offers_near_names(model: Model) -> None:
    """A misspelled key is refused with the column that was meant."""
    with pytest.raises(UnknownName) as caught:
        model.predict("fresh", key="persom")
    assert caught.value.nearest == ["person"]


def test_a_column_of_another_type_is_refused(database: Database, model: Model) -> None:
    """Text where the model splits numbers is refused before any row is read."""
    run(database.engine, "CREATE OR REPLACE TABLE texts AS SELECT CAST(x AS VARCHAR) AS x, c FROM fresh")
    with pytest.raises(SchemaError):
        model.predict("texts")


def test_a_column_named_like_the_result_is_refused(database: Database, model: Model) -> None:
    """A table that already has a column "prediction" is refused, whatever its letter case."""
    run(database.engine, 'CREATE OR REPLACE TABLE before AS SELECT *, 1 AS "Prediction" FROM fresh')
    with pytest.raises(ParameterError, match="prediction"):
        model.predict("before")


def test_shares_of_a_table_follow_its_labels(model: Model) -> None:
    """`predict_proba` of a table gives key, label and one column for each class; the label has the largest share."""
    found = model.predict_proba("fresh", key="person")
    shares = found[["p_no", "p_yes", "p_maybe"]]
    assert list(found.columns) == ["person", "prediction", "p_no", "p_yes", "p_maybe"]
    assert [SCHEMA.classes[k] for k in shares.to_numpy().argmax(axis=1)] == found["prediction"].tolist()


def test_an_empty_table_gives_no_rows(database: Database, model: Model) -> None:
    """No rows in, no rows out, the same columns."""
    fill(database.engine, "nobody", [])
    found = model.predict("nobody")
    assert isinstance(found, pd.DataFrame)
    assert (list(found.columns), len(found)) == (["person", "y", "prediction"], 0)
