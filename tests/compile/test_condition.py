"""Conditions that an analyst writes: what is allowed holds for rows as plain Python says, all else is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from dpsql.compile.condition import NotTotal, total_condition

TYPES = {
    "n": "INTEGER",
    "x": "DOUBLE",
    "c": "VARCHAR",
    "mood": "ENUM('calm', 'cross')",
    "flag": "BOOLEAN",
    "day": "DATE",
    "huge": "HUGEINT",
    "list": "INTEGER[]",
    'odd "name': "INTEGER",
    "select": "INTEGER",
    "Größe": "INTEGER",
}
Row = dict[str, Any]
ROWS: list[Row] = [
    dict(zip(TYPES, values, strict=True))
    for values in [
        (1, 2.5, "abc", "calm", True, "2020-01-01", 7, [1, 2], 4, 1, 3),
        (5, math.nan, " X ", None, None, None, 2**127 - 1, [], -3, 2, None),
        (None, -math.inf, "", "cross", False, "1999-12-31", -1, None, None, None, 0),
        (-7, 1e300, "12", "calm", True, "0001-01-01", 0, [3], 2**31 - 1, 0, -1),
        (2**31 - 1, None, "it's 100%", "cross", False, "9999-12-31", None, [None], 1, 5, 2**31 - 1),
        (0, -0.0, None, None, None, None, 1, [0], 0, 0, 3),
    ]
]


@pytest.fixture(scope="module")
def table() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database with the rows in a table."""
    connection = duckdb.connect()
    columns = ", ".join(f"{quote(name)} {kind}" for name, kind in TYPES.items())
    connection.execute(f"CREATE TABLE people (place INTEGER, {columns})")
    for place, row in enumerate(ROWS):
        marks = ", ".join(f"CAST(? AS {kind})" for kind in TYPES.values())
        connection.execute(f"INSERT INTO people VALUES (?, {marks})", [place, *row.values()])
    yield connection
    connection.close()


def quote(name: str) -> str:
    """Return a name as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def checked(text: str, macros: tuple[str, ...] = ()) -> exp.Expr:
    """Return a condition on the columns of the table, or raise NotTotal."""
    return total_condition(text, "duckdb", types=TYPES, macros=macros)


def holds(table: duckdb.DuckDBPyConnection, condition: exp.Expr) -> list[bool | None]:
    """Return what a condition is for each row, as DuckDB says."""
    query = exp.select(exp.alias_(exp.paren(condition), "held")).from_("people").order_by("place")
    return [held for (held,) in table.execute(query.sql("duckdb")).fetchall()]


def both(test: Callable[[Any], bool], *names: str) -> Callable[[Row], bool | None]:
    """Return a test on columns that is NULL where one of them is."""
    return lambda row: None if any(row[name] is None for name in names) else test(*(row[name] for name in names))


def above(value: float, bound: float) -> bool:
    """Tell whether a number is above another in SQL, where NaN is above everything."""
    return math.isnan(value) or value > bound


ALLOWED: dict[str, Callable[[Row], bool | None]] = {
    "n > 1": both(lambda n: n > 1, "n"),
    "1 < n": both(lambda n: n > 1, "n"),
    "n = 5": both(lambda n: n == 5, "n"),
    "n <> 5": both(lambda n: n != 5, "n"),
    "n != -7": both(lambda n: n != -7, "n"),
    "n <= 0.5": both(lambda n: n <= 0.5, "n"),
    "x > 2.5": both(lambda x: above(x, 2.5), "x"),
    "x < n": both(lambda x, n: not math.isnan(x) and x < n, "x", "n"),
    "N >= 1": both(lambda n: n >= 1, "n"),
    "rows_of_it.n >= 1": both(lambda n: n >= 1, "n"),
    "c = 'abc'": both(lambda c: c == "abc", "c"),
    "c = 'it''s 100%'": both(lambda c: c == "it's 100%", "c"),
    "c > 'a'": both(lambda c: c > "a", "c"),
    "mood = 'calm'": both(lambda mood: mood == "calm", "mood"),
    "mood = 'never declared'": both(lambda mood: False, "mood"),
    "flag": lambda row: row["flag"],
    "NOT flag": both(lambda flag: not flag, "flag"),
    "flag = false": both(lambda flag: not flag, "flag"),
    "flag IS TRUE": lambda row: row["flag"] is True,
    "day > DATE '2000-01-01'": both(lambda day: day > "2000-01-01", "day"),
    "n IN (1, 5, 9)": both(lambda n: n in (1, 5, 9), "n"),
    "n NOT IN (1, 5)": both(lambda n: n not in (1, 5), "n"),
    "n IN (1, NULL)": lambda row: True if row["n"] == 1 else None,
    "c IN ('abc', '')": both(lambda c: c in ("abc", ""), "c"),
    "n BETWEEN 0 AND 5": both(lambda n: 0 <= n <= 5, "n"),
    "n NOT BETWEEN 0 AND 5": both(lambda n: not 0 <= n <= 5, "n"),
    "c LIKE 'a%'": both(lambda c: c.startswith("a"), "c"),
    "c LIKE '__'": both(lambda c: len(c) == 2, "c"),
    "c NOT LIKE '%b%'": both(lambda c: "b" not in c, "c"),
    "n IS NULL": lambda row: row["n"] is None,
    "c IS NOT NULL": lambda row: row["c"] is not None,
    "list IS NULL": lambda row: row["list"] is None,
    "huge IS NOT NULL": lambda row: row["huge"] is not None,
    "n IS DISTINCT FROM 1": lambda row: row["n"] != 1,
    "n IS NOT DISTINCT FROM NULL": lambda row: row["n"] is None,
    "n IS NOT NULL AND n > 0": lambda row: row["n"] is not None and row["n"] > 0,
    "n IS NULL OR c IS NULL": lambda row: row["n"] is None or row["c"] is None,
    "NOT (n IS NULL OR (c IS NULL AND flag IS NULL))": lambda row: not (row["n"] is None or row["c"] is None),
    "coalesce(n, 0) = 0": lambda row: (row["n"] or 0) == 0,
    "coalesce(flag, false)": lambda row: bool(row["flag"]),
    "CASE WHEN n > 1 THEN true ELSE false END": lambda row: row["n"] is not None and row["n"] > 1,
    "nullif(n, 5) IS NULL": lambda row: row["n"] in (None, 5),
    "lower(c) = ' x '": both(lambda c: c.lower() == " x ", "c"),
    "upper(trim(c)) = 'X'": both(lambda c: c.strip().upper() == "X", "c"),
    "TRY_CAST(c AS INTEGER) IS NOT NULL": lambda row: row["c"] == "12",
    "CAST(n AS VARCHAR) = '5'": both(lambda n: n == 5, "n"),
    '"odd ""name" = 1': both(lambda value: value == 1, 'odd "name'),
    '"select" > 1': both(lambda value: value > 1, "select"),
    '"Größe" = 3': both(lambda value: value == 3, "Größe"),
    "true": lambda row: True,
    "NULL": lambda row: None,
}


@pytest.mark.parametrize("text", ALLOWED)
def test_what_is_allowed_holds_as_plain_python_says(table: duckdb.DuckDBPyConnection, text: str) -> None:
    """An allowed condition runs over odd values without an error, and is true, false or NULL where it should be."""
    assert holds(table, checked(text)) == [ALLOWED[text](row) for row in ROWS]


_SIMPLE = [text for text in ALLOWED if " OR " not in text and text not in ("true", "NULL")]


@settings(max_examples=40)
@given(
    parts=st.lists(st.sampled_from(_SIMPLE), min_size=2, max_size=5),
    words=st.lists(st.sampled_from(["AND", "OR"]), min_size=4, max_size=4),
    negated=st.booleans(),
)
def test_allowed_conditions_combine(
    table: duckdb.DuckDBPyConnection, parts: list[str], words: list[str], negated: bool
) -> None:
    """Conditions joined by AND and OR are what three-valued logic makes of their parts, AND first."""
    text = parts[0] + "".join(f" {word} {part}" for word, part in zip(words, parts[1:], strict=False))
    text = f"NOT ({text})" if negated else text

    def expected(row: Row) -> bool | None:
        groups = [[ALLOWED[parts[0]](row)]]
        for word, part in zip(words, parts[1:], strict=False):
            if word == "OR":
                groups.append([])
            groups[-1].append(ALLOWED[part](row))
        found = _any([_all(group) for group in groups])
        return None if found is None else found != negated

    assert holds(table, checked(text)) == [expected(row) for row in ROWS]


def _all(values: list[bool | None]) -> bool | None:
    return False if False in values else None if None in values else True


def _any(values: list[bool | None]) -> bool | None:
    return True if True in values else None if None in values else False


REFUSED = {
    "division": "n / 2 > 1",
    "remainder": "n % 0 = 1",
    "a sum that can overflow": "n + 1 > 2",
    "a negated column": "n > -n",
    "text joined": "c || 'x' = 'abcx'",
    "a cast that can fail": "CAST(c AS INTEGER) = 1",
    "a short cast that can fail": "c::INTEGER = 1",
    "a cast that can overflow": "CAST(x AS INTEGER) = 1",
    "a date that is none": "day > CAST('2020-02-30' AS DATE)",
    "an IN subquery": "n IN (SELECT n FROM people)",
    "a scalar subquery": "n = (SELECT max(n) FROM rows_of_it)",
    "EXISTS": "EXISTS (SELECT 1)",
    "ANY": "n = ANY([1, 2])",
    "a function": "length(c) > 1",
    "a function that fails": "error(c) IS NULL",
    "an unknown function": "anything(n) = 1",
    "a quoted function": '"length"(c) = 1',
    "chance": "random() < 0.5",
    "today": "day > current_date",
    "a variable": "getvariable('n') = 1",
    "a file": "n IN (FROM read_csv('/etc/passwd'))",
    "an aggregate": "sum(n) > 1",
    "a count": "count(*) > 1",
    "a window": "row_number() OVER () = 1",
    "a window over rows": "sum(n) OVER (ORDER BY n) > 1",
    "a second statement": "n = 1; DROP TABLE people",
    "a second statement behind the end": "n = 1); DROP TABLE people; --",
    "a second statement alone": "; DROP TABLE people",
    "a group": "n = 1) GROUP BY (n",
    "a limit": "n = 1) LIMIT (1",
    "a union": "n = 1) UNION SELECT (n",
    "a qualify": "n = 1) QUALIFY (true",
    "a sample": "n = 1) USING SAMPLE (10",
    "a name behind": "n = 1) AS (n",
    "an order": "n = 1 ORDER BY n",
    "an end that is commented out": "n = 1) --",
    "an open comment": "n = 1 /* and so on",
    "an unfinished condition": "n = 1 AND",
    "an open quote": "c = 'abc",
    "an unknown column": "nobody = 1",
    "a column of another table": "v.n = 1",
    "the row's address": "rowid = 1",
    "the table itself": "rows_of_it IS NULL",
    "a field": "list.n = 1",
    "an item": "list[1] = 1",
    "all columns": "COLUMNS(*) > 1",
    "a star": "*",
    "a parameter": "n = ?",
    "a named parameter": "n = $one",
    "text and number": "c = 1",
    "number and text": "n = 'x'",
    "text among numbers": "n IN (1, 'x')",
    "date and text": "day > '2020-01-01'",
    "boolean and number": "flag = 1",
    "numbers that cannot be compared": "huge = 1",
    "lists": "list = list",
    "a long number": "n < 99999999999999999999",
    "a pattern from a row": "c LIKE c",
    "a pattern that can be wrong": "c SIMILAR TO '['",
    "a regular expression": "c ~ '['",
    "an escape that can be wrong": "c LIKE 'a%' ESCAPE 'xy'",
    "a collation": "c COLLATE nocase = 'x'",
    "a pair": "(n, x) = (1, 2)",
    "a number alone": "n",
    "a text alone": "'true'",
    "nothing": "",
    "a space": "  \n ",
    "a comment alone": "-- n = 1",
    "an empty pair of brackets": "()",
    "a whole statement": "SELECT true",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_everything_else_is_refused(text: str) -> None:
    """What may fail, look elsewhere, or say more than one condition is refused, with a reason in words."""
    with pytest.raises(NotTotal) as caught:
        checked(text)
    assert str(caught.value)[:1].isalpha()


@pytest.mark.parametrize(
    "text", ["1 = 1) OR (1 = 1", "n = 1) AND (c = 'x'", "n = 1) ORDER BY (n", "n = 1\n) OR (n = 2"]
)
def test_brackets_that_close_what_the_condition_did_not_open_are_refused(text: str) -> None:
    """A condition stands in brackets of ours: one that closes them and opens others is not one condition."""
    with pytest.raises(NotTotal):
        checked(text)


@pytest.mark.parametrize("text", ["n = 1 -- or so", "n = 1 /* or so */", "n = 1 -- */ OR rowid > 0 /*", "n = 1 --)"])
def test_a_comment_changes_nothing(table: duckdb.DuckDBPyConnection, text: str) -> None:
    """Whatever a comment says, the condition that is checked is the one that runs."""
    assert holds(table, checked(text)) == [ALLOWED["n = 5"]({"n": row["n"] and row["n"] + 4}) for row in ROWS]


@pytest.mark.parametrize(
    ("text", "macro"),
    [
        ("lower(c) = 'x'", "lower"),
        ("upper(c) = 'X'", "UPPER"),
        ("trim(c) = 'x'", "trim"),
        ("nullif(n, 1) IS NULL", "nullif"),
        ("c LIKE 'a%'", "~~"),
        ("c NOT LIKE 'a%'", "!~~"),
    ],
)
def test_a_function_that_a_macro_replaced_is_refused(text: str, macro: str) -> None:
    """A function is allowed as long as no macro bears its name; other macros do not matter."""
    assert isinstance(checked(text, ("anything",)), exp.Expr)
    with pytest.raises(NotTotal, match="macro"):
        checked(text, ("anything", macro))


def test_the_first_column_may_have_any_name() -> None:
    """The table's first column is named in what is checked: an odd name, or one that speaks SQL, does no harm."""
    for name in ['a"b', "a b", "a) FROM b --", "'", "select", "*"]:
        text = f"{quote(name)} IS NULL"
        found = total_condition(text, "duckdb", types={name: "INTEGER"}, macros=())
        assert [column.name for column in found.find_all(exp.Column)] == [name]


def test_many_brackets_are_refused_and_not_an_error() -> None:
    """A condition nested beyond what can be read is refused like any other."""
    with pytest.raises(NotTotal):
        checked("(" * 20_000 + "n = 1" + ")" * 20_000)
