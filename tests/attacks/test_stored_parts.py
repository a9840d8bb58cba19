"""A partition column that lies: it is declared a function of the unit and is none, or holds what nobody declared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsql
from dpsql.api.database import Database
from dpsql.compile.rows import EVERY_UNIT, Part, Source
from dpsql.engines.duckdb.open_database import open_file
from dpsql.errors import ParameterError, SchemaError
from dpsql.kernel.exact import Rows
from dpsql.schema import Categorical, Numeric, Schema, Unit
from dpsql.trees.grid import axes
from tests.rows import Table, any_forest, create, source_of
from tests.tables import memory, run, some_rows, stored

MOST = 3
SCHEMA = Schema(
    "label", ("no", "yes"), (Numeric("x", 0, 64), Categorical("c", ("a", "b"))), Unit("person", MOST),
    partition="part", parts=4,
)  # fmt: skip
TYPES = {"person": "BIGINT", "x": "DOUBLE", "c": "VARCHAR", "label": "VARCHAR", "part": "BIGINT"}


def lying_rows(chance: Random, persons: int) -> list[tuple[Any, ...]]:
    """Return up to six rows of each person, each row in a part of its own choice."""
    parts = [None, -7, 0, 1, 2, 3, 4, 2**62]
    return [
        (person, chance.uniform(-5, 70), chance.choice("abz"), chance.choice(["no", "yes", "?"]), chance.choice(parts))
        for person in range(persons)
        for _ in range(chance.randint(1, 6))
    ]


def exact(rows: list[tuple[Any, ...]], keys: Any, source: Source, part: Part, seed: int) -> tuple[Any, Any]:
    """Return the exact counts of disjoint trees, and the keys under which they were counted."""
    engine = open_file(":memory:")
    try:
        create(engine, "people", Table(TYPES, dict(zip(TYPES, map(list, zip(*rows, strict=True)), strict=True))))
        opened = Rows(engine, source, {})
        opened._tickets = keys or opened._tickets
        forest = any_forest(axes(SCHEMA), trees=4, depth=2, seed=seed)
        counts = opened.leaf_counts(forest, part, shared=False)
        used = opened._tickets
        opened.close()
        return counts, used
    finally:
        engine.close()


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**20), literal=st.booleans())
def test_a_unit_in_many_trees_moves_no_more_than_its_rows(seed: int, literal: bool) -> None:
    """Taking one person away changes at most `max_rows` counts by one each, though their rows are in several trees."""
    chance = Random(seed)
    rows, source = lying_rows(chance, 6), replace(source_of(SCHEMA), literal=literal)
    with_all, keys = exact(rows, None, source, EVERY_UNIT, seed)
    without, _ = exact([row for row in rows if row[0] != 2], keys, source, EVERY_UNIT, seed)
    assert (with_all >= without).all()
    assert (with_all - without).sum() <= MOST


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**20))
def test_parts_of_the_units_do_not_follow_the_column(seed: int) -> None:
    """A person whose rows claim all parts is in one of several disjoint parts of the units, and in no other."""
    rows = lying_rows(Random(seed), 5)
    keys, changed = None, []
    for index in range(3):
        with_all, keys = exact(rows, keys, source_of(SCHEMA), Part(index, 3), seed)
        without, _ = exact([row for row in rows if row[0] != 2], keys, source_of(SCHEMA), Part(index, 3), seed)
        changed.append(bool((with_all != without).any()))
    assert sum(changed) <= 1


@pytest.fixture
def database() -> Iterator[Database]:
    """Open a database whose table has a stored part and a text beside it."""
    with memory(some_rows(60)) as opened:
        run(
            opened.engine,
            "CREATE TABLE parted AS SELECT *, CAST(person % 3 AS INTEGER) AS part, 'three' AS word FROM people",
        )
        yield opened


def declared(**partition: Any) -> dict[str, Any]:
    """Return a schema of the table with this partition."""
    return {
        "label": "y",
        "classes": ["no", "yes", "maybe"],
        "partition": partition,
        "features": {"x": {"type": "numeric", "lower": 0, "upper": 64}},
    }


def test_fewer_parts_than_trees_cost_nothing(database: Database) -> None:
    """A run of more disjoint trees than parts is refused with the numbers, before any charge; as many trees run."""
    database.register("parted", declared(column="part", parts=3), cap=5)
    before = stored(database)
    for ask in (database.train, database.plan):
        with pytest.raises(ParameterError, match="at most 3"):
            ask("parted", method="rosnam", trees=4, depth=2)
    assert stored(database) == before
    assert database.train("parted", method="rosnam", trees=3, depth=2).released.forest.trees == 3


def test_only_whole_numbers_say_a_part(database: Database) -> None:
    """A column of texts is refused when the table is registered, by its type alone."""
    with pytest.raises(SchemaError, match="must be integer"):
        database.register("parted", declared(column="word", parts=3), cap=5)


def test_no_tree_is_left_without_rows() -> None:
    """Ten stored parts fill ten trees evenly; the same column hashed leaves some of them empty."""
    engine = open_file(":memory:")
    schema = Schema("label", ("no", "yes"), (Numeric("x", 0, 64),), partition="part", parts=10)
    run(engine, "CREATE TABLE people AS SELECT range % 64 AS x, 'yes' AS label, range % 10 AS part FROM range(5000)")
    forest = any_forest(axes(schema), trees=10, depth=0, seed=1)

    def rows_by_tree(own: Schema) -> Any:
        opened = Rows(engine, source_of(own), {})
        counts = opened.leaf_counts(forest, EVERY_UNIT, shared=False).sum(axis=1)
        opened.close()
        return counts

    assert (rows_by_tree(schema) == 500).all()
    hashed = replace(schema, parts=None)
    assert np.mean([(rows_by_tree(hashed) == 0).sum() for _ in range(20)]) > 2
    engine.close()


def test_a_model_of_stored_parts_takes_new_batches(database: Database) -> None:
    """Counts of a new batch are added to a model whatever tells its rows' trees apart."""
    run(
        database.engine,
        "CREATE TABLE eras AS SELECT *, CASE WHEN person % 2 = 0 THEN 'a' ELSE 'b' END AS era FROM parted",
    )
    database.register("eras", declared(column="part", parts=3) | {"batch": "era"}, cap=5)
    model = database.train("eras", method="rdt", trees=3, depth=2, batch="a")
    assert database.update(model.name, batch="b").certificate["batches"] == ["a", "b"]


@pytest.mark.parametrize("literal", [False, True])
def test_no_cell_of_a_csv_file_makes_a_part_fail(tmp_path: Path, literal: bool) -> None:
    """Cells of CSV are text: those that hold no whole number are part 0, and the run ends like any other."""
    parts = ["0", "1", "2", "", "x", "-1", "1e400", "2.5", "99999999999999999999", "NaN", " 1"]
    lines = [f"{number % 64},{'yes' if number % 2 else 'no'},{parts[number % len(parts)]}" for number in range(110)]
    (tmp_path / "parted.csv").write_text("\n".join(["x,y,part", *lines]) + "\n")
    with dpsql.connect(tmp_path) as folder:
        folder.register("parted", declared(column="part", parts=3), cap=5)
        assert folder.train("parted", method="rosnam", trees=3, depth=1, literal=literal).released.forest.trees == 3
