"""Tuning: the noise of a grid of forests, from public facts alone."""

from __future__ import annotations

import math

import pytest

from dpsql.advice.tune import METHODS, Setting, Tuning, tune
from dpsql.errors import ParameterError, UsageError
from dpsql.methods.mrf.ensembles import ensembles
from dpsql.methods.mrf.mrf import Mrf
from dpsql.schema import Boolean, Categorical, Numeric, Schema
from tests.tables import SCHEMA, memory, some_rows

FEATURES = (Categorical("a", ("x", "y", "z")), Categorical("b", ("p", "q", "r")), Boolean("c"), Boolean("d"))
KNOWN = Schema("y", ("no", "yes"), FEATURES, rows=5000)


def setting(depth: int, clear: float) -> Setting:
    """Return a setting whose votes stand out so far."""
    return Setting(8, depth, 1, 4, 64, "identity", 1.0, 1.0, clear)


@pytest.mark.parametrize("method", METHODS)
def test_more_epsilon_means_less_noise(method: str) -> None:
    """Ten times epsilon is a tenth of the noise, in every setting of every method."""
    one, ten = (tune(KNOWN, method, epsilon=epsilon, rows=5000).settings for epsilon in ("0.1", "1"))
    assert [(a.trees, a.depth) for a in one] == [(b.trees, b.depth) for b in ten]
    for a, b in zip(one, ten, strict=True):
        assert a.leaf_deviation == pytest.approx(10 * b.leaf_deviation, rel=0.02)
        assert a.vote_deviation == pytest.approx(10 * b.vote_deviation, rel=0.02)
        assert b.clear == pytest.approx(10 * a.clear, rel=0.02)


@pytest.mark.parametrize(("method", "shared"), [("rdt", True), ("rosnam", False)])
def test_noise_on_every_leaf_is_that_of_the_plan(method: str, shared: bool) -> None:
    """Trees that see every row share epsilon; trees of disjoint rows do not."""
    for one in tune(KNOWN, method, epsilon=1, rows=5000).settings:
        scale = one.trees if shared else 1
        assert one.leaf_deviation == pytest.approx(math.sqrt(2) * scale)
        assert one.vote_deviation == pytest.approx(math.sqrt(2 * one.trees) * scale)


def test_the_matrix_forest_is_never_noisier_than_asking_for_every_cell() -> None:
    """A leaf of every cell has the noise of its cells: what is told is at most that."""
    for one in tune(KNOWN, "mrf", epsilon=1, rows=5000).settings:
        shape = {"trees": one.trees, "depth": one.depth, "ensembles": one.ensembles}
        found = ensembles(KNOWN, Mrf().plan(KNOWN, 10**9, shape).parameters)[0].workload
        most = math.sqrt(2) * one.ensembles * math.sqrt(found.length / found.leaves)
        assert one.leaf_deviation <= most * (1 + 1e-9)


def test_the_deepest_clear_setting_is_picked() -> None:
    """Depth counts among those that stand out; where none does, the clearest."""
    shallow, deep, drowned = setting(1, 9.0), setting(2, 1.5), setting(3, 0.4)
    assert Tuning("mrf", (shallow, deep, drowned)).best_setting == deep
    assert Tuning("mrf", (drowned, setting(4, 0.2))).best_setting == drowned


def test_what_is_picked_can_be_trained() -> None:
    """The picked parameters make a plan, and plain values say what they are."""
    for method in METHODS:
        found = tune(KNOWN, method, epsilon=1, rows=5000)
        assert found.to_dict()["picked"] == found.best_setting.parameters
    with memory(some_rows(), schema=SCHEMA, cap=1) as database:
        plan = database.plan("people", method="mrf", **database.tune("people", "mrf", rows=300).best_setting.parameters)
        assert plan.nano_epsilon == 10**9
        assert database.budget("people").spent == 0


def test_bad_questions_are_refused() -> None:
    """Unknown methods, no size, and numbers to predict have no grid."""
    with pytest.raises(ParameterError, match="tune must be one of"):
        tune(KNOWN, "auto", epsilon=1, rows=10)
    with memory((), schema=SCHEMA, cap=1) as database, pytest.raises(UsageError, match="nobody told"):
        database.tune("people", "rdt")


def test_a_schema_of_numbers_alone_has_a_grid_too() -> None:
    """Numbers have bins; where all together are too many cells, ensembles of fewer features are offered."""
    numbers = Schema("y", ("no", "yes"), tuple(Numeric(f"n{k}", 0, 1) for k in range(10)))
    assert {one.ensembles for one in tune(numbers, "mrf", epsilon=1, rows=5000).settings} == {4}
