"""DuckDB's timestamps of seconds and milliseconds reach further than others: a row far away makes no run fail."""

from __future__ import annotations

import duckdb
import pytest

import dpsql
from dpsql.compile.rows import EVERY_UNIT
from dpsql.kernel.datasets.dataset import find_dataset, source
from dpsql.kernel.exact import Rows
from dpsql.trees.magnitude_grid import MISSING, ZERO

pa = pytest.importorskip("pyarrow")

DATED = {"type": "timestamp", "lower": "2015-01-01", "upper": "2026-12-31"}
SCHEMA = {"label": "y", "classes": ["no", "yes"], "features": {"d": DATED}}
FAR = (2**63 - 1, 2**63 - 2, 2**62, -(2**63), -(2**63) + 1, -(2**63) + 2, -(2**62))


def loaded(unit: str, numbers: list[int | None]) -> duckdb.DuckDBPyConnection:
    """Return a connection with a table whose times of a unit are these numbers, as loaded from Arrow."""
    rows = pa.table({"d": pa.array(numbers, pa.int64()).view(pa.timestamp(unit)), "y": ["no"] * len(numbers)})
    connection = duckdb.connect()
    connection.register("arrow_rows", rows)
    connection.execute("CREATE TABLE people AS SELECT * FROM arrow_rows")
    connection.unregister("arrow_rows")
    return connection


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("view", [False, True], ids=["table", "view"])
def test_a_time_far_away_is_counted_like_any_other(unit: str, view: bool) -> None:
    """Trees and magnitudes count each of them, in a table and through a view onto it."""
    with dpsql.connect(loaded(unit, [0, None, *FAR])) as db:
        if view:
            with db.engine.transaction() as transaction:
                transaction.run("CREATE VIEW seen AS SELECT d, y FROM people")
        table = "seen" if view else "people"
        db.register(table, SCHEMA, cap=3)
        for method in ("rdt", "fs"):
            assert db.train(table, method=method, epsilon=1, depth=2).table == table
        rows = Rows(db.engine, source(db.engine, find_dataset(db.engine, db.book, table)), {})
        try:
            cells = rows.magnitudes(["d"], EVERY_UNIT)[0]
        finally:
            rows.close()
        assert (cells.sum(), cells[MISSING], cells[ZERO]) == (2 + len(FAR), 1, 1)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_view_over_several_tables_counts_it_too(unit: str) -> None:
    """A time that such a view hands on unchanged keeps its type, so that the guard for its unit is not left out."""
    unit_schema = {**SCHEMA, "privacy_unit": {"column": "person", "max_rows": 1}}
    with dpsql.connect(loaded(unit, [0, None, *FAR])) as db:
        with db.engine.transaction() as transaction:
            transaction.run("ALTER TABLE people ADD COLUMN person INTEGER")
            transaction.run("UPDATE people SET person = rowid")
        db.register("seen", unit_schema, cap=3, view="SELECT v.person, v.d, v.y FROM people v")
        for method in ("rdt", "fs"):
            assert db.train("seen", method=method, epsilon=1, depth=2).table == "seen"


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("shown", ["TRY_CAST(v.d AS VARCHAR)", "TRY_CAST(v.d AS DATE)"])
@pytest.mark.parametrize("many", [False, True], ids=["row to row", "many tables"])
def test_no_view_casts_it(unit: str, shown: str, many: bool) -> None:
    """TRY_CAST fails on such times for all that, and ends the database: it is refused, or no row makes it fail."""
    query = f"SELECT v.person, CASE WHEN {shown} IS NULL THEN 'a' ELSE 'b' END AS c, v.y FROM people v"
    feature = {"c": {"type": "categorical", "values": ["a", "b"]}}
    unit_schema = {**SCHEMA, "features": feature, "privacy_unit": {"column": "person", "max_rows": 1}}
    with dpsql.connect(loaded(unit, [0, None, *FAR])) as db:
        with db.engine.transaction() as transaction:
            transaction.run("ALTER TABLE people ADD COLUMN person INTEGER")
            transaction.run("UPDATE people SET person = rowid")
            if not many:
                transaction.run(f"CREATE VIEW seen AS {query}")
        view = {"view": query} if many else {}
        if unit != "us" or "VARCHAR" in shown:
            with pytest.raises(dpsql.DpsqlError, match="TRY_CAST|text of a timestamp"):
                db.register("seen", unit_schema, cap=3, **view)
            assert db.budgets() == []
            return
        db.register("seen", unit_schema, cap=3, **view)
        assert db.train("seen", method="rdt", epsilon=1, depth=2).table == "seen"
