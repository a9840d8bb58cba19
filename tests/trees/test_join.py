"""Two forests side by side: the trees of both, over the features of both, with nothing changed for either."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.schema import Categorical, Numeric, Schema
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes, grid_cells
from dpsql.trees.join import join_over_different_features, join_over_same_features, join_trees
from dpsql.trees.serialize import check_forest, from_columns, from_json, leaf_columns, node_columns, to_json
from dpsql.trees.voting import VotingForest
from tests.rows import any_forest, random_table
from tests.tables import small_forest, voting

LEFT = Schema("y", ("no", "yes"), (Numeric("x", 0, 1), Categorical("c", ("a", "b", "d"))))
#: More values than one axis holds, so that the features of the right do not start at their own number.
WIDE = Categorical("zip", tuple(map(str, range(200))))
RIGHT = Schema("y", ("no", "yes"), (WIDE, Numeric("z", -1, 1), Categorical("e", tuple("pqrstuvw"))))
BOTH = Schema("y", ("no", "yes"), LEFT.features + RIGHT.features)
TURNED = Schema("y", ("no", "yes"), RIGHT.features + LEFT.features)


def forest_of(schema: Schema, *, trees: int, depth: int, seed: int = 1, most: int = 4) -> VotingForest:
    """Return an irregular forest with weights of both signs."""
    return voting(
        any_forest(axes(schema), trees=trees, depth=depth, seed=seed, most=most), 2, seed=2 * seed + 1, most=9
    )


def scores(schema: Schema, released: VotingForest, columns: dict[str, list[object]]) -> list[list[int]]:
    """Return the scores of rows given by columns, of which the schema picks its own."""
    picked = {feature.name: columns[feature.name] for feature in schema.features}
    found: list[list[int]] = released.scores(grid_cells(schema, picked)).tolist()
    return found


@settings(max_examples=40)
@given(
    depths=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    mosts=st.tuples(st.sampled_from([2, 3, 9]), st.sampled_from([2, 3, 9])),
    seed=st.integers(0, 2**32),
)
def test_scores_are_sums(depths: tuple[int, int], mosts: tuple[int, int], seed: int) -> None:
    """A row's scores are the sums of both forests' scores, whatever their depths and numbers of planes."""
    one = forest_of(LEFT, trees=3, depth=depths[0], seed=seed, most=mosts[0])
    other = forest_of(RIGHT, trees=2, depth=depths[1], seed=seed + 1, most=mosts[1])
    columns = random_table(BOTH, 25, seed).columns
    expected = np.add(scores(LEFT, one, columns), scores(RIGHT, other, columns)).tolist()
    assert scores(BOTH, join_over_different_features(BOTH, one, other), columns) == expected
    assert scores(TURNED, join_over_different_features(TURNED, other, one), columns) == expected


@pytest.mark.parametrize(("first", "second"), [(1, 4), (4, 1), (0, 3), (3, 0), (0, 0), (2, 2)])
def test_each_row_takes_the_ways_it_took(first: int, second: int) -> None:
    """A row reaches the same leaves in the trees of both, those of the second numbered after the first's."""
    one, other = forest_of(LEFT, trees=3, depth=first), forest_of(RIGHT, trees=2, depth=second)
    columns = random_table(BOTH, 40, 7).columns
    grids = [grid_cells(schema, {f.name: columns[f.name] for f in schema.features}) for schema in (LEFT, RIGHT, BOTH)]
    joined = join_over_different_features(BOTH, one, other).forest
    moved = other.forest.route(grids[1]) + one.forest.leaves
    assert joined.route(grids[2]).tolist() == np.hstack([one.forest.route(grids[0]), moved]).tolist()


@pytest.mark.parametrize("turned", [False, True])
def test_levels_with_other_numbers_of_planes_fit(*, turned: bool) -> None:
    """A level of two-way splits beside one of many-way splits keeps the children of both, whichever is first."""
    pair = [Schema("y", ("no", "yes"), LEFT.features[:1]), Schema("y", ("no", "yes"), RIGHT.features[2:])]
    pair = pair[::-1] if turned else pair
    both = Schema("y", ("no", "yes"), pair[0].features + pair[1].features)
    parts = [voting(small_forest(schema, trees=4, depth=1), 2, seed=3, most=50) for schema in pair]
    assert len({len(part.forest.levels[0].planes) for part in parts}) == 2
    columns = random_table(both, 40, 5).columns
    expected = np.add(*(scores(schema, part, columns) for schema, part in zip(pair, parts, strict=True))).tolist()
    assert scores(both, join_over_different_features(both, *parts), columns) == expected


def test_trees_leaves_and_depth_add_up() -> None:
    """The joined forest has all trees and leaves, and the depth of the deeper one."""
    one, other = forest_of(LEFT, trees=3, depth=1), forest_of(RIGHT, trees=2, depth=4)
    joined = join_over_different_features(BOTH, one, other).forest
    assert (joined.trees, joined.depth) == (5, 4)
    assert joined.leaves == one.forest.leaves + other.forest.leaves
    assert joined.leaf_tree.tolist() == [*one.forest.leaf_tree.tolist(), *(other.forest.leaf_tree + 3).tolist()]


def test_the_joined_forest_is_sound_and_storable() -> None:
    """It passes the check of stored forests, and comes back the same from columns and from JSON."""
    joined = join_over_different_features(
        BOTH, forest_of(LEFT, trees=3, depth=1), forest_of(RIGHT, trees=2, depth=3, most=9)
    )
    check_forest(joined.forest)
    columns = from_columns(BOTH, 5, node_columns(joined.forest), leaf_columns(joined))
    assert columns.digest() == from_json(BOTH, to_json(joined)).digest() == joined.digest()


def test_three_forests_join_one_after_the_other() -> None:
    """Joining a joined forest with a third adds up all three."""
    third = Schema("y", ("no", "yes"), (Numeric("w", 0, 9),))
    every = Schema("y", ("no", "yes"), BOTH.features + third.features)
    parts = [
        (LEFT, forest_of(LEFT, trees=2, depth=3)),
        (RIGHT, forest_of(RIGHT, trees=1, depth=2)),
        (third, forest_of(third, trees=4, depth=1)),
    ]
    columns = random_table(every, 30, 3).columns
    joined = join_over_different_features(
        every, join_over_different_features(BOTH, parts[0][1], parts[1][1]), parts[2][1]
    )
    expected = sum(np.array(scores(schema, released, columns)) for schema, released in parts)
    assert scores(every, joined, columns) == np.asarray(expected).tolist()


def test_the_forests_themselves_stay() -> None:
    """Joining changes neither forest."""
    one, other = forest_of(LEFT, trees=3, depth=1), forest_of(RIGHT, trees=2, depth=4)
    before = one.digest(), other.digest()
    join_over_different_features(BOTH, one, other)
    assert (one.digest(), other.digest()) == before


def test_roots_alone_can_be_joined() -> None:
    """Two forests without any split give one without any split."""
    one, other = (VotingForest(Forest(axes(s), 1, ()), np.array([[k, 1]])) for k, s in enumerate((LEFT, RIGHT)))
    joined = join_over_different_features(BOTH, one, other)
    assert (joined.forest.depth, joined.weights.tolist()) == (0, [[0, 1], [1, 1]])


@settings(max_examples=40)
@given(
    depths=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    mosts=st.tuples(st.sampled_from([2, 3, 9]), st.sampled_from([2, 3, 9])),
    seed=st.integers(0, 2**32),
)
def test_trees_over_the_same_features_add_up(depths: tuple[int, int], mosts: tuple[int, int], seed: int) -> None:
    """Put together, forests over the same features score a row with the sum of both, whatever their depths."""
    one = forest_of(RIGHT, trees=3, depth=depths[0], seed=seed, most=mosts[0])
    other = forest_of(RIGHT, trees=2, depth=depths[1], seed=seed + 1, most=mosts[1])
    columns = random_table(RIGHT, 25, seed).columns
    joined = join_over_same_features(one, other)
    expected = np.add(scores(RIGHT, one, columns), scores(RIGHT, other, columns)).tolist()
    assert scores(RIGHT, joined, columns) == expected
    assert scores(RIGHT, join_over_same_features(other, one), columns) == expected
    assert (joined.forest.axes, joined.forest.trees) == (axes(RIGHT), 5)


@pytest.mark.parametrize(("first", "second"), [(1, 4), (4, 1), (0, 3), (0, 0)])
def test_trees_together_keep_their_ways(first: int, second: int) -> None:
    """Each row reaches the leaves it reached, and a sound forest stays sound: it can be stored and read back."""
    one, other = forest_of(LEFT, trees=3, depth=first), forest_of(LEFT, trees=2, depth=second, seed=2)
    grid = grid_cells(LEFT, random_table(LEFT, 40, 7).columns)
    joined = join_over_same_features(one, other)
    moved = other.forest.route(grid) + one.forest.leaves
    assert joined.forest.route(grid).tolist() == np.hstack([one.forest.route(grid), moved]).tolist()
    assert joined.forest.depth == max(first, second)
    check_forest(joined.forest)


def test_putting_trees_together_changes_neither_forest() -> None:
    """Both forests are as before, and the joint one is neither of them."""
    one, other = forest_of(LEFT, trees=3, depth=1), forest_of(LEFT, trees=2, depth=4)
    before = one.digest(), other.digest()
    joined = join_over_same_features(one, other)
    assert (one.digest(), other.digest()) == before
    assert joined.digest() not in before


@pytest.mark.parametrize(("first", "second"), [(1, 4), (4, 1), (0, 3), (3, 0), (0, 0)])
def test_structures_beside_each_other_keep_their_ways(first: int, second: int) -> None:
    """`beside` puts trees without votes next to each other: each row reaches the leaves it reached."""
    one, other = (forest_of(RIGHT, trees=t, depth=d, seed=t).forest for t, d in ((3, first), (2, second)))
    grid = grid_cells(RIGHT, random_table(RIGHT, 40, 7).columns)
    joined = join_trees(one, other)
    assert joined.route(grid).tolist() == np.hstack([one.route(grid), other.route(grid) + one.leaves]).tolist()
    assert (joined.trees, joined.depth, joined.leaves) == (5, max(first, second), one.leaves + other.leaves)
    assert joined.first_leaf.tolist() == [*one.first_leaf.tolist(), *(other.first_leaf[1:] + one.leaves).tolist()]
    check_forest(joined)
