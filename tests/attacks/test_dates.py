"""Dates and timestamps as numbers: no cell makes a run fail, no message shows one, and no class can lie about one."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import dpsql
from dpsql.api.database import Database
from dpsql.errors import SchemaError
from dpsql.kernel.border import AllowanceExceeded, rebuild_features
from dpsql.schema import Dated, Schema
from tests.conformance.tables import run_in
from tests.servers import OPEN_EMPTY
from tests.tables import model_of, small_forest, voting

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ASKED: dict[str, Any] = {"method": "rdt", "epsilon": 1, "trees": 2, "depth": 2}
DATED = {"type": "date", "lower": "2015-01-01", "upper": "2026-12-31"}


def declared(**feature: Any) -> dict[str, Any]:
    """Return a schema whose one feature is a date."""
    return {"label": "y", "classes": ["no", "yes"], "features": {"d": {**DATED, **feature}}}


#: A cell of each engine that other expressions fail on, or take for NULL.
ODD = {
    "duckdb": [("DATE", "'infinity'"), ("DATE", "'5877642-06-25 (BC)'"),
               ("TIMESTAMP", "make_timestamp(-9223372036854775806)"),
               ("TIMESTAMP_NS", "'infinity'"), ("TIMESTAMPTZ", "'-infinity'")],
    "postgres": [("DATE", "'infinity'"), ("DATE", "'5874897-12-31'"), ("TIMESTAMP", "'4713-01-01 BC'"),
                 ("TIMESTAMPTZ", "'-infinity'")],
    "chdb": [("Nullable(DateTime64(0))", "fromUnixTimestamp64Second(9223372036854775807)"),
             ("Nullable(DateTime64(9))", "reinterpret(toInt64(-9223372036854775808), 'DateTime64(9)')")],
}  # fmt: skip


@pytest.mark.parametrize(("engine", "kind", "cell"), [(name, *pair) for name, pairs in ODD.items() for pair in pairs])
@pytest.mark.parametrize("unit", ["day", "second"])
def test_a_row_far_away_is_counted_like_any_other(engine: str, kind: str, cell: str, unit: str) -> None:
    """With the row and without it a run ends well, and the charge is the same."""
    with Database(OPEN_EMPTY[engine](), who="ann") as db:
        number, text = ("Float64", "String") if engine == "chdb" else ("INT", "VARCHAR")
        ending = " ENGINE = MergeTree ORDER BY tuple()" if engine == "chdb" else ""
        full = f"{db.engine.home}.people"
        run_in(
            db.engine, f"DROP TABLE IF EXISTS {full}", f"CREATE TABLE {full} (i {number}, y {text}, d {kind}){ending}"
        )
        run_in(
            db.engine, f"INSERT INTO {full} VALUES (1, 'no', '2020-01-01'), (2, 'yes', '2024-01-01'), (3, 'no', NULL)"
        )
        db.register("people", declared(unit=unit), cap=4)
        for method in ("rdt", "fs"):
            db.train("people", method=method, epsilon=1, depth=2)
        run_in(db.engine, f"INSERT INTO {full} VALUES (4, 'yes', {cell})")
        for method in ("rdt", "fs"):
            db.train("people", method=method, epsilon=1, depth=2)
        assert db.budget("people").spent_text == "4"


def test_a_cell_of_csv_that_is_no_date_goes_where_null_goes(tmp_path: Path) -> None:
    """A run, a free prediction in the database and one of the file in Python agree on it."""
    cells = ["2020-01-01", "", "never", "2020-13-45", "0000-00-00", "2025-06-01 12:00:00", "99999999-01-01", "infinity"]
    lines = [f'{place},"{cell}",{("no", "yes")[place % 2]}' for place, cell in enumerate(cells)]
    for name in ("people", "fresh"):
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,d,y", *lines]) + "\n")
    with dpsql.connect(tmp_path) as db:
        db.register("people", declared(null="2026-12-31"), cap=2)
        assert db.train("people", **ASKED).table == "people"
        schema = Schema.from_dict(declared(null="2026-12-31"))
        db.add(model_of(voting(small_forest(schema, trees=9, depth=4), 2), schema, "m"))
        scored = db.model("m").predict("fresh", key="id")
        own = db.model("m").predict(tmp_path.parent / _copied(tmp_path), key="id")
        assert scored is not None
        assert own is not None
        assert scored.sort_values("id").iloc[:, -1].tolist() == own.iloc[:, -1].tolist()
        null = db.model("m").predict(pd.DataFrame({"d": [None]}))
        assert scored.sort_values("id").iloc[[1, 2, 3, 4], -1].tolist() == [null.iloc[0]] * 4


def _copied(folder: Path) -> str:
    """Write the rows to a file that belongs to no registered table, and return its name."""
    copy = folder.parent / f"{folder.name}_new.csv"
    copy.write_text((folder / "fresh.csv").read_text())
    return copy.name


def test_a_time_of_parquet_is_no_date_before_the_charge(tmp_path: Path) -> None:
    """DuckDB fails to read some; the type alone decides. A plain date of Parquet is read, whatever it holds."""
    times = pa.array([0, 2**62], pa.int64()).view(pa.timestamp("ms"))
    days = pa.array([0, -(2**31)], pa.int32()).view(pa.date32())
    parquet.write_table(pa.table({"d": times, "y": ["no", "yes"]}), tmp_path / "people.parquet")
    parquet.write_table(pa.table({"d": days, "y": ["no", "yes"]}), tmp_path / "days.parquet")
    with dpsql.connect(tmp_path) as db:
        with pytest.raises(SchemaError, match='column "d"'):
            db.register("people", declared(), cap=1)
        db.register("days", declared(), cap=1)
        assert db.train("days", **ASKED).table == "days"


def test_no_message_shows_a_date_of_the_data() -> None:
    """A text that cannot be read is named by its column alone."""
    schema = Schema.from_dict(declared())
    model = model_of(voting(small_forest(schema, trees=2, depth=2), 2), schema, "m")
    for cell in ("born-1961-05-17", "2020-01-01T00:00:00+02:00", object(), b"1961"):
        with pytest.raises(SchemaError) as raised:
            model.predict(pd.DataFrame({"d": [cell]}, dtype=object))
        assert "1961" not in str(raised.value)
        assert "+02" not in str(raised.value)


def test_a_date_that_lies_is_not_taken_over_the_border() -> None:
    """The kernel rebuilds the declared class from plain fields, and takes no subclass of it."""

    class Lying(Dated):
        def cell(self, number: object) -> int:
            return hash(str(number)) % 64

    honest = Dated("d", "2015-01-01", "2026-12-31", unit="hour", kind="timestamp", null="2020-01-01")
    assert rebuild_features((honest,)) == (honest,)
    with pytest.raises(AllowanceExceeded):
        rebuild_features((Lying("d", "2015-01-01", "2026-12-31"),))


@pytest.mark.parametrize(
    "wrong",
    [
        {"lower": "2026-12-31", "upper": "2015-01-01"},
        {"lower": "yesterday"},
        {"upper": "infinity"},
        {"upper": "12000-01-01"},
        {"lower": "2015-01-01T00:00:00+02:00"},
        {"lower": True},
        {"unit": "fortnight"},
        {"unit": 7},
        {"null": "never"},
        {"cells": 65},
        {"values": ["2020-01-01"]},
    ],
)
def test_impossible_declarations_are_refused(wrong: dict[str, Any]) -> None:
    """Before anything is registered."""
    with pytest.raises(SchemaError, match='"d"'):
        Schema.from_dict(declared(**wrong))


@pytest.mark.parametrize("kind", ["INTEGER", "DOUBLE", "VARCHAR", "BOOLEAN", "TIME", "INTERVAL", "UUID"])
def test_a_column_of_another_type_is_no_date(kind: str) -> None:
    """The catalog alone decides."""
    with dpsql.connect(duckdb.connect()) as db:
        with db.engine.transaction() as transaction:
            transaction.run(f"CREATE TABLE people (d {kind}, y VARCHAR)")
        with pytest.raises(SchemaError, match="must be date or timestamp"):
            db.register("people", declared(), cap=1)


def test_a_zoomed_date_comes_back_the_same() -> None:
    """Narrower bounds, which need not be whole days, are stored as exactly as declared ones."""
    schema = Schema.from_dict(declared())
    narrow = schema.with_bounds({"d": (16436.123456789, 17000.3)})
    assert Schema.from_dict(narrow.to_dict()) == narrow
    assert Schema.from_dict(schema.to_dict()).to_dict()["features"]["d"] == DATED
    assert schema.features[0].cell(datetime.date(2015, 1, 1)) == 0
