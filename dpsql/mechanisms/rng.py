"""Draws exact uniform numbers from operating-system entropy: the one source of randomness in dpsql.

Everything here is integer arithmetic. A draw below a bound is exact, because words that would
favour small results are thrown away and drawn again. There is no seed. A caller may hand in
another `entropy` function, which only tests do.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Entropy = Callable[[int], bytes]
"""A function that returns as many independent uniform bytes as it is asked for."""

LARGEST_BOUND = 2**63
"""The largest bound whose draws fit in 64-bit signed integers."""


def uniform_words(size: int, *, entropy: Entropy = os.urandom) -> NDArray[np.uint64]:
    """Return `size` independent uniform 64-bit words.

    Args:
        size: how many words, at least 0.
        entropy: where the bytes come from.

    Proof:
        Each word is eight fresh bytes of the source, so all 2**64 values are equally likely.

    >>> uniform_words(3).dtype, uniform_words(3).shape
    (dtype('uint64'), (3,))
    """
    return _words(size, np.dtype(np.uint64), entropy)


def uniform_bytes(size: int, *, entropy: Entropy = os.urandom) -> NDArray[np.uint8]:
    """Return `size` independent uniform bytes.

    Args:
        size: how many bytes, at least 0.
        entropy: where the bytes come from.

    >>> uniform_bytes(3).dtype
    dtype('uint8')
    """
    return _words(size, np.dtype(np.uint8), entropy)


def uniform_bits(size: int, *, entropy: Entropy = os.urandom) -> NDArray[np.bool_]:
    """Return `size` independent fair coin flips.

    Args:
        size: how many flips, at least 0.
        entropy: where the bytes come from.

    >>> uniform_bits(9).shape
    (9,)
    """
    packed = uniform_bytes(-(-size // 8), entropy=entropy)
    return np.unpackbits(packed, count=size).view(np.bool_)


def uniform_below(
    bound: int | NDArray[np.integer[Any]], size: int | None = None, *, entropy: Entropy = os.urandom
) -> NDArray[Any]:
    """Return independent integers, each uniform on 0, 1, ..., bound - 1.

    Args:
        bound: one bound for all draws (any positive integer), or an integer array with one bound
            per draw, each from 1 to 2**63 - 1.
        size: how many draws, at least 0; for an array of bounds leave it out.
        entropy: where the bytes come from.

    Returns:
        int64; for a single bound above 2**63 an object array of Python integers.

    Proof:
        A w-bit word is accepted only if it is below the largest multiple of the bound that is at most
        2**w. Among the accepted words every remainder has the same number of preimages.

    >>> uniform_below(1, 3)
    array([0, 0, 0])
    >>> uniform_below(np.array([1, 1]))
    array([0, 0])
    """
    if isinstance(bound, np.ndarray):
        return _below_each(bound, size, entropy)
    if size is None:
        raise TypeError("uniform_below needs a size when the bound is a single integer")
    if bound < 1 or size < 0:
        raise ValueError("uniform_below needs a bound of at least 1 and a size of at least 0")
    if bound == 1:
        return np.zeros(size, dtype=np.int64)
    if bound > LARGEST_BOUND:
        return _below_large(int(bound), size, entropy)
    return _below_one(int(bound), size, entropy)


def random_key(*, entropy: Entropy = os.urandom) -> int:
    """Return a fresh secret key: a uniform integer from 0 to 2**63 - 1.

    Args:
        entropy: where the bytes come from.

    >>> 0 <= random_key() < 2**63
    True
    """
    return int(_words(1, np.dtype(np.uint64), entropy)[0]) >> 1


def _words(size: int, dtype: np.dtype[Any], entropy: Entropy) -> NDArray[Any]:
    """Return `size` uniform words of one unsigned type."""
    if size < 0:
        raise ValueError("a number of random words must be at least 0")
    length = size * dtype.itemsize
    data = entropy(length) if length else b""
    if len(data) != length:
        raise ValueError("the entropy source returned the wrong number of bytes")
    return np.frombuffer(data, dtype=dtype)


def _word_type(bound: int) -> np.dtype[Any]:
    """Return the narrowest word for which few draws below `bound` are thrown away."""
    for dtype in (np.uint8, np.uint16, np.uint32):
        if bound**2 <= 1 << (8 * np.dtype(dtype).itemsize):
            return np.dtype(dtype)
    return np.dtype(np.uint64)


def _below_one(bound: int, size: int, entropy: Entropy) -> NDArray[np.int64]:
    """Return `size` draws below one bound of at most 2**63."""
    dtype = _word_type(bound)
    span = 1 << (8 * dtype.itemsize)
    largest_accepted = span - 1 - span % bound
    draws = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        words = _words(size - filled, dtype, entropy)
        if largest_accepted < span - 1:
            words = words[words <= largest_accepted]
        # numpy divides by one number with multiplications, but has no such shortcut for `%`.
        draws[filled : filled + words.size] = words - words // bound * bound
        filled += words.size
    return draws


def _below_each(bounds: NDArray[np.integer[Any]], size: int | None, entropy: Entropy) -> NDArray[np.int64]:
    """Return one draw per element of `bounds`, in the same shape."""
    if bounds.dtype.kind not in "iu":
        raise TypeError("bounds must be integers")
    if size is not None and size != bounds.size:
        raise ValueError("size must equal the number of bounds")
    if bounds.size and (int(bounds.min()) < 1 or int(bounds.max()) >= LARGEST_BOUND):
        raise ValueError("each bound must be from 1 to 2**63 - 1")
    flat = bounds.astype(np.uint64).ravel()
    largest_accepted = ~((~flat + np.uint64(1)) % flat)
    draws = np.zeros(flat.size, dtype=np.int64)
    pending = np.flatnonzero(flat > 1)
    while pending.size:
        words = _words(pending.size, np.dtype(np.uint64), entropy)
        accepted = words <= largest_accepted[pending]
        done = pending[accepted]
        draws[done] = words[accepted] % flat[done]
        pending = pending[~accepted]
    return draws.reshape(bounds.shape)


def _below_large(bound: int, size: int, entropy: Entropy) -> NDArray[Any]:
    """Return `size` draws below a bound of any size, as Python integers."""
    bits = (bound - 1).bit_length()
    length = -(-bits // 8)
    draws: NDArray[Any] = np.empty(size, dtype=object)
    for place in range(size):
        draw = bound
        while draw >= bound:
            draw = int.from_bytes(entropy(length), "little") >> (8 * length - bits)
        draws[place] = draw
    return draws
