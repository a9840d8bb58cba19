"""Workloads: all the sums of cells that a forest needs, and how far noise on the cells would reach them.

Cells are those of a public product domain, one factor for each feature, numbered with the last feature fastest. Leaves
of trees over them are boxes: for each feature a set of its values. A workload is never written out: leaves are a
number for each tree and cell.

Everything that looks for strategies needs three things of a workload W: the length ‖W‖² (the error when every cell is
asked for), the products WᵀW·x, and `moments`: ‖W·P‖² for the projection P onto tables that depend on a subset of
features alone.
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

#: The most cells for which eigenvalues are worked out.
MOST_EIGENVALUES = 2048


class Workload(Protocol):
    """Sums over public cells."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each feature; empty where cells are no product."""
        ...

    @property
    def cells(self) -> int:
        """The number of cells."""
        ...

    @property
    def length(self) -> float:
        """The squared length of the whole matrix: the error of asking for every cell, in units of its noise."""
        ...

    @property
    def diagonal(self) -> Floats:
        """The diagonal of WᵀW: how much each cell counts."""
        ...

    def gram(self, values: Floats) -> Floats:
        """Return WᵀW times values (cells × columns)."""
        ...

    def moments(self) -> Floats:
        """Return ‖W·P‖² for every subset of features; bit i of its number stands for feature i."""
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
    """The leaves of trees: `leaf` is trees × cells, leaves numbered through all trees, each a box of the domain."""

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
        """Every cell is in one leaf of every tree."""
        return float(self.leaf.size)

    @property
    def diagonal(self) -> Floats:
        """Every cell is in one leaf of every tree."""
        return np.full(self.cells, float(len(self.leaf)))

    def answer(self, values: Floats) -> Floats:
        """Return W times values: the sum of each leaf (leaves × columns)."""
        found = np.zeros((self.leaves, values.shape[1]))
        for tree, order in zip(self.leaf, self._order, strict=True):
            sorted_leaves = tree[order]
            first = np.flatnonzero(np.diff(sorted_leaves, prepend=-1))
            found[sorted_leaves[first]] += np.add.reduceat(values[order], first, axis=0)
        return found

    def gram(self, values: Floats) -> Floats:
        """Return WᵀW times values."""
        if self._square is not None:
            return np.asarray(self._square @ values)
        sums, found = self.answer(values), np.zeros(values.shape)
        for tree in self.leaf:
            found += sums[tree]
        return found

    @property
    def gram_work(self) -> int:
        """The multiplications that `gram` does for each column: by WᵀW itself, or tree by tree, there and back."""
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
        """For each tree its cells, leaf by leaf."""
        return np.argsort(self.leaf, axis=1, kind="stable")

    @cached_property
    def _square(self) -> Floats | None:
        """WᵀW itself, where it is small: in how many trees two cells share a leaf."""
        if self.cells**2 > DENSE:
            return None
        found = np.zeros((self.cells, self.cells), np.int16 if len(self.leaf) < 2**15 else np.int64)
        for tree in self.leaf:
            found += tree[:, None] == tree[None, :]
        return found.astype(np.float64)

    @cached_property
    def eigenvalues(self) -> Floats | None:
        """The eigenvalues of WᵀW; None where there are too many cells."""
        if self._square is None or self.cells > MOST_EIGENVALUES:
            return None
        return np.asarray(np.maximum(np.linalg.eigvalsh(self._square), 0))

    def moments(self) -> Floats:
        """Return ‖W·P‖² for every subset of features, from the sides of the leaves' boxes."""
        sides, sizes = self._sides(), np.array(self.sizes, np.float64)
        found = np.ones((1, self.leaves))
        for place in range(len(sizes)):  # the subset's bit is off, then on: the new bit is the highest
            found = np.concatenate([found * sides[:, place] ** 2 / sizes[place], found * sides[:, place]])
        return np.asarray(found.sum(axis=1))

    def key(self) -> str:
        """Return a digest of the domain and the leaves."""
        return _digest("leaves", np.array(self.sizes), self.leaf)

    def _sides(self) -> Floats:
        """Return how many values of each feature each leaf allows (leaves × features)."""
        found = np.zeros((self.leaves, len(self.sizes)))
        values = np.unravel_index(np.arange(self.cells), self.sizes)
        for place, size in enumerate(self.sizes):
            there = np.zeros((self.leaves, size), bool)
            for tree in self.leaf:
                there[tree, values[place]] = True
            found[:, place] = there.sum(axis=1)
        return found


@dataclass(frozen=True, eq=False)
class Sums:
    """Any sums over cells, as a matrix of sums × cells: the votes of a batch, for example. At most `DENSE` entries."""

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
        """The squared length of the matrix."""
        return float(self.diagonal.sum())

    @cached_property
    def diagonal(self) -> Floats:
        """The squared length of each column."""
        return np.asarray((self.matrix**2).sum(axis=0))

    def answer(self, values: Floats) -> Floats:
        """Return W times values."""
        return np.asarray(self.matrix @ values)

    def gram(self, values: Floats) -> Floats:
        """Return WᵀW times values."""
        return np.asarray(self.matrix.T @ (self.matrix @ values))

    def moments(self) -> Floats:
        """Return ‖W·P‖² for every subset of features, by averaging the others out."""
        found = np.empty(2 ** len(self.sizes))
        for subset in range(len(found)):
            table = self.matrix.reshape(-1, *self.sizes)
            out = tuple(place + 1 for place in range(len(self.sizes)) if not subset >> place & 1)
            left_out = math.prod(self.sizes[place - 1] for place in out)
            found[subset] = left_out * float((table.mean(axis=out) ** 2).sum()) if out else self.length
        return found

    @property
    def gram_work(self) -> int:
        """The multiplications that `gram` does for each column: W, then Wᵀ."""
        return 2 * self.matrix.size

    @property
    def moments_work(self) -> int:
        """The multiplications that `moments` does: the matrix is averaged for each subset."""
        return SCATTERED * self.matrix.size * 2 ** len(self.sizes)

    def key(self) -> str:
        """Return a digest of the domain and the matrix."""
        return _digest("sums", np.array(self.sizes), self.matrix)


def vote_workload(trees: Leaves, batch: Ints) -> Sums:
    """Return the workload of a batch: for each of its cells the summed leaves of all trees, equal cells taken once.

    A cell that the batch has k times weighs √k, so that the error is that of all its rows. Of more cells than can be
    held the most frequent ones shape the noise.
    """
    asked, times = _frequent(batch, DENSE // trees.cells)
    found = np.zeros((len(asked), trees.cells))
    for tree in trees.leaf:
        found += tree[asked][:, None] == tree[None, :]
    return Sums(trees.sizes, found * np.sqrt(times)[:, None])


def reached_leaves(leaf: Ints, leaves: int, batch: Ints) -> Sums:
    """Return the workload of a batch over the leaves themselves: the leaves that each of its cells reaches.

    For trees that see disjoint rows: their leaves are the cells, and no product of features.
    """
    asked, times = _frequent(batch, DENSE // leaves)
    found = np.zeros((len(asked), leaves))
    for tree in leaf:
        found[np.arange(len(asked)), tree[asked]] += 1
    return Sums((), found * np.sqrt(times)[:, None])


def _frequent(batch: Ints, most: int) -> tuple[Ints, Ints]:
    """Return the different cells of a batch and how often it has each: the most frequent ones where there are many."""
    asked, times = np.unique(batch, return_counts=True)
    kept = np.sort(np.argsort(-times, kind="stable")[: max(1, most)])
    return asked[kept], times[kept]


def _digest(kind: str, *arrays: NDArray[np.generic]) -> str:
    state = hashlib.sha256(kind.encode())
    for one in arrays:
        state.update(f"{one.shape} {one.dtype}".encode())
        state.update(np.ascontiguousarray(one).tobytes())
    return state.hexdigest()
