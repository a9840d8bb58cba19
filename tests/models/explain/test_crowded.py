"""Ranges that were declared far too wide are named, from released values alone; ranges that fit are not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpsql.errors import SchemaError
from dpsql.models.explain.crowded import crowded_ranges, outward
from dpsql.models.explain.explanation import explain_model
from dpsql.schema import Numeric, Schema
from tests.models.explain.made import naive_bayes

NARROWED = Schema("y", ("no", "yes"), (Numeric("balance", -487.3, 2950.1), Numeric("age", 0, 80)))


def certificate(cells: int, **more: object) -> dict[str, object]:
    """Return the certificate of a run whose zoom saw nearly all rows of `balance` in so many cells."""
    zoom = {"balance": {"declared": [-1e5, 1e5], "cells": cells}, "age": {"declared": [0, 80], "cells": 64}}
    return {"facts": {"zoom": zoom | more}}


def test_a_crowded_range_is_named_with_bounds_that_would_do() -> None:
    """Two cells of 64: the sentence has the feature, the cells, and the narrowed bounds rounded outwards."""
    (crowded,) = crowded_ranges(NARROWED, certificate(2))
    assert str(crowded) == "balance: nearly all rows lie in 2 of 64 cells; bounds about -500 … 3000 would help"


def test_a_range_that_fits_is_not_named() -> None:
    """Rows in thirty cells are no reason for a remark, nor is a model without facts."""
    assert crowded_ranges(NARROWED, certificate(30)) == ()
    assert crowded_ranges(NARROWED, {}) == ()


def test_damaged_facts_are_refused() -> None:
    """A look whose numbers are no numbers is an error that names the certificate, not a traceback."""
    with pytest.raises(SchemaError, match="damaged"):
        crowded_ranges(NARROWED, {"facts": {"zoom": {"balance": {"declared": "far", "cells": "few"}}}})


def test_rounding_never_cuts_a_range() -> None:
    """Bounds are rounded outwards, however small, large or far from zero they are."""
    generator = np.random.default_rng(1)
    for _ in range(500):
        lower = float(generator.normal() * 10.0 ** generator.integers(-8, 12))
        upper = lower + float(generator.uniform(1e-3, 1) * 10.0 ** generator.integers(-3, 12))
        low, high = outward(lower, upper)
        assert low <= lower + 1e-9 * abs(lower)
        assert high >= upper - 1e-9 * abs(upper)


def wide_model(seed: int) -> tuple[Schema, pd.DataFrame]:
    """Return numbers without meaning in a sixth of their declared ranges, and their schema."""
    generator = np.random.default_rng(seed)
    names = [f"x{place}" for place in range(12)]
    schema = Schema("y", ("no", "yes"), tuple(Numeric(name, 0, 64) for name in names))
    frame = pd.DataFrame({name: generator.uniform(0, 8, 2000) for name in names})
    return schema, frame.assign(y=np.where(generator.random(2000) < 0.2, "yes", "no"))


def test_noise_is_no_reason() -> None:
    """A range without a row is not named as a reason in twenty models, however its noisy counts fell out (B3)."""
    for seed in range(20):
        schema, frame = wide_model(seed)
        learned = explain_model(naive_bayes(schema, frame, scale=12.0, seed=seed))
        reasons = [reason.text for profile in learned.profiles for reason in profile.reasons]
        assert len(reasons) <= 1, reasons
