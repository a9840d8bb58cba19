"""How the databases that models are exported to compare a date or timestamp with an edge.

Each database gets a pair of small functions: one makes a column comparable, whether it holds dates or times, the other
writes a moment (whole microseconds since 1970, UTC) that it is compared with. Nothing is computed from a row's value.
A column with a time zone of its own must be read in a session whose time zone is UTC, except on DuckDB, PostgreSQL and
ClickHouse, where the pair does not depend on the session.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from dpsql.compile.vocabulary import double, int_literal, literal
from dpsql.schema.dated import moment_text

#: Microseconds of one second.
_MILLION = 1_000_000
Comparable = Callable[[exp.Expr], exp.Expr]
Moment = Callable[[int], exp.Expr]


@dataclass(frozen=True)
class Moments:
    """How one database compares a column of dates or times (`value`) with a moment (`edge`)."""

    value: Comparable
    edge: Moment


def cast_to(kind: str, dialect: str = "") -> Moments:
    """Return `CAST(value AS kind)`, compared with `CAST('2021-03-01 00:00:00' AS kind)`."""

    def value(column: exp.Expr) -> exp.Expr:
        return exp.Cast(this=column, to=exp.DataType.build(kind, dialect=dialect))

    return Moments(value, lambda count: value(exp.Literal.string(full_text(count))))


def _seconds(column: exp.Expr) -> exp.Expr:
    return exp.Extract(this=exp.var("EPOCH"), expression=column)


def _exact_seconds(count: int) -> exp.Expr:
    """Return microseconds as a decimal number of seconds, every digit of it."""
    seconds, rest = divmod(abs(count), _MILLION)
    return literal(f"{seconds}.{rest:06d}", negative=count < 0)


def _duckdb_value(column: exp.Expr) -> exp.Expr:
    """Return the seconds of a date or time; of an endless date a number beyond all others."""
    later = exp.GT(this=column.copy(), expression=exp.cast(exp.Literal.string("2000-01-01"), exp.DataType.Type.DATE))
    endless = exp.Case(ifs=[exp.If(this=later, true=literal("1e300"))], default=literal("1e300", negative=True))
    ifs = [exp.If(this=exp.IsInf(this=column.copy()), true=endless)]
    return exp.Case(ifs=ifs, default=exp.Anonymous(this="EPOCH", expressions=[column]))


def _duckdb_edge(count: int) -> exp.Expr:
    return double(count / _MILLION)


def _clickhouse_value(column: exp.Expr) -> exp.Expr:
    arguments = [column, int_literal(6), exp.Literal.string("UTC")]
    return exp.Anonymous(this="toDateTime64", expressions=arguments)


def _sqlite_value(column: exp.Expr) -> exp.Expr:
    """Return an ISO text with a space between day and time, and without the letter of UTC."""
    text: exp.Expr = exp.cast(column, exp.DataType.Type.TEXT)
    for old, new in (("T", " "), ("Z", "")):
        words = [exp.Literal.string(old), exp.Literal.string(new)]
        text = exp.Anonymous(this="REPLACE", expressions=[text, *words])
    return text


def _sqlite_edge(count: int) -> exp.Expr:
    """Return a moment as its shortest ISO text: every text of the same moment starts with it, and so is not below."""
    text = moment_text(count)
    return exp.Literal.string(text.rstrip("0") if "." in text else text.removesuffix(":00").removesuffix(":00"))


def full_text(count: int) -> str:
    """Return microseconds since 1970 as ISO text with its time.

    >>> full_text(0)
    '1970-01-01 00:00:00'
    """
    text = moment_text(count)
    return text if " " in text else f"{text} 00:00:00"


TIMESTAMPS = cast_to("timestamp")
SECONDS = Moments(_seconds, _exact_seconds)
DUCKDB = Moments(_duckdb_value, _duckdb_edge)
CLICKHOUSE = Moments(_clickhouse_value, lambda count: _clickhouse_value(exp.Literal.string(full_text(count))))
SQLITE = Moments(_sqlite_value, _sqlite_edge)
MYSQL = cast_to("datetime(6)", "mysql")
TSQL = cast_to("datetime2(6)", "tsql")
TRINO = cast_to("timestamp(6)", "trino")
