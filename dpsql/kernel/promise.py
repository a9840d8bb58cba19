"""What one run promises: which unit it protects, whether labels alone are private, and whether a delta is allowed.

The owner declares the unit once (`schema/unit.py`). A run then promises something about it, and the promise is what is
printed on every ledger entry and every model. A method's plan carries a promise; the kernel refuses one whose unit is
not the declared unit (`kernel/unlabelled_rows.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dpsql.schema import Unit


@dataclass(frozen=True)
class Approximate:
    """(epsilon, delta) for a whole run: what was asked for, and the rho that keeps it (see `kernel/noise.py`)."""

    nano_epsilon: int
    delta: Decimal
    nano_rho: int

    @property
    def rate(self) -> Fraction:
        """How much rho each epsilon of the run's plan stands for."""
        return Fraction(self.nano_rho, self.nano_epsilon)


@dataclass(frozen=True)
class Promise:
    """The neighbour relation of one run, and the kind of privacy that it keeps for it.

    Neighbouring tables differ in one unit: all its rows come or go. With `labels_only` they have the same rows, and the
    labels of one unit may say something else. With `approximate` the run keeps (epsilon, delta) instead of epsilon.

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
        """How many counts of one tree a unit can change by one: its rows, or for each label one down and one up."""
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
