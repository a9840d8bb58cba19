"""Least squares: what numpy finds, for strategies that determine every cell and for those that do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.trees.strategies.least_squares import least_squares, solve
from dpsql.trees.strategies.marginals import of_weights
from dpsql.trees.strategies.strategy import Dense, Floats, Partition, Strategy, identity
from tests.trees.strategies.test_strategy import dense, ints, random_stack

CELLS = 12


def full(seed: int) -> Strategy:
    """Return questions that determine every cell."""
    stack = random_stack(seed, cells=CELLS)
    return Strategy("full", CELLS, (Partition.even(np.arange(CELLS), 3), *stack.blocks))


def deficient(seed: int) -> Strategy:
    """Return fewer questions than there are cells, some of them saying the same."""
    generator = np.random.default_rng(seed)
    matrix = generator.integers(-4, 5, (3, CELLS))
    matrix[2] = matrix[0] + matrix[1]
    return Strategy("deficient", CELLS, (Dense(matrix), Partition.even(np.arange(CELLS) // 4, 2)))


STRATEGIES = {
    "identity": identity(CELLS),
    "full": full(1),
    "deficient": deficient(1),
    "marginals": of_weights((3, 4), ints(1, 5, 7, 0)),
    "one question": Strategy("total", CELLS, (Partition.even(np.zeros(CELLS, np.int64), 4),)),
}
EACH = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)


def drawn(strategy: Strategy, columns: int = 4, seed: int = 3) -> Floats:
    """Return answers that fit no counts: each has noise of its own."""
    return np.random.default_rng(seed).normal(0, 100, (strategy.questions, columns))


@EACH
def test_least_squares_is_numpys(strategy: Strategy) -> None:
    """The solution is that of `lstsq`, of least length where there are several."""
    answers = drawn(strategy)
    wanted = np.linalg.lstsq(dense(strategy).astype(np.float64), answers, rcond=None)[0]
    np.testing.assert_allclose(least_squares(strategy, answers), wanted, rtol=1e-6, atol=1e-6)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), kind=st.sampled_from([full, deficient]))
def test_least_squares_is_the_pseudo_inverse(seed: int, kind: Callable[[int], Strategy]) -> None:
    """For any questions of either kind the solution is the pseudo-inverse times the answers."""
    strategy = kind(seed)
    answers = drawn(strategy, seed=seed)
    wanted = np.linalg.pinv(dense(strategy).astype(np.float64)) @ answers
    np.testing.assert_allclose(least_squares(strategy, answers), wanted, rtol=1e-5, atol=1e-5)


def test_the_cases_are_of_both_kinds() -> None:
    """Some of the strategies above determine every cell, the others do not."""
    ranks = {name: int(np.linalg.matrix_rank(dense(strategy))) for name, strategy in STRATEGIES.items()}
    assert ranks == {"identity": CELLS, "full": CELLS, "deficient": 5, "marginals": 6, "one question": 1}


@EACH
def test_exact_answers_come_back(strategy: Strategy) -> None:
    """Answers of true counts are fitted without a rest: what the strategy determines is right."""
    counts = np.random.default_rng(5).integers(0, 1000, (CELLS, 3)).astype(np.float64)
    answers = strategy.answer(counts)
    found = least_squares(strategy, answers)
    np.testing.assert_allclose(strategy.answer(found), answers, rtol=1e-7, atol=1e-5)
    if np.linalg.matrix_rank(dense(strategy)) == CELLS:
        np.testing.assert_allclose(found, counts, rtol=1e-7, atol=1e-5)


@EACH
def test_nothing_follows_from_nothing(strategy: Strategy) -> None:
    """Zero answers give zero cells, beside a column that has some too."""
    answers = drawn(strategy)
    answers[:, 1] = 0
    found = least_squares(strategy, answers)
    assert not found[:, 1].any()
    np.testing.assert_allclose(found[:, [0]], least_squares(strategy, answers[:, [0]]), rtol=1e-6, atol=1e-8)


@EACH
def test_solve_inverts_the_normal_equations(strategy: Strategy) -> None:
    """`solve` gives x with AᵀA·x as wanted, where that can be had."""
    wanted = strategy.back(drawn(strategy))
    np.testing.assert_allclose(strategy.normal(solve(strategy, wanted)), wanted, rtol=1e-6, atol=1e-4)


def test_whole_numbers_are_taken_as_answers() -> None:
    """Noisy answers come as whole numbers."""
    assert least_squares(identity(3), np.array([[4], [-2], [0]])).ravel().tolist() == [4.0, -2.0, 0.0]
