"""Converts between zero-concentrated privacy (rho) and approximate privacy (epsilon, delta), rounded to the safe side.

A mechanism is rho-zero-concentrated differentially private (rho-zCDP) when, between neighbours, its Rényi divergence of
every order a > 1 is at most a * rho (Bun and Steinke, TCC 2016). Under composition rho adds up, also when later
mechanisms depend on earlier answers.

Proof:
    Theorem: Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020, section 2.3:
    a mechanism whose divergence of order a > 1 is at most d is (epsilon, delta)-differentially private for
    delta = exp((a - 1) * (d - epsilon)) / (a - 1) * (1 - 1/a)**a. It holds for every single order, so with d = a * rho
    each order, solved for rho or for epsilon, gives a sound answer; the best order gives the largest rho, or the
    smallest epsilon. The logarithm of delta is convex in a (its derivative (2a - 1) * rho - epsilon + log(1 - 1/a)
    grows), so the orders that are good enough form an interval, and a search that narrows an interval finds the best.
    Rounding: floating point only proposes the order. The answer is worked out with 60 decimal digits (`ln` of `decimal`
    is correctly rounded); all terms are below 10**14, which leaves an error below 10**-40. `_SAFE` is subtracted from
    rho, or added to epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction

#: How many decimal digits answers are worked out with.
_DIGITS = Context(prec=60)
#: What is subtracted from rho, or added to epsilon: far more than the error of the arithmetic.
_SAFE = Decimal("1e-30")
#: The interval in which log(a - 1) of the best order a is searched.
_ORDERS = (-25.0, 45.0)
#: How often that interval is narrowed.
_CUTS = 100
#: The share of the interval that each step of a golden-section search leaves.
_GOLDEN = (math.sqrt(5) - 1) / 2


def largest_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest rho for which rho-zCDP implies (epsilon, delta), rounded down; 0 where there is none.

    >>> float(largest_rho(Fraction(1), Fraction(1, 10**6)))  # doctest: +ELLIPSIS
    0.0243...
    """
    about_epsilon = float(epsilon)
    log_delta = math.log(delta)

    def rho_of_order(log_less: float) -> float:
        return (about_epsilon + _gain(log_less, log_delta)) / (1 + math.exp(log_less))

    less = Decimal(math.exp(_argument_of_largest(rho_of_order)))
    with localcontext(_DIGITS):
        rho = (_decimal(epsilon) + _exact_gain(less, delta)) / (1 + less) - _SAFE
        return max(Fraction(0), Fraction(rho))


def smallest_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """Return the smallest epsilon for which rho-zCDP implies (epsilon, delta), rounded up.

    >>> float(smallest_epsilon(Fraction(1, 50), Fraction(1, 10**6)))  # doctest: +ELLIPSIS
    0.89...
    """
    if rho == 0:
        return Fraction(0)
    about_rho = float(rho)
    log_delta = math.log(delta)

    def minus_epsilon_of_order(log_less: float) -> float:
        return _gain(log_less, log_delta) - (1 + math.exp(log_less)) * about_rho

    less = Decimal(math.exp(_argument_of_largest(minus_epsilon_of_order)))
    with localcontext(_DIGITS):
        epsilon = (1 + less) * _decimal(rho) - _exact_gain(less, delta) + _SAFE
        return max(Fraction(0), Fraction(epsilon))


def _gain(log_less: float, log_delta: float) -> float:
    """Return a * rho - epsilon at order a = 1 + less, from the theorem solved for it, in floating point.

    With x = less = a - 1 it is (log(delta) + log(x) + a * log(1 + 1/x)) / x.
    """
    less = math.exp(log_less)
    return (log_delta + log_less + (1 + less) * math.log1p(1 / less)) / less


def _exact_gain(less: Decimal, delta: Fraction) -> Decimal:
    """Return the same number, right to 40 digits or more."""
    order = 1 + less
    return (_decimal(delta).ln() + less.ln() - order * (less / order).ln()) / less


def _argument_of_largest(function: Callable[[float], float]) -> float:
    """Return where in `_ORDERS` a function that rises and then falls is largest, by golden-section search."""
    low, high = _ORDERS
    for _ in range(_CUTS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if function(left) < function(right):
            low = left
        else:
            high = right
    return (low + high) / 2


def _decimal(number: Fraction) -> Decimal:
    """Return a fraction as a decimal, rounded to the digits of the context."""
    return Decimal(number.numerator) / Decimal(number.denominator)
