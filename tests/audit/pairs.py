"""A small table and the same with one person more, and the replay of one training between them."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

from dpsql.audit.neighbours import LABEL, PERSON, Row, Table
from dpsql.audit.replay import Replay, model_text
from dpsql.audit.ways import Case, random_case
from dpsql.schema import Categorical, Numeric, Schema, Unit

#: Three rows of each person are used.
SCHEMA = Schema("y", ("no", "yes"), (Numeric("x", 0, 64), Categorical("c", ("a", "b"))), Unit(PERSON, 3))
ROWS = replace(SCHEMA, unit=Unit())
TYPES = {PERSON: "BIGINT", "x": "DOUBLE", "c": "VARCHAR", "y": "VARCHAR"}
PEOPLE: tuple[Row, ...] = tuple((n // 2, float(n * 7 % 64), "ab"[n % 2], ("no", "yes")[n % 2]) for n in range(20))
#: A person of nine rows, all of them alike: the three that are used fall into one cell of every grid.
NEWCOMER: tuple[Row, ...] = ((77, 9.0, "a", "yes"),) * 9


def trained(
    added: tuple[Row, ...] = NEWCOMER,
    schema: Schema = SCHEMA,
    *,
    people: tuple[Row, ...] = PEOPLE,
    kind: str = "pure",
    **asked: Any,
) -> Replay:
    """Return the replay of one training, recorded without the newcomer's rows and replayed with them."""
    return between(people, people + added, schema, kind=kind, **asked)


def between(
    first: tuple[Row, ...], second: tuple[Row, ...], schema: Schema = SCHEMA, *, kind: str = "pure", **asked: Any
) -> Replay:
    """Return the replay of one training between two tables of people."""
    tables = [(Table("people", TYPES, rows, schema),) for rows in (first, second)]
    given = {"request_id": "r", **asked}
    return Case("", *tables, lambda database: [model_text(database.train("people", **given))], kind).replay()


def case_with_a_loss(way: str) -> Case:
    """Return the first random case whose tables differ in at least one row that counts."""
    for seed in count():
        case = random_case(way, seed)
        one, other = sorted((case.first[0], case.second[0]), key=lambda table: len(table.rows))
        place = list(one.types).index(LABEL)
        labels = [row[place] for row in other.rows[len(one.rows) :]]
        known = (other.schema.classes if other.schema is not None else ()) or [
            label for label in labels if label == label
        ]
        if any(label in known for label in labels if label is not None):
            return case
    raise AssertionError
