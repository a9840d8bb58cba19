"""Flips exact coins whose chance of heads is exp(-x) for a rational x, with integers only.

All samplers of this package rest on two facts:

- A uniform number in [0, 1) can be compared with a real number byte by byte, and the comparison
  is exact as soon as two bytes differ.
- exp(-(n + r)) = exp(-n) * exp(-r): a run of n coins of chance 1/e, then one coin for the rest r.

The coin for the rest is Algorithm 1 of Canonne, Kamath and Steinke, "The Discrete Gaussian for
Differential Privacy", NeurIPS 2020.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from functools import cache
from itertools import accumulate, count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.rng import LARGEST_BOUND, Entropy, uniform_below, uniform_bytes

#: How many binary places `exp_bounds` computes beyond those that are asked for: rounding errors fall into these.
_GUARD_BITS = 64
#: Quotients are cut to this number: no run of coins that fits in memory is as long.
_LONGEST_RUN = 2**62


def bernoulli_exp(numerators: NDArray[Any], denominator: int, *, entropy: Entropy = os.urandom) -> NDArray[np.bool_]:
    """Return one exact coin per element: heads with probability exp(-numerator / denominator).

    Args:
        numerators: non-negative integers, any shape; an object array holds those past 64 bits.
        denominator: a positive integer of any size.
        entropy: where the bytes come from.

    Proof:
        Write numerator / denominator = n + r with n whole and 0 <= r < 1. A run of coins of chance
        1/e is at least n long with probability exp(-n); an independent coin has chance exp(-r)
        (see `_fraction_coins`). Both are heads with probability exp(-n) * exp(-r).

    >>> bernoulli_exp(np.array([0, 0, 10**18]), 1)
    array([ True,  True, False])
    """
    if denominator < 1:
        raise ValueError("the denominator must be at least 1")
    quotients, rest = _quotients_and_rest(_check_numerators(numerators).ravel(), denominator)
    heads = np.ones(quotients.size, dtype=np.bool_)
    at_least_one = np.flatnonzero(quotients)
    heads[at_least_one] = inverse_e_runs(at_least_one.size, entropy=entropy) >= quotients[at_least_one]
    undecided = np.flatnonzero(heads & (rest > 0))
    heads[undecided] = _fraction_coins(rest[undecided], denominator, entropy)
    return heads.reshape(numerators.shape)


def inverse_e_runs(size: int, *, entropy: Entropy = os.urandom) -> NDArray[np.int64]:
    """Return independent run lengths: v with probability exp(-v) * (1 - exp(-1)), for v >= 0.

    Args:
        size: how many runs, at least 0.
        entropy: where the bytes come from.

    Proof:
        They are the numbers of heads between tails in one stream of independent coins of chance
        1/e. If the stream is too short, it is made longer and never started again: dropping the
        unfinished run at its end would drop long runs more often than short ones.

    >>> inverse_e_runs(4).shape
    (4,)
    """
    coins = np.empty(0, dtype=np.bool_)
    tails = np.empty(0, dtype=np.int64)
    while tails.size < size:
        missing = size - tails.size
        coins = np.concatenate([coins, inverse_e_coins(missing + missing * 5 // 8 + 16, entropy=entropy)])
        tails = np.flatnonzero(~coins)
    ends = tails[:size]
    return np.diff(ends, prepend=-1) - 1


def inverse_e_coins(size: int, *, entropy: Entropy = os.urandom) -> NDArray[np.bool_]:
    """Return `size` exact coins of chance 1/e.

    Args:
        size: how many coins, at least 0.
        entropy: where the bytes come from.

    Proof:
        Each coin compares a uniform number in [0, 1) with 1/e, one byte after the other, until
        they differ. The bytes of 1/e are computed exactly, as many as are needed.

    >>> inverse_e_coins(0)
    array([], dtype=bool)
    """
    coins = np.empty(size, dtype=np.bool_)
    undecided: NDArray[Any] | slice = slice(None)
    remaining = size
    for place in count():
        if not remaining:
            break
        drawn = uniform_bytes(remaining, entropy=entropy)
        digit = _inverse_e_byte(place)
        coins[undecided] = drawn < digit
        equal = np.flatnonzero(drawn == digit)
        undecided = equal if isinstance(undecided, slice) else undecided[equal]
        remaining = equal.size
    return coins


def exp_bounds(numerator: int, denominator: int, bits: int) -> tuple[int, int]:
    """Return integers (low, high) with low <= 2**bits * exp(-numerator / denominator) <= high.

    Args:
        numerator: a non-negative integer.
        denominator: a positive integer.
        bits: how many binary places, at least 0; high - low is at most 2.

    Proof:
        The exponent is halved until it is at most 1. There the Taylor series has falling terms of
        alternating sign, so the first term left out bounds the rest. Squaring undoes the halving. All steps
        round down for `low` and up for `high`. An exponent of at least `bits` needs no series, because
        exp(-bits) < 2**-bits.

    >>> exp_bounds(0, 1, 8)
    (256, 256)
    >>> exp_bounds(1, 1, 8)  # 256 / e = 94.18
    (94, 95)
    """
    if numerator == 0:
        return 1 << bits, 1 << bits
    if numerator >= max(bits, 1) * denominator:
        return 0, 1
    halvings = (numerator // denominator).bit_length()
    guard = _GUARD_BITS + 2 * halvings
    places = bits + guard
    low, high = _series_bounds(numerator, denominator << halvings, places)
    for _ in range(halvings):
        low, high = low * low >> places, -(-high * high >> places)
    return low >> guard, -(-high >> guard)


def weighted_choice(
    numerators: list[int], denominator: int, weights: list[int], *, entropy: Entropy = os.urandom
) -> int:
    """Return index i with probability proportional to weights[i] * exp(-numerators[i] / denominator).

    Args:
        numerators: non-negative Python integers of any size.
        denominator: a positive integer.
        weights: non-negative Python integers of any size, at least one positive.
        entropy: where the bytes come from.

    Proof:
        Inversion: a uniform number in [0, 1) times the total lies in exactly one of the intervals between
        the running sums. The number is known to `bits` places, and the sums lie within proven bounds. An answer
        is given only if these leave one interval; otherwise both are refined, with all bits drawn so far.
        A common factor cancels, so the least numerator with a positive weight is subtracted from all.

    >>> weighted_choice([0, 0, 10**9], 1, [0, 3, 5])
    1
    """
    pairs = list(zip(numerators, weights, strict=True))
    least = min(numerator for numerator, weight in pairs if weight)
    pairs = [(max(0, numerator - least), weight) for numerator, weight in pairs]
    drawn = 0
    for bits in count(64, 64):
        drawn = drawn << 64 | int.from_bytes(entropy(8), "little")
        bounds = {gap: exp_bounds(gap, denominator, bits) for gap in {gap for gap, _ in pairs}}
        lows = list(accumulate(weight * bounds[gap][0] for gap, weight in pairs))
        highs = list(accumulate(weight * bounds[gap][1] for gap, weight in pairs))
        index = bisect_left(lows, -(-(drawn + 1) * highs[-1] >> bits))
        before = highs[index - 1] if index else 0
        if index < len(lows) and before << bits <= drawn * lows[-1]:
            return index
    raise AssertionError("count() does not end")


def _series_bounds(numerator: int, denominator: int, places: int) -> tuple[int, int]:
    """Return bounds of 2**places * exp(-numerator / denominator) for an exponent of at most 1."""
    low = high = term_low = term_high = 1 << places
    for index in count(1):
        term_low = term_low * numerator // (denominator * index)
        term_high = -(-term_high * numerator // (denominator * index))
        if index % 2:
            low, high = low - term_high, high - term_low
        else:
            low, high = low + term_low, high + term_high
        if term_high <= 1:
            return low - 1, high + 1
    raise AssertionError("count() does not end")


@cache
def _inverse_e_byte(place: int) -> int:
    """Return byte number `place` after the point of 1/e, which is a public constant and may be cached."""
    bits = 8 * (place + 1)
    for guard in count(16, 16):
        low, high = exp_bounds(1, 1, bits + guard)
        if low >> guard == high >> guard:
            return (low >> guard) & 255
    raise AssertionError("count() does not end")


def _check_numerators(numerators: NDArray[Any]) -> NDArray[Any]:
    """Return the numerators as an int64 or object array, or raise an error that shows no value."""
    if numerators.dtype.kind == "O":
        if not all(type(value) is int for value in numerators.flat):
            raise TypeError("an object array of numerators must hold Python integers")
    elif numerators.dtype.kind not in "iu":
        raise TypeError("numerators must be integers")
    if numerators.size and numerators.min() < 0:
        raise ValueError("numerators must not be negative")
    if numerators.dtype == np.uint64:
        return numerators.astype(object)
    return numerators if numerators.dtype.kind == "O" else numerators.astype(np.int64, copy=False)


def _quotients_and_rest(numerators: NDArray[Any], denominator: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return quotients and remainders; larger quotients are cut to 2**62, as no run that fits in memory is longer."""
    if numerators.dtype.kind != "O" and denominator >= LARGEST_BOUND:
        return np.zeros(numerators.size, dtype=np.int64), numerators
    quotients = numerators // denominator
    rest = numerators - quotients * denominator
    if rest.dtype.kind == "O" and denominator <= LARGEST_BOUND:
        rest = rest.astype(np.int64)
    return np.minimum(quotients, _LONGEST_RUN).astype(np.int64, copy=False), rest


def _fraction_coins(rest: NDArray[Any], denominator: int, entropy: Entropy) -> NDArray[np.bool_]:
    """Return coins of chance exp(-g) for g = rest / denominator, 0 < g < 1.

    Canonne, Kamath and Steinke, Algorithm 1: flip coins of chance g/1, g/2, g/3, ... up to the first
    tail, at position k. Then k is odd with probability 1 - g + g**2/2 - ... = exp(-g). A coin of
    chance g/k is heads if a coin of chance g and a coin of chance 1/k are both heads; so nothing overflows.
    """
    heads = np.empty(rest.size, dtype=np.bool_)
    undecided = np.arange(rest.size)
    for position in count(1):
        if not undecided.size:
            break
        go_on = (uniform_below(denominator, undecided.size, entropy=entropy) < rest).astype(np.bool_)
        if position > 1:
            go_on &= uniform_below(position, undecided.size, entropy=entropy) == 0
        heads[undecided[~go_on]] = position % 2 == 1
        undecided, rest = undecided[go_on], rest[go_on]
    return heads
