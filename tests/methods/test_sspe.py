"""Learning from rows without labels: `sspe`, `pte` and `ssrdt` use them, and pay for what they say they pay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpsql import methods
from dpsql.api.database import Database
from dpsql.errors import ParameterError
from dpsql.kernel.plan import LABELLED, UNLABELLED
from dpsql.schema import Numeric, Schema
from dpsql.trees.grid import grid_cells
from tests.tables import SCHEMA, Row, frame_of, memory

PUBLIC = replace(SCHEMA, public_features=True)
LABEL_METHODS = [("sspe", {"privacy": "labels"}), ("pte", {}), ("ssrdt", {})]


def rule_rows(labelled: int, unlabelled: int) -> list[Row]:
    """Return rows whose label follows from x, most of them without it."""
    known: list[Row] = [(k, float(k * 7 % 64), "a", "yes" if k * 7 % 64 < 32 else "no") for k in range(labelled)]
    return known + [(10**6 + k, float(k * 5 % 64), "a", None) for k in range(unlabelled)]


def open_with_labels(rows: list[Row]) -> Database:
    """Return a database whose table has public features and a budget for labels."""
    database = memory(rows, schema=PUBLIC)
    database.set_cap("people", 1000, kind="label")
    return database


@pytest.mark.parametrize(("method", "options"), [("sspe", {}), *LABEL_METHODS])
def test_a_rule_is_learned_from_few_labels(method: str, options: dict[str, Any]) -> None:
    """With much epsilon a plain rule is found, though four rows of five have no label."""
    rows = rule_rows(600, 2400)
    with open_with_labels(rows) as opened:
        model = opened.train("people", method=method, epsilon=200, trees=5, depth=4, **options)
        frame = frame_of(rows[:64])
        assert (model.predict(frame) == frame["y"]).mean() > 0.85


def test_unlabelled_rows_shape_the_trees() -> None:
    """Labelled rows lie left, unlabelled ones right: the first split of x follows the unlabelled ones."""
    left: list[Row] = [(k, float(k % 8), "a", "no") for k in range(400)]
    right: list[Row] = [(k, float(48 + k % 16), "a", None) for k in range(400, 2000)]
    only_x = Schema("y", SCHEMA.classes, (Numeric("x", 0, 64),))
    with memory([*left, *right], schema=only_x) as opened:
        level = opened.train("people", method="sspe", epsilon=500, trees=1, depth=1).released.forest.levels[0]
    first_right = int(np.argmax(level.slots(np.zeros(64, np.int64), np.arange(64))))
    assert 50 <= first_right <= 62


def test_public_splits_are_true_medians_of_all_rows() -> None:
    """Where features are public the split halves labelled and unlabelled rows together, without noise."""
    rows: list[Row] = [(k, float(k % 64), "a", "no" if k % 3 else None) for k in range(640)]
    only_x = Schema("y", SCHEMA.classes, (Numeric("x", 0, 64),), public_features=True)
    with memory(rows, schema=only_x) as opened:
        opened.set_cap("people", 1, kind="label")
        model = opened.train("people", method="sspe", privacy="labels", epsilon="0.001", trees=1, depth=2)
    leaves = model.released.forest.route(grid_cells(only_x, pd.DataFrame({"x": [row[1] for row in rows]})))[:, 0]
    assert np.bincount(leaves).tolist() == [160, 160, 160, 160]


def test_counts_are_of_labelled_rows_alone() -> None:
    """The leaves of `sspe` hold the labelled rows, each once; those of a label method too."""
    rows = rule_rows(300, 900)
    with open_with_labels(rows) as opened:
        for options in ({}, {"privacy": "labels"}):
            model = opened.train("people", method="sspe", epsilon=400, trees=3, depth=2, **options)
            assert abs(int(model.released.weights.sum()) - 300) <= 5


@pytest.mark.parametrize("method", ["pte", "ssrdt"])
def test_pupils_count_every_unlabelled_row_in_every_tree(method: str) -> None:
    """The second trees hold the unlabelled rows without noise."""
    with open_with_labels(rule_rows(300, 900)) as opened:
        model = opened.train("people", method=method, epsilon=400, trees=3, more_trees=4, depth=2)
    forest = model.released.forest
    pupils = model.released.weights[forest.leaf_tree >= 3]
    assert forest.trees == 7
    assert int(pupils.sum()) == 4 * 900
    assert pupils.min() >= 0


def test_both_sides_of_a_row_plan_get_the_whole_epsilon() -> None:
    """Splits cost epsilon on one side, size and counts together epsilon on the other."""
    plan = methods.get("sspe").plan(SCHEMA, 10**9, {})
    sides = {step.name: (step.side, step.nano_epsilon) for step in plan.steps}
    assert sides == {
        "splits": (UNLABELLED, 10**9),
        "size": (LABELLED, 3 * 10**7),
        "counts": (LABELLED, 97 * 10**7),
    }
    assert plan.nano_epsilon == 10**9


@pytest.mark.parametrize(("method", "options"), LABEL_METHODS)
def test_a_label_plan_pays_for_counts_alone(method: str, options: dict[str, Any]) -> None:
    """Everything that reads features alone is free, and the counts get all of epsilon at twice the noise."""
    plan = methods.get(method).plan(PUBLIC, 10**9, options)
    paid = {step.name: step.nano_epsilon for step in plan.steps if step.nano_epsilon}
    assert paid == {"counts": 10**9}
    trees = 10 if method == "ssrdt" else 1
    assert plan.step("counts").scale(plan.promise) == 2 * trees
    assert plan.kind == "label"


@pytest.mark.parametrize("method", ["sspe", "pte", "ssrdt"])
@pytest.mark.parametrize("bad", ["", "   ", 3, ["y IS NULL"], True])
def test_unlabelled_must_be_text(method: str, bad: object) -> None:
    """Anything but a table's name or a condition is refused by name."""
    with open_with_labels(rule_rows(10, 10)) as opened, pytest.raises(ParameterError) as caught:
        opened.plan("people", method=method, unlabelled=bad)
    assert caught.value.name == "unlabelled"


def test_few_labelled_rows_make_shallow_trees() -> None:
    """The depth follows the number of labelled rows, not of all."""
    depths = []
    wide = Schema("y", SCHEMA.classes, SCHEMA.features, public_features=True)
    for labelled in (20, 2000):
        with memory(rule_rows(labelled, 3000), schema=wide) as opened:
            opened.set_cap("people", 10, kind="label")
            model = opened.train("people", method="sspe", privacy="labels", epsilon=10)
            depths.append(model.released.forest.depth)
    assert depths == [1, 2]
