"""What a database must be able to say: the few things that databases spell differently.

`compile` builds statements and asks a vocabulary for these spellings; each engine's package has its own vocabulary.
`compile` and `engines` do not know each other, so the protocols stand below both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol

from sqlglot import exp

_IN_CATALOG = re.compile(r'"((?:[^"]|"")+)"\."((?:[^"]|"")+)"')


def in_catalog(catalog: str, schema: str) -> str:
    """Return how dpsql writes the schema of a catalog that is attached to the database: both parts quoted, as in SQL.

    >>> in_catalog("other", "hr"), split_catalog('"other"."hr"'), split_catalog("hr")
    ('"other"."hr"', ('other', 'hr'), (None, 'hr'))
    """
    return ".".join('"' + part.replace('"', '""') + '"' for part in (catalog, schema))


def split_catalog(schema: str) -> tuple[str | None, str]:
    """Return catalog and schema of what `in_catalog` wrote; None and the schema itself for any other."""
    parts = _IN_CATALOG.fullmatch(schema)
    return (parts[1].replace('""', '"'), parts[2].replace('""', '"')) if parts else (None, schema)


class RowByRow(Protocol):
    """How a database that processes one row at a time compares a number with edges."""

    def at_least(self, number: exp.Expr, edge: float) -> exp.Expr:
        """Return the test whether a double is a number (not NaN) and at least the edge."""
        ...

    def bucket(self, number: exp.Expr, edges: Sequence[float]) -> exp.Expr:
        """Return how many edges are at or below a double, NULL for NULL."""
        ...


class Lists(Protocol):
    """How a database writes lists of numbers inside an expression; places in a list are counted from 1."""

    def of(self, values: Sequence[exp.Expr]) -> exp.Expr:
        """Return a list of these values."""
        ...

    def numbers(self, count: int) -> exp.Expr:
        """Return the list 0, 1, … `count` − 1."""
        ...

    def at(self, values: exp.Expr, place: exp.Expr) -> exp.Expr:
        """Return the element at a place."""
        ...

    def place(self, values: exp.Expr, value: exp.Expr) -> exp.Expr:
        """Return the first place of a value."""
        ...

    def part(self, values: exp.Expr, first: int, last: int) -> exp.Expr:
        """Return the elements from one place to another."""
        ...

    def each(self, values: exp.Expr, name: str, result: exp.Expr) -> exp.Expr:
        """Return the list of what `result` gives for each element; `result` refers to the element as `name`."""
        ...

    def both(self, values: exp.Expr, others: exp.Expr) -> exp.Expr:
        """Return the elements of two lists, one list after the other."""
        ...

    def flat(self, lists: exp.Expr) -> exp.Expr:
        """Return the elements of a list of lists."""
        ...

    def sum(self, values: exp.Expr) -> exp.Expr:
        """Return the sum of whole numbers, as a 64-bit integer."""
        ...

    def largest(self, values: exp.Expr) -> exp.Expr:
        """Return the largest element."""
        ...

    def collect(self, value: exp.Expr, by: exp.Expr, test: exp.Expr | None = None) -> exp.Expr:
        """Return the list of the values of all rows, or of those that pass a test, ordered by the expression `by`."""
        ...

    def collect_once(self, value: exp.Expr) -> exp.Expr:
        """Return the list of the distinct values of all rows, in ascending order."""
        ...


class Vocabulary(Protocol):
    """How one database says the things that have no common spelling."""

    dialect: str
    #: The functions that its expressions call besides those that all statements may call
    #: (`compile/check.py`), in lower case; each gives a value for every cell and never fails.
    functions: frozenset[str]
    #: Given where rows are processed one at a time, so that a CASE costs only the branch that it takes: trees are then
    #: nested CASEs, without joins, and the cell of a number is searched for among its edges. None where the database
    #: processes vectors of many rows.
    row_by_row: RowByRow | None
    #: step(double, cells, missing) is the integer part of a double, from 0 to `cells` - 1, and `missing` for NULL and
    #: NaN. None where rows are processed one at a time, or where the cell of a number is computed in doubles.
    step: Callable[[exp.Expr, int, int], exp.Expr] | None
    #: Given where numbers can be looked up in lists within an expression: a row is then scored by itself, without
    #: joins, groups or numbers for rows. None where the database has no such lists, or where joins are faster.
    lists: Lists | None
    #: Whether expressions and queries can be stored under a name, with untyped parameters.
    macros: bool
    #: Whether a star can leave columns out.
    star_except: bool
    #: Whether each level's nodes are sent as a table of their own, because smaller tables are faster; else small levels
    #: share one table, which is sent once.
    levels_apart: bool

    def is_nan(self, number: exp.Expr) -> exp.Expr:
        """Return a test for NaN on a double."""
        ...

    def position(self, values: Sequence[str], text: exp.Expr) -> exp.Expr:
        """Return the place (from 0) of a text in a list, NULL when it is not there or NULL."""
        ...

    def keyed_hash(self, values: Sequence[exp.Expr], keys: Sequence[int | str]) -> exp.Expr:
        """Return an unsigned 64-bit hash of the values under secret keys (a name stands for a hidden key)."""
        ...

    def text_hash(self, text: exp.Expr) -> exp.Expr:
        """Return the first 32 bits of MD5 of a text in UTF-8 as a whole number, NULL for NULL.

        The hash is public and has no key; every database must give the same number (`dpsql/schema/hashed.py`).
        """
        ...

    def readable_text(self, text: exp.Expr, most_bytes: int) -> exp.Expr:
        """Return a text that Python can read: NULL for one of more bytes, and for bytes that are no text in UTF-8."""
        ...

    def share_test(self, values: Sequence[exp.Expr], key: str, share: int, parts: int) -> exp.Expr:
        """Return the test that a hash of the values under a key is among the first `share` of `parts`; never NULL.

        `key` is of 32 hexadecimal digits. Equal values pass or fail together, for good: in every session, under every
        setting, and under later versions of the database.
        """
        ...

    def row_address(self) -> exp.Expr | None:
        """Return the engine's own address of a row of a base table; None where no address stays a row's own."""
        ...

    def row_number(self) -> exp.Expr:
        """Return a number that no two rows of a relation share; the relation is computed once, and stored."""
        ...

    def word(self, cell: exp.Expr) -> exp.Expr:
        """Return a cell as the integer type that packs words."""
        ...

    def bit(self, plane: exp.Expr, cell: exp.Expr) -> exp.Expr:
        """Return one bit of a plane of 64, as an integer; the plane's type may be signed."""
        ...

    def number(self, value: exp.Expr, *, decimal: bool) -> exp.Expr:
        """Return a number as a double, whatever its value; `decimal`: its type holds numbers that no double can."""
        ...

    def seconds(self, value: exp.Expr, kind: str) -> exp.Expr:
        """Return a date or timestamp as the double `microseconds since 1970-01-01 00:00 UTC / 1e6`, whatever its value.

        `kind` is the column's type in the database's own words, "date" or "timestamp" where that is not known. A
        moment without a time zone counts as UTC, whatever time zone the session has. NULL gives NULL; a date that has
        no end gives a number beyond all others.
        """
        ...

    def moment(self, day: str, time: str, kind: str) -> exp.Expr | None:
        """Return a moment in UTC as a literal that a column of this type is compared with, for people to read.

        `day` is in the form 2020-01-31, and `time`, "" at midnight, in the form 12:30:00 with or without a fraction.
        None where such a comparison might fail or round: then numbers are compared.
        """
        ...

    def clamp(self, number: exp.Expr, lower: float, upper: float) -> exp.Expr:
        """Return a double clamped to bounds, where the database's arithmetic fails beyond them.

        Where that arithmetic gives infinity, return the double as it is.
        """
        ...

    def day(self, text: str) -> exp.Expr:
        """Return a day as a date that columns of dates can be compared with.

        `text` is from 1900-01-01 to 2299-12-31, written in this form.
        """
        ...
