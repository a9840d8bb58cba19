"""Public lists of splits that data may choose from, and the cells that each node of a growing forest still holds.

The list comes from the schema alone: for an ordered axis every threshold, for a category one value against the others
or one branch for each value. Which of them are open at a node follows from the splits above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.schema import CELLS
from dpsql.trees.forest import PASS, Ints, Level, bits
from dpsql.trees.grid import Axis

Words = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Splits:
    """Splits as arrays of axes × splits: the number of branches (0 where an axis has fewer splits), and the bit planes.

    The planes have one more dimension, the number of the plane, in front.
    """

    arity: NDArray[np.uint8]
    planes: Words

    @property
    def most(self) -> int:
        """The largest number of splits that one axis has."""
        return int(self.arity.shape[1])

    def slots(self, axis: int) -> NDArray[np.uint8]:
        """Return the child that each split of an axis gives each of 64 cells, as splits × cells."""
        cells = np.arange(CELLS, dtype=np.uint64)
        slots = np.zeros((self.most, CELLS), np.uint8)
        for plane, masks in enumerate(self.planes[:, axis]):
            slots |= ((masks[:, None] >> cells & np.uint64(1)) << np.uint64(plane)).astype(np.uint8)
        return slots

    def level(self, axis: Ints, number: Ints) -> Level:
        """Return the level in which each node has this split of this axis; with PASS it hands its rows on."""
        arity = np.where(axis == PASS, 1, self.arity[axis, number]).astype(np.uint8)
        planes = np.where(axis == PASS, np.uint64(0), self.planes[:, axis, number])
        used = max(1, int(arity.max(initial=1) - 1).bit_length())
        return Level(axis.astype(np.int16), arity, planes[:used])


def two_way(axes: Sequence[Axis]) -> Splits:
    """Return every threshold of each ordered axis, and each value of a category against the others.

    >>> splits = two_way([Axis(0, 0, 4, 4, ordered=True), Axis(1, 0, 3, 2, ordered=False)])
    >>> splits.slots(0)[:, :4].tolist()
    [[0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]]
    """
    return _splits_from_slots([_thresholds(axis) if axis.ordered else _one_against_others(axis) for axis in axes])


def many_way(axes: Sequence[Axis], branches: int) -> Splits:
    """Return every threshold of each ordered axis; a category has one split, a branch for each value.

    Where a category has more values than `branches`, neighbours in declared order share a branch. Cells that stand for
    no declared value take the last branch.
    """
    return _splits_from_slots([_thresholds(axis) if axis.ordered else _every_value(axis, branches) for axis in axes])


def between_groups(group: Sequence[Ints]) -> Splits:
    """Return every threshold between the ordered groups that the cells of each axis are in.

    >>> between_groups([np.array([2, 0, 1])]).slots(0)[:, :3].tolist()
    [[1, 0, 1], [1, 0, 0]]
    """
    return _splits_from_slots([_group_thresholds(cells) for cells in group])


@dataclass(frozen=True, eq=False)
class ReachableCells:
    """The cells of each axis that a row at each node can still have, given the splits above it (nodes × axes, bits)."""

    cells: Words

    @classmethod
    def roots(cls, axes: Sequence[Axis], trees: int) -> ReachableCells:
        """Return the roots of `trees` trees, where every cell can be reached."""
        full = bits(np.stack([np.arange(CELLS) < axis.cells for axis in axes]))
        return cls(np.tile(full, (trees, 1)))

    def open_splits(self, splits: Splits) -> NDArray[np.bool_]:
        """Return which splits part the cells of each node, as nodes × axes × splits."""
        parts_cells = np.zeros((*self.cells.shape, splits.most), bool)
        here = self.cells[:, :, None]
        for masks in splits.planes:
            right = here & masks
            parts_cells |= (right != 0) & (right != here)
        return parts_cells

    def open_splits_on(self, splits: Splits, axis: Ints) -> NDArray[np.bool_]:
        """Return which splits of one given axis part the cells of each node, as nodes × splits; none do for PASS."""
        here = self.cells[np.arange(len(axis)), axis][:, None]
        parts_cells = np.zeros((len(axis), splits.most), bool)
        for masks in splits.planes:
            right = here & masks[axis]
            parts_cells |= (right != 0) & (right != here)
        return parts_cells & (axis != PASS)[:, None]

    def open_axes(self) -> NDArray[np.bool_]:
        """Return which axes have two cells or more left, as nodes × axes."""
        return (self.cells & (self.cells - np.uint64(1))) != 0

    def at_next_level(self, level: Level) -> ReachableCells:
        """Return the cells of the next level's nodes."""
        cells = np.repeat(self.cells, level.arity, axis=0)
        axis = np.repeat(level.axis, level.arity).astype(np.int64)
        parent = np.repeat(np.arange(len(level.axis)), level.arity)
        slot = np.arange(level.width) - np.repeat(level.child, level.arity)
        child_cells = np.full(level.width, 2**64 - 1, np.uint64)
        for plane, masks in enumerate(level.planes):
            child_cells &= np.where(slot >> plane & 1, masks[parent], ~masks[parent])
        split = np.flatnonzero(axis != PASS)
        cells[split, axis[split]] &= child_cells[split]
        return ReachableCells(cells)


def draw_axes(axes: Sequence[Axis], reachable: ReachableCells, seed: Sequence[int]) -> Ints:
    """Draw a feature for each node, uniformly from those that can still be split; PASS where there is none.

    Of a wide category, which has several axes, one that can be split is drawn.
    """
    generator = np.random.default_rng(seed)
    open_axes = reachable.open_axes()
    feature = np.array([axis.feature for axis in axes])
    starts = np.flatnonzero(np.diff(feature, prepend=-1))
    drawn = _draw(np.logical_or.reduceat(open_axes, starts, axis=1), generator)
    axes_of_drawn = open_axes & (feature == feature[starts][drawn][:, None])
    return np.where(open_axes.any(axis=1), _draw(axes_of_drawn, generator), PASS)


def _draw(allowed: NDArray[np.bool_], generator: np.random.Generator) -> Ints:
    """Draw one allowed column of each row uniformly (0 where none is allowed)."""
    return np.argmax(np.where(allowed, generator.random(allowed.shape), -1.0), axis=1)


def _thresholds(axis: Axis) -> NDArray[np.int64]:
    first_right = np.arange(1, axis.cells)[:, None]
    return (np.arange(CELLS) >= first_right).astype(np.int64)


def _group_thresholds(group: Ints) -> NDArray[np.int64]:
    # Cells past the last do not occur; they go where the last one goes.
    padded = np.concatenate([group, np.full(CELLS - len(group), group[-1])])
    return (padded >= np.arange(1, int(group.max()) + 1)[:, None]).astype(np.int64)


def _one_against_others(axis: Axis) -> NDArray[np.int64]:
    # With two cells, one split separates both; the second would be the same split.
    values = np.arange(axis.cells if axis.cells > 2 else axis.cells - 1)[:, None]
    return (np.arange(CELLS) == values).astype(np.int64)


def _every_value(axis: Axis, branches: int) -> NDArray[np.int64]:
    cells = np.arange(CELLS)
    arity = max(min(branches, axis.values), min(2, axis.cells))
    if arity < 2:
        return np.zeros((0, CELLS), np.int64)
    return np.where(cells < axis.values, cells * arity // max(arity, axis.values), arity - 1)[None, :]


def _splits_from_slots(slots: Sequence[NDArray[np.int64]]) -> Splits:
    """Return splits given as one array of splits × cells for each axis."""
    most = max(1, *(len(axis_slots) for axis_slots in slots)) if slots else 1
    arity = np.zeros((len(slots), most), np.uint8)
    highest = max((int(axis_slots.max(initial=1)) for axis_slots in slots), default=1)
    planes = np.zeros((highest.bit_length(), len(slots), most), np.uint64)
    for axis, axis_slots in enumerate(slots):
        arity[axis, : len(axis_slots)] = axis_slots.max(axis=1) + 1 if len(axis_slots) else 0
        for plane in range(len(planes)):
            planes[plane, axis, : len(axis_slots)] = bits((axis_slots >> plane & 1).astype(bool))
    return Splits(arity, planes)
