"""Attacks on what a certificate states: a model whose schema was bought says what that cost, whoever wrote it down."""

from __future__ import annotations

import duckdb
import pytest

from dpsql.api.database import Database, connect
from dpsql.models.model import purchase_note

pytestmark = pytest.mark.usefixtures("steady_bounds")
SMALL = {"method": "rdt", "trees": 2, "depth": 1}


def plain() -> Database:
    """Return a database with a plain table and no schema."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t AS SELECT (i % 90)::INT AS age, ['cook', 'clerk'][1 + i % 2] AS job, "
        "['no', 'yes'][1 + i % 2] AS y FROM range(4000) r (i)"
    )
    return connect(connection, who="owner")


def test_a_list_that_cost_a_delta_is_not_certified_as_pure_epsilon_alone() -> None:
    """The model file has the bought texts in it: its reader must learn of the delta that paid for them."""
    with plain() as db:
        bought = db.buy_schema("t", label="y", cap=3, buy=1, delta="1e-6")
        assert bought.domains is not None
        certificate = db.train("t", epsilon=1, **SMALL).certificate
    assert certificate["kind"] == "pure"
    assert certificate["purchases"] == [{"ledger_entry": bought.domains.entry, "epsilon": "1", "delta": "1e-6"}]
    assert "delta 1e-6" in purchase_note(certificate)


def test_a_file_that_was_written_from_a_purchase_does_not_hide_it() -> None:
    """Registering the same domains as if they were declared takes the mark off no model."""
    with plain() as db:
        schema = db.buy_schema("t", label="y", cap=3, buy="0.5").dataset.schema
        db.register("t", schema, cap=3, replace=True)
        certificate = db.train("t", epsilon=1, **SMALL).certificate
    assert [purchase["epsilon"] for purchase in certificate["purchases"]] == ["0.5"]


def test_a_model_on_declared_domains_names_none() -> None:
    """Nothing was bought, so nothing is said."""
    features = {"age": {"type": "numeric", "lower": 0, "upper": 90}}
    with plain() as db:
        db.register("t", {"label": "y", "classes": ["no", "yes"], "features": features}, cap=3)
        certificate = db.train("t", epsilon=1, **SMALL).certificate
    assert purchase_note(certificate) == ""
    assert "purchases" not in certificate
