"""Rows that mixtures of a forest label right, counted in SQL: the same as plain Python counts them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.compile.check import check_statement
from dpsql.compile.count import leaves as counts
from dpsql.compile.count import mixture_counts
from dpsql.compile.count.leaves import EVERY_UNIT, Part
from dpsql.compile.rows import Source
from dpsql.engines.base import Engine
from dpsql.schema import Categorical, Numeric, Schema, Unit
from dpsql.trees.estimate.mixtures import LARGEST_FACTOR, Mixtures
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from dpsql.trees.voting import VotingForest
from tests.compile.running import KEYS, run
from tests.engines.aggregate import aggregate
from tests.rows import Table, any_forest, class_of, create, random_table, schemas, source_of, walk


def mixtures_of(schema: Schema, *, seed: int, depth: int = 2, most: int = 9, count: int = 5) -> Mixtures:
    """Return random mixtures of an irregular forest: zeros and equal factors among them, small weights tie often."""
    parts = 3
    generator = np.random.default_rng(seed)
    forest = any_forest(axes(schema), trees=4, depth=depth, seed=seed)
    votes = generator.integers(-most, most + 1, (forest.leaves, len(schema.classes)))
    factors = generator.choice([0, 0, 1, 2, 60, LARGEST_FACTOR], (count, parts))
    factors[0] = 0
    part = generator.integers(0, parts, forest.trees)
    return Mixtures(VotingForest(forest, votes), part, factors, np.ones(count, np.int64))


def in_database(engine: Engine, source: Source, mixtures: Mixtures, part: Part = EVERY_UNIT) -> list[int]:
    """Return the right rows of each mixture as the kernel asks for them."""
    statement = mixture_counts.right_rows(source, mixtures, engine.vocabulary, KEYS, part)
    check_statement(statement.query, engine.vocabulary)
    found = aggregate(engine, statement.query, statement.tables)
    assert len(set(found["class"].tolist())) == len(found["class"]) <= len(source.schema.classes)
    return [int(found[mixture_counts.right_name(number)].sum()) for number in range(len(mixtures.factors))]


def in_python(schema: Schema, made: Table, mixtures: Mixtures) -> list[int]:
    """Return the same row by row; of equal scores the first class wins, and rows without a class do not count."""
    found = [0] * len(mixtures.factors)
    unit = schema.unit.column
    for row in made.rows:
        label = class_of(schema, row)
        if label is None or (unit is not None and row[unit] is None):
            continue
        leaves = walk(schema, mixtures.released.forest, row)
        for number, factors in enumerate(mixtures.factors.tolist()):
            score = [
                sum(
                    factors[mixtures.part[tree]] * int(mixtures.released.weights[leaf, k])
                    for tree, leaf in enumerate(leaves)
                )
                for k in range(len(schema.classes))
            ]
            found[number] += score.index(max(score)) == label
    return found


@settings(max_examples=15)
@given(
    schema=schemas(most=14),
    seed=st.integers(0, 2**32 - 1),
    depth=st.integers(0, 3),
    most=st.sampled_from([1, 9, 2**30]),
)
def test_right_rows_are_those_of_plain_python(engine: Engine, schema: Schema, seed: int, depth: int, most: int) -> None:
    """For any schema, table, forest and factors, SQL counts what a walk row by row gives."""
    made = random_table(schema, 25, seed)
    create(engine, "people", made)
    mixtures = mixtures_of(schema, seed=seed, depth=depth, most=most)
    assert in_database(engine, source_of(schema, made=made), mixtures) == in_python(schema, made, mixtures)


@pytest.mark.parametrize("seed", range(3))
def test_units_count_with_their_rows(engine: Engine, seed: int) -> None:
    """Where no unit has more rows than are used, all rows count but those without a unit."""
    schema = Schema("y", ("a", "b", "c"), (Numeric("x", 0, 9), Categorical("z", ("p", "q"))), Unit("who", 40))
    made = random_table(schema, 40, seed)
    create(engine, "people", made)
    mixtures = mixtures_of(schema, seed=seed)
    found = in_database(engine, source_of(schema, made=made), mixtures)
    assert found == in_python(schema, made, mixtures)
    assert None in made.columns["who"]
    assert max(found) > 0


def test_of_a_unit_no_more_rows_count_than_are_used(engine: Engine) -> None:
    """A mixture that is right for every row is right for as many rows as training would use."""
    schema = Schema("y", ("a", "b"), (Numeric("x", 0, 9),), Unit("who", 2))
    made = Table({"x": "DOUBLE", "y": "VARCHAR", "who": "BIGINT"},
                 {"x": [1.0] * 12, "y": ["b"] * 12, "who": [1] * 5 + [2] * 6 + [3]})  # fmt: skip
    create(engine, "people", made)
    source = source_of(schema, made=made)
    released = VotingForest(Forest(axes(schema), 1, ()), np.array([[0, 1]]))
    mixtures = Mixtures(released, np.zeros(1, np.int64), np.array([[1], [0]]), np.ones(2, np.int64))
    assert in_database(engine, source, mixtures) == [5, 0]
    assert run(engine, counts.row_count(source, engine.vocabulary, KEYS))[()] == 5


def test_parts_add_up(engine: Engine) -> None:
    """The right rows of three disjoint parts of the units are those of all."""
    schema = Schema("y", ("a", "b", "c"), (Numeric("x", 0, 9), Categorical("z", ("p", "q"))))
    made = random_table(schema, 120, 5)
    create(engine, "people", made)
    source, mixtures = source_of(schema, made=made), mixtures_of(schema, seed=5)
    split = [in_database(engine, source, mixtures, Part(number, 3)) for number in range(3)]
    assert np.sum(split, axis=0).tolist() == in_database(engine, source, mixtures)
    assert min(map(max, split)) > 0


def test_many_classes(engine: Engine) -> None:
    """A hundred classes are ranked right, negative scores among them."""
    classes = tuple(f"class {number}" for number in range(100))
    schema = Schema("y", classes, (Numeric("x", 0, 64), Categorical("z", ("p", "q"))))
    made = random_table(schema, 150, 2)
    create(engine, "people", made)
    mixtures = mixtures_of(schema, seed=2)
    found = in_database(engine, source_of(schema, made=made), mixtures)
    assert found == in_python(schema, made, mixtures)


def test_no_rows_are_no_right_rows(engine: Engine) -> None:
    """An empty table, and one with unknown labels alone, give no group at all."""
    schema = Schema("y", ("a", "b"), (Numeric("x", 0, 9),))
    mixtures = mixtures_of(schema, seed=1)
    for labels in ([], [None, "neither"]):
        made = Table({"x": "DOUBLE", "y": "VARCHAR"}, {"x": [1.0] * len(labels), "y": list(labels)})
        create(engine, "people", made)
        statement = mixture_counts.right_rows(
            source_of(schema, made=made), mixtures, engine.vocabulary, KEYS, EVERY_UNIT
        )
        with engine.workspace() as here:
            found = here._cursor.execute(here._prepare(statement.query, statement.tables)).fetchall()  # type: ignore[attr-defined]
        assert found == []


def test_one_scan(engine: Engine) -> None:
    """The table is read once, however many mixtures there are."""
    schema = Schema("y", ("a", "b"), (Numeric("x", 0, 9),))
    mixtures = mixtures_of(schema, seed=1, count=30)
    statement = mixture_counts.right_rows(source_of(schema), mixtures, engine.vocabulary, KEYS, EVERY_UNIT)
    assert statement.query.sql(engine.dialect).count('"people"') == 1
