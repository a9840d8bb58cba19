"""The public part of the matrix random forest: which features each ensemble looks at, its cells and its trees."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpsql.errors import ParameterError, UsageError
from dpsql.schema import Numeric, Schema
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes, digits
from dpsql.trees.grow.common_cells import CommonCells, random_orders
from dpsql.trees.grow.random_trees import MOST_COUNTS
from dpsql.trees.join import join_trees
from dpsql.trees.strategies.workload import Leaves

#: The most cells of one ensemble, unless asked otherwise; where features do not fit, an ensemble gets so many cells.
MOST_CELLS, FEW_CELLS = 2**14, 2**10
#: How many ensembles share the features where one cannot hold them all.
SEVERAL = 4


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Trees over some of the features: their cells, the trees, and which leaf each cell is in."""

    domain: CommonCells
    forest: Forest
    workload: Leaves

    @property
    def cells(self) -> Forest:
        """The tree whose leaves are the cells."""
        return self.domain.tree()


def ensembles(schema: Schema, chosen: Mapping[str, Any]) -> list[Ensemble]:
    """Return the ensembles that schema, parameters and seed lead to. No row is read."""
    sizes = _sizes(schema, chosen["bins"])
    subsets = _subsets(sizes, chosen)
    if chosen["trees"] < len(subsets):
        raise ParameterError(
            "trees", allowed=f"at least one for each of {len(subsets)} ensembles", given=chosen["trees"]
        )
    grid = axes(schema)
    place = {axis.feature: number for number, axis in enumerate(grid)}
    found = []
    for number, subset in enumerate(subsets):
        domain = CommonCells(grid, tuple(place[one] for one in subset), tuple(sizes[one] for one in subset))
        trees = (number + 1) * chosen["trees"] // len(subsets) - number * chosen["trees"] // len(subsets)
        depth = chosen["depth"] or usual_depth(len(subset))
        forest, leaf = domain.forest(
            trees=trees, depth=depth, seed=chosen["seed"] + number, limit=MOST_COUNTS, classes=len(schema.classes)
        )
        found.append(Ensemble(domain, forest, Leaves(domain.sizes, leaf)))
    return found


def joined_forest(found: list[Ensemble]) -> Forest:
    """Return the trees of all ensembles as one forest."""
    forest = found[0].forest
    for one in found[1:]:
        forest = join_trees(forest, one.forest)
    return forest


def usual_depth(features: int) -> int:
    """Return how deep trees are where nobody says: about three fifths of the features.

    >>> [usual_depth(features) for features in (1, 4, 6, 10)]
    [1, 2, 4, 6]
    """
    return max(1, round(0.6 * features))


def _sizes(schema: Schema, bins: int) -> dict[int, int]:
    """Return the number of bins of each feature that can be used: those of more than 63 values cannot."""
    found = {}
    for number, feature in enumerate(schema.features):
        if digits(feature) == 1:
            size = min(bins, feature.cells) if isinstance(feature, Numeric) else len(feature.values)
            if size > 1:
                found[number] = size
    if not found:
        raise UsageError(
            "the matrix random forest needs a feature of 2 to 63 values.", hint="--method auto takes wide categories"
        )
    return found


def _subsets(sizes: Mapping[int, int], chosen: Mapping[str, Any]) -> list[list[int]]:
    """Return the features of each ensemble: all of them where their cells are few enough, else random ones."""
    every, limit = list(sizes), chosen["cells"]
    wanted, count = chosen["features"], chosen["ensembles"]
    if wanted is None and count in (None, 1) and math.prod(sizes.values()) <= limit:
        return [every]
    found = []
    for order in random_orders(len(every), count or SEVERAL, chosen["seed"]):
        shuffled = [every[place] for place in order]
        subset = shuffled[: wanted or len(every)]
        if wanted is None:
            subset = _features_that_fit(shuffled, sizes, min(limit, FEW_CELLS))
        elif math.prod(sizes[one] for one in subset) > limit:
            raise ParameterError("features", allowed=f"few enough for at most {limit} cells", given=wanted)
        found.append(sorted(subset))
    return found


def _features_that_fit(shuffled: list[int], sizes: Mapping[int, int], limit: int) -> list[int]:
    """Return features in this order, leaving out those that would make too many cells; never none."""
    found: list[int] = []
    cells = 1
    for one in shuffled:
        if cells * sizes[one] <= limit or not found:
            found.append(one)
            cells *= sizes[one]
    return found
