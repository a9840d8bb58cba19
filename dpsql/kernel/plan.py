"""Plans: what a run will ask, what each step costs, and how the costs compose. Known before any row is read.

A plan is a tree. Sequential parts look at the same rows, so their costs add up. Parallel parts look at disjoint units,
which the kernel itself separates by their tickets, so the largest cost counts. The plan is what `--dry-run` prints,
what the ledger charges and stores, and what the session allows: each step once, as declared, nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from dpsql.errors import ParameterError
from dpsql.kernel.describe import describe_plan, describe_step
from dpsql.kernel.utility import MONOTONE
from dpsql.schema import Unit

NANO = 10**9
OPERATIONS = ("size", "leaf_counts", "leaf_labels", "histograms", "choose")
#: The largest noise scale that the exact samplers take, with room to spare.
LARGEST_SCALE = 2**50


@dataclass(frozen=True)
class Step:
    """One request to the kernel.

    `trees` and `shared` say how rows meet trees: disjoint trees see each row once, shared trees each see every row.
    `axes` is the number of histograms per tree. `cells` is the number of values that come out, `classes` of
    them per leaf. `utility` names what `choose` maximises, `published` an unproven variant.
    """

    name: str
    operation: str
    nano_epsilon: int
    trees: int = 1
    shared: bool = False
    axes: int = 1
    cells: int = 1
    classes: int = 1
    scans: int = 1
    utility: str = ""
    published: bool = False
    note: str = ""
    part: int = 0
    parts: int = 1

    def __post_init__(self) -> None:
        if self.operation not in OPERATIONS:
            raise ParameterError("operation", allowed=f"one of {', '.join(OPERATIONS)}", given=self.operation)
        for name in ("nano_epsilon", "trees", "axes", "cells", "scans"):
            given = getattr(self, name)
            if isinstance(given, bool) or not isinstance(given, int) or given < 1:
                raise ParameterError(name, allowed="a positive whole number", given=given)
        if (self.operation == "choose") != (self.utility in MONOTONE):
            raise ParameterError("utility", allowed=f"one of {', '.join(MONOTONE)}, for choose", given=self.utility)

    @property
    def cost(self) -> int:
        """The step's nano-epsilon."""
        return self.nano_epsilon

    @property
    def epsilon(self) -> Fraction:
        """The step's epsilon as an exact fraction."""
        return Fraction(self.nano_epsilon, NANO)

    def sensitivity(self, unit: Unit) -> int:
        """Return how many counts one unit can change by one each: its rows, in each shared tree, on each axis."""
        return unit.max_rows * (self.trees if self.shared else 1) * self.axes

    def scale(self, unit: Unit) -> Fraction:
        """Return the noise scale of a count: sensitivity over epsilon."""
        return Fraction(self.sensitivity(unit)) / self.epsilon

    def row_epsilon(self, unit: Unit) -> Fraction:
        """Return what one row's presence in one cell may cost, so that a whole unit costs the step's epsilon."""
        return self.epsilon / self.sensitivity(unit)


@dataclass(frozen=True)
class Sequential:
    """Parts that look at the same rows: their costs add up."""

    parts: tuple[Composition, ...]

    @property
    def cost(self) -> int:
        """The sum of the parts' nano-epsilon."""
        return sum(part.cost for part in self.parts)


@dataclass(frozen=True)
class Parallel:
    """Parts that look at disjoint units, separated by ticket: the largest cost counts."""

    parts: tuple[Composition, ...]

    @property
    def cost(self) -> int:
        """The largest of the parts' nano-epsilon."""
        return max(part.cost for part in self.parts)


Composition = Step | Sequential | Parallel


@dataclass(frozen=True)
class Plan:
    """A method's plan on one dataset: its composition, its parameters, and the neighbour relation it is private for."""

    method: str
    composition: Composition
    unit: Unit
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [step.name for step in self.steps]
        if len(set(names)) != len(names):
            raise ParameterError("plan", allowed="steps with different names", given=names)
        for step in self.steps:
            if step.scale(self.unit) > LARGEST_SCALE:
                raise ParameterError(
                    "epsilon",
                    allowed="large enough for the noise to stay within 64 bits",
                    given=float(step.epsilon),
                )

    @property
    def nano_epsilon(self) -> int:
        """What the whole plan costs."""
        return self.composition.cost

    @property
    def private(self) -> bool:
        """Whether every step has a proof."""
        return not any(step.published for step in self.steps)

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps in order, each with the part of the units it looks at."""
        return tuple(_placed(self.composition, 0, 1))

    def step(self, name: str) -> Step:
        """Return the step of that name."""
        return next(step for step in self.steps if step.name == name)

    def __str__(self) -> str:
        return describe_plan(self.to_dict(), self.nano_epsilon)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values: what `--dry-run --json` prints and the ledger stores."""
        return {
            "method": self.method,
            "neighbours": self.unit.neighbours,
            "unit": str(self.unit),
            "private": self.private,
            "composition": _shape(self.composition),
            "steps": [describe_step(step, self.unit) for step in self.steps],
            "parameters": dict(self.parameters),
        }


def _placed(composition: Composition, part: int, parts: int) -> Iterator[Step]:
    """Yield the steps; inside a parallel composition each gets its own share of the units."""
    if isinstance(composition, Step):
        yield replace(composition, part=part, parts=parts)
    elif isinstance(composition, Sequential):
        for inner in composition.parts:
            yield from _placed(inner, part, parts)
    else:
        count = len(composition.parts)
        for index, inner in enumerate(composition.parts):
            yield from _placed(inner, part + parts * index, parts * count)


def _shape(composition: Composition) -> Any:
    if isinstance(composition, Step):
        return composition.name
    word = "sequential" if isinstance(composition, Sequential) else "parallel"
    return {word: [_shape(part) for part in composition.parts]}
