"""The hostile list itself: long enough, valid, and without repetition."""

from __future__ import annotations

from tests.hostile import HOSTILE


def test_the_list_is_long() -> None:
    """There are at least 200 hostile texts."""
    assert len(HOSTILE) >= 200


def test_each_text_is_valid() -> None:
    """No text is empty, holds a NUL or a lone surrogate, or is longer than a column name may be."""
    assert [text for text in HOSTILE if not text or "\0" in text or len(text) > 1000] == []
    assert all(text.encode("utf-8") for text in HOSTILE)


def test_no_text_comes_twice() -> None:
    """All texts differ even when letter case does not count, so that they can be columns of one table."""
    assert len({text.lower() for text in HOSTILE}) == len(HOSTILE)
