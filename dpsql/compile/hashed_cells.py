"""The cell of a hashed category as SQL: one hash of the row's text, modulo the number of cells.

    COALESCE(CAST('0x' || SUBSTRING(MD5(CAST("job" AS TEXT)), 1, 8) AS UBIGINT) % 63, 63)

Databases spell the hash differently (`text_hash` of `dpsql/spelling.py`), and all give the same number, that of
`dpsql/schema/hashed.py`. A hash of NULL is NULL, which has the last cell.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.compile.vocabulary import Vocabulary, int_literal
from dpsql.schema import Hashed


def hashed_cell_expression(feature: Hashed, value: exp.Expr, vocabulary: Vocabulary) -> exp.Expr:
    """Return the cell of a column's value; the expression is total: NULL has a cell too."""
    return remainder_or_last(vocabulary.text_hash(exp.cast(value, exp.DataType.Type.TEXT)), feature)


def remainder_or_last(number: exp.Expr, feature: Hashed) -> exp.Expr:
    """Return the remainder of a hash divided by the number of cells, or the cell of NULL where there is no hash."""
    remainder = exp.Mod(this=number, expression=int_literal(feature.hash_cells))
    return exp.Coalesce(this=remainder, expressions=[int_literal(feature.null_cell)])


def hashed_condition(feature: Hashed, value: exp.Expr, cells: NDArray[np.bool_], vocabulary: Vocabulary) -> exp.Expr:
    """Return the condition that a column's value falls into one of the marked cells."""
    numbers = np.flatnonzero(cells).tolist()
    if len(numbers) in (0, len(cells)):
        return exp.true() if numbers else exp.false()
    cell = hashed_cell_expression(feature, value, vocabulary)
    if len(numbers) == 1:
        return exp.EQ(this=cell, expression=int_literal(numbers[0]))
    return exp.In(this=cell, expressions=[int_literal(number) for number in numbers])
