"""Random schemas and random pairs of neighbouring tables, full of what breaks careless code.

All rows are made up by one generator with a seed, so that the seed's number is enough to repeat a failing case. Numbers
are NULL, NaN, infinite, outside of their bounds or as large as numbers can be; categories and labels are NULL, unknown,
empty or written in another case; a unit has from 0 to 200 rows, whatever `max_rows` says.

Of two neighbours, one has the rows of one more unit, scattered over the table. The other one is the same table after
these rows were deleted, so that all other rows keep their addresses, although their places in the order change. The
opposite direction is the same pair with its roles swapped. Half of the added units are plain: their rows are all alike,
have a declared label and belong to both batches in turn, so that they all fall into one cell and the loss is as large
as it can be. In a few pairs the rows that differ belong to nobody (their unit is NULL); they must count nowhere.

Where labels alone are private, the rows of one unit have other labels in the other table, declared or not. A NULL stays
NULL, because it is public which rows have a label.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sqlglot import exp

from dpsql.engines.base import Engine
from dpsql.schema import Boolean, Categorical, Feature, Hashed, Numeric, Schema, Target, Unit

#: Columns of the tables, besides features.
LABEL = "y"
PERSON = "person"
BATCH = "era"
PARTITION = "part"
#: The parts of a column that says the part itself: at least as many as any run has trees.
_PARTS = 4096
#: The values of the batch column; updates name two of them.
ERAS = ("old", "new")
#: How many rows the added unit has, besides around its `max_rows`.
_SIZES = (0, 1, 2, 5, 30, 200)
#: How many people are a crowd.
_CROWD = 150
#: How often the rows that differ are nobody's.
_NOBODY = 0.05
#: The most rows of the table that both have.
_COMMON = 40
#: Bounds of numeric features: usual ones, and those at which arithmetic in floating point goes wrong.
_BOUNDS = ((0.0, 64.0), (-1.0, 1.0), (-1e300, 1e300), (1e-300, 3e-300), (-1000.3, -1000.1), (2.0**52, 2.0**53))
#: Values of numeric features that break careless code.
_NUMBERS = (None, math.nan, math.inf, -math.inf, -0.0, 0.0, 5e-324, -5e-324, 1.7e308, -1.7e308, 2.0**63, -1.0, 1e18)
#: Texts that no category declares; some look like a declared one.
_TEXTS = (None, "", "??", "NULL", " a", "A", "a ", "ä", "x" * 300)
#: Values from which a category declares the first few.
_VALUES = ("a", "b", "c", "d", "e", "f", "g")
#: Classes from which a schema declares the first two or all.
_CLASSES = ("no", "yes", "maybe")
#: Labels that no schema declares.
_ODD_LABELS = (None, "", "??", "NO", "no ", "nan")
#: Numeric labels outside of the bounds of every target, or missing, or tiny.
_ODD_TARGETS = (None, math.nan, math.inf, -math.inf, 1e300, -1e300, 5e-324)

Row = tuple[Any, ...]
Chance = np.random.Generator


@dataclass(frozen=True)
class MadeUpTable:
    """A table as plain values: its columns' types, its rows, and the schema it is registered under (None: public).

    `gone` are the places, counted from 0, of rows that are written with all others and then deleted. `view` is a query
    over other tables, where this is one: it is registered, and nothing is created.
    """

    name: str
    types: Mapping[str, str]
    rows: tuple[Row, ...]
    schema: Schema | None
    gone: frozenset[int] = frozenset()
    view: str = ""

    @property
    def present(self) -> tuple[Row, ...]:
        """The rows that are left once those at the places `gone` were deleted."""
        return tuple(row for place, row in enumerate(self.rows) if place not in self.gone)

    def create(self, engine: Engine) -> None:
        """Create the table in DuckDB, fill it in the order of the rows, and delete the rows that are gone.

        They are deleted in a second transaction: rows that are deleted before they were committed never had an address.
        """
        if self.view:
            return
        columns = [
            exp.ColumnDef(this=exp.to_identifier(name, quoted=True), kind=exp.DataType.build(kind, dialect="duckdb"))
            for name, kind in self.types.items()
        ]
        place = exp.table_(self.name, quoted=True)
        with engine.transaction() as transaction:
            transaction.run(exp.Create(this=exp.Schema(this=place, expressions=columns), kind="TABLE"))
            if self.rows:
                marks = [exp.Tuple(expressions=[exp.Placeholder() for _ in self.types]) for _ in self.rows]
                values = [value for row in self.rows for value in row]
                transaction.run(exp.Insert(this=place.copy(), expression=exp.Values(expressions=marks)), values)
        if self.gone:
            lost = exp.Where(this=exp.column("rowid").isin(*sorted(self.gone)))
            with engine.transaction() as transaction:
                transaction.run(exp.Delete(this=place.copy(), where=lost))


@dataclass(frozen=True)
class Pair:
    """Two neighbouring tables, and the rows of the unit in which they differ, as the second has them."""

    first: MadeUpTable
    second: MadeUpTable
    differing: tuple[Row, ...]

    @property
    def has_unit(self) -> bool:
        """Whether the rows that differ are somebody's: at unit level those whose unit is NULL may lose nothing."""
        schema = self.first.schema
        at_unit_level = schema is not None and schema.unit.column is not None
        return not at_unit_level or any(row[0] is not None for row in self.differing)


def random_schema(
    chance: Chance, *, unit: bool, target: bool = False, labels: bool = False, numeric: bool = False
) -> Schema:
    """Return a schema of one to four features of any kind, for rows or for units of a few rows.

    With `numeric` the first of them is a number: the matrix random forest takes no table of wide categories alone.
    """
    features = tuple(_feature(chance, f"f{number}") for number in range(chance.integers(1, 5)))
    if numeric:
        features = (Numeric("f0", *_BOUNDS[0]), *features[1:])
    bounds = Target(-3, 7, steps=int(chance.choice([2, 10, 1000])))
    schema = Schema(
        LABEL,
        () if target else _CLASSES[: chance.integers(2, 4)],
        features,
        Unit(PERSON, int(chance.integers(1, 5))) if unit else Unit(),
        rows=None if chance.random() < 0.5 else int(chance.choice([50, 3000, 100_000])),
        partition=None if unit or chance.random() < 0.7 else PARTITION,
        batch=BATCH,
        target=bounds if target else None,
        public_features=labels,
    )
    # Some say the part of a row themselves, also where a unit's rows are in several parts: no privacy may rest on it.
    stored = len(features) % 2 == 0 and (unit or schema.partition is not None)
    return replace(schema, partition=PARTITION, parts=_PARTS) if stored else schema


def random_pair(
    chance: Chance, schema: Schema, *, name: str = "people", labels: bool = False, crowded: float = 0.15
) -> Pair:
    """Return neighbouring tables: with `labels` one unit has other labels in the second, else it is only there.

    With the chance `crowded` both have a crowd of people with the same row.
    """
    types = _types(chance, schema)
    common = [_row(chance, schema, types, person) for person in _persons(chance)]
    common += _crowd(chance, schema, types) if chance.random() < crowded else []
    added = _unit_rows(chance, schema, types, _unit_size(chance, schema, labels=labels))
    places = np.sort(chance.permutation(len(common) + len(added))[: len(added)]).tolist()
    if labels:
        changed = [_relabel(chance, schema, row) for row in added]
        first, second = (
            MadeUpTable(name, types, _insert_at(common, rows, places), schema) for rows in (added, changed)
        )
        return Pair(first, second, tuple(changed))
    second = MadeUpTable(name, types, _insert_at(common, added, places), schema)
    return Pair(replace(second, gone=frozenset(places)), second, tuple(added))


def random_public_table(chance: Chance, schema: Schema, *, name: str) -> MadeUpTable:
    """Return a public table of new rows with the schema's features, a few of them hostile."""
    types = {feature.name: _type(feature) for feature in schema.features}
    rows = tuple(tuple(_value(chance, feature) for feature in schema.features) for _ in range(7))
    return MadeUpTable(name, types, rows, None)


def swap_roles(pair: Pair) -> Pair:
    """Return the pair with its roles swapped: what was added is then removed."""
    return Pair(pair.second, pair.first, pair.differing)


def _feature(chance: Chance, name: str) -> Feature:
    kind = chance.choice(["number", "number", "category", "wide", "truth", "hashed"])
    if kind == "number":
        lower, upper = _BOUNDS[chance.integers(len(_BOUNDS))]
        null = None if chance.random() < 0.7 else upper
        return Numeric(name, lower, upper, cells=int(chance.choice([2, 17, 64])), null=null)
    if kind == "truth":
        return Boolean(name)
    if kind == "hashed":
        return Hashed(name, 20, (3, 4, 11)) if chance.random() < 0.3 else Hashed(name, int(chance.choice([2, 63])))
    values = _VALUES[: chance.integers(1, 8)] if kind == "category" else tuple(f"v{k}" for k in range(70))
    return Categorical(name, values, unknown=None if chance.random() < 0.7 else values[0])


def _types(chance: Chance, schema: Schema) -> dict[str, str]:
    types = {PERSON: str(chance.choice(["BIGINT", "VARCHAR", "DOUBLE"]))}
    types |= {feature.name: _type(feature) for feature in schema.features}
    label = "VARCHAR" if schema.target is None else "DOUBLE"
    return types | {LABEL: label, BATCH: "VARCHAR", PARTITION: "BIGINT"}


def _type(feature: Feature) -> str:
    if isinstance(feature, Numeric):
        return "DOUBLE"
    return "BOOLEAN" if isinstance(feature, Boolean) else "VARCHAR"


def _persons(chance: Chance) -> list[int | None]:
    """Return whose each of the common rows is: some people have more rows than are used, some rows are nobody's."""
    count = int(chance.integers(0, _COMMON + 1))
    people = chance.integers(0, max(1, count // 4), count).tolist()
    return [None if chance.random() < 0.05 else person for person in people]


def _crowd(chance: Chance, schema: Schema, types: Mapping[str, str]) -> list[Row]:
    """Return rows of many people that are all alike.

    Beside a crowd, a choice can lose nearly all that its epsilon allows: what is best for the crowd is chosen almost
    always, whether or not the newcomer, whose row favours another candidate, is there.
    """
    plain = _row(chance, schema, types, None, odd=0)
    return [(_person(types, 1000 + number), *plain[1:]) for number in range(_CROWD)]


def _unit_rows(chance: Chance, schema: Schema, types: Mapping[str, str], size: int) -> list[Row]:
    """Return the rows of the unit in which the tables differ: of any kind, or plain ones that are all alike."""
    nobody = chance.random() < _NOBODY
    newcomers = [None if nobody else _newcomer(chance, types) for _ in range(size)]
    if chance.random() < 0.5:
        return [_row(chance, schema, types, newcomer) for newcomer in newcomers]
    plain = _row(chance, schema, types, None, odd=0)
    start = int(chance.integers(len(ERAS)))
    eras = [ERAS[number % len(ERAS)] for number in range(start, start + size)]
    return [(newcomer, *plain[1:-2], era, plain[-1]) for newcomer, era in zip(newcomers, eras, strict=True)]


def _insert_at(common: list[Row], added: list[Row], places: list[int]) -> tuple[Row, ...]:
    """Return all rows in one order, the added ones at these places."""
    rows = list(common)
    for place, row in zip(places, added, strict=True):
        rows.insert(place, row)
    return tuple(rows)


def _person(types: Mapping[str, str], number: int) -> int | str | float:
    """Return the id of one of the people that both tables have, in the type of the column."""
    ids: dict[str, int | str | float] = {"BIGINT": number, "VARCHAR": f"p{number}", "DOUBLE": 1.5 + number}
    return ids[types[PERSON]]


def _newcomer(chance: Chance, types: Mapping[str, str]) -> float | int | str:
    """Return the unit in which the tables differ; zeros of both signs are one number, and so one unit."""
    if types[PERSON] == "DOUBLE":
        return -0.0 if chance.random() < 0.5 else 0.0
    return -77 if types[PERSON] == "BIGINT" else ""


def _unit_size(chance: Chance, schema: Schema, *, labels: bool) -> int:
    if schema.unit.column is None:
        return 1
    most = schema.unit.max_rows
    sizes = [size for size in (*_SIZES, most, most, most + 1, 3 * most) if size or not labels]
    return int(chance.choice(sizes))


def _row(chance: Chance, schema: Schema, types: Mapping[str, str], person: Any, *, odd: float = 0.2) -> Row:
    """Return a row of a person; its label is an odd one with the chance `odd`."""
    if isinstance(person, int) and person >= 0:
        person = _person(types, person)
    features = [_value(chance, feature) for feature in schema.features]
    era = None if chance.random() < 0.05 else ERAS[chance.integers(len(ERAS))]
    part = None if chance.random() < 0.2 else int(chance.integers(0, 9))
    return (person, *features, _label(chance, schema, odd=odd), era, part)


def _value(chance: Chance, feature: Feature) -> Any:
    if isinstance(feature, Numeric):
        if chance.random() < 0.4:
            return _NUMBERS[chance.integers(len(_NUMBERS))]
        return float(feature.lower + chance.random() * (feature.upper - feature.lower))
    if isinstance(feature, Boolean):
        return (None, True, False)[chance.integers(3)]
    if chance.random() < 0.3:
        return _TEXTS[chance.integers(len(_TEXTS))]
    return feature.values[chance.integers(len(feature.values))]


def _label(chance: Chance, schema: Schema, *, odd: float = 0.2, never: Any = None) -> Any:
    """Return a label, declared or, with the chance `odd`, not; with `never` one that is neither that nor NULL."""
    if schema.target is not None:
        strange: tuple[Any, ...] = _ODD_TARGETS
        plain: Any = float(chance.uniform(schema.target.lower, schema.target.upper))
    else:
        strange, plain = _ODD_LABELS, schema.classes[chance.integers(len(schema.classes))]
    if never is not None:
        others = [label for label in (*schema.classes, *strange) if label is not None and label != never]
        return others[chance.integers(len(others))]
    return strange[chance.integers(len(strange))] if chance.random() < odd else plain


def _relabel(chance: Chance, schema: Schema, row: Row) -> Row:
    """Return the row with another label, where it has one."""
    place = 1 + len(schema.features)
    if row[place] is None:
        return row
    return (*row[:place], _label(chance, schema, never=row[place]), *row[place + 1 :])
