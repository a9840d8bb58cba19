"""One tree for each feature: its leaves are the bins of that feature alone, so that their counts are its marginal.

The cells of a number are grouped into bins of equal width; a category has one bin for each cell. A wide category, which
is written in base 64, needs two levels or more, the highest digit first. A row reaches one bin of every feature.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsql.schema import CELLS
from dpsql.trees.forest import PASS, Forest, Ints, Level, bits
from dpsql.trees.grid import BITS, Axis


def cell_bins(axis: Axis, bins: int) -> Ints:
    """Return the bin of each cell of an axis: at most `bins` of equal width for a number, one each for a category.

    >>> cell_bins(Axis(0, 0, 8, 8, ordered=True), 4).tolist(), cell_bins(Axis(0, 0, 3, 2, ordered=False), 2).tolist()
    ([0, 0, 1, 1, 2, 2, 3, 3], [0, 1, 2])
    """
    cells = np.arange(axis.cells)
    return cells * min(bins, axis.cells) // axis.cells if axis.ordered else cells


def one_feature_trees(axes: tuple[Axis, ...], bins: int) -> Forest:
    """Return one tree per feature whose leaves are its bins, in order of their number.

    >>> forest = one_feature_trees((Axis(0, 0, 64, 64, ordered=True), Axis(1, 0, 3, 2, ordered=False)), 4)
    >>> forest.trees, forest.depth, forest.first_leaf.tolist()
    (2, 1, [0, 4, 7])
    """
    features = axes_by_feature(axes)
    levels: list[Level] = []
    heads = [[*reversed(places)] for places in features]
    nodes = np.ones(len(features), np.int64)
    for depth in range(max(len(places) for places in features)):
        axis = np.repeat([places[depth] if depth < len(places) else PASS for places in heads], nodes)
        levels.append(_level(axes, axis.astype(np.int64), bins))
        wide = np.array([_width(axes, places[depth], bins) if depth < len(places) else 1 for places in heads])
        nodes = nodes * wide
    return Forest(axes, len(features), tuple(levels))


def axes_by_feature(axes: Sequence[Axis]) -> list[list[int]]:
    """Return the places of each feature's axes, lowest digit first."""
    places: list[list[int]] = [[] for _ in range(max(axis.feature for axis in axes) + 1)]
    for place, axis in enumerate(axes):
        places[axis.feature].append(place)
    return places


def axis_digit(values: Ints, axis: Axis) -> Ints:
    """Return the digit that an axis holds of a wide category's cells (the cell itself where there is one digit)."""
    return values >> (BITS * axis.digit) & (CELLS - 1)


def _width(axes: Sequence[Axis], place: int, bins: int) -> int:
    return int(cell_bins(axes[place], bins)[-1]) + 1


def _level(axes: Sequence[Axis], node_axis: Ints, bins: int) -> Level:
    """Return the level in which each node sends every bin of its axis to a child of its own."""
    arity = np.ones(len(node_axis), np.uint8)
    planes = np.zeros((BITS, len(node_axis)), np.uint64)
    for place in np.unique(node_axis[node_axis != PASS]):
        here, slot = node_axis == place, cell_bins(axes[place], bins)
        # Cells past the last do not occur; they go where the last one goes.
        padded = np.concatenate([slot, np.full(CELLS - len(slot), slot[-1])])
        arity[here] = slot[-1] + 1
        masks = [int(bits((padded >> plane & 1).astype(bool)[None, :])[0]) for plane in range(BITS)]
        planes[:, here] = np.array(masks, np.uint64)[:, None]
    used = max(1, int(arity.max() - 1).bit_length())
    return Level(node_axis.astype(np.int16), arity, planes[:used])
