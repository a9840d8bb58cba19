"""Why one row gets its label: contributions add up, are exact where trees read one feature, and read no table."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.errors import ParameterError, SchemaError, UnknownName
from dpsql.models.usable_model import Model
from dpsql.schema import Boolean, Numeric, Schema, Target
from dpsql.trees.grid import axes
from dpsql.trees.grow.random_trees import random_forest
from dpsql.trees.voting import VotingForest
from tests.models.explain.made import NAT, card, naive_bayes
from tests.models.explain.test_class_profiles import PEOPLE, people

ROW = {"kin": "Husband", "age": 40, "owner": "true", "sign": "ram"}


@pytest.fixture(scope="module")
def model() -> Model:
    """Make a model of one-feature trees."""
    return naive_bayes(PEOPLE, people(5_000), scale=3)


def deep_model(seed: int, classes: int = 3, nat: int = 0, target: Target | None = None) -> Model:
    """Return a model of random trees of depth 4 with random weights."""
    features = (Numeric("x", 0, 1), Numeric("y", 0, 1), Boolean("z"), Numeric("w", 0, 1))
    names = () if target else tuple("abcde"[:classes])
    schema = Schema("label", names, features, target=target)
    forest = random_forest(axes(schema), trees=5, depth=4, seed=seed)
    generator = np.random.default_rng(seed)
    weights = generator.integers(1, 1000, (forest.leaves, 2 if target else classes))
    released = VotingForest(forest, weights.astype(np.int64), nat=nat)
    return Model("deep", "rdt", "t", schema, released, card(released))


def test_contributions_of_one_feature_trees_are_exact(model: Model) -> None:
    """A feature's is the score of its tree at this value less the average over the background."""
    why = model.explain_row(ROW)
    assert (why.prediction, why.against, why.unit) == ("high", "low", "nats")
    by_name = {each.feature: each.effect for each in why.contributions}
    moved = model.explain_row({**ROW, "kin": "Child"})
    there, here = ({each.feature: each for each in one.contributions} for one in (moved, why))
    direction = 1 if moved.prediction == why.prediction else -1
    cells = [model.cells(pd.DataFrame([row])) for row in (ROW, {**ROW, "kin": "Child"})]
    margins = [np.subtract(*model.released.scores(cell)[0][::-1]) / NAT for cell in cells]
    assert by_name["kin"] - direction * there["kin"].effect == pytest.approx(margins[0] - margins[1])
    assert direction * there["age"].effect == pytest.approx(here["age"].effect)


def test_the_label_is_that_of_predict(model: Model) -> None:
    """The prediction and its probability are those of the model."""
    why, frame = model.explain_row(ROW), pd.DataFrame([ROW])
    assert why.prediction == model.predict(frame)[0]
    assert why.probability == pytest.approx(model.predict_proba(frame)[why.prediction][0])
    assert math.log(why.probability / (1 - why.probability)) == pytest.approx(why.score)


@given(
    seed=st.integers(0, 50),
    kind=st.sampled_from(["votes", "nats", "number"]),
    x=st.floats(-1, 2),
    w=st.none() | st.floats(0, 1),
    z=st.sampled_from(["true", "false", None]),
)
def test_contributions_always_add_up(seed: int, kind: str, x: float, w: float | None, z: str | None) -> None:
    """Average and contributions sum to the score of the row, for deep trees of votes, of log-scores and of numbers."""
    model = deep_model(seed, nat=100 if kind == "nats" else 0, target=Target(-5, 20) if kind == "number" else None)
    row = {"x": x, "y": 0.3, "z": z, "w": w}
    why = model.explain_row(row)
    assert why.average + sum(each.effect for each in why.contributions) == pytest.approx(why.score, abs=1e-6)
    frame = pd.DataFrame([row]).astype(object)
    if kind == "number":
        assert why.score == pytest.approx(model.predict(frame)[0])
    elif kind == "votes":
        assert why.score == pytest.approx(model.predict_proba(frame)[why.prediction][0])
        assert f"Votes for {why.prediction}: {100 * why.score:+.1f} % = " in str(why)
    else:
        scores = np.sort(model.scores(frame)[0])
        assert 100 * why.score == pytest.approx(scores[-1] - scores[-2])


def test_two_features_a_tree_give_exact_shapley_values() -> None:
    """A feature's contribution is the mean over backgrounds of what it adds alone and what it adds last, halved."""
    schema = Schema("label", ("a", "b"), (Numeric("x", 0, 1), Numeric("y", 0, 1)))
    forest = random_forest(axes(schema), trees=4, depth=5, seed=3)
    weights = np.random.default_rng(3).integers(1, 1000, (forest.leaves, 2))
    released = VotingForest(forest, weights.astype(np.int64), nat=1)
    model = Model("two", "rdt", "t", schema, released, card(released))
    rows = pd.DataFrame({"x": np.linspace(0, 1, 50), "y": np.linspace(1, 0, 50) ** 2})
    row = {"x": 0.7, "y": 0.2}
    why = model.explain_row(row, rows)
    sign = 1 if why.prediction == "a" else -1

    def margin(frame: pd.DataFrame) -> np.ndarray:
        scores = model.scores(frame)
        return sign * (scores[:, 0] - scores[:, 1])

    base, own = margin(rows), margin(pd.DataFrame([row]))[0]
    alone, last = margin(rows.assign(x=0.7)) - base, own - margin(rows.assign(y=0.2))
    found = next(each.effect for each in why.contributions if each.feature == "x")
    assert len(axes(schema)) == 2
    assert found == pytest.approx(((alone + last) / 2).mean())


def test_what_is_left_out_counts_as_null(model: Model) -> None:
    """A row without a feature is explained as one that has NULL there, and says so."""
    short = {name: value for name, value in ROW.items() if name != "age"}
    why, full = model.explain_row(short), model.explain_row({**ROW, "age": None})
    assert (why.missing, full.missing) == (("age",), ())
    assert why.contributions == full.contributions
    assert "Not given, so NULL: age" in str(why)


def test_the_text_shows_the_largest_first(model: Model) -> None:
    """One line a feature, largest first; `top` puts the others into one line."""
    why = model.explain_row(pd.Series(ROW))
    sizes = [abs(each.effect) for each in why.contributions]
    assert sizes == sorted(sizes, reverse=True)
    assert 'Why "made" predicts income high (probability' in str(why)
    assert "  3 more" in why.text(top=1)


@pytest.mark.parametrize(
    ("row", "kind"), [({}, UnknownName), ({"a": 1}, UnknownName), ([1], ParameterError), ({"age": "old"}, SchemaError)]
)
def test_what_is_no_row_is_refused(model: Model, row: object, kind: type[Exception]) -> None:
    """A row needs at least one feature, and numbers where the model splits by size."""
    with pytest.raises(kind):
        model.explain_row(row)  # type: ignore[arg-type]
