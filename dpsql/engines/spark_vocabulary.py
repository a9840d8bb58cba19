"""The functions that Spark spells its own way (the protocol of `compile/vocabulary.py`).

Spark works rows off in generated code and joins a small table by a lookup, so trees are joins, level by level. Its
integers are signed: words and hashes keep to 63 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

DIALECT = "spark"


class SparkVocabulary:
    """Spark's own spellings."""

    dialect = DIALECT
    lazy = False
    whole_cells = True
    macros = False
    star_except = True

    def at_least(self, number: exp.Expr, edge: float) -> exp.Expr:
        """Refuse: trees are joins here, and nothing asks for it."""
        raise NotImplementedError

    def is_nan(self, number: exp.Expr) -> exp.Expr:
        """Return `ISNAN(number)`."""
        return exp.func("ISNAN", number)

    def position(self, values: Sequence[str], text: exp.Expr) -> exp.Expr:
        """Return `NULLIF(ARRAY_POSITION(ARRAY(…), text), 0) - 1`: a place that is none is 0 here."""
        listed = exp.Array(expressions=[exp.Literal.string(value) for value in values])
        place = exp.Anonymous(this="ARRAY_POSITION", expressions=[listed, text])
        found = exp.Nullif(this=place, expression=exp.Literal.number(0))
        return exp.Sub(this=found, expression=exp.Literal.number(1))

    def keyed_hash(self, values: Sequence[exp.Expr], keys: Sequence[int | str]) -> exp.Expr:
        """Return a hash in as many keyed rounds as there are keys, cut to 63 bits: integers here are signed.

        XXHASH64 is public and not keyed, so each round hashes the state and a secret key into it, which mixes both, as
        adding and hashing again does in DuckDB. A key is a text: a number would stand in the generated code, and Java
        would have to compile all of it anew for each session. Equal numbers have equal hashes: it takes -0.0 for 0.0,
        and every NaN for the same one.
        """
        state: exp.Expr = exp.Anonymous(this="XXHASH64", expressions=[value.copy() for value in values])
        for key in keys:
            state = exp.Anonymous(this="XXHASH64", expressions=[state, _key(key)])
        return exp.Paren(this=exp.BitwiseAnd(this=state, expression=exp.Literal.number(2**63 - 1)))

    def row_address(self) -> None:
        """Return nothing: a row's place follows from how files were cut into tasks, and can change within a session.

        A row is then known by its features. A task that runs again after a lost worker finds the same tickets, and
        another row changes no ticket but its own. Equal rows share one, which costs accuracy alone.
        """

    def row_number(self) -> exp.Expr:
        """Return `MONOTONICALLY_INCREASING_ID()`: no two rows have the same; kept with them, it never changes."""
        return exp.Anonymous(this="MONOTONICALLY_INCREASING_ID", expressions=[])

    def word(self, cell: exp.Expr) -> exp.Expr:
        """Return the cell as BIGINT: sixty bits of it are used."""
        return exp.Cast(this=cell, to=exp.DataType(this=exp.DataType.Type.BIGINT))

    def bit(self, plane: exp.Expr, cell: exp.Expr) -> exp.Expr:
        """Return `CAST((plane >> CAST(cell AS INT)) & 1 AS INT)`: a shift takes an INT."""
        places = exp.Cast(this=cell, to=exp.DataType(this=exp.DataType.Type.INT))
        moved = exp.Paren(this=exp.BitwiseRightShift(this=plane, expression=places))
        found = exp.BitwiseAnd(this=moved, expression=exp.Literal.number(1))
        return exp.Cast(this=found, to=exp.DataType(this=exp.DataType.Type.INT))

    def number(self, value: exp.Expr, *, decimal: bool) -> exp.Expr:
        """Return the value cast to DOUBLE: every number of 38 digits fits."""
        return exp.cast(value, exp.DataType.Type.DOUBLE)

    def clamped(self, number: exp.Expr, lower: float, upper: float) -> exp.Expr:
        """Return the number as it is: past the largest double there is infinity."""
        return number

    def bucket(self, number: exp.Expr, edges: Sequence[float]) -> exp.Expr:
        """Refuse: cells are worked out by arithmetic, and nothing here asks for a search."""
        raise NotImplementedError

    def step(self, number: exp.Expr, cells: int, missing: int) -> exp.Expr:
        """Return `LEAST(GREATEST(CAST(number AS INT), 0), cells - 1)`, with a number of the missing cell for no number.

        The cast cuts off towards zero, which is down wherever the result is not clamped anyway, and takes what is too
        large for the largest INT. After the first two calls nothing is NULL, which keeps the generated code short.
        """
        middle = exp.Literal.number(f"{missing}.5e0")
        given = exp.Coalesce(this=number, expressions=[middle])
        known = exp.Anonymous(this="NANVL", expressions=[given, middle.copy()])
        whole = exp.Cast(this=known, to=exp.DataType(this=exp.DataType.Type.INT))
        floored = exp.Greatest(this=whole, expressions=[exp.Literal.number(0)], ignore_nulls=True)
        return exp.Least(this=floored, expressions=[exp.Literal.number(cells - 1)], ignore_nulls=True)


def _key(key: int | str) -> exp.Expr:
    return exp.Placeholder(this=key) if isinstance(key, str) else exp.Literal.string(str(key))
