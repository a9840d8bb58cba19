"""p-identity strategies: the error and its gradient against matrices written out, rounding, what is found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.trees.strategies.effort import Effort
from dpsql.trees.strategies.p_identity import PARTS, error_and_gradient, p_identity, p_identity_spread, round_strategy
from dpsql.trees.strategies.strategy import DENSE, LARGEST_ENTRY, Dense, Floats, Partition
from dpsql.trees.strategies.workload import Sums, Workload
from tests.trees.strategies.test_marginals import true_error
from tests.trees.strategies.test_strategy import dense
from tests.trees.strategies.test_workload import grown, some_sums, square

WORKLOADS: dict[str, Workload] = {
    "trees": grown((3, 2, 4), depth=2),
    "thresholds": grown((4, 5), depth=3, thresholds=True),
    "sums": some_sums((2, 3, 2)),
    "no product": Sums((), np.random.default_rng(2).normal(size=(5, 7))),
}
EACH = pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
SEEDS = st.integers(0, 2**32)


def some_theta(seed: int, workload: Workload, *, low: float = 0.0) -> Floats:
    """Return one to four more questions, of a random size, from `low` on."""
    generator = np.random.default_rng(seed)
    size = (int(generator.integers(1, 5)), workload.cells)
    return generator.uniform(low, 1.5, size) * generator.choice([0.1, 1, 4])


@EACH
@settings(max_examples=20)
@given(seed=SEEDS)
def test_the_error_is_that_of_the_matrices(workload: Workload, seed: int) -> None:
    """It is tr(WᵀW·(AᵀA)⁻¹) for A = [I; Θ] with each column divided by its sum, whose sensitivity is 1."""
    theta = some_theta(seed, workload)
    matrix = np.concatenate([np.eye(workload.cells), theta])
    matrix = matrix / matrix.sum(axis=0)
    wanted = np.trace(square(workload) @ np.linalg.inv(matrix.T @ matrix))
    assert error_and_gradient(workload, theta)[0] == pytest.approx(wanted, rel=1e-8)


@EACH
@settings(max_examples=8)
@given(seed=SEEDS)
def test_the_gradient_is_that_of_small_steps(workload: Workload, seed: int) -> None:
    """A small step of each entry changes the error as the gradient says."""
    theta = some_theta(seed, workload, low=0.05)
    _, gradient = error_and_gradient(workload, theta)
    assert gradient.shape == theta.shape
    size = 1e-5
    for place in np.ndindex(theta.shape):
        step = np.zeros_like(theta)
        step[place] = size
        ends = [error_and_gradient(workload, theta + way * step)[0] for way in (1, -1)]
        far = 1e-6 * float(np.abs(gradient).max())
        assert (ends[0] - ends[1]) / (2 * size) == pytest.approx(gradient[place], rel=1e-4, abs=far)


@EACH
@settings(max_examples=20)
@given(seed=SEEDS)
def test_the_spread_is_that_of_the_rounded_matrices(workload: Workload, seed: int) -> None:
    """After rounding, sensitivity² · spread is the error of the whole numbers that are asked."""
    strategy = round_strategy(some_theta(seed, workload))
    own, more = strategy.blocks
    assert isinstance(own, Partition)
    assert isinstance(more, Dense)
    found = p_identity_spread(workload, own.weight.astype(np.float64), more.matrix.astype(np.float64))
    assert strategy.sensitivity**2 * found == pytest.approx(true_error(workload, strategy), rel=1e-7)


@EACH
@settings(max_examples=20)
@given(seed=SEEDS)
def test_rounding_keeps_the_sensitivity_of_the_rounded_numbers(workload: Workload, seed: int) -> None:
    """The sensitivity is that of the whole numbers: PARTS, and half a part more or less for each question."""
    theta = some_theta(seed, workload)
    strategy = round_strategy(theta)
    assert strategy.sensitivity == np.abs(dense(strategy)).sum(axis=0).max()
    assert abs(strategy.sensitivity - PARTS) <= (len(theta) + 1) / 2


@EACH
@settings(max_examples=10)
@given(seed=SEEDS)
def test_rounding_changes_the_error_little(workload: Workload, seed: int) -> None:
    """Whole numbers of 4,096 parts are as good as fractions, to a few thousandths."""
    theta = some_theta(seed, workload)
    exact, _ = error_and_gradient(workload, theta)
    assert true_error(workload, round_strategy(theta)) == pytest.approx(exact, rel=0.03)


def test_every_cell_is_still_asked_for() -> None:
    """However much the other questions weigh, a cell's own weight is at least 1, and entries stay within bounds."""
    strategy = round_strategy(np.full((2, 3), 1e12))
    own = strategy.blocks[0]
    assert isinstance(own, Partition)
    assert own.weight.tolist() == [1, 1, 1]
    assert np.abs(dense(strategy)).max() <= LARGEST_ENTRY
    assert np.linalg.matrix_rank(dense(strategy)) == 3


def test_questions_that_round_to_nothing_are_not_asked() -> None:
    """What is left is the identity, times a number."""
    strategy = round_strategy(np.full((3, 4), 1e-9))
    assert strategy.questions == 4
    assert strategy.sensitivity == PARTS
    some = round_strategy(np.array([[0.0, 0.0], [1.0, 0.0]]))
    assert some.questions == 3


@EACH
def test_what_is_found_is_little_worse_than_every_cell_at_most(workload: Workload) -> None:
    """The descent goes to the identity where nothing better is near, and the strategy determines every cell."""
    found = p_identity(workload)
    assert found is not None
    assert np.linalg.matrix_rank(dense(found)) == workload.cells
    assert true_error(workload, found) <= 1.02 * workload.length


def test_sums_of_all_cells_gain() -> None:
    """Where the total is all that is needed, a question for it beside the cells has far less error."""
    workload = Sums((), np.ones((3, 40)))
    found = p_identity(workload, questions=1)
    assert found is not None
    assert found.questions == 41
    assert true_error(workload, found) < 0.3 * workload.length


def test_as_many_questions_as_asked_at_most() -> None:
    """`questions` says how many there are beside the cells."""
    workload = Sums((), np.random.default_rng(3).normal(size=(3, 20)))
    found = p_identity(workload, questions=5)
    assert found is not None
    assert 20 <= found.questions <= 25


def test_too_large_a_matrix_is_not_looked_for() -> None:
    """Where questions × cells pass what is ever held there is none."""
    assert p_identity(grown(), questions=DENSE // 24 + 1) is None


def test_without_effort_there_is_a_strategy_still() -> None:
    """Told to stop at once, it gives the first start, rounded."""
    found = p_identity(grown(), Effort(0))
    assert found is not None
    assert np.linalg.matrix_rank(dense(found)) == 24
