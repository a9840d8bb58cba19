"""`leaf_sums`: its noise, its sensitivity, its privacy loss, and what a session refuses where the label is a number."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpsql.compile import rows as source
from dpsql.compile.count import leaves as counts
from dpsql.errors import DpsqlError
from dpsql.kernel.operations import Histograms, LeafSums, Size
from dpsql.kernel.plan import Plan, Sequential, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import AllowanceExceeded, Session
from dpsql.mechanisms.laplace import discrete_laplace
from dpsql.schema import Schema, Target, Unit
from dpsql.trees.forest import Forest
from tests.kernel.helpers import EPSILON, Watched, exact_leaf_sums, has_scale, held, leaf_step, session, sums_step
from tests.kernel.test_audit import DRAWS, least_loss
from tests.tables import SCHEMA, TARGET, TARGET_UNITS, Row, small_forest, some_rows, some_targets

FOREST = small_forest(trees=24, depth=5)
FEW = small_forest(trees=3, depth=2)
TREES = pytest.mark.parametrize("shared", [False, True], ids=["disjoint", "shared"])
LEVELS = pytest.mark.parametrize("schema", [TARGET, TARGET_UNITS], ids=["row", "unit"])
TABLES: dict[str, list[Row]] = {
    "empty": [],
    "one row": [(1, 1.0, "a", 3.5)],
    "no targets": [(1, 1.0, "a", None), (2, 1.0, "a", float("nan"))],
    "many": some_targets(),
}


@TREES
@LEVELS
@pytest.mark.parametrize("rows", TABLES.values(), ids=TABLES)
def test_sums_cover_every_leaf(rows: list[Row], schema: Schema, shared: bool) -> None:
    """`leaf_sums` is leaves × 2, with noise where no row is."""
    opened = session(held(rows, schema=schema), sums_step(FEW, shared=shared))
    noisy = opened.leaf_sums("leaves", FEW)
    assert noisy.shape == (FEW.leaves, 2)
    assert np.count_nonzero(noisy) > FEW.leaves


@TREES
@LEVELS
def test_sums_carry_noise_of_the_stated_scale(schema: Schema, shared: bool) -> None:
    """Released minus exact sums is noise of scale c·T·steps/epsilon (shared) or c·steps/epsilon (disjoint)."""
    database = held(some_targets(), schema=schema)
    opened = session(database, sums_step(FOREST, shared=shared))
    noise = opened.leaf_sums("leaves", FOREST) - exact_leaf_sums(database, opened, FOREST, shared=shared)
    scale = Fraction(100 * (24 if shared else 1) * schema.unit.max_rows)
    for part in (noise, noise[:, 0], noise[:, 1]):
        assert part.size > 500
        assert has_scale(part, scale, tolerance=0.13 if part is noise else 0.2)
        assert not has_scale(part, scale * Fraction(14, 10), tolerance=0.13)
        assert not has_scale(part, scale * Fraction(10, 14), tolerance=0.13)


NUMBERS = st.one_of(st.none(), st.floats(), st.floats(-5, 15))
ROWS = st.lists(st.tuples(st.sampled_from([1, 2, 3]), st.floats(0, 64), st.sampled_from(["a", "b", None]), NUMBERS))


@settings(max_examples=15)
@given(rows=ROWS, added=st.lists(NUMBERS, min_size=1, max_size=3), x=st.floats(0, 64))
def test_a_unit_changes_all_sums_together_by_no_more_than_stated(
    rows: list[Row], added: list[float | None], x: float
) -> None:
    """Between neighbours the exact sums of shared trees differ by at most c·T·steps in L1, and each row by steps."""
    kept = [row for number, row in enumerate(rows) if sum(one[0] == row[0] for one in rows[:number]) < 3]
    more: list[Row] = [*kept, *[(99, x, "a", target) for target in added]]
    sums = []
    for table in (kept, more):
        database = held(table, schema=TARGET_UNITS)
        opened = session(database, sums_step(FEW, shared=True))
        sums.append(opened._rows.leaf_sums(FEW, counts.EVERY_UNIT, shared=True))
        assert (sums[-1] == exact_leaf_sums(database, opened, FEW, shared=True)).all()
    moved = np.abs(sums[1] - sums[0]).sum()
    counting = sum(target is not None and target == target for target in added)
    assert moved == counting * FEW.trees * 100
    assert moved <= sums_step(FEW, shared=True).sensitivity(Promise(TARGET_UNITS.unit))


def test_more_rows_of_a_unit_than_are_used_change_no_more() -> None:
    """A unit of many rows moves the sums by no more than its `max_rows`."""
    base = some_targets()
    forest = Forest(FEW.axes, 1, ())
    totals = []
    for rows in (base, [*base, *[(99, 5.0, "a", 10.0)] * 50]):
        opened = session(held(rows, schema=TARGET_UNITS), sums_step(forest, shared=True))
        totals.append(opened._rows.leaf_sums(forest, counts.EVERY_UNIT, shared=True))
    assert np.abs(totals[1] - totals[0]).sum() == 3 * 100


def outcomes(sums: tuple[int, int], scale: Fraction, *, cut: int) -> NDArray[np.int64]:
    """Return how often each pair of noisy sums falls on either side of the cut, in DRAWS releases."""
    noisy = np.array(sums) + discrete_laplace(scale, 2 * DRAWS).reshape(DRAWS, 2)
    return np.bincount((noisy > cut) @ np.array([1, 2]), minlength=4)


@pytest.mark.parametrize("z", [0, 3, 5, 10])
@pytest.mark.parametrize("unit", [Unit(), Unit("person", 3)], ids=["row", "unit"])
def test_the_loss_of_sums_is_at_most_epsilon(z: int, unit: Unit) -> None:
    """Adding a unit whose targets are z of 10 steps costs at most epsilon 1, and half the noise is found out."""
    step = Step("sums", LeafSums(), EPSILON, cells=2, row_weight=10)
    rows = unit.max_rows
    first, second = (0, 0), (rows * (10 - z), rows * z)
    cut = max(second) // 2
    scale = step.scale(Promise(unit))
    seen = least_loss(outcomes(first, scale, cut=cut), outcomes(second, scale, cut=cut))
    assert seen <= 1.0
    if z in (0, 10):
        half = scale / 3
        assert least_loss(outcomes(first, half, cut=cut), outcomes(second, half, cut=cut)) > 1.0


def released(rows: list[Row], trees: int = 4000) -> NDArray[np.int64]:
    """Return how often each of two noisy sums is above a cut, in as many shared one-leaf trees of a real session."""
    forest = Forest(FEW.axes, trees, ())
    step = sums_step(forest, shared=True, nano=EPSILON * trees)
    noisy = session(held(rows, schema=TARGET), step).leaf_sums("leaves", forest)
    return np.bincount((noisy > (50, 450)) @ np.array([1, 2]), minlength=4)


BASE: list[Row] = [(k, 1.0, "a", 10.0) for k in range(4)]


def test_the_loss_from_table_to_sums_is_at_most_epsilon() -> None:
    """End to end, one row more, with a target far beyond its bound, costs at most epsilon 1, and not much less."""
    first, second = (released(rows) for rows in (BASE, [*BASE, (99, 1.0, "a", 1e300)]))
    assert 0.5 < least_loss(first, second) <= 1.0


def test_an_unclamped_target_would_be_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same audit finds out a target that counts ten times as many steps as its schema declares."""
    steps, summed = source.target_steps, counts.sum_by_leaf
    monkeypatch.setattr(source, "target_steps", lambda _, value, words: steps(Target(0, 100, 1000), value, words))
    monkeypatch.setattr(counts, "sum_by_leaf", lambda *where, steps: summed(*where, steps=10 * steps))
    first, second = (released(rows) for rows in (BASE, [*BASE, (99, 1.0, "a", 100.0)]))
    assert least_loss(first, second) > 1.0


SUMS = sums_step(FEW, shared=False)


def _asks() -> dict[str, tuple[Step, Callable[[Session], object]]]:
    by_class = leaf_step("leaf_counts", FEW, 2, shared=False)
    labels = leaf_step("leaf_labels", FEW, 2, shared=False)
    bins = Step("bins", Histograms(), EPSILON, trees=3, cells=10**6)
    return {
        "counts": (by_class, lambda opened: opened.leaf_counts("leaves", FEW)),
        "labels": (labels, lambda opened: opened.leaf_labels("leaves", FEW)),
        "bins by class": (bins, lambda opened: opened.histograms("bins", FEW, [0], by_class=True)),
        "sums as counts": (SUMS, lambda opened: opened.leaf_counts("leaves", FEW)),
        "fewer steps": (sums_step(FEW, shared=False, steps=99), lambda opened: opened.leaf_sums("leaves", FEW)),
        "one step": (sums_step(FEW, shared=False, steps=1), lambda opened: opened.leaf_sums("leaves", FEW)),
        "more trees": (SUMS, lambda opened: opened.leaf_sums("leaves", small_forest(trees=4, depth=2))),
        "more leaves": (SUMS, lambda opened: opened.leaf_sums("leaves", small_forest(trees=3, depth=3))),
    }


@pytest.mark.parametrize(("step", "ask"), _asks().values(), ids=_asks())
def test_what_does_not_fit_a_target_is_refused_unread(step: Step, ask: Callable[[Session], object]) -> None:
    """Classes of a number, and sums under another number of steps than the schema's, are refused and read nothing."""
    database = held(some_targets(), schema=TARGET)
    opened = session(database, step)
    watched = Watched(database.engine)
    opened._rows._engine = watched  # type: ignore[assignment]
    with pytest.raises(DpsqlError):
        ask(opened)
    assert watched.statements == []
    assert repr(opened) == "<Session: 1 of 1 steps left>"


def test_sums_of_classes_are_refused() -> None:
    """Where the label has classes there is nothing to add up."""
    opened = session(held(some_rows(), schema=SCHEMA), sums_step(FEW, shared=False))
    with pytest.raises(AllowanceExceeded):
        opened.leaf_sums("leaves", FEW)


def test_parallel_and_sequential_sums_use_their_rows() -> None:
    """A step of sums is used once, and a second one of the plan is there still."""
    steps = Sequential((SUMS, Step("n", Size(), 10**12)))
    opened = session(held(some_targets(), schema=TARGET), steps)
    opened.leaf_sums("leaves", FEW)
    with pytest.raises(AllowanceExceeded):
        opened.leaf_sums("leaves", FEW)
    assert opened.size("n") == sum(row[3] is not None and row[3] == row[3] for row in some_targets())


def test_the_plan_describes_the_noise_of_sums() -> None:
    """Sensitivity, scale and error count the steps, the trees and the rows of a unit."""
    plan = Plan("test", sums_step(FEW, shared=True), Promise(Unit("person", 3)))
    described = plan.to_dict()["steps"][0]
    assert (described["sensitivity"], described["noise_scale"]) == (900, 900.0)
    assert described["expected_error"] == "standard deviation 18 rows per leaf, 12.7 ranges per sum of targets"
