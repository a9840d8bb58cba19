"""Draws a tree as text, from the schema and released votes alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpsql.schema import CELLS, Categorical, Numeric, Schema
from dpsql.trees.forest import PASS, Forest
from dpsql.trees.grid import BITS
from dpsql.trees.means import predictions
from dpsql.trees.voting import VotingForest

_MOST_VALUES = 4


def draw(schema: Schema, released: VotingForest, tree: int, *, depth: int | None = None) -> str:
    """Return one tree as indented text, one line for each split's branch; deeper than `depth` is left out."""
    forest = released.forest.tree(tree)
    first = int(released.forest.first_leaf[tree])
    weights = released.weights[first : first + forest.leaves]
    return "\n".join(_lines(schema, forest, weights, 0, 0, "", depth))


def _lines(
    schema: Schema, forest: Forest, weights: NDArray[np.int64], level: int, node: int, indent: str, most: int | None
) -> Iterator[str]:
    while level < forest.depth and forest.levels[level].axis[node] == PASS:
        node = int(forest.levels[level].child[node])
        level += 1
    if level == forest.depth:
        yield f"{indent}→ {leaf_text(schema, weights[node])}"
        return
    if most is not None and level >= most:
        yield f"{indent}… {forest.depth - level} more levels"
        return
    here = forest.levels[level]
    slots = here.slots(np.full(CELLS, node), np.arange(CELLS))
    for slot in range(int(here.arity[node])):
        text = branch_text(schema, forest, int(here.axis[node]), slots == slot)
        child = int(here.child[node]) + slot
        below = list(_lines(schema, forest, weights, level + 1, child, indent + "│  ", most))
        if len(below) == 1 and "→" in below[0]:
            yield f"{indent}├─ {text} {below[0].lstrip('│ ')}"
        else:
            yield f"{indent}├─ {text}"
            yield from below


def leaf_text(schema: Schema, weights: NDArray[np.int64]) -> str:
    """Return what a leaf says: its class, or its weights where it has several, or the number it votes for."""
    if schema.target is not None:
        return f"{predictions(schema.target, weights[None, :])[0]:.5g}"
    if np.count_nonzero(weights) <= 1:
        return schema.classes[int(np.argmax(weights))]
    return ", ".join(f"{name} {weight}" for name, weight in zip(schema.classes, weights.tolist(), strict=True))


def branch_text(schema: Schema, forest: Forest, axis: int, taken: NDArray[np.bool_]) -> str:
    """Return one branch of a split in words, such as `age < 39.8` or `sex in {Male}`."""
    one = forest.axes[axis]
    feature = schema.features[one.feature]
    if isinstance(feature, Numeric):
        cells = np.flatnonzero(taken[: feature.cells])
        if len(cells) == 0:
            return f"{feature.name}: never"
        low, high = int(cells[0]), int(cells[-1])
        above = f"{feature.edges[low - 1]:g} ≤ " if low else ""
        below = f" < {feature.edges[high]:g}" if high < feature.cells - 1 else ""
        return f"{above}{feature.name}{below}"
    return f"{feature.name} in {{{', '.join(_values(feature, one.digit, taken))}}}"


def _values(feature: Categorical, digit: int, taken: NDArray[np.bool_]) -> list[str]:
    cells = np.arange(feature.cells) >> (BITS * digit) & (CELLS - 1)
    names = [value for value, keep in zip(feature.values, taken[cells], strict=False) if keep]
    if taken[cells][-1] and None in (feature.null, feature.unknown):
        names.append("other")
    if len(names) > _MOST_VALUES:
        return [*names[:_MOST_VALUES], f"{len(names) - _MOST_VALUES} more"]
    return names
