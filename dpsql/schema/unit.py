"""Whom a run protects: the privacy unit that the owner declares, and the neighbour relation in words."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dpsql.errors import SchemaError
from dpsql.schema.features import check_name


@dataclass(frozen=True)
class Approximate:
    """Approximate privacy of a whole run: what was asked for, and the rho that keeps it (see `kernel/noise.py`)."""

    nano_epsilon: int
    delta: Decimal
    nano_rho: int

    @property
    def rate(self) -> Fraction:
        """How much rho each epsilon of the run's plan stands for."""
        return Fraction(self.nano_rho, self.nano_epsilon)


@dataclass(frozen=True)
class Unit:
    """The privacy unit: one row (`column` is None), or all rows that share a value of `column`.

    At most `max_rows` rows of a unit are used; which ones is decided by a keyed hash. With `labels` only the labels are
    private: neighbours have the same rows, and those of one unit may have other labels. With `approximate` a run
    protects the unit by (epsilon, delta) instead of epsilon alone; owners declare neither of the two.
    """

    column: str | None = None
    max_rows: int = 1
    labels: bool = False
    approximate: Approximate | None = None

    def __post_init__(self) -> None:
        if self.column is not None:
            check_name(self.column)
        if isinstance(self.max_rows, bool) or not isinstance(self.max_rows, int) or not 1 <= self.max_rows <= 10**6:
            raise SchemaError("privacy_unit: max_rows must be a whole number from 1 to 1000000.")

    def __str__(self) -> str:
        whole = "row" if self.column is None else f'"{self.column}", at most {self.max_rows} rows each'
        return f"label of a {whole}" if self.labels else whole

    @property
    def change(self) -> int:
        """How many counts of one tree a unit can change by one: its rows, or for each label one down and one up."""
        return self.max_rows * (2 if self.labels else 1)

    @property
    def neighbours(self) -> str:
        """The neighbour relation in words, as printed on every model and every ledger entry."""
        if self.labels:
            return "change the label of one row" if self.column is None else f'change all labels of one "{self.column}"'
        if self.column is None:
            return "add or remove one row"
        return f'add or remove all rows of one "{self.column}" (at most {self.max_rows} are used)'
