"""Objectives: which classes a choice listens to, what it asks the kernel, and what the model then says."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpsql
from dpsql.errors import ParameterError
from dpsql.methods.auto.mixture_list import (
    FACTOR_ONE,
    PREFERRED,
    RARE_PREFERRED,
    STRONG,
    STRONG_FROM,
    WEAK,
    choices,
    mixtures,
    usual_mixture,
)
from dpsql.methods.auto.objectives import (
    GAIN_ONE,
    OBJECTIVES,
    balance_scores,
    balance_votes,
    choose_objective,
    class_gains,
    exponents,
)
from dpsql.trees.estimate.mixtures import LARGEST_GAIN
from dpsql.trees.voting import VotingForest
from tests.methods.auto.test_mixture_list import CELLS, KINDS, mixture_parts
from tests.tables import mixture_weights

USUAL_CHOICE = (0.6, 1, "")


def test_every_objective_asks_for_something_within_the_largest_gain() -> None:
    """The gains of all λ of an objective together are no more than a row may be worth."""
    for objective in OBJECTIVES[1:]:
        gains = [class_gains(exponent, np.log([0.99, 0.008, 0.002])) for exponent in exponents(objective)]
        assert np.sum(gains, axis=0).max() <= LARGEST_GAIN
        assert min(map(min, gains)) >= 1


def test_rare_classes_gain_more() -> None:
    """With λ = 1 the gains of all rows of a class add up to the same, with λ = 0 all rows gain alike."""
    shares = np.array([0.5, 0.3, 0.2])
    assert (class_gains(1, np.log(shares)) * shares).tolist() == pytest.approx([0.2 * GAIN_ONE] * 3, rel=0.01)
    assert class_gains(0, np.log(shares)).tolist() == [GAIN_ONE] * 3


@pytest.mark.parametrize(("share", "objective"), [(0.79, "accuracy"), (0.81, "auc")])
def test_usual_follows_the_noisy_shares(share: float, objective: str) -> None:
    """Where one class has 80 % of the rows, the usual objective is AUC; what is asked for by name is kept."""
    log_shares = np.log([share, 1 - share])
    assert choose_objective("usual", log_shares) == objective
    assert choose_objective("balanced", log_shares) == "balanced"


@pytest.mark.parametrize(
    ("objective", "rarest", "strength", "factors"),
    [
        ("auc", 0.1, 2400, WEAK),
        ("auc", 0.1, 2600, STRONG),
        ("auc", 0.5, 1400, WEAK),
        ("auc", 0.5, 1600, STRONG),
        ("accuracy", 0.1, 1600, STRONG),
        ("accuracy", 0.1, 1400, WEAK),
    ],
)
def test_for_auc_the_usual_mixture_follows_the_rows_of_the_rarest_class(
    objective: str, rarest: float, strength: float, factors: tuple[float, float]
) -> None:
    """Trees are trusted more where the rarest class, too, has rows enough; for accuracy all rows count."""
    assert usual_mixture(strength, objective, np.log([1 - rarest, rarest])) == (*factors, "")


def test_auc_asks_each_mixture_with_and_without_the_shares() -> None:
    """Each option has two mixtures: the scores as they are, and with the logs of the classes' shares taken off."""
    parts, offered = mixture_parts(), choices(KINDS, STRONG_FROM)
    plain, both = (mixtures(parts, offered, USUAL_CHOICE, objective) for objective in ("accuracy", "auc"))
    place = offered.index(USUAL_CHOICE)
    assert np.delete(both.weights, place).tolist() == np.delete(plain.weights, place).tolist()
    assert (plain.weights[place], both.weights[place]) == (PREFERRED, RARE_PREFERRED)
    assert both.option_of_mixture.tolist() == 2 * list(range(len(offered)))
    assert both.largest_gain == 2 * GAIN_ONE
    for number in (0, 7, len(offered) - 1):
        as_is, without = (
            VotingForest(both.released.forest, mixture_weights(both, place)).scores(CELLS)
            for place in (number, number + len(offered))
        )
        prior = np.rint(1024 * parts.prior).astype(int) * FACTOR_ONE
        assert (as_is - without).tolist() == [prior.tolist()] * len(CELLS)


def test_balanced_scores_and_votes_give_all_classes_the_same_say() -> None:
    """A class gains by as much as it is rarer: probabilities are divided by the classes' shares."""
    released = mixtures(mixture_parts(), choices(KINDS, 0), (1, 0.5, "")).released
    released = VotingForest(released.forest, released.weights, nat=1024)
    shares = np.array([0.5, 0.3, 0.2])
    before, after = (each.shares(each.scores(CELLS)) for each in (released, balance_scores(released, np.log(shares))))
    expected = before / shares
    assert after == pytest.approx(expected / expected.sum(axis=1, keepdims=True), abs=0.01)
    votes = VotingForest(released.forest, np.abs(released.weights))
    assert balance_votes(votes, np.log(shares)).weights == pytest.approx(votes.weights * 0.2 / shares, abs=0.51)


@pytest.fixture(scope="module")
def skewed() -> pd.DataFrame:
    """Return rows of which about an eighth are "yes": likelier where x and z are large."""
    draw = np.random.default_rng(4)
    x, z = draw.random((2, 6000))
    y = np.where(draw.random(6000) < 0.6 * x**2 * z + 0.01, "yes", "no")
    return pd.DataFrame({"x": x, "z": z, "y": y})


def test_balanced_models_find_more_of_the_rare_class(skewed: pd.DataFrame) -> None:
    """With the same data the objective decides how often the rare class is named; the certificate says which it was."""
    with dpsql.connect(duckdb.connect()) as db:
        db.engine.connection.execute("CREATE TABLE people AS FROM skewed")
        features = {name: {"type": "numeric", "lower": 0, "upper": 1} for name in "xz"}
        schema = {"label": "y", "classes": ["no", "yes"], "rows": len(skewed), "features": features}
        db.register("people", schema, cap=1000, allow_large=True)
        named = {}
        for objective in ("usual", "accuracy", "balanced"):
            model = db.train("people", epsilon=60, objective=objective, allow_large=True)
            named[objective] = (model.predict(skewed) == "yes").mean()
            facts = {"usual": "auc"}.get(objective, objective)
            assert model.certificate["facts"]["objective"] == facts
            assert model.certificate["plan"]["parameters"]["objective"] == objective
        assert named["balanced"] > named["accuracy"] + 0.1
        assert abs(named["usual"] - named["accuracy"]) < 0.1


def test_unknown_objectives_are_refused(skewed: pd.DataFrame) -> None:
    """The error lists the objectives, and nothing is charged."""
    with dpsql.connect(duckdb.connect()) as db:
        db.engine.connection.execute("CREATE TABLE people AS FROM skewed")
        schema = {
            "label": "y",
            "classes": ["no", "yes"],
            "features": {"x": {"type": "numeric", "lower": 0, "upper": 1}},
        }
        db.register("people", schema, cap=1)
        with pytest.raises(ParameterError, match="accuracy, balanced, auc, log-loss"):
            db.train("people", objective="f1")
        assert db.budget("people").spent == 0
