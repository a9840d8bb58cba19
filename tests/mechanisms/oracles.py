"""Says what the samplers should do: exact probabilities, and a chi-square test that can fail."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations

import numpy as np

NORMAL_QUANTILE = 4.7534
"""A standard normal number is above this with probability 1e-6: the false-alarm rate of each test."""

FEWEST_EXPECTED = 25.0


def seeded(seed: int) -> Callable[[int], bytes]:
    """Return an entropy source that repeats itself, so that a test cannot be flaky."""
    return np.random.default_rng(seed).bytes


def scripted(*answers: bytes) -> Callable[[int], bytes]:
    """Return an entropy source that gives the listed bytes, call by call, and then fails."""
    remaining = iter(answers)

    def entropy(size: int) -> bytes:
        answer = next(remaining)
        assert len(answer) == size
        return answer

    return entropy


def critical_value(freedom: int) -> float:
    """Return the chi-square value passed with probability 1e-6 (Wilson and Hilferty)."""
    spread = 2 / (9 * freedom)
    return freedom * (1 - spread + NORMAL_QUANTILE * math.sqrt(spread)) ** 3


def fits(samples: np.ndarray, probabilities: Mapping[int, float]) -> bool:
    """Return whether samples agree with probabilities; outcomes not listed are pooled into one."""
    values, counts = np.unique(samples, return_counts=True)
    observed = dict(zip(values.tolist(), counts.tolist(), strict=True))
    cells = [(samples.size * chance, observed.pop(value, 0)) for value, chance in probabilities.items()]
    cells.append((samples.size * max(0.0, 1 - sum(probabilities.values())), sum(observed.values())))
    if any(expected < 1e-9 and seen for expected, seen in cells):
        return False
    return _statistic_passes(_pooled(sorted(cells)))


def _pooled(cells: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """Return the cells, smallest first, with rare ones put together."""
    pooled = [(0.0, 0)]
    for expected, seen in cells:
        if pooled[-1][0] < FEWEST_EXPECTED:
            pooled[-1] = (pooled[-1][0] + expected, pooled[-1][1] + seen)
        else:
            pooled.append((expected, seen))
    return pooled


def _statistic_passes(cells: list[tuple[float, int]]) -> bool:
    """Return whether the chi-square statistic is one that chance explains."""
    assert len(cells) > 1, "one cell cannot tell anything"
    statistic = sum((seen - expected) ** 2 / expected for expected, seen in cells)
    return statistic < critical_value(len(cells) - 1)


def agree(first: np.ndarray, second: np.ndarray) -> bool:
    """Return whether two samples of equal size come from one distribution (two-sample chi-square)."""
    assert first.size == second.size
    values = np.unique(np.concatenate([first, second]))
    pairs = [(int((first == value).sum()), int((second == value).sum())) for value in values]
    common = [pair for pair in pairs if sum(pair) >= FEWEST_EXPECTED]
    rare = [pair for pair in pairs if 0 < sum(pair) < FEWEST_EXPECTED]
    common.append((sum(a for a, _ in rare), sum(b for _, b in rare)))
    statistic = sum((a - b) ** 2 / (a + b) for a, b in common if a + b)
    return statistic < critical_value(len(common) - 1)


def laplace_probabilities(scale: float, reach: int) -> dict[int, float]:
    """Return the discrete Laplace probabilities of -reach, ..., reach."""
    ratio = math.exp(-1 / scale)
    return {x: (1 - ratio) / (1 + ratio) * ratio ** abs(x) for x in range(-reach, reach + 1)}


def gaussian_probabilities(variance: float, reach: int) -> dict[int, float]:
    """Return the discrete Gaussian probabilities of -reach, ..., reach."""
    masses = {x: math.exp(-x * x / (2 * variance)) for x in range(-1000, 1001)}
    return {x: masses[x] / sum(masses.values()) for x in range(-reach, reach + 1)}


def geometric_probabilities(scale: float, reach: int) -> dict[int, float]:
    """Return the one-sided geometric probabilities of 0, ..., reach."""
    ratio = math.exp(-1 / scale)
    return {x: (1 - ratio) * ratio**x for x in range(reach + 1)}


def permute_and_flip_probabilities(utilities: Sequence[int], rate: float) -> dict[int, float]:
    """Return the exact chance of each candidate, by going through all orders as published."""
    heads = [math.exp(-rate * (max(utilities) - utility)) for utility in utilities]
    chances = dict.fromkeys(range(len(utilities)), 0.0)
    orders = list(permutations(range(len(utilities))))
    for order in orders:
        all_tails = 1.0
        for candidate in order:
            chances[candidate] += all_tails * heads[candidate] / len(orders)
            all_tails *= 1 - heads[candidate]
    return chances


def exponential_probabilities(
    utilities: Sequence[int], rate: float, weights: Sequence[int] | None = None
) -> dict[int, float]:
    """Return the chance of each candidate by the formula of the exponential mechanism."""
    best = max(utilities)
    masses = [
        weight * math.exp(rate * (utility - best))
        for utility, weight in zip(utilities, weights or [1] * len(utilities), strict=True)
    ]
    return {candidate: mass / sum(masses) for candidate, mass in enumerate(masses)}
