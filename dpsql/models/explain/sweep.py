"""Sweeps one feature at a time through its cells and records what the released model predicts. No private row is read.

The background is at most `MOST_ROWS` rows, made from released values or public ones of the caller (`background.py`). In
each of these rows one feature is set to each of its cells in turn, and the others stay as they are. This gives two
things. The mean over the rows at each cell is what the model predicts for that cell. The variance over the cells,
averaged over the rows, is how much the prediction moves with the feature: its total effect (Sobol 1993; Homma &
Saltelli 1996), which counts what a feature does alone and together with others. The importance of a feature is its
total effect divided by the sum over all features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.models.explain.background import Background, digit_of_cells
from dpsql.schema import Categorical, Feature, Schema
from dpsql.trees.estimate.means import predicted_numbers
from dpsql.trees.forest import PASS, Forest, Ints
from dpsql.trees.voting import VotingForest

Reals = NDArray[np.float64]
#: The most background rows on which features are swept.
MOST_ROWS = 256
#: The fewest background rows, however large the forest is.
LEAST_ROWS = 8
#: About how many steps from node to node all sweeps together may take: two or three seconds.
_STEPS = 2**25
#: Rows × trees that are walked at once: bounds memory.
_CHUNK = 2**20


@dataclass(frozen=True, eq=False)
class Swept:
    """What the sweep of one feature shows: its cells, their shares, and the mean prediction at each (cells × outputs).

    `moved` is the feature's total effect; `read` says whether any tree reads it. Outputs are the shares of the classes,
    or the one number that a model of a numeric target predicts.
    """

    cells: Ints
    mass: Reals
    average: Reals
    moved: float
    read: bool


def sweep(schema: Schema, released: VotingForest, background: Background) -> list[Swept]:
    """Return the sweep of each feature through its cells, in the schema's order."""
    reads = _reads(released.forest)
    base = background.rows(released.forest.axes, _rows(schema, released.forest, reads))
    all_scores = _scores(released, base, np.arange(released.forest.trees))
    return [
        _sweep_feature(schema, released, position, mass, base, all_scores, np.flatnonzero(reads[:, position]))
        for position, mass in enumerate(background.masses)
    ]


def reachable_cells(feature: Feature) -> Ints:
    """Return the cells that some value can have.

    They are all cells, except the last of a category for which NULL and unknown values count as declared ones.
    """
    last_is_empty = isinstance(feature, Categorical) and None not in (feature.null, feature.unknown)
    return np.arange(feature.cells - last_is_empty)


def outputs(schema: Schema, released: VotingForest, scores: NDArray[np.int64]) -> Reals:
    """Return what scores predict: the shares of the classes, or one number."""
    if schema.target is not None:
        return predicted_numbers(schema.target, scores)[:, None]
    if not released.nat:
        return released.shares(scores)
    # `shares` adds these in another order, which with 8 classes or more would change the last bits.
    odds = np.exp((scores - scores.max(axis=1, keepdims=True)) / released.nat)
    return odds / odds.sum(axis=1, keepdims=True)


def _reads(forest: Forest) -> NDArray[np.bool_]:
    """Return which trees read which features (trees × features)."""
    feature = np.array([axis.feature for axis in forest.axes])
    reads = np.zeros((forest.trees, int(feature.max(initial=0)) + 1), bool)
    tree = np.arange(forest.trees)
    for level in forest.levels:
        split = level.axis != PASS
        reads[tree[split], feature[level.axis[split]]] = True
        tree = np.repeat(tree, level.arity)
    return reads


def _rows(schema: Schema, forest: Forest, reads: NDArray[np.bool_]) -> int:
    """Return the number of background rows for which about _STEPS steps are taken, within the bounds above."""
    cells = np.array([feature.cells for feature in schema.features])
    steps = int((reads.sum(axis=0) * cells).sum()) * max(1, forest.depth)
    return int(np.clip(_STEPS // max(1, steps), LEAST_ROWS, MOST_ROWS))


def _sweep_feature(
    schema: Schema, released: VotingForest, position: int, mass: Reals, base: Ints, all_scores: Ints, trees: Ints
) -> Swept:
    """Sweep one feature; only the trees that read it are walked again."""
    cells = reachable_cells(schema.features[position])
    mass = mass[cells]
    rest = all_scores - _scores(released, base, trees)
    step = max(1, _CHUNK // (len(base) * max(1, len(trees))))
    predictions = np.concatenate(
        [
            _predictions(schema, released, position, cells[first : first + step], base, rest, trees)
            for first in range(0, len(cells), step)
        ]
    )
    middle = np.einsum("k,kro->ro", mass, predictions)
    moved = float(np.einsum("k,kro->", mass, (predictions - middle) ** 2)) / len(base) if len(trees) else 0.0
    return Swept(cells, mass, predictions.mean(axis=1), moved, read=len(trees) > 0)


def _predictions(
    schema: Schema, released: VotingForest, position: int, cells: Ints, base: Ints, rest: Ints, trees: Ints
) -> Reals:
    """Return what the model predicts for each cell on each row (cells × rows × outputs)."""
    changed = np.tile(base, (len(cells), 1))
    for number, axis in enumerate(released.forest.axes):
        if axis.feature == position:
            changed[:, number] = np.repeat(digit_of_cells(cells, axis.digit), len(base))
    scores = _scores(released, changed, trees) + np.tile(rest, (len(cells), 1))
    return outputs(schema, released, scores).reshape(len(cells), len(base), -1)


def _scores(released: VotingForest, cells: Ints, trees: Ints) -> Ints:
    """Return each row's score for each class from some of the trees."""
    return released.weights[released.forest.route(cells, trees=trees)].sum(axis=1)
