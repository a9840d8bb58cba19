"""The functions that Spark spells its own way (the protocol of `dpsql/spelling.py`).

Spark processes rows in generated code and joins a small table by a lookup, so trees are joins, level by level. Its
integers are signed: words and hashes keep to 63 bits.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from sqlglot import exp

from dpsql.engines.standard_vocabulary import StandardVocabulary, md5_digits

DIALECT = "spark"
#: The most maps that the values of a lookup are spread over: each has to be planned.
_MAPS = 512


class SparkVocabulary(StandardVocabulary):
    """Spark's own spellings."""

    dialect = DIALECT
    functions = StandardVocabulary.functions | {
        "conv",
        "crc32",
        "date_part",
        "get",
        "hour",
        "map",
        "md5",
        "minute",
        "monotonically_increasing_id",
        "nanvl",
        "octet_length",
        "substring",
        "try_element_at",
        "try_validate_utf8",
        "unix_date",
        "unix_micros",
        "xxhash64",
    }
    levels_apart = False
    timestamps_have_zone = True

    def __init__(self) -> None:
        self.step = _step

    def position(self, values: Sequence[str], text: exp.Expr) -> exp.Expr:
        """Return `TRY_ELEMENT_AT(GET(ARRAY(MAP('a', 0), …), CRC32(text) & 7), text)`: a checksum names the map.

        Spark searches a list or a map from its start: at forty values, that takes longer than all other work on a row.
        """
        count = min(_MAPS, 1 << (4 * len(values) - 1).bit_length())
        maps: list[exp.Expr] = [exp.null() for _ in range(count)]
        for place, value in enumerate(values):
            slot = zlib.crc32(value.encode(errors="replace")) % count
            if isinstance(maps[slot], exp.Null):
                maps[slot] = exp.Anonymous(this="MAP", expressions=[])
            maps[slot].append("expressions", exp.Literal.string(value))
            maps[slot].append("expressions", exp.Literal.number(place))
        checksum = exp.Anonymous(this="CRC32", expressions=[text])
        slot_of = exp.Cast(
            this=exp.BitwiseAnd(this=checksum, expression=exp.Literal.number(count - 1)),
            to=exp.DataType(this=exp.DataType.Type.INT),
        )
        slot_map = exp.Anonymous(this="GET", expressions=[exp.Array(expressions=maps), slot_of])
        return exp.Anonymous(this="TRY_ELEMENT_AT", expressions=[slot_map, text.copy()])

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

    def text_hash(self, text: exp.Expr) -> exp.Expr:
        """Return `CAST(CONV(SUBSTRING(MD5(text), 1, 8), 16, 10) AS BIGINT)`."""
        bases = [exp.Literal.number(16), exp.Literal.number(10)]
        digits = exp.Anonymous(this="CONV", expressions=[md5_digits(text), *bases])
        return exp.cast(digits, exp.DataType.Type.BIGINT)

    def readable_text(self, text: exp.Expr, most_bytes: int) -> exp.Expr:
        """Return `CASE WHEN OCTET_LENGTH(text) <= most_bytes THEN TRY_VALIDATE_UTF8(text) END`."""
        length = exp.Anonymous(this="OCTET_LENGTH", expressions=[text.copy()])
        valid = exp.Anonymous(this="TRY_VALIDATE_UTF8", expressions=[text])
        short = exp.LTE(this=length, expression=exp.Literal.number(most_bytes))
        return exp.Case(ifs=[exp.If(this=short, true=valid)])

    def row_address(self) -> None:
        """Return nothing: a row's place follows from how files were cut into tasks, and can change within a session.

        A row is then known by its features. A task that runs again after a lost worker finds the same tickets, and
        another row changes no ticket but its own. Equal rows share one, which costs accuracy alone.
        """

    def row_number(self) -> exp.Expr:
        """Return `MONOTONICALLY_INCREASING_ID()`: no two rows have the same; kept with them, it never changes."""
        return exp.Anonymous(this="MONOTONICALLY_INCREASING_ID", expressions=[])

    def seconds(self, value: exp.Expr, kind: str) -> exp.Expr:
        """Return `CAST(UNIX_MICROS(value) AS DOUBLE) / 1e6`, of a date the seconds of its days.

        A time without a zone (`timestamp_ntz`) would be taken for one of the session's zone. So its microseconds are
        added up from its day, hour, minute and second, which no zone changes; the first sum is exact in doubles.
        """
        if kind == "date":
            return _times(_double(_call("UNIX_DATE", value)), 86_400)
        if kind != "timestamp_ntz":
            microseconds = _double(_call("UNIX_MICROS", value))
        else:
            day = _call("UNIX_DATE", exp.cast(value.copy(), exp.DataType.Type.DATE))
            second = _call("DATE_PART", exp.Literal.string("SECOND"), value.copy())
            of_day = exp.Add(
                this=_times(_double(_call("HOUR", value.copy())), 3_600_000_000),
                expression=_times(_double(_call("MINUTE", value.copy())), 60_000_000),
            )
            of_minute = _double(exp.Mul(this=second, expression=exp.Literal.number(1_000_000)))
            of_day = exp.Add(this=of_day, expression=of_minute)
            microseconds = exp.Paren(
                this=exp.Add(this=_times(_double(day), 86_400_000_000), expression=exp.Paren(this=of_day))
            )
        return exp.Div(this=microseconds, expression=exp.Literal.number("1000000.0e0"), typed=True)


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _double(value: exp.Expr) -> exp.Expr:
    return exp.Cast(this=value, to=exp.DataType(this=exp.DataType.Type.DOUBLE))


def _times(value: exp.Expr, factor: int) -> exp.Expr:
    return exp.Mul(this=value, expression=exp.Literal.number(f"{factor}.0e0"))


def _key(key: int | str) -> exp.Expr:
    return exp.Placeholder(this=key) if isinstance(key, str) else exp.Literal.string(str(key))


def _step(number: exp.Expr, cells: int, missing: int) -> exp.Expr:
    """Return `LEAST(GREATEST(CAST(number AS INT), 0), cells - 1)`, with the missing cell for NULL and NaN.

    The cast truncates towards zero, which is down wherever the result is not clamped anyway, and makes a number that is
    too large the largest INT. After the first two calls nothing is NULL, which keeps the generated code short.
    """
    middle = exp.Literal.number(f"{missing}.5e0")
    not_null = exp.Coalesce(this=number, expressions=[middle])
    not_nan = exp.Anonymous(this="NANVL", expressions=[not_null, middle.copy()])
    truncated = exp.Cast(this=not_nan, to=exp.DataType(this=exp.DataType.Type.INT))
    floored = exp.Greatest(this=truncated, expressions=[exp.Literal.number(0)], ignore_nulls=True)
    return exp.Least(this=floored, expressions=[exp.Literal.number(cells - 1)], ignore_nulls=True)
