"""The functions that DuckDB spells its own way (the protocol of `compile/vocabulary.py`)."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

DIALECT = "duckdb"


class DuckDBVocabulary:
    """DuckDB's own spellings."""

    dialect = DIALECT
    lazy = False
    macros = True
    star_except = True
    whole_cells = False

    def is_nan(self, number: exp.Expr) -> exp.Expr:
        """Return `ISNAN(number)`."""
        return exp.func("ISNAN", number)

    def position(self, values: Sequence[str], text: exp.Expr) -> exp.Expr:
        """Return `LIST_POSITION([…], text) - 1`: NULL when absent; 25 times cheaper than IN (PERF.md)."""
        listed = exp.Array(expressions=[exp.Literal.string(value) for value in values])
        return exp.Sub(this=exp.func("LIST_POSITION", listed, text), expression=exp.Literal.number(1))

    def keyed_hash(self, values: Sequence[exp.Expr], keys: Sequence[int | str]) -> exp.Expr:
        """Return a hash in as many keyed rounds as there are keys.

        DuckDB's `hash` is public and not keyed, and a key merely hashed along with the value only relabels the
        parts. So each round adds a secret key to the state and hashes again (an iterated Even–Mansour construction):
        which rows share a part then depends on the keys.
        """
        state: exp.Expr = exp.func("HASH", *(value.copy() for value in values))
        for key in keys:
            mixed = exp.Anonymous(this="XOR", expressions=[state, _unsigned(key)])
            state = exp.func("HASH", mixed)
        return state

    def row_address(self) -> exp.Expr:
        """Return `rowid`, the address of a row in a base table."""
        return exp.column("rowid")

    def row_number(self) -> exp.Expr:
        """Return `ROW_NUMBER() OVER ()`."""
        return exp.Window(this=exp.RowNumber())

    def word(self, cell: exp.Expr) -> exp.Expr:
        """Return the cell as UBIGINT."""
        return exp.cast(cell, exp.DataType.Type.UBIGINT)

    def bit(self, plane: exp.Expr, cell: exp.Expr) -> exp.Expr:
        """Return `CAST((plane >> cell) & 1 AS INT)`."""
        moved = exp.Paren(this=exp.BitwiseRightShift(this=plane, expression=cell))
        found = exp.BitwiseAnd(this=moved, expression=exp.Literal.number(1))
        return exp.Cast(this=found, to=exp.DataType(this=exp.DataType.Type.INT))

    def number(self, value: exp.Expr, *, decimal: bool) -> exp.Expr:
        """Return the value cast to DOUBLE."""
        return exp.cast(value, exp.DataType.Type.DOUBLE)

    def clamped(self, number: exp.Expr, lower: float, upper: float) -> exp.Expr:
        """Return the number as it is: past the largest double there is infinity."""
        return number

    def at_least(self, number: exp.Expr, edge: float) -> exp.Expr:
        """Refuse: nothing here asks for it."""
        raise NotImplementedError

    def bucket(self, number: exp.Expr, edges: Sequence[float]) -> exp.Expr:
        """Refuse: arithmetic over whole vectors is faster than any search, and nothing here asks for one."""
        raise NotImplementedError

    def step(self, number: exp.Expr, cells: int, missing: int) -> exp.Expr:
        """Refuse: cells are worked out in doubles here."""
        raise NotImplementedError


def _unsigned(key: int | str) -> exp.Expr:
    value = exp.Placeholder(this=key) if isinstance(key, str) else exp.Literal.number(key)
    return exp.cast(value, exp.DataType.Type.UBIGINT)
