"""Tests of dpsql/mechanisms/laplace.py: discrete Laplace and one-sided geometric noise."""

from __future__ import annotations

import os
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.mechanisms.laplace import LARGEST_SCALE, _magnitudes, discrete_laplace

from .oracles import agree, fits, geometric_probabilities, laplace_probabilities, scripted, seeded

DRAWS = 60_000
SCALES = [
    Fraction(1, 3),
    Fraction(1),
    Fraction(10),
    Fraction(100, 37),
    Fraction(10**9 * 7, 1_234_567_891),
    Fraction(7 * 10**17, 499_999_999_999_999_993),
    Fraction(3**60, 2**94 + 1),
]


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_laplace_has_the_right_scale(scale: Fraction) -> None:
    """Draws follow P(x) proportional to exp(-|x| / scale), for small and large fractions."""
    noise = discrete_laplace(scale, DRAWS // 12 if scale == SCALES[-1] else DRAWS, entropy=seeded(1))
    assert fits(noise, laplace_probabilities(float(scale), 30))


@pytest.mark.parametrize("wrong", [Fraction(13, 10), Fraction(10, 13)], ids=str)
@pytest.mark.parametrize("scale", SCALES[:6], ids=str)
def test_laplace_test_has_power(scale: Fraction, wrong: Fraction) -> None:
    """The same comparison refuses a scale that is 30 % off."""
    noise = discrete_laplace(scale * wrong, DRAWS, entropy=seeded(2))
    assert not fits(noise, laplace_probabilities(float(scale), 30))


def test_laplace_from_the_operating_system_has_the_right_scale() -> None:
    """The default source of bytes gives the same distribution."""
    assert fits(discrete_laplace(2, DRAWS), laplace_probabilities(2.0, 20))


@pytest.mark.parametrize("scale", SCALES[:6], ids=str)
def test_geometric_has_the_right_scale(scale: Fraction) -> None:
    """Draws follow P(x) proportional to exp(-x / scale), x >= 0."""
    draws = _magnitudes(scale, DRAWS, seeded(3))
    assert fits(draws, geometric_probabilities(float(scale), 30))


@pytest.mark.parametrize("wrong", [Fraction(13, 10), Fraction(10, 13)], ids=str)
def test_geometric_test_has_power(wrong: Fraction) -> None:
    """The same comparison refuses a scale that is 30 % off."""
    draws = _magnitudes(10 * wrong, DRAWS, seeded(4))
    assert not fits(draws, geometric_probabilities(10.0, 30))


def test_batches_do_not_repeat() -> None:
    """A draw longer than a batch is not the same noise again and again."""
    draws = discrete_laplace(10**6, 300_000)
    assert not np.array_equal(draws[: 2**17], draws[2**17 : 2**18])


def test_neighbouring_draws_are_independent() -> None:
    """The sign and size of one draw say nothing about the next."""
    noise = np.clip(discrete_laplace(1, 2 * DRAWS, entropy=seeded(5)), -2, 2).reshape(-1, 2)
    single = laplace_probabilities(1.0, 60)
    clipped = {x: sum(p for y, p in single.items() if min(2, max(-2, y)) == x) for x in range(-2, 3)}
    pairs = {5 * a + b: p * q for a, p in clipped.items() for b, q in clipped.items()}
    assert fits(noise @ np.array([5, 1]), pairs)


@pytest.mark.parametrize("scale", [1, 10])
def test_laplace_agrees_with_opendp(scale: int) -> None:
    """OpenDP's sampler and ours give samples that cannot be told apart."""
    ours = discrete_laplace(scale, 20_000)
    assert agree(ours, _opendp_laplace(scale, 20_000))


def test_opendp_comparison_has_power() -> None:
    """OpenDP's sampler at a scale 30 % off is told apart from ours."""
    assert not agree(discrete_laplace(10, 20_000), _opendp_laplace(13, 20_000))


@pytest.mark.parametrize("scale", [1, 10])
def test_laplace_is_twenty_times_as_fast_as_opendp(scale: int) -> None:
    """Per draw, the vector call of OpenDP takes at least twenty times our processor time."""
    _opendp_laplace(scale, 10)
    start = time.process_time()
    _opendp_laplace(scale, 20_000)
    middle = time.process_time()
    discrete_laplace(scale, 20 * 20_000)
    assert time.process_time() - middle < middle - start


def _opendp_laplace(scale: float, size: int) -> np.ndarray:
    """Return noise from OpenDP's vector call."""
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    domain, metric = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    return np.array(dp.m.make_laplace(domain, metric, scale=float(scale))([0] * size))


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 10**18), st.integers(1, 10**18), st.integers(0, 30))
def test_any_fraction_gives_as_many_draws_as_asked(top: int, bottom: int, size: int) -> None:
    """Numerators and denominators up to 1e18 neither overflow nor stray past 60 scales."""
    scale = min(Fraction(top, bottom), Fraction(LARGEST_SCALE))
    noise = discrete_laplace(scale, size)
    assert noise.dtype == np.int64
    assert noise.shape == (size,)
    assert all(abs(draw) <= 60 * scale + 60 for draw in noise.tolist())


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 2**200), st.integers(2**145, 2**200))
def test_numbers_past_64_bits_are_exact_too(top: int, bottom: int) -> None:
    """A fraction of very large numbers is drawn with Python integers."""
    draws = _magnitudes(Fraction(top, bottom), 5, os.urandom)
    assert all(0 <= draw <= 60 * Fraction(top, bottom) + 60 for draw in draws.tolist())


def test_largest_scale_does_not_wrap_around() -> None:
    """At the largest scale the mean magnitude is the scale, so nothing overflowed."""
    mean = int(sum(abs(discrete_laplace(LARGEST_SCALE, 20_000, entropy=seeded(6)).astype(object)))) / 20_000
    assert mean == pytest.approx(LARGEST_SCALE, rel=0.05)


def test_overflow_is_an_error() -> None:
    """A run of 136 heads, long enough for the noise to leave 64 bits, is refused and never wrapped."""
    coins = scripted(bytes(8 * 17), *[bytes(17)] * 8, b"\xff" * 17)
    with pytest.raises(OverflowError, match="64-bit range"):
        _magnitudes(Fraction(LARGEST_SCALE), 1, coins)


def test_no_draws_ask_for_no_entropy() -> None:
    """A size of zero gives an empty array and never calls the source."""
    assert discrete_laplace(3, 0, entropy=scripted()).size == 0


@pytest.mark.parametrize("scale", [0, -1, Fraction(-1, 2), LARGEST_SCALE + 1])
def test_scale_out_of_range_is_refused(scale: Fraction) -> None:
    """A scale is positive and leaves room in 64 bits."""
    with pytest.raises(ValueError, match="scale must be positive"):
        discrete_laplace(scale, 1)


@pytest.mark.parametrize("scale", [1.0, "1", True, None, np.int64(1)])
def test_scale_that_is_not_exact_is_refused(scale: object) -> None:
    """Only a Fraction or an int is a scale."""
    with pytest.raises(TypeError, match="Fraction"):
        discrete_laplace(scale, 1)  # type: ignore[arg-type]


def test_negative_size_is_refused() -> None:
    """There is no negative number of draws."""
    with pytest.raises(ValueError, match="size"):
        discrete_laplace(1, -1)
