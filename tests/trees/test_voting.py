"""Voting forests: scores are sums of leaf weights, ties go to the first class, the digest names structure and votes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.errors import SchemaError
from dpsql.schema import Schema
from dpsql.trees.forest import Forest, Level
from dpsql.trees.grid import axes, grid_cells
from dpsql.trees.voting import LARGEST_WEIGHT, VotingForest
from tests.rows import any_forest, random_table, schemas, walk
from tests.tables import SCHEMA, small_forest, voting


@settings(max_examples=30)
@given(schema=schemas(most=6), seed=st.integers(0, 2**32), most=st.integers(1, 50))
def test_scores_are_sums_over_the_leaves_of_a_row(schema: Schema, seed: int, most: int) -> None:
    """A row's score for a class is the sum of what the leaves it reaches say, walked one by one."""
    forest = any_forest(axes(schema), trees=4, depth=3, seed=seed)
    released = voting(forest, len(schema.classes), seed=seed, most=most)
    made = random_table(schema, 12, seed)
    expected = [sum(released.weights[leaf] for leaf in walk(schema, forest, row)).tolist() for row in made.rows]
    assert released.scores(grid_cells(schema, made.columns)).tolist() == expected


def test_ties_go_to_the_first_class() -> None:
    """Of equal scores the first class in the schema's order wins."""
    released = VotingForest(Forest(axes(SCHEMA), 2, ()), np.array([[0, 1, 0], [0, 0, 1]]))
    assert released.predict(np.zeros((1, 2), np.uint8)).tolist() == [1]


def test_silent_leaves_name_the_first_class() -> None:
    """A row that only reaches leaves without a vote gets the first class."""
    released = VotingForest(Forest(axes(SCHEMA), 2, ()), np.zeros((2, 3), np.int64))
    assert released.predict(np.zeros((1, 2), np.uint8)).tolist() == [0]


def test_majority_casts_one_vote_per_leaf() -> None:
    """A forest of labels has weight 1 for each leaf's label and 0 elsewhere."""
    forest = small_forest()
    labels = np.arange(forest.leaves) % 3
    weights = VotingForest.majority(forest, labels, 3).weights
    assert weights.sum(axis=1).tolist() == [1] * forest.leaves
    assert weights.argmax(axis=1).tolist() == labels.tolist()


@pytest.mark.parametrize(
    "weights",
    [
        np.zeros((1, 3), np.int64),
        np.zeros(2, np.int64)[:, None][:1],
        np.array([[0, -(2**41)], [0, 0]]),
        np.array([[0, LARGEST_WEIGHT + 1], [0, 0]]),
    ],
    ids=["too few", "one", "too small", "too large"],
)
def test_weights_that_make_no_sense_are_refused(weights: np.ndarray) -> None:
    """Weights must be there for each leaf, whole and within bounds."""
    with pytest.raises(SchemaError):
        VotingForest(Forest(axes(SCHEMA), 2, ()), weights)


def test_scores_that_sql_could_not_rank_are_refused() -> None:
    """The largest score times the number of classes must fit 64 bits, or the SQL would overflow."""
    forest = Forest(axes(SCHEMA), 2**14, ())
    with pytest.raises(SchemaError, match="too large"):
        VotingForest(forest, np.full((2**14, 2**9), LARGEST_WEIGHT))


def test_the_digest_sees_every_vote_and_every_split() -> None:
    """Changing one weight, one axis or one bit of a plane changes the digest."""
    base = voting(small_forest(), 3)
    weights = base.weights.copy()
    weights[0, 0] += 1
    level = base.forest.levels[0]
    planes = level.planes.copy()
    planes[0, 0] ^= np.uint64(1)
    rest = base.forest.levels[1:]
    other = [Level(level.axis, level.arity, planes), Level(1 - level.axis, level.arity, level.planes)]
    changed = [VotingForest(Forest(base.forest.axes, 3, (one, *rest)), base.weights) for one in other]
    digests = {released.digest() for released in (base, VotingForest(base.forest, weights), *changed)}
    assert len(digests) == 4


def test_the_digest_does_not_see_an_empty_plane() -> None:
    """A plane without a bit says nothing, so a forest stored without it has the same digest."""
    base = voting(small_forest(), 3)
    padded = tuple(
        Level(level.axis, level.arity, np.vstack([level.planes, np.zeros_like(level.planes[:1])]))
        for level in base.forest.levels
    )
    assert VotingForest(Forest(base.forest.axes, 3, padded), base.weights).digest() == base.digest()
