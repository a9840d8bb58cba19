"""Workloads: all the sums of cells that a forest needs, and what the search for a strategy must know about them.

Cells are those of a public product domain, one factor for each feature, numbered so that the last feature varies
fastest. The leaves of trees over them are boxes: for each feature a set of its values. The matrix W of such a workload
(sums × cells) is never written out: it is stored as the number of the leaf that each cell is in, for each tree.

The search for a strategy needs three things of a workload W: the squared length ‖W‖² (the error when every cell is
asked for), the products WᵀW·x, and `moments`: for each subset of the features ‖W·P‖², where P is the projection onto
tables that depend on these features alone.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.trees.strategies.effort import SCATTERED
from dpsql.trees.strategies.strategy import DENSE, Floats, Ints

#: The most cells for which eigenvalues are computed.
MOST_EIGENVALUES = 2048


class Workload(Protocol):
    """Sums over public cells, as the search for a strategy sees them; W is their matrix (sums × cells)."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each feature; empty where cells are not combinations of features."""
        ...

    @property
    def cells(self) -> int:
        """The number of cells."""
        ...

    @property
    def length(self) -> float:
        """‖W‖², the sum of all squared entries: the error of asking for every cell, in units of its noise variance."""
        ...

    @property
    def diagonal(self) -> Floats:
        """The diagonal of WᵀW: the squared length of each cell's column."""
        ...

    def gram(self, values: Floats) -> Floats:
        """Return WᵀW·values (cells × columns)."""
        ...

    def moments(self) -> Floats:
        """Return ‖W·P‖² for every subset of features; bit i of a subset's number says whether feature i is in it."""
        ...

    @property
    def gram_work(self) -> int:
        """The multiplications that `gram` does for each column."""
        ...

    @property
    def moments_work(self) -> int:
        """The multiplications that `moments` does."""
        ...

    def key(self) -> str:
        """Return a digest that names the workload: public, and the same for the same trees."""
        ...


@dataclass(frozen=True, eq=False)
class Leaves:
    """All leaves of trees: `leaf` is the leaf of each cell in each tree (trees × cells), numbered through all trees."""

    sizes: tuple[int, ...]
    leaf: Ints

    def __post_init__(self) -> None:
        if self.leaf.shape[1] != math.prod(self.sizes):
            raise ParameterError("workload", allowed="one leaf for each cell and tree", given=self.leaf.shape)

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.leaf.shape[1]

    @cached_property
    def leaves(self) -> int:
        """The number of leaves of all trees."""
        return int(self.leaf.max()) + 1

    @property
    def length(self) -> float:
        """‖W‖²: every cell is in one leaf of every tree, so that W has trees × cells entries of 1."""
        return float(self.leaf.size)

    @property
    def diagonal(self) -> Floats:
        """The diagonal of WᵀW: every cell is in one leaf of every tree."""
        return np.full(self.cells, float(len(self.leaf)))

    def answer(self, values: Floats) -> Floats:
        """Return W·values: the sum of each leaf (leaves × columns)."""
        sums = np.zeros((self.leaves, values.shape[1]))
        for tree, order in zip(self.leaf, self._order, strict=True):
            sorted_leaves = tree[order]
            first = np.flatnonzero(np.diff(sorted_leaves, prepend=-1))
            sums[sorted_leaves[first]] += np.add.reduceat(values[order], first, axis=0)
        return sums

    def gram(self, values: Floats) -> Floats:
        """Return WᵀW·values."""
        if self._square is not None:
            return np.asarray(self._square @ values)
        sums, product = self.answer(values), np.zeros(values.shape)
        for tree in self.leaf:
            product += sums[tree]
        return product

    @property
    def gram_work(self) -> int:
        """The multiplications that `gram` does for each column: with WᵀW itself, or tree by tree with W and then Wᵀ."""
        return self.cells**2 if self.cells**2 <= DENSE else 2 * SCATTERED * self.leaf.size

    @property
    def moments_work(self) -> int:
        """The multiplications that `moments` does."""
        return SCATTERED * self.leaves * 2 ** len(self.sizes)

    @property
    def eigenvalues_work(self) -> int:
        """The multiplications that `eigenvalues` does; none where there are too many cells."""
        return self.cells**3 if self.cells <= MOST_EIGENVALUES else 0

    @cached_property
    def _order(self) -> Ints:
        """For each tree its cells in order of their leaf."""
        return np.argsort(self.leaf, axis=1, kind="stable")

    @cached_property
    def _square(self) -> Floats | None:
        """WᵀW, the number of trees in which two cells share a leaf; None where it would be too large."""
        if self.cells**2 > DENSE:
            return None
        shared_leaves = np.zeros((self.cells, self.cells), np.int16 if len(self.leaf) < 2**15 else np.int64)
        for tree in self.leaf:
            shared_leaves += tree[:, None] == tree[None, :]
        return shared_leaves.astype(np.float64)

    @cached_property
    def eigenvalues(self) -> Floats | None:
        """The eigenvalues of WᵀW; None where there are too many cells."""
        if self._square is None or self.cells > MOST_EIGENVALUES:
            return None
        return np.asarray(np.maximum(np.linalg.eigvalsh(self._square), 0))

    def moments(self) -> Floats:
        """Return ‖W·P‖² for every subset of features, from the sides of the leaves' boxes."""
        sides, sizes = self._sides(), np.array(self.sizes, np.float64)
        squares = np.ones((1, self.leaves))  # ‖row of W · P‖² for each subset and leaf
        for place in range(len(sizes)):  # subsets without the feature, then with it: its bit is the highest
            squares = np.concatenate([squares * sides[:, place] ** 2 / sizes[place], squares * sides[:, place]])
        return np.asarray(squares.sum(axis=1))

    def key(self) -> str:
        """Return a digest of the domain and the leaves."""
        return _digest("leaves", np.array(self.sizes), self.leaf)

    def _sides(self) -> Floats:
        """Return how many values of each feature each leaf allows (leaves × features)."""
        sides = np.zeros((self.leaves, len(self.sizes)))
        values = np.unravel_index(np.arange(self.cells), self.sizes)
        for place, size in enumerate(self.sizes):
            allowed = np.zeros((self.leaves, size), bool)
            for tree in self.leaf:
                allowed[tree, values[place]] = True
            sides[:, place] = allowed.sum(axis=1)
        return sides


@dataclass(frozen=True, eq=False)
class Sums:
    """Any sums over cells, such as the votes for public rows: a matrix (sums × cells) of at most `DENSE` entries."""

    sizes: tuple[int, ...]
    matrix: Floats

    def __post_init__(self) -> None:
        if self.matrix.size > DENSE:
            raise ParameterError("workload", allowed=f"at most {DENSE} entries", given=self.matrix.size)
        if self.sizes and math.prod(self.sizes) != self.matrix.shape[1]:
            raise ParameterError("workload", allowed="one column for each cell", given=self.matrix.shape)

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.matrix.shape[1]

    @cached_property
    def length(self) -> float:
        """‖W‖², the squared length of the matrix."""
        return float(self.diagonal.sum())

    @cached_property
    def diagonal(self) -> Floats:
        """The diagonal of WᵀW: the squared length of each column."""
        return np.asarray((self.matrix**2).sum(axis=0))

    def answer(self, values: Floats) -> Floats:
        """Return W·values."""
        return np.asarray(self.matrix @ values)

    def gram(self, values: Floats) -> Floats:
        """Return WᵀW·values."""
        return np.asarray(self.matrix.T @ (self.matrix @ values))

    def moments(self) -> Floats:
        """Return ‖W·P‖² for every subset of features: P averages over the features outside it."""
        squares = np.empty(2 ** len(self.sizes))
        for subset in range(len(squares)):
            table = self.matrix.reshape(-1, *self.sizes)
            out = tuple(place + 1 for place in range(len(self.sizes)) if not subset >> place & 1)
            left_out = math.prod(self.sizes[place - 1] for place in out)
            squares[subset] = left_out * float((table.mean(axis=out) ** 2).sum()) if out else self.length
        return squares

    @property
    def gram_work(self) -> int:
        """The multiplications that `gram` does for each column: with W, then with Wᵀ."""
        return 2 * self.matrix.size

    @property
    def moments_work(self) -> int:
        """The multiplications that `moments` does: the matrix is averaged for each subset."""
        return SCATTERED * self.matrix.size * 2 ** len(self.sizes)

    def key(self) -> str:
        """Return a digest of the domain and the matrix."""
        return _digest("sums", np.array(self.sizes), self.matrix)


def vote_workload(trees: Leaves, row_cells: Ints) -> Sums:
    """Return the workload of public rows that are to be labelled, given the cell of each: a sum for each distinct cell.

    The sum of a cell adds up the leaves that it reaches in all trees. A cell that k rows have weighs √k, so that the
    error is that of all rows. Where the matrix would have more than DENSE entries, the most frequent cells are taken.
    """
    distinct, times = _frequent_cells(row_cells, DENSE // trees.cells)
    sums = np.zeros((len(distinct), trees.cells))
    for tree in trees.leaf:
        sums += tree[distinct][:, None] == tree[None, :]
    return Sums(trees.sizes, sums * np.sqrt(times)[:, None])


def reached_leaves(leaf: Ints, leaves: int, row_cells: Ints) -> Sums:
    """Return the workload of public rows over the leaves: a sum of the leaves that each distinct cell reaches.

    It is for trees that see disjoint rows: what is counted there are the leaves, which are no product of features.
    `leaf` is the leaf of each cell in each tree. Cells are weighed, and the most frequent taken, as in `vote_workload`.
    """
    distinct, times = _frequent_cells(row_cells, DENSE // leaves)
    sums = np.zeros((len(distinct), leaves))
    for tree in leaf:
        sums[np.arange(len(distinct)), tree[distinct]] += 1
    return Sums((), sums * np.sqrt(times)[:, None])


def _frequent_cells(row_cells: Ints, most: int) -> tuple[Ints, Ints]:
    """Return the distinct cells of rows, at most the `most` most frequent ones, and the number of rows of each."""
    distinct, times = np.unique(row_cells, return_counts=True)
    frequent = np.sort(np.argsort(-times, kind="stable")[: max(1, most)])
    return distinct[frequent], times[frequent]


def _digest(kind: str, *arrays: NDArray[np.generic]) -> str:
    """Return the SHA-256 of the kind of workload and the shapes, types and entries of its arrays."""
    state = hashlib.sha256(kind.encode())
    for array in arrays:
        state.update(f"{array.shape} {array.dtype}".encode())
        state.update(np.ascontiguousarray(array).tobytes())
    return state.hexdigest()
