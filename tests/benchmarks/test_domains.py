"""The command `domains`: what bought domains hold, what they cost in accuracy, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dpsql.errors import ParameterError
from dpsql.schema import hashed_cell
from examples.benchmarks.domains import (
    COLUMNS,
    DECLARED,
    HASHED,
    LISTED,
    Purchase,
    coverage_of,
    domains,
    fitting,
    measure_domains,
    summarize,
)
from examples.benchmarks.results import Results
from examples.benchmarks.splits import Table

FEATURES = {
    "x": {"type": "numeric", "lower": 0, "upper": 100},
    "job": {"type": "categorical", "values": ["cook", "nurse"]},
}


def small_table(rows: int = 4000) -> Table:
    """Return rows whose label follows from a number and a text."""
    draw = np.random.default_rng(3)
    frame = pd.DataFrame({"x": draw.uniform(0, 100, rows), "job": draw.choice(["cook", "nurse"], rows)})
    frame["y"] = np.where((frame["x"] > 50) ^ (frame["job"] == "cook"), "a", "b")
    return Table("small", {"label": "y", "classes": ["a", "b"], "features": FEATURES}, frame)


def test_coverage_counts_cells_inside_bounds_and_in_lists() -> None:
    """Missing cells count as neither; the least is that of the worst column."""
    frame = pd.DataFrame({"x": [1.0, 101.0, None, 5.0], "z": [1, 1, 1, 1], "job": ["cook", "judge", None, "nurse"]})
    features = {**FEATURES, "z": {"type": "numeric", "lower": 0, "upper": 2}}
    coverage = coverage_of(frame, features, left_out=1)
    assert coverage.inside == pytest.approx((2 / 3 + 1) / 2)
    assert coverage.least_inside == coverage.listed == coverage.least_listed == pytest.approx(2 / 3)
    assert (coverage.hashed, coverage.left_out) == (0, 1)


def test_listed_cells_of_a_hash_are_covered_like_lists() -> None:
    """A value counts where its cell is listed; a text that is hashed without a list is counted as such."""
    frame = pd.DataFrame({"job": ["cook", "judge", None, "nurse"], "town": ["a", "b", "c", "d"]})
    listed = sorted(hashed_cell(word, 4096) for word in ("cook", "nurse"))
    coverage = coverage_of(
        frame, {"job": {"type": "hashed", "cells": 4096, "listed": listed}, "town": {"type": "hashed"}}
    )
    assert coverage.listed == pytest.approx(2 / 3)
    assert coverage.hashed == 1


def test_lists_are_bought_of_texts() -> None:
    """A table without texts has no lists to buy."""
    purchases = [Purchase(DECLARED), Purchase(HASHED, "0.1"), Purchase(HASHED, "0.5"), Purchase(LISTED, "0.1", "1e-6")]
    table = small_table(10)
    assert fitting(purchases, table) == purchases
    numbers = Table("n", {**table.schema, "features": {"x": FEATURES["x"]}}, table.frame)
    assert fitting(purchases, numbers) == purchases[:3]


def test_a_table_is_bought_trained_on_and_compared() -> None:
    """Purchases of a small table hold nearly all rows, and its models are about as good as with declared domains."""
    purchases = [Purchase(DECLARED), Purchase(HASHED, "0.5"), Purchase(LISTED, "0.5", "1e-6")]
    results = Results(None, COLUMNS)
    hashed, listed = measure_domains([small_table()], purchases, splits=1, results=results)
    assert (hashed.form, listed.form) == (HASHED, LISTED)
    assert hashed.inside is not None
    assert hashed.inside > 85
    assert (hashed.hashed, hashed.listed, listed.hashed, listed.listed) == (0, 100, 0, 100)
    assert listed.accuracy is not None
    assert listed.accuracy > 75
    assert len(results.rows) == 3
    again = measure_domains([small_table()], purchases, splits=1, results=results, run=False)
    assert again == [hashed, listed]


def test_splits_without_a_model_are_counted_and_not_averaged() -> None:
    """Where noise hid all columns there is no accuracy; the difference is over the same splits."""
    row = dict.fromkeys(COLUMNS, "") | {"hashed": "0", "left_out": "2"}
    rows = {0: row, 1: row | {"accuracy": "0.7", "inside": "0.9", "least_inside": "0.8"}}
    declared = {0: row | {"accuracy": "0.9"}, 1: row | {"accuracy": "0.8"}}
    figure = summarize("small", Purchase(HASHED, "0.1"), rows, declared)
    assert (figure.splits, figure.models) == (2, 1)
    assert figure.accuracy == pytest.approx(70)
    assert figure.difference == pytest.approx(-10)
    assert figure.least_inside == pytest.approx(80)


def test_the_command_gives_json(tmp_path: Path) -> None:
    """One split of a made-up table of numbers: one figure for each epsilon."""
    pytest.importorskip("sklearn")
    asked = ["--data", str(tmp_path), "--sets", "syn5d", "--epsilon", "0.1,0.5", "--splits", "1", "--json"]
    done = CliRunner().invoke(domains, asked, catch_exceptions=False)
    figures = json.loads(done.stdout)["figures"]
    assert [(figure["form"], figure["epsilon"]) for figure in figures] == [(HASHED, "0.1"), (HASHED, "0.5")]
    assert figures[1]["inside"] > 50


def test_all_of_epsilon_cannot_be_spent_on_domains(tmp_path: Path) -> None:
    """Something must be left for training."""
    with pytest.raises(ParameterError, match="training needs the rest"):
        CliRunner().invoke(domains, ["--data", str(tmp_path), "--epsilon", "0.1,1"], catch_exceptions=False)
