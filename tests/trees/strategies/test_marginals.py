"""Strategies of marginals: the error formula and its gradient against matrices written out, rounding, what is found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.trees.strategies import marginals as module
from dpsql.trees.strategies.effort import Effort
from dpsql.trees.strategies.marginals import (
    MOST_FEATURES,
    PARTS,
    action,
    groups,
    marginals,
    of_weights,
    parts,
    weighted_error,
)
from dpsql.trees.strategies.strategy import Floats, Ints, Strategy
from dpsql.trees.strategies.workload import Leaves, Sums, Workload
from tests.trees.strategies.test_strategy import dense, ints
from tests.trees.strategies.test_workload import averaging, grown, some_sums, square

WORKLOADS: dict[str, Workload] = {
    "shallow": grown((3, 2, 4), depth=1),
    "middle": grown((3, 2, 4), depth=2),
    "thresholds": grown((4, 5), depth=3, thresholds=True),
    "sums": some_sums((2, 3, 2)),
    "one feature": grown((5,), depth=2, thresholds=True),
}
EACH = pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)


def true_spread(workload: Workload, strategy: Strategy) -> float:
    """Return tr(WᵀW·(AᵀA)⁺) with all matrices written out."""
    matrix = dense(strategy).astype(np.float64)
    return float(np.trace(square(workload) @ np.linalg.pinv(matrix.T @ matrix, rcond=1e-11, hermitian=True)))


def true_error(workload: Workload, strategy: Strategy) -> float:
    """Return sensitivity² · tr(WᵀW·(AᵀA)⁺) with all matrices written out."""
    return int(np.abs(dense(strategy)).sum(axis=0).max()) ** 2 * true_spread(workload, strategy)


def closed(workload: Workload, weights: Floats | Ints) -> float:
    """Return the error by the formula."""
    return weighted_error(weights.astype(np.float64), parts(workload), action(workload.sizes))


@EACH
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), sparse=st.booleans())
def test_the_error_is_that_of_the_matrices(workload: Workload, seed: int, sparse: bool) -> None:
    """For any weights that ask for every cell the formula is the error of the strategy written out."""
    generator = np.random.default_rng(seed)
    weights = generator.integers(0, 9, 2 ** len(workload.sizes))
    weights[:-1] *= generator.random(len(weights) - 1) < (0.3 if sparse else 1)
    weights[-1] = generator.integers(1, 9)
    strategy = of_weights(workload.sizes, weights)
    assert closed(workload, weights) == pytest.approx(true_error(workload, strategy), rel=1e-8)


def test_the_error_is_right_where_cells_are_not_asked_for() -> None:
    """Trees of one level need marginals of one feature alone, which say nothing of single cells."""
    workload = grown((3, 2, 4), trees=20, depth=1)
    weights = np.zeros(8, np.int64)
    weights[[0b001, 0b010, 0b100]] = (3, 1, 4)
    strategy = of_weights(workload.sizes, weights)
    assert np.linalg.matrix_rank(dense(strategy)) < workload.cells
    assert closed(workload, weights) == pytest.approx(true_error(workload, strategy), rel=1e-8)


def test_what_is_left_out_has_no_finite_error() -> None:
    """Weights that do not determine the workload are infinitely bad."""
    workload = grown((3, 2, 4), trees=20, depth=2)
    weights = np.zeros(8)
    weights[[0b001, 0b010]] = 1
    assert closed(workload, weights) == math.inf


@EACH
def test_parts_add_up_to_the_length(workload: Workload) -> None:
    """Every part of the workload rests on one subset of features: ‖W·P_U‖² for differences of averages."""
    found = parts(workload)
    assert found.sum() == pytest.approx(workload.length)
    assert found.min() >= 0
    alone = square(workload) @ (averaging(workload.sizes, 1) - averaging(workload.sizes, 0))
    assert found[1] == pytest.approx(np.trace(alone), abs=1e-9)


def test_a_marginal_acts_on_each_part_as_one_number() -> None:
    """AᵀA has the numbers of `action` as its eigenvalues, as often as the part has dimensions."""
    sizes, weights = (2, 3), ints(1, 2, 3, 4)
    matrix = dense(of_weights(sizes, weights)).astype(np.float64)
    acts = action(sizes) @ (weights.astype(np.float64) ** 2)
    wanted = np.repeat(acts, [1, 1, 2, 2])  # parts of nothing, the first feature, the second, both
    np.testing.assert_allclose(np.linalg.eigvalsh(matrix.T @ matrix), np.sort(wanted), rtol=1e-10)


@EACH
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_the_gradient_is_that_of_small_steps(workload: Workload, seed: int) -> None:
    """A small step along each root changes the logarithm of the error as the gradient says."""
    needed, acts = parts(workload), action(workload.sizes)
    root = np.random.default_rng(seed).uniform(0.2, 1.5, 2 ** len(workload.sizes))
    value, gradient = module._slope(root, needed, acts)
    assert value == pytest.approx(math.log(weighted_error(root**2, needed, acts)), rel=1e-9)
    for place in range(len(root)):
        step = 1e-5 * (np.arange(len(root)) == place)
        change = module._slope(root + step, needed, acts)[0] - module._slope(root - step, needed, acts)[0]
        assert change / 2e-5 == pytest.approx(gradient[place], rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("subset", range(8))
def test_groups_are_combinations_of_values(subset: int) -> None:
    """Two cells are in one group where they agree in all features of the subset; groups are numbered without gaps."""
    sizes = (2, 3, 2)
    found = groups(sizes, subset)
    values = list(zip(*np.unravel_index(np.arange(12), sizes), strict=True))
    seen = [tuple(value for place, value in enumerate(cell) if subset >> place & 1) for cell in values]
    assert all((found[a] == found[b]) == (seen[a] == seen[b]) for a in range(12) for b in range(12))
    assert set(found.tolist()) == set(range(len(set(seen))))


def best(workload: Workload, effort: Effort | None = None) -> tuple[Strategy, float]:
    """Return the strategy of marginals that is found, and its spread."""
    found = marginals(workload, effort)
    assert found is not None
    return found


def test_a_feature_of_one_value_changes_nothing() -> None:
    """With it or without it a subset has the same groups; the spread is still that of the matrix."""
    workload = Leaves((1, 3), np.array([[0, 1, 2], [3, 3, 4]]))
    found, spread = best(workload)
    assert spread * found.sensitivity**2 == pytest.approx(true_error(workload, found))


@EACH
def test_what_is_found_is_no_worse_than_every_cell(workload: Workload) -> None:
    """The identity is one of the starts, so the error is never more than a little above its own, rounding included."""
    found, spread = best(workload)
    assert spread * found.sensitivity**2 == pytest.approx(true_error(workload, found))
    assert true_error(workload, found) <= 1.01 * workload.length


def test_trees_of_one_level_gain() -> None:
    """Where each leaf is a value of one feature, marginals have a fraction of the error of single cells."""
    workload = grown((4, 4, 4), trees=20, depth=1)
    found, spread = best(workload)
    assert spread * found.sensitivity**2 == pytest.approx(true_error(workload, found))
    assert true_error(workload, found) < 0.5 * workload.length


@EACH
def test_rounded_weights_have_the_sensitivity_of_the_strategy(workload: Workload) -> None:
    """Weights are whole parts of the largest, and the sensitivity is the sum of those that are asked."""
    found, spread = best(workload)
    assert spread * found.sensitivity**2 == pytest.approx(true_error(workload, found))
    weights = [block.largest for block in found.blocks]
    assert max(weights) <= PARTS
    assert math.gcd(*weights) == 1
    assert found.sensitivity == sum(weights) == np.abs(dense(found)).sum(axis=0).max()


def test_weights_are_divided_by_what_they_share() -> None:
    """Asking twice as much of everything is the same strategy with larger numbers."""
    found = of_weights((2, 2), ints(0, 500, 0, 1000))
    assert (found.sensitivity, found.questions, found.name) == (3, 2 + 4, "marginals")


def test_what_rounds_to_nothing_is_not_asked() -> None:
    """A weight below half a part of the largest is 0."""
    assert module._round_weights(np.array([1.0, 0.4 / PARTS, 0.6 / PARTS, 0.5])).tolist() == [PARTS, 0, 1, PARTS // 2]


def test_cells_that_are_no_product_have_no_marginals() -> None:
    """Sums over leaves of disjoint trees have no features."""
    assert marginals(Sums((), np.eye(3))) is None


def test_too_many_features_have_none_either() -> None:
    """All subsets of so many features are not looked at."""
    count = MOST_FEATURES + 1
    assert marginals(Leaves((2,) * count, np.zeros((1, 2**count), np.int64))) is None


def test_without_effort_the_first_start_is_taken() -> None:
    """Told to stop at once, it still gives a strategy that determines the workload."""
    workload = grown((3, 2, 4), trees=20, depth=2)
    found, _ = best(workload, Effort(0))
    assert np.linalg.matrix_rank(dense(found)) == workload.cells
