"""The functions that ClickHouse spells its own way (the protocol of `dpsql/spelling.py`), and how it is rendered."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from dpsql.engines.standard_vocabulary import StandardVocabulary, lowest_bit
from dpsql.schema import HASH_DIGITS

DIALECT = "clickhouse"
_TWO = exp.Literal.number(2)
_BITS = {
    exp.BitwiseAnd: "bitAnd", exp.BitwiseOr: "bitOr", exp.BitwiseXor: "bitXor",
    exp.BitwiseLeftShift: "bitShiftLeft", exp.BitwiseRightShift: "bitShiftRight",
}  # fmt: skip


class ChdbVocabulary(StandardVocabulary):
    """ClickHouse's own spellings. Trees are joins, level by level; a cell is worked out in doubles, as in DuckDB."""

    dialect = DIALECT
    functions = StandardVocabulary.functions | {
        "indexof",
        "intdiv",
        "isvalidutf8",
        "length",
        "md5",
        "reinterpretasint64",
        "reinterpretasuint32",
        "reverse",
        "siphash64keyed",
        "substring",
        "tofloat64",
        "transform",
    }

    def is_nan(self, number: exp.Expr) -> exp.Expr:
        """Return `isNaN(number)`."""
        return exp.IsNan(this=number)

    def position(self, values: Sequence[str], text: exp.Expr) -> exp.Expr:
        """Return `nullIf(indexOf([…], text), 0) - 1`: a place that is none is 0 here."""
        listed = exp.Array(expressions=[exp.Literal.string(value) for value in values])
        place = exp.Anonymous(this="indexOf", expressions=[listed, text])
        place_or_null = exp.Nullif(this=place, expression=exp.Literal.number(0))
        return exp.Sub(this=place_or_null, expression=exp.Literal.number(1))

    def keyed_hash(self, values: Sequence[exp.Expr], keys: Sequence[int | str]) -> exp.Expr:
        """Return `sipHash64Keyed((key, key), …)`, cut to 63 bits, of the values as texts and of all further keys.

        A hash of NULL would be NULL, so it is that of an empty text. Equal numbers have equal hashes: -0.0 is 0.0, and
        every NaN has the same text.
        """
        first, second, *others = [_unsigned_type(key) for key in (*keys, *keys[:1])[: max(2, len(keys))]]
        hashed = [exp.Tuple(expressions=[first, second]), *map(_hashable, values), *others]
        state = exp.Anonymous(this="sipHash64Keyed", expressions=hashed)
        return exp.Paren(this=exp.BitwiseAnd(this=state, expression=exp.Literal.number(2**63 - 1)))

    def text_hash(self, text: exp.Expr) -> exp.Expr:
        """Return `reinterpretAsUInt32(reverse(substring(MD5(text), 1, 4)))`, as MD5 gives bytes here."""
        digest = exp.Anonymous(this="MD5", expressions=[text])
        first = exp.Substring(this=digest, start=exp.Literal.number(1), length=exp.Literal.number(HASH_DIGITS // 2))
        reverse = exp.Anonymous(this="reverse", expressions=[first])
        return exp.Anonymous(this="reinterpretAsUInt32", expressions=[reverse])

    def readable_text(self, text: exp.Expr, most_bytes: int) -> exp.Expr:
        """Return `CASE WHEN length(text) <= most_bytes AND isValidUTF8(text) THEN text END`: a String is any bytes."""
        short = exp.LTE(this=_call("length", text), expression=exp.Literal.number(most_bytes))
        return exp.Case(ifs=[exp.If(this=exp.And(this=short, expression=_call("isValidUTF8", text)), true=text)])

    def row_address(self) -> None:
        """Return nothing: parts of a table are merged at any time. A row is known by its features, as in Spark."""

    def word(self, cell: exp.Expr) -> exp.Expr:
        """Return the cell as UInt64."""
        return exp.cast(cell, exp.DataType.Type.UBIGINT)

    def bit(self, plane: exp.Expr, cell: exp.Expr) -> exp.Expr:
        """Return `CAST(bitAnd(bitShiftRight(plane, cell), 1) AS Int32)`."""
        return lowest_bit(plane, cell)

    def seconds(self, value: exp.Expr, kind: str) -> exp.Expr:
        """Return `toFloat64(value)`: whole seconds of a DateTime, and of a Date or Date32 days, which are multiplied.

        A DateTime64 is a whole number of parts of a second, as many as its type says. They are taken as they are: a
        conversion would fail on numbers far away. Parts finer than microseconds are rounded, half of one away from 0.
        """
        digits = re.search(r"DateTime64\(([0-9])", kind)
        if digits is None:
            seconds = _call("toFloat64", value)
            is_day = re.search("DateTime|timestamp", kind) is None
            return exp.Mul(this=seconds, expression=exp.Literal.number("86400.0e0")) if is_day else seconds
        parts, finer = _call("reinterpretAsInt64", value), int(digits[1]) - 6
        power = exp.Literal.number(10 ** abs(finer))
        if finer > 0:
            rest = exp.Mul(this=exp.Paren(this=exp.Mod(this=parts.copy(), expression=power.copy())), expression=_TWO)
            parts = exp.Add(this=_call("intDiv", parts, power), expression=_call("intDiv", rest, power.copy()))
        microseconds = _call("toFloat64", parts)
        if finer < 0:
            microseconds = exp.Mul(this=microseconds, expression=exp.Literal.number(f"{10**-finer}.0e0"))
        return exp.Div(this=microseconds, expression=exp.Literal.number("1000000.0e0"), typed=True)

    def moment(self, day: str, time: str, kind: str) -> None:
        """Return nothing: each type here has years of its own, and takes a literal beyond them for another moment."""

    def day(self, text: str) -> exp.Expr:
        """Return `CAST('2020-01-31' AS Date32)`: a Date begins in 1970."""
        return exp.cast(exp.Literal.string(text), exp.DataType.Type.DATE32)


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=[argument.copy() for argument in arguments])


def _unsigned_type(key: int | str) -> exp.Expr:
    value = exp.Placeholder(this=key) if isinstance(key, str) else exp.Literal.number(key)
    return exp.Cast(this=value, to=exp.DataType.build("UInt64", dialect=DIALECT))


def _hashable(value: exp.Expr) -> exp.Expr:
    text = exp.Coalesce(this=exp.cast(value, exp.DataType.Type.TEXT), expressions=[exp.Literal.string("")])
    zeros = [exp.Array(expressions=[exp.Literal.string(zero)]) for zero in ("-0", "0")]
    return exp.Anonymous(this="transform", expressions=[text, *zeros])


def render(query: exp.Expr) -> str:
    """Return a query's text; in ClickHouse bits, and casts that must not fail, are functions, and counts unsigned.

    The query is changed. A column keeps its name, which would be `roots.node` where a join has another `node`.
    """
    for node in reversed(list(query.walk())):
        if isinstance(node, exp.Column) and node.table and node.arg_key == "expressions" and not node.is_star:
            if isinstance(node.parent, exp.Select):
                node.replace(exp.Alias(this=node.copy(), alias=exp.to_identifier(node.name, quoted=True)))
        elif isinstance(node, exp.Binary) and type(node) in _BITS:
            parts = [node.this.unnest(), node.expression.unnest()]
            node.replace(exp.Anonymous(this=_BITS[type(node)], expressions=parts))
        elif isinstance(node, exp.Count) and not isinstance(node.parent, exp.Cast):
            node.replace(exp.cast(node.copy(), exp.DataType.Type.BIGINT))
        elif isinstance(node, exp.TryCast):
            kind = exp.Literal.string(node.to.sql(DIALECT))
            node.replace(exp.Anonymous(this="accurateCastOrNull", expressions=[node.this, kind]))
    return query.sql(DIALECT, identify=True)
