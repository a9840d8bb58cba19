"""Tests of dpsql/mechanisms/choose.py: permute-and-flip and the exponential mechanism."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.mechanisms import choose
from dpsql.mechanisms.choose import exponential, permute_and_flip

from .oracles import agree, exponential_probabilities, fits, permute_and_flip_probabilities, scripted, seeded

DRAWS = 30_000
ROWS = [[0, 0], [3, 0], [0, 1, 3, 3], [-5, 2, 2, 2, 0], [0, 7, 14, 21, 28, 35]]
MECHANISMS: list[Callable[..., np.ndarray]] = [permute_and_flip, exponential]
BOTH = pytest.mark.parametrize("mechanism", MECHANISMS, ids=["permute_and_flip", "exponential"])
LOWEST, HIGHEST = -(2**63), 2**63 - 1


def repeated(utilities: list[int], times: int = DRAWS) -> np.ndarray:
    """Return one row many times over."""
    return np.tile(np.array(utilities, dtype=np.int64), (times, 1))


@pytest.mark.parametrize("utilities", ROWS, ids=str)
def test_permute_and_flip_matches_enumeration(utilities: list[int]) -> None:
    """Choices follow the exact probabilities over all orders, at rate epsilon / 2."""
    chosen = permute_and_flip(repeated(utilities), Fraction(4, 5), entropy=seeded(1))
    assert fits(chosen, permute_and_flip_probabilities(utilities, 0.4))


@pytest.mark.parametrize("utilities", ROWS, ids=str)
def test_exponential_matches_formula(utilities: list[int]) -> None:
    """Choices follow exp(epsilon * utility / 2), normalised."""
    chosen = exponential(repeated(utilities), Fraction(4, 5), entropy=seeded(2))
    assert fits(chosen, exponential_probabilities(utilities, 0.4))


@BOTH
@pytest.mark.parametrize("wrong", [Fraction(13, 10), Fraction(10, 13)], ids=str)
def test_choice_tests_have_power(mechanism: Callable[..., np.ndarray], wrong: Fraction) -> None:
    """The same comparisons refuse an epsilon that is 30 % off."""
    oracle = permute_and_flip_probabilities if mechanism is permute_and_flip else exponential_probabilities
    chosen = mechanism(repeated([0, 1, 3, 3]), Fraction(4, 5) * wrong, entropy=seeded(3))
    assert not fits(chosen, oracle([0, 1, 3, 3], 0.4))


def test_the_two_mechanisms_are_told_apart() -> None:
    """Permute-and-flip draws are refused as exponential-mechanism draws."""
    chosen = permute_and_flip(repeated([0, 1, 3, 3]), Fraction(4, 5), entropy=seeded(4))
    assert not fits(chosen, exponential_probabilities([0, 1, 3, 3], 0.4))


@BOTH
def test_monotone_and_sensitivity_set_the_rate(mechanism: Callable[..., np.ndarray]) -> None:
    """Epsilon 6 with sensitivity 5, monotone, is epsilon 12/5 otherwise."""
    table = repeated([0, 1, 2])
    monotone = mechanism(table, 6, sensitivity=5, monotone=True, entropy=seeded(5))
    plain = mechanism(table, Fraction(12, 5), entropy=seeded(5))
    assert np.array_equal(monotone, plain)


def test_permute_and_flip_is_noisy_argmax_with_exponential_noise() -> None:
    """Arg-max of utilities plus exponential noise (floats, in this test alone) cannot be told apart."""
    table = repeated([0, 1, 3, 3])
    noisy = table + np.random.default_rng(7).exponential(2.0, table.shape)
    assert agree(noisy.argmax(axis=1), permute_and_flip(table, 1, entropy=seeded(8)))


@pytest.mark.parametrize(("scale", "same"), [(2.0, True), (2.6, False)])
def test_permute_and_flip_agrees_with_opendp(scale: float, same: bool) -> None:
    """OpenDP's noisy max at our scale cannot be told apart; at a scale 30 % off it can."""
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    domain, metric = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int, monotonic=True)
    measurement = dp.m.make_noisy_max(domain, metric, dp.max_divergence(), scale=scale)
    theirs = np.array([measurement([0, 4, 8]) for _ in range(4000)])
    assert agree(theirs, permute_and_flip(repeated([0, 4, 8], 4000), Fraction(1, 2), monotone=True)) is same


def largest_loss(oracle: Callable[..., dict[int, float]], rate: float, *, monotone: bool) -> float:
    """Return the largest privacy loss over all small tables of three counts and all their neighbours."""
    steps = product((0, 1), repeat=3) if monotone else product((-1, 0, 1), repeat=3)
    loss = 0.0
    for step in list(steps):
        for counts in product(range(0, 13, 2), repeat=3):
            here = oracle(counts, rate)
            there = oracle([a + b for a, b in zip(counts, step, strict=True)], rate)
            loss = max(loss, *(abs(math.log(here[i] / there[i])) for i in here))
    return loss


@pytest.mark.parametrize("oracle", [permute_and_flip_probabilities, exponential_probabilities])
def test_monotone_loss_is_at_most_epsilon_and_comes_close(oracle: Callable[..., dict[int, float]]) -> None:
    """With rate epsilon, counts that rise together lose at most epsilon, and nearly all of it."""
    assert 0.95 < largest_loss(oracle, 1.0, monotone=True) <= 1 + 1e-9


@pytest.mark.parametrize("oracle", [permute_and_flip_probabilities, exponential_probabilities])
def test_general_loss_needs_half_the_rate(oracle: Callable[..., dict[int, float]]) -> None:
    """Where utilities may move apart, rate epsilon / 2 loses at most epsilon, and nearly all of it."""
    assert 0.95 < largest_loss(oracle, 0.5, monotone=False) <= 1 + 1e-9


@pytest.mark.parametrize("weights", [[1, 2, 3, 4], [0, 5, 1, 0], [10**6, 1000, 1, 10]], ids=str)
def test_weights_are_a_base_measure(weights: list[int]) -> None:
    """Choices follow weight * exp(rate * utility), also where the best has little weight."""
    utilities = [0, 9, 20, 14]
    chosen = exponential(repeated(utilities, 8000), 1, weights=np.array(weights), entropy=seeded(9))
    assert fits(chosen, exponential_probabilities(utilities, 0.5, weights))


def test_weights_may_differ_by_row() -> None:
    """A weight array of the full shape applies row by row."""
    weights = np.tile(np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]]), (100, 1))
    chosen = exponential(np.zeros((300, 3), dtype=np.int64), 1, weights=weights)
    assert chosen.tolist() == [0, 1, 2] * 100


def test_candidates_without_weight_do_not_slow_the_others() -> None:
    """The best candidate sets no mark when its weight is zero: the first proposal is taken."""
    chosen = exponential(np.array([[9999, 0, 0]]), 1, weights=np.array([0, 1, 1]), entropy=scripted(bytes(24)))
    assert chosen.tolist() == [1]


def test_rows_that_rejection_cannot_settle_are_drawn_by_inversion() -> None:
    """A best candidate of tiny weight gets its exact share without endless rejection."""
    utilities, weights = [60, 0, 1], [1, 10**13, 10**13]
    chosen = exponential(repeated(utilities, 1500), 1, weights=np.array(weights), entropy=seeded(10))
    assert fits(chosen, exponential_probabilities(utilities, 0.5, weights))


def test_weights_too_large_to_add_up_are_exact_too() -> None:
    """Weights whose sum leaves 64 bits keep their proportions."""
    utilities, weights = [0, 1, 2], [HIGHEST, HIGHEST, HIGHEST // 2]
    chosen = exponential(repeated(utilities, 1500), 1, weights=np.array(weights), entropy=seeded(11))
    assert fits(chosen, exponential_probabilities(utilities, 0.5, weights))


@BOTH
def test_rows_keep_their_place_over_parts(mechanism: Callable[..., np.ndarray]) -> None:
    """A table larger than one part gives each row its own choice."""
    best = np.arange(5 * choose._CELLS_AT_ONCE // 8) % 4
    table = (best[:, None] == np.arange(4)) * 10**6
    assert np.array_equal(mechanism(table, 1), best)


@BOTH
def test_one_wide_row_is_practical(mechanism: Callable[..., np.ndarray]) -> None:
    """One row of a hundred thousand candidates finds the only good one."""
    table = np.zeros((1, 100_000), dtype=np.int64)
    table[0, 77] = 10**6
    assert mechanism(table, 1).tolist() == [77]


@BOTH
@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.integers(LOWEST, HIGHEST), min_size=3, max_size=3), max_size=6),
    st.fractions(Fraction(1, 10**18), 10**18),
)
def test_extreme_utilities_give_valid_columns(
    mechanism: Callable[..., np.ndarray], rows: list[list[int]], epsilon: Fraction
) -> None:
    """Any int64 utilities and any epsilon give one column per row, the best when gap * rate is large."""
    chosen = mechanism(np.array(rows, dtype=np.int64).reshape(-1, 3), epsilon)
    assert chosen.dtype == np.int64
    gaps = [max(row) - row[column] for row, column in zip(rows, chosen.tolist(), strict=True)]
    assert all(gap * epsilon <= 2000 for gap in gaps)


@BOTH
def test_widest_gap_does_not_wrap(mechanism: Callable[..., np.ndarray]) -> None:
    """The gap from the lowest to the highest int64 counts as large, not as -1."""
    table = repeated([LOWEST, HIGHEST], 50)
    assert mechanism(table, Fraction(1, 10**9)).tolist() == [1] * 50


@BOTH
def test_widest_gap_at_tiny_epsilon_is_a_fair_choice(mechanism: Callable[..., np.ndarray]) -> None:
    """A gap of about 2**64 at epsilon 2**-64 has exponent 1/2."""
    oracle = permute_and_flip_probabilities if mechanism is permute_and_flip else exponential_probabilities
    chosen = mechanism(repeated([LOWEST, HIGHEST], 5000), Fraction(1, 2**64), entropy=seeded(12))
    assert fits(chosen, oracle([0, 1], 0.5))


@BOTH
def test_single_candidate_is_chosen(mechanism: Callable[..., np.ndarray]) -> None:
    """With one candidate there is no choice, and no entropy is asked for."""
    assert mechanism(np.array([[5], [-7]]), 1, entropy=scripted()).tolist() == [0, 0]


@BOTH
def test_ties_are_broken_uniformly(mechanism: Callable[..., np.ndarray]) -> None:
    """Equal candidates are equally likely."""
    chosen = mechanism(np.full((DRAWS, 5), 3), 10**6, entropy=seeded(13))
    assert fits(chosen, dict.fromkeys(range(5), 0.2))


@BOTH
@pytest.mark.parametrize("shape", [(0, 0), (0, 4)])
def test_no_rows_give_no_choices(mechanism: Callable[..., np.ndarray], shape: tuple[int, int]) -> None:
    """An empty table gives an empty result."""
    assert mechanism(np.zeros(shape, dtype=np.int64), 1).shape == (0,)


@BOTH
@pytest.mark.parametrize("dtype", [np.float64, np.bool_, object])
def test_utilities_that_are_no_integers_are_refused(mechanism: Callable[..., np.ndarray], dtype: type) -> None:
    """Floats, truth values and objects are refused."""
    with pytest.raises(TypeError, match="utilities must be integers"):
        mechanism(np.zeros((1, 2), dtype=dtype), 1)


@BOTH
@pytest.mark.parametrize("table", [np.zeros(3, dtype=np.int64), np.zeros((2, 0), dtype=np.int64)])
def test_wrong_shapes_are_refused(mechanism: Callable[..., np.ndarray], table: np.ndarray) -> None:
    """Utilities need two dimensions and at least one candidate."""
    with pytest.raises(ValueError, match="utilities must have"):
        mechanism(table, 1)


@BOTH
def test_unsigned_utilities_past_int64_are_refused(mechanism: Callable[..., np.ndarray]) -> None:
    """A value that does not fit is refused and not shown."""
    with pytest.raises(ValueError, match="fit in 64 bits") as caught:
        mechanism(np.array([[2**63 + 12345, 0]], dtype=np.uint64), 1)
    assert "12345" not in str(caught.value)


@BOTH
@pytest.mark.parametrize("name", ["epsilon", "sensitivity"])
def test_parameters_that_are_not_exact_are_refused(mechanism: Callable[..., np.ndarray], name: str) -> None:
    """Epsilon and sensitivity are Fractions or ints."""
    with pytest.raises(TypeError, match=name):
        mechanism(np.zeros((1, 2), dtype=np.int64), **{"epsilon": 1, name: 0.5})


@BOTH
@pytest.mark.parametrize("name", ["epsilon", "sensitivity"])
def test_parameters_must_be_positive(mechanism: Callable[..., np.ndarray], name: str) -> None:
    """Epsilon and sensitivity are positive."""
    with pytest.raises(ValueError, match=name):
        mechanism(np.zeros((1, 2), dtype=np.int64), **{"epsilon": 1, name: 0})


@pytest.mark.parametrize(("weights", "message"), [([1, -1], "negative"), ([0, 0], "positive weight")])
def test_unusable_weights_are_refused(weights: list[int], message: str) -> None:
    """Weights are non-negative, with a positive one in each row."""
    with pytest.raises(ValueError, match=message):
        exponential(np.zeros((1, 2), dtype=np.int64), 1, weights=np.array(weights))


def test_float_weights_are_refused() -> None:
    """Weights are integers."""
    with pytest.raises(TypeError, match="weights must be integers"):
        exponential(np.zeros((1, 2), dtype=np.int64), 1, weights=np.array([0.5, 1]))
