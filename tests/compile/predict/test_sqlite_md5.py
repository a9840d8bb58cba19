"""MD5 written in SQL gives what MD5 gives, at every length of a block and for every text."""

from __future__ import annotations

import hashlib
import sqlite3

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from dpsql.compile.predict.sqlite_md5 import md5_in_sqlite

QUERY = exp.select(md5_in_sqlite(exp.Placeholder(this="text"))).sql("sqlite")


def in_sqlite(text: str | None) -> int | None:
    """Return the number that SQLite works out."""
    connection = sqlite3.connect(":memory:")
    try:
        (number,) = connection.execute(QUERY, {"text": text}).fetchone()
    finally:
        connection.close()
    return number


def in_python(text: str) -> int:
    """Return the number that hashlib gives."""
    return int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:8], 16)


def test_every_length_around_a_block() -> None:
    """The length and its padding fill one, two or three blocks."""
    lengths = (*range(5), *range(53, 68), *range(117, 132), 1000)
    assert [in_sqlite("é" * (n // 2) + "x" * (n % 2)) for n in lengths] == [
        in_python("é" * (n // 2) + "x" * (n % 2)) for n in lengths
    ]


@settings(max_examples=30)
@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0")))
def test_every_text(text: str) -> None:
    """Any characters, of any number of bytes."""
    assert in_sqlite(text) == in_python(text)


def test_null_has_no_hash() -> None:
    """NULL stays NULL."""
    assert in_sqlite(None) is None


@given(word=st.integers(0, 2**32 - 1) | st.sampled_from([0, 1, 2**31, 2**32 - 1]), places=st.integers(1, 31))
def test_a_rotation_is_a_remainder(word: int, places: int) -> None:
    """(x·2^s − 1) mod (2^32 − 1) + 1 is x rotated, also for 0 and 2^32 − 1; SQLite's remainder of −1 is −1."""
    connection = sqlite3.connect(":memory:")
    try:
        sum_text = "SELECT (? * (1 << ?) - 1) % 4294967295 + 1"
        assert connection.execute(sum_text, (word, places)).fetchone()[0] == (
            (word << places | word >> (32 - places)) & (2**32 - 1)
        )
    finally:
        connection.close()
