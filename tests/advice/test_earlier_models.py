"""What an earlier model released about ranges is said again for free: by `explain`, and by `advise` on the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.api.database import Database

WIDE: dict[str, Any] = {
    "label": "y",
    "classes": ["no", "yes"],
    "features": {"balance": {"type": "numeric", "lower": -1e6, "upper": 1e6}},
}


@pytest.fixture
def database() -> Iterator[Database]:
    """Open a database whose numbers lie from 0 to 1000 and were declared within two million."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE clients AS SELECT range % 1000 AS balance, "
        "CASE WHEN range % 1000 > 600 THEN 'yes' ELSE 'no' END AS y FROM range(6000)"
    )
    with dpsql.connect(connection) as opened:
        opened.register("clients", WIDE, cap=10)
        yield opened


def test_a_model_names_the_range_that_was_far_too_wide(database: Database) -> None:
    """`explain` names the feature and bounds that hold its rows, and the model has learned from it."""
    model = database.train("clients", epsilon=2)
    (crowded,) = model.explain().crowded
    assert (crowded.feature, crowded.cells, crowded.declared) == ("balance", 2, (-1e6, 1e6))
    assert crowded.lower <= 100
    assert 900 <= crowded.upper <= 10_000
    assert "balance: nearly all rows lie in 2 of 64 cells; bounds about" in str(model.explain())
    assert database.evaluate(model, _rows()).accuracy > 0.9


def _rows() -> Any:
    return duckdb.sql(
        "SELECT range AS balance, CASE WHEN range > 600 THEN 'yes' ELSE 'no' END AS y FROM range(1000)"
    ).df()


def test_advice_repeats_it_for_free(database: Database) -> None:
    """Before any model nothing is known; after one, advice names the range and charges nothing."""
    assert database.advise("clients").crowded == ()
    database.train("clients", epsilon=2)
    spent = database.budget("clients").spent_text
    advice = database.advise("clients")
    assert [crowded.feature for crowded in advice.crowded] == ["balance"]
    assert "Declared far too wide" in str(advice)
    assert advice.to_dict()["crowded"][0]["feature"] == "balance"
    assert database.budget("clients").spent_text == spent


def test_advice_forgets_what_was_declared_anew(database: Database) -> None:
    """Once the owner has declared other bounds, the old remark is gone."""
    database.train("clients", epsilon=2)
    narrower = {**WIDE, "features": {"balance": {"type": "numeric", "lower": 0, "upper": 1000}}}
    database.register("clients", narrower, cap=10, replace=True)
    assert database.advise("clients").crowded == ()


@pytest.mark.parametrize(
    ("bounds", "where"), [((0, 1), "upper bound 1, in the last"), ((5000, 9000), "lower bound 5000")]
)
def test_a_range_that_is_too_narrow_is_not_called_too_wide(bounds: tuple[int, int], where: str) -> None:
    """Rows beyond a bound are clamped to it and pile up there: the sentence says so, and so does the heading."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE clients AS SELECT 18 + range % 90 AS age, range % 7 AS z, "
        "CASE WHEN range % 90 > 60 THEN 'yes' ELSE 'no' END AS y FROM range(9000)"
    )
    features = {"age": {"type": "numeric", "lower": bounds[0], "upper": bounds[1]},
                "z": {"type": "numeric", "lower": 0, "upper": 7}}  # fmt: skip
    with dpsql.connect(connection) as opened:
        opened.register("clients", {"label": "y", "classes": ["no", "yes"], "features": features}, cap=10)
        text = " ".join(str(opened.train("clients", epsilon=3).explain()).split())
        advice = str(opened.advise("clients"))
    assert f"age: nearly all rows lie at its {where}" in text
    assert "the bounds may be too narrow" in text
    assert "What was declared far too narrow" in text
    assert "Declared far too narrow" in advice
