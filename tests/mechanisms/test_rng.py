"""Tests of dpsql/mechanisms/rng.py: uniform words, bounded draws, keys, permutations."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.mechanisms.rng import random_key, uniform_below, uniform_bits, uniform_words

from .oracles import fits, scripted, seeded


def test_words_are_the_bytes_of_the_source() -> None:
    """A word is eight bytes of the source, nothing added."""
    assert uniform_words(2, entropy=scripted(b"\0" * 8 + b"\xff" * 8)).tolist() == [0, 2**64 - 1]


def test_no_words_ask_for_no_entropy() -> None:
    """A size of zero never calls the source."""
    assert uniform_words(0, entropy=scripted()).size == 0


def test_short_entropy_is_refused() -> None:
    """A source that returns too few bytes is an error, not fewer draws."""
    with pytest.raises(ValueError, match="wrong number of bytes"):
        uniform_words(2, entropy=lambda size: b"\0" * (size - 1))


def test_bits_are_unpacked_from_bytes() -> None:
    """Each bit of a byte is one flip."""
    assert uniform_bits(8, entropy=scripted(b"\xf0")).tolist() == [True] * 4 + [False] * 4


def test_every_remainder_has_equally_many_words() -> None:
    """Over all 256 bytes, each of ten values comes from exactly 25, and the other six are redrawn."""
    draws = uniform_below(10, 256, entropy=scripted(bytes(range(256)), bytes(range(6))))
    assert Counter(draws[:250].tolist()) == dict.fromkeys(range(10), 25)
    assert draws[250:].tolist() == [0, 1, 2, 3, 4, 5]


def test_word_past_the_last_multiple_is_drawn_again_for_each_bound() -> None:
    """With one bound per draw, a word that would favour small values is redrawn."""
    words = np.array([2**64 - 1, 5], dtype=np.uint64).tobytes()
    draws = uniform_below(np.array([3, 4]), entropy=scripted(words, np.uint64(7).tobytes()))
    assert draws.tolist() == [1, 1]


@settings(deadline=None)
@given(st.integers(1, 2**130), st.integers(0, 20))
def test_draws_stay_below_any_bound(bound: int, size: int) -> None:
    """Draws are in range and as many as asked for, also past 64 bits."""
    draws = uniform_below(bound, size)
    assert draws.shape == (size,)
    assert all(0 <= draw < bound for draw in draws.tolist())


@settings(deadline=None)
@given(st.lists(st.integers(1, 2**63 - 1), max_size=20))
def test_draws_stay_below_each_bound(bounds: list[int]) -> None:
    """With an array of bounds each draw is below its own."""
    draws = uniform_below(np.array(bounds, dtype=np.int64))
    assert all(0 <= draw < bound for draw, bound in zip(draws.tolist(), bounds, strict=True))


@pytest.mark.parametrize("bound", [7, 200, 3 * 2**61, 2**63, 3 * 2**62])
def test_draws_are_uniform(bound: int) -> None:
    """Sevenths of the range are equally likely for every width of word."""
    draws = uniform_below(bound, 20_000, entropy=seeded(1))
    sevenths = np.array([draw * 7 // bound for draw in draws.tolist()])
    shares = {i: (-(-(i + 1) * bound // 7) - -(-i * bound // 7)) / bound for i in range(7)}
    assert fits(sevenths, shares)


def test_uniform_test_has_power() -> None:
    """The same comparison refuses draws below 6 as draws below 7."""
    assert not fits(uniform_below(6, 20_000, entropy=seeded(2)), dict.fromkeys(range(7), 1 / 7))


@pytest.mark.parametrize("bound", [0, -3, np.array([1, 0])])
def test_bound_below_one_is_refused(bound: int) -> None:
    """There is nothing to draw below zero."""
    with pytest.raises(ValueError, match="bound"):
        uniform_below(bound, 2)


def test_float_bounds_are_refused() -> None:
    """Bounds are integers."""
    with pytest.raises(TypeError, match="integers"):
        uniform_below(np.array([1.5]))


def test_key_uses_63_bits() -> None:
    """The largest key is 2**63 - 1."""
    assert random_key(entropy=scripted(b"\xff" * 8)) == 2**63 - 1


def test_keys_differ() -> None:
    """Two keys from the operating system are not the same."""
    assert random_key() != random_key()
