"""Guided trees: splits between groups, every row in one leaf, informative features first, the same for one seed."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.schema import CELLS
from dpsql.trees.estimate.marginal_profile import Marginal, MarginalProfile, marginal_profile
from dpsql.trees.forest import PASS, Forest
from dpsql.trees.grid import Axis
from dpsql.trees.grow.guided_trees import LEAST_SIDE, LIKELY, QUANTILE, Ladders, guided_forest
from dpsql.trees.serialize import check_forest

KINDS = pytest.mark.parametrize("kind", [QUANTILE, LIKELY])


def known(counts: object, *, ordered: bool = True) -> MarginalProfile:
    """Return the profile of counts that are known nearly without noise."""
    found = np.array(counts, np.float64)
    return marginal_profile(Marginal(found, 0.01, ordered), found.sum(axis=0))


def telling(cells: int = 64, at: float = 0.5, classes: int = 2) -> MarginalProfile:
    """Return a number whose class changes from the first to the second at a share of its cells."""
    counts = np.full((cells, classes), 2.0)
    counts[: int(cells * at), 0] = counts[int(cells * at) :, 1] = 100
    return known(counts)


def silent(cells: int = 64, classes: int = 2) -> MarginalProfile:
    """Return a number that says nothing of the class."""
    return known(np.full((cells, classes), 50.0))


def grown(
    profiles: list[MarginalProfile], kinds: list[str], *, depth: int = 4, seed: int = 0, classes: int = 2
) -> Forest:
    """Return the forest of these profiles."""
    grid = tuple(Axis(n, 0, len(one.group), len(one.group), ordered=True) for n, one in enumerate(profiles))
    return guided_forest(grid, Ladders.of(grid, profiles, np.full(classes, 1 / classes)), kinds, depth=depth, seed=seed)


@st.composite
def some_profiles(draw: st.DrawFn) -> list[MarginalProfile]:
    """Draw profiles of up to six axes of any number of cells and groups, with or without a signal."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 20, 64]), min_size=1, max_size=6))
    classes = draw(st.sampled_from([2, 3, 26]))
    found = []
    for cells in sizes:
        counts = generator.dirichlet(np.full(cells * classes, 0.4)).reshape(cells, classes) * 1000
        noise = draw(st.sampled_from([0.1, 30.0]))
        noisy = counts + generator.laplace(0, noise, counts.shape)
        found.append(marginal_profile(Marginal(noisy, noise, draw(st.booleans())), np.full(classes, 1000 / classes)))
    return found


@settings(max_examples=60)
@given(profiles=some_profiles(), depth=st.integers(1, 6), seed=st.integers(0, 2**32))
def test_splits_are_between_groups_and_every_row_reaches_a_leaf(
    profiles: list[MarginalProfile], depth: int, seed: int
) -> None:
    """No split parts a group; both sides hold a group that a row may have; rows reach one leaf of each tree."""
    kinds = [LIKELY, QUANTILE, LIKELY]
    forest = grown(profiles, kinds, depth=depth, seed=seed, classes=profiles[0].counts.shape[1])
    check_forest(forest)
    assert forest.depth <= depth
    groups = [one.group for one in profiles]
    for level in forest.levels:
        for node in np.flatnonzero(level.axis != PASS):
            group = groups[level.axis[node]]
            side = level.slots(np.full(CELLS, node), np.arange(CELLS))[: len(group)]
            assert all(len(set(side[group == one].tolist())) == 1 for one in set(group.tolist()))
            assert (np.diff(side[np.argsort(group, kind="stable")]) >= 0).all()
    for leaf in range(forest.leaves):
        held: dict[int, set[int]] = {}
        for axis, taken in forest.path(leaf):
            cells = set(np.flatnonzero(taken[: len(groups[axis])]).tolist())
            held[axis] = held.get(axis, cells) & cells
        assert all(held.values())
    rows = np.random.default_rng(seed).integers(0, [len(group) for group in groups], (50, len(groups)))
    leaves = forest.route(rows)
    assert (forest.leaf_tree[leaves] == np.arange(3)).all()


@KINDS
def test_trees_end_where_nothing_is_left_to_split(kind: str) -> None:
    """An axis of three groups has three leaves at most: deeper levels are not made, nor nodes that part nothing."""
    forest = grown([known([[9, 1], [5, 5], [1, 9]], ordered=False)], [kind] * 2, depth=9)
    assert (forest.depth, forest.leaves) == (2, 6)
    assert np.count_nonzero(forest.levels[1].axis == PASS) == 2


@KINDS
def test_one_group_is_never_split(kind: str) -> None:
    """Where no axis has two groups each tree is a single leaf."""
    forest = grown([known([[5, 5]]), known([[5, 5]])], [kind] * 3, depth=4)
    assert (forest.depth, forest.leaves) == (0, 3)


@KINDS
def test_full_trees_have_the_depth_that_was_asked(kind: str) -> None:
    """With groups enough every node of every level is split."""
    forest = grown([telling(), silent(), silent()], [kind] * 3, depth=4)
    assert (forest.depth, forest.leaves) == (4, 3 * 2**4)


def roots_on(forest: Forest, axis: int) -> float:
    """Return the share of trees whose root splits an axis."""
    return float((forest.levels[0].axis == axis).mean())


def test_likely_trees_split_the_informative_feature_first() -> None:
    """Three roots of four take the best of a random half of six features: the one that tells, where it is among them.

    One of two halves has it, so 38 roots of 100 split it for that reason alone; of a fair draw 17 would.
    """
    forest = grown([silent()] * 3 + [telling()] + [silent()] * 2, [LIKELY] * 300, depth=1)
    assert roots_on(forest, 3) > 0.33


def test_a_likely_root_splits_where_the_classes_change() -> None:
    """With one feature the root's threshold is at the change, in every tree."""
    forest = grown([telling(at=0.25)], [LIKELY] * 200, depth=1)
    right = [int(mask).bit_count() for mask in forest.levels[0].planes[0]]
    assert set(right) == {48}


def test_likely_splits_leave_enough_on_either_side() -> None:
    """A change at a twentieth of the rows is not where a likely root splits: about a tenth is left on either side."""
    counts = np.full((64, 2), 50.0)
    counts[:3], counts[3:, 0] = (95, 5), 48
    forest = grown([known(counts)], [LIKELY] * 100, depth=1)
    shares = np.array([64 - int(mask).bit_count() for mask in forest.levels[0].planes[0]]) / 64
    assert np.minimum(shares, 1 - shares).min() > 0.8 * LEAST_SIDE


def test_every_second_quantile_tree_draws_by_information() -> None:
    """Trees of even number give all features the same chance; those of odd number prefer what tells."""
    forest = grown([silent()] * 3 + [telling()], [QUANTILE] * 400, depth=1)
    root = forest.levels[0].axis == 3
    assert 0.12 < root[::2].mean() < 0.38
    assert root[1::2].mean() > 0.9


def test_quantile_splits_leave_three_to_seven_tenths_of_the_rows() -> None:
    """On a skewed number the split is where the rows are, not in the middle of the range."""
    mass = np.exp(-np.arange(64) / 5)
    forest = grown([known(np.outer(mass * 1000, [1, 1]))], [QUANTILE] * 100, depth=1)
    left = np.array([64 - int(mask).bit_count() for mask in forest.levels[0].planes[0]])
    shares = np.cumsum(mass)[left - 1] / mass.sum()
    # A group holds a twelfth of the rows, so a split is that much off at most.
    assert 0.3 - 1 / 6 < shares.min() < shares.max() < 0.7 + 1 / 6
    assert len(set(left.tolist())) > 2


def same(one: Forest, other: Forest) -> bool:
    """Whether two forests make the same splits."""
    return one.depth == other.depth and all(
        np.array_equal(a.axis, b.axis) and np.array_equal(a.planes, b.planes)
        for a, b in zip(one.levels, other.levels, strict=True)
    )


def test_the_seed_alone_decides() -> None:
    """The same seed gives the same trees, another seed others, and the trees of one forest differ."""
    profiles, kinds = [telling(), silent(), silent(), telling(at=0.3)], [LIKELY, LIKELY, QUANTILE]
    one = grown(profiles, kinds, seed=5)
    assert same(one, grown(profiles, kinds, seed=5))
    assert not same(one, grown(profiles, kinds, seed=6))
    assert not same(one.tree(0), one.tree(1))


@pytest.mark.parametrize("classes", [2, 5, 26])
def test_any_number_of_classes(classes: int) -> None:
    """Trees are grown for two and for twenty-six classes; the class shares of nodes stay finite."""
    profiles = [telling(classes=classes), silent(classes=classes)]
    forest = grown(profiles, [LIKELY, QUANTILE], depth=5, classes=classes)
    check_forest(forest)
    assert forest.depth == 5


def test_a_hundred_and_fifty_axes_are_no_trouble() -> None:
    """Five deep trees over 150 axes of 20 classes take a moment, not a minute."""
    profiles = [telling(classes=20)] + [replace(silent(classes=20)) for _ in range(149)]
    start = time.process_time()
    forest = grown(profiles, [LIKELY, LIKELY, QUANTILE, QUANTILE], depth=8, classes=20)
    assert time.process_time() - start < 20
    assert forest.leaves == 4 * 2**8
