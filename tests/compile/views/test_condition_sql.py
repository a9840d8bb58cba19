"""The language of conditions: what it takes, what it refuses, and how tests fit the families of columns."""

from __future__ import annotations

import pytest
from sqlglot import exp

from dpsql.compile.views.condition_sql import Cell, condition_sql
from dpsql.compile.views.condition_text import (
    MAX_DEPTH,
    MAX_LENGTH,
    MAX_TESTS,
    MAX_VALUES,
    JoinedTests,
    NotACondition,
    RowTest,
    Value,
    each_test,
    parse_condition,
)
from dpsql.compile.vocabulary import column
from dpsql.engines.duckdb.vocabulary import DuckDBVocabulary

FAMILIES = {
    "n": "integer", "x": "real", "c": "text", "flag": "boolean", "day": "date", "thing": "other", 'odd "name': "integer"
}  # fmt: skip


def sql(text: str) -> str:
    """Return a condition on columns of all families as DuckDB's SQL."""
    cells = {
        name: Cell(family, column(name), exp.cast(column(name), "DOUBLE") if family == "real" else None)
        for name, family in FAMILIES.items()
    }
    return condition_sql(parse_condition(text), cells, DuckDBVocabulary()).sql("duckdb")


READ = {
    "n = 1": RowTest("n", False, "=", (Value("number", "1"),), False),
    "n<>-1.5e3": RowTest("n", False, "=", (Value("number", "-1.5e3"),), True),
    "n != +1": RowTest("n", False, "=", (Value("number", "+1"),), True),
    '"odd ""name" IS NULL': RowTest('odd "name', True, "null", (), False),
    "n is not null": RowTest("n", False, "null", (), True),
    "NOT n IS NOT NULL": RowTest("n", False, "null", (), False),
    "NOT NOT n <= 2": RowTest("n", False, "<=", (Value("number", "2"),), False),
    "c = 'it''s -- /* ; \\'": RowTest("c", False, "=", (Value("text", "it's -- /* ; \\"),), False),
    "flag = TRUE": RowTest("flag", False, "=", (Value("boolean", "true"),), False),
    "n NOT BETWEEN 1 AND 2": RowTest("n", False, "between", (Value("number", "1"), Value("number", "2")), True),
    "NOT c NOT IN ('a','b')": RowTest("c", False, "in", (Value("text", "a"), Value("text", "b")), False),
    '"null" = 0': RowTest("null", True, "=", (Value("number", "0"),), False),
    " \t\r\n( (n=1) ) ": RowTest("n", False, "=", (Value("number", "1"),), False),
}


@pytest.mark.parametrize("text", READ)
def test_a_test_is_read_as_it_stands(text: str) -> None:
    """Letter case of words, spaces and brackets do not matter; quotes, signs and NOT do."""
    assert parse_condition(text) == READ[text]


def test_and_binds_closer_than_or_and_not_turns_both() -> None:
    """NOT is carried down: what comes out is ANDs and ORs of tests, as in SQL."""
    found = parse_condition("n = 1 OR n = 2 AND n = 3")
    assert isinstance(found, JoinedTests)
    assert not found.every
    assert isinstance(found.parts[1], JoinedTests)
    assert found.parts[1].every
    turned = parse_condition("NOT (n = 1 OR n = 2 AND n = 3)")
    assert isinstance(turned, JoinedTests)
    assert turned.every
    assert isinstance(turned.parts[1], JoinedTests)
    assert not turned.parts[1].every
    assert all(test.negated for test in each_test(turned))


REFUSED = {
    "nothing": "",
    "a space": " \n ",
    "a column alone": "flag",
    "a value alone": "TRUE",
    "NULL": "NULL",
    "two conditions": "n = 1 n = 2",
    "an unfinished condition": "n = 1 AND",
    "an unfinished NOT": "NOT",
    "a bracket that is not closed": "(n = 1",
    "a bracket that was not opened": "n = 1)",
    "brackets that close ours": "n = 1) OR (n = 2",
    "empty brackets": "()",
    "an empty list": "n IN ()",
    "a list that ends in a comma": "n IN (1,)",
    "a value first": "1 = n",
    "two columns": "n = x",
    "a keyword as a column": "null = 1",
    "an empty name": '"" = 1',
    "a qualified column": "people.n = 1",
    "a quoted qualified column": '"people"."n" = 1',
    "NULL as a value": "n = NULL",
    "IS TRUE": "flag IS TRUE",
    "IS DISTINCT FROM": "n IS DISTINCT FROM 1",
    "a pattern": "c LIKE 'a%'",
    "a pattern that ends in an escape": "c LIKE 'x\\'",
    "a pattern of any case": "c ILIKE 'a%'",
    "SIMILAR TO": "c SIMILAR TO '['",
    "a regular expression": "c ~ '['",
    "REGEXP": "c REGEXP '('",
    "GLOB": "c GLOB '['",
    "a collation": "c COLLATE nocase = 'x'",
    "a collation behind": "c = 'x' COLLATE \"C\"",
    "a cast": "CAST(c AS INTEGER) = 1",
    "a short cast": "c::INTEGER = 1",
    "a cast of NULL to a domain": "CAST(NULL AS her.domain) IS NULL",
    "a typed literal": "day > DATE '2020-01-01'",
    "a function": "length(c) > 1",
    "a quoted function": '"length"(c) = 1',
    "a function of a schema": "her.f(n) = 1",
    "coalesce": "coalesce(n, 0) = 0",
    "CASE": "CASE WHEN n > 1 THEN true ELSE false END",
    "division": "n / 0 = 1",
    "a sum": "n + 1 > 2",
    "a sum without spaces": "n = 1+1",
    "a negated column": "n = -n",
    "text joined": "c || 'x' = 'y'",
    "a subquery": "n = (SELECT 1)",
    "an IN subquery": "n IN (SELECT n FROM people)",
    "EXISTS": "EXISTS (SELECT 1)",
    "ANY": "n = ANY (1)",
    "a pair": "(n, x) = (1, 2)",
    "a parameter": "n = ?",
    "a named parameter": "n = $1",
    "an item": "n[1] = 1",
    "a star": "*",
    "a second statement": "n = 1; DROP TABLE people",
    "a line comment": "n = 1 -- or so",
    "a comment": "n = 1 /* or so */",
    "a hash comment": "n = 1 # or so",
    "an open text": "c = 'abc",
    "an open name": '"n = 1',
    "an escape text": "c = E'\\''",
    "a unicode text": "c = U&'\\0041'",
    "a dollar text": "c = $$a$$",
    "texts side by side": "c = 'a' 'b'",
    "a text with a zero byte": "c = 'a\0b'",
    "half a character": "c = '\ud800'",
    "a zero byte": "n = 1\0",
    "a wide equals sign": "n \uff1d 1",
    "a quote from elsewhere": "c = \u2018a\u2019",
    "a no-break space": "n\u00a0= 1",
    "a name from elsewhere": "\u0578 = 1",
    "digits from elsewhere": "n = \u0661",
    "a number that runs on": "n = 1x",
    "a hexadecimal number": "n = 0x10",
    "a number with two points": "n = 1.2.3",
    "a number without its first digit": "n = .5",
    "a number with separators": "n = 1_000",
    "infinity": "x = infinity",
    "NaN": "x = NaN",
    "an exponent without an end": "x = 1e40000",
    "too deep": "(" * (MAX_DEPTH + 1) + "n = 1" + ")" * (MAX_DEPTH + 1),
    "far too deep": "(" * 900 + "n = 1" + ")" * 900,
    "too many tests": " OR ".join(["n = 1"] * (MAX_TESTS + 1)),
    "too many values": f"n IN ({','.join('1' for _ in range(MAX_VALUES + 1))})",
    "too long": f"c = '{'x' * MAX_LENGTH}'",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_everything_else_is_refused(text: str) -> None:
    """What is not in the language is refused with a reason in words."""
    with pytest.raises(NotACondition) as caught:
        parse_condition(text)
    assert str(caught.value)[:1].isalpha()


MISFITS = {
    "a text for an integer": "n = '1'",
    "a fraction for an integer": "n < 1.5",
    "an exponent for an integer": "n < 1e3",
    "more than 64 bits": "n < 9223372036854775808",
    "less than 64 bits": "n > -9223372036854775809",
    "a long integer": "n < 99999999999999999999999",
    "a text for a number": "x = 'nan'",
    "more than a double": "x < 1e400",
    "less than a double": "x > -1e309",
    "less than the smallest": "x = 1e-400",
    "a subnormal": "x = 5e-324",
    "a number for a text": "c = 1",
    "an order of texts": "c > 'a'",
    "texts between": "c BETWEEN 'a' AND 'b'",
    "a number for a boolean": "flag = 1",
    "a text for a boolean": "flag = 'true'",
    "booleans in a list": "flag IN (TRUE)",
    "an order of booleans": "flag < TRUE",
    "a boolean for a number": "n = TRUE",
    "a number for a date": "day = 20200101",
    "no day": "day > '2020-02-30'",
    "no ISO day": "day > '20200131'",
    "a day with a time": "day > '2020-01-31 00:00:00'",
    "a day too early": "day > '1899-12-31'",
    "a day too late": "day > '2300-01-01'",
    "endless": "day = 'infinity'",
    "another type": "thing = 1",
    "a misfit in a list": "n IN (1, 'x')",
    "a misfit in a part": "n = 1 AND (c = 'x' OR day < 'x')",
}


@pytest.mark.parametrize("text", MISFITS.values(), ids=MISFITS)
def test_a_value_must_fit_its_column(text: str) -> None:
    """A value of another family, or one that some database cannot hold, is refused before any row is read."""
    with pytest.raises(NotACondition) as caught:
        sql(text)
    assert str(caught.value)[:1].isalpha()


FITTING = {
    "n > -9223372036854775808": 'COALESCE(("n" > -9223372036854775808), FALSE)',
    "n NOT IN (1, 2)": 'COALESCE((NOT (("n" >= 1 AND "n" <= 1) OR ("n" >= 2 AND "n" <= 2))), FALSE)',
    "x >= 2.5": 'COALESCE((NOT ISNAN(CAST("x" AS DOUBLE)) AND (CAST("x" AS DOUBLE) >= 2.5e0)), FALSE)',
    "flag != FALSE": 'COALESCE((NOT ("flag" = FALSE)), FALSE)',
    "day < '2020-01-31'": "COALESCE((\"day\" < CAST('2020-01-31' AS DATE)), FALSE)",
    "thing IS NOT NULL": 'NOT ("thing" IS NULL)',
}


@pytest.mark.parametrize("text", FITTING)
def test_a_test_is_wrapped_for_itself(text: str) -> None:
    """What is NULL for a row is false, test by test."""
    assert sql(text) == FITTING[text]


def test_the_largest_condition_makes_sql() -> None:
    """As many tests as are allowed, as deep as is allowed, are rendered without an error."""
    text = " OR ".join(["n = 1"] * (MAX_TESTS - 1))
    assert sql(text).count("COALESCE") == MAX_TESTS - 1
    assert sql(f"x IN ({', '.join(str(k) for k in range(MAX_VALUES))})").count("<=") == MAX_VALUES
    assert sql("(" * MAX_DEPTH + "n = 1" + ")" * MAX_DEPTH) == sql("n = 1")


def test_zero_is_a_number_in_every_spelling() -> None:
    """0 is no underflow, whatever its exponent."""
    assert sql("x = 0e-4000") == sql("x = -0.0") == sql("x = 0")
