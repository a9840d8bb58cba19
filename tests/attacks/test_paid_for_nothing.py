"""What the ledger and the request say beforehand is refused beforehand: nobody pays for a run that cannot end well."""

from __future__ import annotations

import duckdb
import pytest

from dpsql.api.database import Database, connect
from dpsql.errors import BudgetExceeded, UsageError

pytestmark = pytest.mark.usefixtures("steady_bounds")
SCHEMA = {"label": "y", "classes": ["no", "yes"], "features": {"age": {"type": "numeric", "lower": 0, "upper": 90}}}


def plain(who: str = "owner") -> Database:
    """Return a database with a plain table and no schema."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t AS SELECT (i % 90)::INT AS age, ['cook', 'clerk'][1 + i % 2] AS job, "
        "['no', 'yes'][1 + i % 2] AS y FROM range(4000) r (i)"
    )
    return connect(connection, who=who)


def test_the_cap_of_all_others_holds_for_both_charges_of_a_run() -> None:
    """An analyst without a cap of their own does not pay for a size whose training is then refused."""
    with plain(who="bob") as db:
        db.register("t", SCHEMA, cap=5)
        db.set_cap("t", "0.5", default_analyst=True)
        with pytest.raises(BudgetExceeded, match='analyst "bob"') as refused:
            db.train("t", epsilon=1)
        assert "epsilon 1" in str(refused.value)
        assert db.book.entries(event="reserve") == []


def test_a_division_that_public_features_forbid_is_refused_before_the_purchase() -> None:
    """Classes that are still to be bought would let the label deal rows; afterwards no division could be changed."""
    with plain() as db:
        with pytest.raises(UsageError, match="hold-out"):
            db.buy_schema("t", label="y", cap=3, buy=1, holdout="10%", more={"public_features": True})
        assert db.book.entries() == []
        classes = ["no", "yes"]
        bought = db.buy_schema(
            "t", label="y", classes=classes, cap=3, buy=1, holdout="10%", more={"public_features": True}
        )
        assert bought.dataset.hold_out is not None
        assert "y" not in bought.dataset.hold_out.columns


def test_a_large_price_with_a_delta_is_refused_before_anything_is_registered(caps_in_words: None) -> None:
    """And it can be meant: what was said once is not asked for again halfway."""
    with plain() as db:
        with pytest.raises(UsageError, match="buy 25"):
            db.buy_schema("t", label="y", cap=3, buy=25, delta="1e-6")
        assert db.book.entries() == []
        bought = db.buy_schema("t", label="y", cap=3, buy=25, delta="1e-6", allow_large=True)
        assert bought.dataset.schema.classes in (("no", "yes"), ("yes", "no"))
