"""The hash of a hashed category in each database that a model can be exported to.

Each function returns the same number for the same value: the first 32 bits of MD5 of its text in UTF-8
(`dpsql/schema/hashed.py`), and NULL for NULL. Databases differ in what MD5 takes (text or bytes, and bytes of which
encoding) and in what it gives (hexadecimal digits or bytes).
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.compile.vocabulary import int_literal
from dpsql.schema import HASH_DIGITS


def hash_in_bigquery(value: exp.Expr) -> exp.Expr:
    """Return `CAST(CONCAT('0x', SUBSTRING(TO_HEX(MD5(text)), 1, 8)) AS INT64)`: MD5 gives bytes."""
    digits = _first_digits(_call("TO_HEX", _md5(value)))
    return exp.cast(exp.Concat(expressions=[exp.Literal.string("0x"), digits]), exp.DataType.Type.BIGINT)


def hash_in_clickhouse(value: exp.Expr) -> exp.Expr:
    """Return `reinterpretAsUInt32(reverse(SUBSTRING(MD5(text), 1, 4)))`: MD5 gives bytes, and numbers begin low."""
    return _call("reinterpretAsUInt32", _call("reverse", _first(_md5(value), HASH_DIGITS // 2)))


def hash_in_duckdb(value: exp.Expr) -> exp.Expr:
    """Return `CAST('0x' || SUBSTRING(MD5(text), 1, 8) AS BIGINT)`."""
    text = exp.DPipe(this=exp.Literal.string("0x"), expression=_first_digits(_md5(value)))
    return exp.cast(exp.Paren(this=text), exp.DataType.Type.BIGINT)


def hash_in_mysql(value: exp.Expr) -> exp.Expr:
    """Return `CAST(CONV(SUBSTRING(MD5(bytes), 1, 8), 16, 10) AS SIGNED)` of the text's bytes in UTF-8."""
    utf8 = exp.Cast(this=value, to=exp.DataType(this=exp.DataType.Type.CHARACTER_SET, kind=exp.var("utf8mb4")))
    digits = _first_digits(_call("MD5", exp.cast(utf8, exp.DataType.Type.BINARY)))
    return exp.cast(_call("CONV", digits, int_literal(16), int_literal(10)), exp.DataType.Type.BIGINT)


def hash_in_postgres(value: exp.Expr) -> exp.Expr:
    """Return `CAST(CAST('x' || SUBSTRING(MD5(bytes), 1, 8) AS BIT(32)) AS BIGINT)`, of the bytes in UTF-8."""
    digest = _call("MD5", _call("CONVERT_TO", _text(value), exp.Literal.string("UTF8")))
    text = exp.DPipe(this=exp.Literal.string("x"), expression=_first_digits(digest))
    bits = exp.Cast(this=exp.Paren(this=text), to=exp.DataType.build("BIT(32)", dialect="postgres"))
    return exp.cast(bits, exp.DataType.Type.BIGINT)


def hash_in_redshift(value: exp.Expr) -> exp.Expr:
    """Return `STRTOL(SUBSTRING(MD5(text), 1, 8), 16)`."""
    return _call("STRTOL", _first_digits(_md5(value)), int_literal(16))


def hash_in_snowflake(value: exp.Expr) -> exp.Expr:
    """Return `TO_NUMBER(SUBSTRING(MD5(text), 1, 8), 'XXXXXXXX')`."""
    return _call("TO_NUMBER", _first_digits(_md5(value)), exp.Literal.string("X" * HASH_DIGITS))


def hash_in_spark(value: exp.Expr) -> exp.Expr:
    """Return `CAST(CONV(SUBSTRING(MD5(text), 1, 8), 16, 10) AS BIGINT)`."""
    digits = _call("CONV", _first_digits(_md5(value)), int_literal(16), int_literal(10))
    return exp.cast(digits, exp.DataType.Type.BIGINT)


def hash_in_trino(value: exp.Expr) -> exp.Expr:
    """Return `FROM_BASE(SUBSTRING(TO_HEX(MD5(TO_UTF8(text))), 1, 8), 16)`: MD5 takes and gives bytes."""
    digest = _call("MD5", _call("TO_UTF8", _text(value)))
    return _call("FROM_BASE", _first_digits(_call("TO_HEX", digest)), int_literal(16))


def hash_in_tsql(value: exp.Expr) -> exp.Expr:
    """Return `CAST(SUBSTRING(HASHBYTES('MD5', utf8), 1, 4) AS BIGINT)`, from SQL Server 2019 on.

    Its Unicode texts are UTF-16; under a collation of UTF-8 a text becomes the bytes that all others hash.
    """
    most = exp.DataTypeParam(this=exp.var("MAX"))
    wide = exp.cast(value, exp.DataType(this=exp.DataType.Type.NVARCHAR, expressions=[most]))
    utf8 = exp.Collate(this=wide, expression=exp.var("Latin1_General_100_BIN2_UTF8"))
    narrow = exp.cast(utf8, exp.DataType(this=exp.DataType.Type.VARCHAR, expressions=[most.copy()]))
    digest = _call("HASHBYTES", exp.Literal.string("MD5"), narrow)
    return exp.cast(_first(digest, HASH_DIGITS // 2), exp.DataType.Type.BIGINT)


def _md5(value: exp.Expr) -> exp.Expr:
    return _call("MD5", _text(value))


def _text(value: exp.Expr) -> exp.Expr:
    return exp.cast(value, exp.DataType.Type.TEXT)


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _first(text: exp.Expr, length: int) -> exp.Expr:
    return exp.Substring(this=text, start=int_literal(1), length=int_literal(length))


def _first_digits(text: exp.Expr) -> exp.Expr:
    return _first(text, HASH_DIGITS)
