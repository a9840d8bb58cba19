"""A forest's structure: all trees together, one level at a time, as flat arrays.

Level k holds the nodes of all trees at depth k, numbered from 0 in the order of the trees and then from left to right.
A node reads one axis and sends each of the axis's 64 cells to one of its children. Bit planes say to which: bit c of
plane p is bit p of the number, among its siblings, of the child that cell c goes to. A node whose axis is −1 is a leaf
that the tree reached early: it passes every row on to its only child. The nodes after the last level are the leaves.
Whatever the data, a row takes exactly one path through each tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.schema import CELLS
from dpsql.trees.grid import Axis, Cells

Ints = NDArray[np.int64]
#: The axis of a node that does not split: it passes every row on to its only child.
PASS = -1


@dataclass(frozen=True, eq=False)
class Level:
    """The nodes of one depth: the axis each reads, its number of children, and its bit planes (planes × nodes)."""

    axis: NDArray[np.int16]
    arity: NDArray[np.uint8]
    planes: NDArray[np.uint64]

    @cached_property
    def child(self) -> Ints:
        """The number of each node's first child on the next level."""
        ends = np.cumsum(self.arity, dtype=np.int64)
        return ends - self.arity

    @property
    def width(self) -> int:
        """The number of nodes on the next level."""
        return int(self.arity.sum(dtype=np.int64))

    def slots(self, nodes: Ints, cells: NDArray[Any]) -> Ints:
        """Return the child offset that each node gives to each cell."""
        offset = np.zeros(np.broadcast_shapes(nodes.shape, cells.shape), np.int64)
        moved = cells.astype(np.uint64)
        for plane, mask in enumerate(self.planes):
            offset |= ((mask[nodes] >> moved) & np.uint64(1)).astype(np.int64) << plane
        return offset


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees over the axes of one schema; where `levels` is empty, each tree is a single leaf."""

    axes: tuple[Axis, ...]
    trees: int
    levels: tuple[Level, ...]

    @property
    def depth(self) -> int:
        """The number of splits on the longest path."""
        return len(self.levels)

    @cached_property
    def leaves(self) -> int:
        """The number of leaves of all trees together."""
        return self.levels[-1].width if self.levels else self.trees

    @cached_property
    def leaf_tree(self) -> Ints:
        """The tree that each leaf belongs to."""
        tree = np.arange(self.trees, dtype=np.int64)
        for level in self.levels:
            tree = np.repeat(tree, level.arity)
        return tree

    @cached_property
    def first_leaf(self) -> Ints:
        """The number of the first leaf of each tree, followed by the number of all leaves."""
        return np.searchsorted(self.leaf_tree, np.arange(self.trees + 1))

    @cached_property
    def trees_ending_early(self) -> tuple[int, int]:
        """(n, d): the first n trees have no split below level d; (0, 0) where all trees are equally deep.

        Of all such pairs it is the one that saves the most levels, n · (depth − d). Nodes that only pass rows on keep
        their numbers, so the first n trees need not be walked below level d.
        """
        own, tree = np.zeros(self.trees, np.int64), np.arange(self.trees)
        for depth, level in enumerate(self.levels, start=1):
            own[tree[level.axis != PASS]] = depth
            tree = np.repeat(tree, level.arity)
        splits = [(int(np.argmax(own > ends)), int(ends)) for ends in np.unique(own)[:-1] if own[0] <= ends]
        return max(splits, key=lambda split: split[0] * (self.depth - split[1]), default=(0, 0))

    def route(self, cells: Cells | Ints, *, trees: Ints | None = None) -> Ints:
        """Return the leaf that each row (of rows × axes cells) reaches in each tree, or each of `trees`."""
        roots = np.arange(self.trees, dtype=np.int64) if trees is None else trees
        nodes = np.broadcast_to(roots, (len(cells), len(roots)))
        rows = np.arange(len(cells))[:, None]
        for level in self.levels:
            axis = level.axis[nodes]
            nodes = level.child[nodes] + level.slots(nodes, cells[rows, axis])
        return nodes

    def path(self, leaf: int) -> list[tuple[int, NDArray[np.bool_]]]:
        """Return the splits on the path to a leaf, root first: the axis of each, and the cells that take this path."""
        tests = []
        node = leaf
        for level in reversed(self.levels):
            parent = int(np.searchsorted(level.child, node, side="right")) - 1
            if level.axis[parent] != PASS:
                taken = level.slots(np.full(CELLS, parent), np.arange(CELLS)) == node - level.child[parent]
                tests.append((int(level.axis[parent]), taken))
            node = parent
        return tests[::-1]

    def tree(self, number: int) -> Forest:
        """Return one tree of the forest as a forest of its own."""
        return self.part(number, number + 1)

    def part(self, first: int, last: int) -> Forest:
        """Return trees `first` to `last − 1` as a forest of their own."""
        count = last - first
        levels = []
        for level in self.levels:
            span = slice(first, last)
            levels.append(Level(level.axis[span], level.arity[span], level.planes[:, span]))
            ends = np.concatenate(([0], np.cumsum(level.arity, dtype=np.int64)))
            first, last = int(ends[first]), int(ends[last])
        return Forest(self.axes, count, tuple(levels))


def sums_by_level(forest: Forest, of_leaves: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return the sums over the leaves below each node, one array per level, roots first, leaves last."""
    sums = [of_leaves]
    for level in reversed(forest.levels):
        sums.append(np.add.reduceat(sums[-1], level.child, axis=0))
    return sums[::-1]


def bits(member: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Return rows of up to 64 flags as 64-bit words, flag 0 in the lowest bit.

    >>> bits(np.array([[True, False, True]])).tolist()
    [5]
    """
    padded = np.zeros((len(member), CELLS), bool)
    padded[:, : member.shape[1]] = member
    return np.packbits(padded, axis=1, bitorder="little").view("<u8")[:, 0].astype(np.uint64)
