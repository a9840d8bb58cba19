"""Draws exact integer noise: discrete Laplace, which is two-sided geometric.

Method: Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020,
Algorithm 2, for all elements of an array at a time. We differ in one place: the runs of coins of chance 1/e are
cut from one long stream (`inverse_e_runs`), which has the same distribution and needs no loop over draws.
"""

from __future__ import annotations

import os
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.bernoulli import bernoulli_exp, inverse_e_runs
from dpsql.mechanisms.rng import Entropy, uniform_below, uniform_bits

LARGEST_SCALE = 2**56
"""Noise of this scale leaves the 64-bit range with probability below exp(-127)."""

#: How many magnitudes are drawn at a time at most: memory stays bounded.
_MOST_AT_ONCE = 2**17
#: Two numbers below this add up to less than 2**63, so that their sum fits in 64-bit signed integers.
_SAFE_NUMBER = 2**62


def discrete_laplace(scale: Fraction | int, size: int, *, entropy: Entropy = os.urandom) -> NDArray[np.int64]:
    """Return independent two-sided geometric noise: x with probability proportional to exp(-|x| / scale).

    Args:
        scale: a positive rational of at most 2**56, in counts. A scale of sensitivity / epsilon
            pays epsilon.
        size: how many draws, at least 0.
        entropy: where the bytes come from.

    Proof:
        Claim: a vector of integer counts plus this noise is epsilon-differentially private for
        scale = sensitivity / epsilon, where sensitivity bounds the sum of absolute changes of all counts
        between neighbours (add or remove one privacy unit). Theorem: Ghosh, Roughgarden and
        Sundararajan, "Universally utility-maximizing privacy mechanisms", STOC 2009; the
        probabilities of one outcome differ by a factor of at most exp(change / scale).
        Sampler: a magnitude with P(y) proportional to exp(-y / scale) gets a fair sign; minus zero is
        drawn again, so that zero is not counted twice (Canonne et al., Algorithm 2).

    >>> discrete_laplace(Fraction(1, 2), 5).shape
    (5,)
    >>> discrete_laplace(Fraction(1, 10**6), 3)  # noise vanishes when the scale does
    array([0, 0, 0])
    """
    ratio = _check_scale(scale, size)
    noise = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        missing = size - filled
        magnitudes = _magnitudes(ratio, min(missing + missing // 2 + 16, _MOST_AT_ONCE), entropy)
        negative = uniform_bits(magnitudes.size, entropy=entropy)
        signed = np.where(negative, -magnitudes, magnitudes)
        accepted = signed[~negative | (magnitudes > 0)][:missing]
        noise[filled : filled + accepted.size] = accepted
        filled += accepted.size
    return noise


def _check_scale(scale: Fraction | int, size: int) -> Fraction:
    """Return the scale as a fraction, or raise an error if the scale or the size is out of range."""
    if isinstance(scale, bool) or not isinstance(scale, (Fraction, int)):
        raise TypeError("scale must be a Fraction or an int: floating point is not exact")
    if not 0 < scale <= LARGEST_SCALE:
        raise ValueError("scale must be positive and at most 2**56")
    if size < 0:
        raise ValueError("size must be at least 0")
    return Fraction(scale)


def _magnitudes(scale: Fraction, size: int, entropy: Entropy) -> NDArray[np.int64]:
    """Return independent one-sided geometric draws: y >= 0 with probability proportional to exp(-y / scale).

    Such draws, added to a count, are not private by themselves: an outcome below the true count is impossible.
    Sampler: for scale = t / s, Canonne et al., Algorithm 2, lines 1 to 12: u below t is accepted with probability
    exp(-u / t), and v is the length of a run of coins of chance 1/e. So x = u + t * v has P(x) proportional to
    exp(-x / t), and floor(x / s) has P(y) proportional to exp(-y * s / t).
    """
    top, bottom = scale.numerator, scale.denominator
    low = _low_parts(top, size, entropy)
    runs = inverse_e_runs(size, entropy=entropy)
    longest = int(runs.max(initial=0))
    if top * (longest + 1) >= bottom << 63:
        raise OverflowError("noise left the 64-bit range; draw again with a smaller scale")
    if bottom == 1:
        return low + runs * top
    return _divide_sum(low, runs, longest, scale)


def _low_parts(top: int, size: int, entropy: Entropy) -> NDArray[Any]:
    """Return draws u below `top` with probability proportional to exp(-u / top)."""
    if top == 1:
        return np.zeros(size, dtype=np.int64)
    accepted: list[NDArray[Any]] = []
    missing = size
    while missing > 0:
        # A draw is accepted with probability above 1 - 1/e = 0.63.
        drawn = uniform_below(top, missing + missing * 5 // 8 + 16, entropy=entropy)
        drawn = drawn[bernoulli_exp(drawn, top, entropy=entropy)][:missing]
        accepted.append(drawn)
        missing -= drawn.size
    return np.concatenate(accepted) if accepted else np.zeros(0, dtype=np.int64)


def _divide_sum(low: NDArray[Any], runs: NDArray[np.int64], longest: int, scale: Fraction) -> NDArray[np.int64]:
    """Return floor((low + top * runs) / bottom), without leaving 64 bits on the way.

    top * run is divided once per possible run, with Python integers; only remainders are added.
    """
    top, bottom = scale.numerator, scale.denominator
    parts = [divmod(top * run, bottom) for run in range(longest + 1)]
    quotients = np.array([quotient for quotient, _ in parts], dtype=np.int64)
    fits = max(top, bottom) < _SAFE_NUMBER
    remainders = np.array([rest for _, rest in parts], dtype=np.int64 if fits else object)
    carried = (remainders[runs] + low) // bottom
    magnitudes: NDArray[np.int64] = quotients[runs] + carried.astype(np.int64, copy=False)
    return magnitudes
