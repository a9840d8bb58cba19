"""Held rows: cells packed once and kept in the session's own workspace give the counts that the table gives."""

from __future__ import annotations

import numpy as np
import pytest

from dpsql.compile.count.leaves import EVERY_UNIT, Part
from dpsql.errors import QueryFailed
from dpsql.kernel.exact import PACKED_TABLE, Rows
from dpsql.schema import Schema
from dpsql.trees.estimate.mixtures import Mixtures
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from dpsql.trees.grow.one_feature import one_feature_trees
from dpsql.trees.grow.random_trees import random_forest
from dpsql.trees.score_grid import ScoreGrid
from dpsql.trees.voting import VotingForest
from tests.kernel.helpers import Held, held
from tests.tables import SCHEMA, UNITS, some_rows

LEVELS = pytest.mark.parametrize("schema", [SCHEMA, UNITS], ids=["row", "unit"])


def opened(database: Held) -> Rows:
    """Return the exact rows of a session: what only the kernel sees."""
    return Rows(database.engine, database.source, {})


def scorer(schema: Schema) -> VotingForest:
    """Return a forest of log-scores whose first trees have one split and whose others go deeper."""
    forest = random_forest(axes(schema), trees=3, depth=3, seed=5, classes=3)
    weights = np.random.default_rng(1).integers(-900, 900, (forest.leaves, len(schema.classes)))
    return VotingForest(forest, weights, nat=300)


@LEVELS
@pytest.mark.parametrize("part", [EVERY_UNIT, Part(1, 3)], ids=["all", "a part"])
def test_held_rows_give_the_same_counts(schema: Schema, part: Part) -> None:
    """Every question has one answer, whether the rows are read from the table or were packed before."""
    rows = opened(held(some_rows(80), schema=schema))
    trees, stumps, released = (
        random_forest(axes(schema), trees=4, depth=3, seed=2),
        one_feature_trees(axes(schema), 8),
        scorer(schema),
    )
    mixtures = Mixtures(released, np.array([0, 1, 1]), np.array([[1, 1], [0, 5]]), np.ones(2, np.int64))
    grid = ScoreGrid(len(schema.classes))

    def asked() -> list[list[int]]:
        return [
            [rows.size(part)],
            rows.leaf_counts(trees, part, shared=True).ravel().tolist(),
            rows.leaf_counts(trees, part, shared=False).ravel().tolist(),
            rows.leaf_counts(stumps, part, shared=True).ravel().tolist(),
            rows.right_rows(mixtures, part).tolist(),
            rows.score_counts(released, schema.features, grid, part).tolist(),
        ]

    before = asked()
    rows.hold()
    assert asked() == before
    assert sum(before[1]) > 0
    rows.close()


@LEVELS
def test_trees_of_one_split_are_counted_as_all_trees_are(schema: Schema) -> None:
    """The short way of one-feature trees gives what a walk through the same trees gives, one leaf for all included."""
    rows, stumps = opened(held(some_rows(60), schema=schema)), one_feature_trees(axes(schema), 16)
    walked = [rows.leaf_counts(stumps.tree(tree), EVERY_UNIT, shared=False) for tree in range(stumps.trees)]
    assert rows.leaf_counts(stumps, EVERY_UNIT, shared=True).tolist() == np.concatenate(walked).tolist()
    assert all(one.sum() == walked[0].sum() > 0 for one in walked)


def test_held_rows_are_packed_anew_after_their_ranges_changed() -> None:
    """What was held with other cells is not read again."""
    rows = opened(held(some_rows(60)))
    root = Forest(axes(SCHEMA), 1, ())
    stumps = one_feature_trees(axes(SCHEMA), 64)
    rows.hold()
    before = rows.leaf_counts(stumps, EVERY_UNIT, shared=True)
    feature = SCHEMA.numeric[0]
    rows.narrow({feature.name: (feature.lower, feature.lower + (feature.upper - feature.lower) / 4)})
    after = rows.leaf_counts(stumps, EVERY_UNIT, shared=True)
    assert before.sum() == after.sum()
    assert before.tolist() != after.tolist()
    rows.hold()
    assert rows.leaf_counts(stumps, EVERY_UNIT, shared=True).tolist() == after.tolist()
    assert rows.leaf_counts(root, EVERY_UNIT, shared=False).sum() * len(SCHEMA.features) == after.sum()


def test_held_rows_are_gone_with_the_session() -> None:
    """Nobody else sees the table of held rows, and it does not outlive its session."""
    database = held(some_rows(20))
    rows = opened(database)
    rows.hold()
    with database.engine.transaction() as transaction, pytest.raises(QueryFailed):
        transaction.rows(f"SELECT count(*) FROM {PACKED_TABLE}")
    rows.close()
    assert PACKED_TABLE not in database.engine.tables()
