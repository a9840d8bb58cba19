"""Histograms at the nodes of a growing forest: SQL counts each (node, axis, cell, class) as plain Python does."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.compile.count.histograms import Asks, histograms
from dpsql.compile.count.leaves import EVERY_UNIT, Part, Slice, Statement, rows_at_nodes
from dpsql.engines.base import Engine
from dpsql.schema import Categorical, Numeric, Schema
from dpsql.trees.forest import PASS, Forest
from dpsql.trees.grid import axes
from tests.compile.running import KEYS, row_tickets, run
from tests.rows import any_forest, class_of, create, one_cell, random_table, schemas, source_of, walk

PLAIN = Schema("label", ("no", "yes"), (Numeric("x", 0, 64), Categorical("c", ("a", "b", "c"))))


def asked_of(
    engine: Engine,
    schema: Schema,
    forest: Forest,
    trees: Slice,
    asked: list[int],
    *,
    by_class: bool = True,
    part: Part = EVERY_UNIT,
) -> Statement:
    """Return the statement of histograms of the same axes at every node."""
    query, rows, tables = rows_at_nodes(source_of(schema), forest, engine.vocabulary, KEYS, trees, part)
    asks = Asks.of(np.tile(np.array(asked), (forest.leaves, 1)))
    return histograms(query, rows, tables, len(forest.axes), asks, by_class=by_class)


def by_ask(forest: Forest, asked: list[int], found: Counter[tuple[int, ...]]) -> Counter[tuple[int, ...]]:
    """Return counts by (node, axis, …) as counts by (ask, …)."""
    return Counter({(node * len(asked) + asked.index(axis), *rest): n for (node, axis, *rest), n in found.items()})


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
    statement = asked_of(engine, schema, forest, trees, asked)
    rows = [row for row in made.rows if class_of(schema, row) is not None]
    assert run(engine, statement, "ask", "cell", "class") == by_ask(forest, asked, naive(schema, forest, rows, asked))


def test_disjoint_histograms_follow_the_tickets(engine: Engine) -> None:
    """With disjoint trees a row is in the histogram of its own tree's node only."""
    made = random_table(PLAIN, 120, 1)
    create(engine, "people", made)
    forest = any_forest(axes(PLAIN), trees=4, depth=2, seed=1)
    trees = Slice(False, 0, 4)
    statement = asked_of(engine, PLAIN, forest, trees, [0, 1])
    rows = [row for row in made.rows if class_of(PLAIN, row) is not None]
    own = [ticket % 4 for ticket, _ in row_tickets(engine, source_of(PLAIN))]
    expected = by_ask(forest, [0, 1], naive(PLAIN, forest, rows, [0, 1], own))
    assert run(engine, statement, "ask", "cell", "class") == expected


def test_without_class_the_classes_are_added_up(engine: Engine) -> None:
    """`by_class=False` gives the sum over the classes."""
    made = random_table(PLAIN, 80, 2)
    create(engine, "people", made)
    forest = any_forest(axes(PLAIN), trees=2, depth=2, seed=1)
    trees = Slice(True, 0, 2)
    statement = asked_of(engine, PLAIN, forest, trees, [1], by_class=False)
    rows = [row for row in made.rows if class_of(PLAIN, row) is not None]
    expected: Counter[tuple[int, ...]] = Counter()
    for (node, axis, cell, _), count in naive(PLAIN, forest, rows, [1]).items():
        expected[node, axis, cell] += count
    assert run(engine, statement, "ask", "cell") == by_ask(forest, [1], expected)


@pytest.mark.parametrize("parts", [2, 5])
def test_parts_of_a_histogram_add_up(engine: Engine, parts: int) -> None:
    """The histograms of all parts add up to the whole."""
    create(engine, "people", random_table(PLAIN, 150, 3))
    forest = any_forest(axes(PLAIN), trees=2, depth=1, seed=2)
    found = []
    for part in [Part(), *(Part(k, parts) for k in range(parts))]:
        statement = asked_of(engine, PLAIN, forest, Slice(True, 0, 2), [0, 1], part=part)
        found.append(run(engine, statement, "ask", "cell", "class"))
    assert sum(found[1:], Counter()) == found[0]


def test_each_node_may_ask_for_its_own_axes(engine: Engine) -> None:
    """A node that asks for one axis, for both or for none gets just that; the numbers of the asks say which."""
    made = random_table(PLAIN, 120, 4)
    create(engine, "people", made)
    forest = any_forest(axes(PLAIN), trees=1, depth=2, seed=4)
    own = np.full((forest.leaves, 2), PASS)
    own[0], own[1, 1] = (1, 0), 0
    asks = Asks.of(own)
    query, last, tables = rows_at_nodes(
        source_of(PLAIN), forest, engine.vocabulary, KEYS, Slice(True, 0, 1), EVERY_UNIT
    )
    found = run(engine, histograms(query, last, tables, 2, asks, by_class=True), "ask", "cell", "class")
    rows = [row for row in made.rows if class_of(PLAIN, row) is not None]
    places = {(0, 1): 0, (0, 0): 1, (1, 0): 2}
    every = naive(PLAIN, forest, rows, [0, 1])
    assert len(asks) == 3
    assert found == Counter({(places[key[:2]], *key[2:]): n for key, n in every.items() if key[:2] in places})
