"""What the values of a type can be, from its name in a catalog: the range of numbers, the length of texts.

The names are those that the catalogs of all engines write. A name that is not listed has no limits here, so that
nothing is refused for a type that is not known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from dpsql.engines.base import Column

#: The bits of each signed type of integers.
_SIGNED = {"tinyint": 8, "smallint": 16, "int": 32, "integer": 32, "bigint": 64, "hugeint": 128}
#: The bits of each unsigned type of integers.
_UNSIGNED = {"utinyint": 8, "usmallint": 16, "uinteger": 32, "ubigint": 64, "uhugeint": 128}
_CLICKHOUSE_INTEGER = re.compile(r"(U?)Int(8|16|32|64|128|256)")
_CLICKHOUSE_SHELL = re.compile(r"(?:LowCardinality\(|Nullable\()+(.*?)\)+")
_DECIMAL = re.compile(r"(?:decimal|numeric)\(\s*([0-9]+)\s*,\s*([0-9]+)\s*\)", re.IGNORECASE)
_TEXT = re.compile(r"(?:varchar|char|character varying|character)\(\s*([0-9]+)\s*\)", re.IGNORECASE)


@dataclass(frozen=True)
class TypeLimits:
    """The least and the most that a type of numbers holds, and the most characters of a type of texts."""

    least: Decimal | None = None
    most: Decimal | None = None
    length: int | None = None


def type_limits(column: Column) -> TypeLimits:
    """Return the limits of a column's type; those that are not known are None.

    >>> [type_limits(Column("x", kind, "integer")).most for kind in ("UTINYINT", "Nullable(Int8)")]
    [Decimal('255'), Decimal('127')]
    >>> type_limits(Column("x", "decimal(4,2)", "real")).most, type_limits(Column("x", "character(3)", "text")).length
    (Decimal('99.99'), 3)
    """
    kind = column.type.strip()
    if column.family == "integer":
        return _integer_limits(kind)
    decimal, text = _DECIMAL.fullmatch(kind), _TEXT.fullmatch(kind)
    if decimal and column.family == "real":
        digits, places = int(decimal[1]), int(decimal[2])
        most = Decimal((0, (9,) * digits, -places)) if digits else Decimal(0)
        return TypeLimits(-most, most)
    if text and column.family == "text":
        return TypeLimits(length=int(text[1]))
    return TypeLimits()


def _integer_limits(kind: str) -> TypeLimits:
    shell = _CLICKHOUSE_SHELL.fullmatch(kind)
    word = shell[1] if shell else kind
    listed = _CLICKHOUSE_INTEGER.fullmatch(word)
    if listed:
        return _range(int(listed[2]), signed=not listed[1])
    if word.lower() in _SIGNED:
        return _range(_SIGNED[word.lower()], signed=True)
    return _range(_UNSIGNED[word.lower()], signed=False) if word.lower() in _UNSIGNED else TypeLimits()


def _range(bits: int, *, signed: bool) -> TypeLimits:
    if signed:
        return TypeLimits(Decimal(-(2 ** (bits - 1))), Decimal(2 ** (bits - 1) - 1))
    return TypeLimits(Decimal(0), Decimal(2**bits - 1))
