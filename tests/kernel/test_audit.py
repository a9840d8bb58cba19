"""A statistical audit of `leaf_labels`: the loss seen in many releases is at most epsilon; twice is found out."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.operations import LeafLabels
from dpsql.kernel.plan import Step
from dpsql.kernel.promise import Promise
from dpsql.mechanisms.choose import permute_and_flip
from dpsql.schema import Unit
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from tests.kernel.helpers import held, session
from tests.tables import SCHEMA, UNITS, Row

DRAWS = 20_000
#: How many standard deviations a share may be off: about one false alarm in a million.
SURE = 5.0


def least_loss(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Return a lower confidence bound of the largest log ratio of two outcome frequencies."""
    low = {}
    for name, counts in (("first", first), ("second", second)):
        share = counts / counts.sum()
        error = SURE * np.sqrt(np.maximum(share * (1 - share), 1 / counts.sum()) / counts.sum())
        low[name] = (np.maximum(share - error, 0), share + error)
    ratios = [low["first"][0] / low["second"][1], low["second"][0] / low["first"][1]]
    return max(math.log(max(float(ratio.max()), 1e-300)) for ratio in ratios)


def outcomes(counts: list[list[int]], row_epsilon: Fraction) -> NDArray[np.int64]:
    """Return how often each combination of labels of all leaves is released, in DRAWS releases of fixed counts."""
    table = np.tile(np.array(counts, np.int64), (DRAWS, 1))
    labels = permute_and_flip(table, row_epsilon, monotone=True).reshape(DRAWS, len(counts))
    classes = len(counts[0])
    code = labels @ classes ** np.arange(len(counts))
    return np.bincount(code, minlength=classes ** len(counts))


def labels_step(*, trees: int = 1, shared: bool = False) -> Step:
    """Return a step of labels at epsilon 1."""
    return Step("labels", LeafLabels(), 10**9, trees=trees, shared=shared, cells=8)


CASES = {
    "a row in one leaf": (labels_step(), Unit(), [[5, 5], [2, 0]], [[6, 5], [2, 0]]),
    "three classes": (labels_step(), Unit(), [[3, 3, 2], [0, 0, 0]], [[3, 3, 3], [0, 0, 0]]),
    "a lone row": (labels_step(), Unit(), [[0, 0, 0]], [[1, 0, 0]]),
    "a row in every tree": (labels_step(trees=3, shared=True), Unit(), [[2, 2]] * 3, [[3, 2]] * 3),
    "a unit of three rows in a leaf": (labels_step(), Unit("person", 3), [[4, 4], [1, 1]], [[7, 4], [1, 1]]),
    "a unit in several leaves": (labels_step(), Unit("person", 3), [[4, 4], [1, 1]], [[5, 4], [1, 3]]),
}


@pytest.mark.parametrize(("step", "unit", "first", "second"), CASES.values(), ids=CASES)
def test_the_loss_of_labels_is_at_most_epsilon(
    step: Step, unit: Unit, first: list[list[int]], second: list[list[int]]
) -> None:
    """Labels of neighbouring counts, released at the step's row epsilon, differ by no more than epsilon 1."""
    row_epsilon = step.row_epsilon(Promise(unit))
    assert least_loss(outcomes(first, row_epsilon), outcomes(second, row_epsilon)) <= 1.0


@pytest.mark.parametrize(
    ("step", "unit", "first", "second"), [CASES["a row in one leaf"], CASES["a unit of three rows in a leaf"]]
)
def test_a_doubled_epsilon_would_be_detected(
    step: Step, unit: Unit, first: list[list[int]], second: list[list[int]]
) -> None:
    """The same audit at twice the row epsilon finds a loss above 1: it can fail."""
    row_epsilon = 2 * step.row_epsilon(Promise(unit))
    assert least_loss(outcomes(first, row_epsilon), outcomes(second, row_epsilon)) > 1.0


def test_forgetting_the_rows_of_a_unit_would_be_detected() -> None:
    """The noise of one row on a unit of three is found out."""
    _, _, first, second = CASES["a unit of three rows in a leaf"]
    assert least_loss(outcomes(first, Fraction(1)), outcomes(second, Fraction(1))) > 1.0


def released(rows: list[Row], *, nano: int, unit: bool, trees: int = 4000) -> NDArray[np.int64]:
    """Return how often each class is named by as many shared one-leaf trees, all in one session on a real table."""
    forest = Forest(axes(SCHEMA), trees, ())
    step = Step("labels", LeafLabels(), nano * trees, trees=trees, shared=True, cells=trees)
    labels = session(held(rows, schema=UNITS if unit else SCHEMA), step).leaf_labels("labels", forest)
    return np.bincount(labels, minlength=len(SCHEMA.classes))


BASE: list[Row] = [*[(k, 1.0, "a", "no") for k in range(5)], *[(9 + k, 9.0, "b", "yes") for k in range(5)]]


@pytest.mark.parametrize("unit", [False, True], ids=["row", "unit"])
def test_the_loss_from_table_to_labels_is_at_most_epsilon(unit: bool) -> None:
    """End to end, one unit more (of many rows, most of which are not used) costs at most epsilon; half is found out."""
    added: list[Row] = [(99, 1.0, "a", "no")] * (10 if unit else 1)
    first, second = (released(rows, nano=10**9, unit=unit) for rows in (BASE, [*BASE, *added]))
    assert 0.5 < least_loss(first, second) <= 1.0


def test_a_doubled_epsilon_is_detected_from_table_to_labels() -> None:
    """End to end at epsilon 2, the audit finds a loss above 1."""
    first, second = (released(rows, nano=2 * 10**9, unit=False) for rows in (BASE, [*BASE, (99, 1.0, "a", "no")]))
    assert least_loss(first, second) > 1.0
