"""Random growth: reproducible, within its bounds, uniform, and fast enough for many trees."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.schema import CELLS, Categorical, Numeric, Schema
from dpsql.trees.forest import PASS, Forest
from dpsql.trees.grid import Axis, axes, grid_cells
from dpsql.trees.grow.random_trees import random_forest
from tests.rows import random_table, schemas

SEEDS = st.integers(0, 2**32 - 1)


def number(feature: int = 0, count: int = CELLS) -> Axis:
    """Return the axis of a numeric feature."""
    return Axis(feature, 0, count, count, ordered=True)


def category(feature: int, values: int) -> Axis:
    """Return the axis of a category with a cell for everything else."""
    return Axis(feature, 0, values + 1, values, ordered=False)


def same(first: Forest, second: Forest) -> bool:
    """Tell whether two forests have the same structure."""
    return first.depth == second.depth and all(
        np.array_equal(a.axis, b.axis) and np.array_equal(a.arity, b.arity) and np.array_equal(a.planes, b.planes)
        for a, b in zip(first.levels, second.levels, strict=True)
    )


def calls(act: Callable[[], object]) -> int:
    """Return the number of Python and C function calls that an action makes."""
    made = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(None)
    return made


def root_axes(found: tuple[Axis, ...], trees: int, seed: int) -> list[int]:
    """Return the axis that each tree's root reads."""
    return random_forest(found, trees=trees, depth=1, seed=seed).levels[0].axis.tolist()


def too_uneven(drawn: Counter[int], shares: dict[int, float]) -> bool:
    """Tell whether a chi-square statistic lies six standard deviations above its mean."""
    total = drawn.total()
    statistic = sum((drawn[key] - total * share) ** 2 / (total * share) for key, share in shares.items())
    freedom = len(shares) - 1
    return set(drawn) > set(shares) or statistic > freedom + 6 * (2 * freedom) ** 0.5


@settings(max_examples=20)
@given(schema=schemas(), seed=SEEDS)
def test_the_same_seed_grows_the_same_forest(schema: Schema, seed: int) -> None:
    """Growth depends on the axes, the parameters and the seed alone."""
    grown = [random_forest(axes(schema), trees=3, depth=4, seed=seed, limit=5000) for _ in range(2)]
    assert same(*grown)


def test_another_seed_grows_another_forest() -> None:
    """Two seeds give two structures."""
    grown = [random_forest((number(), number(1)), trees=3, depth=4, seed=seed) for seed in (1, 2)]
    assert not same(*grown)


@settings(max_examples=40)
@given(schema=schemas(most=8), seed=SEEDS)
def test_no_path_is_empty_and_no_discrete_axis_comes_twice(schema: Schema, seed: int) -> None:
    """On each path a discrete axis is read once, and the cells left to a numeric axis are a non-empty run."""
    forest = random_forest(axes(schema), trees=3, depth=5, seed=seed, limit=2000)
    for leaf in range(forest.leaves):
        left: dict[int, np.ndarray] = {}
        for axis, taken in forest.path(leaf):
            assert forest.axes[axis].ordered or axis not in left
            left[axis] = left.get(axis, np.arange(CELLS) < forest.axes[axis].cells) & taken
        for axis, flags in left.items():
            places = np.flatnonzero(flags)
            assert len(places) > 0
            assert not forest.axes[axis].ordered or places[-1] - places[0] == len(places) - 1


def test_a_numeric_feature_comes_again_until_one_cell_is_left() -> None:
    """With one numeric feature of 16 cells a deep tree ends with one leaf for each cell."""
    forest = random_forest((number(count=16),), trees=4, depth=16, seed=1)
    assert forest.leaves == 4 * 16
    cells_of_leaves = [np.logical_and.reduce([taken for _, taken in forest.path(k)])[:16].sum() for k in range(64)]
    assert cells_of_leaves == [1] * 64


@settings(max_examples=40)
@given(schema=schemas(most=8), seed=SEEDS, classes=st.integers(2, 9), limit=st.integers(60, 3000))
def test_the_grid_of_leaves_stays_within_the_limit(schema: Schema, seed: int, classes: int, limit: int) -> None:
    """Leaves of all trees times classes never pass the limit (which always allows the roots)."""
    forest = random_forest(axes(schema), trees=5, depth=8, seed=seed, classes=classes, limit=limit)
    assert forest.leaves * classes <= limit


def test_the_limit_itself_is_allowed() -> None:
    """A level that fits the limit exactly is grown; one below it is not."""
    found = (number(), number(1))
    grown = [random_forest(found, trees=2, depth=3, seed=1, classes=2, limit=limit).depth for limit in (32, 31)]
    assert grown == [3, 2]


@pytest.mark.parametrize("branches", [2, 3, 5, 8, 64])
@pytest.mark.parametrize("values", [2, 3, 8, 9, 40, 63])
def test_splits_have_at_most_so_many_branches(branches: int, values: int) -> None:
    """A category has one branch per value, or `branches` groups of values when it has more."""
    level = random_forest((category(0, values),), trees=30, depth=1, seed=1, branches=branches).levels[0]
    assert set(level.arity.tolist()) == {min(branches, values)}


@pytest.mark.parametrize(("values", "branches"), [(9, 8), (40, 8), (63, 2), (10, 3)])
def test_groups_of_values_are_even_and_random(values: int, branches: int) -> None:
    """Each group of a wide category has as many values as the others, give or take one; trees group differently."""
    level = random_forest((category(0, values),), trees=30, depth=1, seed=1, branches=branches).levels[0]
    slots = np.stack([level.slots(np.full(values, node), np.arange(values)) for node in range(30)])
    sizes = np.stack([np.bincount(row, minlength=branches) for row in slots])
    assert (sizes.max(axis=1) - sizes.min(axis=1) <= 1).all()
    assert len({tuple(row) for row in slots.tolist()}) > 20


def test_undeclared_values_take_one_branch_each_time() -> None:
    """All cells beyond the declared values go the same way at a node, and not always the same way."""
    level = random_forest((category(0, 5),), trees=200, depth=1, seed=1).levels[0]
    others = np.stack([level.slots(np.full(CELLS - 5, node), np.arange(5, CELLS)) for node in range(200)])
    assert (others == others[:, :1]).all()
    assert not too_uneven(Counter(others[:, 0].tolist()), dict.fromkeys(range(5), 1 / 5))


def test_one_value_splits_from_everything_else() -> None:
    """A category of one value has two branches: that value, and NULL or unknown."""
    level = random_forest((category(0, 1),), trees=3, depth=1, seed=1).levels[0]
    assert level.arity.tolist() == [2] * 3
    assert level.slots(np.zeros(CELLS, int), np.arange(CELLS)).tolist() == [0] + [1] * 63


def test_a_feature_of_one_cell_is_never_read() -> None:
    """An axis with a single cell cannot be split; another feature is taken instead."""
    single = Axis(0, 0, 1, 1, ordered=False)
    assert set(root_axes((single, number(1)), 50, 1)) == {1}
    assert random_forest((single,), trees=3, depth=4, seed=1).depth == 0


def test_used_up_categories_end_the_tree_early() -> None:
    """With three categories a tree has three levels, however deep it may be, and routes as one of depth three."""
    schema = Schema("y", ("0", "1"), tuple(Categorical(f"c{k}", ("a", "b")) for k in range(3)))
    deep, shallow = (random_forest(axes(schema), trees=4, depth=depth, seed=1) for depth in (9, 3))
    rows = grid_cells(schema, random_table(schema, 100, 1).columns)
    assert deep.depth == 3
    assert (deep.route(rows) == shallow.route(rows)).all()


def test_a_path_that_is_used_up_passes_on() -> None:
    """Where one path has nothing left to split, its leaf passes on while the others grow."""
    forest = random_forest((number(count=3),), trees=50, depth=2, seed=1)
    last = forest.levels[1]
    assert (last.axis == PASS).sum() == 50
    assert (last.arity[last.axis == PASS] == 1).all()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_features_are_drawn_uniformly(seed: int) -> None:
    """Each feature that can be split is drawn equally often, a wide category in two digits as often as a number."""
    wide = tuple(map(str, range(200)))
    schema = Schema("y", ("0", "1"), (Numeric("a", 0, 1), Categorical("b", wide), Categorical("c", ("x", "y"))))
    found = axes(schema)
    drawn = Counter(found[axis].feature for axis in root_axes(found, 6000, seed))
    assert not too_uneven(drawn, {0: 1 / 3, 1: 1 / 3, 2: 1 / 3})


def test_drawing_axes_instead_of_features_would_be_noticed() -> None:
    """The test above has power: features drawn by their number of axes fail it."""
    assert too_uneven(Counter({0: 1500, 1: 3000, 2: 1500}), {0: 1 / 3, 1: 1 / 3, 2: 1 / 3})
    assert too_uneven(Counter({0: 2200, 1: 1900, 2: 1900}), {0: 1 / 3, 1: 1 / 3, 2: 1 / 3})


def test_thresholds_are_drawn_uniformly() -> None:
    """The first cell that goes right is each of the cells but the first, equally often."""
    level = random_forest((number(count=8),), trees=7000, depth=1, seed=1).levels[0]
    first = Counter((int(mask) & -int(mask)).bit_length() - 1 for mask in level.planes[0])
    assert not too_uneven(first, dict.fromkeys(range(1, 8), 1 / 7))


def test_second_splits_stay_uniform_on_what_is_left() -> None:
    """Below a root that read one of two categories, the other is always read: drawing is without replacement."""
    forest = random_forest((category(0, 2), category(1, 2)), trees=100, depth=2, seed=1)
    parents = np.repeat(forest.levels[0].axis, forest.levels[0].arity)
    assert (forest.levels[1].axis == 1 - parents).all()


def test_growth_is_vectorised() -> None:
    """A hundred trees of depth 12 take hardly more function calls than one: no loop runs over nodes."""
    found = tuple(number(feature) for feature in range(10))
    one = calls(lambda: random_forest(found, trees=1, depth=12, seed=1))
    hundred = calls(lambda: random_forest(found, trees=100, depth=12, seed=1, limit=2**22))
    assert hundred < 2 * one
