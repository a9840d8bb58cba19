"""Mixtures of a forest's trees: each part speaks with its factor, and what does not fit is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpsql.errors import ParameterError
from dpsql.trees.estimate.mixtures import LARGEST_FACTOR, Mixtures
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes, grid_cells
from dpsql.trees.voting import VotingForest, largest_weight
from tests.rows import random_table
from tests.tables import SCHEMA, mixture_weights, small_forest, voting

RELEASED = voting(small_forest(trees=4, depth=2), 3, seed=3, most=9)
PART = np.array([2, 0, 2, 1])
FACTORS = np.array([[1, 1, 1], [0, 60, 7], [0, 0, 0], [LARGEST_FACTOR, 0, 2]])
WEIGHTS = np.array([1, 8, 3, 1])


def test_a_mixture_is_a_forest_with_other_weights() -> None:
    """Scores of a mixture are the sums of its trees' votes, each times the factor of its part."""
    mixtures = Mixtures(RELEASED, PART, FACTORS, WEIGHTS)
    grid = grid_cells(SCHEMA, random_table(SCHEMA, 30, 1).columns)
    leaves = RELEASED.forest.route(grid)
    for number, factors in enumerate(FACTORS):
        expected = sum(factors[PART[tree]] * RELEASED.weights[leaves[:, tree]] for tree in range(4))
        found = VotingForest(RELEASED.forest, mixture_weights(mixtures, number)).scores(grid)
        assert found.tolist() == np.asarray(expected).tolist()


def test_leaves_belong_to_the_part_of_their_tree() -> None:
    """Each leaf has the part of its tree."""
    mixtures = Mixtures(RELEASED, PART, FACTORS, WEIGHTS)
    assert mixtures.leaf_part.tolist() == PART[RELEASED.forest.leaf_tree].tolist()


@pytest.mark.parametrize(
    "changes",
    [
        {"part": PART[:3]},
        {"part": np.array([0, 1, 2, 3])},
        {"part": np.array([0, 1, 2, -1])},
        {"factors": FACTORS[:, :2]},
        {"factors": FACTORS[0]},
        {"factors": np.zeros((4, 0), np.int64)},
        {"factors": -FACTORS},
        {"factors": FACTORS + LARGEST_FACTOR},
        {"weights": WEIGHTS[:3]},
        {"weights": WEIGHTS - 1},
        {"weights": WEIGHTS[:, None]},
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any]) -> None:
    """Parts, factors and weights are checked when mixtures are made."""
    with pytest.raises(ParameterError):
        Mixtures(**({"released": RELEASED, "part": PART, "factors": FACTORS, "weights": WEIGHTS} | changes))


@pytest.mark.parametrize("sign", [1, -1])
def test_multiples_that_a_vote_cannot_hold_are_refused(sign: int) -> None:
    """The largest weight times the largest factor must be a weight that a forest of this size may have."""
    forest, one = Forest(axes(SCHEMA), 1, ()), np.ones(1, np.int64)
    most = largest_weight(1, 3) // LARGEST_FACTOR
    for weight, fits in ((most, True), (most + 1, False)):
        released = VotingForest(forest, np.array([[sign * weight, 0, 1]]))
        made: list[Mixtures] = []
        if fits:
            made.append(Mixtures(released, one - 1, np.array([[LARGEST_FACTOR]]), one))
        else:
            with pytest.raises(ParameterError):
                Mixtures(released, one - 1, np.array([[LARGEST_FACTOR]]), one)
        assert len(made) == fits
