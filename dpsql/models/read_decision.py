"""Reads what a user says about decisions: a threshold for one class, or a weight for some classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpsql.errors import ParameterError, UnknownName, UsageError
from dpsql.trees.estimate.decisions import ClassWeights, Decision, Threshold

#: Weights stay within this factor of 1, so that no product with a probability leaves the range of doubles.
LARGEST_WEIGHT = 1e6


def read_decision(
    classes: Sequence[str], threshold: Mapping[str, float] | None, class_weight: Mapping[str, float] | None
) -> Decision | None:
    """Return the decision that is meant, or say what is wrong with it; equal weights are the usual decision, None.

    >>> read_decision(("no", "yes"), {"yes": 0.3}, None)
    Threshold(number=1, least=0.3)
    >>> read_decision(("no", "yes"), None, {"yes": 5})
    ClassWeights(weights=(1.0, 5.0))
    """
    if threshold is not None and class_weight is not None:
        raise UsageError("a threshold and class weights are two ways to decide.", hint="leave out one of them")
    if threshold is not None:
        return _threshold(classes, threshold)
    return None if class_weight is None else _class_weights(classes, class_weight)


def _threshold(classes: Sequence[str], given: Mapping[str, float]) -> Threshold:
    if not isinstance(given, Mapping) or len(given) != 1:
        raise ParameterError("threshold", allowed="one class and its probability, as in yes=0.3", given=str(given))
    ((name, least),) = given.items()
    if name not in classes:
        raise UnknownName("class", str(name), classes)
    if isinstance(least, bool) or not isinstance(least, int | float) or not 0 <= least <= 1:
        raise ParameterError("threshold", allowed="a probability from 0 to 1", given=least)
    return Threshold(classes.index(name), float(least))


def _class_weights(classes: Sequence[str], given: Mapping[str, float]) -> ClassWeights | None:
    named = numbers_by_class("class_weight", classes, given, least=1 / LARGEST_WEIGHT, most=LARGEST_WEIGHT)
    return ClassWeights(named) if len(set(named)) > 1 else None


def numbers_by_class(
    what: str, classes: Sequence[str], given: Mapping[str, float], *, least: float, most: float
) -> tuple[float, ...]:
    """Return a number for each class, 1 for those that are not named, or say what is wrong with what was given."""
    if not isinstance(given, Mapping) or not given:
        raise ParameterError(what, allowed="a number for one or more classes, as in yes=5", given=str(given))
    for name, value in given.items():
        if name not in classes:
            raise UnknownName("class", str(name), classes)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise ParameterError(what, allowed=f"numbers from {least:g} to {most:g}", given=value)
    return tuple(float(given.get(name, 1)) for name in classes)
