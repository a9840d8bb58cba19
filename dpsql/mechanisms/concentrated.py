"""Converts between zero-concentrated privacy (rho) and approximate privacy (epsilon, delta), rounded to the safe side.

A mechanism is rho-zero-concentrated differentially private (rho-zCDP) when, between neighbours, its Rényi divergence of
every order a > 1 is at most a * rho (Bun and Steinke, TCC 2016). Such losses add up exactly, adaptively too.

Proof:
    Theorem: Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020, section 2.3:
    a mechanism whose divergence of order a > 1 is at most d is (epsilon, delta)-differentially private for
    delta = exp((a - 1) * (d - epsilon)) / (a - 1) * (1 - 1/a)**a. It holds for every single order, so with d = a * rho
    each order, solved for rho or for epsilon, gives a sound answer; the best order gives the largest rho, or the
    smallest epsilon. The logarithm of delta is convex in a (its derivative (2a - 1) * rho - epsilon + log(1 - 1/a)
    grows), so the orders that are good enough are an interval, and a search that halves finds the best one.
    Rounding: floating point only proposes the order. The answer is worked out with 60 decimal digits (`ln` of `decimal`
    is correctly rounded); all terms are below 10**14, which leaves an error below 10**-40. `_SAFE` is taken off rho, or
    added to epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction

_DIGITS = Context(prec=60)
_SAFE = Decimal("1e-30")
#: Where log(a - 1) of the best order is searched, and how often the interval is cut.
_ORDERS = (-25.0, 45.0)
_CUTS = 100
_GOLDEN = (math.sqrt(5) - 1) / 2


def largest_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest rho for which rho-concentrated privacy implies (epsilon, delta), rounded down; 0 for none.

    >>> float(largest_rho(Fraction(1), Fraction(1, 10**6)))  # doctest: +ELLIPSIS
    0.0243...
    """
    wanted, log_delta = float(epsilon), math.log(delta)

    def found(log_less: float) -> float:
        return (wanted + _gain(log_less, log_delta)) / (1 + math.exp(log_less))

    less = Decimal(math.exp(_best(found)))
    with localcontext(_DIGITS):
        rho = (_decimal(epsilon) + _exact_gain(less, delta)) / (1 + less) - _SAFE
        return max(Fraction(0), Fraction(rho))


def smallest_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """Return the smallest epsilon for which rho-concentrated privacy implies (epsilon, delta), rounded up.

    >>> float(smallest_epsilon(Fraction(1, 50), Fraction(1, 10**6)))  # doctest: +ELLIPSIS
    0.89...
    """
    if rho == 0:
        return Fraction(0)
    given, log_delta = float(rho), math.log(delta)

    def found(log_less: float) -> float:
        return _gain(log_less, log_delta) - (1 + math.exp(log_less)) * given

    less = Decimal(math.exp(_best(found)))
    with localcontext(_DIGITS):
        epsilon = (1 + less) * _decimal(rho) - _exact_gain(less, delta) + _SAFE
        return max(Fraction(0), Fraction(epsilon))


def _gain(log_less: float, log_delta: float) -> float:
    """Return by how much a * rho may pass epsilon at order a = 1 + less, about: the rest of the theorem, solved."""
    less = math.exp(log_less)
    return (log_delta + log_less + (1 + less) * math.log1p(1 / less)) / less


def _exact_gain(less: Decimal, delta: Fraction) -> Decimal:
    """Return the same to 40 digits or more."""
    order = 1 + less
    return (_decimal(delta).ln() + less.ln() - order * (less / order).ln()) / less


def _best(found: Callable[[float], float]) -> float:
    """Return where a function that rises and then falls is largest, by golden sections."""
    low, high = _ORDERS
    for _ in range(_CUTS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if found(left) < found(right):
            low = left
        else:
            high = right
    return (low + high) / 2


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)
