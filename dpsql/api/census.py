"""A synthetic census to try things on: invented people, with a label that depends on them as income does.

Every share and every weight below was written down by hand; no real person and no published table is in it.
`SCHEMA` is the public schema in the shape of a schema file. `rows` draws people: age and sex first, then schooling,
family, work and hours, each given the ones before, and last the income, from a score of all of them plus luck.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

#: The rows of the demo's private table.
ROWS = 30_000
#: The rows of the demo's public table of other people, on which models are evaluated.
HOLD_OUT_ROWS = 10_000

LABEL = "income"
UNIT = "person_id"
CLASSES = ("<=50K", ">50K")
SEXES = ("female", "male")
SCHOOLS = ("primary", "lower secondary", "upper secondary", "vocational", "bachelor", "master", "doctorate")
MARITAL = ("never married", "married", "separated", "divorced", "widowed")
RELATIONSHIPS = ("child", "husband", "wife", "single parent", "other relative", "alone")
OCCUPATIONS = (
    "management", "science", "health", "teaching", "technical", "sales", "office",
    "crafts", "machines", "transport", "services", "farming", "security", "labour",
)  # fmt: skip
WORKCLASSES = ("private", "self-employed", "own company", "city", "state", "unpaid")
REGIONS = ("north", "east", "south", "west", "centre", "islands", "abroad")


def _numeric(lower: int, upper: int, description: str) -> dict[str, Any]:
    return {"type": "numeric", "lower": lower, "upper": upper, "description": description}


def _categorical(values: Sequence[str]) -> dict[str, Any]:
    return {"type": "categorical", "values": list(values)}


#: The public schema, as it stands in a schema file. The bounds are common knowledge, not looked up in rows.
SCHEMA: dict[str, Any] = {
    "label": LABEL,
    "classes": list(CLASSES),
    "privacy_unit": "row",
    "features": {
        "age": _numeric(16, 96, "years; adults who work or look for work"),
        "workclass": _categorical(WORKCLASSES),
        "education": _categorical(SCHOOLS),
        "education_years": _numeric(4, 22, "years at school and after"),
        "marital_status": _categorical(MARITAL),
        "occupation": _categorical(OCCUPATIONS),
        "relationship": _categorical(RELATIONSHIPS),
        "sex": _categorical(SEXES),
        "capital_gain": _numeric(0, 40_000, "a year, from interest and sales"),
        "capital_loss": _numeric(0, 4_000, "a year"),
        "hours_per_week": _numeric(0, 96, "hours of paid work"),
        "commute_minutes": _numeric(0, 120, "one way; says nothing of income"),
        "region": _categorical(REGIONS),
    },
}

#: Last year at school of each school but the last: 11 years are "lower secondary".
_SCHOOL_ENDS = (8, 11, 13, 15, 17, 19)
_MARRIED = MARITAL.index("married")
_DIVORCED = MARITAL.index("divorced")
#: How common each occupation is, in relation to the others.
_SHARE = np.array([10, 5, 6, 6, 7, 11, 13, 11, 8, 5, 12, 3, 3, 5], float)
#: How many years at school each occupation goes with.
_YEARS = np.array([16, 18, 16, 17, 15, 14, 13, 12, 11, 11, 11, 10, 13, 10], float)
#: What each occupation adds to the income score.
_PAY = np.array([1.5, 1.4, 0.8, 0.3, 0.9, 0.5, -0.1, 0.0, -0.4, -0.1, -1.4, -1.2, 0.5, -1.2])
#: The share of men in each occupation.
_MALE = np.array([70, 70, 35, 40, 80, 62, 35, 93, 78, 92, 45, 85, 85, 86], float) / 100
#: How common each class of work is, and what it adds to the income score.
_CLASS_SHARE = np.array([72, 9, 4, 9, 5, 1], float)
_CLASS_PAY = np.array([0.0, -0.3, 1.0, 0.1, 0.2, -2.0])
#: How common each region is, and what it adds to the income score.
_REGION_SHARE = np.array([20, 16, 22, 18, 14, 3, 7], float)
_REGION_PAY = np.array([0.2, 0.0, -0.2, 0.2, 0.1, -0.3, -0.3])
#: The score above which income is over 50K, set so that it is for about 24 people of 100.
_THRESHOLD = 4.15
#: The scale of luck, which is logistic.
_LUCK = 0.9
#: The percentage of rows that lack a column.
_MISSING = {"workclass": 5.0, "occupation": 5.0, "region": 2.0, "hours_per_week": 1.0}

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


def rows(count: int, seed: int) -> pd.DataFrame:
    """Return that many people as a DataFrame: `person_id`, the features in the schema's order, and the label.

    The same seed gives the same people, another seed other people.

    >>> people = rows(1000, seed=1)
    >>> list(people.columns) == ["person_id", *SCHEMA["features"], "income"]
    True
    """
    generator = np.random.default_rng(seed)
    people = _people(count, generator)
    over = _score(people) + generator.logistic(0, _LUCK, count) > _THRESHOLD
    columns = {UNIT: np.arange(1, count + 1)}
    columns |= {name: _column(name, people[name]) for name in SCHEMA["features"]}
    frame = pd.DataFrame({**columns, LABEL: np.array(CLASSES, object)[over.astype(np.int64)]})
    for name, percent in _MISSING.items():
        frame[name] = frame[name].mask(generator.random(count) < percent / 100)
    return frame


def _people(count: int, generator: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Draw every feature, categories as places in their lists."""
    age = _clip_to_integers(17 + generator.gamma(2.6, 8.6, count), 16, 96)
    male = (generator.random(count) < 0.6).astype(np.int64)
    schooling = 13 + 0.02 * np.minimum(age - 40, 0) * (age > 24) + generator.normal(0, 2.8, count)
    years = _clip_to_integers(np.minimum(schooling, age - 5), 4, 22)
    marital = _pick(_marital_odds(age, male), generator)
    occupation = _pick(_occupation_odds(years, male), generator)
    workclass = _pick(_workclass_odds(occupation, age), generator)
    return {
        "age": age,
        "workclass": workclass,
        "education": np.searchsorted(_SCHOOL_ENDS, years),
        "education_years": years,
        "marital_status": marital,
        "occupation": occupation,
        "relationship": _pick(_relationship_odds(age, male, marital), generator),
        "sex": male,
        "capital_gain": _gain(age, years, generator),
        "capital_loss": _zero_except_where(0.04, 400 * generator.gamma(4, 1, count), 4_000, generator),
        "hours_per_week": _hours(age, male, occupation, workclass, generator),
        "commute_minutes": _clip_to_integers(generator.gamma(2, 14, count), 0, 120),
        "region": _pick(np.tile(_REGION_SHARE, (count, 1)), generator),
    }


def _score(people: Mapping[str, NDArray[Any]]) -> Floats:
    """Return the score that income depends on: family, schooling, age, hours, occupation, capital."""
    age, married = people["age"], people["marital_status"] == _MARRIED
    experience = 1.1 - ((age - 48) / 17) ** 2 / 1.3
    score: Floats = (
        3.2 * married
        + 0.33 * (people["education_years"] - 13)
        + np.maximum(experience, -2.5)
        + 0.045 * np.clip(people["hours_per_week"] - 40, -25, 20)
        + _PAY[people["occupation"]]
        + _CLASS_PAY[people["workclass"]]
        + _REGION_PAY[people["region"]]
        + 0.2 * people["sex"]
        + 3.5 * (people["capital_gain"] > 5_000)
        + 0.9 * (people["capital_loss"] > 1_500)
    )
    return score


def _pick(odds: Floats, generator: np.random.Generator) -> Places:
    """Draw one column of each row in proportion to its odds."""
    steps = np.cumsum(odds, axis=1)
    passed = steps > generator.random(len(odds))[:, None] * steps[:, -1:]
    return np.asarray(np.argmax(passed, axis=1), np.int64)


def _marital_odds(age: Places, male: Places) -> Floats:
    once = 1 / (1 + np.exp(-(age - 28 - 1.5 * male) / 4))
    older = np.clip((age - 30) / 40, 0, 1)
    apart = np.stack([1 - 0.2 * older, 0.05 - 0.02 * older, 0.12 + 0.12 * older, 0.3 * older**3], axis=1)
    apart[:, 0] *= 0.62 + 0.13 * male
    return np.column_stack([1.05 - once, once[:, None] * apart])


def _relationship_odds(age: Places, male: Places, marital: Places) -> Floats:
    married = (marital == _MARRIED).astype(float)
    young = np.clip((30 - age) / 10, 0, 1) * (marital == 0)
    return np.column_stack(
        [
            (1 - married) * (0.05 + 3 * young),
            married * 0.97 * male,
            married * 0.97 * (1 - male),
            (1 - married) * (0.12 + 0.2 * (1 - male)) * (1 + 0.8 * (marital == _DIVORCED)),
            np.full(len(age), 0.03),
            (1 - married) * 0.8,
        ]
    )


def _occupation_odds(years: Places, male: Places) -> Floats:
    fitting = np.exp(-(((years[:, None] - _YEARS) / 2.6) ** 2) / 2)
    odds: Floats = (fitting + 0.03) * _SHARE * np.where(male[:, None] == 1, _MALE, 1 - _MALE)
    return odds


def _workclass_odds(occupation: Places, age: Places) -> Floats:
    odds = np.tile(_CLASS_SHARE, (len(age), 1))
    odds[:, 1:3] *= np.clip((age[:, None] - 15) / 25, 0.1, 2)
    public = np.isin(occupation, [OCCUPATIONS.index("teaching"), OCCUPATIONS.index("security")])
    odds[public, 3:5] *= 6
    return odds


def _hours(age: Places, male: Places, occupation: Places, workclass: Places, generator: np.random.Generator) -> Places:
    usual = 37 + 4 * male + 3 * (_PAY[occupation] > 1) + 6 * (workclass == WORKCLASSES.index("own company"))
    usual = usual - 14 * (age < 22) - 15 * (age > 66)
    part_time = (generator.random(len(age)) < 0.12 + 0.1 * (1 - male)) * generator.uniform(5, 20, len(age))
    spread = np.where(generator.random(len(age)) < 0.45, 1.0, 9.0)
    return _clip_to_integers(usual - part_time + generator.normal(0, spread), 1, 96)


def _gain(age: Places, years: Places, generator: np.random.Generator) -> Places:
    likely = 0.04 + 0.006 * np.clip(years - 10, 0, 10) + 0.001 * np.clip(age - 30, 0, 30)
    return _zero_except_where(likely, np.exp(generator.normal(8.6, 0.8, len(age))), 40_000, generator)


def _clip_to_integers(numbers: Floats, lower: int, upper: int) -> Places:
    return np.asarray(np.clip(numbers, lower, upper), np.int64)


def _zero_except_where(chance: float | Floats, amount: Floats, most: int, generator: np.random.Generator) -> Places:
    """Return each amount, at most `most`, with its chance, and 0 otherwise."""
    return np.where(generator.random(len(amount)) < chance, np.minimum(amount, most), 0).astype(np.int64)


def _column(name: str, values: NDArray[Any]) -> Any:
    """Return a column as it stands in the table: names in place of their numbers, integers that may be missing."""
    feature = SCHEMA["features"][name]
    if feature["type"] == "categorical":
        return np.array(feature["values"], object)[values]
    return pd.array(values, dtype="Int64")
