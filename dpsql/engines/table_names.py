"""Which table a name means. Schema and name are kept apart: joined by a dot, two tables can bear one name.

A table called "hr.people" in the home schema and a table "people" in schema "hr" are both asked for as `hr.people`. A
name that could mean either is refused, so that everything that asks by it means the same table or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from dpsql.errors import UsageError

Place = tuple[str, str]
_Entry = TypeVar("_Entry")


def full_name(place: Place, home: str) -> str:
    """Return what people call a table: its name alone in the home schema.

    >>> full_name(("main", "people"), "main"), full_name(("hr", "people"), "main")
    ('people', 'hr.people')
    """
    schema, table = place
    return table if schema == home else f"{schema}.{table}"


def find_place(places: Iterable[Place], name: str, *, schema: str | None, home: str) -> Place | None:
    """Return the place that a name means, or None; letter case counts only where it must.

    With a schema the name is the table's own, and a dot in it is a letter like any other. Without, it is a full name.

    >>> find_place([("main", "people"), ("hr", "people")], "HR.people", schema=None, home="main")
    ('hr', 'people')
    """
    all_places = list(places)
    if schema is not None:
        same = [place for place in all_places if place == (schema, name)]
        alike = [place for place in all_places if _in_lower_case(*place) == _in_lower_case(schema, name)]
    else:
        same = [place for place in all_places if full_name(place, home) == name]
        alike = [place for place in all_places if full_name(place, home).lower() == name.lower()]
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


def _in_lower_case(schema: str, table: str) -> Place:
    return schema.lower(), table.lower()
