"""What most databases spell alike; an engine's own vocabulary says what it spells otherwise.

The protocol is that of `dpsql/spelling.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dpsql.spelling import Lists, RowByRow


class StandardVocabulary:
    """The common spellings: trees are joins, level by level, and the cell of a number is worked out in doubles."""

    functions = frozenset({"is_nan"})
    row_by_row: RowByRow | None = None
    step: Callable[[exp.Expr, int, int], exp.Expr] | None = None
    lists: Lists | None = None
    macros = False
    levels_apart = True
    star_except = True

    def is_nan(self, number: exp.Expr) -> exp.Expr:
        """Return `ISNAN(number)`."""
        return exp.func("ISNAN", number)

    def row_number(self) -> exp.Expr:
        """Return `ROW_NUMBER() OVER ()`."""
        return exp.Window(this=exp.RowNumber())

    def word(self, cell: exp.Expr) -> exp.Expr:
        """Return the cell as BIGINT: sixty bits of it are used."""
        return exp.Cast(this=cell, to=exp.DataType(this=exp.DataType.Type.BIGINT))

    def bit(self, plane: exp.Expr, cell: exp.Expr) -> exp.Expr:
        """Return `CAST((plane >> CAST(cell AS INT)) & 1 AS INT)`: a shift takes an INT."""
        return lowest_bit(plane, exp.Cast(this=cell, to=exp.DataType(this=exp.DataType.Type.INT)))

    def number(self, value: exp.Expr, *, decimal: bool) -> exp.Expr:
        """Return the value cast to DOUBLE: every number of 38 digits fits."""
        return exp.cast(value, exp.DataType.Type.DOUBLE)

    def clamp(self, number: exp.Expr, lower: float, upper: float) -> exp.Expr:
        """Return the number as it is: past the largest double there is infinity."""
        return number

    def day(self, text: str) -> exp.Expr:
        """Return `CAST('2020-01-31' AS DATE)`."""
        return exp.cast(exp.Literal.string(text), exp.DataType.Type.DATE)


def lowest_bit(plane: exp.Expr, places: exp.Expr) -> exp.Expr:
    """Return `CAST((plane >> places) & 1 AS INT)`."""
    moved = exp.Paren(this=exp.BitwiseRightShift(this=plane, expression=places))
    bit = exp.BitwiseAnd(this=moved, expression=exp.Literal.number(1))
    return exp.Cast(this=bit, to=exp.DataType(this=exp.DataType.Type.INT))
