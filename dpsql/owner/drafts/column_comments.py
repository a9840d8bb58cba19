"""Domains in column comments: "0..110", "one of: a, b, c", "1 = male, 2 = female". The whole comment must say it.

What people write about a column is documentation, not rows. A comment that says anything else is shown as it is.
"""

from __future__ import annotations

import re

from dpsql.engines.base import Column
from dpsql.owner.drafts.proposal import Proposal, from_bounds, from_values

#: The longest comment that is read for a domain, and the longest part of one that is shown, in characters.
_LONGEST, _SHOWN = 4000, 100
_NUMBER = r"[-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"
_UNIT = r"(?:\s*[^\W\d]{1,12}|\s*%)?"
_RANGE = re.compile(
    rf"(?:[^0-9.:=]*[:=]\s*|(?:from|between)\s+)?({_NUMBER}){_UNIT}\s*(?:\.\.+|…|–|-|to|and)\s*({_NUMBER}){_UNIT}\.?",
    re.IGNORECASE,
)
_LIST = re.compile(r"(?:one of|values?|allowed values?|enum|codes?|in)\s*[:=]?\s*[\[({]?(.+?)[\])}]?\.?", re.IGNORECASE)
_CODE = re.compile(r"\s*(['\"]?)([^=:'\"]{1,80}?)\1\s*(?:=|:)\s*\S.*")


def from_comment(column: Column, comment: str) -> Proposal | None:
    """Return the proposal that a comment makes, or None where it says no domain."""
    origin = f"catalog: comment {shown_comment(comment)}"
    bounds, values = comment_range(comment), comment_values(comment)
    if bounds is not None:
        return from_bounds(column, *bounds, origin)
    return from_values(column, values, origin) if values else None


def shown_comment(comment: str) -> str:
    """Return a comment shortened to one line, in quotes."""
    text = " ".join(comment.split())
    return f'"{text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"}"'


def comment_range(comment: str) -> tuple[str, str] | None:
    """Return the bounds that a comment states, or None.

    >>> comment_range("0..110"), comment_range("age in years: 0 to 110"), comment_range("between -1.5 and 2 m.")
    (('0', '110'), ('0', '110'), ('-1.5', '2'))
    >>> comment_range("see page 3-4 of the manual") is None
    True
    """
    match = _RANGE.fullmatch(comment.strip()) if len(comment) <= _LONGEST else None
    if match is None or not float(match[1]) < float(match[2]):
        return None
    return match[1], match[2]


def comment_values(comment: str) -> list[str]:
    """Return the values that a comment lists; none where it lists none.

    >>> comment_values("one of: a, b, c"), comment_values("1 = male, 2 = female"), comment_values("status of the order")
    (['a', 'b', 'c'], ['1', '2'], [])
    """
    text = comment.strip()
    if len(text) > _LONGEST:
        return []
    parts = [part for part in re.split(r"[,;\n|]", text) if part.strip()]
    codes = [_CODE.fullmatch(part) for part in parts]
    if len(parts) > 1 and all(codes):
        return _distinct([code[2] for code in codes if code])
    listed = _LIST.fullmatch(text)
    words = [word for word in re.split(r"[,;|]", listed[1]) if word.strip()] if listed and "\n" not in text else []
    return _distinct([word.strip().strip("'\"") for word in words]) if len(words) > 1 else []


def _distinct(words: list[str]) -> list[str]:
    """Return words without repetition; none where one of them is a phrase, which a list of values seldom has."""
    stripped = [word.strip() for word in words]
    phrases = any(len(word.split()) > 4 or not word for word in stripped)
    return [] if phrases else list(dict.fromkeys(stripped))
