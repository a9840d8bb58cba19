"""Scored rows on the public grid: exact as in plain Python, one cell per histogram and row, right noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.compile.count.leaves import EVERY_UNIT
from dpsql.compile.count.score_counts import CHANCES
from dpsql.kernel.operations import ScoreCounts
from dpsql.kernel.plan import Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import AllowanceExceeded, Session
from dpsql.schema import Categorical, Numeric, Schema
from dpsql.trees.grid import axes, grid_cells
from dpsql.trees.score_grid import BRIER_SCORES, LEAST_PROBABILITY, LOG_LOSSES, LOWER, POINTS, UPPER, ScoreGrid
from dpsql.trees.voting import VotingForest
from tests.kernel.helpers import EPSILON, Held, counted, has_scale, held, refill, session
from tests.tables import SCHEMA, TARGET, UNITS, Row, small_forest, some_rows

TWO = replace(SCHEMA, classes=("no", "yes"))
TWO_UNITS = replace(UNITS, classes=("no", "yes"))
SCHEMAS = {"two": TWO, "three": SCHEMA, "two, units": TWO_UNITS, "three, units": UNITS}
LEVELS = pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
KINDS = pytest.mark.parametrize("nat", [0, 3], ids=["votes", "log-scores"])


def scorer(schema: Schema, nat: int, seed: int = 2) -> VotingForest:
    """Return a forest with votes or log-scores, negative ones among them."""
    forest = small_forest(schema, trees=3, depth=3)
    return VotingForest(forest, np.random.default_rng(seed).integers(-5, 4, (forest.leaves, len(schema.classes))), nat)


def step(schema: Schema, nano: int = EPSILON, name: str = "scores") -> Step:
    """Return the step that counts scored rows."""
    grid = ScoreGrid(len(schema.classes))
    return Step(name, ScoreCounts(), nano, axes=len(grid.histograms), cells=grid.cells)


def place(value: float, points: Sequence[float], chance: float) -> int:
    """Return the point that a value counts at: the upper of the two around it with the chance of where it lies."""
    for number in range(len(points) - 1):
        if value < points[number] + chance * (points[number + 1] - points[number]):
            return number
    return len(points) - 1


def sided(share: float, upper: bool, chance: float) -> int:
    """Return the point of a probability in one half."""
    return len(LOWER) + place(share, UPPER, chance) if upper else place(share, LOWER, chance)


def row_cells(schema: Schema, released: VotingForest, row: dict[str, Any], label: int, ticket: int) -> list[int]:
    """Return the cell of one row in each histogram, one after the other, by the definition."""
    found = grid_cells(schema, {feature.name: [row[feature.name]] for feature in schema.features})
    scores = released.scores(found)
    shares = released.shares(scores)[0].tolist()
    predicted, chance = int(np.argmax(scores[0])), ticket % CHANCES / CHANCES
    if len(schema.classes) == 2:
        return [label * len(POINTS) + sided(shares[1], predicted == 1, chance)]
    loss = 1 - 2 * shares[label] + sum(share * share for share in shares)
    inside = [
        label * len(schema.classes) + predicted,
        (label == predicted) * len(POINTS) + sided(shares[predicted], shares[predicted] >= 0.5, chance),
        place(-math.log(max(shares[label], LEAST_PROBABILITY)), LOG_LOSSES, chance),
        place(loss, BRIER_SCORES, chance),
    ]
    starts = ScoreGrid(len(schema.classes)).starts.values()
    return [start + cell for start, cell in zip(starts, inside, strict=True)]


def exact(database: Held, opened: Session, released: VotingForest) -> NDArray[np.int64]:
    """Return the counts of all cells, one row at a time."""
    schema = opened.schema
    found = np.zeros(ScoreGrid(len(schema.classes)).cells, np.int64)
    for row, label, ticket in counted(database, opened):
        np.add.at(found, row_cells(schema, released, row, label, ticket), 1)
    return found


@LEVELS
@KINDS
def test_counts_are_those_of_plain_python(schema: Schema, nat: int) -> None:
    """With next to no noise every cell holds the rows that a walk through the trees puts there."""
    database, released = held(some_rows(60), schema=schema), scorer(schema, nat)
    opened = session(database, step(schema, 10**12))
    found = opened.score_counts("scores", released, schema.features)
    assert found.tolist() == exact(database, opened, released).tolist()
    assert found.sum() == len(counted(database, opened)) * len(ScoreGrid(len(schema.classes)).histograms)
    assert np.count_nonzero(found) > 5


@pytest.mark.parametrize("rows", [[], [(None, None, None, None)]], ids=["empty", "all NULL"])
@LEVELS
def test_every_cell_is_released(schema: Schema, rows: list[Row]) -> None:
    """The grid is the same, and noisy everywhere, whatever the rows."""
    opened = session(held(rows, schema=schema), step(schema, 10**6))
    found = opened.score_counts("scores", scorer(schema, 3), schema.features)
    assert found.shape == (ScoreGrid(len(schema.classes)).cells,)
    assert np.count_nonzero(found) > 0.9 * found.size


@LEVELS
@KINDS
def test_one_row_more_is_one_more_in_one_cell_of_each_histogram(schema: Schema, nat: int) -> None:
    """Neighbours differ by 1 in one cell of each histogram: the sensitivity of the proof, other rows unmoved."""
    rows, released = some_rows(30), scorer(schema, nat)
    for new in ((5000, 20.0, "a", "yes"), (5000, float("nan"), None, "no"), (5000, None, "b", "unknown label")):
        opened = session(held(rows, schema=schema), step(schema))
        before = opened._rows.score_counts(released, schema.features, ScoreGrid(len(schema.classes)), EVERY_UNIT)
        refill(opened, [*rows, new], schema=schema)
        change = (
            opened._rows.score_counts(released, schema.features, ScoreGrid(len(schema.classes)), EVERY_UNIT) - before
        )
        counts = new[3] in schema.classes
        parts = [
            ScoreGrid(len(schema.classes)).part(change, name) for name, _ in ScoreGrid(len(schema.classes)).histograms
        ]
        assert all(sorted(part.tolist()) == [0] * (len(part) - counts) + [1] * counts for part in parts)


@pytest.mark.parametrize("schema", [TWO_UNITS, UNITS], ids=["two", "three"])
def test_a_unit_counts_with_its_most_rows(schema: Schema) -> None:
    """Of ten rows of one person three are counted."""
    rows: list[Row] = [(7, float(number), "a", "yes") for number in range(10)]
    opened = session(held(rows, schema=schema), step(schema))
    found = opened._rows.score_counts(scorer(schema, 3), schema.features, ScoreGrid(len(schema.classes)), EVERY_UNIT)
    assert found.sum() == 3 * len(ScoreGrid(len(schema.classes)).histograms)


@pytest.mark.parametrize("schema", [SCHEMA, UNITS], ids=["row", "unit"])
def test_noise_has_the_stated_scale(schema: Schema) -> None:
    """Released minus exact counts is noise of scale c·H/epsilon; 30 % off is told apart. Many classes: many cells."""
    schema = replace(schema, classes=(*schema.classes, *(f"class {number}" for number in range(45))))
    database, released = held(some_rows(), schema=schema), scorer(schema, 3)
    opened = session(database, step(schema, EPSILON // 4))
    noise = opened.score_counts("scores", released, schema.features) - exact(database, opened, released)
    scale = Fraction(4 * 4 * schema.unit.max_rows)
    assert noise.size > 2000
    assert has_scale(noise, scale)
    assert not has_scale(noise, scale * Fraction(13, 10))
    assert not has_scale(noise, scale * Fraction(10, 13))


@pytest.mark.parametrize(("schema", "scale"), [(TWO, 1), (SCHEMA, 4), (TWO_UNITS, 3), (UNITS, 12)])
def test_two_classes_take_a_quarter_of_the_noise(schema: Schema, scale: int) -> None:
    """Two classes take one histogram, more take four; a unit of three rows three times as much."""
    assert step(schema).scale(Promise(schema.unit)) == scale


def test_a_step_is_used_once() -> None:
    """A second evaluation under one step is refused."""
    opened = session(held(some_rows()), step(SCHEMA))
    opened.score_counts("scores", scorer(SCHEMA, 3), SCHEMA.features)
    with pytest.raises(AllowanceExceeded):
        opened.score_counts("scores", scorer(SCHEMA, 3), SCHEMA.features)


def test_fewer_histograms_than_are_counted_are_refused() -> None:
    """A step that declares one histogram, and so less noise, does not pay for four."""
    grid = ScoreGrid(3)
    opened = session(held(some_rows()), Step("scores", ScoreCounts(), EPSILON, cells=grid.cells))
    with pytest.raises(AllowanceExceeded):
        opened.score_counts("scores", scorer(SCHEMA, 3), SCHEMA.features)


@pytest.mark.parametrize(
    "features",
    [(Numeric("person", 0, 9),), (Numeric("c", 0, 9), Numeric("x", 0, 64)), (Categorical("c", ("a", "b")),)],
    ids=["not registered", "another kind", "another forest"],
)
def test_what_was_not_registered_is_not_read(features: tuple[Any, ...]) -> None:
    """Features must be registered ones, and the forest must be one of these features."""
    forest = small_forest(replace(SCHEMA, features=features) if features[0].name == "person" else SCHEMA)
    released = VotingForest(forest, np.ones((forest.leaves, 3), np.int64))
    with pytest.raises(AllowanceExceeded):
        session(held(some_rows()), step(SCHEMA)).score_counts("scores", released, features)


def test_a_forest_with_other_domains_reads_its_own() -> None:
    """Domains are the model's: the registered ones may be wider, and the counts follow the model."""
    own = replace(SCHEMA, features=(SCHEMA.features[0], Numeric("x", 10, 20)))
    forest = small_forest(own, trees=2, depth=3)
    assert forest.axes == axes(SCHEMA)
    released = VotingForest(forest, np.random.default_rng(1).integers(0, 9, (forest.leaves, 3)))
    database = held(some_rows(60))
    opened = session(database, step(SCHEMA, 10**12))
    found = opened.score_counts("scores", released, own.features)
    wanted = np.zeros_like(found)
    for row, label, ticket in counted(database, opened):
        np.add.at(wanted, row_cells(own, released, row, label, ticket), 1)
    assert found.tolist() == wanted.tolist()


def test_numbers_are_refused() -> None:
    """A numeric target has no classes to count."""
    forest = small_forest(TARGET)
    released = VotingForest(forest, np.ones((forest.leaves, 2), np.int64), 3)
    with pytest.raises(AllowanceExceeded):
        session(held([], schema=TARGET), step(TWO)).score_counts("scores", released, TARGET.features)


@LEVELS
@KINDS
def test_confidence_alone_is_the_histogram_of_the_whole_grid(schema: Schema, nat: int) -> None:
    """Calibration asks for one histogram of any number of classes: the same counts, at a sensitivity of one."""
    opened, released = session(held(some_rows(60), schema=schema), step(schema)), scorer(schema, nat)
    whole, alone = ScoreGrid(len(schema.classes)), ScoreGrid(len(schema.classes), confidence_alone=True)
    [(name, _)] = alone.histograms
    found = opened._rows.score_counts(released, schema.features, alone, EVERY_UNIT)
    every = opened._rows.score_counts(released, schema.features, whole, EVERY_UNIT)
    assert found.tolist() == whole.part(every, name).tolist()
    assert found.sum() > 0
