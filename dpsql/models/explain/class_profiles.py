"""Says for each class which values speak for it: those that are more frequent in the class than in the whole table.

The lift of a group of values is P(group | class) / P(group), which is P(class | group) / P(class). Of features that
were counted, only groups are named that stand out beyond noise and chance, after correction for how many sets of values
could have been picked (`beyond_chance.py`), and have a lift of more than 1.05. For features that were not counted, the
model's predictions are compared, and groups that are more than a tenth as strong as the strongest are named: how much
of that is noise is not known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.models.explain.explanation_values import ClassProfile, Effect, Group, Reason
from dpsql.models.explain.facts import Counts
from dpsql.models.explain.phrases import phrase
from dpsql.schema import Schema

Reals = NDArray[np.float64]
#: The lift that a counted group must pass to be named.
LEAST_LIFT = 1.05
#: The share of the strongest group's strength that a predicted group must pass to be named.
_BESIDE_STRONGEST = 0.1
#: Stands in for 0 where a number is divided by or its logarithm is taken.
_TINY = 1e-9


def deviations_above_chance(counts: Counts, shares: Reals) -> Reals:
    """Return by how many standard errors each count is above what its class's share of the group would be.

    By chance alone a group of n rows has n · share rows of a class. Let a be the rows of the class in a group and b the
    other rows. The difference a − share · (a + b) has the variance (1 − share)² var a + share² var b, where the
    variance of a count is that of the noise plus that of chance.
    """
    noisy = counts.noisy_counts
    variance = counts.errors[:, None] ** 2 + np.maximum(noisy, 1.0)
    others = variance.sum(axis=1, keepdims=True) - variance
    error = np.sqrt((1 - shares) ** 2 * variance + shares**2 * others)
    return (noisy - shares * noisy.sum(axis=1, keepdims=True)) / error


def is_drowned(counts: Counts, shares: Reals) -> bool:
    """Return whether no group of a feature stands out: the largest of k normal errors is below √(2 ln 2k)."""
    deviations = np.abs(deviations_above_chance(counts, shares))
    return bool(deviations.max(initial=0.0) < math.sqrt(2 * math.log(2 * max(2, deviations.size))))


@dataclass(frozen=True, eq=False)
class Evidence:
    """A feature, how strongly each of its groups speaks for each output (groups × outputs), and the average outputs.

    A strength of 0 means that the group says nothing.
    """

    effect: Effect
    strength: Reals
    middle: Reals


def profiles(schema: Schema, evidence: Sequence[Evidence], shares: Reals) -> tuple[ClassProfile, ...]:
    """Return the profile of each class, given the features and the shares of the classes."""
    return tuple(
        ClassProfile(name, float(shares[number]), _reasons(schema, evidence, number))
        for number, name in enumerate(schema.classes)
    )


def number_profiles(schema: Schema, evidence: Sequence[Evidence]) -> tuple[ClassProfile, ...]:
    """Return what makes a predicted number high, and what makes it low."""
    return tuple(
        ClassProfile(name, None, tuple(_reasons_of_number(schema, evidence, sign)))
        for name, sign in (("high", 1), ("low", -1))
    )


def group_lifts(groups: Sequence[Group], shares: Reals) -> Reals:
    """Return the lift of each group for each class."""
    return np.array([group.values for group in groups]) / np.maximum(shares, _TINY)


def evidence(effect: Effect, named: NDArray[np.bool_] | None, shares: Reals) -> Evidence:
    """Return how strongly each group of a feature speaks for each class.

    `named` says which groups of a counted feature stand out beyond chance for which class (`beyond_chance.py`).
    """
    strength = np.log(np.maximum(group_lifts(effect.groups, shares), _TINY))
    if named is not None:
        strength = np.where(named & (strength > math.log(LEAST_LIFT)), strength, 0.0)
    strength[[group.mass <= 0 for group in effect.groups]] = 0.0  # a value that does not occur says nothing
    return Evidence(effect, np.maximum(strength, 0.0) * effect.read, shares)


def _reasons(schema: Schema, evidence_of: Sequence[Evidence], number: int) -> tuple[Reason, ...]:
    least = _BESIDE_STRONGEST * max(
        (float(piece.strength[:, number].max(initial=0)) for piece in evidence_of), default=0.0
    )
    reasons = []
    for piece in evidence_of:
        strength = piece.strength[:, number]
        named = strength > (_TINY if piece.effect.counted else max(least, _TINY))
        if named.any() and not named.all():
            groups = [group for group, keep in zip(piece.effect.groups, named, strict=True) if keep]
            reasons.append(_reason(schema, piece.effect, groups, piece.middle, number))
    return tuple(reason for _, reason in sorted(reasons, key=lambda pair: -pair[0]))


def _reason(
    schema: Schema, effect: Effect, groups: Sequence[Group], shares: Reals, number: int
) -> tuple[float, Reason]:
    """Return groups of one feature as one reason, after the number by which reasons are ordered.

    That number is P(groups | class) · ln lift, where P(groups | class) = P(groups) · lift.
    """
    mass = np.array([group.mass for group in groups])
    weight = mass / mass.sum() if mass.sum() > 0 else np.full(len(groups), 1 / len(groups))
    lift = float(weight @ group_lifts(groups, shares)[:, number])
    error = _error(groups, weight, number, max(float(shares[number]), _TINY))
    loudest = sorted(groups, key=lambda group: -group.mass * group.values[number])
    reason = Reason(effect.feature, _words(schema, effect.feature, loudest), lift, error)
    return float(mass.sum()) * lift * math.log(max(lift, 1.0)), reason


def _reasons_of_number(schema: Schema, evidence_of: Sequence[Evidence], sign: int) -> Iterator[Reason]:
    """Yield what moves a predicted number up (or down), strongest first."""
    largest = max((float(np.abs(piece.strength).max(initial=0)) for piece in evidence_of), default=0.0)
    reasons = []
    for piece in evidence_of:
        occurs = np.array([group.mass > 0 for group in piece.effect.groups])
        named = occurs & (sign * piece.strength[:, 0] > max(_BESIDE_STRONGEST * largest, _TINY))
        groups = [group for group, keep in zip(piece.effect.groups, named, strict=True) if keep]
        if groups:
            mass = np.array([group.mass for group in groups])
            change = float(mass @ piece.strength[named, 0] / mass.sum())
            words = _words(schema, piece.effect.feature, groups)
            reasons.append((abs(change) * float(mass.sum()), Reason(piece.effect.feature, words, change)))
    yield from (reason for _, reason in sorted(reasons, key=lambda pair: -pair[0]))


def _error(groups: Sequence[Group], weight: Reals, number: int, share: float) -> float | None:
    """Return the standard error of a lift over several groups; None where that of a group is not known."""
    errors = [group.errors[number] for group in groups if group.errors is not None]
    return float(np.sqrt(((weight * errors) ** 2).sum())) / share if len(errors) == len(groups) else None


def _words(schema: Schema, name: str, groups: Sequence[Group]) -> str:
    feature = schema.feature(name)
    assert feature is not None
    return phrase(feature, [cell for group in groups for cell in group.cells])
