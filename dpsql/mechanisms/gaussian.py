"""Draws exact integer noise from the discrete Gaussian distribution.

Method: Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020, Algorithm 3, for
all elements of an array at a time. We differ in one place: the scale of the proposals is the whole number nearest to
the standard deviation, not the next one above it. The algorithm is exact for any scale, and where the standard
deviation is a whole number, the fractions of the coins stay small.
"""

from __future__ import annotations

import math
import os
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.bernoulli import bernoulli_exp
from dpsql.mechanisms.laplace import discrete_laplace
from dpsql.mechanisms.rng import Entropy

LARGEST_VARIANCE = 2**104
"""Noise of this variance leaves the 64-bit range with probability below exp(-10**6)."""

#: How many proposals are drawn at a time at most: memory stays bounded.
_MOST_AT_ONCE = 2**17


def discrete_gaussian(variance: Fraction | int, size: int, *, entropy: Entropy = os.urandom) -> NDArray[np.int64]:
    """Return independent discrete Gaussian noise: x with probability proportional to exp(-x**2 / (2 * variance)).

    Args:
        variance: a positive rational of at most 2**104, in counts squared; the noise's own variance is at most this.
        size: how many draws, at least 0.
        entropy: where the bytes come from.

    Proof:
        Claim: a vector of integer counts plus this noise satisfies rho-zero-concentrated differential privacy for
        variance = change**2 / (2 * rho), where change bounds the Euclidean length of the difference of all
        counts between neighbours (add or remove one privacy unit). Theorem: Canonne et al., Theorem 4, for each
        count. The noise on different counts is independent, so their Rényi divergences, which are proportional to
        the squares of their changes, add up.
        Sampler: let v be the variance. A discrete Laplace draw y of scale t is accepted with probability
        exp(-(|y| - v/t)**2 / (2v)). An accepted y has probability proportional to
        exp(-|y|/t - (|y| - v/t)**2 / (2v)) = exp(-y**2 / (2v)) times a constant (Canonne et al., section 5).
        With v = a/b, g = gcd(bt, a), p = bt/g and q = a/g the exponent is (p|y| - q)**2 / (2pqt), a fraction of
        whole numbers.

    >>> discrete_gaussian(Fraction(1, 2), 5).shape
    (5,)
    >>> discrete_gaussian(Fraction(1, 10**6), 3)  # noise vanishes when the variance does
    array([0, 0, 0])
    """
    square = _check_variance(variance, size)
    scale = max(1, (math.isqrt(4 * square.numerator // square.denominator) + 1) // 2)
    noise = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        missing = size - filled
        # For a large standard deviation, 76 of 100 proposals are accepted.
        drawn = discrete_laplace(scale, min(missing + missing // 2 + 16, _MOST_AT_ONCE), entropy=entropy)
        accepted = drawn[bernoulli_exp(*_exponents(np.abs(drawn), square, scale), entropy=entropy)][:missing]
        noise[filled : filled + accepted.size] = accepted
        filled += accepted.size
    return noise


def _check_variance(variance: Fraction | int, size: int) -> Fraction:
    """Return the variance as a fraction, or raise an error if the variance or the size is out of range."""
    if isinstance(variance, bool) or not isinstance(variance, (Fraction, int)):
        raise TypeError("variance must be a Fraction or an int: floating point is not exact")
    if not 0 < variance <= LARGEST_VARIANCE:
        raise ValueError("variance must be positive and at most 2**104")
    if size < 0:
        raise ValueError("size must be at least 0")
    return Fraction(variance)


def _exponents(magnitudes: NDArray[np.int64], square: Fraction, scale: int) -> tuple[NDArray[Any], int]:
    """Return the exponents x of the probabilities exp(-x) with which proposals are accepted.

    They are given as numerators (Python integers where 64 bits are too few) and one denominator.
    """
    shared = math.gcd(square.denominator * scale, square.numerator)
    step, offset = square.denominator * scale // shared, square.numerator // shared
    fits = max(int(magnitudes.max(initial=0)) * step, offset) ** 2 < 2**63
    away = magnitudes.astype(np.int64 if fits else object) * step - offset
    return away * away, 2 * step * offset * scale
