"""Objects of a class that claims to be another one: the kernel compares classes by identity, and takes none of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from dpsql.errors import ParameterError
from dpsql.kernel.border import (
    AllowanceExceeded,
    copy_plain_value,
    rebuild_bounds,
    rebuild_composition,
    rebuild_features,
)
from dpsql.kernel.operations import NO_NOISE, Choose, Later, LeafCounts, Operation, Size
from dpsql.kernel.plan import Composition, Parallel, Plan, Sample, Sequential, Step
from dpsql.kernel.promise import Promise
from dpsql.schema import Numeric, Unit
from tests.attacks.test_border import check_refused, perform, watched_session
from tests.kernel.helpers import EPSILON
from tests.tables import UNITS, on_disk, some_rows


class Equal(type):
    """The class of classes that say they are equal to any other."""

    def __eq__(cls, other: object) -> bool:
        return True

    def __hash__(cls) -> int:
        return hash(Size)


class OwnSize(Size):
    """A size that says it needs no noise."""

    mechanism = NO_NOISE
    free = True


@dataclass(frozen=True)
class LooksAlike:
    """No operation at all, with everything that one has."""

    name: ClassVar[str] = "size"
    answer: ClassVar[str] = "number of rows"
    mechanism: ClassVar[Any] = NO_NOISE
    free: ClassVar[bool] = True
    may_come_later: ClassVar[bool] = True
    has_published_form: ClassVar[bool] = False
    needs_classes: ClassVar[bool] = False
    needs_target: ClassVar[bool] = False


class ClaimsToBeSize(OwnSize, metaclass=Equal):
    """A size whose class is equal to that of every operation."""


LookAlikeSize: Any = type("Size", (OwnSize,), {"__module__": Size.__module__, "__qualname__": "Size"})
LIES: dict[str, Any] = {
    "a subclass": OwnSize(),
    "a look-alike": LooksAlike(),
    "a class of the same name": LookAlikeSize(),
    "a class equal to all others": ClaimsToBeSize(),
    "the class itself": Size,
    "its name": "size",
}
LYING = pytest.mark.parametrize("operation", LIES.values(), ids=LIES)


def step_with(operation: Any) -> Step:
    """Return a step that was sound when it was made, and holds another operation now."""
    step = Step("n", Size(), EPSILON)
    object.__setattr__(step, "operation", operation)
    return step


@LYING
def test_a_step_takes_no_operation_of_ones_own(operation: Any) -> None:
    """Neither when it is made, nor when a sound one is changed."""
    with pytest.raises(ParameterError, match="operation"):
        Step("n", operation, EPSILON)
    with pytest.raises(ParameterError, match="operation"):
        replace(Step("n", Size(), EPSILON), operation=operation)


@LYING
def test_an_operation_of_ones_own_does_not_pass_the_border(operation: Any) -> None:
    """Wherever in a composition it stands."""
    lying, sound = step_with(operation), Step("m", Size(), EPSILON)
    compositions: list[Composition] = [
        lying, Sequential((sound, lying)), Parallel((sound, lying)), Sample(lying, 3), Sequential((Sample(lying, 3),)),
    ]  # fmt: skip
    for composition in compositions:
        with pytest.raises(AllowanceExceeded):
            rebuild_composition(composition)


@LYING
def test_an_operation_of_ones_own_is_not_opened_later(operation: Any) -> None:
    """The allowance refuses it, and no row is read."""
    opened, watched = watched_session(Step("rest", Later(), EPSILON))
    check_refused(opened, watched, lambda here: here.later("rest", step_with(operation)))


@LYING
def test_a_plan_with_an_operation_of_ones_own_is_not_run(operation: Any, tmp_path: Path) -> None:
    """Nothing is charged, and nothing is asked."""
    plan = Plan("test", Step("n", Size(), EPSILON), Promise(Unit()))
    object.__setattr__(plan.composition, "operation", operation)
    plan.__dict__.pop("steps")
    with on_disk(tmp_path / "data.duckdb", some_rows(), cap=5) as database:
        with pytest.raises((AllowanceExceeded, ParameterError)):
            perform(database, plan, lambda here: here.size("n"))
        assert database.budget("people").spent == 0


def test_what_a_plan_says_of_its_steps_is_not_believed() -> None:
    """`Plan.steps` is kept with the plan once it is worked out; the kernel works it out again, from the composition."""
    plan = Plan("test", Step("n", Size(), 3), Promise(UNITS.unit))
    plan.__dict__["steps"] = (Step("n", Size(), 10**15),)
    opened, _ = watched_session(plan.composition)
    assert opened.step("n").nano_epsilon == 3


def test_the_kernel_keeps_an_operation_of_its_own() -> None:
    """What a method writes into its operation after it was checked changes nothing."""
    operation = Choose("median")
    rebuilt = rebuild_composition(Step("n", operation, EPSILON))
    object.__setattr__(operation, "utility", "majority")
    assert isinstance(rebuilt, Step)
    assert rebuilt.operation == Choose("median")
    assert rebuilt.operation is not operation


@pytest.mark.parametrize(("field", "value"), [("utility", ["median"]), ("utility", "spread"), ("most", True)], ids=str)
def test_a_field_of_an_operation_that_could_change_is_refused(field: str, value: Any) -> None:
    """Fields of an operation are plain values of their exact types, as those of a step are."""
    operation = Choose("median")
    object.__setattr__(operation, field, value)
    with pytest.raises(AllowanceExceeded):
        rebuild_composition(Step("n", operation, EPSILON))


@pytest.mark.parametrize("fact", ["free", "mechanism", "name", "needs_classes", "may_come_later"])
def test_the_facts_of_an_operation_cannot_be_set(fact: str) -> None:
    """A value has no place for them: they are its class's."""
    for operation in (Size(), LeafCounts(), Choose("median")):
        with pytest.raises((AttributeError, TypeError)):
            object.__setattr__(operation, fact, True)


class QuietStep(Step, metaclass=Equal):
    """A step whose class is equal to every other, and that wants next to no noise."""

    def scale(self, promise: Promise) -> Fraction:
        """Return next to nothing."""
        return Fraction(1, 10**6)


def test_a_step_of_a_lying_class_gets_no_say_in_its_noise() -> None:
    """Inside a sample too, whose step is rebuilt by itself."""
    lying = QuietStep("n", Size(), 1)
    for composition in (lying, Sample(lying, 2), Sequential((Sample(lying, 2),))):
        with pytest.raises(AllowanceExceeded):
            rebuild_composition(composition)
        opened, watched = watched_session(Step("rest", Later(), EPSILON))
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
        copy_plain_value(value)


def test_bounds_of_a_lying_class_are_refused() -> None:
    """A bound is a number of Python's own."""

    class Number(float, metaclass=Equal):
        """A number that is not one."""

    with pytest.raises(AllowanceExceeded):
        rebuild_bounds({"x": (Number(0), 1.0)})


def test_every_lie_is_one() -> None:
    """The operations above would pass a comparison with `in`, or look like the real ones."""
    assert type(LIES["a class equal to all others"]) in (Choose, LeafCounts)
    assert isinstance(LIES["a subclass"], Operation)
