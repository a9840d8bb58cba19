"""Choosing splits: exact utilities, their sensitivity, and the distribution of what is chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpsql.errors import UnknownName
from dpsql.kernel.candidates import Candidates
from dpsql.kernel.plan import Step
from dpsql.kernel.utility import MONOTONE, utilities
from dpsql.schema import CELLS
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from tests.kernel.helpers import held, session
from tests.tables import SCHEMA, Row

#: Three cells of each of two axes and two classes are enough to tell every mistake apart.
PLACES = st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 2), st.integers(0, 1))
SPLITS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 7)), min_size=1, max_size=6)
#: The most that chi-square with three degrees of freedom passes once in a million times.
RARE = 30.7


def plain_utility(name: str, rows: list[Any], leaf: int, axis: int, right: int) -> int:
    """Return the utility of one split at one leaf, row by row; a row is (leaf, cell on axis 0, on axis 1, class)."""
    sides: list[list[int]] = [[], []]
    for row in rows:
        if row[0] == leaf:
            sides[right >> row[1 + axis] & 1].append(row[3])
    if name == "median":
        return -abs(len(sides[0]) - len(sides[1]))
    return sum(max((side.count(label) for label in (0, 1)), default=0) for side in sides)


def table_of(rows: list[Any]) -> NDArray[np.int64]:
    """Return exact counts of (leaf, axis, cell, class)."""
    counts = np.zeros((2, 2, CELLS, 2), np.int64)
    for leaf, first, second, label in rows:
        counts[leaf, 0, first, label] += 1
        counts[leaf, 1, second, label] += 1
    return counts


def both_leaves(splits: list[tuple[int, int]]) -> Candidates:
    """Return the same candidates for two leaves; a last one for each axis makes sure that both are read."""
    padded = [*splits, (0, 0), (1, 0)]
    axis = np.array([[one for one, _ in padded]] * 2, np.int16)
    return Candidates(axis, np.array([[right for _, right in padded]] * 2, np.uint64))


@pytest.mark.parametrize("name", MONOTONE)
@settings(max_examples=60)
@given(rows=st.lists(PLACES, max_size=12), splits=SPLITS)
def test_utilities_equal_plain_python(name: str, rows: list[Any], splits: list[tuple[int, int]]) -> None:
    """Each candidate's utility is what counting row by row gives."""
    found = utilities(name, table_of(rows), both_leaves(splits))
    for leaf in (0, 1):
        for place, (axis, right) in enumerate(splits):
            assert found[leaf, place] == plain_utility(name, rows, leaf, axis, right)


@pytest.mark.parametrize("name", MONOTONE)
@settings(max_examples=50)
@given(rows=st.lists(PLACES, max_size=12), new=PLACES, splits=SPLITS)
def test_a_row_changes_a_utility_by_at_most_one(
    name: str, rows: list[Any], new: tuple[int, int, int, int], splits: list[tuple[int, int]]
) -> None:
    """One row more moves each utility of its own leaf by at most 1, and none of another leaf."""
    chosen = both_leaves(splits)
    moved = utilities(name, table_of([*rows, new]), chosen) - utilities(name, table_of(rows), chosen)
    assert np.abs(moved).max() <= 1
    assert not moved[1 - new[0]].any()


@settings(max_examples=50)
@given(rows=st.lists(PLACES, max_size=12), new=PLACES, splits=SPLITS)
def test_majority_is_monotone(rows: list[Any], new: tuple[int, int, int, int], splits: list[tuple[int, int]]) -> None:
    """One row more never lowers a majority utility: what the factor of 1 for 2 rests on."""
    chosen = both_leaves(splits)
    moved = utilities("majority", table_of([*rows, new]), chosen) - utilities("majority", table_of(rows), chosen)
    assert moved.min() >= 0


def test_median_is_not_claimed_to_be_monotone() -> None:
    """A row on the larger side lowers the median utility, so the full factor 2 must be paid."""
    chosen = both_leaves([(0, 1)])
    before, after = (utilities("median", table_of([(0, 0, 0, 0)] * k), chosen)[0, 0] for k in (1, 2))
    assert after < before
    assert not MONOTONE["median"]


def test_an_unknown_utility_is_refused() -> None:
    """Only utilities with a proof can be maximised."""
    with pytest.raises(UnknownName):
        utilities("medium", table_of([]), both_leaves([(0, 1)]))


ROWS: list[Row] = [
    *[(k, 0.5, "a", "no") for k in range(4)],
    *[(k, 1.5, "a", "yes") for k in range(3)],
    *[(k, 2.5, "a", "yes") for k in range(2)],
    *[(k, 2.5, "b", "maybe") for k in range(2)],
]
#: Splits on x (axis 1) by the cells that go right, and one on c (axis 0).
CHOICES = [(1, 0b110), (1, 0b010), (1, 0b000), (0, 0b10)]


def oracle(utility: str) -> list[int]:
    """Return the utility of each of CHOICES on ROWS, by plain Python."""
    labels = {"no": 0, "yes": 1, "maybe": 2}
    found = []
    for axis, right in CHOICES:
        sides: list[list[int]] = [[], []]
        for _, x, c, y in ROWS:
            cell = int(x or 0) if axis == 1 else "ab".index(c or "")
            sides[right >> cell & 1].append(labels[y or ""])
        median = -abs(len(sides[0]) - len(sides[1]))
        majority = sum(max((side.count(k) for k in range(3)), default=0) for side in sides)
        found.append(median if utility == "median" else majority)
    return found


def draw(utility: str, *, weights: list[int] | None = None, nano: int, trees: int = 5000) -> NDArray[np.int64]:
    """Return how often each of CHOICES is chosen by as many shared one-leaf trees, each at row epsilon nano/10**9."""
    forest = Forest(axes(SCHEMA), trees, ())
    shape = (trees, 1)
    axis = np.tile(np.array([one for one, _ in CHOICES], np.int16), shape)
    right = np.tile(np.array([mask for _, mask in CHOICES], np.uint64), shape)
    measure = None if weights is None else np.tile(np.array(weights, np.int64), shape)
    step = Step("pick", "choose", nano * trees, trees=trees, shared=True, cells=trees, utility=utility)
    chosen = session(held(ROWS), step).choose("pick", forest, Candidates(axis, right, measure))
    return np.bincount(chosen, minlength=len(CHOICES))


def distance(found: NDArray[np.int64], utility: str, rate: float, weights: list[int] | None = None) -> float:
    """Return chi-square of the choices against weight · exp(rate · utility)."""
    share = np.array(weights or [1] * len(CHOICES)) * np.exp(rate * np.array(oracle(utility)))
    expected = share / share.sum() * found.sum()
    kept = expected > 0
    assert not found[~kept].any()
    return float((((found - expected) ** 2)[kept] / expected[kept]).sum())


@pytest.mark.parametrize(("utility", "factor"), [("median", 0.5), ("majority", 1.0)])
def test_choices_follow_the_exponential_mechanism(utility: str, factor: float) -> None:
    """Candidates are chosen with chance ∝ exp(rate · utility), rate e/2 (e when monotone); 30 % off is rejected."""
    found = draw(utility, nano=800_000_000)
    assert distance(found, utility, 0.8 * factor) < RARE
    assert distance(found, utility, 0.8 * factor * 1.3) > RARE
    assert distance(found, utility, 0.8 * factor / 1.3) > RARE


def test_weights_are_a_base_measure() -> None:
    """A candidate's chance is proportional to its public weight; equal weights would be rejected."""
    weights = [1, 4, 2, 3]
    found = draw("majority", nano=300_000_000, weights=weights)
    assert distance(found, "majority", 0.3, weights) < RARE
    assert distance(found, "majority", 0.3) > RARE


def test_a_weight_of_zero_is_never_chosen() -> None:
    """The best candidate by far is not chosen when its weight rules it out."""
    best = int(np.argmax(oracle("majority")))
    weights = [0 if place == best else 1 for place in range(len(CHOICES))]
    found = draw("majority", nano=10**10, weights=weights, trees=300)
    assert found[best] == 0
    assert found.sum() == 300
