"""`linear`: answers as of plain Python, noise of the strategy's sensitivity, what one row changes, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpsql.compile.rows import EVERY_UNIT
from dpsql.errors import DpsqlError
from dpsql.kernel.operations import LeafCounts, Linear
from dpsql.kernel.plan import Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import AllowanceExceeded, Session
from dpsql.schema import Schema
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from dpsql.trees.grow.common_cells import CommonCells
from dpsql.trees.strategies.marginals import of_weights
from dpsql.trees.strategies.strategy import Dense, Partition, Strategy, identity
from tests.kernel.helpers import EPSILON, Held, Watched, exact_leaf_counts, has_scale, held, refill, session
from tests.tables import SCHEMA, TARGET, UNITS, Row, small_forest, some_rows

#: Two values of c times five bins of x: a tree of ten cells.
CELLS = CommonCells(axes(SCHEMA), (0, 1), (2, 5)).tree()
#: Trees that each see rows of their own.
SEVERAL = small_forest(trees=3, depth=2)
CLASSES = len(SCHEMA.classes)
#: So much epsilon that there is no noise.
EXACT = 10**15
LEVELS = pytest.mark.parametrize("schema", [SCHEMA, UNITS], ids=["row", "unit"])
TREES = pytest.mark.parametrize("cells", [CELLS, SEVERAL], ids=["one tree", "several"])
TABLES: dict[str, list[Row]] = {
    "empty": [],
    "one row": [(1, 1.0, "a", "yes")],
    "all NULL": [(None, None, None, None)],
    "many": some_rows(),
}


def mixed(cells: Forest, questions: int = 4, seed: int = 3) -> Strategy:
    """Return uneven and even sums, and questions of all cells with entries below 0."""
    generator, count = np.random.default_rng(seed), cells.leaves
    uneven = Partition(generator.integers(0, 4, count), generator.integers(1, 6, count))
    more = Dense(generator.integers(-5, 6, (questions, count)))
    return Strategy("mixed", count, (uneven, Partition.even(np.arange(count), 2), more))


def linear_step(cells: Forest, strategy: Strategy, nano: int = EPSILON, classes: int = CLASSES) -> Step:
    """Return the step that asks a strategy."""
    values = strategy.questions * classes
    weight = strategy.sensitivity
    return Step("cells", Linear(), nano, trees=cells.trees, cells=values, classes=classes, row_weight=weight)


def strategies(cells: Forest) -> list[Strategy]:
    """Return strategies of all kinds about the leaves of a tree."""
    found = [identity(cells.leaves), mixed(cells)]
    return [*found, of_weights((2, 5), np.array([3, 1, 0, 2]))] if cells is CELLS else found


def written(strategy: Strategy) -> list[list[int]]:
    """Return the matrix of a strategy as Python's whole numbers: what each question says to each cell alone."""
    return [[int(entry) for entry in row] for row in strategy.answer(np.eye(strategy.cells, dtype=np.int64))]


def plain_answers(strategy: Strategy, counts: NDArray[np.int64]) -> list[list[int]]:
    """Return each question's answer for each class, one product after the other."""
    return [
        [sum(entry * count for entry, count in zip(row, column, strict=True)) for column in counts.T.tolist()]
        for row in written(strategy)
    ]


@TREES
@LEVELS
@pytest.mark.parametrize("rows", TABLES.values(), ids=TABLES)
def test_answers_are_those_of_plain_python(rows: list[Row], schema: Schema, cells: Forest) -> None:
    """With next to no noise they are the strategy times the counts of a walk row by row, each row in one tree."""
    database = held(rows, schema=schema)
    for strategy in strategies(cells):
        opened = session(database, linear_step(cells, strategy, EXACT))
        found = opened.linear("cells", cells, strategy)
        exact = exact_leaf_counts(database, opened, cells, shared=False)
        assert found.dtype == np.int64
        assert found.shape == (strategy.questions, CLASSES)
        assert found.tolist() == plain_answers(strategy, exact)
    assert bool(exact.any()) == (len(rows) > 1 or rows == TABLES["one row"])


@TREES
@LEVELS
def test_noise_has_the_scale_of_the_sensitivity(schema: Schema, cells: Forest) -> None:
    """Released minus exact answers is noise of scale c·sensitivity/epsilon on every answer; 30 % off is seen."""
    database, strategy = held(some_rows(), schema=schema), mixed(cells, questions=1500)
    opened = session(database, linear_step(cells, strategy, EPSILON // 2))
    noise = opened.linear("cells", cells, strategy) - strategy.answer(
        exact_leaf_counts(database, opened, cells, shared=False)
    )
    scale = Fraction(2 * strategy.sensitivity * schema.unit.max_rows)
    assert strategy.sensitivity > 1000
    for part in (noise, noise[:1500], noise[:, 0]):
        assert part.size >= 1500
        assert has_scale(part, scale)
        assert not has_scale(part, scale * Fraction(13, 10))
        assert not has_scale(part, scale * Fraction(7, 10))


def test_empty_cells_have_noise_too() -> None:
    """A table without rows is answered with noise on every question."""
    strategy = mixed(CELLS, questions=200)
    found = session(held([]), linear_step(CELLS, strategy)).linear("cells", CELLS, strategy)
    assert np.count_nonzero(found) > 0.95 * found.size


NEW = st.tuples(
    st.just(5000),
    st.one_of(st.none(), st.floats(-10, 80), st.just(float("nan"))),
    st.sampled_from(["a", "b", "q", None]),
    st.sampled_from(["no", "yes", "maybe", "unknown label", None]),
)


def exact_answers(opened: Session, cells: Forest, strategy: Strategy) -> NDArray[np.int64]:
    """Return the answers before noise, as the kernel works them out."""
    return np.asarray(strategy.answer(opened._rows.leaf_counts(cells, EVERY_UNIT, shared=False)), np.int64)


@TREES
@settings(max_examples=15)
@given(new=NEW, seed=st.integers(0, 2**32))
def test_one_row_more_changes_answers_by_at_most_the_sensitivity(cells: Forest, new: Row, seed: int) -> None:
    """Neighbours differ by one column of the strategy, in the answers of one class: the sensitivity of the proof."""
    strategy = mixed(cells, seed=seed)
    for schema in (SCHEMA, UNITS):
        opened = session(held(some_rows(20), schema=schema), linear_step(cells, strategy))
        before = exact_answers(opened, cells, strategy)
        refill(opened, [*some_rows(20), new], schema=schema)
        change = exact_answers(opened, cells, strategy) - before
        columns = [*map(list, zip(*written(strategy), strict=True)), [0] * strategy.questions]
        assert np.abs(change).sum() <= strategy.sensitivity
        assert all(column in columns for column in change.T.tolist())
        assert np.count_nonzero(change.any(axis=0)) == (new[3] in SCHEMA.classes)


def test_some_row_changes_answers_by_the_sensitivity() -> None:
    """The bound is reached: by a row in the cell whose column is the largest."""
    strategy = mixed(CELLS)
    opened = session(held([]), linear_step(CELLS, strategy))
    rows: list[Row] = [(k, x, c, "yes") for k, (x, c) in enumerate((x, c) for x in (1, 14, 27, 40, 53) for c in "ab")]
    moved = []
    for row in rows:
        refill(opened, [row])
        moved.append(int(np.abs(exact_answers(opened, CELLS, strategy)).sum()))
    assert max(moved) == strategy.sensitivity
    assert len(set(moved)) > 3


def test_a_unit_changes_answers_by_its_rows() -> None:
    """Ten rows of one person count as three, so they change the answers by three times the sensitivity at most."""
    strategy = Strategy("total", 10, (Partition.even(np.zeros(10, np.int64), 4),))
    opened = session(held([(7, float(x), "a", "yes") for x in range(10)], schema=UNITS), linear_step(CELLS, strategy))
    assert exact_answers(opened, CELLS, strategy).tolist() == [[0, 12, 0]]
    assert linear_step(CELLS, strategy).sensitivity(Promise(UNITS.unit)) == 12


IDENTITY = identity(CELLS.leaves)
MIXED = mixed(CELLS)
STEP = linear_step(CELLS, MIXED)
Ask = Callable[[Session], object]


def as_declared(opened: Session) -> object:
    """Ask what STEP was declared for."""
    return opened.linear("cells", CELLS, MIXED)


REFUSED: dict[str, tuple[Step, Ask]] = {
    "fewer cells": (linear_step(CELLS, identity(9)), lambda opened: opened.linear("cells", CELLS, identity(9))),
    "more cells": (linear_step(CELLS, identity(11)), lambda opened: opened.linear("cells", CELLS, identity(11))),
    "other trees": (STEP, lambda opened: opened.linear("cells", SEVERAL, MIXED)),
    "more trees": (STEP, lambda opened: opened.linear("cells", SEVERAL, mixed(SEVERAL))),
    "fewer trees": (replace(STEP, trees=2), as_declared),
    "a smaller sensitivity declared": (replace(STEP, row_weight=MIXED.sensitivity - 1), as_declared),
    "a sensitivity of 1 declared": (replace(STEP, row_weight=1), as_declared),
    "a larger sensitivity declared": (replace(STEP, row_weight=MIXED.sensitivity + 1), as_declared),
    "one question too many": (replace(STEP, cells=STEP.cells - 1), as_declared),
    "questions for one class": (replace(STEP, cells=MIXED.questions), as_declared),
    "another name": (STEP, lambda opened: opened.linear("others", CELLS, MIXED)),
    "declared as leaf counts": (replace(STEP, operation=LeafCounts()), as_declared),
    "declared on two axes": (replace(STEP, axes=2), as_declared),
    "leaf counts of a linear step": (linear_step(CELLS, IDENTITY), lambda opened: opened.leaf_counts("cells", CELLS)),
}


def watch(database: Held, opened: Session) -> Watched:
    """Let a session run its statements through an engine that remembers them."""
    opened._rows._engine = watched = Watched(database.engine)  # type: ignore[assignment]
    return watched


@pytest.mark.parametrize(("step", "ask"), REFUSED.values(), ids=REFUSED)
def test_another_question_than_declared_is_refused_unread(step: Step, ask: Ask) -> None:
    """Nothing is asked of the table, and the step is left as it was."""
    database = held(some_rows())
    opened = session(database, step)
    watched = watch(database, opened)
    with pytest.raises(AllowanceExceeded):
        ask(opened)
    assert watched.statements == []
    assert repr(opened) == "<Session: 1 of 1 steps left>"


def test_what_was_declared_runs_after_a_refusal() -> None:
    """A refused question costs nothing: the step still answers what it was declared for, in one statement."""
    database = held(some_rows())
    opened = session(database, STEP)
    watched = watch(database, opened)
    with pytest.raises(AllowanceExceeded):
        opened.linear("cells", CELLS, identity(9))
    assert opened.linear("cells", CELLS, MIXED).shape == (MIXED.questions, CLASSES)
    assert len(watched.statements) == 1


def test_a_step_is_used_once() -> None:
    """A second question under one step is refused, and nothing more is read."""
    database = held(some_rows())
    opened = session(database, STEP)
    watched = watch(database, opened)
    opened.linear("cells", CELLS, MIXED)
    with pytest.raises(AllowanceExceeded):
        opened.linear("cells", CELLS, MIXED)
    assert len(watched.statements) == 1
    assert repr(opened) == "<Session: 0 of 1 steps left>"


def test_fewer_questions_than_declared_are_paid_for() -> None:
    """A strategy of the same sensitivity with fewer questions is no more than was declared."""
    declared = linear_step(CELLS, IDENTITY)
    total = Strategy("total", CELLS.leaves, (Partition.even(np.zeros(CELLS.leaves, np.int64), 1),))
    assert session(held(some_rows()), declared).linear("cells", CELLS, total).shape == (1, CLASSES)


@pytest.mark.parametrize("classes", [1, CLASSES])
def test_a_numeric_target_is_refused_unread(classes: int) -> None:
    """A number has no classes that cells could be counted by."""
    database = held([(1, 1.0, "a", 3.5)], schema=TARGET)
    opened = session(database, linear_step(CELLS, MIXED, classes=classes))
    watched = watch(database, opened)
    with pytest.raises(AllowanceExceeded, match="number"):
        opened.linear("cells", CELLS, MIXED)
    assert watched.statements == []


def test_a_failed_question_tells_no_count() -> None:
    """When the query fails the step is spent, and the error quotes nothing."""
    database = held(some_rows(77))
    opened = session(database, STEP)
    with database.engine.transaction() as transaction:
        transaction.run("DROP TABLE people")
    with pytest.raises(DpsqlError) as caught:
        opened.linear("cells", CELLS, MIXED)
    assert not any(character.isdigit() for character in str(caught.value))
    with pytest.raises(AllowanceExceeded):
        opened.linear("cells", CELLS, MIXED)
