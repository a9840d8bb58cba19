"""Which columns can be hashed categories: those whose values have one text, the same bytes on every database.

The cell of a value follows from the bytes of its text. A value with two texts would have two cells, and a text whose
bytes differ between databases would have another cell in an exported model. What is refused here is told by the catalog
alone.
"""

from __future__ import annotations

from dpsql.engines.base import Column, TableInfo
from dpsql.errors import SchemaError
from dpsql.kernel.datasets.untyped_columns import fits_families

#: The families of types that a hashed category may have.
HASHED_FAMILIES = ("text", "integer", "date")
#: Why a column of another family is none, and what to do, by family.
_REASONS = {
    "real": ("databases write the same number in different ways (1, 1.0, 1e0)", "{type: numeric, lower: …, upper: …}"),
    "boolean": ("true and false need no hash, and some databases write them as 1 and 0", "{type: boolean}"),
}
_OTHERWISE = (
    "databases write its values in different ways",
    "turn it into text in a view that you register, or leave it out",
)


def check_hashed(info: TableInfo, name: str) -> None:
    """Raise SchemaError with the reason where a column that is there cannot be a hashed category."""
    column = info.column(name)
    if column is None:
        return
    reason, hint = _why_not(column)
    if reason:
        raise SchemaError(
            f'column "{name}" of "{info.name}" is {column.type}, which cannot be a hashed feature: {reason}.',
            hint=hint,
        )


def _why_not(column: Column) -> tuple[str, str]:
    if not fits_families(column, HASHED_FAMILIES):
        return _REASONS.get(column.family, _OTHERWISE)
    if column.encoding and column.family == "text":
        return (
            f"its texts are stored in {column.encoding}, and other bytes than those of UTF-8 would be hashed",
            "restore a dump of it into a database of encoding UTF8",
        )
    return "", ""
