"""Options that give a number to classes, as in `--class-weight yes=5 --class-weight maybe=2`."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.errors import ParameterError


def numbers_of_classes(name: str, texts: Sequence[str], *, allowed: str) -> dict[str, float]:
    """Return CLASS=NUMBER texts as numbers by class; the last equals sign divides the two.

    >>> numbers_of_classes("cost", ["yes=5", "a=b=0.5"], allowed="CLASS=COST")
    {'yes': 5.0, 'a=b': 0.5}
    """
    numbers: dict[str, float] = {}
    for text in texts:
        label, _, number = text.rpartition("=")
        if label in numbers:
            raise ParameterError(name, allowed="given once for each class", given=text)
        try:
            numbers[label] = float(number)
        except ValueError:
            raise ParameterError(name, allowed=allowed, given=text) from None
    return numbers
