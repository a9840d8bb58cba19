"""Strategies made of the trees themselves: every leaf of every tree, beside every cell or without.

With weight a on each cell and w on each leaf AᵀA = a²·I + w²·WᵀW, so that with the eigenvalues λ of WᵀW the error is
(a + T·w)² · Σ λ/(a² + w²·λ). With a = 0 it is the workload itself, what Laplace noise on every leaf would ask: T² times
the number of λ above 0.
"""

from __future__ import annotations

import numpy as np

from dpsql.trees.strategies.strategy import Floats, Partition, Strategy
from dpsql.trees.strategies.workload import Leaves

#: Leaves weigh so many parts of a cell's weight.
PARTS = 1000
RATIOS = (1, 2, 5, 10, 20, 50, 100, 200, 500)


def spread(values: Floats, cell: int, leaf: int) -> float:
    """Return tr(WᵀW·(AᵀA)⁺) for these weights of a cell and of a leaf."""
    there = values[values > 1e-9 * values.max()]
    return float((there / (cell**2 + leaf**2 * there)).sum())


def workload_itself(workload: Leaves) -> Strategy:
    """Return the strategy that asks for every leaf."""
    return Strategy("leaves", workload.cells, tuple(Partition.even(_own(tree), 1) for tree in workload.leaf))


def cells_and_trees(workload: Leaves, values: Floats) -> Strategy:
    """Return the best strategy of cells that weigh PARTS each, and leaves that weigh a part of that."""
    trees = len(workload.leaf)
    leaf = min(RATIOS, key=lambda leaf: (PARTS + trees * leaf) ** 2 * spread(values, PARTS, leaf))
    cells = Partition.even(np.arange(workload.cells), PARTS)
    leaves = tuple(Partition.even(_own(tree), leaf) for tree in workload.leaf)
    return Strategy("trees", workload.cells, (cells, *leaves))


def _own(tree: np.ndarray) -> np.ndarray:
    """Return a tree's leaves numbered from 0."""
    return np.unique(tree, return_inverse=True)[1].astype(np.int64)
