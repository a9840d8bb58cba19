"""The functions that DuckDB spells its own way (the protocol of `dpsql/spelling.py`)."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.engines.duckdb.lists import DuckDBLists
from dpsql.engines.standard_vocabulary import StandardVocabulary, lowest_bit, md5_digits
from dpsql.spelling import Lists

DIALECT = "duckdb"
#: The bytes up to which a text is joined with others as it is.
_SHORT_TEXT = 1000
#: The types of times that reach further than a TIMESTAMP. Tables that are loaded from Arrow or pandas have them.
_COARSE = ("TIMESTAMP_S", "TIMESTAMP_MS")


class DuckDBVocabulary(StandardVocabulary):
    """DuckDB's own spellings."""

    dialect = DIALECT
    functions = StandardVocabulary.functions | {
        "epoch",
        "hash",
        "is_inf",
        "list_position",
        "md5",
        "strlen",
        "substring",
        "xor",
    }
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

    def text_hash(self, text: exp.Expr) -> exp.Expr:
        """Return `CAST('0x' || SUBSTRING(MD5(text), 1, 8) AS UBIGINT)`: MD5_NUMBER_UPPER takes three times as long."""
        marked = exp.DPipe(this=exp.Literal.string("0x"), expression=md5_digits(text))
        return exp.cast(exp.Paren(this=marked), exp.DataType.Type.UBIGINT)

    def readable_text(self, text: exp.Expr, most_bytes: int) -> exp.Expr:
        """Return `CASE WHEN STRLEN(text) <= most_bytes THEN text END`: every text here is UTF-8."""
        short = exp.LTE(
            this=exp.Anonymous(this="STRLEN", expressions=[text.copy()]), expression=exp.Literal.number(most_bytes)
        )
        return exp.Case(ifs=[exp.If(this=short, true=text)])

    def share_test(self, values: Sequence[exp.Expr], key: str, share: int, parts: int) -> exp.Expr:
        """Return `MD5('key' || '|' || text || …) < 'digits'`: DuckDB's own hash may change with its version.

        A long text is hashed by itself first, so that no text becomes longer than a text can be. Equal numbers have one
        text: decimals of a column have one scale, and -0.0 counts as 0.0.
        """
        text: exp.Expr = exp.Literal.string(key)
        for value in values:
            parted = exp.DPipe(this=text, expression=exp.Literal.string("|"))
            text = exp.DPipe(this=parted, expression=_short_text(value))
        limit = exp.Literal.string(f"{(share << 128) // parts:032x}")
        return exp.LT(this=exp.func("MD5", text), expression=limit)

    def row_address(self) -> exp.Expr:
        """Return `rowid`, the address of a row in a base table."""
        return exp.column("rowid")

    def word(self, cell: exp.Expr) -> exp.Expr:
        """Return the cell as UBIGINT."""
        return exp.cast(cell, exp.DataType.Type.UBIGINT)

    def bit(self, plane: exp.Expr, cell: exp.Expr) -> exp.Expr:
        """Return `CAST((plane >> cell) & 1 AS INT)`."""
        return lowest_bit(plane, cell)

    def seconds(self, value: exp.Expr, kind: str) -> exp.Expr:
        """Return `CASE WHEN ISINF(value) THEN … ELSE EPOCH(value) END`: of an endless date EPOCH gives NULL.

        EPOCH takes every type of dates and times. EPOCH_US would be a whole number, and fails on dates far away. Both
        fail on a TIMESTAMP_S or TIMESTAMP_MS that no TIMESTAMP can hold: such a one counts as endless.
        """
        later = exp.GT(this=value.copy(), expression=self.day("2000-01-01"))
        endless: exp.Expr = exp.Case(
            ifs=[exp.If(this=later, true=exp.Literal.number("1e300"))], default=exp.Literal.number("-1e300")
        )
        branches: list[tuple[exp.Expr, exp.Expr]] = []
        moment = value
        if kind.upper() in _COARSE:
            moment = exp.TryCast(this=value, to=exp.DataType(this=exp.DataType.Type.TIMESTAMP))
            too_far = moment.copy().is_(exp.null())
            branches = [(value.copy().is_(exp.null()), exp.null()), (too_far, endless.copy())]
        branches.append((exp.IsInf(this=moment.copy()), endless))
        ifs = [exp.If(this=test, true=number) for test, number in branches]
        return exp.Case(ifs=ifs, default=exp.Anonymous(this="EPOCH", expressions=[moment]))


def _short_text(value: exp.Expr) -> exp.Expr:
    """Return a value's text, or the MD5 of a long one; NULL has the text of 0.0.

    NaN has a sign too, and all NaN are equal to DuckDB; the text of a negative one is `-nan`, or `-na` and any byte.
    All texts that begin so count as `nan`.
    """
    given = exp.cast(value.copy(), exp.DataType.Type.TEXT)
    not_negative = exp.Nullif(this=given, expression=exp.Literal.string("-0.0"))
    text = exp.Coalesce(this=not_negative, expressions=[exp.Literal.string("0.0")])
    start = exp.Substring(this=given.copy(), start=exp.Literal.number(1), length=exp.Literal.number(3))
    signed_nan = exp.If(this=start.eq(exp.Literal.string("-na")), true=exp.Literal.string("nan"))
    length = exp.Anonymous(this="STRLEN", expressions=[text])
    short = exp.If(this=exp.LTE(this=length, expression=exp.Literal.number(_SHORT_TEXT)), true=text.copy())
    return exp.Case(ifs=[signed_nan, short], default=exp.func("MD5", text.copy()))


def _as_unsigned(key: int | str) -> exp.Expr:
    value = exp.Placeholder(this=key) if isinstance(key, str) else exp.Literal.number(key)
    return exp.cast(value, exp.DataType.Type.UBIGINT)
