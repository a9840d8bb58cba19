"""The background of an explanation: the rows on which a model is tried, public ones or ones made from released values.

Rows made from released values take features as independent. A feature's cells are as frequent as its noisy counts say
(`facts.py`), else as the noisy leaves say (`density.py`), else equally frequent (of a category the declared values
alone). The rows are spread evenly over each feature, from a fixed seed, so that a model is always explained alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.models.explain.density import axis_masses, feature_mass, rows_of_leaves
from dpsql.models.explain.facts import Facts
from dpsql.schema import CELLS, Categorical, Feature, Schema
from dpsql.trees.forest import Ints
from dpsql.trees.grid import BITS, Axis, Cells
from dpsql.trees.voting import VotingForest

Reals = NDArray[np.float64]
#: The four sources of how often values occur, as texts that follow "as frequent as" in the explanation.
PUBLIC = "in the public rows you gave"
COUNTS = "its noisy counts say"
LEAVES = "its noisy leaves say"
EQUAL = "each other: the model does not tell how often they occur"


@dataclass(frozen=True, eq=False)
class Background:
    """The share of each cell of each feature, the source of these shares, and public rows (as cells of axes) if any."""

    masses: tuple[Reals, ...]
    source: str
    public: Ints | None = None

    def rows(self, axes: Sequence[Axis], most: int) -> Ints:
        """Return at most `most` rows, as cells of each axis."""
        if self.public is not None:
            return self.public[np.unique(np.linspace(0, len(self.public) - 1, most).astype(np.int64))]
        generator = np.random.default_rng(0)
        drawn = []
        for mass in self.masses:
            place = (generator.permutation(most) + 0.5) / most
            drawn.append(np.minimum(np.searchsorted(np.cumsum(mass), place, side="right"), len(mass) - 1))
        return np.stack([digit_of_cells(drawn[axis.feature], axis.digit) for axis in axes], axis=1)


def background(schema: Schema, released: VotingForest, facts: Facts, public: Cells | None = None) -> Background:
    """Return the background from the first source there is: public rows, noisy counts, noisy leaves, equal shares."""
    features = schema.features
    axes = released.forest.axes
    if public is not None and len(public):
        cells = public.astype(np.int64)
        masses = (
            np.bincount(_feature_cells(axes, cells, at), minlength=feature.cells) for at, feature in enumerate(features)
        )
        return Background(
            tuple(_shares_of_mass(feature, mass) for feature, mass in zip(features, masses, strict=True)), PUBLIC, cells
        )
    if facts.features:
        return Background(
            tuple(_shares_of_mass(feature, _counted_mass(feature, facts)) for feature in features), COUNTS
        )
    rows = rows_of_leaves(schema, released)
    if rows is None:
        return Background(tuple(_shares_of_mass(feature, np.zeros(feature.cells)) for feature in features), EQUAL)
    spread = axis_masses(released.forest, rows)
    leaf_masses = (feature_mass(released.forest, spread, at, feature.cells) for at, feature in enumerate(features))
    return Background(
        tuple(_shares_of_mass(feature, mass) for feature, mass in zip(features, leaf_masses, strict=True)), LEAVES
    )


def shuffled_orders(items: Sequence[int], count: int) -> Ints:
    """Return so many orders of the items, from a fixed seed (count × items)."""
    generator = np.random.default_rng(0)
    return np.array([generator.permutation(items) for _ in range(count)], np.int64).reshape(count, len(items))


def digit_of_cells(cells: Ints, place: int) -> Ints:
    """Return one base-64 digit of cells."""
    return cells >> (BITS * place) & (CELLS - 1)


def _feature_cells(axes: Sequence[Axis], cells: Ints, position: int) -> Ints:
    """Return the cells of one feature from those of its axes."""
    own = [cells[:, number] << (BITS * axis.digit) for number, axis in enumerate(axes) if axis.feature == position]
    return np.sum(own, axis=0)


def _counted_mass(feature: Feature, facts: Facts) -> Reals:
    """Return the noisy rows of each cell, those of a group divided evenly among its cells; 0 if none were counted."""
    mass = np.zeros(feature.cells)
    counts = facts.features.get(feature.name)
    if counts is not None:
        for group, noisy in zip(counts.groups, counts.noisy_counts.sum(axis=1), strict=True):
            mass[list(group)] = max(float(noisy), 0.0) / len(group)
    return mass


def _shares_of_mass(feature: Feature, mass: NDArray[np.floating] | Ints) -> Reals:
    """Return masses divided by their sum; where that is 0, every declared value has the same share."""
    if mass.sum() > 0:
        return np.asarray(mass / mass.sum(), np.float64)
    equal = np.ones(feature.cells)
    equal[feature.cells - isinstance(feature, Categorical) :] = 0.0
    return equal / equal.sum()
