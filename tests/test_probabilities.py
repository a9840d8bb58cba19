"""Probabilities: log-scores are softmaxed the same in Python and SQL, survive storage, and decide by thresholds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpsql
from dpsql.api.database import Database
from dpsql.errors import ParameterError, SchemaError, UnknownName, UsageError
from dpsql.models.usable_model import Model
from dpsql.trees.join import join_over_same_features
from dpsql.trees.voting import VotingForest
from tests.tables import SCHEMA, TARGET, fill, frame_of, memory, model_of, rows_of, run, small_forest, some_rows

NEW = some_rows(40)
NAT = 1000
CLASSES = list(SCHEMA.classes)


def log_scores(*, nat: int = NAT, spread: int = 2000, seed: int = 3) -> VotingForest:
    """Return a forest whose leaves hold log-scores, most of them negative."""
    forest = small_forest(trees=4, depth=3)
    weights = np.random.default_rng(seed).integers(-spread, spread // 4, (forest.leaves, 3))
    return VotingForest(forest, weights, nat)


def votes(seed: int = 4) -> VotingForest:
    """Return a forest of votes, some negative, so that some rows have no positive score at all."""
    forest = small_forest(trees=3, depth=3)
    return VotingForest(forest, np.random.default_rng(seed).integers(-6, 4, (forest.leaves, 3)))


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """Open a database with the table "fresh" of new rows."""
    with memory() as opened:
        fill(opened.engine, "fresh", NEW)
        yield opened


@pytest.fixture(scope="module", params=["log-scores", "extreme log-scores", "votes"])
def model(request: pytest.FixtureRequest, database: Database) -> Model:
    """Return models on the shelf whose scores mean different things."""
    released = {
        "log-scores": log_scores(),
        "extreme log-scores": log_scores(nat=1, spread=2**35),
        "votes": votes(),
    }[request.param]
    return database.add(model_of(released, SCHEMA, request.param))


def by_hand(model: Model) -> np.ndarray[Any, Any]:
    """Return the probabilities of the new rows, by the definition."""
    scores = model.scores(frame_of(NEW)).astype(float)
    if model.released.nat:
        powers = np.exp((scores - scores.max(axis=1, keepdims=True)) / model.released.nat)
        return powers / powers.sum(axis=1, keepdims=True)
    positive = np.maximum(scores, 0)
    total = positive.sum(axis=1, keepdims=True)
    return np.where(total > 0, positive / np.maximum(total, 1), 1 / 3)


def test_python_and_sql_agree(model: Model) -> None:
    """DataFrame and table give the same probabilities to 1e-12, whatever the scores; each row adds up to 1."""
    here = model.predict_proba(frame_of(NEW)).to_numpy()
    there = model.predict_proba("fresh")[[f"p_{name}" for name in CLASSES]].to_numpy(float)
    assert np.abs(here - by_hand(model)).max() < 1e-12
    assert np.abs(there - here).max() < 1e-12
    assert np.allclose(here.sum(axis=1), 1)


def test_the_label_is_the_most_probable_class(model: Model) -> None:
    """No class is more probable than the one that is named."""
    shares = model.predict_proba(frame_of(NEW))
    named = model.labels(frame_of(NEW))
    assert all(shares.iloc[row][name] == shares.iloc[row].max() for row, name in enumerate(named))


def test_a_model_comes_back_with_its_meaning(model: Model, database: Database) -> None:
    """JSON and the shelf keep what a point of score means, so probabilities stay the same."""
    wanted = model.predict_proba(frame_of(NEW)).to_numpy()
    from_file = Model.from_json(model.to_json())
    from_shelf = database.model(model.name)
    for found in (from_file, from_shelf):
        assert found.released.nat == model.released.nat
        assert found.released.digest() == model.released.digest()
        assert (found.predict_proba(frame_of(NEW)).to_numpy() == wanted).all()


def test_an_old_model_has_votes(database: Database) -> None:
    """A model stored without a word on its scores has votes."""
    stored = database.add(model_of(votes(), SCHEMA, "old"))
    assert "nat" not in stored.certificate
    assert database.model("old").released.nat == 0


def test_the_digest_covers_the_meaning() -> None:
    """Another number of points per nat is another digest; votes keep the digest they always had."""
    one = log_scores()
    assert one.digest() != replace(one, nat=NAT + 1).digest() != replace(one, nat=0).digest()
    plain = VotingForest(one.forest, np.zeros((one.forest.leaves, 3), np.int64))
    assert plain.digest() == "ddb01d8bcd9c9a11e33824ba48fb8af461d1615a9b978212a15893d78b03dc8a"


def test_a_file_with_another_meaning_is_refused() -> None:
    """A JSON file whose `nat` was changed no longer fits its digest."""
    stored = json.loads(model_of(log_scores(), SCHEMA).to_json())
    for changed in (NAT + 1, 0):
        stored["forest"]["nat"] = changed
        with pytest.raises(SchemaError, match="digest"):
            Model.from_json(json.dumps(stored))


@pytest.mark.parametrize("nat", [-1, 1.5, True, "7", 2**41])
def test_a_broken_meaning_is_refused(nat: Any) -> None:
    """Points per nat are a whole number from 0."""
    with pytest.raises(SchemaError, match="whole number"):
        replace(log_scores(), nat=nat)


def test_scores_add_up_only_where_they_mean_the_same() -> None:
    """`plus` and joined forests keep the meaning of both, or refuse."""
    one = log_scores()
    assert one.plus(one).nat == join_over_same_features(one, one).nat == NAT
    for join in (one.plus, lambda other: join_over_same_features(one, other)):
        with pytest.raises(SchemaError, match="different things"):
            join(replace(one, nat=0))


@pytest.mark.parametrize("least", [0, 0.2, 0.34, 0.6, 1])
@pytest.mark.parametrize("name", CLASSES)
def test_a_threshold_decides(model: Model, name: str, least: float) -> None:
    """The class is named where it is probable enough, else the best of the others; SQL and Python agree."""
    shares, scores = model.predict_proba(frame_of(NEW)), model.scores(frame_of(NEW))
    others = [place for place, other in enumerate(CLASSES) if other != name]
    expected = [
        name
        if shares[name].iloc[row] >= least
        else CLASSES[max(others, key=lambda place: (scores[row, place], -place))]
        for row in range(len(NEW))
    ]
    assert model.predict(frame_of(NEW), threshold={name: least}).tolist() == expected
    assert model.predict("fresh", threshold={name: least})["prediction"].tolist() == expected


@pytest.mark.parametrize("weights", [{"yes": 3}, {"no": 0.2, "yes": 2.5}, dict.fromkeys(CLASSES, 4)])
def test_class_weights_decide(model: Model, weights: dict[str, float]) -> None:
    """The class whose weight times probability is the largest is named, in SQL too; equal weights change nothing."""
    shares = model.predict_proba(frame_of(NEW))
    weighed = shares * [weights.get(name, 1) for name in CLASSES]
    expected = weighed.idxmax(axis=1).tolist() if len(set(weights.values())) > 1 or len(weights) < 3 else None
    expected = model.predict(frame_of(NEW)).tolist() if expected is None else expected
    assert model.predict(frame_of(NEW), class_weight=weights).tolist() == expected
    assert model.predict("fresh", class_weight=weights)["prediction"].tolist() == expected


def test_a_heavy_class_is_named_everywhere_and_a_light_one_nowhere(model: Model) -> None:
    """A weight of a million names the class wherever it has a share, a millionth only where no other class has."""
    shares = model.predict_proba("fresh")
    named = model.predict("fresh", class_weight={"yes": 1e6})["prediction"] == "yes"
    assert named.tolist() == (shares["p_yes"] > 1e-4).tolist()
    light = model.predict("fresh", class_weight={"yes": 1e-6})["prediction"] == "yes"
    assert light.tolist() == (shares["p_yes"] > 0.9999).tolist()


def test_class_weights_go_into_a_new_table(model: Model, database: Database) -> None:
    """`into` keeps the labels that weights give."""
    run(database.engine, "DROP TABLE IF EXISTS weighed_labels")
    model.predict("fresh", into="weighed_labels", class_weight={"yes": 4})
    found = [row["prediction"] for row in rows_of(database.engine, "FROM weighed_labels ORDER BY rowid")]
    assert sorted(found) == sorted(model.predict(frame_of(NEW), class_weight={"yes": 4}))


@pytest.mark.parametrize("given", [{}, {"yes": 0}, {"yes": -1}, {"yes": float("inf")}, {"yes": "5"}, {"yes": True}, 5])
def test_broken_class_weights_are_refused(model: Model, given: Any) -> None:
    """A weight is a number from a millionth to a million."""
    for data in (frame_of(NEW), "fresh"):
        with pytest.raises(ParameterError):
            model.predict(data, class_weight=given)


def test_a_threshold_and_weights_do_not_go_together(model: Model) -> None:
    """Two ways to decide are one too many."""
    with pytest.raises(UsageError, match="two ways"):
        model.predict("fresh", threshold={"yes": 0.3}, class_weight={"yes": 2})


def test_a_threshold_goes_into_a_new_table(model: Model, database: Database) -> None:
    """`into` keeps the labels that the threshold gives."""
    run(database.engine, "DROP TABLE IF EXISTS decided")
    model.predict("fresh", into="decided", threshold={"yes": 0.2})
    found = [row["prediction"] for row in rows_of(database.engine, "FROM decided ORDER BY rowid")]
    assert sorted(found) == sorted(model.predict(frame_of(NEW), threshold={"yes": 0.2}))


@pytest.mark.parametrize("top", [1, 2, 3])
def test_the_top_classes_are_the_most_probable(model: Model, top: int) -> None:
    """`predict_top` lists classes by falling probability, the named one first; a table gives the same."""
    found = model.predict_top(frame_of(NEW), top)
    shares = model.predict_proba(frame_of(NEW))
    assert found["class_1"].tolist() == model.labels(frame_of(NEW)).tolist()
    for row in range(len(NEW)):
        listed = [found[f"probability_{place}"].iloc[row] for place in range(1, top + 1)]
        assert listed == sorted(shares.iloc[row], reverse=True)[:top]
        named = [found[f"class_{place}"].iloc[row] for place in range(1, top + 1)]
        assert [shares[name].iloc[row] for name in named] == listed
        assert len(set(named)) == top
    in_sql = model.predict_top("fresh", top)
    assert list(in_sql.columns[:2]) == ["person", "y"]
    for column in found.columns:
        if column.startswith("class"):
            assert in_sql[column].tolist() == found[column].tolist()
        else:
            assert np.allclose(in_sql[column].astype(float), found[column], atol=1e-12)


def test_a_file_gives_the_same(model: Model, tmp_path: Path) -> None:
    """Files are decided as tables are."""
    path = tmp_path / "new.csv"
    frame_of(NEW).to_csv(path, index=False)
    labels = model.predict(path, threshold={"yes": 0.2})["prediction"].tolist()
    assert labels == model.predict(frame_of(NEW), threshold={"yes": 0.2}).tolist()
    assert model.predict_top(path, 2)["class_2"].tolist() == model.predict_top(frame_of(NEW), 2)["class_2"].tolist()


@pytest.mark.parametrize(
    "given", [{}, {"yes": 0.1, "no": 0.1}, {"yes": 1.1}, {"yes": -0.1}, {"yes": float("nan")}, {"yes": "0.3"}, 0.3]
)
def test_a_broken_threshold_is_refused(model: Model, given: Any) -> None:
    """A threshold is one class and one probability."""
    for data in (frame_of(NEW), "fresh"):
        with pytest.raises(ParameterError):
            model.predict(data, threshold=given)


def test_an_unknown_class_offers_near_names(model: Model) -> None:
    """A misspelled class is refused with the one that was meant."""
    with pytest.raises(UnknownName) as caught:
        model.predict("fresh", threshold={"yess": 0.5})
    assert caught.value.nearest == ["yes"]


@pytest.mark.parametrize("top", [0, 4, -1, 1.5, True])
def test_a_broken_top_is_refused(model: Model, top: Any) -> None:
    """As many classes as there are, at least one."""
    with pytest.raises(ParameterError):
        model.predict_top(frame_of(NEW), top)


def test_numbers_have_no_probabilities(database: Database) -> None:
    """A model of a numeric target refuses thresholds and top classes."""
    forest = small_forest(TARGET)
    number = database.add(model_of(VotingForest(forest, np.ones((forest.leaves, 2), np.int64)), TARGET, "number"))
    with pytest.raises(UsageError):
        number.predict(frame_of(NEW), threshold={"yes": 0.5})
    with pytest.raises(UsageError):
        number.predict_top(frame_of(NEW), 1)


@pytest.mark.parametrize("form", ["select", "view", "table_macro"])
def test_sql_forms_give_probabilities(model: Model, database: Database, form: str) -> None:
    """A SELECT, a view and a table macro with probabilities give those that Python gives."""
    text = model.sql(form, table="fresh", name="shown", probabilities=True)
    source = {"select": f"({text})", "view": "shown", "table_macro": "shown('fresh')"}[form]
    if form != "select":
        run(database.engine, text)
    found = pd.DataFrame(rows_of(database.engine, f"FROM {source} ORDER BY person, x, c, y"))
    order = pd.DataFrame(rows_of(database.engine, "FROM fresh ORDER BY person, x, c, y"))
    assert (
        np.abs(found[[f"p_{n}" for n in CLASSES]].to_numpy(float) - model.predict_proba(order).to_numpy()).max() < 1e-12
    )
    if form == "view":
        run(database.engine, "DROP VIEW shown")


def test_a_scalar_macro_has_no_place_for_probabilities(model: Model) -> None:
    """Probabilities of a scalar macro are refused."""
    with pytest.raises(ParameterError):
        model.sql("macro", probabilities=True)


def test_sql_calls_give_probabilities() -> None:
    """`dpsql_predict_proba` gives a map for one row, `dpsql_score(…, probabilities := true)` columns for a table."""
    connection = duckdb.connect()
    attached = dpsql.attach(connection, who="ann")
    fill(attached.engine, "fresh", NEW)
    model = attached.add(model_of(log_scores(), SCHEMA, "m"))
    wanted = model.predict_proba(frame_of(NEW))
    found = connection.execute("SELECT dpsql_predict_proba('m', f) FROM fresh AS f ORDER BY rowid").fetchall()
    assert np.abs([[row[0][name] for name in CLASSES] for row in found] - wanted.to_numpy()).max() < 1e-12
    query = "SELECT avg(p_yes) FROM dpsql_score('m', 'fresh', probabilities := true)"
    assert connection.execute(query).fetchall()[0][0] == pytest.approx(wanted["yes"].mean(), abs=1e-12)
    assert "p_yes" not in str(connection.execute("FROM dpsql_score('m', 'fresh')").description)
    connection.close()
