"""A session gives the full public grid whatever the rows, and no more than its plan allows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dpsql.errors import DpsqlError
from dpsql.kernel.candidates import Candidates
from dpsql.kernel.plan import Parallel, Sequential, Step
from dpsql.kernel.session import AllowanceExceeded, Session
from dpsql.schema import CELLS
from dpsql.trees.forest import Forest, Level
from tests.kernel.helpers import EPSILON, Watched, held, histogram_step, leaf_step, session
from tests.tables import SCHEMA, UNITS, Row, small_forest, some_rows

FOREST = small_forest(trees=3, depth=2)
CLASSES = len(SCHEMA.classes)
TABLES: dict[str, list[Row]] = {"empty": [], "all NULL": [(None, None, None, None)], "many": some_rows()}
TREES = pytest.mark.parametrize("shared", [False, True], ids=["disjoint", "shared"])
LEVELS = pytest.mark.parametrize("schema", [SCHEMA, UNITS], ids=["row", "unit"])
ROWS = pytest.mark.parametrize("rows", TABLES.values(), ids=TABLES)


def candidates(forest: Forest = FOREST, count: int = 5) -> Candidates:
    """Return candidate splits on both axes for each leaf."""
    generator = np.random.default_rng(1)
    shape = (forest.leaves, count)
    right = generator.integers(0, 2**63, shape, dtype=np.uint64)
    return Candidates(generator.integers(0, len(forest.axes), shape).astype(np.int16), right)


def choose_step(forest: Forest = FOREST, utility: str = "majority", *, shared: bool = False) -> Step:
    """Return a step that chooses one candidate for each leaf."""
    return Step("pick", "choose", EPSILON, trees=forest.trees, shared=shared, cells=forest.leaves, utility=utility)


@ROWS
@LEVELS
def test_size_is_one_whole_number(rows: list[Row], schema: object) -> None:
    """`size` gives an int for any table."""
    database = held(rows, schema=schema)
    assert type(session(database, Step("n", "size", EPSILON)).size("n")) is int


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
    assert set(chosen.tolist()) <= set(range(5))


def test_histograms_without_classes_have_one() -> None:
    """`by_class=False` leaves the class out and keeps the rest of the shape."""
    database = held(some_rows())
    opened = session(database, histogram_step(FOREST, [1], 1, shared=False))
    assert opened.histograms("bins", FOREST, [1], by_class=False).shape == (FOREST.leaves, 1, CELLS, 1)


def test_a_broken_forest_loses_rows_but_raises_nothing() -> None:
    """A split that sends rows past the last leaf is no error: whether a row gets there depends on the rows."""
    nowhere = Level(np.array([1], np.int16), np.array([2], np.uint8), np.full((2, 1), 2**64 - 1, np.uint64))
    forest = Forest(FOREST.axes, 1, (nowhere,))
    database = held(some_rows())
    opened = session(
        database,
        Sequential(
            (
                leaf_step("leaf_counts", forest, CLASSES, shared=False, nano=10**12),
                histogram_step(forest, [0], 1, shared=False),
            )
        ),
    )
    assert opened.histograms("bins", forest, [0], by_class=False).shape == (2, 1, CELLS, 1)
    assert not opened.leaf_counts("leaves", forest).any()


PARALLEL = Parallel((Step("a", "size", 10**12), Step("b", "size", 10**12), Step("c", "size", 10**12)))


def test_parallel_steps_count_each_row_once() -> None:
    """The rows of all parallel parts together are the rows of the table."""
    database = held([(k, 1.0, "a", "no") for k in range(200)])
    opened = session(database, PARALLEL)
    sizes = [opened.size(name) for name in "abc"]
    assert sum(sizes) == 200
    assert min(sizes) > 20


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
            "pick", FOREST, Candidates(np.full((FOREST.leaves, 1), 9, np.int16), np.ones((FOREST.leaves, 1), np.uint64))
        ),
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
    step = Step("leaves", "leaf_counts", EPSILON, trees=3, shared=True, cells=10**6)
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
    opened = session(database, Step("n", "size", EPSILON))
    with database.engine.transaction() as transaction:
        transaction.run("DROP TABLE people")
    with pytest.raises(DpsqlError):
        opened.size("n")
    with pytest.raises(AllowanceExceeded):
        opened.size("n")


def test_a_smaller_forest_than_declared_is_allowed() -> None:
    """Fewer values than the plan declared cost no more, so they are given."""
    step = Step("leaves", "leaf_counts", EPSILON, trees=3, cells=10**6)
    database = held(some_rows())
    assert session(database, step).leaf_counts("leaves", FOREST).shape == (FOREST.leaves, CLASSES)


@pytest.mark.parametrize(
    "changes",
    [
        {"axis": np.zeros((2, 2), np.int16), "right": np.zeros((2, 3), np.uint64)},
        {"axis": np.zeros((0, 2), np.int16), "right": np.zeros((0, 2), np.uint64)},
        {"axis": np.zeros(3, np.int16), "right": np.zeros(3, np.uint64)},
        {"axis": np.full((1, 1), -1, np.int16), "right": np.zeros((1, 1), np.uint64)},
        {"weights": np.zeros((2, 2), np.int64)},
        {"weights": np.array([[1, -1], [1, 1]])},
        {"weights": np.ones(2, np.int64)},
    ],
)
def test_candidates_that_do_not_fit_together_are_refused(changes: dict[str, np.ndarray]) -> None:
    """Candidates are checked when they are made, before any row is read."""
    fields = {"axis": np.zeros((2, 2), np.int16), "right": np.zeros((2, 2), np.uint64)} | changes
    with pytest.raises(DpsqlError):
        Candidates(**fields)
