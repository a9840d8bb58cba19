"""Counts from the one-statement form, from one query per leaf, and from plain Python are the same."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.compile.count import leaves
from dpsql.compile.count.leaves import Part, Slice
from dpsql.engines.base import Engine
from dpsql.schema import Categorical, Numeric, Schema
from dpsql.trees.grid import axes, grid_cells
from dpsql.trees.grow.random_trees import random_forest
from tests.compile.running import KEYS, disjoint_counts, one_by_one, row_tickets, run, shared_counts
from tests.rows import any_forest, class_of, create, naive_counts, random_table, schemas, source_of, walk

SEEDS = st.integers(0, 2**32 - 1)
PLAIN = Schema("label", ("no", "yes"), (Numeric("x", 0, 64), Categorical("c", ("a", "b", "c"))))


@settings(max_examples=40)
@given(schema=schemas(), seed=SEEDS, trees=st.integers(1, 3), depth=st.integers(0, 4))
def test_shared_counts_equal_plain_python(engine: Engine, schema: Schema, seed: int, trees: int, depth: int) -> None:
    """Every row in every tree: SQL counts each (leaf, class) as a walk in plain Python does."""
    made = random_table(schema, 40, seed)
    create(engine, "people", made)
    forest = any_forest(axes(schema), trees=trees, depth=depth, seed=seed)
    source = source_of(schema, made=made)
    assert shared_counts(engine, source, forest) == naive_counts(schema, forest, made.rows)


@settings(max_examples=15)
@given(schema=schemas(most=12), seed=SEEDS, depth=st.integers(0, 3))
def test_one_query_per_leaf_equals_plain_python(engine: Engine, schema: Schema, seed: int, depth: int) -> None:
    """The readable WHERE of each leaf selects the rows that a walk in plain Python brings there."""
    made = random_table(schema, 40, seed)
    create(engine, "people", made)
    forest = any_forest(axes(schema), trees=2, depth=depth, seed=seed, wide=20)
    source = source_of(schema, made=made)
    assert one_by_one(engine, source, forest) == naive_counts(schema, forest, made.rows)


@settings(max_examples=15)
@given(schema=schemas(most=12), seed=SEEDS, trees=st.integers(1, 6), depth=st.integers(0, 4))
def test_grown_forests_count_alike(engine: Engine, schema: Schema, seed: int, trees: int, depth: int) -> None:
    """The forests that training grows are counted in SQL as in plain Python, group splits and early leaves included."""
    made = random_table(schema, 40, seed)
    create(engine, "people", made)
    forest = random_forest(axes(schema), trees=trees, depth=depth, seed=seed, branches=3, limit=400)
    assert shared_counts(engine, source_of(schema), forest) == naive_counts(schema, forest, made.rows)


@settings(max_examples=15)
@given(schema=schemas(most=12), seed=SEEDS, trees=st.integers(1, 5), depth=st.integers(0, 3))
def test_disjoint_counts_follow_the_tickets(engine: Engine, schema: Schema, seed: int, trees: int, depth: int) -> None:
    """Each row is counted in the one tree that its ticket names, and in no other."""
    made = random_table(schema, 40, seed)
    create(engine, "people", made)
    forest = any_forest(axes(schema), trees=trees, depth=depth, seed=seed)
    counted = [row for row in made.rows if class_of(schema, row) is not None]
    drawn = row_tickets(engine, source_of(schema))
    assert len(drawn) == len(counted)
    expected = Counter(
        (walk(schema, forest, row)[ticket % trees], label) for row, (ticket, label) in zip(counted, drawn, strict=True)
    )
    assert disjoint_counts(engine, source_of(schema), forest) == expected


@settings(max_examples=40)
@given(schema=schemas(), seed=SEEDS)
def test_the_vectorised_route_equals_the_walk(schema: Schema, seed: int) -> None:
    """`Forest.route` on whole columns gives the leaves of the row-by-row walk, so that predictions match counts."""
    made = random_table(schema, 30, seed)
    forest = any_forest(axes(schema), trees=3, depth=3, seed=seed)
    routed = forest.route(grid_cells(schema, made.columns))
    assert routed.tolist() == [walk(schema, forest, row) for row in made.rows]


@settings(max_examples=10)
@given(schema=schemas(most=8), seed=SEEDS)
def test_every_row_is_in_one_leaf_of_each_tree(engine: Engine, schema: Schema, seed: int) -> None:
    """The counts of each tree's leaves add up to the rows that count, no more and no fewer."""
    made = random_table(schema, 50, seed)
    create(engine, "people", made)
    forest = any_forest(axes(schema), trees=3, depth=3, seed=seed)
    per_tree: Counter[int] = Counter()
    for (leaf, _), rows in shared_counts(engine, source_of(schema), forest).items():
        per_tree[int(forest.leaf_tree[leaf])] += rows
    counted = sum(class_of(schema, row) is not None for row in made.rows)
    assert [per_tree[tree] for tree in range(3)] == [counted] * 3


@settings(max_examples=10)
@given(schema=schemas(most=4), seed=SEEDS)
def test_row_count_leaves_out_unknown_labels(engine: Engine, schema: Schema, seed: int) -> None:
    """The number of rows leaves out those whose label is NULL or not a class."""
    made = random_table(schema, 30, seed)
    create(engine, "people", made)
    found = run(engine, leaves.row_count(source_of(schema), engine.vocabulary, KEYS))
    assert found[()] == sum(class_of(schema, row) is not None for row in made.rows)


@pytest.mark.parametrize("count", [2, 3, 4, 7])
def test_parts_are_disjoint_and_cover_all_rows(engine: Engine, count: int) -> None:
    """The parts of the units add up to the whole, leaf by leaf, and no part is the whole."""
    create(engine, "people", random_table(PLAIN, 200, 1))
    forest = random_forest(axes(PLAIN), trees=2, depth=3, seed=1)
    parts = [shared_counts(engine, source_of(PLAIN), forest, Part(k, count)) for k in range(count)]
    whole = shared_counts(engine, source_of(PLAIN), forest)
    assert sum(parts, Counter()) == whole
    assert all(part.total() < whole.total() for part in parts)


def test_row_count_of_a_part_agrees_with_its_leaf_counts(engine: Engine) -> None:
    """The size of a part is the number of rows that its leaf counts hold."""
    create(engine, "people", random_table(PLAIN, 100, 2))
    forest = random_forest(axes(PLAIN), trees=1, depth=2, seed=1)
    for index in range(3):
        size = run(engine, leaves.row_count(source_of(PLAIN), engine.vocabulary, KEYS, Part(index, 3)))[()]
        assert size == shared_counts(engine, source_of(PLAIN), forest, Part(index, 3)).total()


@pytest.mark.parametrize("depth", [0, 3])
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "disjoint"])
def test_batches_of_trees_add_up_to_the_whole(engine: Engine, shared: bool, depth: int) -> None:
    """Counting trees 0–2, 3–3 and 4–6 one after the other gives what one statement for all seven gives."""
    create(engine, "people", random_table(PLAIN, 200, 3))
    forest = any_forest(axes(PLAIN), trees=7, depth=depth, seed=5)
    found: Counter[tuple[int, ...]] = Counter()
    for first, last in ((0, 3), (3, 4), (4, 7)):
        trees = Slice(shared, first, 7)
        statement = leaves.leaf_counts(source_of(PLAIN), forest.part(first, last), engine.vocabulary, KEYS, trees)
        for (leaf, label), rows in run(engine, statement, "leaf", "class").items():
            found[int(forest.first_leaf[first]) + leaf, label] += rows
    whole = shared_counts if shared else disjoint_counts
    assert found == whole(engine, source_of(PLAIN), forest)


def test_an_empty_table_has_no_groups(engine: Engine) -> None:
    """No rows give no groups; the kernel fills the public grid with zeros."""
    create(engine, "people", random_table(PLAIN, 0, 0))
    forest = random_forest(axes(PLAIN), trees=2, depth=2, seed=1)
    assert shared_counts(engine, source_of(PLAIN), forest) == Counter()


def test_a_view_filter_is_kept(engine: Engine) -> None:
    """A source's own filter and column definitions are part of both the one statement and the leaf queries."""
    made = random_table(PLAIN, 120, 4)
    create(engine, "people", made)
    base = source_of(PLAIN)
    filtered = type(base)(PLAIN, base.table, {}, base.column("c").eq("a"))
    forest = random_forest(axes(PLAIN), trees=2, depth=2, seed=1)
    expected = naive_counts(PLAIN, forest, [row for row in made.rows if row["c"] == "a"])
    assert shared_counts(engine, filtered, forest) == expected
    assert one_by_one(engine, filtered, forest) == expected


def test_counts_do_not_depend_on_the_order_of_the_rows(engine: Engine) -> None:
    """The same rows in another order give the same shared counts."""
    made = random_table(PLAIN, 150, 6)
    forest = random_forest(axes(PLAIN), trees=3, depth=3, seed=1)
    found = []
    for order in range(3):
        create(engine, "people", made.shuffled(order))
        found.append(shared_counts(engine, source_of(PLAIN), forest))
    assert found[0] == found[1] == found[2]


def test_a_deep_forest_of_many_words_counts_alike(engine: Engine) -> None:
    """Forty axes in four words, depth 10: SQL equals plain Python on every leaf."""
    schema = Schema("label", ("no", "yes"), tuple(Numeric(f"x{k}", -k, k + 1) for k in range(40)))
    made = random_table(schema, 60, 7)
    create(engine, "people", made)
    forest = random_forest(axes(schema), trees=3, depth=10, seed=2)
    assert np.unique([axis for level in forest.levels for axis in level.axis // 10]).tolist() == [0, 1, 2, 3]
    assert shared_counts(engine, source_of(schema), forest) == naive_counts(schema, forest, made.rows)


def test_the_widest_category_counts_alike(engine: Engine) -> None:
    """A category of 4096 values, written in three digits, reaches the leaves that plain Python says."""
    values = tuple(f"value {k}" for k in range(4096))
    schema = Schema("label", ("no", "yes"), (Categorical("c", values, unknown="value 9"),))
    made = random_table(schema, 60, 8)
    create(engine, "people", made)
    forest = any_forest(axes(schema), trees=2, depth=3, seed=3)
    assert len(forest.axes) == 3
    assert shared_counts(engine, source_of(schema), forest) == naive_counts(schema, forest, made.rows)
