"""The functions that ClickHouse spells its own way (the protocol of `dpsql/spelling.py`), and how it is rendered."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.engines.standard_vocabulary import StandardVocabulary, lowest_bit

DIALECT = "clickhouse"
_BITS = {
    exp.BitwiseAnd: "bitAnd", exp.BitwiseOr: "bitOr", exp.BitwiseXor: "bitXor",
    exp.BitwiseLeftShift: "bitShiftLeft", exp.BitwiseRightShift: "bitShiftRight",
}  # fmt: skip


class ChdbVocabulary(StandardVocabulary):
    """ClickHouse's own spellings. Trees are joins, level by level; a cell is worked out in doubles, as in DuckDB."""

    dialect = DIALECT
    functions = StandardVocabulary.functions | {"indexof", "siphash64keyed", "transform"}

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

    def row_address(self) -> None:
        """Return nothing: parts of a table are merged at any time. A row is known by its features, as in Spark."""

    def word(self, cell: exp.Expr) -> exp.Expr:
        """Return the cell as UInt64."""
        return exp.cast(cell, exp.DataType.Type.UBIGINT)

    def bit(self, plane: exp.Expr, cell: exp.Expr) -> exp.Expr:
        """Return `CAST(bitAnd(bitShiftRight(plane, cell), 1) AS Int32)`."""
        return lowest_bit(plane, cell)

    def day(self, text: str) -> exp.Expr:
        """Return `CAST('2020-01-31' AS Date32)`: a Date begins in 1970."""
        return exp.cast(exp.Literal.string(text), exp.DataType.Type.DATE32)


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
