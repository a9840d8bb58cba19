"""Importance: what no tree reads has none, what decides alone has all, what matters comes first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpsql.api.database import connect
from dpsql.models.explain import background as backgrounds
from dpsql.models.usable_model import Model
from dpsql.schema import Boolean, Categorical, Numeric, Schema, Target
from dpsql.trees.forest import Forest, Level, bits
from dpsql.trees.grid import axes
from dpsql.trees.grow.random_trees import random_forest
from dpsql.trees.voting import VotingForest
from tests.models.explain.made import card, naive_bayes
from tests.tables import model_of, voting

MIXED = Schema(
    "y", ("no", "yes"), (Numeric("x", 0, 64), Categorical("c", ("a", "b", "d")), Boolean("flag"), Numeric("z", 0, 1))
)


def one_split(schema: Schema, axis: int, cells: list[int], weights: list[list[int]]) -> Model:
    """Return a model of one tree with one split: these cells go right."""
    taken = np.isin(np.arange(64), cells)[None, :]
    level = Level(np.array([axis], np.int16), np.array([2], np.uint8), bits(taken)[None, :])
    return model_of(VotingForest(Forest(axes(schema), 1, (level,)), np.array(weights)), schema)


@pytest.mark.parametrize("position", range(4))
def test_a_feature_that_alone_decides_has_all(position: int) -> None:
    """The one feature that a tree splits has importance 1, each other exactly 0, and only it is read."""
    learned = one_split(MIXED, position, [1], [[1, 0], [0, 1]]).explain()
    assert learned.effects[0].feature == MIXED.features[position].name
    assert [effect.importance for effect in learned.effects] == [1.0, 0.0, 0.0, 0.0]
    assert [effect.read for effect in learned.effects] == [True, False, False, False]


def test_leaves_that_say_the_same_make_nothing_important() -> None:
    """A split whose branches agree moves no prediction; the summary says that nothing does."""
    learned = one_split(MIXED, 0, [1], [[1, 0], [1, 0]]).explain()
    assert list(learned.importance) == [0.0] * 4
    assert "nothing: it predicts the same for every row" in str(learned)


def test_importance_sums_to_one_and_falls() -> None:
    """Shares of a random forest are at least 0, sum to 1 and come in falling order."""
    forest = random_forest(axes(MIXED), trees=7, depth=4, seed=3)
    found = model_of(voting(forest, 2, seed=3, most=50), MIXED).explain().importance
    assert found.sum() == pytest.approx(1)
    assert found.min() >= 0
    assert list(found) == sorted(found, reverse=True)


def test_importance_is_the_variance_that_a_feature_makes() -> None:
    """On a grid small enough to list, the share of a feature is the total effect worked out by hand.

    The share of "yes" is a sum: 0.4 with c = b, and 0.2 with a true flag. Their variances, each value of c and of
    the flag equally likely, are 0.16 · 2/9 and 0.04 · 1/4.
    """
    schema = Schema("y", ("no", "yes"), (Categorical("c", ("a", "b", "d")), Boolean("flag")))
    taken = np.zeros((2, 64), bool)
    taken[:, 1] = True
    level = Level(np.array([0, 1], np.int16), np.array([2, 2], np.uint8), bits(taken)[None, :])
    weights = np.array([[5, 0], [1, 4], [5, 0], [3, 2]])
    found = model_of(VotingForest(Forest(axes(schema), 2, (level,)), weights), schema).explain().importance
    expected = np.array([0.16 * 2 / 9, 0.04 / 4])
    assert found.to_numpy() == pytest.approx(expected / expected.sum())


def test_a_digit_of_a_wide_category_counts_for_the_category() -> None:
    """A split of the second base-64 digit is the wide category's, and its profile names values of that digit."""
    schema = Schema("y", ("no", "yes"), (Categorical("zip", tuple(f"z{k}" for k in range(200))), Numeric("x", 0, 1)))
    learned = one_split(schema, 1, [2], [[1, 0], [0, 1]]).explain()
    assert learned.importance["zip"] == 1
    assert learned.profile("yes").reasons[0].text == "zip is z128, z129, z130 or 61 more"
    assert tuple(range(128, 192)) in [group.cells for group in learned.effect("zip").groups]


def test_interactions_count() -> None:
    """Two features that decide only together (exclusive or) are both important, though neither is alone."""
    schema = Schema("y", ("no", "yes"), (Boolean("a"), Boolean("b"), Boolean("idle")))
    mask = bits(np.isin(np.arange(64), [1])[None, :])
    root = Level(np.array([0], np.int16), np.array([2], np.uint8), mask[None, :])
    below = Level(np.array([1, 1], np.int16), np.array([2, 2], np.uint8), np.repeat(mask, 2)[None, :])
    released = VotingForest.majority(Forest(axes(schema), 1, (root, below)), np.array([0, 1, 1, 0]), 2)
    found = model_of(released, schema).explain().importance
    assert found["a"] == pytest.approx(0.5)
    assert found["b"] == pytest.approx(0.5)
    assert found["idle"] == 0


def test_the_same_model_is_explained_in_the_same_words() -> None:
    """Made-up rows come from a fixed seed: two looks are equal."""
    model = model_of(voting(random_forest(axes(MIXED), trees=5, depth=3, seed=1), 2, most=9), MIXED)
    assert model.explain() == model.explain()


def synthetic(rows: int = 6000, seed: int = 5) -> tuple[Schema, pd.DataFrame]:
    """Return rows of eight numbers: the first three matter (4 : 2 : 1), the others do not."""
    generator = np.random.default_rng(seed)
    numbers = generator.random((rows, 8))
    score = 4 * numbers[:, 0] + 2 * numbers[:, 1] + numbers[:, 2] - 3.5 + generator.logistic(0, 0.15, rows)
    frame = pd.DataFrame(numbers, columns=[f"x{k}" for k in range(8)])
    frame["y"] = np.where(score > 0, "yes", "no")
    return Schema("y", ("no", "yes"), tuple(Numeric(f"x{k}", 0, 1) for k in range(8)), rows=rows), frame


@pytest.mark.parametrize("method", ["rdt", "spe", "fs", "maxtree", "rosnam"])
def test_what_matters_comes_first(method: str) -> None:
    """Of eight features the two that matter most come first, in their order, whatever the method."""
    schema, frame = synthetic()
    depth = {"rosnam": 6, "rdt": 6, "spe": 6}.get(method)
    with connect(":memory:") as db:
        db.engine.create("t", _all("rows_"), {"rows_": frame})
        db.register("t", schema, cap=100)
        model = db.train("t", epsilon=30, method=method, **({} if depth is None else {"depth": depth, "trees": 30}))
        found = model.explain().importance
    assert list(found.index[:2]) == ["x0", "x1"]
    assert found["x0"] > 0.3


def _all(name: str) -> Any:
    from sqlglot import exp

    return exp.select("*").from_(name)


class Scored:
    """A released model as scikit-learn's inspection wants it."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def fit(self, *_: object) -> Scored:
        """Return itself: the model is released already."""
        return self

    def loss(self, _: Scored, frame: pd.DataFrame, labels: pd.Series) -> float:
        """Return minus the squared error of the probability of "yes"."""
        shares = np.exp(self.model.scores(frame) / 1000)
        return -float(np.mean((shares[:, 1] / shares.sum(axis=1) - (labels == "yes")) ** 2))


def test_importance_agrees_with_permutation_on_held_out_rows() -> None:
    """scikit-learn's permutation importance on rows the model never saw puts the features in the same order."""
    schema, frame = synthetic()
    model = naive_bayes(schema, frame[:4000], scale=5)
    scored = Scored(model)
    held_out = frame[4000:]
    features = [feature.name for feature in schema.features]
    inspection = pytest.importorskip("sklearn.inspection")
    found = inspection.permutation_importance(
        scored, held_out[features], held_out["y"], scoring=scored.loss, n_repeats=5, random_state=0
    )
    ours = model.explain().importance
    theirs = pd.Series(found.importances_mean, index=features)
    assert list(ours.index[:3]) == list(theirs.sort_values(ascending=False).index[:3]) == ["x0", "x1", "x2"]
    assert ours[["x3", "x4", "x5", "x6", "x7"]].sum() < 0.05
    assert (ours / ours.max() - (theirs / theirs.max())[ours.index]).abs().max() < 0.2


def test_counts_in_leaves_tell_how_often_values_occur() -> None:
    """Where leaves hold noisy counts the background follows them: rows are where the counts are."""
    schema = Schema("y", ("no", "yes"), (Boolean("flag"), Boolean("idle")))
    mask = np.repeat(bits(np.isin(np.arange(64), [1])[None, :]), 3)
    level = Level(np.zeros(3, np.int16), np.full(3, 2, np.uint8), mask[None, :])
    weights = np.array([[89, 1], [12, -2]] * 3)
    learned = model_of(VotingForest(Forest(axes(schema), 3, (level,)), weights), schema).explain()
    assert learned.background == backgrounds.LEAVES
    mass = {group.text: group.mass for group in learned.effect("flag").groups}
    assert mass == pytest.approx({"false": 0.9, "true": 0.1, "unknown or NULL": 0})


def test_public_rows_say_how_often_values_occur() -> None:
    """A background of the caller's own is taken as it is; values that it lacks have no share."""
    model = one_split(MIXED, 1, [1], [[1, 0], [0, 1]])
    rows = pd.DataFrame({"x": [1.0] * 4, "c": ["a", "a", "a", "b"], "flag": [True] * 4, "z": [0.5] * 4})
    learned = model.explain(rows)
    assert learned.background == backgrounds.PUBLIC
    assert {group.text: group.mass for group in learned.effect("c").groups} == {
        "a": 0.75, "b": 0.25, "d": 0.0, "unknown or NULL": 0.0
    }  # fmt: skip
    assert learned.profile("yes").share == pytest.approx(0.25)


def test_scores_in_nats_become_shares_by_their_exponential() -> None:
    """A forest whose weights are log-scores predicts the softmax of their sums."""
    schema = Schema("y", ("no", "yes"), (Boolean("flag"),))
    frame = pd.DataFrame(
        {"flag": [True] * 30 + [False] * 70, "y": ["yes"] * 27 + ["no"] * 3 + ["no"] * 63 + ["yes"] * 7}
    )
    model = naive_bayes(schema, frame, scale=1e-9)
    bare = Model("bare", "auto", "t", schema, model.released, card(model.released))
    said = {group.text: group.values[1] for group in bare.explain().effect("flag").groups}
    assert said["true"] == pytest.approx(0.9, abs=0.03)
    assert said["false"] == pytest.approx(0.1, abs=0.03)


def test_a_number_is_explained_in_its_own_units() -> None:
    """A regression model has importance, predicted numbers, and what makes them high and low."""
    schema = Schema("y", (), MIXED.features, target=Target(0, 10))
    learned = one_split(schema, 0, list(range(32, 64)), [[9, 1], [1, 9]]).explain()
    assert learned.effects[0].importance == 1
    assert [group.values for group in learned.effect("x").groups] == [(pytest.approx(1.0),), (pytest.approx(9.0),)]
    assert learned.profile("high").reasons[0].text == "x ≥ 32"
    assert learned.profile("high").reasons[0].effect == pytest.approx(4)
    assert learned.profile("low").reasons[0].text == "x < 32"
    assert "What makes y high" in str(learned)
