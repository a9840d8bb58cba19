"""Trees over a few public cells: every feature has a small number of bins, and all combinations of bins are cells.

Random trees are grown on the bins, so that each of their leaves is a set of whole cells. The tree whose leaves are the
cells themselves has a level for each feature. NULL and unknown values, where they are no category of their own, go with
the last value in every tree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpsql.schema import CELLS
from dpsql.trees.forest import PASS, Forest, Ints, Level, bits
from dpsql.trees.grid import BITS, Axis, Cells
from dpsql.trees.grow.random_trees import random_forest


@dataclass(frozen=True)
class CommonCells:
    """The cells of some axes: the place of each axis in the schema's grid, and how many bins it has."""

    axes: tuple[Axis, ...]
    places: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def cells(self) -> int:
        """The number of cells."""
        return math.prod(self.sizes)

    @cached_property
    def bins(self) -> NDArray[np.uint8]:
        """The bin of each of the 64 cells of each axis (axes × 64)."""
        bins = [_bins(self.axes[place], size) for place, size in zip(self.places, self.sizes, strict=True)]
        return np.stack(bins)

    def cell_numbers(self, cells: Cells) -> Ints:
        """Return the number of the common cell of each row, given by its cells on the schema's grid (rows × axes)."""
        numbers = np.zeros(len(cells), np.int64)
        for bins, place, size in zip(self.bins, self.places, self.sizes, strict=True):
            numbers = numbers * size + bins[cells[:, place]]
        return numbers

    def tree(self) -> Forest:
        """Return the tree whose leaves are the cells, in order of their number."""
        levels, nodes = [], 1
        for place, size, bins in zip(self.places, self.sizes, self.bins, strict=True):
            levels.append(_level(np.full(nodes, place), np.full(nodes, size), _planes(bins, np.arange(size), nodes)))
            nodes *= size
        return Forest(self.axes, 1, tuple(levels))

    def forest(self, *, trees: int, depth: int, seed: int, limit: int, classes: int) -> tuple[Forest, Ints]:
        """Return random trees whose leaves are sets of cells, and the leaf of each cell in each tree (trees × cells).

        A feature has one branch for each of its bins, and is used once on a path.
        """
        bin_axes = tuple(Axis(number, 0, size, size, ordered=False) for number, size in enumerate(self.sizes))
        grown = random_forest(
            bin_axes, trees=trees, depth=depth, seed=seed, classes=classes, branches=CELLS, limit=limit
        )
        bins_of_cells = np.stack(np.unravel_index(np.arange(self.cells), self.sizes), axis=1)
        leaf = np.ascontiguousarray(grown.route(bins_of_cells).T)
        return Forest(self.axes, trees, tuple(self._onto_grid(level) for level in grown.levels)), leaf

    def _onto_grid(self, level: Level) -> Level:
        """Return a level over bins as one over the cells of the schema's grid."""
        axis = np.where(level.axis == PASS, PASS, np.array(self.places)[level.axis])
        planes = np.zeros(level.planes.shape, np.uint64)
        for number, (size, bins) in enumerate(zip(self.sizes, self.bins, strict=True)):
            here = level.axis == number
            for cell_bin in range(size):
                mask = bits((bins == cell_bin)[None, :])[0]
                there = (level.planes[:, here] >> np.uint64(cell_bin)) & np.uint64(1)
                planes[:, here] |= np.where(there == 1, mask, np.uint64(0))
        return Level(axis.astype(np.int16), level.arity, planes)


def random_orders(features: int, count: int, seed: int) -> list[list[int]]:
    """Return `count` random orders of the features, drawn from a public seed."""
    generator = np.random.default_rng([seed, 7])
    return [generator.permutation(features).tolist() for _ in range(count)]


def _bins(axis: Axis, size: int) -> NDArray[np.uint8]:
    """Return the bin of each of 64 cells.

    A number has bins of equal width, a category a bin for each value; cells past the last go to the last bin.
    """
    cells = np.minimum(np.arange(CELLS), (axis.cells if axis.ordered else axis.values) - 1)
    return (cells * size // axis.cells if axis.ordered else cells).astype(np.uint8)


def _planes(bins: NDArray[np.uint8], slots: Ints, nodes: int) -> NDArray[np.uint64]:
    masks = [int(bits(((slots[bins] >> plane) & 1).astype(bool)[None, :])[0]) for plane in range(BITS)]
    return np.repeat(np.array(masks, np.uint64)[:, None], nodes, axis=1)


def _level(axis: Ints, arity: Ints, planes: NDArray[np.uint64]) -> Level:
    used = max(1, int(arity.max() - 1).bit_length())
    return Level(axis.astype(np.int16), arity.astype(np.uint8), planes[:used])
