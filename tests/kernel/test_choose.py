"""Choosing splits: exact utilities, their sensitivity, and the distribution of what is chosen."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpsql.errors import UnknownName
from dpsql.kernel.candidates import Candidates
from dpsql.kernel.operations import Choose
from dpsql.kernel.plan import Step
from dpsql.kernel.utility import UTILITIES, UTILITY_UNITS, utilities, width
from dpsql.schema import CELLS
from dpsql.trees.forest import Forest
from dpsql.trees.grid import Axis, axes
from dpsql.trees.grow.splits import Splits, many_way, two_way
from tests.kernel.helpers import held, session
from tests.tables import SCHEMA, Row

#: One axis of three cells and a category of three values, two classes: enough to tell every mistake apart.
GRID = (Axis(0, 0, 3, 3, ordered=True), Axis(1, 0, 3, 3, ordered=False))
LISTS = {"two way": two_way(GRID), "many way": many_way(GRID, 8)}
#: A row is its cell on the axis and its class.
PLACES = st.tuples(st.integers(0, 2), st.integers(0, 1))
SMALL = 64
TIMES = st.sampled_from([1, 7, 1000, 10**6])
#: The most that chi-square with three degrees of freedom passes once in a million times.
RARE = 30.7
EVERY = pytest.mark.parametrize("name", UTILITIES)


def table_of(rows: list[tuple[int, int]]) -> NDArray[np.int64]:
    """Return exact counts of (node, cell, class) of a node with these rows and of one with none."""
    counts = np.zeros((2, CELLS, 2), np.int64)
    for cell, label in rows:
        counts[0, cell, label] += 1
    return counts


def plain_utility(name: str, rows: list[tuple[int, int]], slots: list[int], most: int) -> float:
    """Return the utility of one split row by row, in rows, before rounding."""
    children = [[label for cell, label in rows if slots[cell] == child] for child in range(max(slots) + 1)]
    sizes = [len(child) for child in children]
    if name == "median":
        return -abs(2 * max(sizes) - sum(sizes))
    tallies = [[min(child.count(label), most // 2 if name == "entropy" else len(rows)) for label in (0, 1)]
               for child in children]  # fmt: skip
    if name == "majority":
        return sum(max(tally) for tally in tallies)
    if name == "gini":
        return sum(sum(k * k for k in tally) / max(1, sum(tally)) for tally in tallies)
    return sum(k * math.log2(k / sum(tally)) for tally in tallies for k in tally if k)


@EVERY
@pytest.mark.parametrize("splits", LISTS.values(), ids=LISTS)
@settings(max_examples=40)
@given(rows=st.lists(PLACES, max_size=12), axis=st.integers(0, 1))
def test_utilities_equal_plain_python(name: str, splits: Splits, rows: list[tuple[int, int]], axis: int) -> None:
    """Each split's utility is what counting row by row gives, up to the rounding that the grain allows."""
    found = utilities(name, table_of(rows), splits, axis, most=SMALL)
    grain = UTILITY_UNITS if name in ("gini", "entropy") else 1
    for number in np.flatnonzero(splits.arity[axis]):
        slots = splits.slots(axis)[number].tolist()
        children = max(slots) + 1
        assert found[0, number] == pytest.approx(
            grain * plain_utility(name, rows, slots, SMALL), abs=2 * children if grain > 1 else 0
        )


@EVERY
@pytest.mark.parametrize("splits", LISTS.values(), ids=LISTS)
@settings(max_examples=60)
@given(
    rows=st.lists(PLACES, max_size=60), new=PLACES, axis=st.integers(0, 1), times=st.sampled_from([1, 7, 1000, 10**6])
)
def test_a_row_moves_utilities_within_the_proved_width(
    name: str, splits: Splits, rows: list[tuple[int, int]], new: tuple[int, int], axis: int, times: int
) -> None:
    """One row more moves all utilities of its node within one interval of the width, and none of another node."""
    before, after = times * table_of(rows), times * table_of(rows)
    after[0, new[0], new[1]] += 1
    for most in (8, 2**31):
        moved = utilities(name, after, splits, axis, most=most) - utilities(name, before, splits, axis, most=most)
        here = moved[0][splits.arity[axis] > 0]
        low, high = _interval(name, most)
        assert low <= here.min() <= here.max() <= high
        assert high - low == width(name, most)
        assert not moved[1].any()


def _interval(name: str, most: int) -> tuple[int, int]:
    """Return the interval that `kernel/utility.py` proves."""
    if name == "entropy":
        return 3 - width(name, most), 3
    return {"median": (-1, 1), "majority": (0, 1), "gini": (-UTILITY_UNITS, UTILITY_UNITS)}[name]


@pytest.mark.parametrize(("name", "rows", "new"), [
    ("median", [(0, 0)], (0, 0)), ("median", [(0, 0)], (2, 0)), ("majority", [], (0, 0)), ("gini", [], (0, 0)),
])  # fmt: skip
def test_the_ends_of_the_intervals_are_reached(name: str, rows: list[tuple[int, int]], new: tuple[int, int]) -> None:
    """The widths are not larger than they must be: there are rows that move a utility to an end of its interval."""
    splits = LISTS["two way"]
    moved = utilities(name, table_of([*rows, new]), splits, 0) - utilities(name, table_of(rows), splits, 0)
    assert int(moved[0, 0]) in _interval(name, SMALL)


def test_entropy_pays_for_the_rows_it_may_see() -> None:
    """A row of a new class in a large pure node moves the entropy by nearly the whole width."""
    pure = table_of([(0, 0)]) * 2**29
    mixed = pure.copy()
    mixed[0, 0, 1] += 1
    splits = LISTS["two way"]
    moved = utilities("entropy", pure, splits, 0) - utilities("entropy", mixed, splits, 0)
    assert 0.9 * width("entropy") < moved[0, 0] < width("entropy")


def test_an_unknown_utility_is_refused() -> None:
    """Only utilities with a proof can be maximised."""
    with pytest.raises(UnknownName):
        utilities("medium", table_of([]), LISTS["two way"], 0)
    with pytest.raises(UnknownName):
        width("medium")


ROWS: list[Row] = [
    *[(k, 0.5, "a", "no") for k in range(4)],
    *[(k, 1.5, "a", "yes") for k in range(3)],
    *[(k, 2.5, "a", "yes") for k in range(2)],
    *[(k, 2.5, "b", "maybe") for k in range(2)],
]
#: Splits on x (axis 1) by the cells that go right, and one on c (axis 0): (axis, number in its list, right cells).
CHOICES = [(1, 0, ~0b1), (1, 1, ~0b11), (1, 2, ~0b111), (0, 1, 0b10)]


def oracle(utility: str) -> list[int]:
    """Return the utility of each of CHOICES on ROWS, by plain Python."""
    labels = {"no": 0, "yes": 1, "maybe": 2}
    found = []
    for axis, _, right in CHOICES:
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
    splits = two_way(forest.axes)
    measure = np.zeros((trees, 2, splits.most), np.int64)
    for (axis, number, _), weight in zip(CHOICES, weights or [1] * len(CHOICES), strict=True):
        measure[:, 1 - axis, number] = weight
    asked = np.tile(np.array([1, 0], np.int16), (trees, 1))
    step = Step("pick", Choose(utility), nano * trees, trees=trees, shared=True, cells=trees)
    chosen = session(held(ROWS), step).choose("pick", forest, Candidates(splits, asked, measure))
    places = [(1 - axis) * splits.most + number for axis, number, _ in CHOICES]
    assert set(chosen.tolist()) <= set(places)
    return np.array([np.count_nonzero(chosen == place) for place in places])


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
