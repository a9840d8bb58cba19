"""The privacy unit: whom the owner wants protected. What one run promises about it is in `kernel/promise.py`."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.errors import SchemaError
from dpsql.schema.features import check_name


@dataclass(frozen=True)
class Unit:
    """The privacy unit: one row (`column` is None), or all rows that share a value of `column`.

    At most `max_rows` rows of a unit are used; which ones is decided by a keyed hash.
    """

    column: str | None = None
    max_rows: int = 1

    def __post_init__(self) -> None:
        if self.column is not None:
            check_name(self.column)
        if isinstance(self.max_rows, bool) or not isinstance(self.max_rows, int) or not 1 <= self.max_rows <= 10**6:
            raise SchemaError("privacy_unit: max_rows must be a whole number from 1 to 1000000.")

    def __str__(self) -> str:
        return "row" if self.column is None else f'"{self.column}", at most {self.max_rows} rows each'

    @property
    def neighbours(self) -> str:
        """The neighbour relation in words, for runs that protect all of a unit's rows and not the labels alone."""
        if self.column is None:
            return "add or remove one row"
        return f'add or remove all rows of one "{self.column}" (at most {self.max_rows} are used)'
