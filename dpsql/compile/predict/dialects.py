"""The databases that a model can be exported to, and for each the few things that it says in its own way.

sqlglot writes names, types, functions and escapes as each database has them. What remains are differences of meaning,
which no translation shows: how a double is read, what NaN equals, whether trailing spaces and letter case count in a
comparison of texts, what a boolean is as text. Each is one small function here, and each dialect is an entry of
`DIALECTS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from dpsql.compile.predict import moments, text_hashes
from dpsql.compile.predict.sqlite_md5 import md5_in_sqlite
from dpsql.compile.vocabulary import column, double, int_literal, paren
from dpsql.errors import UnknownName

_PLAIN_NAME = re.compile("[a-z_][a-z0-9_]*")
#: The places where T-SQL takes a backslash for the continuation of a line.
_LINE_CONTINUATION = re.compile(r"(?<=\\)(?=\r?\n)")
#: The end of both texts of a comparison, where a database ignores trailing spaces.
_END_MARK = "."
#: The most bits of a whole number that is written out: every database reads one of 60 bits as a 64-bit integer.
_MOST_BITS = 60

Unary = Callable[[exp.Expr], exp.Expr]


def in_text(number: float) -> exp.Expr:
    """Return `CAST('0.64' AS DOUBLE)`, for databases where `0.64e0` is a decimal.

    >>> in_text(-0.64).sql()
    "CAST('-0.64' AS DOUBLE)"
    """
    return as_double(exp.Literal.string(repr(float(number))))


def in_powers_of_two(number: float) -> exp.Expr:
    """Return a double as an integer times or divided by powers of two: SQLite reads one decimal in 400 slightly wrong.

    >>> in_powers_of_two(18.0).sql(), in_powers_of_two(-0.75).sql()
    ('CAST(18 AS DOUBLE)', 'CAST(-3 AS DOUBLE) / CAST(4 AS DOUBLE)')
    """
    top, bottom = float(number).as_integer_ratio()
    up = max(0, top.bit_length() - _MOST_BITS)
    down = bottom.bit_length() - 1
    value = as_double(int_literal(top >> up if top >= 0 else -(-top >> up)))
    for operator, places in ((exp.Mul, up), (exp.Div, down)):
        while places > 0:
            step = min(places, _MOST_BITS)
            value = operator(this=value, expression=as_double(int_literal(2**step)))
            places -= step
    return value


def nan_function(number: exp.Expr) -> exp.Expr | None:
    """Return a call of the database's own test for NaN."""
    return exp.IsNan(this=number)


def nan_equals(number: exp.Expr) -> exp.Expr | None:
    """Return `number = CAST('NaN' AS DOUBLE)`, for databases where NaN equals itself."""
    return exp.EQ(this=number, expression=as_double(exp.Literal.string("NaN")))


def no_nan(number: exp.Expr) -> exp.Expr | None:
    """Return None: the database stores no NaN."""
    return None


def plain_text(value: exp.Expr) -> exp.Expr:
    """Return a value as text, where texts are equal exactly when their bytes are."""
    return exp.cast(value, exp.DataType.Type.TEXT)


def sqlite_text(value: exp.Expr) -> exp.Expr:
    """Return a value as text that is compared byte by byte, even where its column is declared otherwise."""
    return exp.Collate(this=plain_text(value), expression=exp.var("BINARY"))


def mysql_text(value: exp.Expr) -> exp.Expr:
    """Return a value as the bytes of its text in UTF-8: letter case and trailing spaces count."""
    utf8 = exp.Cast(this=value, to=exp.DataType(this=exp.DataType.Type.CHARACTER_SET, kind=exp.var("utf8mb4")))
    return exp.cast(utf8, exp.DataType.Type.BINARY)


def ended_text(value: exp.Expr) -> exp.Expr:
    """Return a value as text with an end mark, so that trailing spaces count."""
    return exp.Concat(expressions=[plain_text(value), exp.Literal.string(_END_MARK)])


def ended_word(text: str) -> exp.Expr:
    """Return a literal with an end mark.

    >>> ended_word("a ").sql()
    "'a .'"
    """
    return exp.Literal.string(text + _END_MARK)


def tsql_text(value: exp.Expr) -> exp.Expr:
    """Return a value as Unicode text with an end mark, compared by code points: letter case and spaces count."""
    size = exp.DataTypeParam(this=exp.var("MAX"))
    wide = exp.cast(value, exp.DataType(this=exp.DataType.Type.NVARCHAR, expressions=[size]))
    ended = paren(exp.Add(this=wide, expression=exp.National(this=_END_MARK)))
    return exp.Collate(this=ended, expression=exp.var("Latin1_General_BIN2"))


def tsql_word(text: str) -> exp.Expr:
    """Return a Unicode literal with an end mark."""
    return tsql_label(text + _END_MARK)


def tsql_label(text: str) -> exp.Expr:
    r"""Return a Unicode literal; it is split after a backslash before a line break, which T-SQL would drop.

    >>> tsql_label("a").sql("tsql"), tsql_label("a\\\nb").sql("tsql").count("N'")
    ("N'a'", 2)
    """
    first, *others = [exp.National(this=part) for part in _LINE_CONTINUATION.split(text)]
    joined: exp.Expr = first
    for other in others:
        joined = exp.Add(this=joined, expression=other)
    return joined


def as_double(value: exp.Expr) -> exp.Expr:
    """Return a value cast to a double."""
    return exp.cast(value, exp.DataType.Type.DOUBLE)


@dataclass(frozen=True)
class Dialect:
    """How one database says what databases say differently.

    - `name` is the name of the dialect in sqlglot.
    - `number` writes a double; `is_nan` tests for NaN (None where there is none).
    - `text` turns a value, and `word` a constant, into texts that are compared exactly; `label` writes a constant to
      show.
    - `text_hash` gives the hash of a value's text, the same number in every database.
    - `booleans` says what a boolean is: "text" (`true`), "digit" (`1`) or "test" (nothing but a condition).
    - `moments` says how a column of dates or times is compared with a moment.
    - `keys` says that the tables get primary keys.
    - `upper` says that names without capitals are stored in capitals.
    - `properties` end a CREATE TABLE; `before` is the first statement of the script.
    - `rows_first` says that a join must be told to take each row once, and look its cells up among the predictions.
    - `view_in_text` says that CREATE VIEW must not follow other statements, so that it is run from a text.
    """

    name: str
    text_hash: Unary
    number: Callable[[float], exp.Expr] = double
    is_nan: Callable[[exp.Expr], exp.Expr | None] = nan_function
    text: Unary = plain_text
    word: Callable[[str], exp.Expr] = exp.Literal.string
    label: Callable[[str], exp.Expr] = exp.Literal.string
    booleans: str = "text"
    moments: moments.Moments = moments.TIMESTAMPS
    keys: bool = False
    upper: bool = False
    properties: exp.Properties | None = None
    before: exp.Expr | None = None
    rows_first: bool = False
    view_in_text: bool = False

    def identifier(self, name: str) -> exp.Identifier:
        """Return a quoted name as the database stores it."""
        stored = name.upper() if self.upper and _PLAIN_NAME.fullmatch(name) else name
        return exp.to_identifier(stored, quoted=True)

    def column(self, name: str, table: str) -> exp.Column:
        """Return a column of the table to score."""
        return column(self.identifier(name).name, table)


_MERGE_TREE = exp.Properties(
    expressions=[
        exp.EngineProperty(this=exp.to_identifier("MergeTree")),
        exp.Order(expressions=[exp.Ordered(this=exp.Tuple(), nulls_first=False)]),
    ]
)
#: Wide categories make a query longer than ClickHouse accepts by default.
_LONG_QUERIES = exp.Set(
    expressions=[exp.SetItem(this=exp.EQ(this=exp.column("max_query_size"), expression=int_literal(2**26)))],
)
#: MySQL is told that the script is in UTF-8.
_UTF8 = exp.Set(expressions=[exp.SetItem(this=exp.var("utf8mb4"), kind="NAMES")])

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        Dialect("bigquery", text_hashes.hash_in_bigquery),
        Dialect(
            "clickhouse",
            text_hashes.hash_in_clickhouse,
            moments=moments.CLICKHOUSE,
            properties=_MERGE_TREE,
            before=_LONG_QUERIES,
        ),
        Dialect("databricks", text_hashes.hash_in_spark),
        Dialect("duckdb", text_hashes.hash_in_duckdb, moments=moments.DUCKDB, keys=True),
        Dialect(
            "mysql",
            text_hashes.hash_in_mysql,
            is_nan=no_nan,
            text=mysql_text,
            booleans="digit",
            moments=moments.MYSQL,
            keys=True,
            before=_UTF8,
        ),
        Dialect(
            "postgres",
            text_hashes.hash_in_postgres,
            number=in_text,
            is_nan=nan_equals,
            moments=moments.SECONDS,
            keys=True,
        ),
        Dialect(
            "redshift",
            text_hashes.hash_in_redshift,
            number=in_text,
            is_nan=nan_equals,
            text=ended_text,
            word=ended_word,
            booleans="test",
        ),
        Dialect("snowflake", text_hashes.hash_in_snowflake, number=in_text, is_nan=nan_equals, upper=True),
        Dialect("spark", text_hashes.hash_in_spark),
        Dialect(
            "sqlite",
            md5_in_sqlite,
            number=in_powers_of_two,
            is_nan=no_nan,
            text=sqlite_text,
            booleans="digit",
            moments=moments.SQLITE,
            keys=True,
            rows_first=True,
        ),
        Dialect("trino", text_hashes.hash_in_trino, moments=moments.TRINO),
        Dialect(
            "tsql",
            text_hashes.hash_in_tsql,
            is_nan=no_nan,
            text=tsql_text,
            word=tsql_word,
            label=tsql_label,
            booleans="digit",
            moments=moments.TSQL,
            keys=True,
            view_in_text=True,
        ),
    )
}


def check_dialect(name: str) -> Dialect:
    """Return the dialect of that name, or raise UnknownName with the nearest ones."""
    if name not in DIALECTS:
        raise UnknownName("dialect", str(name), DIALECTS, hint=f"one of {', '.join(DIALECTS)}")
    return DIALECTS[name]
