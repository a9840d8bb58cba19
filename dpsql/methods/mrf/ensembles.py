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

#: The most cells of one ensemble, unless the parameter `cells` says otherwise.
MOST_CELLS = 2**14
#: The most cells of each ensemble where the features do not all fit into one.
FEW_CELLS = 2**10
#: The number of ensembles that share the features where one cannot hold them all.
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


def ensembles(schema: Schema, settings: Mapping[str, Any]) -> list[Ensemble]:
    """Return the ensembles that schema, parameters and seed lead to. No row is read."""
    sizes = _sizes(schema, settings["bins"])
    subsets = _subsets(sizes, settings)
    if settings["trees"] < len(subsets):
        raise ParameterError(
            "trees", allowed=f"at least one for each of {len(subsets)} ensembles", given=settings["trees"]
        )
    grid = axes(schema)
    place = {axis.feature: number for number, axis in enumerate(grid)}
    all_ensembles = []
    for number, subset in enumerate(subsets):
        places = tuple(place[feature] for feature in subset)
        domain = CommonCells(grid, places, tuple(sizes[feature] for feature in subset))
        trees = (number + 1) * settings["trees"] // len(subsets) - number * settings["trees"] // len(subsets)
        depth = settings["depth"] or usual_depth(len(subset))
        forest, leaf = domain.forest(
            trees=trees, depth=depth, seed=settings["seed"] + number, limit=MOST_COUNTS, classes=len(schema.classes)
        )
        all_ensembles.append(Ensemble(domain, forest, Leaves(domain.sizes, leaf)))
    return all_ensembles


def joined_forest(all_ensembles: list[Ensemble]) -> Forest:
    """Return the trees of all ensembles as one forest."""
    forest = all_ensembles[0].forest
    for ensemble in all_ensembles[1:]:
        forest = join_trees(forest, ensemble.forest)
    return forest


def usual_depth(features: int) -> int:
    """Return the depth of trees where no parameter says it: about three fifths of the number of features.

    >>> [usual_depth(features) for features in (1, 4, 6, 10)]
    [1, 2, 4, 6]
    """
    return max(1, round(0.6 * features))


def _sizes(schema: Schema, bins: int) -> dict[int, int]:
    """Return the number of bins of each feature that can be used: those of more than 63 values cannot."""
    sizes = {}
    for number, feature in enumerate(schema.features):
        if digits(feature) == 1:
            size = min(bins, feature.cells) if isinstance(feature, Numeric) else len(feature.values)
            if size > 1:
                sizes[number] = size
    if not sizes:
        raise UsageError(
            "the matrix random forest needs a feature of 2 to 63 values.", hint="--method auto takes wide categories"
        )
    return sizes


def _subsets(sizes: Mapping[int, int], settings: Mapping[str, Any]) -> list[list[int]]:
    """Return the features of each ensemble: all of them where their cells are few enough, else random ones."""
    every, limit = list(sizes), settings["cells"]
    features, count = settings["features"], settings["ensembles"]
    if features is None and count in (None, 1) and math.prod(sizes.values()) <= limit:
        return [every]
    subsets = []
    for order in random_orders(len(every), count or SEVERAL, settings["seed"]):
        shuffled = [every[place] for place in order]
        subset = shuffled[: features or len(every)]
        if features is None:
            subset = _features_that_fit(shuffled, sizes, min(limit, FEW_CELLS))
        elif math.prod(sizes[feature] for feature in subset) > limit:
            raise ParameterError("features", allowed=f"few enough for at most {limit} cells", given=features)
        subsets.append(sorted(subset))
    return subsets


def _features_that_fit(shuffled: list[int], sizes: Mapping[int, int], limit: int) -> list[int]:
    """Return features in this order without those that would make too many cells; at least one feature."""
    fitting: list[int] = []
    cells = 1
    for feature in shuffled:
        if cells * sizes[feature] <= limit or not fitting:
            fitting.append(feature)
            cells *= sizes[feature]
    return fitting
