"""Zooming: ranges that are mostly empty are narrowed to where rows are, all others stay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.kernel.operations import Histograms
from dpsql.kernel.plan import Step
from dpsql.methods.auto.zoom import BINS, NARROWER, STANDS, TAIL, holds_cells, occupied_bins, zoom_in
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
