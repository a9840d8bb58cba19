"""Plans: what a run will ask, what each step costs, and how the costs compose. Known before any row is read.

A plan is a tree. Sequential parts look at the same rows, so their costs add up. Parallel parts look at disjoint units,
which the kernel itself separates by their tickets, so the largest cost counts. The plan is what `--dry-run` prints,
what the ledger charges and stores, and what the session allows: each step once, as declared, nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any

from dpsql.errors import ParameterError
from dpsql.kernel import noise
from dpsql.kernel.describe import describe_plan, describe_step
from dpsql.kernel.utility import CLASSLESS, MOST, UTILITIES, width
from dpsql.ledger.amount import format_delta, format_epsilon
from dpsql.schema import Unit

NANO = 10**9
OPERATIONS = (
    "size", "leaf_counts", "leaf_sums", "leaf_labels", "histograms", "choose", "score_counts", "pick", "linear",
    "later",
)  # fmt: skip
#: Operations that read public features alone. They cost nothing, and only a plan for labels may have them.
FREE = ("public_size", "public_splits", "pseudo_counts")
#: The two sides of a semi-supervised plan.
UNLABELLED, LABELLED = "unlabelled", "labelled"
#: The labelled rows once more, with their labels left alone.
FEATURES = "features"
#: The exact type of each field of a step, by its annotation.
_KINDS: dict[str, type] = {"str": str, "int": int, "bool": bool}
#: The largest noise scale that the exact samplers take, with room to spare.
LARGEST_SCALE = 2**50


@dataclass(frozen=True)
class Step:
    """One request to the kernel.

    `trees` and `shared` say how rows meet trees: disjoint trees see each row once, shared trees each see every row.
    `axes` is the number of histograms per tree. `cells` is the number of values that come out, `classes` of
    them per leaf, `row_weight` what one row adds to the values of a tree (1, the steps of a target, or the
    sensitivity of a strategy). `utility` names
    what `choose` maximises, `most` what it cuts counts off at, `published` an unproven variant. A step of several
    `uses` may be asked that often; the uses share its epsilon, each naming its part. The operation "later" is an
    allowance for steps that are planned once an earlier answer is known (`Session.later`).
    """

    name: str
    operation: str
    nano_epsilon: int
    trees: int = 1
    shared: bool = False
    axes: int = 1
    cells: int = 1
    classes: int = 1
    row_weight: int = 1
    scans: int = 1
    utility: str = ""
    most: int = MOST
    uses: int = 1
    published: bool = False
    note: str = ""
    part: int = 0
    parts: int = 1
    side: str = ""

    def __post_init__(self) -> None:
        for declared in fields(self):
            given, kind = getattr(self, declared.name), _KINDS[str(declared.type)]
            if type(given) is not kind:  # a list in place of a flag could change once the step is checked
                raise ParameterError(declared.name, allowed=f"of type {kind.__name__}", given=type(given).__name__)
        if self.operation not in OPERATIONS + FREE:
            raise ParameterError("operation", allowed=f"one of {', '.join(OPERATIONS)}", given=self.operation)
        for name in ("nano_epsilon", "trees", "axes", "cells", "classes", "row_weight", "scans", "most", "uses"):
            given = getattr(self, name)
            if given < (0 if name == "nano_epsilon" and self.free else 1):
                raise ParameterError(name, allowed="a positive whole number", given=given)
        if (self.operation in ("choose", "public_splits")) != (self.utility in UTILITIES):
            raise ParameterError("utility", allowed=f"one of {', '.join(UTILITIES)}, for choose", given=self.utility)
        if self.operation == "public_splits" and self.utility not in CLASSLESS:
            raise ParameterError(
                "utility", allowed="one that reads no label, as the answer gets no noise", given=self.utility
            )
        if self.nano_epsilon < self.uses and not self.free:
            raise ParameterError("epsilon", allowed=f"at least {self.uses / NANO:.9f}", given=self.nano_epsilon / NANO)

    @property
    def free(self) -> bool:
        """Whether the step reads public features alone."""
        return self.operation in FREE

    @property
    def cost(self) -> int:
        """The step's nano-epsilon."""
        return self.nano_epsilon

    @property
    def epsilon(self) -> Fraction:
        """The step's epsilon as an exact fraction."""
        return Fraction(self.nano_epsilon, NANO)

    def sensitivity(self, unit: Unit) -> int:
        """Return how much one unit can change all values together: its rows, in each shared tree, on each axis."""
        return unit.change * (self.trees if self.shared else 1) * self.axes * self.row_weight

    def scale(self, unit: Unit) -> Fraction:
        """Return the noise scale of a count: √2 times it is the standard deviation. 0 where everything is public."""
        return noise.scale(self, unit)

    def row_epsilon(self, unit: Unit) -> Fraction:
        """Return what one row's presence in one cell may cost, so that a whole unit costs the step's epsilon."""
        return noise.row_epsilon(self, unit)

    @property
    def width(self) -> int:
        """How far one row can move the utility that `choose` maximises (see `kernel/utility.py`)."""
        return width(self.utility, self.most)


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
    """A step that looks at one of several equal parts of the units, separated by ticket; it costs what it says.

    Enough rows for a choice, at a fraction of the work. That the others are not asked is not counted in their favour.
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

    `apart`: no unit is on both sides, so the larger cost counts. Within one table the side follows from the unit alone;
    of two tables the owner must have declared it. Otherwise somebody may be on both sides, and the costs add up.
    """

    unlabelled: Composition
    labelled: Composition
    apart: bool

    @property
    def cost(self) -> int:
        """The larger cost of both sides, or their sum."""
        costs = (self.unlabelled.cost, self.labelled.cost)
        return max(costs) if self.apart else sum(costs)


Composition = Step | Sequential | Parallel | Sample | Sides


@dataclass(frozen=True)
class Plan:
    """A method's plan on one dataset: its composition, its parameters, and the neighbour relation it is private for."""

    method: str
    composition: Composition
    unit: Unit
    parameters: Mapping[str, Any] = field(default_factory=dict)
    #: Where unlabelled rows are: a table, or a condition on the rows of this one. "" where none are asked for.
    unlabelled: str = ""

    def __post_init__(self) -> None:
        if not self.unit.labels and any(step.free for step in self.steps):
            raise ParameterError("plan", allowed="free steps only where labels alone are private", given=self.method)
        self._check_approximate()
        top = self.composition
        if any(map(has_sides, (top.unlabelled, top.labelled) if isinstance(top, Sides) else (top,))):
            raise ParameterError("plan", allowed="two sides at its top alone: each is charged apart", given=self.method)
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
    def kind(self) -> str:
        """What epsilon means in the ledger: rows (or units) come and go, or labels change."""
        if self.unit.approximate is not None:
            return "approximate"
        return "label" if self.unit.labels else "pure"

    @property
    def charge(self) -> int:
        """What the ledger is charged: nano-epsilon, or nano-rho where the kind is approximate."""
        allowed = self.unit.approximate
        return self.nano_epsilon if allowed is None else allowed.nano_rho

    def _check_approximate(self) -> None:
        """Refuse approximate privacy where it has no proof, or where it claims more than its rho keeps."""
        allowed = self.unit.approximate
        if allowed is None:
            return
        if self.unit.labels or isinstance(self.composition, Sides) or not self.private:
            why = "left out: labels alone, rows without labels and published forms are paid by epsilon alone"
            raise ParameterError("delta", allowed=why, given=allowed.delta)
        if allowed.nano_epsilon != self.nano_epsilon or allowed != noise.approximate(self.nano_epsilon, allowed.delta):
            raise ParameterError("plan", allowed="what its epsilon and delta allow", given=self.method)

    def cost_of(self, side: str) -> int:
        """Return what the steps of one side cost together; "" asks for all of a plan without sides."""
        found = self.composition
        if isinstance(found, Sides):
            return found.unlabelled.cost if side == UNLABELLED else found.labelled.cost
        return 0 if side == UNLABELLED else found.cost

    @property
    def private(self) -> bool:
        """Whether every step has a proof."""
        return not any(step.published for step in self.steps)

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps in order, each with the part of the units it looks at."""
        return placed(self.composition)

    def step(self, name: str) -> Step:
        """Return the step of that name."""
        return next(step for step in self.steps if step.name == name)

    def __str__(self) -> str:
        return describe_plan(self.to_dict(), self.nano_epsilon)

    @property
    def loss(self) -> dict[str, str]:
        """What a run may lose, as exact decimal text: epsilon, and under approximate privacy delta and rho."""
        allowed, epsilon = self.unit.approximate, {"epsilon": format_epsilon(self.nano_epsilon)}
        if allowed is None:
            return epsilon
        return epsilon | {"delta": format_delta(allowed.delta), "rho": format_epsilon(allowed.nano_rho)}

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values: what `--dry-run --json` prints and the ledger stores."""
        return {
            "method": self.method,
            **({"unlabelled": self.unlabelled} if self.unlabelled else {}),
            "neighbours": self.unit.neighbours,
            "unit": str(self.unit),
            **({} if self.unit.approximate is None else self.loss),
            "private": self.private,
            "composition": _shape(self.composition),
            "steps": [describe_step(step, self.unit) for step in self.steps],
            "parameters": dict(self.parameters),
        }


def placed(composition: Composition, within: Step | None = None) -> tuple[Step, ...]:
    """Return the steps of a composition in order, each with the part of the units it looks at.

    With `within` all of them stay within the part and the side of that step.
    """
    if within is None:
        return tuple(_placed(composition, 0, 1))
    return tuple(_placed(composition, within.part, within.parts, within.side))


def _placed(composition: Composition, part: int, parts: int, side: str = "") -> Iterator[Step]:
    """Yield the steps, each with its share of the units and its side: the composition says both, never the step."""
    if isinstance(composition, Step):
        yield replace(composition, part=part, parts=parts, side=side)
    elif isinstance(composition, Sequential):
        for inner in composition.parts:
            yield from _placed(inner, part, parts, side)
    elif isinstance(composition, Sample):
        yield from _placed(composition.part, part, parts * composition.of, side)
    elif isinstance(composition, Sides):
        yield from _placed(composition.unlabelled, part, parts, UNLABELLED)
        yield from _placed(composition.labelled, part, parts, LABELLED)
    else:
        count = len(composition.parts)
        for index, inner in enumerate(composition.parts):
            yield from _placed(inner, part + parts * index, parts * count, side)


def has_sides(composition: Composition) -> bool:
    """Whether two sides are part of a composition, itself included."""
    if isinstance(composition, Sequential | Parallel):
        return any(has_sides(part) for part in composition.parts)
    return isinstance(composition, Sides)


def _shape(composition: Composition) -> Any:
    if isinstance(composition, Step):
        return composition.name
    if isinstance(composition, Sample):
        return {f"one part of {composition.of}": composition.part.name}
    if isinstance(composition, Sides):
        word = "sides, apart" if composition.apart else "sides, not apart"
        return {word: {UNLABELLED: _shape(composition.unlabelled), LABELLED: _shape(composition.labelled)}}
    word = "sequential" if isinstance(composition, Sequential) else "parallel"
    return {word: [_shape(part) for part in composition.parts]}
