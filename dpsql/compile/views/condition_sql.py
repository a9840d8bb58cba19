"""Turns conditions into SQL that is true or false for every row and cannot fail; its column's family types each test.

These are the reasons why no row can make a condition fail, or give neither true nor false, on any engine:

- Values are checked here: whole numbers within 64 bits for integers, normal finite doubles for other numbers, texts,
  TRUE and FALSE, dates from 1900 to 2299. A value of another family than its column is refused.
- Integers are compared as they are. Unsigned integers are never compared with a negative number: DuckDB would then
  convert the cells to signed numbers, which fails on large ones. Other numbers are compared as doubles, to which a cell
  is converted as that of every feature is. NaN passes no test; infinities are below and above everything.
- Texts are equal when their bytes are equal: they are looked up as categories are. They are not compared by order,
  which would depend on a collation.
- A test that is NULL for a row counts as false: each test is made true or false by itself, so that AND and OR join only
  what is true or false.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from sqlglot import exp

from dpsql.compile.views.condition_text import Condition, NotACondition, RowTest, Value
from dpsql.compile.vocabulary import Vocabulary, double, int_literal, paren
from dpsql.compile.word_text import Synonyms, word_text

_OPERATORS: dict[str, type[exp.Binary]] = {"<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE}
#: The words of the tests that each family of columns allows, besides IS NULL.
_WORDS = {
    **dict.fromkeys(("integer", "real", "date"), frozenset(("=", "<", "<=", ">", ">=", "in", "between"))),
    "text": frozenset(("=", "in")),
    "boolean": frozenset(("=",)),
}
#: The kind of value that each family of columns is compared with.
_KINDS = {"integer": "number", "real": "number", "text": "text", "boolean": "boolean", "date": "text"}
#: The first and last day that a condition may name: every engine compares these alike.
_FIRST = date(1900, 1, 1)
_LAST = date(2299, 12, 31)


@dataclass(frozen=True, eq=False)
class Cell:
    """A column as conditions see it: its family and the expression of its value.

    `number` is the value as a double where the family is real. `unsigned` marks a column of integers that are never
    negative. `missing` is the test that IS NULL stands for, where that is not simply that the value is NULL.
    `synonyms` are stored texts that mean a declared word: such a column, whatever its family, can be tested for words.
    """

    family: str
    value: exp.Expr
    number: exp.Expr | None = None
    unsigned: bool = False
    missing: exp.Expr | None = None
    synonyms: Synonyms = ()


def condition_sql(condition: Condition, cells: Mapping[str, Cell], vocabulary: Vocabulary) -> exp.Expr:
    """Return a condition as SQL that is true or false for every row, or raise NotACondition.

    `cells` has every column that the condition names, by that name.
    """
    if isinstance(condition, RowTest):
        return _test(condition, cells[condition.column], vocabulary)
    join = exp.And if condition.every else exp.Or
    joined, *others = [condition_sql(part, cells, vocabulary) for part in condition.parts]
    for other in others:
        joined = join(this=joined, expression=other)
    return paren(joined)


def _test(test: RowTest, cell: Cell, vocabulary: Vocabulary) -> exp.Expr:
    if test.word == "null":
        missing = cell.value.copy().is_(exp.null()) if cell.missing is None else cell.missing.copy()
        return exp.not_(paren(missing)) if test.negated else paren(missing)
    if cell.synonyms and test.word in _WORDS["text"] and all(value.kind == "text" for value in test.values):
        return _text_test(test, cell, vocabulary)
    if test.word not in _WORDS.get(cell.family, ()):
        raise NotACondition(f'cannot test "{test.column}" so: {_possible(cell.family)}')
    if cell.family == "text":
        return _text_test(test, cell, vocabulary)
    values = [_literal(value, test.column, cell.family, vocabulary) for value in test.values]
    comparison = _comparison(test.word, values, cell)
    comparison = exp.not_(paren(comparison)) if test.negated else comparison
    if cell.number is not None:
        comparison = exp.And(this=exp.not_(vocabulary.is_nan(cell.number.copy())), expression=paren(comparison))
    return exp.Coalesce(this=paren(comparison), expressions=[exp.false()])


def _comparison(word: str, values: list[exp.Expr], cell: Cell) -> exp.Expr:
    if cell.family == "boolean":
        return exp.EQ(this=cell.value.copy(), expression=values[0])
    if word == "between":
        return _between(cell, *values)
    if word in ("=", "in"):
        # Neither IN nor = is used: ClickHouse turns equalities into IN, which takes 0.0 and -0.0 for different numbers.
        equal = _between(cell, values[0], values[0])
        for value in values[1:]:
            equal = exp.Or(this=equal, expression=_between(cell, value, value))
        return equal
    return _order(word, cell, values[0])


def _between(cell: Cell, low: exp.Expr, high: exp.Expr) -> exp.Expr:
    return paren(exp.And(this=_order(">=", cell, low), expression=_order("<=", cell, high)))


def _order(word: str, cell: Cell, value: exp.Expr) -> exp.Expr:
    left = cell.value if cell.number is None else cell.number
    if cell.unsigned and isinstance(value, exp.Neg):
        word, value = (">=" if ">" in word else "<"), int_literal(0)
    return _OPERATORS[word](this=left.copy(), expression=value.copy())


def _text_test(test: RowTest, cell: Cell, vocabulary: Vocabulary) -> exp.Expr:
    """Return the test that a text is one of several: it has a position among them, as a category has."""
    words = dict(cell.synonyms)
    named = (_check_kind(value, test.column, "text").text for value in test.values)
    texts = tuple(dict.fromkeys(words.get(text, text) for text in named))
    text = word_text(cell.value.copy(), cell.synonyms)
    absent = vocabulary.position(texts, text).is_(exp.null())
    if not test.negated:
        return exp.not_(paren(absent))
    return paren(exp.And(this=exp.not_(paren(cell.value.copy().is_(exp.null()))), expression=paren(absent)))


def _check_kind(value: Value, column: str, family: str) -> Value:
    if value.kind != _KINDS[family]:
        raise NotACondition(f'compares "{column}" with a {value.kind}: {_possible(family)}')
    return value


def _literal(value: Value, column: str, family: str, vocabulary: Vocabulary) -> exp.Expr:
    """Return a value as SQL of its column's family, or refuse one that does not fit."""
    text = _check_kind(value, column, family).text
    if family == "boolean":
        return exp.true() if text == "true" else exp.false()
    if family == "integer":
        return int_literal(_integer(text, column))
    if family == "real":
        return double(_real(text, column))
    return vocabulary.day(_day(text, column))


def _integer(text: str, column: str) -> int:
    number = int(text) if re.fullmatch("[-+]?[0-9]{1,19}", text) else None
    if number is None or not -(2**63) <= number < 2**63:
        raise NotACondition(f'compares "{column}" with {text[:40]}: whole numbers of 64 bits are possible')
    return number


def _real(text: str, column: str) -> float:
    """Return a finite double; a number that no double holds, or only a subnormal, is refused: engines differ there."""
    number = float(text)
    zero = not re.search("[1-9]", re.split("[eE]", text)[0])
    if abs(number) > sys.float_info.max or (abs(number) < sys.float_info.min and not zero):
        raise NotACondition(f'compares "{column}" with {text[:40]}, which no ordinary double holds')
    return number


def _day(text: str, column: str) -> str:
    try:
        day = date.fromisoformat(text) if re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text) else None
    except ValueError:
        day = None
    if day is None or not _FIRST <= day <= _LAST:
        raise NotACondition(f"compares \"{column}\" with a day that is none from '{_FIRST}' to '{_LAST}'")
    return text


def _possible(family: str) -> str:
    """Return what a family of columns can be tested for, in words."""
    return {
        "integer": "it holds whole numbers, and is compared with whole numbers",
        "real": "it holds numbers, and is compared with numbers",
        "text": "it holds texts, and is compared by =, != and IN with texts in '…'",
        "boolean": "it is compared by = and != with TRUE and FALSE",
        "date": "it holds dates, and is compared with days as in '2020-01-31'",
    }.get(family, "its type allows IS NULL and IS NOT NULL alone")
