"""Spark with a ledger elsewhere: one charge for one run, and clear errors for what it cannot do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpsql import census
from dpsql.database import connect
from dpsql.errors import BudgetExceeded, ParameterError, UsageError
from tests.servers import spark


def test_without_a_ledger_spark_is_not_even_started() -> None:
    """The error names the option."""
    with pytest.raises(UsageError, match="ledger") as told:
        connect("spark://local[1]")
    assert "--ledger" in str(told.value)


def test_a_ledger_in_spark_is_refused() -> None:
    """It has no transactions."""
    with pytest.raises(ParameterError, match="ledger"):
        connect("spark://local[1]", ledger="spark://local[1]")


def test_a_run_is_charged_in_the_ledger_elsewhere(tmp_path: Path) -> None:
    """Register, train, predict, and a refusal at the cap; the file has one charge and the model."""
    session = spark()
    rows = census.rows(300, seed=1)
    records = json.loads(rows.to_json(orient="values"))
    session.createDataFrame([tuple(record) for record in records], list(rows)).createOrReplaceTempView("people")
    book = tmp_path / "books.duckdb"
    with connect(session, ledger=book, who="ann") as db:
        db.register("people", {**census.SCHEMA, "partition": "person_id"}, cap=1)
        model = db.train("people", epsilon=1, method="rdt", trees=2, depth=2, name="m")
        assert set(model.predict(rows.head(5))) <= set(census.CLASSES)
        with pytest.raises(BudgetExceeded):
            db.train("people", epsilon="0.1", method="rdt", trees=2, depth=2)
    with connect(book) as db:
        assert list(db.models()["name"]) == ["m"]
        assert [(entry, who) for entry, who in zip(db.ledger()["event"], db.ledger()["who"], strict=True)] == [
            ("register", "ann"),
            ("reserve", "ann"),
        ]
