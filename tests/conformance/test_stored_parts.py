"""A stored partition column, on every engine: part t is tree t, and the literal form counts what one scan counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpsql.compile.count.leaf_predicate import leaf_query
from dpsql.compile.count.leaves import Slice
from dpsql.compile.rows import EVERY_UNIT, Part
from dpsql.engines.base import Engine
from dpsql.kernel.exact import Rows
from dpsql.schema import Categorical, Numeric, Schema, Target, Unit
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from tests.conformance.tables import put, source_in
from tests.rows import Table, any_forest, class_of, walk

FEATURES = (Numeric("age", 0, 80), Categorical("color", ("red", "blue")))
BY_ROW = Schema("label", ("no", "yes"), FEATURES, partition="part", parts=10)
BY_PERSON = replace(BY_ROW, unit=Unit("person", 2))
#: Parts that are none of the ten, beside all that are.
ODD = (None, -1, 10, 11, -(2**63), 2**63 - 1)
TYPES = {"age": "DOUBLE", "color": "VARCHAR", "label": "VARCHAR", "person": "BIGINT", "part": "BIGINT"}


def table(rows: int = 200) -> Table:
    """Return rows with all kinds of parts, labels and numbers; each person has three rows, all in one part."""
    chance = np.random.default_rng(5)
    parts: list[Any] = [*range(10), *ODD]
    columns: dict[str, list[Any]] = {
        "age": [None if n % 17 == 0 else float(chance.uniform(-10, 90)) for n in range(rows)],
        "color": [("red", "blue", "green", None)[int(chance.integers(4))] for _ in range(rows)],
        "label": [("no", "yes", "yes", "other", None)[int(chance.integers(5))] for _ in range(rows)],
        "person": [n // 3 for n in range(rows)],
        "part": [parts[(n // 3) % len(parts)] for n in range(rows)],
    }
    return Table(TYPES, columns)


def tree_of(part: int | None, parts: int, trees: int) -> int:
    """Return the tree of a stored part, as the reference says: what is outside is part 0; remainders are trees."""
    return (part if part is not None and 0 <= part < parts else 0) % trees


def expected_counts(schema: Schema, made: Table, forest: Forest) -> np.ndarray:
    """Return the count of each (leaf, class), each row in the tree of its part."""
    counts = np.zeros((forest.leaves, len(schema.classes)), np.int64)
    for row in made.rows:
        label = class_of(schema, row)
        if label is not None:
            tree = tree_of(row["part"], schema.parts or 1, forest.trees)
            counts[walk(schema, forest, row)[tree], label] += 1
    return counts


def rows_of(engine: Engine, schema: Schema, *, literal: bool) -> Rows:
    """Return the rows of the table as the kernel counts them, in one scan or leaf by leaf."""
    return Rows(engine, replace(source_in(engine, schema, "t"), literal=literal), {})


@pytest.mark.parametrize("trees", [10, 4])
def test_a_stored_part_is_its_tree(engine: Engine, trees: int) -> None:
    """Each row is counted in the tree of its part, whatever that holds: one scan, cached rows and the literal form."""
    made = table()
    put(engine, "t", made)
    forest = any_forest(axes(BY_ROW), trees=trees, depth=2, seed=1)
    expected = expected_counts(BY_ROW, made, forest)
    assert (expected.sum(axis=1) > 0).sum() > trees
    for literal in (False, True):
        rows = rows_of(engine, BY_ROW, literal=literal)
        try:
            assert (rows.leaf_counts(forest, EVERY_UNIT, shared=False) == expected).all()
            if not literal:
                rows.hold()
                assert (rows.leaf_counts(forest, EVERY_UNIT, shared=False) == expected).all()
        finally:
            rows.close()


def test_the_readable_query_gives_the_counts_of_its_leaf(engine: Engine) -> None:
    """The owner runs the query of a leaf on the table and sees that leaf's exact counts, also of outlandish parts."""
    made = table()
    put(engine, "t", made)
    forest = any_forest(axes(BY_ROW), trees=10, depth=1, seed=2)
    expected = expected_counts(BY_ROW, made, forest)
    source = source_in(engine, BY_ROW, "t")
    trees = Slice.of(BY_ROW, forest, shared=False)
    for leaf in range(forest.leaves):
        query = leaf_query(source, forest, leaf, engine.vocabulary, trees)
        with engine.workspace() as workspace:
            groups = workspace.aggregate(query, {})
        counted = dict(zip(map(str, groups["label"]), map(int, groups["rows"]), strict=True))
        assert [counted.get(name, 0) for name in BY_ROW.classes] == expected[leaf].tolist()


@pytest.mark.parametrize(
    "schema", [BY_PERSON, replace(BY_PERSON, partition=None, parts=None), replace(BY_ROW, partition=None, parts=None)]
)
def test_the_literal_form_counts_the_same_rows(engine: Engine, schema: Schema) -> None:
    """Capped units, hashed rows and parts of the units: leaf by leaf the counts are those of the one scan."""
    put(engine, "t", table())
    forest = any_forest(axes(schema), trees=3, depth=1, seed=3)
    one_scan = rows_of(engine, schema, literal=False)
    literal = rows_of(engine, schema, literal=True)
    literal._tickets = one_scan._tickets
    try:
        for part, shared in ((EVERY_UNIT, False), (EVERY_UNIT, True), (Part(1, 2), False)):
            counts = one_scan.leaf_counts(forest, part, shared=shared)
            assert counts.sum() > 0
            assert (literal.leaf_counts(forest, part, shared=shared) == counts).all()
    finally:
        one_scan.close()
        literal.close()


def test_the_literal_form_adds_up_targets(engine: Engine) -> None:
    """With a numeric target the sums of each leaf are those of the one scan."""
    schema = Schema(
        "age", (), (Categorical("color", ("red", "blue")),), target=Target(0, 80), partition="part", parts=10
    )
    put(engine, "t", table())
    forest = any_forest(axes(schema), trees=5, depth=1, seed=4)
    one_scan, literal = rows_of(engine, schema, literal=False), rows_of(engine, schema, literal=True)
    try:
        sums = one_scan.leaf_sums(forest, EVERY_UNIT, shared=False)
        assert sums.sum() > 0
        assert (literal.leaf_sums(forest, EVERY_UNIT, shared=False) == sums).all()
    finally:
        one_scan.close()
        literal.close()
