"""Tests of dpsql/mechanisms/bernoulli.py: coins of chance exp(-x) and exact inversion."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.mechanisms.bernoulli import (
    bernoulli_exp,
    exp_bounds,
    inverse_e_coins,
    inverse_e_runs,
    weighted_choice,
)

from .oracles import exponential_probabilities, fits, geometric_probabilities, scripted, seeded

DRAWS = 40_000


def test_coin_compares_bytes_with_one_over_e() -> None:
    """Of all 256 first bytes 94 are heads, 161 are tails, and one asks for the next byte."""
    every_byte = bytes(range(256))
    low = inverse_e_coins(256, entropy=scripted(every_byte, b"\x00"))
    high = inverse_e_coins(256, entropy=scripted(every_byte, b"\xff"))
    assert (low.sum(), high.sum()) == (95, 94)


def test_coin_is_exact_to_many_bytes() -> None:
    """A number that equals 1/e in 40 bytes and is then smaller, or larger, is decided right."""
    with localcontext() as context:
        context.prec = 150
        digits = int(Decimal(-1).exp() * 2**328).to_bytes(41, "big")
    smaller = [digits[i : i + 1] for i in range(40)] + [bytes([digits[40] - 1])]
    larger = [digits[i : i + 1] for i in range(40)] + [bytes([digits[40] + 1])]
    decided = [inverse_e_coins(1, entropy=scripted(*answers))[0] for answers in (smaller, larger)]
    assert decided == [True, False]


def test_runs_end_at_tails() -> None:
    """Runs are the numbers of heads (byte 0) before each tail (byte 255)."""
    stream = bytes([0, 0, 255, 255, 0, 255]) + bytes([255] * 14)
    assert inverse_e_runs(3, entropy=scripted(stream)).tolist() == [2, 0, 1]


def test_unfinished_run_goes_on_in_the_next_bytes() -> None:
    """A stream that ends within a run is made longer, so long runs are not lost."""
    assert inverse_e_runs(1, entropy=scripted(bytes(17), bytes([0] * 3 + [255] * 14))).tolist() == [20]


def test_runs_have_the_right_distribution() -> None:
    """Runs are geometric with ratio 1/e."""
    runs = inverse_e_runs(DRAWS, entropy=seeded(1))
    assert fits(runs, geometric_probabilities(1.0, 10))


CASES = [
    (1, 3),
    (1, 1),
    (5, 4),
    (7, 2),
    (10**18 + 1, 10**18),
    (2**61, 2**63),
    (2**69, 2**70),
    (9**30, 10**29),
]


@pytest.mark.parametrize(("numerator", "denominator"), CASES)
def test_coin_has_the_right_chance(numerator: int, denominator: int) -> None:
    """Heads come with chance exp(-numerator / denominator), for numbers of any size."""
    numerators = np.full(DRAWS // 4, numerator, dtype=np.int64 if numerator < 2**63 else object)
    heads = bernoulli_exp(numerators, denominator, entropy=seeded(2))
    chance = math.exp(-numerator / denominator)
    assert fits(heads.astype(int), {1: chance, 0: 1 - chance})


@pytest.mark.parametrize("wrong", [1.3, 1 / 1.3])
def test_coin_test_has_power(wrong: float) -> None:
    """The same comparison refuses an exponent that is 30 % off."""
    heads = bernoulli_exp(np.full(DRAWS // 4, 5), 4, entropy=seeded(3))
    chance = math.exp(-5 / 4 * wrong)
    assert not fits(heads.astype(int), {1: chance, 0: 1 - chance})


def test_each_element_has_its_own_chance() -> None:
    """Elements of one call keep their place and their exponent."""
    numerators = np.tile(np.arange(8), (DRAWS, 1))
    rates = bernoulli_exp(numerators, 4, entropy=seeded(4)).mean(axis=0)
    assert np.abs(rates - np.exp(-np.arange(8) / 4)).max() < 5 * math.sqrt(0.25 / DRAWS)


@settings(deadline=None)
@given(st.lists(st.integers(2**40, 2**140), max_size=10), st.integers(1, 2**30))
def test_exponent_past_any_hope_is_tails(numerators: list[int], denominator: int) -> None:
    """An exponent above 1000 gives tails, whatever the size of the numbers."""
    heads = bernoulli_exp(np.array(numerators, dtype=object), denominator)
    assert heads.tolist() == [False] * len(numerators)


@settings(deadline=None)
@given(st.integers(1, 2**140), st.sampled_from([np.int64, np.uint8, np.uint64, object]))
def test_zero_exponent_is_always_heads(denominator: int, dtype: type) -> None:
    """exp(0) is 1, for every integer type."""
    assert bernoulli_exp(np.zeros((2, 3), dtype=dtype), denominator).all()


@pytest.mark.parametrize("numerators", [np.array([0.5]), np.array([0.5], dtype=object), np.array([True])])
def test_numerators_that_are_no_integers_are_refused(numerators: np.ndarray) -> None:
    """Floats and truth values are refused."""
    with pytest.raises(TypeError):
        bernoulli_exp(numerators, 1)


@pytest.mark.parametrize(("numerator", "denominator"), [(-1, 1), (1, 0), (1, -1)])
def test_negative_exponents_are_refused(numerator: int, denominator: int) -> None:
    """A chance above one does not exist."""
    with pytest.raises(ValueError, match=r"negative|at least 1"):
        bernoulli_exp(np.array([numerator]), denominator)


@settings(deadline=None)
@given(st.integers(0, 10**30), st.integers(1, 10**29), st.integers(0, 300))
def test_bounds_of_exp_hold_and_are_tight(numerator: int, denominator: int, bits: int) -> None:
    """A decimal computation of more digits lies between the bounds, which are at most 2 apart."""
    low, high = exp_bounds(numerator, denominator, bits)
    with localcontext() as context:
        context.prec = 200
        value = (-Decimal(numerator) / Decimal(denominator)).exp() * 2**bits
        assert low <= value <= high
    assert high - low <= 2


def inverted(weights: list[int], seed: int) -> np.ndarray:
    """Return 4000 weighted choices at exponents 0, 3/4, 2 and one out of reach."""
    entropy = seeded(seed)
    return np.array([weighted_choice([0, 3, 8, 2**80], 4, weights, entropy=entropy) for _ in range(4000)])


@pytest.mark.parametrize("unit", [1, 2**90])
def test_inversion_has_the_right_distribution(unit: int) -> None:
    """Weighted choice follows weight * exp(-exponent), also past 64 bits."""
    draws = inverted([unit, 2 * unit, 3 * unit, 5 * unit], 5)
    assert fits(draws, exponential_probabilities([0, -3, -8, -(2**80)], 1 / 4, [1, 2, 3, 5]))


@pytest.mark.parametrize("wrong", [1.3, 1 / 1.3])
def test_inversion_test_has_power(wrong: float) -> None:
    """The same comparison refuses exponents that are 30 % off."""
    draws = inverted([1, 2, 3, 5], 6)
    assert not fits(draws, exponential_probabilities([0, -3, -8, -(2**80)], wrong / 4, [1, 2, 3, 5]))


def test_inversion_depends_on_differences_alone() -> None:
    """Exponents far from zero cost no more than those near it."""
    assert weighted_choice([2**90, 2**90 + 2**80], 1, [1, 1], entropy=scripted(bytes(8))) == 0


def test_inversion_draws_more_bits_when_the_first_cannot_decide() -> None:
    """A number on the border of two intervals is refined with eight more bytes instead of guessed."""
    low, _ = exp_bounds(1, 1, 64)
    border = ((low << 64) // ((1 << 64) + low)).to_bytes(8, "little")
    picked = [weighted_choice([1, 0], 1, [1, 1], entropy=scripted(border, rest)) for rest in (bytes(8), b"\xff" * 8)]
    assert picked == [0, 1]
