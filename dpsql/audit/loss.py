"""The exact privacy loss of one release between two tables: how the chances of what came out differ.

Let p(x) and q(x) be the chances of an outcome x on the two tables, given the releases before it. Every release has two
figures. `seen` is log p(x)/q(x) for the outcome x that came out. `worst` is the largest |log p(x)/q(x)| over all
outcomes x of the release. A promise of pure epsilon bounds the sum of the worst losses, so these are compared with it,
and chance has no influence on the verdict. Losses of counts are exact fractions. Losses of choices contain logarithms:
they are computed to `DIGITS` digits, and their error is at most `SLACK`.

For (epsilon, delta) no log-ratio is bounded. There `worst` is the quantity that rho bounds. For counts it is the Rényi
divergence of two discrete Gaussians of the same variance v, divided by its order: at most d²/2v for counts that differ
by d (Canonne et al. 2020, Proposition 5). For a choice it is r²/8, where r is the range of the log-ratios over all
outcomes (Cesar & Rogers 2021).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction

import numpy as np

from dpsql.audit.record import FLIP, GAUSSIAN, LAPLACE, Numbers, RecordedRelease, RecordedSelection

#: Decimal digits of everything that holds an exponential or a logarithm.
DIGITS = 80
#: How far such a loss can be off: exponents have fewer than 20 digits before the point, so 80 leave 60 behind it.
SLACK = Fraction(1, 10**50)


@dataclass(frozen=True)
class Loss:
    """What one release loses between two tables: at worst, and for the outcome that was seen."""

    worst: Fraction = Fraction(0)
    seen: Fraction = Fraction(0)

    def __add__(self, other: Loss) -> Loss:
        return Loss(self.worst + other.worst, self.seen + other.seen)


def release_loss(first: RecordedRelease, second: RecordedRelease, *, approximate: bool) -> Loss:
    """Return the loss of one outcome that both releases have; both must have one shape and one parameter."""
    if first.mechanism in (LAPLACE, GAUSSIAN):
        return _count_loss(first, second)
    moved = np.flatnonzero((first.exact != second.exact).any(axis=1))
    each = (_choice_loss(first, second, int(row), approximate=approximate) for row in moved)
    return sum(each, Loss())


def selection_loss(first: RecordedSelection, second: RecordedSelection) -> Loss:
    """Return the loss of a selection on the groups that both tables have: that of Gaussian noise on their counts.

    What is released of them is post-processing of these noisy counts. Groups of one table alone are the matter of
    `selection_delta`.
    """
    pairs = [(count, second.exact[key]) for key, count in first.exact.items() if key in second.exact]
    return Loss(sum(((n - m) ** 2 for n, m in pairs), 0) / (2 * first.variance), Fraction(0))


def selection_delta(first: RecordedSelection, second: RecordedSelection) -> Decimal:
    """Return a bound on the probability that a group of one table alone comes out of a selection.

    Discrete Gaussian noise of variance v reaches d > 0 with probability at most exp(−d²/2v) (see `noise.least_common`).
    """
    total = Decimal(0)
    for own, other in ((first, second), (second, first)):
        for key, count in own.exact.items():
            if key not in other.exact:
                distance = max(0, own.least - count)
                with localcontext(_precise()):
                    total += _exp(Fraction(-(distance**2)) / (2 * own.variance))
    return total


def _count_loss(first: RecordedRelease, second: RecordedRelease) -> Loss:
    """Return the loss of counts with noise; a count that is the same on both tables loses nothing."""
    moved = first.exact != second.exact
    released, first_exact, second_exact = (
        numbers[moved].tolist() for numbers in (first.released, first.exact, second.exact)
    )
    if first.mechanism == LAPLACE:
        worst = sum(abs(n - m) for n, m in zip(first_exact, second_exact, strict=True))
        seen = sum(abs(x - m) - abs(x - n) for x, n, m in zip(released, first_exact, second_exact, strict=True))
        return Loss(worst / first.parameter, seen / first.parameter)
    worst = sum((n - m) ** 2 for n, m in zip(first_exact, second_exact, strict=True))
    seen = sum((x - m) ** 2 - (x - n) ** 2 for x, n, m in zip(released, first_exact, second_exact, strict=True))
    return Loss(worst / (2 * first.parameter), seen / (2 * first.parameter))


def _choice_loss(first: RecordedRelease, second: RecordedRelease, row: int, *, approximate: bool) -> Loss:
    """Return the loss of one choice among the candidates of a row."""
    weights = [1] * first.exact.shape[1] if first.weights is None else first.weights[row].tolist()
    ratios = _flip_ratios if first.mechanism == FLIP else _exponential_ratios
    log_ratios = ratios(first.exact[row].tolist(), second.exact[row].tolist(), weights, first.parameter)
    seen = log_ratios[int(first.released[row])]
    possible = [ratio for ratio, weight in zip(log_ratios, weights, strict=True) if weight]
    if approximate:
        return Loss((max(possible) - min(possible)) ** 2 / 8, seen)
    return Loss(max(map(abs, possible)), seen)


def _exponential_ratios(first: list[int], second: list[int], weights: list[int], rate: Fraction) -> list[Fraction]:
    """Return the log-ratio of each candidate's chances under the exponential mechanism."""
    shift = _log_sum(first, weights, rate) - _log_sum(second, weights, rate)
    return [rate * (n - m) - shift for n, m in zip(first, second, strict=True)]


def _log_sum(utilities: Sequence[int], weights: Sequence[int], rate: Fraction) -> Fraction:
    """Return log Σ weight · exp(rate · utility)."""
    masses: Counter[int] = Counter()
    for utility, weight in zip(utilities, weights, strict=True):
        masses[utility] += weight
    best = max(utility for utility, mass in masses.items() if mass)
    with localcontext(_precise()):
        total = sum((mass * _exp(rate * (utility - best)) for utility, mass in masses.items() if mass), Decimal(0))
        return rate * best + Fraction(total.ln())


def _flip_ratios(first: list[int], second: list[int], weights: list[int], rate: Fraction) -> list[Fraction]:
    """Return the log-ratio of each candidate's chances under permute-and-flip, which knows no weights."""
    with localcontext(_precise()):
        pairs = zip(flip_chances(first, rate), flip_chances(second, rate), strict=True)
        return [Fraction(p.ln() - q.ln()) for p, q in pairs]


def flip_chances(utilities: Sequence[int], rate: Fraction) -> list[Decimal]:
    """Return the chance of each candidate under permute-and-flip, to `DIGITS` digits.

    Each candidate comes up heads with chance h = exp(−rate · gap), where its gap is the best utility minus its own; one
    of the heads is taken, each with the same chance. So candidate i has the chance
    h_i · E[1 / (1 + other heads)] = h_i · ∫ Π (1 − h_j + h_j·t) dt over t from 0 to 1, the product over all j ≠ i.

    >>> [round(float(chance), 4) for chance in flip_chances([0, 0], Fraction(1))]
    [0.5, 0.5]
    """
    best = max(utilities)
    with localcontext(_precise()):
        heads = [_exp(rate * (utility - best)) for utility in utilities]
        return [head * _mean_share(heads[:place] + heads[place + 1 :]) for place, head in enumerate(heads)]


def _mean_share(heads: Sequence[Decimal]) -> Decimal:
    """Return E[1 / (1 + number of heads)] of independent coins."""
    chances = [Decimal(1)]
    for head in heads:
        stay = [chance * (1 - head) for chance in chances]
        rise = [chance * head for chance in chances]
        chances = [a + b for a, b in zip([*stay, Decimal(0)], [Decimal(0), *rise], strict=True)]
    return sum((chance / (count + 1) for count, chance in enumerate(chances)), Decimal(0))


def _exp(exponent: Fraction) -> Decimal:
    return (Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp()


def _precise() -> Context:
    return Context(prec=DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN)


def same_noise(first: RecordedRelease, second: RecordedRelease) -> bool:
    """Whether two releases have the same parameters of noise. They must: parameters do not depend on private rows."""
    return first.parameter == second.parameter and _same_numbers(first.weights, second.weights)


def _same_numbers(first: Numbers | None, second: Numbers | None) -> bool:
    if first is None or second is None:
        return first is second
    return np.array_equal(first, second)
