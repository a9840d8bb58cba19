"""Tests of the yardstick itself: it must accept what is right and refuse what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from .oracles import agree, critical_value, exponential_probabilities, fits, permute_and_flip_probabilities


@pytest.mark.parametrize("freedom", [1, 2, 5, 20, 100])
def test_critical_value_has_the_stated_false_alarm_rate(freedom: int) -> None:
    """The approximation errs to the side of fewer false alarms, by at most 16 %."""
    stats = pytest.importorskip("scipy.stats")
    exact = stats.chi2.isf(1e-6, freedom)
    assert 0.999 * exact <= critical_value(freedom) <= 1.16 * exact


def test_impossible_outcome_is_refused() -> None:
    """A single outcome of probability zero is enough to refuse a sample."""
    assert not fits(np.array([0] * 500 + [1] * 499 + [2]), {0: 0.5, 1: 0.5})


def test_different_samples_do_not_agree() -> None:
    """Two samples with clearly different shares are told apart."""
    assert not agree(np.repeat([0, 1], [500, 500]), np.repeat([0, 1], [700, 300]))


def test_permute_and_flip_of_two_is_known_in_closed_form() -> None:
    """With two candidates the worse one wins with chance exp(-gap) / 2."""
    assert permute_and_flip_probabilities([0, 1], 1.0)[0] == pytest.approx(np.exp(-1) / 2)


def test_permute_and_flip_never_does_worse_than_exponential() -> None:
    """The expected utility is at least that of the exponential mechanism (McKenna and Sheldon 2020)."""
    utilities = [0, 1, 1, 3, 4]
    flip = permute_and_flip_probabilities(utilities, 0.5)
    exponential = exponential_probabilities(utilities, 0.5)
    assert sum(utilities[i] * (flip[i] - exponential[i]) for i in flip) > 0
