"""Advice: more rows or epsilon never ask for less, shares are shares, and each regime has its place."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.methods.auto.epsilon_shares import (
    ALONE,
    DATA,
    DEEPEST,
    GUIDED,
    PICK_SHARE,
    PUBLIC,
    ZOOM_SHARE,
    Advice,
    affordable_depth,
    leaves_of_depth,
    numbers,
    split_epsilon,
)
from dpsql.schema import Boolean, Categorical, Feature, Numeric, Schema, Unit

STRENGTHS = [float(value) for value in np.geomspace(0.1, 1e9, 120)]


def schema_of(numeric: int, flags: int, classes: int = 2, unit: Unit | None = None) -> Schema:
    """Return a schema of so many numbers, flags and classes."""
    features: list[Feature] = [Numeric(f"n{k}", 0, 1) for k in range(numeric)]
    features += [Boolean(f"b{k}") for k in range(flags)]
    return Schema("y", tuple(map(str, range(classes))), tuple(features), unit or Unit())


SCHEMAS = {
    "numbers": schema_of(8, 0),
    "flags": schema_of(0, 150),
    "mixed": schema_of(6, 7, 5),
    "many classes": schema_of(16, 0, 26),
    "one flag": schema_of(0, 1),
}
EVERY = pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)


@EVERY
def test_more_rows_never_ask_for_less(schema: Schema) -> None:
    """Along rows the regime, trees, zoom and pick only rise, within each regime, and marginals need less.

    Depth rises too, but for one level where more trees share epsilon.
    """
    found = [split_epsilon(schema, rows, 1.0) for rows in STRENGTHS]
    regimes = [one.regime for one in found]
    assert regimes == sorted(regimes, key=[PUBLIC, ALONE, GUIDED].index)
    assert {PUBLIC, GUIDED} <= set(regimes)
    for regime in (PUBLIC, GUIDED):
        here = [one for one in found if one.regime == regime]
        for earlier, later in pairwise(here):
            assert later.trees >= earlier.trees
            assert later.depth >= earlier.depth - (later.trees > earlier.trees)
            assert later.zoom >= earlier.zoom
            assert later.pick >= earlier.pick
            assert later.marginals <= earlier.marginals


@EVERY
def test_rows_and_epsilon_count_together(schema: Schema) -> None:
    """Ten times the rows at a tenth of epsilon is the same advice: noise is measured in rows."""
    for rows in STRENGTHS:
        one, other = split_epsilon(schema, rows, 1.0), split_epsilon(schema, rows * 10, 0.1)
        assert (one.regime, one.trees, one.depth, one.zoom, one.pick) == (
            other.regime, other.trees, other.depth, other.zoom, other.pick,
        )  # fmt: skip


def test_the_rows_of_a_unit_weaken_what_is_there() -> None:
    """With five rows to a unit advice is that of a fifth of the rows."""
    units = schema_of(6, 7, 5, Unit("who", 5))
    for rows in STRENGTHS:
        assert split_epsilon(units, rows * 5, 1.0) == split_epsilon(SCHEMAS["mixed"], rows * 5 / 5, 1.0)


@settings(max_examples=200)
@given(
    numeric=st.integers(0, 40),
    flags=st.integers(1, 200),
    classes=st.integers(2, 60),
    rows=st.floats(-1e3, 1e12),
    epsilon=st.floats(1e-6, 1e4),
)
def test_shares_are_shares(numeric: int, flags: int, classes: int, rows: float, epsilon: float) -> None:
    """Whatever the schema and size: known numbers of trees, a depth within bounds, shares between 0 and 1."""
    found = split_epsilon(schema_of(numeric, flags, classes), rows, epsilon)
    assert 1 <= found.depth <= DEEPEST
    if found.regime == PUBLIC:
        assert (found.zoom, found.pick, found.calibration, found.marginals) == (False, False, False, 0.0)
        assert found.trees in (1, 3, 5, 10)
    elif found.regime == ALONE:
        assert (found.pick, found.calibration, found.marginals, found.kinds) == (False, False, 1.0, ())
    else:
        assert 0.36 <= found.marginals <= 0.9
        assert len(found.kinds) == found.trees
        assert found.kinds[-1] == DATA
        assert not found.zoom or numeric
    assert 0 < ZOOM_SHARE + PICK_SHARE < 50


@pytest.mark.parametrize(("classes", "numeric", "rows", "regime"), [
    (2, 0, 54, PUBLIC), (2, 0, 58, ALONE), (2, 9, 110, PUBLIC), (2, 9, 114, ALONE), (2, 9, 299, ALONE),
    (2, 9, 301, GUIDED), (26, 9, 5200, PUBLIC), (26, 9, 5300, GUIDED),
])  # fmt: skip
def test_where_the_regimes_meet(classes: int, numeric: int, rows: float, regime: str) -> None:
    """Marginals from 2.2 rows for each feature, twice as many for a number, times classes^1.5; alone below 300."""
    assert split_epsilon(schema_of(numeric, 0 if numeric else 9, classes), rows, 1.0).regime == regime


def test_marginals_get_more_where_there_are_many_features() -> None:
    """150 flags need more of epsilon than one."""
    rows = 5000
    assert (
        split_epsilon(SCHEMAS["flags"], rows, 1.0).marginals > split_epsilon(SCHEMAS["one flag"], rows, 1.0).marginals
    )


@pytest.mark.parametrize(("rows", "share"), [(500, 0.8), (1000, 0.606), (3000, 0.391), (4000, 0.36), (1e6, 0.36)])
def test_marginals_leave_more_to_trees_the_more_rows_there_are(rows: float, share: float) -> None:
    """With one flag, for which little would do: 80 % where a reader is first picked, 36 % in the end."""
    assert split_epsilon(SCHEMAS["one flag"], rows, 1.0).marginals == pytest.approx(share, abs=1e-3)


@pytest.mark.parametrize(("classes", "share"), [(2, 0.75), (4, 0.9)])
def test_the_more_classes_the_sooner_marginals_starve(classes: int, share: float) -> None:
    """Of a thousand rows 30 flags and two classes have 16 each and more, four classes have not."""
    assert split_epsilon(schema_of(0, 30, classes), 1000, 1.0).marginals == pytest.approx(share)


def test_depth_leaves_half_as_many_rows_as_noise() -> None:
    """Leaves at a depth are within a factor of two of twice those that have as many rows as noise."""
    for at_noise in (1.0, 5.0, 100.0, 500.0):
        assert at_noise < 2 ** affordable_depth(at_noise) <= 2 * at_noise


def test_more_trees_leave_fewer_leaves_for_each() -> None:
    """Trees and classes share what the marginals leave."""
    assert (
        leaves_of_depth(1000, 0.4, 2, 2)
        > leaves_of_depth(1000, 0.4, 5, 2)
        > leaves_of_depth(1000, 0.8, 5, 2)
        > leaves_of_depth(1000, 0.8, 5, 20)
    )


def test_numbers_are_found_by_their_place() -> None:
    """The places of numeric features, whatever stands between them."""
    features = (Boolean("b"), Numeric("x", 0, 1), Categorical("c", ("a",)), Numeric("z", 0, 1))
    assert numbers(Schema("y", ("a", "b"), features)) == [1, 3]


def test_advice_is_a_value() -> None:
    """Equal facts give equal advice: a plan can be made again from the schema."""
    assert split_epsilon(SCHEMAS["mixed"], 5000, 1.0) == split_epsilon(SCHEMAS["mixed"], 5000, 1.0)
    assert isinstance(split_epsilon(SCHEMAS["mixed"], 5000, 1.0), Advice)
