"""The functions that DuckDB spells its own way (the protocol of `dpsql/spelling.py`)."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.engines.duckdb.lists import DuckDBLists
from dpsql.engines.standard_vocabulary import StandardVocabulary, lowest_bit
from dpsql.spelling import Lists

DIALECT = "duckdb"


class DuckDBVocabulary(StandardVocabulary):
    """DuckDB's own spellings."""

    dialect = DIALECT
    functions = StandardVocabulary.functions | {"hash", "list_position", "xor"}
    lists: Lists | None = DuckDBLists()
    macros = True

    def position(self, values: Sequence[str], text: exp.Expr) -> exp.Expr:
        """Return `LIST_POSITION([…], text) - 1`: NULL when absent; 25 times cheaper than IN."""
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
            mixed = exp.Anonymous(this="XOR", expressions=[state, _as_unsigned(key)])
            state = exp.func("HASH", mixed)
        return state

    def row_address(self) -> exp.Expr:
        """Return `rowid`, the address of a row in a base table."""
        return exp.column("rowid")

    def word(self, cell: exp.Expr) -> exp.Expr:
        """Return the cell as UBIGINT."""
        return exp.cast(cell, exp.DataType.Type.UBIGINT)

    def bit(self, plane: exp.Expr, cell: exp.Expr) -> exp.Expr:
        """Return `CAST((plane >> cell) & 1 AS INT)`."""
        return lowest_bit(plane, cell)


def _as_unsigned(key: int | str) -> exp.Expr:
    value = exp.Placeholder(this=key) if isinstance(key, str) else exp.Literal.number(key)
    return exp.cast(value, exp.DataType.Type.UBIGINT)
