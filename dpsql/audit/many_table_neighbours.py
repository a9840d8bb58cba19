"""Random pairs of neighbouring warehouses: a view over two private tables, with and without all rows of one person.

Both tables are full of what breaks careless code, as in `audit/neighbours.py`: rows of nobody, people who are in one
table alone, numbers that are NaN, infinite or as large as numbers can be, ties of dates.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from dpsql.audit.neighbours import LABEL, PERSON, Chance, MadeUpTable, Row
from dpsql.schema import Categorical, Numeric, Schema, Unit

#: The name of the view, by which it is trained on.
VIEW = "people"
_NUMBERS = (None, float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 5e-324, 1.7e308, -1.7e308, 2.5, 40.0)
_DAYS = (None, date(2020, 1, 1), date(2020, 1, 2), date(9999, 12, 31))
_WORDS = (None, "a", "b", "A", "", "??")
_LABELS = ("no", "yes", "yes", None, "??")
_SIZES = (0, 1, 2, 30)
#: The person in whose rows the warehouses differ.
_NEWCOMER = -77
_QUERY = f"""
SELECT p.{PERSON}, p.age, p.{LABEL}, COALESCE(g.n, 0) AS n, g.total, g.last_word
FROM persons p LEFT JOIN (
  SELECT e.{PERSON}, COUNT(*) AS n, SUM(LEAST(GREATEST(e.amount, 0), 50)) AS total, ARG_MAX(e.word, e.day) AS last_word
  FROM events e WHERE e.word IS NOT NULL OR e.amount > 1 GROUP BY e.{PERSON}
) g ON p.{PERSON} = g.{PERSON}
"""


def random_warehouses(chance: Chance) -> tuple[tuple[MadeUpTable, ...], tuple[MadeUpTable, ...]]:
    """Return two neighbouring warehouses, the second with all rows of one more person in both tables."""
    people = [None if chance.random() < 0.05 else int(chance.integers(0, 15)) for _ in range(chance.integers(0, 25))]
    owners = [None if chance.random() < 0.05 else int(chance.integers(0, 18)) for _ in range(chance.integers(0, 60))]
    people += [_NEWCOMER] * int(chance.choice(_SIZES[1:3]))
    owners += [_NEWCOMER] * int(chance.choice(_SIZES))
    chance.shuffle(people)
    chance.shuffle(owners)
    persons = [(person, _pick(chance, _NUMBERS), _pick(chance, _LABELS)) for person in people]
    events = [(owner, _pick(chance, _NUMBERS), _pick(chance, _WORDS), _pick(chance, _DAYS)) for owner in owners]
    features = (
        Numeric("age", 0, 64),
        Numeric("n", 0, 8, cells=9),
        Numeric("total", 0, 200),
        Categorical("last_word", ("a", "b")),
    )
    schema = Schema(LABEL, ("no", "yes"), features, Unit(PERSON, int(chance.integers(1, 4))))
    view = MadeUpTable(VIEW, {}, (), schema, view=_QUERY)
    tables = [
        MadeUpTable("persons", {PERSON: "BIGINT", "age": "DOUBLE", LABEL: "VARCHAR"}, tuple(persons), None),
        MadeUpTable(
            "events", {PERSON: "BIGINT", "amount": "DOUBLE", "word": "VARCHAR", "day": "DATE"}, tuple(events), None
        ),
    ]
    return (*(_without_newcomer(table) for table in tables), view), (*tables, view)


def _without_newcomer(table: MadeUpTable) -> MadeUpTable:
    gone = frozenset(place for place, row in enumerate(table.rows) if _is_newcomer(row))
    return MadeUpTable(table.name, table.types, table.rows, None, gone)


def _is_newcomer(row: Row) -> bool:
    return bool(row[0] == _NEWCOMER)


def _pick(chance: Chance, values: tuple[Any, ...]) -> Any:
    return values[chance.integers(len(values))]
