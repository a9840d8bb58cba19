"""Tests of dpsql/mechanisms/concentrated.py: from rho to (epsilon, delta) and back, beside two other libraries."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.mechanisms.concentrated import largest_rho, smallest_epsilon

CASES = pytest.mark.parametrize(
    ("epsilon", "delta"),
    [("0.01", "1e-6"), ("0.1", "1e-6"), ("1", "1e-6"), ("1", "1e-3"), ("1", "1e-12"), ("3", "1e-9"), ("20", "1e-5")],
)


def renyi_delta(rho: float, epsilon: float) -> float:
    """Return the smallest delta over a fine grid of orders, by the formula of the paper."""
    orders = (1 + math.exp(k / 200) for k in range(-3000, 4000))
    return math.exp(
        min((a - 1) * (a * rho - epsilon) - math.log(a - 1) + a * math.log1p(-1 / a) for a in orders if a < 1e12)
    )


@CASES
def test_the_conversion_is_that_of_opendp(epsilon: str, delta: str) -> None:
    """OpenDP says of Gaussian noise with the found rho that it gives the epsilon that was asked for."""
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    rho = largest_rho(Fraction(epsilon), Fraction(delta))
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    gaussian = dp.m.make_gaussian(*space, scale=1 / math.sqrt(2 * float(rho)))
    assert dp.c.make_zCDP_to_approxDP(gaussian).map(1).epsilon(delta=float(delta)) == pytest.approx(float(epsilon))


@CASES
def test_the_conversion_is_that_of_dp_accounting(epsilon: str, delta: str) -> None:
    """Google's accountant is never below the epsilon of the found rho, and comes close on its grid of orders."""
    rdp = pytest.importorskip("dp_accounting.rdp")
    accounting = pytest.importorskip("dp_accounting")
    rho = float(largest_rho(Fraction(epsilon), Fraction(delta)))
    orders = [1 + math.exp(k / 20) for k in range(-100, 240)]
    accountant = rdp.RdpAccountant(orders=orders)
    accountant.compose(accounting.GaussianDpEvent(1 / math.sqrt(2 * rho)))
    found = accountant.get_epsilon(float(delta))
    assert float(epsilon) * (1 - 1e-9) <= found <= float(epsilon) * 1.01


@CASES
def test_rho_is_the_largest_that_is_sound(epsilon: str, delta: str) -> None:
    """By the paper's formula the found rho keeps delta, and one a thousandth larger does not."""
    rho = float(largest_rho(Fraction(epsilon), Fraction(delta)))
    assert renyi_delta(rho, float(epsilon)) <= float(delta) * 1.001
    assert renyi_delta(rho * 1.001, float(epsilon)) > float(delta)


@settings(deadline=None, max_examples=100)
@given(st.integers(10**6, 10**12), st.integers(2, 60))
def test_both_ways_agree(nano_epsilon: int, digits: int) -> None:
    """The epsilon of the found rho is the one that was asked for."""
    epsilon, delta = Fraction(nano_epsilon, 10**9), Fraction(1, 10**digits)
    rho = largest_rho(epsilon, delta)
    assert rho > 0
    assert float(smallest_epsilon(rho, delta)) == pytest.approx(float(epsilon), rel=1e-9)


@settings(deadline=None, max_examples=50)
@given(st.fractions(Fraction(1, 100), 100), st.fractions(Fraction(1, 100), 100))
def test_two_runs_lose_less_than_the_sum_of_their_epsilons(first: Fraction, second: Fraction) -> None:
    """Adding up rho and converting once is no worse than adding up epsilons, where these are far above delta."""
    delta = Fraction(1, 10**6)
    together = smallest_epsilon(largest_rho(first, delta) + largest_rho(second, delta), delta)
    assert max(first, second) < together <= (first + second) * (1 + Fraction(1, 10**9))


def test_no_rho_is_no_loss() -> None:
    """Nothing spent is epsilon 0."""
    assert smallest_epsilon(Fraction(0), Fraction(1, 10**6)) == 0
