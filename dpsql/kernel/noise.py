"""Works out which noise a step gets, and how much: discrete Laplace for epsilon, discrete Gaussian for rho.

The proofs for a run that pays epsilon are in `kernel/operations.py`. The following proof is for a run that promises
(epsilon, delta), and pays rho:

Proof (approximate privacy):
    Claim: a run of a plan is (epsilon, delta)-differentially private for its unit. Neighbours differ in one unit, that
    is in at most c rows (`Promise.change`).

    1. Composition. The plan gets the largest rho for which rho-zCDP implies (epsilon, delta), in whole nano-rho,
       rounded down (`mechanisms/concentrated.py`). A step with epsilon f gets rho · f/epsilon.
       Sums over sequential parts and maxima over disjoint parts keep these proportions, so all steps together are
       rho-zCDP: rho adds up under adaptive composition (Bun & Steinke 2016, Lemma 2.3), and a unit is in only one of
       several disjoint parts. The uses of one step may take amounts that depend on earlier answers, as long as these
       amounts add up to no more than was declared (Feldman & Zrnic 2021: a filter on sums of Rényi losses, here at
       every order at once; Whitehouse, Ramdas, Rogers & Wu 2023).
    2. Counts. A histogram here is what one tree has on one axis. A row changes the values of one histogram by at most
       w in total (`row_weight`; w = 1 for counts), and it is counted in K = trees · axes histograms (with trees = 1
       where trees are disjoint). So c rows change one histogram by a vector of Euclidean length at most c·w, and all
       K together by a vector of length at most c·w·√K. (Rows that are all counted in the same cells reach this bound.)
       Discrete Gaussian noise of variance c²·w²·K/(2 rho) on every value is then rho-zCDP (`mechanisms/gaussian.py`).
       Pure epsilon pays for c·w·K; the square root of K is what a delta gains.
    3. Choices. The exponential mechanism at row epsilon e has bounded range d·e where neighbours differ in d rows at a
       node: the log-ratios of any two outcomes' probabilities differ between neighbours by at most d·e, because each
       row moves the utilities within an interval of width w at rate e/w (`kernel/utility.py`), and the normaliser
       cancels. Bounded range d·e implies (d·e)²/8-zCDP (Cesar & Rogers 2021; Dong, Durfee & Rogers 2020 for the
       exponential mechanism). A unit has d₁, d₂, … rows at the nodes of one tree, with d₁ + d₂ + … ≤ c and therefore
       d₁² + d₂² + … ≤ c². So K trees cost at most K·c²·e²/8, which is rho for e = √(8 rho/K)/c. The labels of leaves
       are chosen in the same way: counts only grow when a row is added, so w = 1. (For permute-and-flip we know of no
       bound better than e²/2-zCDP. It would have to run at half the e, where it does worse.)

    Variances are rounded up, and row epsilons are rounded down, to fractions of few digits, so that sampling is fast.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.kernel.operations import NO_NOISE
from dpsql.kernel.promise import Approximate, Promise
from dpsql.mechanisms.choose import exponential, permute_and_flip
from dpsql.mechanisms.concentrated import largest_rho
from dpsql.mechanisms.gaussian import discrete_gaussian
from dpsql.mechanisms.laplace import discrete_laplace

if TYPE_CHECKING:
    from dpsql.kernel.plan import Step

#: How many nano-epsilon are an epsilon, and how many nano-rho are a rho.
NANO = 10**9
#: How many binary digits a rounded variance or row epsilon has: few enough for fast sampling.
_DIGITS = 24
_Key = TypeVar("_Key")


def approximate(nano_epsilon: int, delta: Decimal, selection_delta: Decimal = Decimal(0)) -> Approximate:
    """Return what (epsilon, delta) allows a run to spend: the largest rho, in whole nano-rho, rounded down.

    `selection_delta` is the part of delta that is set aside for the selection of common values.

    >>> approximate(10**9, Decimal("1e-6")).nano_rho
    24355970
    """
    if not 0 <= selection_delta < delta:
        raise ParameterError("selection_delta", allowed="from 0 to less than delta", given=selection_delta)
    left = Fraction(delta) - Fraction(selection_delta)
    nano_rho = math.floor(NANO * largest_rho(Fraction(nano_epsilon, NANO), left))
    if nano_rho < 1:
        raise ParameterError("epsilon", allowed=f"larger for so small a delta ({delta})", given=nano_epsilon / NANO)
    return Approximate(nano_epsilon, delta, nano_rho, selection_delta)


def least_common(step: Step, promise: Promise) -> int:
    """Return the noisy count T from which a value is released: 2c + √(2·variance·ln(K·c/selection_delta)), rounded up.

    The noise on one count exceeds T − 2c with probability at most selection_delta/(K·c), because discrete Gaussian
    noise X has E[exp(tX)] ≤ exp(t²·variance/2) (Canonne, Kamath & Steinke 2020, Lemma 7; then Markov's inequality for
    the best t). Proof of what follows from this: `operations.CommonValues`.
    """
    allowed = promise.approximate
    if allowed is None or not allowed.selection_delta:
        raise ParameterError("delta", allowed="given: a selection of values needs a part of it", given=None)
    units_values = _times_counted(step) * promise.change
    # Rounded up twice: 30 digits are far more than the error of `ln`, and the root is that of a larger whole number.
    # The digits are counted here: a method could have set others for the whole process.
    precise = Context(prec=30)
    ratio = precise.divide(Decimal(units_values), allowed.selection_delta)
    logarithm = precise.add(precise.ln(ratio), Decimal("1e-20"))
    return 2 * promise.change + math.isqrt(math.ceil(2 * variance(step, promise) * Fraction(logarithm))) + 1


def rho(step: Step, promise: Promise) -> Fraction:
    """Return the step's part of the plan's rho; 0 where epsilon itself is paid."""
    return Fraction(0) if promise.approximate is None else step.epsilon * promise.approximate.rate


def variance(step: Step, promise: Promise) -> Fraction:
    """Return the variance of discrete Gaussian noise on each count of a step, rounded up."""
    exact = Fraction(_unit_change(step, promise) ** 2 * _times_counted(step)) / (2 * rho(step, promise))
    if exact >= 1 << _DIGITS:
        # The square of a whole number: the sampler's fractions stay small where the standard deviation is an integer.
        return Fraction((math.isqrt(math.ceil(exact) - 1) + 1) ** 2)
    places = 1 << (_DIGITS - _integer_digits(exact))
    return Fraction(math.ceil(exact * places), places)


def row_epsilon(step: Step, promise: Promise) -> Fraction:
    """Return the epsilon that a choice may spend per row, so that a unit of c rows spends at most what the step has.

    Where rho is paid, the proof covers the exponential mechanism alone: call `choose_largest`, or `exponential`.
    """
    if promise.approximate is None:
        return step.epsilon / step.sensitivity(promise)
    square = 8 * rho(step, promise) / (_unit_change(step, promise) ** 2 * _times_counted(step))
    places = 1 << max(0, _DIGITS - _integer_digits(square) // 2)
    return Fraction(math.isqrt(math.floor(square * places**2)), places)


def scale(step: Step, promise: Promise) -> Fraction:
    """Return the Laplace scale b of the noise on each count (standard deviation √2·b); for choices 1/row_epsilon.

    For Gaussian noise of standard deviation σ it is σ/√2, rounded up. It is 0 where no noise is added.
    """
    if step.operation.mechanism is NO_NOISE:
        return Fraction(0)
    if promise.approximate is None:
        return Fraction(step.sensitivity(promise)) / step.epsilon
    if step.operation.mechanism.chooses:
        return 1 / row_epsilon(step, promise)
    half = variance(step, promise) / 2
    places = 1 << max(0, _DIGITS - _integer_digits(half) // 2)
    return Fraction(math.isqrt(math.floor(half * places**2)) + 1, places)


def mechanism_name(step: Step, promise: Promise) -> str:
    """Return what the noise of a step is called."""
    mechanism = step.operation.mechanism
    return mechanism.pure if promise.approximate is None else mechanism.approximate


def add_noise(counts: NDArray[np.int64], step: Step, promise: Promise) -> NDArray[np.int64]:
    """Return counts with the step's noise on each of them."""
    if promise.approximate is None:
        noise = discrete_laplace(scale(step, promise), counts.size)
    else:
        noise = discrete_gaussian(variance(step, promise), counts.size)
    return counts + noise.reshape(counts.shape)


def select_common(groups: Mapping[_Key, int], step: Step, promise: Promise) -> dict[_Key, int]:
    """Return the groups whose noisy counts reach `least_common`, each with its noisy count.

    `groups` are the exact counts of the groups that more rows have than one unit can contribute. Proof:
    `operations.CommonValues`.
    """
    least = least_common(step, promise)
    noise = discrete_gaussian(variance(step, promise), len(groups)).tolist()
    noisy = {key: count + more for (key, count), more in zip(groups.items(), noise, strict=True)}
    return {key: count for key, count in noisy.items() if count >= least}


def choose_largest(counts: NDArray[np.integer[Any]], step: Step, promise: Promise) -> NDArray[np.int64]:
    """Return for each row of `counts` the number of one column, which is likely that of the largest count.

    A row that is added to the private table may raise each count by at most 1, and must lower none.
    """
    if promise.approximate is None:
        return permute_and_flip(counts, row_epsilon(step, promise), monotone=True)
    return exponential(counts, row_epsilon(step, promise), monotone=True)


def _unit_change(step: Step, promise: Promise) -> int:
    """Return c·w: the most by which one unit can change the values of one tree on one axis, in total."""
    return promise.change * step.row_weight


def _times_counted(step: Step) -> int:
    """Return K: in how many histograms, one for each axis of each tree, a row is counted."""
    return (step.trees if step.shared else 1) * step.axes


def _integer_digits(number: Fraction) -> int:
    """Return about the logarithm of a number to base 2: its binary digits before the point, or below 0 for none."""
    return number.numerator.bit_length() - number.denominator.bit_length()
