"""Identities of tables as texts: marks in a table's comment, paths of folders, and which of them share rows."""

from __future__ import annotations

import re
from collections.abc import Collection

#: How a table's comment tells its identity where the database has none that lasts: rows cannot be looked at.
_MARK = re.compile(r"\s*\[dpsql ([0-9a-f]{32})\]")
#: What an identity that is a folder's or file's path starts with: what lies inside it is part of it.
PATH = "path "


def share_rows(some: Collection[str], others: Collection[str]) -> bool:
    """Whether tables with these identities share rows: one is in both, or is a path inside one of the others.

    >>> share_rows({"path /lake/people"}, {"path /lake/people/year=2024"}), share_rows({"16385.1"}, {"16385.2"})
    (True, False)
    """
    if not set(some).isdisjoint(others):
        return True
    paths = [(f"{left}/", f"{right}/") for left in some for right in others if {left[:5], right[:5]} == {PATH}]
    return any(left.startswith(right) or right.startswith(left) for left, right in paths)


def mark_in(comment: str | None) -> str:
    """Return the identity that a table's comment tells, "" where it tells none.

    >>> mark_in("all customers [dpsql 0123456789abcdef0123456789abcdef]"), mark_in("all customers")
    ('0123456789abcdef0123456789abcdef', '')
    """
    match = _MARK.search(comment or "")
    return match.group(1) if match else ""


def is_mark(identity: str) -> bool:
    """Whether an identity is one that dpsql wrote when the table was registered, in this ledger or in another.

    >>> is_mark("0123456789abcdef0123456789abcdef"), is_mark("16384.16399")
    (True, False)
    """
    return re.fullmatch("[0-9a-f]{32}", identity) is not None


def with_mark(comment: str | None, identity: str) -> str:
    """Return a comment that tells an identity, in place of one that it told before.

    >>> with_mark("all customers", "0123456789abcdef0123456789abcdef")
    'all customers [dpsql 0123456789abcdef0123456789abcdef]'
    """
    return f"{without_mark(comment)} [dpsql {identity}]".strip()


def without_mark(comment: str | None) -> str:
    """Return a comment without the identity that it tells.

    >>> without_mark("all customers [dpsql 0123456789abcdef0123456789abcdef]")
    'all customers'
    """
    return _MARK.sub("", comment or "")
