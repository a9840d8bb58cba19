"""Tests of dpsql/mechanisms/gaussian.py: discrete Gaussian noise."""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.mechanisms.gaussian import LARGEST_VARIANCE, discrete_gaussian

from .oracles import agree, fits, gaussian_probabilities, scripted, seeded

DRAWS = 60_000
VARIANCES = [
    Fraction(1, 7),
    Fraction(1),
    Fraction(9, 4),
    Fraction(100),
    Fraction(12_345_678, 2**18),
    Fraction(10**9 * 7, 123_456_789),
    Fraction(3**60, 2**92 + 1),
]


@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_noise_has_the_right_variance(variance: Fraction) -> None:
    """Draws follow P(x) proportional to exp(-x² / (2 variance)), for small and large fractions."""
    noise = discrete_gaussian(variance, DRAWS // 12 if variance == VARIANCES[-1] else DRAWS, entropy=seeded(1))
    assert fits(noise, gaussian_probabilities(float(variance), 60))


@pytest.mark.parametrize("wrong", [Fraction(13, 10), Fraction(10, 13)], ids=str)
@pytest.mark.parametrize("variance", VARIANCES[:6], ids=str)
def test_the_test_of_variance_has_power(variance: Fraction, wrong: Fraction) -> None:
    """The same comparison refuses a deviation that is 30 % off."""
    noise = discrete_gaussian(variance * wrong**2, DRAWS, entropy=seeded(2))
    assert not fits(noise, gaussian_probabilities(float(variance), 60))


def test_noise_from_the_operating_system_has_the_right_variance() -> None:
    """The default source of bytes gives the same distribution."""
    assert fits(discrete_gaussian(4, DRAWS), gaussian_probabilities(4.0, 30))


def test_neighbouring_draws_are_independent() -> None:
    """The sign and size of one draw say nothing about the next."""
    noise = np.clip(discrete_gaussian(1, 2 * DRAWS, entropy=seeded(5)), -2, 2).reshape(-1, 2)
    single = gaussian_probabilities(1.0, 30)
    clipped = {x: sum(p for y, p in single.items() if min(2, max(-2, y)) == x) for x in range(-2, 3)}
    pairs = {5 * a + b: p * q for a, p in clipped.items() for b, q in clipped.items()}
    assert fits(noise @ np.array([5, 1]), pairs)


def test_noise_agrees_with_opendp() -> None:
    """OpenDP's sampler and ours give samples that cannot be told apart."""
    assert agree(discrete_gaussian(49, 20_000), _opendp_gaussian(7, 20_000))


def test_opendp_comparison_has_power() -> None:
    """OpenDP's sampler at a deviation 30 % off is told apart from ours."""
    assert not agree(discrete_gaussian(49, 20_000), _opendp_gaussian(9.1, 20_000))


def _opendp_gaussian(deviation: float, size: int) -> np.ndarray:
    """Return noise from OpenDP's vector call."""
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    domain, metric = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    return np.array(dp.m.make_gaussian(domain, metric, scale=float(deviation))([0] * size))


def test_a_million_draws_take_about_a_second() -> None:
    """A release of a million counts is no wait: under two seconds of processor time."""
    discrete_gaussian(1225, 10)
    start = time.process_time()
    discrete_gaussian(1225, 10**6)
    assert time.process_time() - start < 2


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 10**36), st.integers(1, 10**36), st.integers(0, 30))
def test_any_fraction_gives_as_many_draws_as_asked(top: int, bottom: int, size: int) -> None:
    """Numerators and denominators of any size neither overflow nor stray past 40 deviations."""
    variance = min(Fraction(top, bottom), Fraction(LARGEST_VARIANCE))
    noise = discrete_gaussian(variance, size)
    assert noise.dtype == np.int64
    assert noise.shape == (size,)
    assert all(draw**2 <= 1600 * variance + 1600 for draw in noise.tolist())


def test_largest_variance_does_not_wrap_around() -> None:
    """At the largest variance the mean square is the variance, so nothing overflowed."""
    squares = [draw**2 for draw in discrete_gaussian(LARGEST_VARIANCE, 5_000, entropy=seeded(6)).tolist()]
    assert sum(squares) / len(squares) == pytest.approx(LARGEST_VARIANCE, rel=0.1)


def test_no_draws_ask_for_no_entropy() -> None:
    """A size of zero gives an empty array and never calls the source."""
    assert discrete_gaussian(3, 0, entropy=scripted()).size == 0


@pytest.mark.parametrize("variance", [0, -1, Fraction(-1, 2), LARGEST_VARIANCE + 1])
def test_variance_out_of_range_is_refused(variance: Fraction) -> None:
    """A variance is positive and leaves room in 64 bits."""
    with pytest.raises(ValueError, match="variance must be positive"):
        discrete_gaussian(variance, 1)


@pytest.mark.parametrize("variance", [1.0, "1", True, None, np.int64(1)])
def test_variance_that_is_not_exact_is_refused(variance: object) -> None:
    """Only a Fraction or an int is a variance."""
    with pytest.raises(TypeError, match="Fraction"):
        discrete_gaussian(variance, 1)  # type: ignore[arg-type]


def test_negative_size_is_refused() -> None:
    """There is no negative number of draws."""
    with pytest.raises(ValueError, match="size"):
        discrete_gaussian(1, -1)
