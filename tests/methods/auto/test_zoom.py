"""Zooming: ranges that are mostly empty are narrowed to where rows are, all others stay."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.kernel.operations import Histograms
from dpsql.kernel.plan import Sequential, Step
from dpsql.kernel.session import Session
from dpsql.methods.auto.auto_steps import ZOOMS
from dpsql.methods.auto.zoom import BINS, NARROWER, STANDS, TAIL, crowded_pair, holds_cells, occupied_bins, zoom_in
from dpsql.schema import CELLS, Categorical, Numeric, Schema
from tests.kernel.helpers import held, session
from tests.tables import Row


@settings(max_examples=200)
@given(
    rows=st.lists(st.integers(-50, 2000), min_size=BINS, max_size=BINS),
    first=st.integers(0, BINS - 1),
    wide=st.integers(1, BINS),
    deviation=st.floats(0.1, 100),
)
def test_what_is_kept_holds_nearly_all_rows(rows: list[int], first: int, wide: int, deviation: float) -> None:
    """A range that is narrowed is a part of the bins, at most 60 %, with all but the tails of what stands out."""
    noisy = np.where((np.arange(BINS) >= first) & (np.arange(BINS) < first + wide), rows, 0).astype(np.float64)
    total = float(np.maximum(noisy, 0).sum())
    occupied = occupied_bins(noisy, deviation, total)
    if occupied is None:
        return
    low, high = occupied
    standing = np.where(noisy > STANDS * deviation, noisy, 0)
    assert 0 <= low < high <= BINS
    assert high - low < NARROWER * BINS
    assert standing[:low].sum() <= TAIL * standing.sum()
    assert standing[high:].sum() <= TAIL * standing.sum()
    assert 24 * deviation <= total


def test_a_bin_on_either_side_is_kept_too() -> None:
    """Rows in bins 10 to 12: bins 9 to 13 are kept; at the ends there is none beyond."""
    counts = np.zeros(BINS)
    counts[10:13] = 400
    assert occupied_bins(counts, 1.0, 1200) == (9, 14)
    assert occupied_bins(np.roll(counts, -10), 1.0, 1200) == (0, 4)
    assert occupied_bins(np.roll(counts, BINS - 13), 1.0, 1200) == (BINS - 4, BINS)


@pytest.mark.parametrize(
    ("counts", "deviation", "rows"),
    [
        (np.full(BINS, 40.0), 1.0, 1280),
        ([1000.0] + [0.0] * (BINS - 1), 50.0, 1000),
        ([1000.0] + [0.0] * (BINS - 1), 1.0, 2000),
        (np.zeros(BINS), 1.0, 1000),
        (np.full(BINS, -5.0), 1.0, 1000),
    ],
    ids=["rows everywhere", "too much noise", "most rows unseen", "no rows", "less than none"],
)
def test_a_range_stays_where_little_is_known(counts: object, deviation: float, rows: float) -> None:
    """Nothing is narrowed where rows are spread out or the histogram does not show nearly all of them."""
    assert occupied_bins(np.array(counts, np.float64), deviation, rows) is None


def test_noise_alone_is_not_taken_for_rows() -> None:
    """In a thousand histograms of noise, with rows in one bin, bins far from it are seldom kept."""
    generator, far = np.random.default_rng(1), 0
    for _ in range(1000):
        counts = generator.laplace(0, 10 / np.sqrt(2), BINS)
        counts[4] += 2000
        occupied = occupied_bins(counts, 10.0, 2000)
        far += occupied is not None and occupied[1] > 12
    assert far < 150


SCHEMA = Schema("y", ("no", "yes", "maybe"), (Categorical("c", ("a", "b")), Numeric("x", 0, 640)))


def narrowed(schema: Schema, x: list[float]) -> Schema:
    """Return the schema after a zoom over these numbers, nearly without noise."""
    rows: list[Row] = [(number, value, "a", "yes") for number, value in enumerate(x)]
    numeric = len(schema.numeric)
    step = Step("zoom", Histograms(), 10**13, axes=numeric, cells=numeric * CELLS)
    opened = session(held(rows, schema=schema), step)
    zoom_in(opened, len(rows))
    return opened.schema


def test_a_mostly_empty_range_is_narrowed_to_its_rows() -> None:
    """Numbers from 200 to 260 of 0 to 640: the new range has them, and a bin of 20 on either side."""
    schema = narrowed(SCHEMA, [200 + number % 60 for number in range(600)])
    assert schema.features == (SCHEMA.features[0], Numeric("x", 180, 280))


def test_a_range_full_of_rows_stays() -> None:
    """Numbers everywhere: the schema is as declared."""
    assert narrowed(SCHEMA, [number % 640 for number in range(1280)]) == SCHEMA


def test_a_range_of_few_cells_stays() -> None:
    """Where the owner declared a grid of its own, its cells are kept."""
    own = Schema("y", SCHEMA.classes, (Categorical("c", ("a", "b")), Numeric("x", 0, 640, cells=16)))
    assert narrowed(own, [200 + number % 60 for number in range(600)]) == own


def test_a_range_too_narrow_for_its_cells_stays() -> None:
    """Far from zero floats lie too far apart for 64 cells of a small range: nothing is narrowed, nothing fails."""
    far = Numeric("x", 1e15, 1e15 + 100)
    schema = Schema("y", SCHEMA.classes, (Categorical("c", ("a", "b")), far))
    assert not holds_cells(far, 1e15, 1e15 + 6)
    assert narrowed(schema, [1e15 + 1] * 600) == schema


def zoomed(schema: Schema, x: list[float], looks: int, nano_epsilon: int = 10**13) -> tuple[Session, Schema]:
    """Return the session and its schema after up to `looks` looks at these numbers."""
    rows: list[Row] = [(number, value, "a", "yes") for number, value in enumerate(x)]
    numeric = len(schema.numeric)
    steps = [Step(name, Histograms(), nano_epsilon, axes=numeric, cells=numeric * CELLS) for name in ZOOMS[:looks]]
    opened = session(held(rows, schema=schema), Sequential(tuple(steps)))
    zoom_in(opened, len(rows), ZOOMS[:looks])
    return opened, opened.schema


@pytest.mark.parametrize(("lower", "upper"), [(-500_000, 500_000), (0, 1_000_000), (-999_000, 1_000)])
def test_a_range_a_thousand_times_too_wide_is_narrowed_to_its_rows(lower: float, upper: float) -> None:
    """Numbers from 200 to 260, declared within a million: a few looks leave less than ten times their spread."""
    schema = Schema("y", SCHEMA.classes, (Categorical("c", ("a", "b")), Numeric("x", lower, upper)))
    _, narrower = zoomed(schema, [200 + number % 60 for number in range(600)], 4)
    feature = narrower.numeric[0]
    assert feature.lower <= 200
    assert feature.upper >= 259
    assert feature.upper - feature.lower < 600


def test_the_second_look_is_not_made_without_need() -> None:
    """Where the first look finds rows in more than two cells, the others are left alone."""
    opened, _ = zoomed(SCHEMA, [200 + number % 60 for number in range(600)], 3)
    assert len(opened._allowance) == 2


def test_a_tail_keeps_its_cells() -> None:
    """Where a tenth of the rows lies far from the others, the range is not cut down to two cells."""
    x = [float(number % 10 == 0) * (100 + number % 300) for number in range(1000)]
    _, narrower = zoomed(SCHEMA, x, 3)
    assert narrower.numeric[0].upper >= 300


def test_noise_alone_narrows_hardly_ever() -> None:
    """In a thousand histograms of rows spread out, at the least strength of a short look, no two cells seem crowded."""
    generator, seen = np.random.default_rng(2), 0
    for _ in range(1000):
        noisy_cells = generator.laplace(0, 1, CELLS) + 15 / CELLS
        seen += crowded_pair(noisy_cells, math.sqrt(2), 15) is not None
    assert seen <= 20


def test_crowded_cells_are_found_at_the_least_strength() -> None:
    """Rows in one cell, fifteen times the scale of the noise: the look finds them in nineteen of twenty histograms."""
    generator, seen = np.random.default_rng(3), 0
    for _ in range(1000):
        noisy_cells = generator.laplace(0, 1, CELLS)
        noisy_cells[20] += 15
        seen += crowded_pair(noisy_cells, math.sqrt(2), 15) in (19, 20)
    assert seen >= 900
