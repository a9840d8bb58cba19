"""The functions that PostgreSQL spells its own way (the protocol of `dpsql/spelling.py`).

PostgreSQL raises an error where others give infinity: when a number leaves the doubles, in a cast or in arithmetic. So
numbers are compared with edges, which cannot fail, and clamped before anything is computed from them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlglot import exp

from dpsql.engines.standard_vocabulary import StandardVocabulary, md5_digits

DIALECT = "postgres"
#: Number of values up to which one comparison after the other is fastest.
_FEW = 8
#: Number of values up to which a search among sorted texts is fastest; beyond it, a lookup in sorted JSON is.
_SEARCHED = 64
#: Stored bytes up to which cells fit into one record together: unpacked, they are at most 255 times as many (lz4).
_SHORT_CELLS = 2_000_000
_ADDRESS = exp.column("ctid")
_DOUBLE = exp.DataType.build("DOUBLE PRECISION", dialect=DIALECT)


class PostgresVocabulary(StandardVocabulary):
    """PostgreSQL's own spellings."""

    dialect = DIALECT
    functions = frozenset(
        {
            "collate",
            "extract",
            "getdatabaseencoding",
            "hash_record_extended",
            "hashint8extended",
            "hashtidextended",
            "json_extract",
            "md5",
            "octet_length",
            "pg_column_size",
            "row",
            "substring",
            "width_bucket",
        }
    )
    star_except = False

    def __init__(self) -> None:
        self.row_by_row = PostgresRowByRow()

    def is_nan(self, number: exp.Expr) -> exp.Expr:
        """Return `number = 'NaN'`: here NaN equals itself."""
        return exp.EQ(this=number, expression=_with_type("NaN", "DOUBLE PRECISION"))

    def position(self, values: Sequence[str], text: exp.Expr) -> exp.Expr:
        """Return a text's place: looked up in a JSON object, or searched for among the values in byte order.

        In the list that is searched, each value is followed by the next text in byte order, which is the value with
        chr(1) at its end. A text that falls between these two is the value; any other text is none of the values.
        """
        if len(values) <= _FEW:
            ways = [
                exp.If(this=exp.Literal.string(value), true=exp.Literal.number(n)) for n, value in enumerate(values)
            ]
            return exp.Case(this=text, ifs=ways)
        if len(values) > _SEARCHED or any(not _sortable(value) for value in values):
            listed = json.dumps({value: place for place, value in enumerate(values)}, ensure_ascii=False)
            entry = exp.JSONExtract(this=_with_type(listed, "JSONB"), expression=text, only_json_types=True)
            return exp.cast(exp.Paren(this=entry), exp.DataType.Type.INT)
        ordered = sorted(enumerate(values), key=lambda pair: pair[1].encode())
        edges = [part for _, value in ordered for part in (value, value + "\x01")]
        places = [part for place, _ in ordered for part in (str(place), "NULL")]
        searched = exp.Collate(this=text, expression=exp.to_identifier("C", quoted=True))
        bucket = exp.Anonymous(this="WIDTH_BUCKET", expressions=[searched, _array(edges, "TEXT[]")])
        cells = exp.Paren(this=_with_type("{" + ",".join(places) + "}", "INT[]"))
        return exp.Bracket(this=cells, expressions=[bucket], offset=1)

    def keyed_hash(self, values: Sequence[exp.Expr], keys: Sequence[int | str]) -> exp.Expr:
        """Return a hash in as many keyed rounds as there are keys, cut to 63 bits: integers here are signed.

        Values are hashed as a record, by the hash that belongs to the equality of their types: two spellings of one
        number are one unit, and have one ticket.
        """
        if values == [_ADDRESS]:
            table = exp.cast(exp.column("tableoid"), exp.DataType.Type.BIGINT)
            own = exp.BitwiseXor(this=_key(keys[0]), expression=table)  # parts of a table have addresses of their own
            state: exp.Expr = exp.Anonymous(this="HASHTIDEXTENDED", expressions=[_ADDRESS.copy(), own])
        else:
            state = _record_hash(values, keys[0])
        for key in keys[1:]:
            mixed = exp.BitwiseXor(this=state, expression=_key(key))
            state = exp.Anonymous(this="HASHINT8EXTENDED", expressions=[mixed, _key(key)])
        return exp.Paren(this=exp.BitwiseAnd(this=state, expression=exp.Literal.number(2**63 - 1)))

    def text_hash(self, text: exp.Expr) -> exp.Expr:
        """Return `CAST(CAST('x' || SUBSTRING(MD5(text), 1, 8) AS BIT(32)) AS BIGINT)`.

        MD5 takes the bytes of a text as the database stores them; the catalog says where these are not UTF-8.
        """
        marked = exp.DPipe(this=exp.Literal.string("x"), expression=md5_digits(text))
        bits = exp.Cast(this=exp.Paren(this=marked), to=exp.DataType.build("BIT(32)", dialect=DIALECT))
        return exp.cast(bits, exp.DataType.Type.BIGINT)

    def readable_text(self, text: exp.Expr, most_bytes: int) -> exp.Expr:
        """Return `CASE WHEN OCTET_LENGTH(text) <= most_bytes AND GETDATABASEENCODING() IN ('UTF8', 'LATIN1') …`.

        Such a database can send every text that it stores in UTF-8. Others (WIN1252) store bytes that mean nothing in
        UTF-8, and fail when they send them: of those, no text is read. Texts of several columns are compared with each
        other, byte by byte: the columns' own collations could differ, and then no comparison would be possible.
        """
        length = exp.Anonymous(this="OCTET_LENGTH", expressions=[text.copy()])
        short = exp.LTE(this=length, expression=exp.Literal.number(most_bytes))
        encoding = exp.Anonymous(this="GETDATABASEENCODING", expressions=[])
        sends_all = exp.In(this=encoding, expressions=[exp.Literal.string(name) for name in ("UTF8", "LATIN1")])
        by_bytes = exp.Collate(this=text, expression=exp.to_identifier("C", quoted=True))
        return exp.Case(ifs=[exp.If(this=exp.And(this=short, expression=sends_all), true=by_bytes)])

    def row_address(self) -> exp.Expr:
        """Return `ctid`, the address of a row; a session reads from one snapshot, so no row has two."""
        return _ADDRESS.copy()

    def number(self, value: exp.Expr, *, decimal: bool) -> exp.Expr:
        """Return the value as DOUBLE PRECISION; a NUMERIC that no double can hold is cut off first."""
        cast = exp.Cast(this=value, to=_DOUBLE.copy())
        if not decimal:
            return cast
        far, near = exp.Literal.number("1e300"), exp.Literal.number("1e-300")
        low, high = exp.Neg(this=far.copy()), exp.Neg(this=near.copy())
        tiny = exp.And(
            this=exp.GT(this=value.copy(), expression=high), expression=exp.LT(this=value.copy(), expression=near)
        )
        branches = [
            (exp.EQ(this=value.copy(), expression=_with_type("NaN", "DECIMAL")), _with_type("NaN", "DOUBLE PRECISION")),
            (exp.GT(this=value.copy(), expression=far.copy()), _with_type("1e300", "DOUBLE PRECISION")),
            (exp.LT(this=value.copy(), expression=low), _with_type("-1e300", "DOUBLE PRECISION")),
            (tiny, _with_type("0", "DOUBLE PRECISION")),
        ]
        return exp.Case(ifs=[exp.If(this=test, true=double) for test, double in branches], default=cast)

    def seconds(self, value: exp.Expr, kind: str) -> exp.Expr:
        """Return `CAST(EXTRACT(EPOCH FROM value) * 1000000 AS DOUBLE PRECISION) / 1e6`.

        EXTRACT gives a NUMERIC here, exactly, for every type of dates and times, and infinity for an endless one. The
        product is a whole number, which becomes the nearest double.
        """
        exact = exp.Extract(this=exp.var("EPOCH"), expression=value)
        microseconds = exp.Mul(this=exact, expression=exp.Literal.number(1_000_000))
        return exp.Div(this=exp.Cast(this=microseconds, to=_DOUBLE.copy()), expression=_double(1e6), typed=True)

    def clamp(self, number: exp.Expr, lower: float, upper: float) -> exp.Expr:
        """Return `LEAST(GREATEST(number, lower), upper)`, in doubles."""
        floored = exp.Greatest(this=number, expressions=[_double(lower)], ignore_nulls=True)
        return exp.Least(this=floored, expressions=[_double(upper)], ignore_nulls=True)


class PostgresRowByRow:
    """How PostgreSQL compares a number with edges, one row at a time."""

    def at_least(self, number: exp.Expr, edge: float) -> exp.Expr:
        """Return `-number <= -edge`: NaN is above all numbers, and its negative is NaN too."""
        bound = exp.Literal(this=repr(abs(edge)), is_string=False)
        return exp.LTE(this=exp.Neg(this=number), expression=exp.Neg(this=bound) if edge > 0 else bound)

    def bucket(self, number: exp.Expr, edges: Sequence[float]) -> exp.Expr:
        """Return `WIDTH_BUCKET(number, edges)`: a search among doubles, NaN above all."""
        listed = _with_type("{" + ",".join(repr(edge) for edge in edges) + "}", "DOUBLE PRECISION[]")
        return exp.Anonymous(this="WIDTH_BUCKET", expressions=[number, listed])


def _record_hash(values: Sequence[exp.Expr], key: int | str) -> exp.Expr:
    """Return the hash of a record; where its cells are long, of a record for each cell, so that none is too large.

    A record holds 1 GB at most, and several long texts are more. The stored length of a cell tells how long it can be;
    to unpack all cells in order to see it would take as long as hashing. Each cell is hashed under a key of its own,
    which is made from its place, so that places tell cells apart.
    """
    together = _hash(values, _key(key))
    if len(values) == 1:
        return together
    apart = together
    for place, value in enumerate(values):
        own = exp.BitwiseXor(this=_key(key), expression=exp.Literal.number(place))
        apart = exp.BitwiseXor(this=apart, expression=_hash([value], own)) if place else _hash([value], own)
    sizes = [exp.Anonymous(this="PG_COLUMN_SIZE", expressions=[value.copy()]) for value in values]
    longest = exp.Greatest(this=sizes[0], expressions=sizes[1:], ignore_nulls=True)
    short = exp.LTE(this=longest, expression=exp.Literal.number(_SHORT_CELLS // len(values)))
    return exp.Case(ifs=[exp.If(this=short, true=together)], default=apart)


def _hash(values: Sequence[exp.Expr], key: exp.Expr) -> exp.Expr:
    record = exp.Anonymous(this="ROW", expressions=[value.copy() for value in values])
    return exp.Anonymous(this="HASH_RECORD_EXTENDED", expressions=[record, key])


def _with_type(text: str, kind: str) -> exp.Expr:
    return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build(kind, dialect=DIALECT))


def _double(number: float) -> exp.Expr:
    return _with_type(repr(float(number)), "DOUBLE PRECISION")


def _array(values: Sequence[str], kind: str) -> exp.Expr:
    quoted = ",".join('"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values)
    return _with_type("{" + quoted + "}", kind)


def _key(key: int | str) -> exp.Expr:
    value = exp.Placeholder(this=key) if isinstance(key, str) else exp.Literal.number(key)
    return exp.cast(value, exp.DataType.Type.BIGINT)


def _sortable(value: str) -> bool:
    """Whether a value can stand in an array: one with a zero byte, which no text here has, can stand in JSON alone."""
    return "\x00" not in value
