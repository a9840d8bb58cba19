"""Which table a name means. Schema and name are kept apart: joined by a dot, two tables can bear one name.

A table called "hr.people" in the home schema and a table "people" in schema "hr" are both asked for as `hr.people`. A
name that could mean either is refused, so that everything that asks by it means the same table or none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from dpsql.errors import UsageError

Place = tuple[str, str]
_Entry = TypeVar("_Entry")
_PART = re.compile(r'"(?:[^"]|"")+"|[^".]+')
_PARTS = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern}))*")


def full_name(place: Place, home: str) -> str:
    """Return what people call a table: its name alone in the home schema.

    >>> full_name(("main", "people"), "main"), full_name(("hr", "people"), "main")
    ('people', 'hr.people')
    """
    schema, table = place
    return table if schema == home else f"{schema}.{table}"


def split_parts(name: str) -> list[str]:
    """Return the parts of a name of which at least one is quoted, as SQL reads it; [] for any other text.

    >>> split_parts('"my schema".t'), split_parts("hr.people")
    (['my schema', 't'], [])
    """
    if '"' not in name or _PARTS.fullmatch(name) is None:
        return []
    parts = [match[0] for match in _PART.finditer(name)]
    return [part[1:-1].replace('""', '"') if part.startswith('"') else part for part in parts]


def quote_parts(parts: Sequence[str]) -> str:
    """Return parts as one name, each of them quoted.

    >>> quote_parts(["hr", "people"])
    '"hr"."people"'
    """
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def without_database(name: str, database: str) -> str | None:
    """Return a name of three parts without its first, where that is the database; None for any other name.

    >>> without_database("shop.hr.people", "shop"), without_database("shop.people", "shop")
    ('hr.people', None)
    """
    parts = split_parts(name)
    if len(parts) == 3 and parts[0] == database:
        return quote_parts(parts[1:])
    rest = name.removeprefix(f"{database}.")
    return rest if not parts and rest != name and "." in rest else None


def find_place(places: Iterable[Place], name: str, *, schema: str | None, home: str) -> Place | None:
    """Return the place that a name means, or None; letter case counts only where it must.

    With a schema the name is the table's own, and a dot in it is a letter like any other. Without, it is a full name,
    the home schema named or not, or parts that are quoted as in SQL.

    >>> find_place([("main", "people"), ("hr", "people")], "HR.people", schema=None, home="main")
    ('hr', 'people')
    """
    all_places = list(places)
    if schema is not None:
        same = [place for place in all_places if place == (schema, name)]
        alike = [place for place in all_places if _in_lower_case(*place) == _in_lower_case(schema, name)]
    else:
        same = [place for place in all_places if name in _names(place, home)]
        alike = [place for place in all_places if name.lower() in {text.lower() for text in _names(place, home)}]
        parts = split_parts(name)
        if len(parts) in (1, 2):
            meant_place = (parts[0], parts[1]) if len(parts) == 2 else (home, parts[0])
            same += [place for place in all_places if place == meant_place]
            alike += [place for place in all_places if _in_lower_case(*place) == _in_lower_case(*meant_place)]
    meant = sorted(set(same or alike))
    if len(meant) > 1:
        tables = " and ".join(f'"{table}" in schema "{schema_of_table}"' for schema_of_table, table in meant[:2])
        raise UsageError(f'"{name}" can mean two tables: {tables}.', hint="rename one of them")
    return meant[0] if meant else None


def find_entry(
    catalog: Mapping[Place, _Entry], name: str, *, schema: str | None, home: str
) -> tuple[Place, _Entry] | None:
    """Return the place that a name means with what a catalog holds of it, or None."""
    place = find_place(catalog, name, schema=schema, home=home)
    return None if place is None else (place, catalog[place])


def _names(place: Place, home: str) -> set[str]:
    """Return the texts that mean a table: its full name, and its schema before it in any case."""
    return {full_name(place, home), ".".join(place)}


def _in_lower_case(schema: str, table: str) -> Place:
    return schema.lower(), table.lower()
