"""Says which noise a step gets, and how much: discrete Laplace for pure epsilon, discrete Gaussian for rho.

Pure epsilon is explained in `kernel/session.py`. This is what holds when a run is asked for (epsilon, delta):

Proof (approximate privacy):
    Claim: a run of a plan is (epsilon, delta)-differentially private for its unit: neighbours differ in one unit, that
    is in at most c rows (`Unit.change`).

    1. The plan gets the largest rho for which rho-zCDP implies (epsilon, delta), in whole nano-rho, rounded down
       (`mechanisms/concentrated.py`). A step of f epsilon gets rho · f/epsilon. Sums over sequential parts and
       maxima over disjoint parts keep their proportions, so all steps together are rho-zCDP: rho adds up under adaptive
       composition (Bun & Steinke 2016, Lemma 2.3), and a unit is in one of several disjoint parts. Uses of one step
       may take parts as large as earlier answers make them, as long as these add up to no more than was declared
       (Feldman & Zrnic 2021: a filter on sums of Rényi losses, here at every order at once; Whitehouse, Ramdas,
       Rogers & Wu 2023).
    2. Counts. A row moves the values of one tree on one axis by at most w together (`row_weight`; for counts 1), and it
       is counted in K = trees · axes of them (trees is 1 where they are disjoint). So c rows move the values of one of
       the K by a vector of length at most c·w, and all values together by one of length at most c·w·√K. (Rows that
       are all counted in the same cells reach it.) Discrete Gaussian noise of variance c²·w²·K/(2 rho) on every value
       is then rho-zCDP (`mechanisms/gaussian.py`). Pure epsilon pays for c·w·K: this root is what is gained.
    3. Choices. The exponential mechanism at row epsilon e has bounded range d·e for d rows at a node: between
       neighbours, the log-ratios of any two outcomes' chances differ by at most d·e, as each row moves the utilities
       within an interval of width w at rate e/w (`kernel/utility.py`) and the normaliser cancels. That is (d·e)²/8-zCDP
       (Cesar & Rogers 2021; Dong, Durfee & Rogers 2020 for the exponential mechanism). A unit has d₁ + d₂ + …
       ≤ c rows at the nodes of one tree, and d₁² + d₂² + … ≤ c², so K trees cost K·c²·e²/8 at most: e = √(8 rho/K)/c.
       Labels of leaves are chosen so too: for counts, which only grow, w is 1. (Permute-and-flip has no bound better
       than e²/2 that we know of, and at half the e it does worse.)

    Variances are rounded up and row epsilons down, to fractions of few digits, so that sampling is fast.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.mechanisms.choose import exponential, permute_and_flip
from dpsql.mechanisms.concentrated import largest_rho
from dpsql.mechanisms.gaussian import discrete_gaussian
from dpsql.mechanisms.laplace import discrete_laplace
from dpsql.schema import Approximate, Unit

if TYPE_CHECKING:
    from dpsql.kernel.plan import Step

NANO = 10**9
#: Operations that choose. All others add noise to counts.
CHOICES = ("leaf_labels", "choose", "pick")
#: How many binary digits rounded variances and row epsilons keep.
_DIGITS = 24


def approximate(nano_epsilon: int, delta: Decimal) -> Approximate:
    """Return what (epsilon, delta) allows a run to spend: the largest rho, in whole nano-rho, rounded down.

    >>> approximate(10**9, Decimal("1e-6")).nano_rho
    24355970
    """
    nano_rho = math.floor(NANO * largest_rho(Fraction(nano_epsilon, NANO), Fraction(delta)))
    if nano_rho < 1:
        raise ParameterError("epsilon", allowed=f"larger for so small a delta ({delta})", given=nano_epsilon / NANO)
    return Approximate(nano_epsilon, delta, nano_rho)


def rho(step: Step, unit: Unit) -> Fraction:
    """Return the step's part of the plan's rho; 0 where epsilon itself is paid."""
    return Fraction(0) if unit.approximate is None else step.epsilon * unit.approximate.rate


def variance(step: Step, unit: Unit) -> Fraction:
    """Return the variance of discrete Gaussian noise on each count of a step, rounded up."""
    exact = Fraction(_reach(step, unit) ** 2 * _counted(step)) / (2 * rho(step, unit))
    if exact >= 1 << _DIGITS:  # a whole deviation keeps the sampler's fractions small
        return Fraction((math.isqrt(math.ceil(exact) - 1) + 1) ** 2)
    places = 1 << (_DIGITS - _length(exact))
    return Fraction(math.ceil(exact * places), places)


def row_epsilon(step: Step, unit: Unit) -> Fraction:
    """Return at which epsilon a choice may be made for each row, so that a whole unit costs the step's part.

    Under approximate privacy it is right for the exponential mechanism alone: choose by `largest`, or by `exponential`.
    """
    if unit.approximate is None:
        return step.epsilon / step.sensitivity(unit)
    square = 8 * rho(step, unit) / (_reach(step, unit) ** 2 * _counted(step))
    places = 1 << max(0, _DIGITS - _length(square) // 2)
    return Fraction(math.isqrt(math.floor(square * places**2)), places)


def scale(step: Step, unit: Unit) -> Fraction:
    """Return a step's noise scale: of a choice 1 over its row epsilon, of a count that of discrete Laplace noise.

    Gaussian noise is told by the Laplace noise of the same standard deviation, √2 times the scale, about.
    """
    if step.free or step.operation == "later":
        return Fraction(0)
    if unit.approximate is None:
        return Fraction(step.sensitivity(unit)) / step.epsilon
    if step.operation in CHOICES:
        return 1 / row_epsilon(step, unit)
    half = variance(step, unit) / 2
    places = 1 << max(0, _DIGITS - _length(half) // 2)
    return Fraction(math.isqrt(math.floor(half * places**2)) + 1, places)


def name(step: Step, unit: Unit) -> str:
    """Return what the noise of a step is called."""
    if step.free or step.operation == "later":
        return "none"
    if step.operation in CHOICES:
        flips = unit.approximate is None and step.operation == "leaf_labels"
        return "permute-and-flip" if flips else "exponential mechanism"
    return "discrete Laplace" if unit.approximate is None else "discrete Gaussian"


def noisy(counts: NDArray[np.int64], step: Step, unit: Unit) -> NDArray[np.int64]:
    """Return counts with the step's noise on each of them."""
    if unit.approximate is None:
        noise = discrete_laplace(scale(step, unit), counts.size)
    else:
        noise = discrete_gaussian(variance(step, unit), counts.size)
    return counts + noise.reshape(counts.shape)


def largest(counts: NDArray[np.integer[Any]], step: Step, unit: Unit) -> NDArray[np.int64]:
    """Return a column for each row of counts, likely one of the largest; rows may only raise counts, by 1 each."""
    if unit.approximate is None:
        return permute_and_flip(counts, row_epsilon(step, unit), monotone=True)
    return exponential(counts, row_epsilon(step, unit), monotone=True)


def _reach(step: Step, unit: Unit) -> int:
    """Return what one unit can add to the values of one tree on one axis."""
    return unit.change * step.row_weight


def _counted(step: Step) -> int:
    """Return on how many axes, in all trees, a row is counted."""
    return (step.trees if step.shared else 1) * step.axes


def _length(number: Fraction) -> int:
    """Return about how many binary digits stand before the point; below 0 for zeros behind it."""
    return number.numerator.bit_length() - number.denominator.bit_length()
