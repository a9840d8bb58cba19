"""From noisy sums to votes for a mean: exact without noise, close to the overall mean where there is noise alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.schema import Target
from dpsql.trees.estimate.means import PRIOR_WEIGHT, VOTES_PER_LEAF, mean_votes, predicted_numbers

sums = st.lists(
    st.tuples(st.integers(-(2**61), 2**61), st.integers(-(2**61), 2**61)), min_size=1, max_size=20
)  # fmt: skip


@given(noisy=sums, scale=st.floats(1e-6, 2.0**50), trees=st.integers(1, 10_000))
def test_votes_are_whole_and_never_silent(noisy: list[tuple[int, int]], scale: float, trees: int) -> None:
    """Whatever the noise did, each leaf casts at least one vote for each bound, within what a vote can hold."""
    votes = mean_votes(np.array(noisy), scale, trees)
    assert votes.dtype == np.int64
    assert votes.min() >= 1
    assert votes.max() <= VOTES_PER_LEAF * (1 + PRIOR_WEIGHT) + 1


@given(votes=st.lists(st.tuples(st.integers(-(2**62), 2**62), st.integers(0, 2**60)), min_size=1))
def test_a_prediction_stays_within_the_bounds(votes: list[tuple[int, int]]) -> None:
    """Even of damaged votes a finite number within the bounds comes out."""
    found = predicted_numbers(Target(-3, 7), np.array(votes))
    assert np.isfinite(found).all()
    assert ((found >= -3) & (found <= 7)).all()


def test_large_leaves_say_their_mean() -> None:
    """Without noise a prediction is the mean of the leaf, but for the small weight of the overall mean."""
    votes = mean_votes(np.array([[9000, 1000], [2000, 8000]]), 1e-6, 1)
    overall, weight = 0.45, PRIOR_WEIGHT / (1 + PRIOR_WEIGHT)
    expected = [10 * ((1 - weight) * mean + weight * overall) for mean in (0.1, 0.8)]
    assert predicted_numbers(Target(0, 10), votes) == pytest.approx(expected, abs=1e-4)


def test_noise_alone_says_next_to_nothing() -> None:
    """Where leaves hold noise alone, predictions of many trees stay near the middle."""
    generator = np.random.default_rng(1)
    noisy = np.rint(generator.laplace(0, 1e6, (4000, 2))).astype(np.int64)
    votes = mean_votes(noisy, 1e6, 20).reshape(20, 200, 2).sum(axis=0)
    assert np.abs(predicted_numbers(Target(0, 1), votes) - 0.5).mean() < 0.1


def test_a_small_leaf_weighs_less_than_a_large_one() -> None:
    """A leaf whose rows drown in noise has little of the weight of a large leaf."""
    noisy = np.array([[90_000, 10_000], [20_000, 80_000], [40, 60], [-30, 20]])
    weight = mean_votes(noisy, 1000.0, 10).sum(axis=1) / VOTES_PER_LEAF - PRIOR_WEIGHT / 10
    assert weight[:2].min() > 0.9
    assert weight[2:].max() < 0.01
