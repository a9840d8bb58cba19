"""Reading naive Bayes and trees together: each mixture is the sum it says, and a picked one keeps its scores."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.operations import Pick, Size
from dpsql.kernel.plan import Step
from dpsql.methods.auto.mixture_list import (
    COMMON,
    FACTOR_ONE,
    POINTS_PER_NAT,
    PREFERRED,
    STRONG,
    STRONG_FROM,
    WEAK,
    Choice,
    MixtureParts,
    choices,
    mixture_forest,
    mixtures,
    reader_forest,
)
from dpsql.trees.grid import axes, grid_cells
from dpsql.trees.grow.one_feature import one_feature_trees
from dpsql.trees.voting import VotingForest
from tests.kernel.helpers import held, session
from tests.rows import any_forest, random_table
from tests.tables import SCHEMA, mixture_weights, some_rows

KINDS = ("likely", "likely", "quantile", "data")
GRID = axes(SCHEMA)
CELLS = grid_cells(SCHEMA, random_table(SCHEMA, 80, 3).columns)


def mixture_parts(kinds: tuple[str, ...] = KINDS, seed: int = 1) -> MixtureParts:
    """Return a release that could have been: any lifts, irregular trees."""
    generator = np.random.default_rng(seed)
    stumps, trees = one_feature_trees(GRID, 8), any_forest(GRID, trees=len(kinds), depth=3, seed=seed)
    prior = np.log([0.5, 0.3, 0.2])
    lifts = [generator.normal(0, 1, (forest.leaves, 3)) for forest in (stumps, trees)]
    return MixtureParts(prior, stumps, lifts[0], trees, lifts[1], kinds)


def plain_scores(one: MixtureParts, choice: Choice) -> NDArray[np.int64]:
    """Return the scores of a mixture in plain sums: the prior, the factor of each stump's lift, that of each tree."""
    a, b, kind = choice
    points = [
        np.rint(lifts * POINTS_PER_NAT).astype(np.int64) for lifts in (one.prior, one.stump_lifts, one.tree_lifts)
    ]
    heard = [number for number, name in enumerate(one.kinds) if kind in ("", name)]
    total = np.tile(points[0] * FACTOR_ONE, (len(CELLS), 1))
    for leaf in one.stumps.route(CELLS).T:
        total += round(a * FACTOR_ONE) * points[1][leaf]
    for number, leaf in enumerate(one.trees.route(CELLS).T):
        if number in heard:
            total += round(b * FACTOR_ONE / len(heard)) * points[2][leaf]
    return total


EVERY = pytest.mark.parametrize("number", range(len(choices(KINDS, STRONG_FROM))))


@EVERY
def test_every_mixture_is_the_sum_it_says(number: int) -> None:
    """Prior, naive Bayes and trees add up with the factors of the list, in whole numbers."""
    one = mixture_parts()
    usual = (*STRONG, "")
    found = mixtures(one, choices(KINDS, STRONG_FROM), usual)
    scores = VotingForest(found.released.forest, mixture_weights(found, number)).scores(CELLS)
    assert scores.tolist() == plain_scores(one, choices(KINDS, STRONG_FROM)[number]).tolist()


@EVERY
def test_the_picked_forest_drops_silent_trees_and_scores_the_same(number: int) -> None:
    """A mixture as a forest of its own has the same scores, without the trees that it does not listen to."""
    one = mixture_parts()
    a, b, kind = choices(KINDS, STRONG_FROM)[number]
    found = reader_forest(one, (a, b, kind))
    assert found.scores(CELLS).tolist() == plain_scores(one, (a, b, kind)).tolist()
    heard = sum(kind in ("", name) for name in KINDS) if b else 0
    assert found.forest.trees == (one.stumps.trees if a else 0) + heard
    assert found.nat == POINTS_PER_NAT * FACTOR_ONE


def test_scores_are_logarithms() -> None:
    """With naive Bayes alone, probabilities are the prior times the exponentials of the lifts."""
    one = mixture_parts()
    found = reader_forest(one, (1, 0, ""))
    lifts = one.stump_lifts[one.stumps.route(CELLS)].sum(axis=1)
    expected = np.exp(one.prior + lifts)
    shares = found.shares(found.scores(CELLS))
    assert shares == pytest.approx(expected / expected.sum(axis=1, keepdims=True), abs=0.01)


def test_the_list_is_short_public_and_without_doubles() -> None:
    """It follows from the kinds of trees alone; the mixtures that need no asking are on it."""
    found = choices(KINDS, STRONG_FROM)
    assert len(set(found)) == len(found) < 40
    assert {(*STRONG, ""), (*WEAK, "")} <= set(found)
    assert {kind for _, _, kind in found} == {"", *KINDS}
    assert found == choices(("likely", "quantile", "data"), STRONG_FROM)
    assert choices(KINDS, STRONG_FROM - 1) == [one for one in found if not one[2]]


def test_public_weights_prefer_the_usual() -> None:
    """The usual mixture weighs most, those of one kind least; all of them can be picked."""
    usual = (*WEAK, "")
    weights = mixtures(mixture_parts(), choices(KINDS, STRONG_FROM), usual).weights
    for choice, weight in zip(choices(KINDS, STRONG_FROM), weights.tolist(), strict=True):
        assert weight == (PREFERRED if choice == usual else COMMON if not choice[2] else 1)


@pytest.mark.parametrize(("strength", "factors"), [(STRONG_FROM - 1, WEAK), (STRONG_FROM, STRONG)])
def test_without_asking_the_usual_mixture_is_read(strength: float, factors: tuple[float, float]) -> None:
    """No step is used; facts say which reader it is, and the forest is that of the mixture."""
    opened = session(held(some_rows()), Step("other", Size(), 5))
    mixed = mixture_forest(opened, mixture_parts(), ask=False, strength=strength)
    assert mixed.facts["reader"] == {"naive_bayes": factors[0], "trees": factors[1], "kind": ""}
    assert mixed.forest.scores(CELLS).tolist() == plain_scores(mixture_parts(), (*factors, "")).tolist()
    assert repr(opened) == "<Session: 1 of 1 steps left>"


def test_the_reader_that_labels_most_rows_right_is_picked() -> None:
    """With much epsilon the picked forest gets as many rows right as the best of all."""
    one = mixture_parts()
    rows = some_rows(60)
    opened = session(held(rows), Step("pick", Pick(), 10**13, cells=len(choices(KINDS, STRONG_FROM))))
    picked = mixture_forest(opened, one, ask=True, strength=1.0)
    frame = {"c": [row[2] for row in rows], "x": [row[1] for row in rows]}
    grid, truth = grid_cells(SCHEMA, frame), np.array([row[3] for row in rows])
    names = np.array(SCHEMA.classes)
    right = [
        int((names[reader_forest(one, choice).predict(grid)] == truth).sum()) for choice in choices(KINDS, STRONG_FROM)
    ]
    assert int((names[picked.forest.predict(grid)] == truth).sum()) == max(right) > min(right)
    chosen = picked.facts["reader"]
    assert (chosen["naive_bayes"], chosen["trees"], chosen["kind"]) in choices(KINDS, STRONG_FROM)
