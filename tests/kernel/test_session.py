"""A session gives the full public grid whatever the rows, and no more than its plan allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dpsql.errors import DpsqlError
from dpsql.kernel.candidates import Candidates
from dpsql.kernel.operations import Choose, LeafCounts, Size
from dpsql.kernel.plan import Parallel, Sequential, Step
from dpsql.kernel.session import AllowanceExceeded, Session
from dpsql.schema import CELLS
from dpsql.trees.forest import Forest, Level
from dpsql.trees.grow.splits import two_way
from tests.kernel.helpers import (
    EPSILON,
    Watched,
    exact_histograms,
    exact_leaf_counts,
    held,
    histogram_step,
    leaf_step,
    session,
)
from tests.tables import SCHEMA, UNITS, Row, small_forest, some_rows

FOREST = small_forest(trees=3, depth=2)
CLASSES = len(SCHEMA.classes)
TABLES: dict[str, list[Row]] = {"empty": [], "all NULL": [(None, None, None, None)], "many": some_rows()}
TREES = pytest.mark.parametrize("shared", [False, True], ids=["disjoint", "shared"])
LEVELS = pytest.mark.parametrize("schema", [SCHEMA, UNITS], ids=["row", "unit"])
ROWS = pytest.mark.parametrize("rows", TABLES.values(), ids=TABLES)


def candidates(forest: Forest = FOREST, count: int = 5) -> Candidates:
    """Return a few splits of both axes for each leaf."""
    splits = two_way(forest.axes)
    weights = np.zeros((forest.leaves, 2, splits.most), np.int64)
    weights[:, 0, 0] = weights[:, 1, :count] = 1
    return Candidates(splits, np.tile(np.array([0, 1], np.int16), (forest.leaves, 1)), weights)


def choose_step(forest: Forest = FOREST, utility: str = "majority", *, shared: bool = False) -> Step:
    """Return a step that chooses one candidate for each leaf."""
    return Step("pick", Choose(utility), EPSILON, trees=forest.trees, shared=shared, cells=forest.leaves)


@ROWS
@LEVELS
def test_size_is_one_whole_number(rows: list[Row], schema: object) -> None:
    """`size` gives an int for any table."""
    database = held(rows, schema=schema)
    assert type(session(database, Step("n", Size(), EPSILON)).size("n")) is int


@TREES
@LEVELS
@ROWS
def test_leaf_counts_cover_every_leaf_and_class(rows: list[Row], schema: object, shared: bool) -> None:
    """`leaf_counts` is leaves × classes, with noise where no row is."""
    database = held(rows, schema=schema)
    opened = session(database, leaf_step("leaf_counts", FOREST, CLASSES, shared=shared, nano=10**6))
    noisy = opened.leaf_counts("leaves", FOREST)
    assert noisy.shape == (FOREST.leaves, CLASSES)
    assert np.count_nonzero(noisy) > FOREST.leaves


@TREES
@LEVELS
@ROWS
def test_leaf_labels_name_a_class_for_every_leaf(rows: list[Row], schema: object, shared: bool) -> None:
    """`leaf_labels` is one class number for each leaf."""
    database = held(rows, schema=schema)
    labels = session(database, leaf_step("leaf_labels", FOREST, CLASSES, shared=shared)).leaf_labels("leaves", FOREST)
    assert labels.shape == (FOREST.leaves,)
    assert set(labels.tolist()) <= set(range(CLASSES))


@TREES
@LEVELS
@ROWS
def test_histograms_cover_every_cell(rows: list[Row], schema: object, shared: bool) -> None:
    """`histograms` is leaves × axes × cells × classes; places beyond an axis's cells are 0, not noise."""
    database = held(rows, schema=schema)
    opened = session(database, histogram_step(FOREST, [0, 1], CLASSES, shared=shared))
    noisy = opened.histograms("bins", FOREST, [0, 1])
    assert noisy.shape == (FOREST.leaves, 2, CELLS, CLASSES)
    assert not noisy[:, 0, FOREST.axes[0].cells :].any()


@TREES
@ROWS
def test_choose_picks_a_candidate_for_every_leaf(rows: list[Row], shared: bool) -> None:
    """`choose` is one candidate number for each leaf."""
    database = held(rows)
    chosen = session(database, choose_step(shared=shared)).choose("pick", FOREST, candidates())
    assert chosen.shape == (FOREST.leaves,)
    assert candidates().weights.reshape(FOREST.leaves, -1)[np.arange(FOREST.leaves), chosen].all()


def test_histograms_without_classes_have_one() -> None:
    """`by_class=False` leaves the class out and keeps the rest of the shape."""
    database = held(some_rows())
    opened = session(database, histogram_step(FOREST, [1], 1, shared=False))
    assert opened.histograms("bins", FOREST, [1], by_class=False).shape == (FOREST.leaves, 1, CELLS, 1)


def test_a_broken_forest_is_refused_unread() -> None:
    """A split that sends rows past the last leaf is refused from its structure, before a row is read."""
    nowhere = Level(np.array([1], np.int16), np.array([2], np.uint8), np.full((2, 1), 2**64 - 1, np.uint64))
    forest = Forest(FOREST.axes, 1, (nowhere,))
    database = held(some_rows())
    opened = session(database, leaf_step("leaf_counts", forest, CLASSES, shared=False))
    opened._rows._engine = watched = Watched(database.engine)  # type: ignore[assignment]
    with pytest.raises(AllowanceExceeded):
        opened.leaf_counts("leaves", forest)
    assert watched.statements == []


PARALLEL = Parallel((Step("a", Size(), 10**12), Step("b", Size(), 10**12), Step("c", Size(), 10**12)))


def test_parallel_steps_count_each_row_once() -> None:
    """The rows of all parallel parts together are the rows of the table."""
    database = held([(k, 1.0, "a", "no") for k in range(200)])
    opened = session(database, PARALLEL)
    sizes = [opened.size(name) for name in "abc"]
    assert sum(sizes) == 200
    assert min(sizes) > 20


def _other_axes() -> Candidates:
    splits = two_way(FOREST.axes[:1])
    weights = np.ones((FOREST.leaves, 1, splits.most), np.int64)
    return Candidates(splits, np.zeros((FOREST.leaves, 1), np.int16), weights)


def _asks() -> dict[str, Callable[[Session], object]]:
    wide = small_forest(trees=3, depth=3)
    more = small_forest(trees=4, depth=2)
    ours = candidates()
    return {
        "another name": lambda opened: opened.leaf_counts("other", FOREST),
        "another operation": lambda opened: opened.leaf_labels("leaves", FOREST),
        "a choice": lambda opened: opened.choose("leaves", FOREST, ours),
        "a size": lambda opened: opened.size("leaves"),
        "more trees": lambda opened: opened.leaf_counts("leaves", more),
        "more leaves": lambda opened: opened.leaf_counts("leaves", wide),
        "more axes": lambda opened: opened.histograms("bins", FOREST, [0, 1]),
        "other axes with more cells": lambda opened: opened.histograms("bins", FOREST, [1]),
        "classes that were not declared": lambda opened: opened.histograms("bins", FOREST, [0], by_class=True),
        "an axis that is not there": lambda opened: opened.histograms("bins", FOREST, [7]),
        "a negative axis": lambda opened: opened.histograms("bins", FOREST, [-1]),
        "candidates for fewer leaves": lambda opened: opened.choose("pick", FOREST, candidates(more)),
        "candidates on no axis": lambda opened: opened.choose(
            "pick", FOREST, Candidates(ours.splits, np.full((FOREST.leaves, 2), 9, np.int16), ours.weights)
        ),
        "splits of another schema": lambda opened: opened.choose("pick", FOREST, _other_axes()),
        "more epsilon": lambda opened: opened.choose("pick", FOREST, ours, nano_epsilon=EPSILON + 1),
        "no epsilon": lambda opened: opened.choose("pick", FOREST, ours, nano_epsilon=0),
        "less than nothing": lambda opened: opened.choose("pick", FOREST, ours, nano_epsilon=-1),
    }


@pytest.mark.parametrize("ask", _asks().values(), ids=_asks())
def test_more_than_the_plan_is_refused_unread(ask: Callable[[Session], object]) -> None:
    """A request that the plan does not declare is refused, reads nothing, and leaves every step to be used."""
    steps = (
        leaf_step("leaf_counts", FOREST, CLASSES, shared=False),
        histogram_step(FOREST, [0], 1, shared=False),
        choose_step(),
    )
    database = held(some_rows())
    opened = session(database, Sequential(steps))
    watched = Watched(database.engine)
    opened._rows._engine = watched  # type: ignore[assignment]
    with pytest.raises(DpsqlError) as caught:
        ask(opened)
    assert caught.value.exit_code in (2, 3)
    assert watched.statements == []
    assert repr(opened) == "<Session: 3 of 3 steps left>"


@pytest.mark.parametrize("trees", [2, 4])
def test_another_number_of_trees_is_refused_even_with_few_leaves(trees: int) -> None:
    """The number of shared trees sets the noise: another one is refused though its values would fit the plan."""
    step = Step("leaves", LeafCounts(), EPSILON, trees=3, shared=True, cells=10**6)
    opened = session(held(some_rows()), step)
    with pytest.raises(AllowanceExceeded):
        opened.leaf_counts("leaves", small_forest(trees=trees, depth=1))
    assert repr(opened) == "<Session: 1 of 1 steps left>"


def test_a_step_can_be_used_once() -> None:
    """The second use of a step is refused and reads nothing."""
    database = held(some_rows())
    opened = session(database, leaf_step("leaf_counts", FOREST, CLASSES, shared=False))
    opened.leaf_counts("leaves", FOREST)
    watched = Watched(database.engine)
    opened._rows._engine = watched  # type: ignore[assignment]
    with pytest.raises(AllowanceExceeded):
        opened.leaf_counts("leaves", FOREST)
    assert watched.statements == []


def test_a_step_whose_query_failed_is_spent() -> None:
    """A step is used up before its query runs: asking again after a failure is refused."""
    database = held(some_rows())
    opened = session(database, Step("n", Size(), EPSILON))
    with database.engine.transaction() as transaction:
        transaction.run("DROP TABLE people")
    with pytest.raises(DpsqlError):
        opened.size("n")
    with pytest.raises(AllowanceExceeded):
        opened.size("n")


def test_a_smaller_forest_than_declared_is_allowed() -> None:
    """Fewer values than the plan declared cost no more, so they are given."""
    step = Step("leaves", LeafCounts(), EPSILON, trees=3, cells=10**6)
    database = held(some_rows())
    assert session(database, step).leaf_counts("leaves", FOREST).shape == (FOREST.leaves, CLASSES)


def _fields() -> dict[str, np.ndarray]:
    found = candidates()
    return {"axis": found.axis, "weights": found.weights}


@pytest.mark.parametrize(
    "changes",
    [
        {"axis": np.zeros((FOREST.leaves, 3), np.int16)},
        {"axis": np.zeros((0, 2), np.int16)},
        {"axis": np.zeros(3, np.int16)},
        {"axis": np.full((FOREST.leaves, 2), -2, np.int16)},
        {"axis": np.full((FOREST.leaves, 2), -1, np.int16)},
        {"axis": np.full((FOREST.leaves, 2), 7, np.int16)},
        {"weights": np.zeros_like(candidates().weights)},
        {"weights": -candidates().weights},
        {"weights": np.ones_like(candidates().weights)},
        {"weights": np.ones(2, np.int64)},
    ],
)
def test_candidates_that_do_not_fit_together_are_refused(changes: dict[str, np.ndarray]) -> None:
    """Candidates are checked when they are made, before any row is read."""
    with pytest.raises(DpsqlError):
        Candidates(splits=candidates().splits, **(_fields() | changes))


def test_a_leaf_that_asks_for_nothing_gets_nothing() -> None:
    """Where all axes are PASS the choice is −1, and the level hands the rows on."""
    found = candidates()
    axis, weights = found.axis.copy(), found.weights.copy()
    axis[0], weights[0] = -1, 0
    some = Candidates(found.splits, axis, weights)
    chosen = session(held(some_rows()), choose_step()).choose("pick", FOREST, some)
    level = some.level(chosen)
    assert chosen[0] == -1
    assert chosen[1:].min() >= 0
    assert (level.axis[0], level.arity[0]) == (-1, 1)
    assert set(level.arity[1:].tolist()) == {2}


def test_the_uses_of_a_step_share_its_epsilon() -> None:
    """A step of two uses gives two answers whose parts add up to what was declared, and not one more."""
    step = replace(choose_step(), uses=2)
    opened = session(held(some_rows()), step)
    opened.choose("pick", FOREST, candidates(), nano_epsilon=EPSILON // 4)
    with pytest.raises(AllowanceExceeded):
        opened.choose("pick", FOREST, candidates(), nano_epsilon=EPSILON)
    opened.choose("pick", FOREST, candidates(), nano_epsilon=EPSILON - EPSILON // 4)
    with pytest.raises(AllowanceExceeded):
        opened.choose("pick", FOREST, candidates(), nano_epsilon=1)


def test_a_step_of_several_uses_ends_with_its_epsilon() -> None:
    """When the first use takes everything, nothing is left for the second."""
    opened = session(held(some_rows()), replace(choose_step(), uses=5))
    opened.choose("pick", FOREST, candidates(), nano_epsilon=EPSILON)
    with pytest.raises(AllowanceExceeded):
        opened.choose("pick", FOREST, candidates(), nano_epsilon=1)


@TREES
def test_kept_rows_give_the_same_counts_as_rows_read_anew(shared: bool) -> None:
    """Level by level, with rows waiting at their nodes, exact counts are those of one statement from the table."""
    database = held(some_rows(60))
    deep = small_forest(trees=3, depth=3)
    grown = [Forest(deep.axes, deep.trees, deep.levels[:depth]) for depth in (0, 1, 3)]
    steps = [replace(histogram_step(one, [0, 1], CLASSES, shared=shared), name=f"level {number}", nano_epsilon=10**14)
             for number, one in enumerate(grown)]  # fmt: skip
    steps.append(replace(leaf_step("leaf_counts", deep, CLASSES, shared=shared), nano_epsilon=10**14))
    opened = session(database, Sequential(tuple(steps)))
    for number, forest in enumerate(grown):
        found = opened.histograms(f"level {number}", forest, [0, 1])
        assert np.array_equal(found, exact_histograms(database, opened, forest, [0, 1], shared=shared))
    counts = opened.leaf_counts("leaves", deep)
    assert np.array_equal(counts, exact_leaf_counts(database, opened, deep, shared=shared))
    assert counts.any()


def test_rows_kept_for_one_forest_do_not_serve_another() -> None:
    """A forest with other levels, other trees or another part starts from the table again."""
    database = held(some_rows(60))
    one, other = small_forest(trees=3, depth=2), small_forest(trees=3, depth=2, seed=9)
    steps = [replace(histogram_step(forest, [0], CLASSES, shared=False), name=name, nano_epsilon=10**14)
             for name, forest in (("one", one), ("other", other))]  # fmt: skip
    opened = session(database, Sequential(tuple(steps)))
    opened.histograms("one", one, [0])
    found = opened.histograms("other", other, [0])
    assert np.array_equal(found, exact_histograms(database, opened, other, [0], shared=False))


def test_a_closed_session_answers_nothing() -> None:
    """After `close` no step is left and what was kept is gone."""
    opened = session(held(some_rows()), choose_step())
    opened.close()
    with pytest.raises(AllowanceExceeded):
        opened.choose("pick", FOREST, candidates())
