"""What one run promises: which unit it protects, whether labels alone are private, and whether a delta is allowed.

The owner declares the unit once (`schema/unit.py`). Each run then promises something about that unit, and the promise
is printed on every ledger entry and every model. The plan of a method carries a promise; the kernel refuses a plan
whose promise names another unit than the declared one (`kernel/unlabelled_rows.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dpsql.schema import Unit


@dataclass(frozen=True)
class Approximate:
    """(epsilon, delta) for one run: what was asked for, and the rho that implies it (see `kernel/noise.py`).

    `selection_delta` is the part of delta that a step which selects common values may use up (`CommonValues` of
    `kernel/operations.py`). The rho then implies epsilon at the rest of delta.
    """

    nano_epsilon: int
    delta: Decimal
    nano_rho: int
    selection_delta: Decimal = Decimal(0)

    @property
    def rate(self) -> Fraction:
        """How much rho a step gets for each unit of epsilon that it has in the plan."""
        return Fraction(self.nano_rho, self.nano_epsilon)


@dataclass(frozen=True)
class Promise:
    """The neighbour relation of one run, and the kind of privacy that the run has under it.

    Neighbouring tables differ in one unit: one table has all rows of the unit, the other has none of them. With
    `labels_only` both have the same rows, and differ in what the labels of one unit say. With `approximate` the run is
    (epsilon, delta)-differentially private, and otherwise epsilon-differentially private.

    >>> from dpsql.schema import Unit
    >>> Promise(Unit("person", 3), labels_only=True).change
    6
    """

    unit: Unit
    labels_only: bool = False
    approximate: Approximate | None = None

    def __str__(self) -> str:
        return f"label of a {self.unit}" if self.labels_only else str(self.unit)

    @property
    def change(self) -> int:
        """c, the number of counts of one tree that a unit can change by 1: one a row, or two a label (−1 and +1)."""
        return self.unit.max_rows * (2 if self.labels_only else 1)

    @property
    def neighbours(self) -> str:
        """The neighbour relation in words, as printed on every model and every ledger entry."""
        if not self.labels_only:
            return self.unit.neighbours
        column = self.unit.column
        return "change the label of one row" if column is None else f'change all labels of one "{column}"'

    @property
    def kind(self) -> str:
        """Which budget of the ledger pays: "pure" or "label" (in epsilon), or "approximate" (in rho)."""
        if self.approximate is not None:
            return "approximate"
        return "label" if self.labels_only else "pure"
