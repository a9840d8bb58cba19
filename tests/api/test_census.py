"""Tests of dpsql/api/census.py: the synthetic people of the demo."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpsql.api import census
from dpsql.schema import Categorical, Feature, Numeric, Schema

SCHEMA = Schema.from_dict(census.SCHEMA)
CATEGORIES = [feature for feature in SCHEMA.features if isinstance(feature, Categorical)]
NUMBERS = [feature for feature in SCHEMA.features if isinstance(feature, Numeric)]


def named(feature: Feature) -> str:
    """Return a feature's name, for the names of tests."""
    return feature.name


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    """Return the demo's private table."""
    return census.rows(census.ROWS, seed=1)


def test_columns_are_unit_features_and_label(people: pd.DataFrame) -> None:
    """The table has the unit, the features in the schema's order, and the label."""
    assert list(people.columns) == ["person_id", *(feature.name for feature in SCHEMA.features), "income"]


def test_rows_are_as_many_as_asked(people: pd.DataFrame) -> None:
    """The number of rows is the number asked for."""
    assert len(people) == census.ROWS


def test_no_rows_is_an_empty_table() -> None:
    """Zero people give the columns and no row."""
    assert census.rows(0, seed=1).shape == (0, 2 + len(SCHEMA.features))


def test_features_are_mixed() -> None:
    """Both kinds of feature are there in number."""
    assert (len(NUMBERS), len(CATEGORIES)) == (6, 7)


@pytest.mark.parametrize("feature", NUMBERS, ids=named)
def test_numbers_are_inside_their_bounds(people: pd.DataFrame, feature: Numeric) -> None:
    """Every number that is not NULL lies between the declared bounds."""
    assert people[feature.name].dropna().between(feature.lower, feature.upper).all()


@pytest.mark.parametrize("feature", CATEGORIES, ids=named)
def test_categories_are_the_declared_ones(people: pd.DataFrame, feature: Categorical) -> None:
    """The values that occur are exactly the declared ones."""
    assert set(people[feature.name].dropna()) == set(feature.values)


def test_label_is_always_a_declared_class(people: pd.DataFrame) -> None:
    """Every row has a label, and it is one of the classes."""
    assert set(people["income"]) == set(SCHEMA.classes)


def test_about_a_quarter_earn_more(people: pd.DataFrame) -> None:
    """The larger income has 22 to 26 % of the rows."""
    assert 0.22 < (people["income"] == ">50K").mean() < 0.26


def test_some_values_are_missing(people: pd.DataFrame) -> None:
    """NULL occurs in the columns that may lack a value, and in no other."""
    missing = people.isna().mean()
    assert set(missing[missing > 0].index) == {"workclass", "occupation", "region", "hours_per_week"}
    assert missing.max() < 0.07


def test_person_id_is_unique_and_no_feature(people: pd.DataFrame) -> None:
    """Each row is another person, and the id can be the privacy unit."""
    assert people[census.UNIT].is_unique
    Schema.from_dict({**census.SCHEMA, "privacy_unit": {"column": census.UNIT, "max_rows": 1}})


def test_same_seed_gives_the_same_people() -> None:
    """A seed fixes every cell."""
    pd.testing.assert_frame_equal(census.rows(500, seed=7), census.rows(500, seed=7))


def test_another_seed_gives_other_people() -> None:
    """Two seeds share no more than chance."""
    first, second = (census.rows(500, seed=seed)["age"].to_numpy() for seed in (7, 8))
    assert np.mean(first == second) < 0.1


def test_income_can_be_learnt_but_not_perfectly(people: pd.DataFrame) -> None:
    """A non-private random forest reaches 83 to 89 %."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    features = pd.get_dummies(people.drop(columns=["income", census.UNIT]), dummy_na=True).astype(float).fillna(-1)
    forest = ensemble.RandomForestClassifier(30, min_samples_leaf=2, random_state=0)
    forest.fit(features[:8000], people["income"][:8000])
    assert 0.83 < forest.score(features[20_000:], people["income"][20_000:]) < 0.89
