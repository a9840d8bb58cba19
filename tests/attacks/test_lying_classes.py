"""Objects of a class that claims to be another one: the kernel compares classes by identity, and takes none of them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpsql.kernel.border import AllowanceExceeded, plain, rebuild_bounds, rebuild_composition, rebuild_features
from dpsql.kernel.plan import Sample, Sequential, Step
from dpsql.schema import Numeric, Unit
from tests.attacks.test_border import check_refused, watched_session
from tests.kernel.helpers import EPSILON


class Equal(type):
    """The class of classes that say they are equal to any other."""

    def __eq__(cls, other: object) -> bool:
        return True

    def __hash__(cls) -> int:
        return hash(Step)


class QuietStep(Step, metaclass=Equal):
    """A step whose class is equal to every other, and that wants next to no noise."""

    def scale(self, unit: Unit) -> Fraction:
        """Return next to nothing."""
        return Fraction(1, 10**6)


def test_a_step_of_a_lying_class_gets_no_say_in_its_noise() -> None:
    """Inside a sample too, whose step is rebuilt by itself."""
    lying = QuietStep("n", "size", 1)
    for composition in (lying, Sample(lying, 2), Sequential((Sample(lying, 2),))):
        with pytest.raises(AllowanceExceeded):
            rebuild_composition(composition)
        opened, watched = watched_session(Step("rest", "later", EPSILON))
        check_refused(opened, watched, lambda here, given=composition: here.later("rest", given))  # type: ignore[misc]


class Narrow(Numeric, metaclass=Equal):
    """A feature whose class is equal to every other."""


class Text(str, metaclass=Equal):
    """A text that is not one."""

    __slots__ = ()


class Whole(np.int64):
    """A number that says it is numpy's own, and is whatever it likes once it is used."""

    __module__ = "numpy"

    def item(self, *_: Any) -> Any:
        """Return no number."""
        return [1]


def test_a_feature_of_a_lying_class_is_refused() -> None:
    """Its checks would be its own."""
    assert rebuild_features((Numeric("x", 0, 1),)) == (Numeric("x", 0, 1),)
    with pytest.raises(AllowanceExceeded):
        rebuild_features((Narrow("x", 0, 1),))


@pytest.mark.parametrize(
    "value", [Text("x"), [Text("x")], {"a": Text("x")}, Whole(1)], ids=["it", "list", "dict", "number"]
)
def test_a_value_of_a_lying_class_is_not_plain(value: Any) -> None:
    """Plain values are of Python's and numpy's own classes, not of one that claims to be."""
    with pytest.raises(AllowanceExceeded):
        plain(value)


def test_bounds_of_a_lying_class_are_refused() -> None:
    """A bound is a number of Python's own."""

    class Number(float, metaclass=Equal):
        """A number that is not one."""

    with pytest.raises(AllowanceExceeded):
        rebuild_bounds({"x": (Number(0), 1.0)})
