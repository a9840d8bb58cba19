"""Strategies of the trees themselves: the error formula against matrices written out, and the best weight of a leaf."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.trees.strategies.leaf_strategies import PARTS, RATIOS, cells_and_trees, spread, workload_itself
from dpsql.trees.strategies.strategy import Floats, Partition, Strategy
from dpsql.trees.strategies.workload import Leaves
from tests.trees.strategies.test_marginals import true_error
from tests.trees.strategies.test_strategy import dense
from tests.trees.strategies.test_workload import grown, square, written

WORKLOADS = {
    "shallow": grown((3, 2, 4), depth=1),
    "middle": grown((3, 2, 4), trees=9, depth=2),
    "thresholds": grown((4, 5), depth=3, thresholds=True),
    "one tree": grown((3, 2, 4), trees=1, depth=3),
    "one leaf": Leaves((4,), np.zeros((1, 4), np.int64)),
}
EACH = pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)


def values_of(workload: Leaves) -> Floats:
    """Return the eigenvalues of WᵀW."""
    assert workload.eigenvalues is not None
    return workload.eigenvalues


def weighed(workload: Leaves, cell: int, leaf: int) -> Strategy:
    """Return the strategy of these weights, written out block by block."""
    cells = Partition.even(np.arange(workload.cells), cell)
    return Strategy("weighed", workload.cells, (cells, *(Partition.even(tree, leaf) for tree in workload.leaf)))


@EACH
@settings(max_examples=15)
@given(cell=st.integers(1, 1000), leaf=st.integers(1, 1000))
def test_the_spread_is_that_of_the_matrices(workload: Leaves, cell: int, leaf: int) -> None:
    """For any weights of a cell and of a leaf, (a + T·w)² · spread is the error of the strategy written out."""
    strategy = weighed(workload, cell, leaf)
    assert strategy.sensitivity == cell + len(workload.leaf) * leaf
    found = strategy.sensitivity**2 * spread(values_of(workload), cell, leaf)
    assert found == pytest.approx(true_error(workload, strategy), rel=1e-7)


@EACH
def test_without_cells_the_error_counts_what_leaves_determine(workload: Leaves) -> None:
    """Asking for every leaf costs T² times the rank of the workload, though cells are not determined."""
    strategy = workload_itself(workload)
    rank = int(np.linalg.matrix_rank(written(workload)))
    found = strategy.sensitivity**2 * spread(values_of(workload), 0, 1)
    assert found == pytest.approx(len(workload.leaf) ** 2 * rank)
    assert found == pytest.approx(true_error(workload, strategy), rel=1e-7)


@EACH
def test_the_workload_itself_asks_for_every_leaf(workload: Leaves) -> None:
    """Its matrix is the workload's, and one row moves one leaf of each tree by 1."""
    strategy = workload_itself(workload)
    assert dense(strategy).tolist() == written(workload).astype(int).tolist()
    assert (strategy.sensitivity, strategy.name) == (len(workload.leaf), "leaves")


@EACH
def test_cells_and_trees_take_the_best_of_the_weights(workload: Leaves) -> None:
    """Of all weights that are tried, none has a smaller error."""
    found = cells_and_trees(workload, values_of(workload))
    tried = [true_error(workload, weighed(workload, PARTS, leaf)) for leaf in RATIOS]
    assert true_error(workload, found) == pytest.approx(min(tried), rel=1e-9)


@EACH
def test_rounded_weights_have_the_sensitivity_of_the_strategy(workload: Leaves) -> None:
    """Weights are whole numbers, and the sensitivity is the largest sum of what is asked."""
    found = cells_and_trees(workload, values_of(workload))
    assert found.sensitivity == np.abs(dense(found)).sum(axis=0).max()
    assert found.sensitivity == PARTS + len(workload.leaf) * found.blocks[1].largest


def test_the_square_of_the_strategy_is_what_the_formula_says() -> None:
    """AᵀA = a²·I + w²·WᵀW."""
    workload = WORKLOADS["middle"]
    matrix = dense(weighed(workload, 7, 3))
    np.testing.assert_allclose(matrix.T @ matrix, 49 * np.eye(workload.cells) + 9 * square(workload))
