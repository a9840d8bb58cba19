"""Strategies made of the trees themselves: they ask for every leaf of every tree, with or without every cell.

Let W be the workload of all leaves of T trees, and let the strategy A weigh each cell by a and each leaf by w. Then
AᵀA = a²·I + w²·WᵀW, and with the eigenvalues λ of WᵀW the error is (a + T·w)² · Σ λ/(a² + w²·λ). With a = 0 the
strategy is the workload itself: it asks what Laplace noise on every leaf would ask, and its error is T² times the
number of λ above 0.
"""

from __future__ import annotations

import numpy as np

from dpsql.trees.strategies.strategy import Floats, Partition, Strategy
from dpsql.trees.strategies.workload import Leaves

#: The weight of each cell.
PARTS = 1000
#: The weights of a leaf that are tried, in the same unit as that of a cell.
RATIOS = (1, 2, 5, 10, 20, 50, 100, 200, 500)


def spread(values: Floats, cell: int, leaf: int) -> float:
    """Return tr(WᵀW·(AᵀA)⁺) from the eigenvalues of WᵀW, for these weights of a cell and of a leaf."""
    positive = values[values > 1e-9 * values.max()]
    return float((positive / (cell**2 + leaf**2 * positive)).sum())


def workload_itself(workload: Leaves) -> Strategy:
    """Return the strategy that asks for every leaf."""
    return Strategy("leaves", workload.cells, tuple(Partition.even(_leaf_numbers(tree), 1) for tree in workload.leaf))


def cells_and_trees(workload: Leaves, values: Floats) -> Strategy:
    """Return the best strategy that weighs each cell by PARTS and each leaf by one of RATIOS."""
    trees = len(workload.leaf)
    leaf = min(RATIOS, key=lambda leaf: (PARTS + trees * leaf) ** 2 * spread(values, PARTS, leaf))
    cells = Partition.even(np.arange(workload.cells), PARTS)
    leaves = tuple(Partition.even(_leaf_numbers(tree), leaf) for tree in workload.leaf)
    return Strategy("trees", workload.cells, (cells, *leaves))


def _leaf_numbers(tree: np.ndarray) -> np.ndarray:
    """Return the leaf of each cell in one tree, with the leaves numbered from 0."""
    return np.unique(tree, return_inverse=True)[1].astype(np.int64)
