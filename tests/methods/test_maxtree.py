"""`maxtree`: greedy trees on disjoint rows, each with the whole epsilon, that vote together."""

from __future__ import annotations

import numpy as np
import pytest

from dpsql.errors import ParameterError
from dpsql.kernel.operations import Choose
from dpsql.methods.fs import Fs
from dpsql.methods.maxtree import DEMAND, Maxtree
from dpsql.methods.shared.greedy import rows_needed, shrunken_shares
from dpsql.schema import Schema
from dpsql.trees.serialize import check_forest
from tests.methods.test_fs import MIXED, NANO, WIDE, noise, spread, told
from tests.tables import SCHEMA, UNITS, Row, frame_of, memory

METHOD = Maxtree()


@pytest.mark.parametrize("trees", [1, 10, 37])
@pytest.mark.parametrize("nano_epsilon", [25, 10**9, 10**9 + 1, 123_456_789])
def test_the_steps_add_up(nano_epsilon: int, trees: int) -> None:
    """The plan costs what was asked, to the billionth."""
    assert METHOD.plan(MIXED, nano_epsilon, {"trees": trees}).nano_epsilon == nano_epsilon


def test_trees_have_rows_of_their_own() -> None:
    """Disjoint trees do not share epsilon: ten have the noise of one, and that of `fs`."""
    one, ten, fs = METHOD.plan(MIXED, NANO, {"trees": 1}), METHOD.plan(MIXED, NANO, {}), Fs().plan(MIXED, NANO, {})
    assert ten.parameters["trees"] == 10
    assert not any(step.shared for step in ten.steps)
    scales = [[step.scale(plan.promise) for step in plan.steps] for plan in (one, ten, fs)]
    assert scales[0] == scales[1] == scales[2]


def test_splits_maximise_the_majority_vote() -> None:
    """The max operator, which a row moves by at most 1, one way only."""
    step = METHOD.plan(MIXED, NANO, {}).step("splits")
    assert (step.operation_as(Choose).utility, step.operation_as(Choose).width) == ("majority", 1)


def test_too_little_epsilon_is_refused() -> None:
    """A budget that cannot be divided among the steps is an error that names epsilon."""
    with pytest.raises(ParameterError) as refused:
        METHOD.plan(MIXED, 24, {})
    assert refused.value.name == "epsilon"


def test_a_limit_below_the_roots_is_refused() -> None:
    """Each tree's root has its candidate splits."""
    with pytest.raises(ParameterError) as refused:
        METHOD.plan(MIXED, NANO, {"limit": 10 * 4 * 63 - 1})
    assert refused.value.name == "limit"
    assert METHOD.plan(MIXED, NANO, {"limit": 10 * 4 * 63}).step("counts").cells == 20


def test_a_split_needs_half_of_what_a_single_tree_needs() -> None:
    """Ten trees split where each has at least half of the rows of the rule of `fs`."""
    needed = 2 * DEMAND * rows_needed(2, 10 / 3)
    assert DEMAND == 0.5
    for rows, depth in ((0.9 * needed, 0), (1.5 * needed, 1)):
        assert told(METHOD, MIXED, spread(10 * rows))[0].forest.depth == depth


def test_all_trees_are_asked_together() -> None:
    """One release of sizes and one choice for each level, whatever the number of trees."""
    released, session = told(METHOD, MIXED, spread(10**6), trees=7, depth=3)
    assert (released.forest.trees, len(session.asked), len(session.parts)) == (7, 4, 3)


@pytest.mark.parametrize("schema", [MIXED, WIDE], ids=["mixed", "wide"])
@pytest.mark.parametrize("limit", [6000, 2**17])
@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_noise_the_trees_stay_within_the_plan(schema: Schema, limit: int, seed: int) -> None:
    """Every release asked for is one the plan declared, and the trees are sound."""
    released, session = told(METHOD, schema, noise(2, seed), limit=limit, depth=12)
    assert all(forest.leaves * 2 <= limit for forest in session.asked)
    check_forest(released.forest)


def test_a_tree_without_rows_says_what_all_trees_say() -> None:
    """Roots are shrunk to the class shares of all trees together."""
    counts, variance = np.array([[90.0, 10.0], [0.0, 1.0], [-9.0, -3.0]]), np.full(3, 100.0)
    shares = shrunken_shares((), [counts], [variance])
    assert shares.argmax(axis=1).tolist() == [0, 0, 0]
    assert np.allclose(shares.sum(axis=1), 1)


@pytest.mark.parametrize("schema", [SCHEMA, UNITS], ids=["row", "unit"])
def test_a_planted_signal_is_found_in_the_database(schema: Schema) -> None:
    """With much epsilon the rule "x is in the lower half, or c is b" is predicted by five trees together."""
    rows: list[Row] = [
        (k, float(k % 64), "ab"[k // 64 % 2], "yes" if k % 64 < 32 or k // 64 % 2 else "no") for k in range(2560)
    ]
    with memory(rows, schema=schema) as opened:
        model = opened.train("people", epsilon=50, method="maxtree", trees=5, depth=3)
        frame = frame_of(rows[:128])
        assert (model.predict(frame) == frame["y"]).mean() > 0.95
