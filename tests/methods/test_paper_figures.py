"""Figures that Fletcher & Islam print, 2017 and 2021, against `kernel/published.py` and `mechanisms/choose.py`.

The paper cuts figures off instead of rounding them (0.90483 for 0.904837), so the tolerance is one unit of the last
digit printed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from dpsql.kernel.published import label_chances, smooth_sensitivity
from dpsql.mechanisms.choose import exponential, permute_and_flip
from tests.mechanisms.oracles import fits, seeded

#: Table 2: lead j, then the smooth sensitivity at epsilon 0.01, 0.1 and 1, each with its last digit's unit.
TABLE_2 = {
    0: ((1.00000, 1e-5), (1.00000, 1e-5), (1.00000, 1e-5)),
    1: ((0.99004, 1e-5), (0.90483, 1e-5), (0.36788, 1e-5)),
    5: ((0.95122, 1e-5), (0.60653, 1e-5), (0.00674, 1e-5)),
    10: ((0.90483, 1e-5), (0.36788, 1e-5), (0.00005, 1e-5)),
    50: ((0.60653, 1e-5), (0.00674, 1e-5), (1.93e-22, 1e-24)),
    100: ((0.36788, 1e-5), (0.00005, 1e-5), (3.72e-44, 1e-46)),
    500: ((0.00674, 1e-5), (1.93e-22, 1e-24), (7.12e-218, 1e-220)),
}
TABLE_2_CELLS = [
    (lead, epsilon, *printed)
    for lead, row in TABLE_2.items()
    for epsilon, printed in zip((0.01, 0.1, 1.0), row, strict=True)
]
#: Addendum, Table 6 (epsilon 0.1): counts of A and B, "Original Pr(B)" and "New Pr(B)" in percent.
TABLE_6 = [
    (5, 10, 52.1, 62.2),
    (105, 110, 52.1, 62.2),
    (0, 1, 51.4, 52.5),
    (0, 10, 53.4, 73.1),
    (10, 50, 93.8, 98.2),
    (10, 60, 99.9, 99.3),
]
PAIRS = [(first, second) for first, second, _, _ in TABLE_6]
EPSILON = Fraction(1, 10)
DRAWS = 60_000
#: A pair where both labels are likely, so that an epsilon 30 % off can be told from the right one.
TELLING = (0, 10)


def softmax(first: int, second: int, epsilon: float) -> float:
    """Return the chance of B under the addendum's Table 5: in proportion to exp(epsilon × count)."""
    return 1 / (1 + math.exp(epsilon * (first - second)))


def flipped(first: int, second: int, epsilon: float) -> float:
    """Return the chance of B under permute-and-flip: A wins if its coin falls and it stands first, half the time."""
    return 1 - math.exp(epsilon * (first - second)) / 2


def drawn(mechanism: Callable[..., np.ndarray], pair: tuple[int, int], epsilon: Fraction, seed: int) -> np.ndarray:
    """Return many choices of a mechanism between two counts."""
    return mechanism(np.tile(pair, (DRAWS, 1)), epsilon, monotone=True, entropy=seeded(seed))


def published_chance(lead: int, epsilon: float) -> float:
    """Return how likely the published form names the larger of two classes, which leads by some rows."""
    return float(label_chances(np.array([[lead, 0]]), epsilon)[0, 0])


@pytest.mark.parametrize(("lead", "epsilon", "printed", "unit"), TABLE_2_CELLS)
def test_smooth_sensitivity_is_table_2(lead: int, epsilon: float, printed: float, unit: float) -> None:
    """All 21 smooth sensitivities of Table 2."""
    assert smooth_sensitivity(np.array([lead]), epsilon)[0] == pytest.approx(printed, abs=unit, rel=0)


@pytest.mark.parametrize(("first", "second", "original", "_new"), TABLE_6)
def test_published_chance_is_table_6_original(first: int, second: int, original: float, _new: float) -> None:
    """The published form names the larger class as often as the column "Original Pr(B)" says."""
    assert 100 * published_chance(second - first, 0.1) == pytest.approx(original, abs=0.1, rel=0)


@pytest.mark.parametrize(("first", "second", "_original", "new"), TABLE_6)
def test_softmax_is_table_6_new(first: int, second: int, _original: float, new: float) -> None:
    """The column "New Pr(B)" is the softmax of epsilon × count, not the one-sided noisy arg-max of the text."""
    assert 100 * softmax(first, second, 0.1) == pytest.approx(new, abs=0.1, rel=0)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_exponential_mechanism_draws_table_6_new(pair: tuple[int, int]) -> None:
    """The exponential mechanism with a monotone utility draws B as often as "New Pr(B)" says."""
    chance = softmax(*pair, 0.1)
    assert fits(drawn(exponential, pair, EPSILON, 1), {0: 1 - chance, 1: chance})


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_permute_and_flip_draws_its_formula(pair: tuple[int, int]) -> None:
    """Permute-and-flip draws B with probability 1 − exp(−epsilon × lead) / 2."""
    chance = flipped(*pair, 0.1)
    assert fits(drawn(permute_and_flip, pair, EPSILON, 2), {0: 1 - chance, 1: chance})


@pytest.mark.parametrize("wrong", [Fraction(13, 10), Fraction(10, 13)], ids=str)
@pytest.mark.parametrize(("mechanism", "formula"), [(exponential, softmax), (permute_and_flip, flipped)])
def test_the_draws_tell_a_wrong_epsilon(
    mechanism: Callable[..., np.ndarray], formula: Callable[[int, int, float], float], wrong: Fraction
) -> None:
    """The same comparison refuses an epsilon that is 30 % off."""
    chance = formula(*TELLING, 0.1)
    assert not fits(drawn(mechanism, TELLING, EPSILON * wrong, 3), {0: 1 - chance, 1: chance})


def test_the_draws_tell_the_two_mechanisms_apart() -> None:
    """Permute-and-flip draws are refused as draws of the exponential mechanism."""
    chance = softmax(*TELLING, 0.1)
    assert not fits(drawn(permute_and_flip, TELLING, EPSILON, 4), {0: 1 - chance, 1: chance})


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_permute_and_flip_errs_less_often(pair: tuple[int, int]) -> None:
    """On every pair of Table 6, permute-and-flip names the larger class more often than the softmax does."""
    assert flipped(*pair, 0.1) > softmax(*pair, 0.1)


@pytest.mark.parametrize(("lead", "loss"), [(1, 2.1), (2, 6.3), (3, 17.0)])
def test_published_loss_is_unbounded(lead: int, loss: float) -> None:
    """One row more for the leader costs 2.1, 6.3, 17 at leads 1, 2, 3 under a claimed epsilon of 1.

    The event is that the smaller class is named; the neighbours are a leaf whose lead is j and one whose lead is j + 1.
    """
    here, there = (1 - published_chance(j, 1.0) for j in (lead, lead + 1))
    assert math.log(here / there) == pytest.approx(loss, rel=0.02)


@pytest.mark.parametrize("lead", range(30))
def test_permute_and_flip_keeps_its_epsilon_at_every_lead(lead: int) -> None:
    """The same neighbours cost at most the claimed epsilon under what runs here."""
    here, there = (math.exp(-j) / 2 for j in (lead, lead + 1))
    losses = (math.log(here / there), math.log((1 - there) / (1 - here)))
    assert max(losses) <= 1 + 1e-12
