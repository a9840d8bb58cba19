"""The kernel's own copies of what a method hands over, and the grid that counts are added on."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from dpsql.kernel.border import AllowanceExceeded, copy_plain_value, rebuild_composition, rebuild_forest, rebuild_plan
from dpsql.kernel.exact import add_on_grid
from dpsql.kernel.operations import Size
from dpsql.kernel.plan import Composition, Parallel, Plan, Sample, Sequential, Sides, Step
from dpsql.kernel.promise import Promise
from dpsql.schema import Unit
from dpsql.trees.forest import Forest, Level
from dpsql.trees.grid import axes
from tests.tables import SCHEMA, small_forest

GRID = axes(SCHEMA)
FOREST = small_forest(trees=2, depth=2)
SIZE = Step("n", Size(), 10**9)


def test_planes_changed_after_a_forest_was_used_are_copied() -> None:
    """The kernel keeps a copy: what is written to the planes later changes nothing it has checked."""
    planes = np.zeros((1, 2), np.uint64)
    level = Level(np.zeros(2, np.int16), np.full(2, 2, np.uint8), planes)
    rebuilt = rebuild_forest(Forest(GRID, 2, (level,)), GRID)
    planes[:] = 2**64 - 1
    assert not rebuilt.levels[0].planes.any()
    with pytest.raises(ValueError, match="read-only"):
        rebuilt.levels[0].planes[:] = 1


def test_the_grid_has_a_lower_bound_and_adds() -> None:
    """A group below the grid is left out, and two groups of one cell add up: none overwrites a count."""
    grid = np.zeros((2, 2), np.int64)
    places = {"leaf": np.array([-1, 0, 0, 5]), "class": np.array([0, 1, 1, 0]), "rows": np.array([7, 2, 3, 9])}
    add_on_grid(grid, places, "leaf", "class")
    assert grid.tolist() == [[0, 5], [0, 0]]


def test_a_released_value_is_frozen() -> None:
    """The kernel's own copies refuse to be changed."""
    rebuilt = rebuild_forest(FOREST, GRID)
    with pytest.raises(FrozenInstanceError):
        rebuilt.trees = 3  # type: ignore[misc]


COMPOSITIONS: list[Composition] = [
    SIZE,
    Sequential((SIZE, Parallel((SIZE, Sample(SIZE, 3))))),
    Sides(SIZE, Sequential((SIZE, SIZE)), disjoint=True),
]


@pytest.mark.parametrize("composition", COMPOSITIONS, ids=lambda composition: type(composition).__name__)
def test_a_composition_comes_back_the_same(composition: Composition) -> None:
    """Rebuilding changes nothing of what was sound."""
    assert rebuild_composition(composition) == composition
    assert rebuild_composition(composition) is not composition


def test_a_plan_comes_back_the_same() -> None:
    """Parameters, unit and steps are copied; what was handed over can be changed without effect."""
    parameters = {"trees": 3, "names": ["a"], "deep": {"x": (1, 2.5, None, True)}}
    plan = Plan("test", SIZE, Promise(Unit("person", 3)), MappingProxyType(parameters))
    rebuilt = rebuild_plan(plan)
    parameters["names"].append("b")  # type: ignore[attr-defined]
    assert (rebuilt.method, rebuilt.promise.unit, rebuilt.parameters["names"]) == ("test", Unit("person", 3), ["a"])


def test_deep_nesting_is_refused() -> None:
    """Neither compositions nor values may be nested until Python gives up."""
    deep: Composition = SIZE
    for _ in range(1000):
        deep = Sequential((deep,))
    with pytest.raises(AllowanceExceeded):
        rebuild_composition(deep)
    value: Any = []
    for _ in range(1000):
        value = [value]
    with pytest.raises(AllowanceExceeded):
        copy_plain_value(value)


@dataclass(frozen=True)
class OwnStep(Step):
    """A step of another class."""


@pytest.mark.parametrize("given", [OwnStep("n", Size(), 1), Sequential(()), Sequential([SIZE]), "n", None])  # type: ignore[arg-type]
def test_other_classes_are_refused(given: Any) -> None:
    """A subclass, an empty composition, a list of parts, and no composition at all."""
    with pytest.raises(AllowanceExceeded):
        rebuild_composition(given)
