"""What most databases spell alike; an engine's own vocabulary says what it spells otherwise.

The protocol is that of `dpsql/spelling.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlglot import exp

from dpsql.schema import HASH_DIGITS
from dpsql.spelling import Lists, RowByRow


class StandardVocabulary:
    """The common spellings: trees are joins, level by level, and the cell of a number is worked out in doubles."""

    functions = frozenset({"is_nan"})
    row_by_row: RowByRow | None = None
    step: Callable[[exp.Expr, int, int], exp.Expr] | None = None
    lists: Lists | None = None
    macros = False
    levels_apart = True
    star_except = True
    #: Whether a type that is called TIMESTAMP is a point in time, whatever the session's time zone.
    timestamps_have_zone = False

    def is_nan(self, number: exp.Expr) -> exp.Expr:
        """Return `ISNAN(number)`."""
        return exp.func("ISNAN", number)

    def keyed_hash(self, values: Sequence[exp.Expr], keys: Sequence[int | str]) -> exp.Expr:
        """Return the database's own hash under keys; each vocabulary has its own."""
        raise NotImplementedError

    def share_test(self, values: Sequence[exp.Expr], key: str, share: int, parts: int) -> exp.Expr:
        """Return `hash % parts < share`, by the hash under keys, where the database has one that lasts.

        PostgreSQL deals the rows of hash-partitioned tables out by its hashes, and an upgrade leaves them where they
        are. Spark's XXH64 and ClickHouse's SipHash are published functions of bytes.
        """
        half = len(key) // 2
        keys = [int(digits, 16) >> 1 for digits in (key[:half], key[half:])]
        place = exp.Mod(this=self.keyed_hash(values, keys), expression=exp.Literal.number(parts))
        return exp.LT(this=place, expression=exp.Literal.number(share))

    def row_number(self) -> exp.Expr:
        """Return `ROW_NUMBER() OVER ()`."""
        return exp.Window(this=exp.RowNumber())

    def word(self, cell: exp.Expr) -> exp.Expr:
        """Return the cell as BIGINT: sixty bits of it are used."""
        return exp.Cast(this=cell, to=exp.DataType(this=exp.DataType.Type.BIGINT))

    def bit(self, plane: exp.Expr, cell: exp.Expr) -> exp.Expr:
        """Return `CAST((plane >> CAST(cell AS INT)) & 1 AS INT)`: a shift takes an INT."""
        return lowest_bit(plane, exp.Cast(this=cell, to=exp.DataType(this=exp.DataType.Type.INT)))

    def number(self, value: exp.Expr, *, decimal: bool) -> exp.Expr:
        """Return the value cast to DOUBLE: every number of 38 digits fits."""
        return exp.cast(value, exp.DataType.Type.DOUBLE)

    def clamp(self, number: exp.Expr, lower: float, upper: float) -> exp.Expr:
        """Return the number as it is: past the largest double there is infinity."""
        return number

    def moment(self, day: str, time: str, kind: str) -> exp.Expr | None:
        """Return a literal of the column's own type, where it is a plain date or timestamp."""
        word = re.sub(r"\([0-9]+\)", "", kind.lower())
        if word == "date":
            return None if time else exp.cast(exp.Literal.string(day), exp.DataType.Type.DATE)
        text = f"{day} {time or '00:00:00'}"
        if word in ("timestamp with time zone", "timestamp without time zone", "timestamp"):
            zoned = word == "timestamp with time zone" or (word == "timestamp" and self.timestamps_have_zone)
            own = exp.DataType.Type.TIMESTAMPTZ if zoned else exp.DataType.Type.TIMESTAMP
            return exp.cast(exp.Literal.string(f"{text}+00:00" if zoned else text), own)
        return None

    def day(self, text: str) -> exp.Expr:
        """Return `CAST('2020-01-31' AS DATE)`."""
        return exp.cast(exp.Literal.string(text), exp.DataType.Type.DATE)


def lowest_bit(plane: exp.Expr, places: exp.Expr) -> exp.Expr:
    """Return `CAST((plane >> places) & 1 AS INT)`."""
    moved = exp.Paren(this=exp.BitwiseRightShift(this=plane, expression=places))
    bit = exp.BitwiseAnd(this=moved, expression=exp.Literal.number(1))
    return exp.Cast(this=bit, to=exp.DataType(this=exp.DataType.Type.INT))


def md5_digits(text: exp.Expr) -> exp.Expr:
    """Return `SUBSTRING(MD5(text), 1, 8)`, for databases where MD5 gives hexadecimal digits."""
    digest = exp.Anonymous(this="MD5", expressions=[text])
    return exp.Substring(this=digest, start=exp.Literal.number(1), length=exp.Literal.number(HASH_DIGITS))
