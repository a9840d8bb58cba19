"""Plans: what a run will ask, what each step costs, and how the costs compose. A plan is made before any row is read.

A plan is a tree. Sequential parts look at the same rows, so their costs add up. Parallel parts look at disjoint units,
which the kernel itself separates by their tickets, so the largest cost counts. The plan is what `--dry-run` prints,
what the ledger charges and stores, and what the session allows: each step once, as declared, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar

from dpsql.errors import ParameterError
from dpsql.kernel import noise
from dpsql.kernel.describe import describe_plan, describe_step, plan_html
from dpsql.kernel.operations import Operation, check_known
from dpsql.kernel.promise import Promise
from dpsql.ledger.amount import format_delta, format_epsilon
from dpsql.notebook_html import Readable

#: How many nano-epsilon are an epsilon.
NANO = 10**9
#: The side of a semi-supervised plan whose rows shape the trees.
UNLABELLED = "unlabelled"
#: The side of a semi-supervised plan whose labels are counted.
LABELLED = "labelled"
#: The labelled rows, of which the features alone are read.
FEATURES = "features"
#: The exact type that a field of a step must have, by its annotation. The operation is checked by `check_known`.
_KINDS: dict[str, type] = {"str": str, "int": int, "bool": bool}
#: The largest noise scale that the exact samplers take, with room to spare.
LARGEST_SCALE = 2**50
_Kind = TypeVar("_Kind", bound=Operation)


@dataclass(frozen=True)
class Step:
    """One request to the kernel: an operation (`kernel/operations.py`), what it costs, and how rows meet trees.

    Where `shared` is false, each row is in one of the `trees` alone; where it is true, each row is in all of them.
    `axes` is the number of histograms per tree. `cells` is the number of values that come out, `classes` of them per
    leaf. `row_weight` is what one row adds to the values of a tree: 1, the steps of a target, or the sensitivity of a
    strategy. A step of several `uses` may be asked that often; the uses share its epsilon, and each says how much of it
    it takes. `published` asks for the unproven form of the operation. `part`, `parts` and `side` say which units the
    step looks at; only a composition sets them.
    """

    name: str
    operation: Operation
    nano_epsilon: int
    trees: int = 1
    shared: bool = False
    axes: int = 1
    cells: int = 1
    classes: int = 1
    row_weight: int = 1
    scans: int = 1
    uses: int = 1
    published: bool = False
    note: str = ""
    part: int = 0
    parts: int = 1
    side: str = ""

    def __post_init__(self) -> None:
        check_known(self.operation)
        for declared in fields(self):
            given, kind = getattr(self, declared.name), _KINDS.get(str(declared.type))
            if kind is not None and type(given) is not kind:  # a mutable value could change after the check
                raise ParameterError(declared.name, allowed=f"of type {kind.__name__}", given=type(given).__name__)
        for name in ("nano_epsilon", "trees", "axes", "cells", "classes", "row_weight", "scans", "uses"):
            given = getattr(self, name)
            if given < (0 if name == "nano_epsilon" and self.free else 1):
                raise ParameterError(name, allowed="a positive whole number", given=given)
        if self.published and not self.operation.has_published_form:
            raise ParameterError("published", allowed=f"false for {self.operation.name}", given=self.published)
        if self.nano_epsilon < self.uses and not self.free:
            raise ParameterError("epsilon", allowed=f"at least {self.uses / NANO:.9f}", given=self.nano_epsilon / NANO)

    @property
    def free(self) -> bool:
        """Whether the step answers without noise and costs nothing: it reads public features alone."""
        return self.operation.free

    @property
    def cost(self) -> int:
        """The step's nano-epsilon."""
        return self.nano_epsilon

    @property
    def epsilon(self) -> Fraction:
        """The step's epsilon as an exact fraction."""
        return Fraction(self.nano_epsilon, NANO)

    def sensitivity(self, promise: Promise) -> int:
        """Return the most by which one unit can change all values in total: c · T · axes · row_weight."""
        return promise.change * (self.trees if self.shared else 1) * self.axes * self.row_weight

    def scale(self, promise: Promise) -> Fraction:
        """Return the Laplace scale b of the noise on each count (standard deviation √2·b); for choices 1/row_epsilon.

        It is 0 where no noise is added.
        """
        return noise.scale(self, promise)

    def row_epsilon(self, promise: Promise) -> Fraction:
        """Return the epsilon that one row may cost in one cell, so that a unit costs at most the step's epsilon."""
        return noise.row_epsilon(self, promise)

    def operation_as(self, kind: type[_Kind]) -> _Kind:
        """Return the operation, which must be of exactly this class."""
        if type(self.operation) is not kind:
            raise ParameterError("operation", allowed=kind.name, given=self.operation.name)
        return self.operation


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


@dataclass(frozen=True)
class Sample:
    """A step that looks at one of several equal parts of the units, separated by ticket.

    It has enough rows for a choice, at a fraction of the work. It costs as much as if all units were asked: that most
    units are left out does not lower the charge.
    """

    part: Step
    of: int

    def __post_init__(self) -> None:
        if not isinstance(self.part, Step):
            raise ParameterError("sample", allowed="one step", given=type(self.part).__name__)
        if isinstance(self.of, bool) or not isinstance(self.of, int) or self.of < 1:
            raise ParameterError("sample", allowed="one of a positive whole number of parts", given=self.of)

    @property
    def cost(self) -> int:
        """The nano-epsilon of the step: what the units of its part pay."""
        return self.part.cost


@dataclass(frozen=True)
class Sides:
    """Rows that shape trees without their labels, and rows whose labels are counted.

    `disjoint` says that no unit is on both sides, so the larger cost counts. Within one table the side follows from the
    unit alone; for two tables the owner must have declared it. Otherwise a unit may be on both sides, and the costs add
    up.
    """

    unlabelled: Composition
    labelled: Composition
    disjoint: bool

    @property
    def cost(self) -> int:
        """The larger cost of the two sides where they are disjoint, and otherwise their sum."""
        costs = (self.unlabelled.cost, self.labelled.cost)
        return max(costs) if self.disjoint else sum(costs)


Composition = Step | Sequential | Parallel | Sample | Sides


@dataclass(frozen=True, repr=False)
class Plan(Readable):
    """A method's plan on one dataset: what it asks, and what it promises for it."""

    method: str
    composition: Composition
    promise: Promise
    parameters: Mapping[str, Any] = field(default_factory=dict)
    #: Where unlabelled rows are: a table, or a condition on the rows of this one. "" where none are asked for.
    unlabelled: str = ""

    def __post_init__(self) -> None:
        if not self.promise.labels_only and any(step.free for step in self.steps):
            raise ParameterError("plan", allowed="free steps only where labels alone are private", given=self.method)
        self._check_approximate()
        self._check_selection()
        top = self.composition
        if any(map(has_sides, (top.unlabelled, top.labelled) if isinstance(top, Sides) else (top,))):
            raise ParameterError("plan", allowed="two sides at its top alone: each is charged apart", given=self.method)
        names = [step.name for step in self.steps]
        if len(set(names)) != len(names):
            raise ParameterError("plan", allowed="steps with different names", given=names)
        for step in self.steps:
            if step.scale(self.promise) > LARGEST_SCALE:
                raise ParameterError(
                    "epsilon",
                    allowed="large enough for the noise to stay within 64 bits",
                    given=float(step.epsilon),
                )

    @property
    def nano_epsilon(self) -> int:
        """What the plan costs in all, in nano-epsilon."""
        return self.composition.cost

    @property
    def kind(self) -> str:
        """Which budget of the ledger pays: "pure", "label" or "approximate"."""
        return self.promise.kind

    @property
    def charge(self) -> int:
        """What the ledger is charged: nano-epsilon, or nano-rho where the kind is approximate."""
        allowed = self.promise.approximate
        return self.nano_epsilon if allowed is None else allowed.nano_rho

    def _check_approximate(self) -> None:
        """Refuse approximate privacy where it has no proof, or where its rho is not what epsilon and delta allow."""
        allowed = self.promise.approximate
        if allowed is None:
            return
        if self.promise.labels_only or isinstance(self.composition, Sides) or not self.private:
            why = "left out: labels alone, rows without labels and published forms are paid by epsilon alone"
            raise ParameterError("delta", allowed=why, given=allowed.delta)
        due = noise.approximate(self.nano_epsilon, allowed.delta, allowed.selection_delta)
        if allowed.nano_epsilon != self.nano_epsilon or allowed != due:
            raise ParameterError("plan", allowed="what its epsilon and delta allow", given=self.method)

    def _check_selection(self) -> None:
        """Refuse a selection of values without a part of delta for it, two of them, and such a part without one."""
        selections = [step for step in self.steps if step.operation.needs_selection_delta]
        allowed = self.promise.approximate
        has_part = allowed is not None and allowed.selection_delta > 0
        if len(selections) != has_part or any(step.uses > 1 for step in selections):
            why = "one selection of values with a part of delta for it, or neither"
            raise ParameterError("plan", allowed=why, given=self.method)

    def cost_of(self, side: str) -> int:
        """Return the cost of the steps of one side. In a plan without sides all steps are on the labelled side."""
        composition = self.composition
        if isinstance(composition, Sides):
            return composition.unlabelled.cost if side == UNLABELLED else composition.labelled.cost
        return 0 if side == UNLABELLED else composition.cost

    @property
    def private(self) -> bool:
        """Whether every step has a proof."""
        return not any(step.published for step in self.steps)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """All steps in order, each with the part of the units that it looks at. They are worked out once."""
        return steps_with_parts(self.composition)

    def step(self, name: str) -> Step:
        """Return the step of that name."""
        return next(step for step in self.steps if step.name == name)

    def noise_scale(self, name: str) -> Fraction:
        """Return the noise scale of the step of that name (see `Step.scale`)."""
        return self.step(name).scale(self.promise)

    def __str__(self) -> str:
        return describe_plan(self.to_dict(), self.nano_epsilon)

    def _repr_html_(self) -> str:
        return plan_html(self.to_dict(), self.nano_epsilon)

    @property
    def loss(self) -> dict[str, str]:
        """What a run may lose, as exact decimal text: epsilon, and under approximate privacy delta and rho."""
        allowed, epsilon = self.promise.approximate, {"epsilon": format_epsilon(self.nano_epsilon)}
        if allowed is None:
            return epsilon
        loss = epsilon | {"delta": format_delta(allowed.delta), "rho": format_epsilon(allowed.nano_rho)}
        return loss | ({"selection_delta": format_delta(allowed.selection_delta)} if allowed.selection_delta else {})

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values: what `--dry-run --json` prints and the ledger stores."""
        return {
            "method": self.method,
            **({"unlabelled": self.unlabelled} if self.unlabelled else {}),
            "neighbours": self.promise.neighbours,
            "unit": str(self.promise),
            **({} if self.promise.approximate is None else self.loss),
            "private": self.private,
            "composition": _shape(self.composition),
            "steps": [describe_step(step, self.promise) for step in self.steps],
            "parameters": dict(self.parameters),
        }


def steps_with_parts(composition: Composition, within: Step | None = None) -> tuple[Step, ...]:
    """Return the steps of a composition in order, each with the part of the units that it looks at.

    With `within`, all of them look only at the part and the side of that step.
    """
    if within is None:
        return tuple(_steps_of(composition, 0, 1, ""))
    return tuple(_steps_of(composition, within.part, within.parts, within.side))


def _steps_of(composition: Composition, part: int, parts: int, side: str) -> Iterator[Step]:
    """Yield the steps, each with its part of the units and its side. The composition alone decides on both."""
    if isinstance(composition, Step):
        yield replace(composition, part=part, parts=parts, side=side)
    elif isinstance(composition, Sequential):
        for inner in composition.parts:
            yield from _steps_of(inner, part, parts, side)
    elif isinstance(composition, Sample):
        yield from _steps_of(composition.part, part, parts * composition.of, side)
    elif isinstance(composition, Sides):
        yield from _steps_of(composition.unlabelled, part, parts, UNLABELLED)
        yield from _steps_of(composition.labelled, part, parts, LABELLED)
    else:
        count = len(composition.parts)
        for index, inner in enumerate(composition.parts):
            yield from _steps_of(inner, part + parts * index, parts * count, side)


def has_sides(composition: Composition) -> bool:
    """Whether a composition has two sides, or one of its parts does."""
    if isinstance(composition, Sequential | Parallel):
        return any(has_sides(part) for part in composition.parts)
    return isinstance(composition, Sides)


def _shape(composition: Composition) -> Any:
    """Return a composition as plain values: the names of its steps, and how their costs compose."""
    if isinstance(composition, Step):
        return composition.name
    if isinstance(composition, Sample):
        return {f"one part of {composition.of}": composition.part.name}
    if isinstance(composition, Sides):
        word = "sides, apart" if composition.disjoint else "sides, not apart"
        return {word: {UNLABELLED: _shape(composition.unlabelled), LABELLED: _shape(composition.labelled)}}
    word = "sequential" if isinstance(composition, Sequential) else "parallel"
    return {word: [_shape(part) for part in composition.parts]}
