"""A hold-out on every engine: each unit is in one of two datasets, for good, and each reads its own rows alone."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from random import Random
from typing import Any

import pandas as pd
import pytest
from sqlglot import exp

from dpsql.api.database import Database
from dpsql.compile.rows import Source
from dpsql.engines.base import Engine
from dpsql.kernel.datasets.dataset import find_dataset, hold_out_of, source
from dpsql.kernel.datasets.hold_out import HoldOut
from dpsql.schema import Categorical, Numeric, Schema, Unit
from tests.conformance.tables import put
from tests.conformance.test_conditions import table as hostile_table
from tests.rows import Table
from tests.tables import SCHEMA, UNITS, some_rows

KEY = "00112233445566778899aabbccddeeff"
#: Which of the numbers 0 to 39 the key above deals to a half, by the hash of each engine, as four-bit digits. A version
#: of a database that changes one of these would move units from one budget to the other.
DEALT = {
    "duckdb": "d8fc1d3b2a",
    "postgres": "15cd6b4a94",
    "spark": "a7786c97d0",
    "clickhouse": "a0abcac66a",
}


def told(engine: Engine, where: Source, *tests: exp.Expr, order: str = "place") -> list[tuple[Any, ...]]:
    """Return what tests say of every row of a table, in the order of a column."""
    columns = [exp.alias_(exp.paren(test), f"test_{number}") for number, test in enumerate(tests)]
    query = exp.select(exp.alias_(exp.column(order), "place"), *columns).from_(where.table.copy())
    answers = engine.frame(query).sort_values("place")
    return [tuple(row) for row in answers.drop(columns="place").to_numpy().tolist()]


def people(engine: Engine, name: str = "people") -> None:
    """Make the table of `some_rows`."""
    rows = some_rows()
    types = {"person": "BIGINT", "x": "DOUBLE", "c": "VARCHAR", "y": "VARCHAR"}
    put(engine, name, Table(types, {column: [row[k] for row in rows] for k, column in enumerate(types)}))


def persons_in(engine: Engine, rows: Source) -> list[Any]:
    """Return the unit of each row that a dataset reads."""
    query = exp.select(exp.alias_(exp.column("person"), "person")).from_(rows.table.copy())
    query = query if rows.where is None else query.where(rows.where.copy())
    return [None if pd.isna(value) else int(value) for value in engine.frame(query)["person"].tolist()]


def test_no_cell_makes_the_test_fail_or_leaves_it_open(engine: Engine) -> None:
    """Of every row, whatever its cells hold, each column and all together say yes or no, and equal cells alike."""
    made, rows = hostile_table(engine.dialect, Random(7))
    put(engine, "hostile", made)
    info = engine.table("hostile")
    assert info is not None
    names = list(rows[0])
    where = Source(SCHEMA, exp.table_("hostile", db=info.schema, quoted=True), {})
    divisions = [HoldOut(KEY, 5000, (name,)) for name in names] + [HoldOut(KEY, 5000, tuple(names))]
    answers = told(engine, where, *(division.test(info, where, engine.vocabulary) for division in divisions))
    assert all(value in (True, False) and value is not None for row in answers for value in row)
    for place, name in enumerate(names):
        sides: dict[Any, set[bool]] = {}
        for row, said in zip(rows, answers, strict=True):
            cell = "NaN" if row[name] != row[name] else row[name]
            sides.setdefault(cell, set()).add(bool(said[place]))
        assert all(len(both) == 1 for both in sides.values()), name
    everywhere = [value for row in answers for value in row]
    assert 0.2 < sum(everywhere) / len(everywhere) < 0.8


def test_a_unit_is_dealt_as_ever(engine: Engine) -> None:
    """The hash of each engine says of forty numbers what it said when hold-outs were made; on DuckDB it is an MD5."""
    put(engine, "numbers", Table({"place": "BIGINT"}, {"place": list(range(40))}))
    info = engine.table("numbers")
    assert info is not None
    where = Source(SCHEMA, exp.table_("numbers", db=info.schema, quoted=True), {})
    division = HoldOut(KEY, 5000, ("place",), for_evaluation=True)
    answers = told(engine, where, division.test(info, where, engine.vocabulary))
    bits = "".join("1" if row[0] else "0" for row in answers)
    assert f"{int(bits, 2):010x}" == DEALT[engine.dialect]
    if engine.dialect == "duckdb":
        for number, bit in enumerate(bits):
            outer = hashlib.md5(f"{KEY}|{number}".encode(), usedforsecurity=False).hexdigest()
            assert (bit == "1") == (outer < "8" + 31 * "0")


@pytest.mark.parametrize("schema", [SCHEMA, UNITS], ids=["rows", "persons"])
def test_both_datasets_together_are_the_table(engine: Engine, schema: Schema) -> None:
    """Each row is in one of the two; all rows of a person are in the same one; both are asked and paid apart."""
    people(engine)
    database = Database(engine, who="nora")
    database.register("people", schema, cap=1000, holdout="40%", holdout_cap=500, allow_large=True)
    dataset = find_dataset(engine, database.book, "people")
    beside = hold_out_of(database.book, dataset)
    assert beside is not None
    training, hold_out = (persons_in(engine, source(engine, which)) for which in (dataset, beside))
    assert sorted(training + hold_out, key=str) == sorted((row[0] for row in some_rows()), key=str)
    assert training
    assert hold_out
    if schema is UNITS:
        assert not set(training) & set(hold_out)
    model = database.train("people", epsilon=400, method="rdt", trees=1, depth=1, evaluate=400)
    measured = model.certificate["evaluations"][0]
    counted = [row for row in some_rows() if row[3] in SCHEMA.classes and (schema is SCHEMA or row[0] is not None)]
    assert model.released.weights.sum() + measured["rows"] == pytest.approx(len(counted), abs=3)
    assert (measured["table"], measured["epsilon"]) == ("people:holdout", "400")
    assert database.budget("people").spent_text == database.budget("people:holdout").spent_text == "400"
    assert database.verify() == []


def test_equal_numbers_are_one_unit(engine: Engine) -> None:
    """0.0 and -0.0 are one unit, and so are 1.5 and 1.50: they are never in both datasets."""
    columns = {"place": list(range(4)), "u": [0.0, -0.0, 1.5, 1.50], "d": [0, 0, "1.5", "1.500"]}
    put(engine, "equal", Table({"place": "INTEGER", "u": "DOUBLE", "d": "DECIMAL(18,3)"}, columns))
    info = engine.table("equal")
    assert info is not None
    where = Source(SCHEMA, exp.table_("equal", db=info.schema, quoted=True), {})
    keys = [hashlib.sha256(bytes([number])).hexdigest()[:32] for number in range(8)]
    tests = [HoldOut(key, 5000, (name,)).test(info, where, engine.vocabulary) for key in keys for name in ("u", "d")]
    first, second, third, fourth = told(engine, where, *tests)
    assert (first, third) == (second, fourth)


def test_a_view_divides_its_base(duckdb_engine: Engine) -> None:
    """A registered view has a hold-out too, told by what the view's columns are made of."""
    engine = duckdb_engine
    people(engine)
    info = engine.table("people")
    assert info is not None
    place = exp.table_(info.table, db=info.schema, quoted=True).sql(engine.dialect)
    with engine.transaction() as transaction:
        transaction.run(f"CREATE VIEW seen AS SELECT person AS p, x, c, y FROM {place} WHERE x >= 0")
    database = Database(engine, who="nora")
    schema = replace(SCHEMA, unit=Unit("p", 3), features=(Categorical("c", ("a", "b")), Numeric("x", 0, 64)))
    database.register("seen", schema, cap=5, holdout=0.4)
    dataset = find_dataset(engine, database.book, "seen")
    beside = hold_out_of(database.book, dataset)
    assert beside is not None
    training, hold_out = (set(persons_in(engine, source(engine, which))) for which in (dataset, beside))
    assert training
    assert hold_out
    assert not training & hold_out
