"""A DataFrame as a private table in memory: registered under a schema or with bought domains, in plain columns."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import dpsql
from tests.api.test_estimators import SCHEMA, people


def table() -> pd.DataFrame:
    """Return people with their label."""
    frame, label = people()
    return frame.assign(ill=label)


def test_a_frame_is_a_private_table() -> None:
    """It has a budget, trains, and cannot be scored for free; the ledger names who asked."""
    with dpsql.from_frame(table(), SCHEMA, cap=3, table="people", who="ann") as db:
        model = db.train("people", epsilon=1)
        assert db.budget("people").left_text == "2"
        assert set(db.ledger("people")["who"]) == {"ann"}
        with pytest.raises(dpsql.BudgetError):
            model.predict("people")
        assert db.verify() == []


def test_domains_of_a_frame_are_bought() -> None:
    """Without a schema the price is charged, and what is not bought is refused before a table is made."""
    with dpsql.from_frame(table(), cap=3, buy=1, label="ill", classes=["no", "yes"]) as db:
        assert db.budget("rows").spent_text == "1"
        assert db.train("rows", epsilon=1).classes == ("no", "yes")
    with pytest.raises(dpsql.ParameterError, match="schema must be given"):
        dpsql.from_frame(table(), cap=3)
    with pytest.raises(dpsql.ParameterError, match="buy must be left out"):
        dpsql.from_frame(table(), SCHEMA, cap=3, buy=1)


def test_categories_and_numbers_in_texts_are_read_by_the_schema() -> None:
    """A column of dtype "category" and numbers that are stored as objects train like plain columns."""
    frame = table()
    odd = frame.assign(town=frame["town"].astype("category"), age=frame["age"].astype(object))
    odd.loc[0, "age"] = "unknown"  # no number: it counts as missing, and no error tells of it
    with dpsql.from_frame(odd, SCHEMA, cap=60) as db:
        model = db.train("rows", epsilon=50, allow_large=True)
    assert (model.labels(frame) == frame["ill"]).mean() > 0.9


@pytest.mark.parametrize(
    "frame",
    [[1, 2], pd.DataFrame(), pd.DataFrame([[1, 2]]), pd.DataFrame({"age": [1 + 2j], "town": ["a"], "ill": ["no"]})],
    ids=["list", "empty", "no names", "complex"],
)
def test_what_is_no_table_is_refused(frame: Any) -> None:
    """A frame needs columns with names, of types that a database has."""
    with pytest.raises(dpsql.DataError):
        dpsql.from_frame(frame, SCHEMA, cap=1)
