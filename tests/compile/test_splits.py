"""Histograms at the nodes of a growing forest: SQL counts each (node, axis, cell, class) as plain Python does."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.compile.counts import Part, Slice
from dpsql.compile.splits import histograms
from dpsql.engines.base import Engine
from dpsql.schema import Categorical, Numeric, Schema
from dpsql.trees.grid import axes
from tests.compile.running import KEYS, row_tickets, run
from tests.rows import any_forest, class_of, create, one_cell, random_table, schemas, source_of, walk

PLAIN = Schema("label", ("no", "yes"), (Numeric("x", 0, 64), Categorical("c", ("a", "b", "c"))))


def naive(schema: Schema, forest, rows, asked, tree=None) -> Counter[tuple[int, ...]]:
    """Count (node, axis, cell, class) row by row; with `tree`, each row in its own tree only."""
    found: Counter[tuple[int, ...]] = Counter()
    for place, row in enumerate(rows):
        leaves = walk(schema, forest, row)
        for leaf in leaves if tree is None else [leaves[tree[place]]]:
            for number in asked:
                axis = forest.axes[number]
                cell = one_cell(schema.features[axis.feature], row[schema.features[axis.feature].name])
                found[leaf, number, cell // 64**axis.digit % 64, class_of(schema, row)] += 1
    return found


@settings(max_examples=15)
@given(schema=schemas(), seed=st.integers(0, 2**32 - 1), depth=st.integers(0, 3), data=st.data())
def test_shared_histograms_equal_plain_python(
    engine: Engine, schema: Schema, seed: int, depth: int, data: st.DataObject
) -> None:
    """Every row in every tree, any choice of axes: the histograms by class are those of plain Python."""
    made = random_table(schema, 25, seed)
    create(engine, "people", made)
    forest = any_forest(axes(schema), trees=2, depth=depth, seed=seed)
    asked = data.draw(st.lists(st.integers(0, len(forest.axes) - 1), min_size=1, max_size=12, unique=True))
    trees = Slice(True, 0, 2)
    statement = histograms(source_of(schema), forest, engine.vocabulary, KEYS, trees, asked, by_class=True)
    rows = [row for row in made.rows if class_of(schema, row) is not None]
    assert run(engine, statement, "node", "axis", "cell", "class") == naive(schema, forest, rows, asked)


def test_disjoint_histograms_follow_the_tickets(engine: Engine) -> None:
    """With disjoint trees a row is in the histogram of its own tree's node only."""
    made = random_table(PLAIN, 120, 1)
    create(engine, "people", made)
    forest = any_forest(axes(PLAIN), trees=4, depth=2, seed=1)
    trees = Slice(False, 0, 4)
    statement = histograms(source_of(PLAIN), forest, engine.vocabulary, KEYS, trees, [0, 1], by_class=True)
    rows = [row for row in made.rows if class_of(PLAIN, row) is not None]
    own = [ticket % 4 for ticket, _ in row_tickets(engine, source_of(PLAIN))]
    assert run(engine, statement, "node", "axis", "cell", "class") == naive(PLAIN, forest, rows, [0, 1], own)


def test_without_class_the_classes_are_added_up(engine: Engine) -> None:
    """`by_class=False` gives the sum over the classes."""
    made = random_table(PLAIN, 80, 2)
    create(engine, "people", made)
    forest = any_forest(axes(PLAIN), trees=2, depth=2, seed=1)
    trees = Slice(True, 0, 2)
    statement = histograms(source_of(PLAIN), forest, engine.vocabulary, KEYS, trees, [1], by_class=False)
    rows = [row for row in made.rows if class_of(PLAIN, row) is not None]
    expected: Counter[tuple[int, ...]] = Counter()
    for (node, axis, cell, _), count in naive(PLAIN, forest, rows, [1]).items():
        expected[node, axis, cell] += count
    assert run(engine, statement, "node", "axis", "cell") == expected


@pytest.mark.parametrize("parts", [2, 5])
def test_parts_of_a_histogram_add_up(engine: Engine, parts: int) -> None:
    """The histograms of all parts add up to the whole."""
    create(engine, "people", random_table(PLAIN, 150, 3))
    forest = any_forest(axes(PLAIN), trees=2, depth=1, seed=2)
    found = []
    for part in [Part(), *(Part(k, parts) for k in range(parts))]:
        statement = histograms(
            source_of(PLAIN), forest, engine.vocabulary, KEYS, Slice(True, 0, 2), [0, 1], by_class=True, part=part
        )
        found.append(run(engine, statement, "node", "axis", "cell", "class"))
    assert sum(found[1:], Counter()) == found[0]
