"""Picking a mixture: right rows as in plain Python, the distribution of what is picked, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.compile.count.leaves import EVERY_UNIT, Part
from dpsql.errors import DpsqlError, ParameterError
from dpsql.kernel.operations import Pick, Size
from dpsql.kernel.plan import Sequential, Step
from dpsql.kernel.session import AllowanceExceeded, Session
from dpsql.schema import Schema
from dpsql.trees.estimate.mixtures import Mixtures
from dpsql.trees.forest import Forest, Level
from dpsql.trees.grid import axes
from dpsql.trees.voting import VotingForest
from tests.kernel.helpers import EPSILON, Held, Watched, counted, held, refill, session
from tests.rows import walk
from tests.tables import SCHEMA, TARGET, UNITS, Row, small_forest, some_rows, voting

#: As many trees, and mixtures that each listen to one of them: mixture m labels the first m rows of YES right.
KNOWN = 13
YES: list[Row] = [(k, k + 0.5, "a", "yes") for k in range(KNOWN - 1)]
#: How far a mean may be from what is expected, in standard deviations; beyond it once in 15,000 runs.
FAR = 4.0
LEVELS = pytest.mark.parametrize("schema", [SCHEMA, UNITS], ids=["row", "unit"])


def ladder(weights: list[int] | None = None) -> Mixtures:
    """Return mixtures of which number m says "yes" below x = m and "no" from there on."""
    trees = np.arange(KNOWN)
    masks = np.array([2**64 - 2**m for m in range(KNOWN)], np.uint64)
    level = Level(np.ones(KNOWN, np.int16), np.full(KNOWN, 2, np.uint8), masks[None, :])
    votes = np.tile(np.array([[0, 1, 0], [1, 0, 0]]), (KNOWN, 1))
    released = VotingForest(Forest(axes(SCHEMA), KNOWN, (level,)), votes)
    return Mixtures(released, trees, np.eye(KNOWN, dtype=np.int64), np.array(weights or [1] * KNOWN))


def pick_step(mixtures: Mixtures, nano: int = EPSILON, name: str = "pick") -> Step:
    """Return the step that picks one of these mixtures."""
    return Step(name, Pick(), nano, cells=len(mixtures.weights))


def some_mixtures(seed: int = 3, classes: int = 3) -> Mixtures:
    """Return six mixtures of three irregular trees in two parts."""
    factors = np.array([[1, 0], [0, 1], [1, 1], [7, 2], [0, 0], [1024, 3]])
    return Mixtures(
        voting(small_forest(trees=3, depth=3), classes, seed=seed, most=9),
        np.array([1, 0, 1]),
        factors,
        np.ones(6, int),
    )


def plain_right(database: Held, opened: Session, mixtures: Mixtures, part: Part = EVERY_UNIT) -> list[int]:
    """Return how many rows of a part each mixture labels right, one row after the other."""
    found = [0] * len(mixtures.factors)
    for row, label, ticket in counted(database, opened):
        if (ticket >> 32) % part.of != part.index:
            continue
        leaves = walk(opened.schema, mixtures.released.forest, row)
        for number, factors in enumerate(mixtures.factors.tolist()):
            speak = [mixtures.released.weights[leaf] * factors[mixtures.part[tree]] for tree, leaf in enumerate(leaves)]
            score = np.sum(speak, axis=0).tolist()
            found[number] += score.index(max(score)) == label
    return found


@LEVELS
@pytest.mark.parametrize("rows", [[], [(None, None, None, None)], some_rows(60)], ids=["empty", "all NULL", "many"])
def test_right_rows_are_those_of_plain_python(schema: Schema, rows: list[Row]) -> None:
    """The exact counts inside the kernel are what a walk row by row gives, zero for a table without rows."""
    database, mixtures = held(rows, schema=schema), some_mixtures()
    opened = session(database, pick_step(mixtures))
    found = opened._rows.right_rows(mixtures, EVERY_UNIT)
    assert found.tolist() == plain_right(database, opened, mixtures)
    assert (found.max() > 5) == (len(rows) > 1)


def test_a_unit_counts_with_its_most_rows() -> None:
    """Of ten rows of one person three are labelled right."""
    opened = session(held([(7, 0.5, "a", "yes")] * 10, schema=UNITS), pick_step(ladder()))
    assert opened._rows.right_rows(ladder(), EVERY_UNIT).tolist() == [0] + [3] * (KNOWN - 1)


def test_with_much_epsilon_the_best_is_picked() -> None:
    """The mixture with most right rows is picked, whatever the public weights say."""
    mixtures = ladder([10**6] * (KNOWN - 1) + [1])
    assert session(held(YES), pick_step(mixtures, 10**12)).pick("pick", mixtures) == KNOWN - 1


@LEVELS
def test_one_row_more_is_right_once_or_not_at_all(schema: Schema) -> None:
    """Adding a row moves each mixture's utility by 0 or 1: the sensitivity of the proof."""
    rows, mixtures = some_rows(30), some_mixtures()
    opened = session(held(rows, schema=schema), pick_step(mixtures))
    before = opened._rows.right_rows(mixtures, EVERY_UNIT)
    moved = []
    for new in ((5000, 20.0, "a", "yes"), (5001, None, None, "no"), (5002, float("nan"), "q", "maybe")):
        refill(opened, [*rows, new], schema=schema)
        moved.append(opened._rows.right_rows(mixtures, EVERY_UNIT) - before)
    assert set(np.concatenate(moved).tolist()) == {0, 1}
    refill(opened, [*rows, (5003, 1.0, "a", "unknown label")], schema=schema)
    assert not (opened._rows.right_rows(mixtures, EVERY_UNIT) - before).any()


GAINS = [7, 1, 30]


def test_gains_weigh_right_rows_by_their_class() -> None:
    """A row that is labelled right is worth the gain of its class, one labelled wrong nothing."""
    database, plain = held(some_rows(60)), some_mixtures()
    opened = session(database, pick_step(plain))
    weighed = opened._rows.right_rows(replace(plain, gains=of_all(GAINS)), EVERY_UNIT)
    alone = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    by_class = [opened._rows.right_rows(replace(plain, gains=of_all(gains)), EVERY_UNIT) for gains in alone]
    assert np.sum(by_class, axis=0).tolist() == plain_right(database, opened, plain)
    assert (np.array(GAINS) @ np.array(by_class)).tolist() == weighed.tolist()
    assert all(counts.any() for counts in by_class)


@LEVELS
def test_one_row_more_is_worth_its_gain_or_nothing(schema: Schema) -> None:
    """Adding a row moves what each mixture is worth by 0 or by the gain of its class: the sensitivity of the proof."""
    rows, mixtures = some_rows(30), replace(some_mixtures(), gains=of_all(GAINS))
    opened = session(held(rows, schema=schema), pick_step(mixtures))
    before = opened._rows.right_rows(mixtures, EVERY_UNIT)
    reached = set()
    for label, gain in zip(schema.classes, GAINS, strict=True):
        for number, (x, z) in enumerate(((20.0, "a"), (None, None), (1.0, "b"))):
            refill(opened, [*rows, (5000 + number, x, z, label)], schema=schema)
            moved = set((opened._rows.right_rows(mixtures, EVERY_UNIT) - before).tolist())
            assert moved <= {0, gain}
            reached |= moved
    assert len(reached) >= 3


@pytest.mark.parametrize(("gains", "rate"), [([9, 9, 9], 0.3), ([30, 3, 1], 0.03), ([0, 1, 0], 0.3)])
def test_the_largest_gain_sets_the_noise(gains: list[int], rate: float) -> None:
    """Mixtures are picked with chance ∝ exp(e · worth / largest gain): here the rows are all of the second class."""
    mixtures = replace(ladder(), gains=of_all(gains, KNOWN))
    found = picked(SCHEMA, 300_000_000, mixtures, worth=gains[1])
    assert distance(found, rate) < FAR
    assert distance(found, rate * 1.3 + 0.05) > FAR


@pytest.mark.parametrize("gains", [[1, 1], [1, 1, -1], [0, 0, 0], [1, 1, 2**10 + 1]])
def test_wrong_gains_are_refused(gains: list[int]) -> None:
    """There is one whole number from 0 to 1024 for each mixture and class, and they are not all 0."""
    with pytest.raises(ParameterError):
        replace(ladder(), gains=of_all(gains, KNOWN))
    with pytest.raises(ParameterError):
        replace(ladder(), gains=of_all([600, 600, 600], KNOWN), weights=np.ones(1, int), option=np.zeros(KNOWN, int))


@pytest.mark.parametrize("option", [[0] * (KNOWN - 1), [0, 2] * 6 + [0], [-1] + [0] * (KNOWN - 1)])
def test_unknown_options_are_refused(option: list[int]) -> None:
    """Each mixture belongs to one of as many options as there are weights."""
    with pytest.raises(ParameterError):
        replace(ladder(), weights=np.ones(2, int), option=np.array(option))


def test_an_option_is_worth_what_its_mixtures_are_worth_together() -> None:
    """The number that comes back is that of an option, and its noise follows from what one row adds to the option."""
    pairs = replace(ladder(), option=np.arange(KNOWN) // 7, weights=np.array([1, 3]), gains=of_all([2, 5, 1], KNOWN))
    assert pairs.largest_gain == 35
    opened = session(held(YES), pick_step(pairs, 10**12))
    assert opened._rows.right_rows(pairs, EVERY_UNIT).tolist() == [5 * sum(range(7)), 5 * sum(range(7, KNOWN))]
    assert opened.pick("pick", pairs) == 1
    times = 3000
    opened = session(held(YES), Sequential(tuple(pick_step(pairs, 140_000_000, f"{n}") for n in range(times))))
    opened._rows.right_rows = lambda mixtures, part: np.array([105, 285])  # type: ignore[method-assign]
    share = np.mean([opened.pick(f"{number}", pairs) for number in range(times)])
    odds = 3 * np.exp(0.14 / 35 * (285 - 105))
    assert abs(share - odds / (1 + odds)) < FAR * np.sqrt(0.25 / times)


def of_all(gains: Sequence[int], mixtures: int = 6) -> NDArray[np.int64]:
    """Return the same gains for each of some mixtures."""
    return np.tile(np.array(gains), (mixtures, 1))


def picked(schema: Schema, nano: int, mixtures: Mixtures, times: int = 4000, worth: int = 1) -> NDArray[np.int64]:
    """Return how often each mixture is picked on YES, one session for all; exact counts are asked for once."""
    steps = tuple(pick_step(mixtures, nano, f"pick {number}") for number in range(times))
    opened = session(held(YES, schema=schema), Sequential(steps))
    exact = opened._rows.right_rows(mixtures, EVERY_UNIT)
    assert exact.tolist() == list(range(0, worth * KNOWN, worth))
    opened._rows.right_rows = lambda mixtures, part: exact  # type: ignore[method-assign]
    chosen = [opened.pick(step.name, mixtures) for step in steps]
    return np.bincount(chosen, minlength=KNOWN)


def distance(found: NDArray[np.int64], rate: float, weights: list[int] | None = None) -> float:
    """Return how far the mean of right rows is from that of chances ∝ weight · exp(rate · right), in deviations."""
    right = np.arange(KNOWN)
    chance = np.array(weights or [1] * KNOWN) * np.exp(rate * right)
    chance = chance / chance.sum()
    mean = float(chance @ right)
    deviation = float(np.sqrt(chance @ (right - mean) ** 2 / found.sum()))
    return abs(float(found @ right) / found.sum() - mean) / deviation


@LEVELS
def test_picks_follow_the_exponential_mechanism(schema: Schema) -> None:
    """Mixtures are picked with chance ∝ exp(e · right), e = epsilon over the rows of a unit; 30 % off is rejected."""
    found = picked(schema, 300_000_000 * schema.unit.max_rows, ladder())
    assert distance(found, 0.3) < FAR
    assert distance(found, 0.3 * 1.3) > FAR
    assert distance(found, 0.3 / 1.3) > FAR


def test_weights_are_a_base_measure() -> None:
    """A mixture's chance is proportional to its public weight; equal weights would be rejected."""
    weights = [8, 8, 8, 8, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    found = picked(SCHEMA, 100_000_000, ladder(weights), times=1500)
    assert distance(found, 0.1, weights) < FAR
    assert distance(found, 0.1) > FAR


def test_more_mixtures_than_declared_are_refused_unread() -> None:
    """A step for two mixtures does not pay for thirteen; fewer than declared are no more than was paid for."""
    database = held(YES)
    opened = session(database, Step("pick", Pick(), EPSILON, cells=2))
    opened._rows._engine = watched = Watched(database.engine)  # type: ignore[assignment]
    with pytest.raises(AllowanceExceeded):
        opened.pick("pick", ladder())
    assert watched.statements == []
    assert repr(opened) == "<Session: 1 of 1 steps left>"


def test_a_step_is_used_once() -> None:
    """A second pick under one step is refused."""
    opened = session(held(YES), pick_step(ladder()))
    opened.pick("pick", ladder())
    with pytest.raises(AllowanceExceeded):
        opened.pick("pick", ladder())


def test_numbers_are_refused() -> None:
    """A numeric target has no classes that a mixture could get right."""
    with pytest.raises(AllowanceExceeded):
        session(held([], schema=TARGET), pick_step(ladder())).pick("pick", ladder())


def test_votes_for_other_classes_are_refused() -> None:
    """Mixtures of a forest with fewer or more classes than the schema's do not fit."""
    for classes in (2, 4):
        mixtures = some_mixtures(classes=classes)
        with pytest.raises(AllowanceExceeded):
            session(held(YES), pick_step(mixtures)).pick("pick", mixtures)


def test_another_operation_does_not_pay_for_a_pick() -> None:
    """A step that was declared for a size buys no pick."""
    with pytest.raises(AllowanceExceeded):
        session(held(YES), Step("pick", Size(), EPSILON, cells=KNOWN)).pick("pick", ladder())


def test_scores_that_could_overflow_are_refused_before_any_row() -> None:
    """Whether a sum overflows would tell whether a row is there: weights that could are refused as public facts."""
    trees = 3000
    forest = Forest(axes(SCHEMA), trees, ())
    part, one = np.zeros(trees, np.int64), np.ones(1, np.int64)
    large = VotingForest(forest, np.full((trees, 3), 2**40))
    with pytest.raises(ParameterError):
        Mixtures(large, part, np.array([[1024]]), one)
    largest = Mixtures(replace(large, weights=large.weights // 1024), part, np.array([[1024]]), one)
    assert session(held(some_rows()), pick_step(largest)).pick("pick", largest) == 0


def test_a_failed_pick_tells_no_count() -> None:
    """When the query fails the step is spent, and the error quotes nothing."""
    database = held(some_rows(77))
    opened = session(database, pick_step(ladder()))
    with database.engine.transaction() as transaction:
        transaction.run("DROP TABLE people")
    with pytest.raises(DpsqlError) as caught:
        opened.pick("pick", ladder())
    assert not any(character.isdigit() for character in str(caught.value))
    with pytest.raises(AllowanceExceeded):
        opened.pick("pick", ladder())
