"""Draws a tree as text, from the schema and the released forest alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.schema import CELLS, Categorical, Dated, Hashed, Numeric, Schema
from dpsql.trees.estimate.means import predicted_numbers
from dpsql.trees.forest import PASS, Forest
from dpsql.trees.grid import BITS
from dpsql.trees.voting import VotingForest

#: The most values of a category that a branch lists.
_MOST_VALUES = 4
#: In a split of more branches than this, branches with the same text below them are drawn as one.
_FEW_BRANCHES = 8
#: The most branches of one split that are drawn where a depth is given.
_MOST_BRANCHES = 24

#: Returns the text of a leaf, given its number in the tree.
_LeafText = Callable[[int], str]
#: Which cells take a branch.
_Cells = NDArray[np.bool_]


def draw_tree(
    schema: Schema, released: VotingForest, tree: int, *, depth: int | None = None, counts: bool = True
) -> str:
    """Return one tree as indented text, one line for each split's branch.

    With `depth`, deeper levels and branches past a split's first 24 are left out, and the text says how many. Where
    scores are log-probabilities, or weights are no `counts`, a leaf shows the class shares that its weights alone would
    give.
    """
    forest = released.forest.tree(tree)
    first = int(released.forest.first_leaf[tree])
    weights = released.weights[first : first + forest.leaves]

    def says(leaf: int) -> str:
        several = np.count_nonzero(weights[leaf]) > 1
        if released.nat or (not counts and several and schema.target is None):
            return _share_text(schema, released.shares(weights[leaf : leaf + 1])[0])
        return leaf_text(schema, weights[leaf])

    return "\n".join(_lines(schema, forest, says, 0, 0, "", depth))


def _lines(
    schema: Schema, forest: Forest, says: _LeafText, level: int, node: int, indent: str, most: int | None
) -> Iterator[str]:
    """Yield the lines of the text below one node; `most` is the depth below which nothing is drawn."""
    while level < forest.depth and forest.levels[level].axis[node] == PASS:
        node = int(forest.levels[level].child[node])
        level += 1
    if level == forest.depth:
        yield f"{indent}→ {says(node)}"
        return
    if most is not None and level >= most:
        yield f"{indent}… {forest.depth - level} more levels"
        return
    here = forest.levels[level]
    slots = here.slots(np.full(CELLS, node), np.arange(CELLS))
    branches: list[tuple[_Cells, list[str]]] = []
    for slot in range(int(here.arity[node])):
        child = int(here.child[node]) + slot
        branches.append((slots == slot, list(_lines(schema, forest, says, level + 1, child, indent + "│  ", most))))
    axis = int(here.axis[node])
    if len(branches) > _FEW_BRANCHES:
        branches = _join_same_branches(branches, ordered=forest.axes[axis].ordered)
    shown = len(branches) if most is None else _MOST_BRANCHES
    for taken, below in branches[:shown]:
        text = branch_text(schema, forest, axis, taken)
        if len(below) == 1 and "→" in below[0]:
            yield f"{indent}├─ {text} {below[0].lstrip('│ ')}"
        else:
            yield f"{indent}├─ {text}"
            yield from below
    if len(branches) > shown:
        yield f"{indent}├─ … {len(branches) - shown} more branches"


def _join_same_branches(
    branches: Sequence[tuple[_Cells, list[str]]], *, ordered: bool
) -> list[tuple[_Cells, list[str]]]:
    """Join branches that have the same text below them; for a number, only neighbouring ranges are joined."""
    joined: list[tuple[_Cells, list[str]]] = []
    for taken, below in branches:
        candidates = range(len(joined))[-1:] if ordered else range(len(joined))
        same = next((place for place in candidates if joined[place][1] == below), None)
        if same is None or (ordered and not _touch(joined[same][0], taken)):
            joined.append((taken, below))
        else:
            joined[same] = (joined[same][0] | taken, below)
    return joined


def _touch(lower: _Cells, upper: _Cells) -> bool:
    """Return whether one run of cells ends where the other begins."""
    before, after = np.flatnonzero(lower), np.flatnonzero(upper)
    return len(before) > 0 and len(after) > 0 and bool(before[-1] + 1 == after[0])


def leaf_text(schema: Schema, weights: NDArray[np.int64]) -> str:
    """Return a leaf as text: its class, or the weights of all classes where several are not 0, or its number."""
    if schema.target is not None:
        return f"{predicted_numbers(schema.target, weights[None, :])[0]:.5g}"
    if np.count_nonzero(weights) <= 1:
        return schema.classes[int(np.argmax(weights))]
    return ", ".join(f"{name} {weight}" for name, weight in zip(schema.classes, weights.tolist(), strict=True))


def _share_text(schema: Schema, shares: NDArray[np.float64]) -> str:
    """Return the share of each class in percent, as text."""
    return ", ".join(f"{name} {share:.1%}" for name, share in zip(schema.classes, shares.tolist(), strict=True))


def branch_text(schema: Schema, forest: Forest, axis: int, taken: NDArray[np.bool_]) -> str:
    """Return one branch of a split in words, such as `age < 39.8` or `sex in {Male}`."""
    split_axis = forest.axes[axis]
    feature = schema.features[split_axis.feature]
    if isinstance(feature, Numeric):
        cells = np.flatnonzero(taken[: feature.cells])
        if len(cells) == 0:
            return f"{feature.name}: never"
        low, high = int(cells[0]), int(cells[-1])
        above = f"{_edge_text(feature, low)} ≤ " if low else ""
        below = f" < {_edge_text(feature, high + 1)}" if high < feature.cells - 1 else ""
        return f"{above}{feature.name}{below}"
    return f"{feature.name} in {{{', '.join(_values(feature, split_axis.digit, taken))}}}"


def _edge_text(feature: Numeric, cell: int) -> str:
    """Return the lower edge of a cell: a number, or a date."""
    return feature.edge_text(cell) if isinstance(feature, Dated) else f"{feature.edges[cell - 1]:g}"


def _values(feature: Categorical, digit: int, taken: NDArray[np.bool_]) -> list[str]:
    """Return the names of the values that take a branch on one digit of their cell, at most _MOST_VALUES of them."""
    cells = np.arange(feature.cells) >> (BITS * digit) & (CELLS - 1)
    names = [value for value, keep in zip(feature.values, taken[cells], strict=False) if keep]
    if taken[cells][-1] and None in (feature.null, feature.unknown):
        names.append("NULL" if isinstance(feature, Hashed) and not feature.listed else "other")
    if len(names) > _MOST_VALUES:
        return [*names[:_MOST_VALUES], f"{len(names) - _MOST_VALUES} more"]
    return names
