"""Times and decimals that DuckDB stores, or finds in Parquet, and fails to show: no run may depend on one."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import dpsql
from dpsql.errors import DatabaseError, SchemaError
from dpsql.schema import Schema
from tests.attacks.test_equality import schema

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ASKED: dict[str, Any] = {"method": "rdt", "epsilon": 1, "trees": 2, "depth": 1}
TIMES = [pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("ms", "UTC"), pa.time64("us")]


def with_times(folder: Path, kind: pa.DataType, *, inside: bool = False) -> None:
    """Write a table of three rows, one of which has a time that DuckDB may fail to read; or that inside a STRUCT."""
    times = pa.array([0, 0, 2**62], pa.int64()).view(kind)
    odd = pa.StructArray.from_arrays([times], ["t"]) if inside else times
    parquet.write_table(pa.table({"x": [0.5] * 3, "y": ["no", "yes", "no"], "odd": odd}), folder / "people.parquet")


@pytest.mark.parametrize("kind", TIMES, ids=str)
@pytest.mark.parametrize(
    "query",
    [
        "SELECT x, y FROM people WHERE odd IS NOT NULL",
        "SELECT x, CASE WHEN odd IS NULL THEN 'no' ELSE y END AS y FROM people",
    ],
)
def test_a_time_of_parquet_is_refused_in_a_view(tmp_path: Path, kind: pa.DataType, query: str) -> None:
    """In a column and in the filter, before anything is charged, whatever the rows hold."""
    with_times(tmp_path, kind)
    with dpsql.connect(tmp_path) as db:
        with db.engine.transaction() as transaction:
            transaction.run(f"CREATE VIEW seen AS {query}")
        with pytest.raises(SchemaError, match="can fail on a row"):
            db.register("seen", schema(), cap=1)


@pytest.mark.parametrize("cast", ["CAST", "TRY_CAST"])
def test_text_made_of_a_time_is_refused_in_a_view(cast: str) -> None:
    """DuckDB stores times that lie before its calendar, and fails when it shows one."""
    with dpsql.connect(":memory:") as db:
        with db.engine.transaction() as transaction:
            transaction.run("CREATE TABLE people AS SELECT 0.5 AS x, make_timestamp(-9223372036854775806) AS moment")
            transaction.run(f"CREATE VIEW seen AS SELECT x, {cast}(moment AS VARCHAR) AS y FROM people")
        with pytest.raises(SchemaError, match="can fail on a row"):
            db.register("seen", schema(), cap=1)


@pytest.mark.parametrize("inside", [False, True])
def test_a_time_of_parquet_is_refused_in_a_condition(tmp_path: Path, inside: bool) -> None:
    """To ask whether it is NULL is to read it; so is a STRUCT that holds one."""
    with_times(tmp_path, pa.timestamp("ms"), inside=inside)
    declared = Schema.from_dict({**schema(), "conditions": {"old": "odd IS NULL"}})
    with dpsql.connect(tmp_path) as db, pytest.raises(SchemaError, match="fail on a row"):
        db.register("people", declared, cap=1)


def test_a_table_with_times_that_nobody_names_is_registered(tmp_path: Path) -> None:
    """They are not read."""
    with_times(tmp_path, pa.timestamp("ms"))
    with dpsql.connect(tmp_path) as db:
        db.register("people", schema(), cap=1)
        assert db.train("people", **ASKED).table == "people"


@pytest.mark.parametrize("cell", [-(2**127), 2**127 - 1, -(10**38)])
def test_a_decimal_beyond_its_digits_is_refused_before_the_charge(tmp_path: Path, cell: int) -> None:
    """Parquet has 16 bytes for 38 digits. On the smallest number that fits in them DuckDB breaks, whoever reads it."""
    numbers = pa.array([Decimal(n) for n in (1, 2, 4711)], pa.decimal128(38, 2))
    path = tmp_path / "people.parquet"
    plain: dict[str, Any] = {"use_dictionary": False, "compression": "none", "write_statistics": False}
    parquet.write_table(pa.table({"x": numbers, "y": ["no", "yes", "no"]}), path, **plain)
    with dpsql.connect(tmp_path) as db:
        db.register("people", schema(), cap=1)
    written = (471100).to_bytes(16, "big")
    path.write_bytes(path.read_bytes().replace(written, cell.to_bytes(16, "big", signed=True)))
    with dpsql.connect(tmp_path) as db:
        with pytest.raises(DatabaseError, match="more digits"):
            db.train("people", **ASKED)
        assert db.budget("people").spent == 0
