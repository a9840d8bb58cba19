"""Workloads: products, lengths and moments as of the matrix written out, votes of batches, what is refused."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.errors import ParameterError
from dpsql.trees.grid import Axis
from dpsql.trees.grow.random_trees import random_forest
from dpsql.trees.strategies import workload as module
from dpsql.trees.strategies.strategy import DENSE, Floats, Ints
from dpsql.trees.strategies.workload import Leaves, Sums, Workload, reached_leaves, vote_workload

SIZES = (3, 2, 4)


def grown(
    sizes: tuple[int, ...] = SIZES, *, trees: int = 5, depth: int = 2, seed: int = 1, thresholds: bool = False
) -> Leaves:
    """Return the leaves of random trees over cells, with a branch for each value or with thresholds."""
    axes = tuple(Axis(number, 0, size, size, ordered=thresholds) for number, size in enumerate(sizes))
    forest = random_forest(axes, trees=trees, depth=depth, seed=seed, branches=64)
    every = np.stack(np.unravel_index(np.arange(math.prod(sizes)), sizes), axis=1)
    return Leaves(sizes, np.ascontiguousarray(forest.route(every).T))


def some_sums(sizes: tuple[int, ...] = SIZES, *, rows: int = 6, seed: int = 1) -> Sums:
    """Return sums that are no leaves: any weights, negative ones too."""
    return Sums(sizes, np.random.default_rng(seed).normal(size=(rows, math.prod(sizes))))


def written(workload: Workload) -> Floats:
    """Return the whole matrix of a workload (sums × cells), one leaf and cell after the other."""
    if isinstance(workload, Sums):
        return workload.matrix
    assert isinstance(workload, Leaves)
    found = np.zeros((int(workload.leaf.max()) + 1, workload.cells))
    for tree in workload.leaf.tolist():
        for cell, leaf in enumerate(tree):
            found[leaf, cell] += 1
    return found


def square(workload: Workload) -> Floats:
    """Return WᵀW written out."""
    return np.asarray(written(workload).T @ written(workload))


def averaging(sizes: tuple[int, ...], subset: int) -> Floats:
    """Return the projection onto tables that depend on a subset of features: the others are averaged out."""
    factors = [np.eye(n) if subset >> place & 1 else np.full((n, n), 1 / n) for place, n in enumerate(sizes)]
    return reduce(lambda one, other: np.asarray(np.kron(one, other)), factors, np.eye(1))


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Draw leaves of random trees of either kind, or any sums, over up to four features."""
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    seed = draw(st.integers(0, 2**32))
    if draw(st.booleans()):
        return some_sums(sizes, rows=draw(st.integers(1, 6)), seed=seed)
    kind = draw(st.booleans())
    return grown(sizes, trees=draw(st.integers(1, 6)), depth=draw(st.integers(1, 4)), seed=seed, thresholds=kind)


@settings(max_examples=60)
@given(workload=workloads(), seed=st.integers(0, 2**32))
def test_products_and_lengths_are_those_of_the_matrix(workload: Workload, seed: int) -> None:
    """`answer`, `gram`, `diagonal` and `length` are what the matrix written out gives."""
    values = np.random.default_rng(seed).normal(size=(workload.cells, 3))
    assert isinstance(workload, Leaves | Sums)
    np.testing.assert_allclose(workload.answer(values), written(workload) @ values, atol=1e-10)
    np.testing.assert_allclose(workload.gram(values), square(workload) @ values, atol=1e-9)
    np.testing.assert_allclose(workload.diagonal, np.diag(square(workload)), atol=1e-10)
    assert workload.length == pytest.approx((written(workload) ** 2).sum())
    assert workload.cells == written(workload).shape[1]


@settings(max_examples=60)
@given(workload=workloads())
def test_moments_are_those_of_averaging_projections(workload: Workload) -> None:
    """For every subset of features the moment is ‖W·P‖² with the projection written out."""
    found = workload.moments()
    wanted = [
        float(((written(workload) @ averaging(workload.sizes, subset)) ** 2).sum())
        for subset in range(2 ** len(workload.sizes))
    ]
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("thresholds", [False, True], ids=["values", "thresholds"])
def test_both_ways_to_multiply_agree(monkeypatch: pytest.MonkeyPatch, thresholds: bool) -> None:
    """Whether WᵀW is held or not, its product with values is the same; without it there are no eigenvalues."""
    values = np.random.default_rng(4).normal(size=(24, 3))
    held = grown(trees=9, thresholds=thresholds)
    first = held.gram(values)
    monkeypatch.setattr(module, "DENSE", 24 * 24 - 1)
    other = grown(trees=9, thresholds=thresholds)
    assert held._square is not None
    assert other._square is None
    assert other.eigenvalues is None
    np.testing.assert_allclose(other.gram(values), first, atol=1e-10)
    np.testing.assert_allclose(first, square(held) @ values, atol=1e-10)


def test_eigenvalues_are_those_of_the_square() -> None:
    """They are the eigenvalues of WᵀW, none below 0."""
    workload = grown(depth=1)
    assert workload.eigenvalues is not None
    assert workload.eigenvalues.min() >= 0
    np.testing.assert_allclose(workload.eigenvalues, np.linalg.eigvalsh(square(workload)), atol=1e-9)


def test_eigenvalues_of_many_cells_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the limit there are none, though WᵀW is held."""
    monkeypatch.setattr(module, "MOST_EIGENVALUES", 23)
    workload = grown()
    assert workload.eigenvalues is None
    assert workload._square is not None


def test_every_cell_is_in_one_leaf_of_every_tree() -> None:
    """The leaves of one tree add up to 1 on each cell."""
    workload = grown(trees=4)
    assert (written(workload).sum(axis=0) == 4).all()
    assert workload.leaves == len(written(workload))


@settings(max_examples=40)
@given(batch=st.lists(st.integers(0, 23), min_size=1, max_size=60), seed=st.integers(0, 2**32))
def test_votes_are_the_batch_times_the_square(batch: list[int], seed: int) -> None:
    """Row by row Q·TᵀT, equal cells once and weighing the root of how often they come: the same WᵀW."""
    trees = grown(seed=seed)
    found = vote_workload(trees, np.array(batch))
    asked = sorted(set(batch))
    roots = np.sqrt([batch.count(cell) for cell in asked])
    np.testing.assert_allclose(found.matrix, square(trees)[asked] * roots[:, None], atol=1e-12)
    every = square(trees)[batch]
    np.testing.assert_allclose(square(found), every.T @ every, atol=1e-8)
    assert found.sizes == trees.sizes


@settings(max_examples=40)
@given(batch=st.lists(st.integers(0, 23), min_size=1, max_size=60), seed=st.integers(0, 2**32))
def test_reached_leaves_are_those_of_each_cell(batch: list[int], seed: int) -> None:
    """Each row has a 1 at the leaf of its cell in every tree, equal rows once and weighing the root."""
    trees = grown(seed=seed)
    found = reached_leaves(trees.leaf, trees.leaves, np.array(batch))
    every = written(trees).T[batch]
    assert (every.sum(axis=1) == len(trees.leaf)).all()
    np.testing.assert_allclose(square(found), every.T @ every, atol=1e-9)
    assert (len(found.matrix), found.sizes) == (len(set(batch)), ())


def test_sums_over_no_product_have_one_moment() -> None:
    """Without features there is one subset, the empty one, and its moment is the whole length."""
    plain = Sums((), np.array([[1.0, 2.0], [0.0, -3.0]]))
    assert plain.moments().tolist() == [14.0]


def test_the_key_names_the_workload() -> None:
    """The same trees have the same key; other trees, another domain of as many cells, or sums have another."""
    leaf = grown().leaf
    keys = [
        grown().key(),
        grown(seed=2).key(),
        Leaves((4, 2, 3), leaf).key(),
        Sums(SIZES, leaf.astype(np.float64)).key(),
        vote_workload(grown(), np.array([1, 2])).key(),
        vote_workload(grown(), np.array([1, 2, 2])).key(),
    ]
    assert keys[0] == Leaves(SIZES, leaf.copy()).key()
    assert len(set(keys)) == len(keys)


def test_leaves_of_other_cells_are_refused() -> None:
    """There is one leaf for each cell and tree."""
    with pytest.raises(ParameterError):
        Leaves((2, 3), np.zeros((1, 5), np.int64))


def test_sums_of_other_cells_are_refused() -> None:
    """Where cells are a product, there is one column for each."""
    with pytest.raises(ParameterError):
        Sums((2, 3), np.zeros((1, 5)))


def test_sums_of_too_many_entries_are_refused() -> None:
    """A matrix of more entries than are ever held is no workload."""
    with pytest.raises(ParameterError):
        Sums((), np.broadcast_to(np.ones((1, 1)), (DENSE // 4 + 1, 4)))


def batches(asked: int) -> Ints:
    """Return a batch of so many different cells, each of them three times."""
    return np.repeat(np.arange(asked), 3)


def test_of_too_many_cells_the_most_frequent_shape_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Different cells count, not rows: of eleven where ten can be held the one that comes least often is left out."""
    trees, batch = grown(), np.concatenate([batches(11), batches(11)[1:]])
    monkeypatch.setattr(module, "DENSE", 24 * 10)
    assert len(vote_workload(trees, batches(10)).matrix) == 10
    kept = vote_workload(trees, batch)
    assert kept.matrix.tolist() == vote_workload(trees, np.repeat(np.arange(1, 11), 6)).matrix.tolist()


def test_of_a_batch_that_reaches_too_many_leaves_the_most_frequent_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Different cells times leaves count."""
    trees, batch = grown(), np.concatenate([batches(11), batches(11)[1:]])
    monkeypatch.setattr(module, "DENSE", trees.leaves * 10)
    found = reached_leaves(trees.leaf, trees.leaves, batch)
    assert (
        found.matrix.tolist()
        == reached_leaves(trees.leaf, trees.leaves, np.repeat(np.arange(1, 11), 6)).matrix.tolist()
    )
