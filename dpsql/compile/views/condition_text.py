"""The text of a condition: dpsql's own small language for a test on one row, read without any database's parser.

    age >= 40 AND (city IN ('Bern', 'Chur') OR NOT visited IS NULL)

    condition   = conjunction { OR conjunction }
    conjunction = term { AND term }
    term        = NOT term | ( condition ) | test
    test        = column IS [NOT] NULL
                | column (= | != | <> | < | <= | > | >=) value
                | column [NOT] BETWEEN value AND value
                | column [NOT] IN ( value { , value } )
    column      = letters, digits and _ (letter case does not count), or "any name" with "" for one quote
    value       = a number | 'text' with '' for one quote | TRUE | FALSE

That is all of it: there are no functions, casts, arithmetic, patterns, collations, comments or subqueries, and columns
cannot be compared with one another. What cannot be written cannot fail on a row. `compile/views/condition_sql.py` gives
a condition types and turns it into SQL.

While a text is read, NOT is moved down to the tests, so that the result consists of ANDs and ORs of tests. A test on a
cell that is NULL or NaN does not hold, negated or not; IS NULL and IS NOT NULL are the exceptions. This is SQL's own
meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

#: The longest condition, in characters.
MAX_LENGTH = 2000
#: The deepest nesting of brackets.
MAX_DEPTH = 20
#: The most tests in one condition.
MAX_TESTS = 100
#: The most values in one IN.
MAX_VALUES = 200
#: What a condition may be, in words for errors.
ALLOWED = (
    "tests as in age >= 40, city IN ('Bern', 'Chur'), day BETWEEN '2020-01-01' AND '2020-12-31', visited IS NULL, "
    "joined by AND, OR, NOT and brackets"
)
_TOKENS = re.compile(
    r"""[ \t\r\n]*(?:
      (?P<name>"(?:[^"]|"")+")
    | (?P<text>'(?:[^']|'')*')
    | (?P<number>[-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,4})?(?![A-Za-z0-9_.]))
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign><=|>=|<>|!=|[=<>(),])
    )""",
    re.VERBOSE,
)
_KEYWORDS = frozenset(("and", "or", "not", "is", "null", "between", "in", "true", "false"))
_COMPARISONS = {"=": "=", "!=": "=", "<>": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


class NotACondition(Exception):
    """Why a condition is refused, in words that follow "it"."""


@dataclass(frozen=True)
class Value:
    """A value as it was written: `kind` is number, text or boolean; `text` is what stands there, without quotes."""

    kind: str
    text: str


@dataclass(frozen=True)
class RowTest:
    """A test on one column: `word` is null, =, <, <=, >, >=, in or between; `negated` means NOT."""

    column: str
    quoted: bool
    word: str
    values: tuple[Value, ...]
    negated: bool


@dataclass(frozen=True)
class JoinedTests:
    """Parts that must all hold if `every` is true; otherwise at least one of them must hold."""

    every: bool
    parts: tuple[RowTest | JoinedTests, ...]


Condition = RowTest | JoinedTests


def parse_condition(text: str) -> Condition:
    """Return what a text says, or raise NotACondition with the reason.

    >>> parse_condition("NOT (age > 30 OR city IS NULL)").parts[0]
    RowTest(column='age', quoted=False, word='>', values=(Value(kind='number', text='30'),), negated=True)
    """
    if not isinstance(text, str) or not text.strip(" \t\r\n"):
        raise NotACondition("is empty")
    if len(text) > MAX_LENGTH:
        raise NotACondition(f"is longer than {MAX_LENGTH} characters")
    reader = _Reader(list(_tokens(text)))
    condition = reader.condition(negated=False, depth=0)
    reader.check_end()
    return condition


def tests_of(text: str) -> list[RowTest]:
    """Return the tests of a text, or an empty list where the text is not a condition."""
    try:
        return list(each_test(parse_condition(text)))
    except NotACondition:
        return []


def each_test(condition: Condition) -> Iterator[RowTest]:
    """Yield the tests of a condition, in order."""
    if isinstance(condition, RowTest):
        yield condition
    else:
        for part in condition.parts:
            yield from each_test(part)


@dataclass(frozen=True)
class _Token:
    """A piece of the text: `kind` is name, text, number, word or sign."""

    kind: str
    text: str

    @property
    def keyword(self) -> str:
        """The keyword that an unquoted word is, or the sign; "" for everything else."""
        if self.kind == "sign":
            return self.text
        lowered = self.text.lower()
        return lowered if self.kind == "word" and lowered in _KEYWORDS else ""


_END = _Token("end", "")


def _tokens(text: str) -> Iterator[_Token]:
    """Yield the pieces of a text; a character that begins none of them is refused."""
    place, end = 0, len(text.rstrip(" \t\r\n"))
    while place < end:
        match = _TOKENS.match(text, place)
        if match is None:
            raise NotACondition(f"cannot be read from character {place + 1} on")
        kind = str(match.lastgroup)
        inner = match[kind]
        if kind in ("name", "text"):
            inner = inner[1:-1].replace(inner[0] * 2, inner[0])
            if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in inner):
                raise NotACondition("holds a character that no text in a database can have")
        yield _Token(kind, inner)
        place = match.end()


class _Reader:
    """Reads tokens from left to right; it looks at one token ahead and never goes back."""

    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = tokens
        self.place = 0
        self.count = 0

    @property
    def next(self) -> _Token:
        """The token to be read next."""
        return self.tokens[self.place] if self.place < len(self.tokens) else _END

    def take(self) -> _Token:
        """Read one token."""
        token = self.next
        self.place += 1
        return token

    def skip(self, keyword: str) -> bool:
        """Read a keyword or sign if it comes next, and tell whether it did."""
        follows = self.next.keyword == keyword
        self.place += follows
        return follows

    def need(self, keyword: str) -> None:
        """Read a keyword or sign that must come next."""
        if not self.skip(keyword):
            raise NotACondition(f"needs {keyword.upper()} {self.where()}")

    def where(self) -> str:
        """Return, in words, where the next token is."""
        return "at its end" if self.next is _END else f'before "{self.next.text[:40]}"'

    def check_end(self) -> None:
        """Refuse anything that follows a complete condition."""
        if self.next is not _END:
            raise NotACondition(f"has something after its end, {self.where()}")

    def condition(self, *, negated: bool, depth: int) -> Condition:
        """Read parts joined by OR."""
        parts = [self.all_of(negated=negated, depth=depth)]
        while self.skip("or"):
            parts.append(self.all_of(negated=negated, depth=depth))
        return parts[0] if len(parts) == 1 else JoinedTests(negated, tuple(parts))

    def all_of(self, *, negated: bool, depth: int) -> Condition:
        """Read parts joined by AND."""
        parts = [self.test_or_brackets(negated=negated, depth=depth)]
        while self.skip("and"):
            parts.append(self.test_or_brackets(negated=negated, depth=depth))
        return parts[0] if len(parts) == 1 else JoinedTests(not negated, tuple(parts))

    def test_or_brackets(self, *, negated: bool, depth: int) -> Condition:
        """Read a test, or a condition in brackets, after any number of NOTs."""
        while self.skip("not"):
            negated = not negated
        if not self.skip("("):
            return self.test(negated=negated)
        if depth == MAX_DEPTH:
            raise NotACondition(f"has brackets more than {MAX_DEPTH} deep")
        inner = self.condition(negated=negated, depth=depth + 1)
        self.need(")")
        return inner

    def test(self, *, negated: bool) -> RowTest:
        """Read one test on a column."""
        self.count += 1
        if self.count > MAX_TESTS:
            raise NotACondition(f"has more than {MAX_TESTS} tests")
        column = self.next
        if column.kind not in ("name", "word") or column.keyword:
            raise NotACondition(f"needs a column's name {self.where()}")
        self.take()
        word, values, comparison_negated = self.comparison()
        return RowTest(column.text, column.kind == "name", word, values, negated != comparison_negated)

    def comparison(self) -> tuple[str, tuple[Value, ...], bool]:
        """Read what a column is compared with: the test's word, its values, and whether it is negated."""
        sign = self.next.keyword
        if sign in _COMPARISONS:
            self.take()
            return _COMPARISONS[sign], (self.value(),), sign in ("!=", "<>")
        if self.skip("is"):
            negated = self.skip("not")
            self.need("null")
            return "null", (), negated
        negated = self.skip("not")
        if self.skip("between"):
            low = self.value()
            self.need("and")
            return "between", (low, self.value()), negated
        if self.skip("in"):
            return "in", self.values(), negated
        raise NotACondition(f"needs a comparison, IS NULL, BETWEEN or IN {self.where()}")

    def values(self) -> tuple[Value, ...]:
        """Read the values of IN."""
        self.need("(")
        values = [self.value()]
        while self.skip(","):
            values.append(self.value())
        self.need(")")
        if len(values) > MAX_VALUES:
            raise NotACondition(f"has more than {MAX_VALUES} values in one IN")
        return tuple(values)

    def value(self) -> Value:
        """Read one value."""
        token = self.next
        if token.kind in ("number", "text"):
            self.take()
            return Value(token.kind, token.text)
        if token.keyword in ("true", "false"):
            self.take()
            return Value("boolean", token.keyword)
        raise NotACondition(f"needs a number, a text in '…', TRUE or FALSE {self.where()}")
