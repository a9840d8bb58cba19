"""The cell of a hashed category as SQL: one hash of the row's text, modulo the number of cells.

    COALESCE(CAST('0x' || SUBSTRING(MD5(CAST("job" AS TEXT)), 1, 8) AS UBIGINT) % 63, 63)

Where some cells are listed, the text of that number is looked up as the value of a category would be.

Databases spell the hash differently (`text_hash` of `dpsql/spelling.py`), and all give the same number, that of
`dpsql/schema/hashed.py`. A hash of NULL is NULL, which has the last cell.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.compile.vocabulary import Vocabulary, int_literal, paren
from dpsql.schema import Categorical, Hashed


def hashed_cell_expression(feature: Hashed, value: exp.Expr, vocabulary: Vocabulary) -> exp.Expr:
    """Return the cell of a column's value; the expression is total: NULL has a cell too."""
    if not feature.listed:
        return hash_or_last(_hash_of(value, vocabulary), feature.hash_cells)
    listed, text = hash_category(feature, value, vocabulary)
    return exp.Coalesce(this=vocabulary.position(listed.values, text), expressions=[int_literal(feature.null_cell)])


def wide_hash_cell(value: exp.Expr, cells: int, vocabulary: Vocabulary) -> exp.Expr:
    """Return the cell of a column's value in a hash of so many cells, none of them listed; that of NULL is the last."""
    return hash_or_last(_hash_of(value, vocabulary), cells)


def hash_or_last(number: exp.Expr, cells: int) -> exp.Expr:
    """Return the remainder of a hash divided by the number of cells, or that number where there is no hash."""
    remainder = exp.Mod(this=number, expression=int_literal(cells))
    return exp.Coalesce(this=remainder, expressions=[int_literal(cells)])


def hash_category(feature: Hashed, value: exp.Expr, vocabulary: Vocabulary) -> tuple[Categorical, exp.Expr]:
    """Return a feature with listed cells as a category whose values are their numbers, and the text of a value's own.

    The cells of that category are those of the feature. The text is NULL for NULL.
    """
    number = exp.Mod(this=_hash_of(value, vocabulary), expression=int_literal(feature.hash_cells))
    text = exp.cast(paren(number), exp.DataType.Type.TEXT)
    return Categorical(feature.name, tuple(map(str, feature.listed))), text


def hashed_condition(feature: Hashed, value: exp.Expr, cells: NDArray[np.bool_], vocabulary: Vocabulary) -> exp.Expr:
    """Return the condition that a column's value falls into one of the marked cells of a hash with no cells listed."""
    numbers = np.flatnonzero(cells).tolist()
    if len(numbers) in (0, len(cells)):
        return exp.true() if numbers else exp.false()
    cell = hashed_cell_expression(feature, value, vocabulary)
    if len(numbers) == 1:
        return exp.EQ(this=cell, expression=int_literal(numbers[0]))
    return exp.In(this=cell, expressions=[int_literal(number) for number in numbers])


def _hash_of(value: exp.Expr, vocabulary: Vocabulary) -> exp.Expr:
    return vocabulary.text_hash(exp.cast(value, exp.DataType.Type.TEXT))
