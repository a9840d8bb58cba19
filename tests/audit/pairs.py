"""A small table and the same with one person more, and the replays of what is trained on them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

from dpsql.api.database import Database
from dpsql.audit.claims import Outcome, model_outcome
from dpsql.audit.neighbours import ERAS, LABEL, PERSON, MadeUpTable, Row
from dpsql.audit.replay import Replay
from dpsql.audit.ways import AuditCase, random_case
from dpsql.schema import Categorical, Numeric, Schema, Unit

#: Three rows of each person are used.
SCHEMA = Schema("y", ("no", "yes"), (Numeric("x", 0, 64), Categorical("c", ("a", "b"))), Unit(PERSON, 3))
ROWS = replace(SCHEMA, unit=Unit())
TYPES = {PERSON: "BIGINT", "x": "DOUBLE", "c": "VARCHAR", "y": "VARCHAR"}
PEOPLE: tuple[Row, ...] = tuple((n // 2, float(n * 7 % 64), "ab"[n % 2], ("no", "yes")[n % 2]) for n in range(20))
#: A person of nine rows, all of them alike: the three that are used fall into one cell of every grid.
NEWCOMER: tuple[Row, ...] = ((77, 9.0, "a", "yes"),) * 9
#: Many people who all say "no" where the newcomer says "yes": then a choice can lose nearly all that it may.
AGAINST = tuple((1000 + n, 9.0, "a", "no") for n in range(500))
#: How many random pairs of each way are replayed, at least.
COUNT = int(os.environ.get("DPSQL_REPLAYS", "2"))
#: Ways of several runs or several sides, where few of the random pairs are such that a fault can show.
INTRICATE = ("evaluation", "update", "sspe", "sspe with another table", "sspe with another table of the same people")
_INTRICATE_COUNT = 10


def replays(way: str) -> Iterator[Replay]:
    """Replay the random pairs of a way, one by one."""
    for seed in range(max(COUNT, _INTRICATE_COUNT) if way in INTRICATE else COUNT):
        yield random_case(way, seed).replay()


def trained(
    added: tuple[Row, ...] = NEWCOMER,
    schema: Schema = SCHEMA,
    *,
    people: tuple[Row, ...] = PEOPLE,
    kind: str = "pure",
    groups: int | None = None,
    **asked: Any,
) -> Replay:
    """Return the replay of one training, recorded without the newcomer's rows and replayed with them.

    `groups` limits what one statement counts.
    """
    first = MadeUpTable("people", TYPES, people, schema)
    return between(first, replace(first, rows=people + added), kind=kind, groups=groups, **asked)


def between(
    first: MadeUpTable, second: MadeUpTable, *, kind: str = "pure", groups: int | None = None, **asked: Any
) -> Replay:
    """Return the replay of one training between two tables of people."""
    given = {"request_id": "r", **asked}
    act = lambda database: [model_outcome(database.train("people", **given))]  # noqa: E731
    return AuditCase("", (first,), (second,), act, kind, groups=groups).replay()


def updated() -> Replay:
    """Return the replay of a training on one batch and an update by the next, with a newcomer of six rows in both."""
    people, added = (
        tuple((*row, ERAS[number % 2]) for number, row in enumerate(rows)) for rows in (PEOPLE, NEWCOMER[:6])
    )
    table = MadeUpTable("people", TYPES | {"era": "VARCHAR"}, people, replace(SCHEMA, batch="era"))

    def act(database: Database) -> list[Outcome]:
        model = database.train("people", method="rdt", depth=1, batch=ERAS[0], request_id="r")
        return [model_outcome(model), model_outcome(database.update(model, ERAS[1], request_id="u"), sessions=range(2))]

    return AuditCase("", (table,), (replace(table, rows=people + added),), act).replay()


def on_both_sides() -> Replay:
    """Return the replay of a training on two tables, with a newcomer who is in both, and whom many speak against."""
    people = MadeUpTable("people", TYPES, AGAINST, SCHEMA)
    others = MadeUpTable("others", TYPES, AGAINST, Schema("", (), SCHEMA.features, SCHEMA.unit))
    added = AGAINST + ((77, 10.0, "a", "yes"),) * 3

    def act(database: Database) -> list[Outcome]:
        asked = {"method": "sspe", "unlabelled": "others", "trees": 1, "depth": 1}
        return [model_outcome(database.train("people", request_id="r", **asked))]

    return AuditCase("", (people, others), (replace(people, rows=added), replace(others, rows=added)), act).replay()


def case_with_a_loss(way: str) -> AuditCase:
    """Return the first random case whose tables differ in at least one row that counts."""
    for seed in count():
        case = random_case(way, seed)
        table, schema = case.first[0], case.first[0].schema
        assert schema is not None
        differing = [table.rows[place] for place in table.gone ^ case.second[0].gone]
        place, person = list(table.types).index(LABEL), list(table.types).index(PERSON)
        labels = [row[place] for row in differing if row[person] is not None]
        known = schema.classes or [label for label in labels if label == label]
        if any(label in known for label in labels if label is not None):
            return case
    raise AssertionError
