"""The fronts on rows in memory: what a fit costs and where that is entered, clones and pickles, and what is refused."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpsql
from dpsql.ledger import odds

SCHEMA = {
    "label": "ill",
    "classes": ["no", "yes"],
    "features": {
        "age": {"type": "numeric", "lower": 0, "upper": 100},
        "town": {"type": "categorical", "values": ["north", "south"]},
    },
}
SECRET = "a-private-town"


def people(rows: int = 600) -> tuple[pd.DataFrame, pd.Series]:
    """Return features and a label that follows from the age."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"age": rng.integers(0, 100, rows), "town": rng.choice(["north", "south"], rows)})
    return frame, pd.Series(np.where(frame["age"] > 50, "yes", "no"), name="ill")


def numbers(rows: int = 600) -> tuple[Any, Any]:
    """Return an array with two columns, and classes 0 and 1."""
    array = np.random.default_rng(4).uniform(0, 10, (rows, 2))
    return array, (array[:, 0] > 5).astype(int)


def through_pickle(value: Any) -> Any:
    """Return what a pickle of a value gives."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - it was pickled here


def test_a_frame_is_fitted_under_a_schema() -> None:
    """The model learns, the names are kept, and the fit's charge is in the ledger that the estimator carries."""
    frame, label = people()
    forest = dpsql.DPForestClassifier(epsilon=4, schema=SCHEMA).fit(frame, label)
    assert forest.score(frame, label) > 0.9
    assert forest.feature_names_in_.tolist() == ["age", "town"]
    assert (forest.n_features_in_, forest.classes_.tolist()) == (2, ["no", "yes"])
    assert (forest.budget_.spent_text, forest.budget_.cap) == ("4", None)
    assert forest.ledger_["event"].tolist()[0] == "register"
    assert set(forest.ledger_["fit"]) == {1}


def test_an_array_has_the_features_in_the_order_of_the_schema() -> None:
    """An array without names is fitted under a schema by position, and by bounds and classes without one."""
    array, label = numbers()
    schema = {
        "label": "y",
        "classes": [0, 1],
        "features": {n: {**SCHEMA["features"]["age"], "upper": 10} for n in "ab"},
    }  # type: ignore[index]
    for forest in (
        dpsql.DPForestClassifier(epsilon=4, schema=schema),
        dpsql.DPForestClassifier(epsilon=4, bounds=(0, 10), classes=[0, 1]),
    ):
        forest.fit(array, label)
        assert forest.predict([[9.0, 1.0], [1.0, 9.0]]).tolist() == [1, 0]
        assert not hasattr(forest, "feature_names_in_")
    with pytest.raises(dpsql.DataError, match="expecting 2 features"):
        forest.predict(array[:, :1])


def test_domains_are_bought_within_epsilon() -> None:
    """With `buy` the fit costs epsilon in all, and the certificate says what the domains cost."""
    array, label = numbers(3000)
    forest = dpsql.DPForestClassifier(epsilon=2, buy=0.5).fit(array, label)
    assert forest.budget_.spent_text == "2"
    assert forest.model_.certificate["epsilon"] == "1.5"
    assert forest.model_.certificate["purchases"][0]["epsilon"] == "0.5"
    assert forest.score(array, label) > 0.8


def test_without_domains_a_fit_is_refused_before_a_charge() -> None:
    """The error says which columns are open and how to declare them, and nothing is spent."""
    frame, label = people()
    forest = dpsql.DPForestClassifier(bounds={"age": (0, 100)})
    with pytest.raises(dpsql.UsageError, match='the domains of "town" and the classes') as caught:
        forest.fit(frame, label)
    assert "schema=" in str(caught.value.hint)
    assert "buy=" in str(caught.value.hint)
    assert forest.budget_.spent == 0


def test_categories_of_pandas_are_no_declaration() -> None:
    """What `astype("category")` took from the rows does not become a public domain."""
    frame, label = people(400)
    frame["town"] = pd.Series([SECRET, *frame["town"][1:]]).astype("category")
    forest = dpsql.DPForestClassifier(epsilon=2, buy=0.5, bounds={"age": (0, 100)}, classes=["no", "yes"])
    forest.fit(frame, label)
    assert SECRET not in forest.model_.to_json()
    assert "north" not in forest.model_.to_json()


def test_fits_of_clones_are_charged_together() -> None:
    """A clone shares the ledger, a fit beyond the cap is refused, and nothing is charged for it."""
    base = pytest.importorskip("sklearn.base")
    frame, label = people()
    forest = dpsql.DPForestClassifier(epsilon=1, schema=SCHEMA, cap=2.5)
    for _ in range(2):
        base.clone(forest).fit(frame, label)
    assert forest.budget_.spent_text == "2"
    assert set(forest.ledger_["fit"]) == {1, 2}
    with pytest.raises(dpsql.BudgetExceeded) as refused:
        forest.fit(frame, label)
    assert (refused.value.needed, refused.value.left, refused.value.cap) == ("1", "0.5", "2.5")
    assert forest.budget_.left_text == "0.5"


def test_a_fit_that_fails_keeps_what_it_charged() -> None:
    """Where the purchase is charged and names no classes, its epsilon stays spent, and the rest is not charged."""
    array, label = numbers(300)
    forest = dpsql.DPForestClassifier(epsilon=1, buy=0.25)
    with pytest.raises(dpsql.SchemaError, match="stay unknown") as caught:
        forest.fit(array, np.where(label == 1, "rosé", "blanc"))
    assert "classes=" in str(caught.value.hint)
    assert forest.budget_.spent_text == "0.25"


def test_a_sum_that_protects_little_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the fits of an estimator pass epsilon 10, a warning says so."""
    monkeypatch.setattr(odds, "NOTED_ABOVE", 10 * odds.NANO)
    frame, label = people(200)
    forest = dpsql.DPForestClassifier(epsilon=6, schema=SCHEMA, method="rdt", trees=2).fit(frame, label)
    with pytest.warns(odds.LargeEpsilonWarning, match="add up to epsilon 12"):
        forest.fit(frame, label)


def test_a_pickle_and_a_copy_predict_the_same(tmp_path: Path) -> None:
    """The model survives pickle, joblib and deepcopy; a copy in memory shares the ledger, a pickle has its own."""
    frame, label = people()
    forest = dpsql.DPForestClassifier(epsilon=2, schema=SCHEMA).fit(frame, label)
    copies = [through_pickle(forest), copy.deepcopy(forest)]
    joblib = pytest.importorskip("joblib")
    joblib.dump(forest, tmp_path / "forest.joblib")
    copies.append(joblib.load(tmp_path / "forest.joblib"))
    for other in copies:
        assert (other.predict_proba(frame) == forest.predict_proba(frame)).all()
        assert other.budget_.spent_text == "2"
        assert other.model_.certificate == forest.model_.certificate
    copies[1].fit(frame, label)
    assert (forest.budget_.spent_text, copies[0].budget_.spent_text) == ("4", "2")


def test_a_pickle_holds_no_row() -> None:
    """Neither cells of the rows nor labels that the schema does not declare are in a pickled estimator."""
    frame, label = people()
    frame.loc[0, "town"] = SECRET
    label[1] = "a-private-label"
    stored = pickle.dumps(dpsql.DPForestClassifier(epsilon=2, schema=SCHEMA).fit(frame, label))
    assert b"a-private" not in stored


def test_a_pickled_estimator_with_a_cap_is_not_fitted() -> None:
    """Its cap could not count what others spend; without a cap the original says that it does not see all."""
    frame, label = people(100)
    capped = dpsql.DPForestClassifier(schema=SCHEMA, cap=3)
    with pytest.raises(dpsql.UsageError, match="pickled"):
        through_pickle(capped).fit(frame, label)
    with pytest.warns(UserWarning, match="not in this budget"):
        assert capped.budget_.spent == 0


def test_a_model_of_a_database_is_copied_without_it() -> None:
    """A stored model pickles and copies through its JSON text; a Database says that it cannot be copied."""
    frame, label = people()
    with dpsql.from_frame(frame.assign(ill=label), SCHEMA, cap=3) as db:
        model = db.train("rows", epsilon=2)
        for other in (through_pickle(model), copy.deepcopy(model)):
            assert (other.labels(frame) == model.labels(frame)).all()
            assert other.database is None
        with pytest.raises(dpsql.UsageError, match="cannot be pickled"):
            pickle.dumps(db)


@pytest.mark.parametrize(
    "rows",
    [
        pd.Series({"age": 37, "town": SECRET}),
        {"age": 37, "town": SECRET},
        np.array([37, SECRET], dtype=object),
        [37, SECRET],
        [SECRET],
        [[37, SECRET], [1]],
        [[37, SECRET, 1]],
        {SECRET},
        None,
    ],
    ids=lambda rows: type(rows).__name__,
)
def test_what_is_no_rows_is_refused_without_a_cell(rows: Any) -> None:
    """A clear error instead of a search for a table of that name, and no cell is quoted, by models and fronts."""
    frame, label = people(200)
    forest = dpsql.DPForestClassifier(epsilon=2, schema=SCHEMA, method="rdt", trees=2).fit(frame, label)
    predictors: list[Any] = [forest.predict, forest.predict_proba, forest.model_.predict, forest.model_.predict_proba]
    for predict in predictors:
        with pytest.raises(dpsql.DataError) as caught:
            predict(rows)
        assert SECRET not in str(caught.value)


def test_a_model_predicts_arrays_and_dicts() -> None:
    """An array in the schema's order and a list of dicts give the labels of the same rows in a DataFrame."""
    frame, label = people(200)
    model = dpsql.DPForestClassifier(epsilon=2, schema=SCHEMA).fit(frame, label).model_
    expected = model.predict(frame).tolist()
    assert model.predict(frame.to_numpy()).tolist() == expected
    assert model.predict(frame.to_dict("records")).tolist() == expected
    assert model.predict_proba(frame.to_numpy()).shape == (200, 2)


def test_booleans_and_numbers_come_back_as_they_were() -> None:
    """Predicted classes have the type of the labels that were fitted, and are sorted as scikit-learn sorts them."""
    array, label = numbers()
    for labels, classes in ((label == 1, [True, False]), (label * 10 - 5, [5, -5])):
        forest = dpsql.DPForestClassifier(epsilon=4, bounds=(0, 10), classes=classes).fit(array, labels)
        assert forest.classes_.tolist() == sorted(classes)
        assert forest.predict(array).dtype == labels.dtype
        assert forest.score(array, labels) > 0.8
        assert (forest.predict_proba(array)[:, 1] > 0.5).mean() == pytest.approx(label.mean(), abs=0.2)


def test_a_regressor_is_fitted_to_rows() -> None:
    """Bounds of the target are declared or bought, and whole numbers are numbers, not classes."""
    array, _ = numbers(2000)
    target = (array[:, 0] * 3).astype(int)
    regressor = dpsql.DPForestRegressor(epsilon=8, bounds=(0, 10), target=(0, 30)).fit(array, target)
    assert regressor.score(array, target) > 0.3
    assert regressor.budget_.spent_text == "8"
    bought = dpsql.DPForestRegressor(epsilon=8, buy=4).fit(array, target)
    assert bought.model_.schema.target is not None
    assert bought.predict(array).dtype == float


@pytest.mark.parametrize("front", [dpsql.DPForestClassifier, dpsql.DPForestRegressor])
def test_a_schema_or_a_label_of_the_other_kind_is_refused(front: Any) -> None:
    """A classifier refuses a target and numbers, a regressor classes and texts, and nothing is charged."""
    frame, label = people(100)
    target = {**SCHEMA, "target": {"lower": 0, "upper": 1}}
    target.pop("classes")
    is_classifier = front is dpsql.DPForestClassifier
    estimator = front()
    with pytest.raises(dpsql.UsageError, match="use DPForest"):
        estimator.fit(frame, label, schema=target if is_classifier else SCHEMA)
    with pytest.raises(dpsql.DataError, match="Unknown label type"):
        estimator.fit(frame, frame["age"] / 2 if is_classifier else label, schema=SCHEMA if is_classifier else target)
    assert estimator.budget_.spent == 0


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"X": np.zeros((3, 2, 2))}, "Expected 2D array"),
        ({"X": np.zeros((3, 2), complex)}, "Complex data"),
        ({"X": np.zeros((0, 2)), "y": []}, "0 sample"),
        ({"y": None}, "requires y"),
        ({"y": ["no"]}, "inconsistent"),
        ({"y": np.array([["no", "yes"]] * 3)}, "1d array"),
        ({"X": pd.DataFrame({"age": [1, 2, 3], 7: [1, 2, 3]})}, "string names"),
        ({"X": pd.DataFrame([[1, 2]] * 3, columns=["age", "age"])}, "two columns of one name"),
        ({"X": pd.DataFrame([[1, 2]] * 3, columns=["age", "Ill"])}, "which is the label"),
    ],
    ids=str,
)
def test_what_cannot_be_fitted_is_refused_before_a_charge(bad: dict[str, Any], said: str) -> None:
    """Shapes and types that are no table are refused by name, and nothing is charged."""
    forest = dpsql.DPForestClassifier(schema=SCHEMA)
    with pytest.raises(dpsql.DataError, match=said):
        forest.fit(**{"X": [[30, "north"]] * 3, "y": ["no", "yes", "no"]} | bad)
    assert forest.budget_.spent == 0
    assert forest.ledger_.empty


def test_an_unknown_setting_is_refused_with_the_nearest() -> None:
    """A misspelt parameter is an error where it is written, not after a charge."""
    with pytest.raises(dpsql.UnknownName, match="Did you mean"):
        dpsql.DPForestClassifier(treess=5)
    with pytest.raises(dpsql.UnknownName):
        dpsql.DPForestClassifier().set_params(treess=5)


def test_a_table_is_fitted_on_its_own_budget() -> None:
    """After `fit(db, "table")` budget and ledger are the table's."""
    frame, label = people()
    with dpsql.from_frame(frame.assign(ill=label), SCHEMA, cap=3, table="people") as db:
        forest = dpsql.DPForestClassifier(epsilon=2).fit(db, "people")
        assert forest.budget_.left_text == "1"
        assert forest.ledger_["table"].tolist()[0] == "people"
        assert forest.score(frame, label) > 0.8
        with pytest.raises(dpsql.DataError, match="not a table's name"):
            forest.predict("people")  # type: ignore[arg-type]


def test_the_fronts_work_without_scikit_learn() -> None:
    """They fit, predict, copy and say that they are not fitted where scikit-learn is not installed."""
    program = """
import sys
sys.modules["sklearn"] = None
import copy, numpy as np, dpsql
X = np.arange(400.0).reshape(-1, 1)
forest = dpsql.DPForestClassifier(epsilon=8, bounds=(0, 400), classes=[0, 1])
try:
    forest.predict(X)
except ValueError as error:
    assert "not fitted" in str(error)
forest.fit(X, (X[:, 0] > 200).astype(int))
assert forest.predict([[3.0], [390.0]]).tolist() == [0, 1]
assert copy.deepcopy(forest).set_params(epsilon=1).get_params()["epsilon"] == 1
try:
    dpsql.search_cost(forest)
except dpsql.UsageError as error:
    print("sklearn" in sys.modules and error.hint)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.stdout.strip(), ran.stderr) == ("pip install scikit-learn", "")
