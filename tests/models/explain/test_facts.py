"""Noisy counts in a certificate: read as they are, refused when they do not fit the schema."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpsql.errors import SchemaError
from dpsql.models.explain.facts import read_facts
from dpsql.schema import Categorical, Numeric, Schema
from tests.tables import model_of, small_forest, voting

SCHEMA = Schema("y", ("no", "yes"), (Numeric("x", 0, 64), Categorical("c", ("a", "b"))))
FACTS: dict[str, Any] = {
    "classes": {"no": 70, "yes": 30},
    "features": {
        "x": {"groups": [list(range(32)), list(range(32, 64))], "counts": [[60, 5], [10, 25]]},
        "c": {"groups": [[0], [1], [2]], "counts": [[40, 10], [31, 20], [-1, 0]], "errors": [3, 4, 5]},
    },
    "scale": 2.0,
}


def test_facts_are_read_as_they_are() -> None:
    """Groups, counts and class rows come back; noise is that of the scale over a group's cells, or as declared."""
    found = read_facts(SCHEMA, {"facts": FACTS})
    assert found.noisy_classes is not None
    assert found.noisy_classes.tolist() == [70, 30]
    assert found.features["x"].errors.tolist() == pytest.approx([2 * math.sqrt(64)] * 2)
    assert found.features["c"].errors.tolist() == [3, 4, 5]
    assert found.features["c"].noisy_counts[2].tolist() == [-1, 0]


def test_a_certificate_without_facts_has_none() -> None:
    """No facts, nothing known."""
    found = read_facts(SCHEMA, {})
    assert found.noisy_classes is None
    assert not found.features


def test_a_feature_may_be_left_out() -> None:
    """Facts about some features leave the others to what the model predicts."""
    some = {**FACTS, "features": {"x": FACTS["features"]["x"]}}
    model = model_of(voting(small_forest(SCHEMA), 2, most=9, seed=2), SCHEMA)
    learned = replace(model, certificate={**model.certificate, "facts": some}).explain()
    assert learned.effect("x").counted
    assert not learned.effect("c").counted


def _with(**changes: Any) -> dict[str, Any]:
    return {**FACTS, "features": {**FACTS["features"], "c": {**FACTS["features"]["c"], **changes}}}


@pytest.mark.parametrize(
    "damaged",
    [
        _with(groups=[[0], [1]]),
        _with(groups=[[0], [1], [3]]),
        _with(groups=[[0], [1], [1]]),
        _with(groups=[[0], [1], []]),
        _with(groups=[[0], [-1], [2]]),
        _with(groups="abc"),
        _with(counts=[[1], [2], [3]]),
        _with(counts=[[1, math.nan], [2, 2], [3, 3]]),
        _with(counts=[["many", 1], [2, 2], [3, 3]]),
        _with(errors=[1, 2]),
        _with(errors=[1, 2, -1]),
        {**FACTS, "classes": {"no": 7}},
        {**FACTS, "scale": "large"},
        {**FACTS, "features": ["x"]},
        ["x"],
    ],
)
def test_damaged_facts_are_refused(damaged: Any) -> None:
    """Facts that do not fit the schema are an error with a message of its own, not a traceback."""
    with pytest.raises(SchemaError, match="facts in the model's certificate are damaged"):
        read_facts(SCHEMA, {"facts": damaged})


def test_the_background_has_the_shares_of_the_counts() -> None:
    """A group's share of the rows is its share of the noisy counts, with what is below zero left out."""
    model = model_of(voting(small_forest(SCHEMA), 2, most=9, seed=2), SCHEMA)
    learned = replace(model, certificate={**model.certificate, "facts": FACTS}).explain()
    assert [group.mass for group in learned.effect("x").groups] == pytest.approx([0.65, 0.35])
    assert np.sum([group.mass for group in learned.effect("c").groups]) == pytest.approx(1)
    assert learned.effect("c").groups[2].mass == 0
