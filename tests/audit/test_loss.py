"""The loss of one release, against the formulas of the mechanisms written down once more, as floats."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.audit.loss import SLACK, Loss, flip_chances, release_loss, same_noise
from dpsql.audit.record import EXPONENTIAL, FLIP, GAUSSIAN, LAPLACE, RecordedRelease
from tests.mechanisms.oracles import (
    exponential_probabilities,
    gaussian_probabilities,
    laplace_probabilities,
    permute_and_flip_probabilities,
)

UTILITIES = st.lists(st.integers(-12, 12), min_size=2, max_size=5)
RATE = Fraction(3, 7)


def release(mechanism: str, parameter: Fraction, exact: Any, released: Any, weights: Any = None) -> RecordedRelease:
    """Return a release of plain numbers."""
    measure = None if weights is None else np.array(weights)
    return RecordedRelease(0, mechanism, parameter, np.array(exact), np.array(released), measure)


def loss(mechanism: str, parameter: Fraction, one: Any, other: Any, released: Any, **more: Any) -> Loss:
    """Return the loss of what was released between two tables' exact values."""
    approximate = more.pop("approximate", False)
    pair = [release(mechanism, parameter, exact, released, **more) for exact in (one, other)]
    return release_loss(*pair, approximate=approximate)


@given(one=st.integers(-6, 6), other=st.integers(-6, 6), released=st.integers(-9, 9))
def test_noise_on_a_count_loses_the_log_ratio_of_its_chances(one: int, other: int, released: int) -> None:
    """What is seen is the logarithm of the two chances' quotient; no released value has a larger one than `worst`."""
    chances = laplace_probabilities(2.5, 60)
    found = loss(LAPLACE, Fraction(5, 2), [one], [other], [released])
    assert float(found.seen) == pytest.approx(math.log(chances[released - one] / chances[released - other]), abs=1e-9)
    everywhere = [loss(LAPLACE, Fraction(5, 2), [one], [other], [x]).seen for x in range(-20, 21)]
    assert max(map(abs, everywhere)) == found.worst == abs(one - other) / Fraction(5, 2)


def test_the_losses_of_all_counts_add_up() -> None:
    """Counts that moved by 1, −2 and 0 lose 3 over the scale, exactly."""
    assert loss(LAPLACE, Fraction(1, 3), [[5, 0], [7, 7]], [[6, 0], [5, 7]], [[0, 0], [0, 0]]).worst == 9


@given(one=st.integers(-5, 5), other=st.integers(-5, 5), released=st.integers(-7, 7))
def test_bell_shaped_noise_loses_by_squares(one: int, other: int, released: int) -> None:
    """What is seen is a log-ratio here too; `worst` is the divergence that rho bounds, d²/2v."""
    chances = gaussian_probabilities(3.5, 40)
    found = loss(GAUSSIAN, Fraction(7, 2), [one], [other], [released])
    assert float(found.seen) == pytest.approx(math.log(chances[released - one] / chances[released - other]), abs=1e-9)
    assert found.worst == Fraction((one - other) ** 2, 7)


@pytest.mark.parametrize("order", [1.5, 2.0, 8.0])
@pytest.mark.parametrize("apart", [1, 2, 5])
def test_bell_shaped_noise_diverges_by_no_more(apart: int, order: float) -> None:
    """The Rényi divergence of two discrete Gaussians, summed up, over its order is at most `worst`, and nearly that."""
    chances = gaussian_probabilities(3.5, 60)
    moment = math.fsum(
        math.exp(order * math.log(chances[x]) + (1 - order) * math.log(chances[x - apart])) for x in range(-50, 51)
    )
    found = float(loss(GAUSSIAN, Fraction(7, 2), [0], [apart], [0]).worst)
    assert 0.99 * found < math.log(moment) / (order - 1) / order <= found * (1 + 1e-9)


@given(utilities=UTILITIES)
def test_the_chances_of_permute_and_flip_are_those_of_all_orders(utilities: list[int]) -> None:
    """An integral of polynomials gives what going through every order of the candidates gives."""
    found = [float(chance) for chance in flip_chances(utilities, RATE)]
    wanted = permute_and_flip_probabilities(utilities, float(RATE))
    assert found == pytest.approx(list(wanted.values()), rel=1e-12)


@given(one=UTILITIES, seed=st.integers(0, 99))
@pytest.mark.parametrize("mechanism", [EXPONENTIAL, FLIP])
def test_a_choice_loses_the_log_ratio_of_its_chances(mechanism: str, one: list[int], seed: int) -> None:
    """Of every candidate, under both mechanisms; the largest of them is the worst, and differences below SLACK."""
    generator = np.random.default_rng(seed)
    other = [utility + int(generator.integers(-2, 3)) for utility in one]
    of = exponential_probabilities if mechanism == EXPONENTIAL else permute_and_flip_probabilities
    wanted = [math.log(of(one, float(RATE))[k] / of(other, float(RATE))[k]) for k in range(len(one))]
    found = [loss(mechanism, RATE, [one], [other], [k]) for k in range(len(one))]
    assert [float(each.seen) for each in found] == pytest.approx(wanted, abs=1e-9)
    assert {each.worst for each in found} == {max(abs(each.seen) for each in found)}


@given(one=UTILITIES, seed=st.integers(0, 99))
def test_weights_are_part_of_a_choice(one: list[int], seed: int) -> None:
    """Candidates of weight 0 cannot be chosen and lose nothing; the others lose what the formula says."""
    generator = np.random.default_rng(seed)
    other = [utility + int(generator.integers(-2, 3)) for utility in one]
    weights = [1, *generator.integers(0, 4, len(one) - 1).tolist()]
    chances = [exponential_probabilities(each, float(RATE), weights) for each in (one, other)]
    wanted = [math.log(chances[0][k] / chances[1][k]) for k, weight in enumerate(weights) if weight]
    found = loss(EXPONENTIAL, RATE, [one], [other], [0], weights=[weights])
    assert float(found.worst) == pytest.approx(max(map(abs, wanted)), abs=1e-9)


def test_a_choice_with_a_delta_loses_by_the_range_of_its_ratios() -> None:
    """Utilities that moved by +1 and −1 have a range of 2 rates: 4 rates² / 8, an exact fraction."""
    found = loss(EXPONENTIAL, RATE, [[3, 4, 5]], [[4, 3, 5]], [0], approximate=True)
    assert abs(found.worst - (2 * RATE) ** 2 / 8) < SLACK


def test_a_shift_of_all_candidates_loses_nothing() -> None:
    """Only gaps matter: with all utilities one higher each candidate has the same chance, to 50 digits."""
    for mechanism in (EXPONENTIAL, FLIP):
        assert abs(loss(mechanism, RATE, [[3, 4, 9]], [[4, 5, 10]], [1]).worst) < SLACK


def test_a_choice_of_huge_gaps_is_worked_out() -> None:
    """A gap of a million rates neither overflows nor vanishes: one more costs one rate, less what the rest takes."""
    found = loss(EXPONENTIAL, RATE, [[0, 10**6]], [[1, 10**6]], [1])
    assert abs(found.worst - RATE) < SLACK


def test_other_parameters_are_other_noise() -> None:
    """A scale, a rate or a base measure that differs between the tables is told."""
    plain = release(EXPONENTIAL, RATE, [[1, 2]], [0], [[1, 1]])
    assert same_noise(plain, release(EXPONENTIAL, RATE, [[5, 2]], [0], [[1, 1]]))
    assert not same_noise(plain, release(EXPONENTIAL, RATE * 2, [[1, 2]], [0], [[1, 1]]))
    assert not same_noise(plain, release(EXPONENTIAL, RATE, [[1, 2]], [0], [[1, 2]]))
    assert not same_noise(plain, release(EXPONENTIAL, RATE, [[1, 2]], [0]))
