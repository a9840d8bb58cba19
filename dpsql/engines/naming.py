"""Which table a name means. Schema and name are kept apart: joined by a dot, two tables can bear one name.

A table called "hr.people" in the home schema and a table "people" in schema "hr" are both asked for as `hr.people`. A
name that could mean either is refused, so that everything that asks by it means the same table or none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from dpsql.errors import UsageError

#: How a table's comment tells its identity where the database has none that lasts: rows cannot be looked at.
_MARK = re.compile(r"\s*\[dpsql ([0-9a-f]{32})\]")
#: What an identity that is a folder's or file's path starts with: what lies inside it is part of it.
PATH = "path "
Place = tuple[str, str]


def full_name(place: Place, home: str) -> str:
    """Return what people call a table: its name alone in the home schema.

    >>> full_name(("main", "people"), "main"), full_name(("hr", "people"), "main")
    ('people', 'hr.people')
    """
    schema, table = place
    return table if schema == home else f"{schema}.{table}"


def pick(places: Iterable[Place], name: str, *, schema: str | None, home: str) -> Place | None:
    """Return the place that a name means, or None; letter case counts only where it must.

    With a schema the name is the table's own, and a dot in it is a letter like any other. Without, it is a full name.

    >>> pick([("main", "people"), ("hr", "people")], "HR.people", schema=None, home="main")
    ('hr', 'people')
    """
    known = list(places)
    if schema is not None:
        same = [place for place in known if place == (schema, name)]
        alike = [place for place in known if _folded(*place) == _folded(schema, name)]
    else:
        same = [place for place in known if full_name(place, home) == name]
        alike = [place for place in known if full_name(place, home).lower() == name.lower()]
    meant = sorted(set(same or alike))
    if len(meant) > 1:
        told = " and ".join(f'"{table}" in schema "{its}"' for its, table in meant[:2])
        raise UsageError(f'"{name}" can mean two tables: {told}.', hint="rename one of them")
    return meant[0] if meant else None


def share_rows(some: Collection[str], others: Collection[str]) -> bool:
    """Whether tables with these identities share rows: one is in both, or is a path inside one of the others.

    >>> share_rows({"path /lake/people"}, {"path /lake/people/year=2024"}), share_rows({"16385.1"}, {"16385.2"})
    (True, False)
    """
    if not set(some).isdisjoint(others):
        return True
    paths = [(f"{one}/", f"{other}/") for one in some for other in others if {one[:5], other[:5]} == {PATH}]
    return any(one.startswith(other) or other.startswith(one) for one, other in paths)


def marked(comment: str | None) -> str:
    """Return the identity that a table's comment tells, "" where it tells none.

    >>> marked("all customers [dpsql 0123456789abcdef0123456789abcdef]"), marked("all customers")
    ('0123456789abcdef0123456789abcdef', '')
    """
    told = _MARK.search(comment or "")
    return told.group(1) if told else ""


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
    return f"{_MARK.sub('', comment or '')} [dpsql {identity}]".strip()


def _folded(schema: str, table: str) -> Place:
    return schema.lower(), table.lower()
