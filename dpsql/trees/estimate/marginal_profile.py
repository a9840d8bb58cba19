"""What the noisy marginal of a feature says about the label: groups of bins, and each group's lift for each class.

A *marginal* is the table of a feature's bins by class. Only released (noisy) counts are read here. Neighbouring bins of
a number are merged until a group has more rows than noise; a group is then split again where the classes on its two
sides differ by more than noise and chance explain. The values of a category are first put in an order: along the
direction in which their class shares differ most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.trees.forest import Ints

Floats = NDArray[np.float64]
#: Rows are merged into about this many groups: a number's group has at least 1/GROUPS of all rows, and a category of
#: more than GROUPS values is merged to about GROUPS.
GROUPS = 12
#: The most groups that one feature may have.
MOST_GROUPS = 20
#: Standard deviations by which the chi-square between two sides must exceed its mean for a group to be split.
SPLIT_DEVIATIONS = 4.0


@dataclass(frozen=True, eq=False)
class Marginal:
    """The noisy counts of a feature's bins by class, and the standard deviation of the noise on each of them."""

    counts: Floats
    deviation: float
    ordered: bool


@dataclass(frozen=True, eq=False)
class MarginalProfile:
    """A feature (or one of its axes) as noisy counts show it. Groups are numbered in an order that has a meaning.

    `group` is the group of each bin. `counts` is groups × classes. `spread` is the standard deviation of the noise on
    each count of a group. `mass` is the share of rows in each group. `lifts` (groups × classes) is
    log P(class | group) / P(class), shrunk for noise. `information` is the mean of |lift| over groups and classes,
    weighted by `mass` and by the share of each class.
    """

    group: Ints
    counts: Floats
    spread: Floats
    mass: Floats
    lifts: Floats
    information: float

    @property
    def groups(self) -> int:
        """The number of groups."""
        return len(self.mass)

    @property
    def shares(self) -> Floats:
        """The share of each group among the rows of each class (groups × classes), as the lifts have it."""
        likely = np.maximum(self.mass[:, None] * np.exp(self.lifts), 1e-9)
        return np.asarray(likely / likely.sum(axis=0))


def class_totals(marginals: Sequence[Marginal]) -> Floats:
    """Return the estimated rows of each class.

    Each marginal sums to the same totals; the sum over b bins has noise variance b·deviation², so marginals are
    weighted by 1 / (b·deviation²).
    """
    weights = np.array([1 / (len(marginal.counts) * marginal.deviation**2) for marginal in marginals])
    totals = np.array([marginal.counts.sum(axis=0) for marginal in marginals])
    return np.asarray((weights[:, None] * totals).sum(axis=0) / weights.sum())


def totals_deviation(marginals: Sequence[Marginal]) -> float:
    """Return the standard deviation of the noise on the sum of `class_totals`: on the estimated number of all rows.

    The weighted mean of totals has variance 1 / Σ 1/(b·deviation²) for each class.
    """
    classes = marginals[0].counts.shape[1]
    weights = sum(1 / (len(marginal.counts) * marginal.deviation**2) for marginal in marginals)
    return float(np.sqrt(classes / weights))


def class_shares(totals: Floats) -> Floats:
    """Return the classes' shares of the rows, each at least a thousandth, even where noise made a total negative."""
    rows = max(1.0, float(totals.sum()))
    positive = np.maximum(totals, rows * 1e-3)
    return np.asarray(positive / positive.sum())


def marginal_profile(marginal: Marginal, totals: Floats) -> MarginalProfile:
    """Return the profile of a feature from its marginal and the rows of each class."""
    prior, rows = class_shares(totals), max(1.0, float(totals.sum()))
    parts = _number_groups(marginal, rows) if marginal.ordered else _category_groups(marginal, prior, rows)
    group = np.empty(len(marginal.counts), np.int64)
    for number, part in enumerate(parts):
        group[part] = number
    counts = np.array([marginal.counts[part].sum(axis=0) for part in parts])
    spread = marginal.deviation * np.sqrt([len(part) for part in parts])
    positive = np.maximum(counts.sum(axis=1), 0)
    mass = positive / max(float(positive.sum()), 1e-9)
    lifts_of_groups = class_lifts(counts, spread, prior)
    information = float((mass[:, None] * prior * np.abs(lifts_of_groups)).sum())
    return MarginalProfile(group, counts, spread, mass, lifts_of_groups, information)


def class_lifts(counts: Floats, spread: Floats, prior: Floats) -> Floats:
    """Return log P(class | group) / P(class) for each group and class, shrunk towards 0 by the noise.

    A group's class shares are first mixed with the prior, as if it had `lent` = C + spread·√C more rows of it (C
    classes). The log-ratio is then multiplied by d / (d + error²), where error² is the variance of the logarithm from
    noise and from sampling, and d = C/4 the variance that lifts are expected to have.
    """
    noise, classes = spread[:, None], len(prior)
    positive = np.maximum(counts, 0)
    rows, lent = positive.sum(axis=1, keepdims=True), classes + noise * math.sqrt(classes)
    raw = np.log((positive + lent * prior) / (rows + lent) / prior)
    expected = np.maximum(rows * prior, 1e-9)
    differ = classes / 4  # the variance that lifts are expected to have: the more classes, the larger
    damped = raw * differ / (differ + (noise / expected) ** 2 + 1 / np.maximum(expected, 1))
    return np.asarray(damped - (damped * prior).sum(axis=1, keepdims=True))


def _number_groups(marginal: Marginal, rows: float) -> list[Ints]:
    counts, classes = marginal.counts, marginal.counts.shape[1]
    noise = marginal.deviation * math.sqrt(classes)
    totals = counts.sum(axis=1)
    parts = _merge_runs(np.where(totals < noise, 0, totals), max(rows / GROUPS, noise), np.arange(len(counts)))
    return _split_groups(parts, counts, marginal.deviation**2)


def _category_groups(marginal: Marginal, prior: Floats, rows: float) -> list[Ints]:
    order = class_order(marginal, prior)
    if len(order) <= GROUPS:
        return [np.array([value]) for value in order]
    noise = marginal.deviation * math.sqrt(len(prior))
    return _merge_runs(np.maximum(marginal.counts.sum(axis=1), 0)[order], max(rows / GROUPS, noise), order)


def class_order(marginal: Marginal, prior: Floats) -> Ints:
    """Return the bins in the order of their class shares, along the direction in which these differ most."""
    positive = np.maximum(marginal.counts, 0)
    lent = len(prior) + marginal.deviation * math.sqrt(len(prior))
    shares = (positive + lent * prior) / (positive.sum(axis=1, keepdims=True) + lent)
    weight = np.maximum(marginal.counts.sum(axis=1), 1e-9)
    centred = shares - (shares * weight[:, None]).sum(axis=0) / weight.sum()
    _, _, directions = np.linalg.svd(centred * np.sqrt(weight)[:, None], full_matrices=False)
    return np.argsort(centred @ directions[0], kind="stable")


def _merge_runs(totals: Floats, needed: float, order: Ints) -> list[Ints]:
    """Cut `order` into runs of at least `needed` rows each; what is left at the end joins the last run.

    `needed` is raised to a MOST_GROUPS-th of all (noisy) rows, so that noise can never make more than MOST_GROUPS runs.
    """
    ends, rows_in_run = [], 0.0
    needed = max(needed, float(totals.sum()) / MOST_GROUPS)
    for place, rows in enumerate(totals):
        rows_in_run += float(rows)
        if rows_in_run >= needed:
            ends.append(place + 1)
            rows_in_run = 0.0
    ends = [*ends[:-1], len(order)] if ends else [len(order)]
    return np.split(order, ends[:-1])


def _split_groups(parts: list[Ints], counts: Floats, variance: float) -> list[Ints]:
    """Split groups where the classes on the left and right differ by more than noise and chance explain."""
    groups, place = list(parts), 0
    classes = counts.shape[1]
    limit = classes - 1 + SPLIT_DEVIATIONS * math.sqrt(2 * (classes - 1))
    while place < len(groups) and len(groups) < MOST_GROUPS:
        at, evidence = _best_cut(counts[groups[place]], variance)
        if evidence > limit:
            groups[place : place + 1] = [groups[place][:at], groups[place][at:]]
        else:
            place += 1
    return groups


def _best_cut(counts: Floats, variance: float) -> tuple[int, float]:
    """Return the cut of a run of bins whose two sides differ most, and the evidence for it.

    By chance and noise alone, the evidence follows a chi-square distribution with classes − 1 degrees of freedom.
    """
    if len(counts) < 2:
        return 0, 0.0
    classes, cut = counts.shape[1], np.arange(1, len(counts))
    left = np.cumsum(counts, axis=0)[:-1]
    totals = counts.sum(axis=0)
    right = totals - left
    rows_left, rows_right = left.sum(axis=1), right.sum(axis=1)
    noise_left, noise_right = variance * cut, variance * (len(counts) - cut)
    stands = (rows_left > 2 * np.sqrt(classes * noise_left)) & (rows_right > 2 * np.sqrt(classes * noise_right))
    rows = np.maximum(rows_left + rows_right, 1)
    shares = np.maximum(totals, 0) / max(float(np.maximum(totals, 0).sum()), 1e-9)
    difference = (rows_right[:, None] * left - rows_left[:, None] * right) / rows[:, None]
    noise = (rows_right**2 * noise_left + rows_left**2 * noise_right) / rows**2
    chance = (rows_left * rows_right / rows)[:, None] * np.maximum(shares, 0.01)
    evidence = np.where(stands, (difference**2 / np.maximum(noise[:, None] + chance, 1e-9)).sum(axis=1), -1.0)
    best = int(evidence.argmax())
    return best + 1, float(evidence[best])
