"""The public list of splits against its definition, and the cells each node holds against the paths of the forest."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.schema import CELLS, Boolean, Categorical, Numeric, Schema
from dpsql.trees.forest import PASS, Forest
from dpsql.trees.grid import Axis, axes
from dpsql.trees.grow.splits import ReachableCells, Splits, between_groups, draw_axes, many_way, two_way

WIDE = Categorical("zip", tuple(map(str, range(200))))
#: One of each kind: thresholds, few cells, a category with and without a place for other values, a wide one.
MIXED = axes(
    Schema(
        "y",
        ("no", "yes"),
        (
            Numeric("x", 0, 64),
            Numeric("few", 0, 1, cells=3),
            Categorical("c", ("a", "b", "d")),
            Categorical("closed", ("a", "b", "d"), null="a", unknown="b"),
            Boolean("flag"),
            WIDE,
        ),
    )
)
#: A category of one value to which everything else belongs too: nothing can be split.
SINGLE = Axis(0, 0, 1, 1, ordered=False)


@st.composite
def grids(draw: st.DrawFn) -> tuple[Axis, ...]:
    """Draw a few axes, one for each feature, of one to 64 cells."""
    found = []
    for feature in range(draw(st.integers(1, 4))):
        ordered = draw(st.booleans())
        cells = draw(st.sampled_from([2, 3, 5, 63, 64]) if ordered else st.sampled_from([1, 2, 3, 4, 17, 64]))
        others = 0 if ordered or cells == 1 else draw(st.integers(0, 1))
        found.append(Axis(feature, 0, cells, cells - others, ordered=ordered))
    return tuple(found)


def plain_two_way(axis: Axis) -> list[list[int]]:
    """Return the child of each cell in each split in two, as the paper says it."""
    if axis.ordered:
        return [[int(cell >= edge) for cell in range(CELLS)] for edge in range(1, axis.cells)]
    parted = range(axis.cells) if axis.cells > 2 else range(axis.cells - 1)
    return [[int(cell == value) for cell in range(CELLS)] for value in parted]


def plain_many_way(axis: Axis, branches: int) -> list[list[int]]:
    """Return the child of each cell where each value has a branch, or neighbours share one."""
    if axis.ordered:
        return plain_two_way(axis)
    if axis.cells < 2:
        return []
    if axis.values == 1:  # the value, and everything else
        return [[0] + [1] * (CELLS - 1)]
    ways = min(branches, axis.values)
    return [[value * ways // axis.values for value in range(axis.values)] + [ways - 1] * (CELLS - axis.values)]


def listed(splits: Splits, axis: int) -> list[list[int]]:
    """Return the slots of the splits that an axis has, and check that no other has any."""
    count = int((splits.arity[axis] > 0).sum())
    assert splits.arity[axis, :count].all()
    assert not splits.slots(axis)[count:].any()
    found: list[list[int]] = splits.slots(axis)[:count].tolist()
    return found


def grown(
    grid: tuple[Axis, ...], splits: Splits, *, trees: int, depth: int, seed: int
) -> tuple[Forest, ReachableCells]:
    """Return a forest of random open splits, some nodes left alone, and the cells of its leaves."""
    generator = np.random.default_rng(seed)
    forest, held = Forest(grid, trees, ()), ReachableCells.roots(grid, trees)
    for _ in range(depth):
        axis, number = [], []
        for node in held.open_splits(splits):
            places = np.argwhere(node)
            stop = len(places) == 0 or generator.random() < 0.2
            one, split = (PASS, 0) if stop else generator.choice(places)
            axis.append(one)
            number.append(split)
        level = splits.level(np.array(axis, np.int64), np.array(number, np.int64))
        forest, held = Forest(grid, trees, (*forest.levels, level)), held.at_next_level(level)
    return forest, held


def plain_held(forest: Forest) -> list[list[set[int]]]:
    """Return the cells of each axis that a row at each leaf may have: those that every test on its path lets by."""
    found = []
    for leaf in range(forest.leaves):
        cells = [set(range(axis.cells)) for axis in forest.axes]
        for axis, taken in forest.path(leaf):
            cells[axis] &= set(np.flatnonzero(taken).tolist())
        found.append(cells)
    return found


def as_sets(held: ReachableCells) -> list[list[set[int]]]:
    """Return held cells as sets."""
    return [[{cell for cell in range(CELLS) if int(word) >> cell & 1} for word in node] for node in held.cells]


@given(grid=grids())
def test_two_way_is_every_threshold_and_every_value(grid: tuple[Axis, ...]) -> None:
    """Splits in two are what the definition says, each with two children; an axis of one cell has none."""
    splits = two_way(grid)
    for number, axis in enumerate(grid):
        assert listed(splits, number) == plain_two_way(axis)
    assert set(splits.arity[splits.arity > 0].tolist()) <= {2}
    assert splits.most == max(1, *(len(plain_two_way(axis)) for axis in grid))


@given(grid=grids(), branches=st.integers(2, 64))
def test_many_way_gives_each_value_a_branch(grid: tuple[Axis, ...], branches: int) -> None:
    """A category has one split; with more values than branches neighbours share one, and none has fewer than it may."""
    splits = many_way(grid, branches)
    for number, axis in enumerate(grid):
        expected = plain_many_way(axis, branches)
        assert listed(splits, number) == expected
        assert splits.arity[number, : len(expected)].tolist() == [max(one) + 1 for one in expected]
        assert all(set(one) == set(range(max(one) + 1)) for one in expected)


def test_values_beyond_the_branches_are_shared_evenly() -> None:
    """Seven values in three branches: two or three neighbours each, and other values go last."""
    slots = many_way([Axis(0, 0, 8, 7, ordered=False)], 3).slots(0)[0, :9]
    assert slots.tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 2]


@pytest.mark.parametrize("splits", [two_way([SINGLE]), many_way([SINGLE], 64)], ids=["two_way", "many_way"])
def test_an_axis_of_one_cell_has_no_split(splits: Splits) -> None:
    """Where there is one cell there is nothing to part: no split, nothing open, no axis drawn."""
    held = ReachableCells.roots([SINGLE], 2)
    assert (splits.arity.tolist(), splits.most) == ([[0]], 1)
    assert not held.open_splits(splits).any()
    assert not held.open_axes().any()
    assert draw_axes([SINGLE], held, [1]).tolist() == [PASS, PASS]


def test_an_axis_of_one_cell_beside_another_keeps_its_place() -> None:
    """An axis without a split does not move the splits of the next one."""
    grid = (SINGLE, Axis(1, 0, 3, 3, ordered=True))
    splits = many_way(grid, 2)
    assert (listed(splits, 0), listed(splits, 1)) == ([], plain_two_way(grid[1]))


@settings(max_examples=40)
@given(grid=grids(), many=st.booleans(), seed=st.integers(0, 2**32))
def test_a_level_sends_each_cell_where_its_split_says(grid: tuple[Axis, ...], many: bool, seed: int) -> None:
    """Nodes of a level route all 64 cells like `slots`; a PASS node hands everything to its only child."""
    splits = many_way(grid, 9) if many else two_way(grid)
    generator = np.random.default_rng(seed)
    places = np.argwhere(splits.arity > 0)
    axis, number = np.full(12, PASS), np.zeros(12, np.int64)
    if len(places):
        axis[::2], number[::2] = places[generator.integers(0, len(places), 6)].T
    level = splits.level(axis, number)
    for node in range(12):
        slots = level.slots(np.full(CELLS, node), np.arange(CELLS)).tolist()
        if axis[node] == PASS:
            assert (level.axis[node], level.arity[node], slots) == (PASS, 1, [0] * CELLS)
        else:
            assert level.axis[node] == axis[node]
            assert level.arity[node] == splits.arity[axis[node], number[node]]
            assert slots == splits.slots(axis[node])[number[node]].tolist()
    assert level.width == sum(level.arity.tolist())


def test_a_pass_node_takes_nothing_from_the_last_axis() -> None:
    """PASS is −1, which also names the last axis to numpy: a PASS node has neither its arity nor its planes."""
    level = two_way(MIXED).level(np.array([PASS, 0]), np.array([1, 1]))
    assert (level.arity.tolist(), level.planes[:, 0].any()) == ([1, 2], False)


def test_the_roots_hold_every_cell_and_no_other() -> None:
    """Each root holds exactly the cells that its axes have."""
    found = as_sets(ReachableCells.roots(MIXED, 3))
    assert found == [[set(range(axis.cells)) for axis in MIXED]] * 3


@pytest.mark.parametrize("many", [False, True], ids=["two_way", "many_way"])
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32), trees=st.integers(1, 3), depth=st.integers(0, 4))
def test_held_cells_are_those_the_paths_allow(many: bool, seed: int, trees: int, depth: int) -> None:
    """A node holds a cell of an axis iff every test on the path to it lets the cell by; and no node holds none."""
    splits = many_way(MIXED, 4) if many else two_way(MIXED)
    forest, held = grown(MIXED, splits, trees=trees, depth=depth, seed=seed)
    assert as_sets(held) == plain_held(forest)
    assert held.cells.all()


@pytest.mark.parametrize("many", [False, True], ids=["two_way", "many_way"])
@settings(max_examples=10)
@given(seed=st.integers(0, 2**32), depth=st.integers(0, 4))
def test_a_split_is_open_where_it_parts_what_is_held(many: bool, seed: int, depth: int) -> None:
    """`open`, `open_on` and `open_axes` are what counting the children of the held cells gives."""
    splits = many_way(MIXED, 4) if many else two_way(MIXED)
    forest, held = grown(MIXED, splits, trees=2, depth=depth, seed=seed)
    tables = [splits.slots(axis) for axis in range(len(MIXED))]
    expected = np.zeros((forest.leaves, len(MIXED), splits.most), bool)
    cells = plain_held(forest)
    for leaf, axis, number in product(range(forest.leaves), range(len(MIXED)), range(splits.most)):
        expected[leaf, axis, number] = len(set(tables[axis][number, list(cells[leaf][axis])].tolist())) > 1
    assert np.array_equal(held.open_splits(splits), expected)
    assert held.open_axes().tolist() == [[len(one) > 1 for one in node] for node in cells]
    asked = np.random.default_rng(seed).integers(PASS, len(MIXED), forest.leaves)
    alone = np.where((asked == PASS)[:, None], False, expected[np.arange(forest.leaves), asked])
    assert held.open_splits_on(splits, asked).tolist() == alone.tolist()


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), depth=st.integers(0, 12), draw=st.integers(0, 2**32))
def test_only_open_axes_are_drawn(seed: int, depth: int, draw: int) -> None:
    """A node draws an axis with two cells or more left, and PASS iff it has none."""
    grid = (Axis(0, 0, 3, 3, ordered=True), Axis(1, 0, 2, 2, ordered=False), Axis(1, 1, 3, 3, ordered=False))
    _, held = grown(grid, two_way(grid), trees=3, depth=depth, seed=seed)
    can = held.open_axes()
    for node, axis in enumerate(draw_axes(grid, held, [draw, 1]).tolist()):
        assert can[node, axis] if axis != PASS else not can[node].any()


def shares(drawn: np.ndarray, count: int) -> np.ndarray:
    """Return the share of each axis among those drawn."""
    return np.asarray(np.bincount(drawn, minlength=count) / len(drawn))


def test_features_are_drawn_uniformly_however_many_axes_they_have() -> None:
    """Of three features one is a wide category of three axes: each feature gets a third, its axes share theirs.

    With 30,000 draws a share of 1/3 has a standard deviation of 0.0027; 0.017 is six of them.
    """
    grid = axes(
        Schema("y", ("no", "yes"), (Numeric("x", 0, 1), Categorical("zip", tuple(map(str, range(4096)))), Boolean("b")))
    )
    assert [axis.feature for axis in grid] == [0, 1, 1, 1, 2]
    found = shares(draw_axes(grid, ReachableCells.roots(grid, 30_000), [5, 0]), 5)
    assert np.abs(found - np.array([3, 1, 1, 1, 3]) / 9).max() < 0.017


def test_a_feature_that_is_used_up_leaves_its_share_to_the_others() -> None:
    """Where one feature and one axis of the wide category are closed, the others are drawn uniformly."""
    grid = axes(Schema("y", ("no", "yes"), (Boolean("a"), Categorical("code", tuple(map(str, range(4096)))), WIDE)))
    cells = ReachableCells.roots(grid, 30_000).cells.copy()
    cells[:, [0, 2]] = 1
    found = shares(draw_axes(grid, ReachableCells(cells), [8]), len(grid))
    assert np.abs(found - np.array([0, 1, 0, 1, 1, 1]) / 4).max() < 0.017


def test_the_same_seed_draws_the_same() -> None:
    """A draw follows from its seed alone; another seed, or another number in it, gives another draw."""
    held = ReachableCells.roots(MIXED, 200)
    drawn = [draw_axes(MIXED, held, seed).tolist() for seed in ([3, 0], [3, 0], [4, 0], [3, 1], [3, 0, 1])]
    assert drawn[0] == drawn[1]
    assert all(drawn[0] != other for other in drawn[2:])


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=64), min_size=1, max_size=4))
def test_splits_between_groups_part_no_group(drawn: list[list[int]]) -> None:
    """Threshold k of an axis sends the cells of groups from k + 1 on right and all others left, and none is missing."""
    # Groups are numbered without a gap, as profiles number them.
    group = [np.unique(np.array(cells), return_inverse=True)[1].astype(np.int64) for cells in drawn]
    found = between_groups(group)
    for axis, cells in enumerate(group):
        last = int(cells.max())
        assert np.count_nonzero(found.arity[axis]) == last
        assert set(found.arity[axis].tolist()) <= {0, 2}
        for number in range(last):
            slots = found.slots(axis)[number]
            assert slots[: len(cells)].tolist() == (cells > number).astype(int).tolist()
            assert set(slots[len(cells) :].tolist()) <= {int(cells[-1] > number)}


def test_axes_of_one_group_have_no_split() -> None:
    """Where nothing can be told apart the list is empty, and has a place for one split that is not there."""
    found = between_groups([np.zeros(64, np.int64), np.zeros(1, np.int64)])
    assert (found.arity.shape, found.arity.max()) == ((2, 1), 0)
