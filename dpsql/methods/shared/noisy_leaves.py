"""Steps that methods of noisy leaves share: counts or sums in every leaf, and a size bought where none is declared.

A method that can predict classes and numbers alike plans its leaves with `leaf_step` and fills them with `fill_leaves`:
the schema decides whether these are counts of classes or sums of a target.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpsql.errors import ParameterError
from dpsql.kernel.operations import LeafCounts, LeafSums, Size
from dpsql.kernel.plan import NANO, Sequential, Step
from dpsql.kernel.session import Session
from dpsql.schema import Schema
from dpsql.trees.estimate.means import mean_votes
from dpsql.trees.forest import Forest
from dpsql.trees.voting import VotingForest, largest_weight

#: The share of epsilon that buys the number of rows when it is not declared, in hundredths.
SIZE_SHARE = 3


def leaf_step(
    nano_epsilon: int, trees: int, schema: Schema, cells: int, *, shared: bool = True, name: str = "counts"
) -> Step:
    """Return the step that releases the noisy values of every leaf: counts of its classes, or two sums of its targets.

    `cells` is at least leaves × `schema.leaf_values`.
    """
    counts = replace(shared_counts(nano_epsilon, trees, schema, cells), name=name, shared=shared)
    if not shared:
        counts = replace(counts, note="one noisy count per leaf and class; each row is in one tree")
    if schema.target is None:
        return counts
    note = "two noisy sums of the target per leaf, " + counts.note.partition("; ")[2]
    return replace(counts, operation=LeafSums(), classes=2, row_weight=schema.steps, note=note)


def fill_leaves(session: Session, forest: Forest, *, name: str = "counts") -> VotingForest:
    """Return the forest whose leaves vote with their noisy counts, or with the means that follow from noisy sums."""
    if session.schema.target is not None:
        scale = float(session.plan.noise_scale(name))
        return VotingForest(forest, mean_votes(session.leaf_sums(name, forest), scale, forest.trees))
    noisy_counts = session.leaf_counts(name, forest)
    most = largest_weight(forest.trees, len(session.schema.classes))
    return VotingForest(forest, np.clip(noisy_counts, -most, most))


def shared_counts(nano_epsilon: int, trees: int, schema: Schema, cells: int) -> Step:
    """Return the step that releases a noisy count of every leaf and class, each row in every tree."""
    return Step(
        "counts",
        LeafCounts(),
        nano_epsilon,
        trees=trees,
        shared=True,
        cells=cells,
        classes=schema.leaf_values,
        note="one noisy count per leaf and class; each row is in every tree, so the trees share epsilon",
    )


def size_then_counts(nano_epsilon: int, trees: int, schema: Schema, limit: int) -> Sequential:
    """Return the steps `size` and `counts`, which add up to epsilon exactly.

    `limit` bounds the cells of the counts: how many there are depends on the depth, which follows from the size.
    """
    if nano_epsilon < 100:
        given = nano_epsilon / NANO
        raise ParameterError("epsilon", allowed="at least 0.0000001 where the size is bought", given=given)
    share = nano_epsilon * SIZE_SHARE // 100
    size = Step("size", Size(), share, note="the size is not declared; it decides the depth")
    return Sequential((size, leaf_step(nano_epsilon - share, trees, schema, limit)))
