"""Random schemas, tables and forests, and a plain-Python oracle that walks the trees row by row.

Shapes are drawn by hypothesis, so that a failing case shrinks to few features; the values of a table and the splits
of a forest come from one seed. The oracle uses only `feature.cell` and the arrays of a level, one row at a time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from dpsql.compile.rows import Source, table_reference
from dpsql.engines.base import Engine
from dpsql.schema import Boolean, Categorical, Dated, Feature, Hashed, Numeric, Schema, Unit, category_text
from dpsql.trees.forest import PASS, Forest, Level
from dpsql.trees.grid import Axis
from tests.hostile import HOSTILE

#: Some cells of a wide hash.
EVERY_THIRD = tuple(range(0, 90, 3))
BOUNDS = [
    (0.0, 1.0),
    (-1.0, 1.0),
    (0.0, 64.0),
    (0.1, 0.7),
    (-1e300, 1e300),
    (-8e307, 8e307),
    (1e-300, 3e-300),
    (-5e-305, 0.0),
    (1e15, 1e15 + 100.0),
    (-1000.3, -1000.1),
    (2.0**52, 2.0**53),
    (-12345.678, 98765.4321),
]
SPECIAL = [None, math.nan, math.inf, -math.inf, -0.0, 0.0, 5e-324, -5e-324, 1.7e308, -1.7e308, 2.0**63, 1e18, -1.0, 1.0]
NAMES = st.sampled_from(HOSTILE) | st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=12
)
TEXTS = NAMES | st.just("")


@dataclass(frozen=True)
class Table:
    """A small table as Python values, with a SQL type for each column."""

    types: dict[str, str]
    columns: dict[str, list[Any]]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows as dictionaries."""
        return [dict(zip(self.columns, values, strict=True)) for values in zip(*self.columns.values(), strict=True)]

    def shuffled(self, seed: int) -> Table:
        """Return the same rows in another order."""
        order = list(range(len(self.rows)))
        Random(seed).shuffle(order)
        return Table(self.types, {name: [values[k] for k in order] for name, values in self.columns.items()})


@st.composite
def numerics(draw: st.DrawFn, name: str) -> Numeric:
    """Draw a numeric feature with plain, huge, tiny or lopsided bounds."""
    lower, upper = draw(st.sampled_from(BOUNDS))
    null = draw(st.sampled_from([None, None, lower, upper, (lower + upper) / 2, -1.0]))
    return Numeric(name, lower, upper, cells=draw(st.sampled_from([64, 64, 2, 3, 17])), null=null)


@st.composite
def categories(draw: st.DrawFn, name: str) -> Categorical:
    """Draw a category: a few odd texts, one value, numbers, or more values than one axis holds."""
    wide = st.sampled_from([63, 64, 65, 130]).map(lambda count: [str(k) for k in range(count)])
    few = st.lists(TEXTS, min_size=1, max_size=9, unique=True)
    values = tuple(draw(st.one_of(few, few, few, wide)))
    options = st.sampled_from([None, None, values[0], values[-1]])
    return Categorical(name, values, null=draw(options), unknown=draw(options))


@st.composite
def schemas(draw: st.DrawFn, most: int = 25, unit: bool = False) -> Schema:
    """Draw a schema of 1 to `most` features of all kinds: one, two, three and more words of cells."""
    count = draw(st.one_of(st.integers(1, min(4, most)), st.integers(1, most)))
    names = draw(st.lists(NAMES, min_size=count + 2, max_size=count + 2, unique_by=str.lower))
    kinds = draw(st.lists(st.sampled_from("nncbh"), min_size=count, max_size=count))
    features: list[Feature] = []
    for name, kind in zip(names[2:], kinds, strict=True):
        if kind == "b":
            features.append(Boolean(name, null=draw(st.sampled_from([None, "true", "false"]))))
        elif kind == "h":
            features.append(draw(st.sampled_from([Hashed(name), Hashed(name, 20), Hashed(name, 90, EVERY_THIRD)])))
        else:
            features.append(draw(numerics(name) if kind == "n" else categories(name)))
    classes = tuple(draw(st.lists(TEXTS, min_size=2, max_size=4, unique=True)))
    max_rows = draw(st.integers(1, 3))
    return Schema(names[0], classes, tuple(features), Unit(names[1], max_rows) if unit else Unit())


def random_table(schema: Schema, count: int, seed: int) -> Table:
    """Return a table with a column for each part of the schema: edges, NULL, NaN, infinities, unknown values."""
    chance = Random(seed)
    types: dict[str, str] = {}
    columns: dict[str, list[Any]] = {}
    for feature in schema.features:
        make = _numbers if isinstance(feature, Numeric) else _categories
        types[feature.name], columns[feature.name] = make(feature, count, chance)
    label = Categorical(schema.label, schema.classes)
    types[schema.label], columns[schema.label] = _categories(label, count, chance)
    if schema.unit.column is not None:
        types[schema.unit.column] = "BIGINT"
        columns[schema.unit.column] = [chance.choice([None, *range(count // 3 + 1)]) for _ in range(count)]
    return Table(types, columns)


def any_forest(found: tuple[Axis, ...], *, trees: int, depth: int, seed: int, most: int = 4, wide: int = 40) -> Forest:
    """Return a forest with nothing regular about it: any arity, any set of cells, early leaves anywhere."""
    generator = np.random.default_rng(seed)
    levels = []
    width = trees
    for _ in range(depth):
        arity = generator.integers(1, most + 1, width)
        early = (generator.random(width) < 0.2) | (np.cumsum(arity) > wide)
        arity[early] = 1
        axis = np.where(early, PASS, generator.integers(0, len(found), width)).astype(np.int16)
        slots = generator.integers(0, arity[:, None], (width, 64))
        planes = [[sum(int(slot >> p & 1) << cell for cell, slot in enumerate(row)) for row in slots] for p in range(2)]
        levels.append(Level(axis, arity.astype(np.uint8), np.array(planes, np.uint64)))
        width = int(arity.sum())
    return Forest(found, trees, tuple(levels))


def walk(schema: Schema, forest: Forest, row: dict[str, Any]) -> list[int]:
    """Return the leaf that one row reaches in each tree, one node after the other: the oracle."""
    cells = [one_cell(feature, row[feature.name]) for feature in schema.features]
    return [_walk_tree(forest, tree, cells) for tree in range(forest.trees)]


def one_cell(feature: Feature, value: Any) -> int:
    """Return the cell of one Python value."""
    if isinstance(feature, Numeric) and not isinstance(feature, Dated):
        return feature.null_cell if value is None else feature.cell(float(value))
    return feature.cell(value)


def class_of(schema: Schema, row: dict[str, Any]) -> int | None:
    """Return the number of a row's class, or the steps of its target; None when it does not count."""
    if schema.target is not None:
        return None if row[schema.label] is None else schema.target.step(float(row[schema.label]))
    text = category_text(row[schema.label])
    return schema.classes.index(text) if text in schema.classes else None


def naive_counts(schema: Schema, forest: Forest, rows: Sequence[dict[str, Any]]) -> Counter[tuple[int, int]]:
    """Return the rows of each (leaf, class) when every row walks every tree."""
    found: Counter[tuple[int, int]] = Counter()
    for row in rows:
        label = class_of(schema, row)
        if label is not None:
            found.update((leaf, label) for leaf in walk(schema, forest, row))
    return found


def create(engine: Engine, table_name: str, made: Table) -> None:
    """Create a table in schema main and fill it, value by value, in the order of the rows."""
    quoted = [f"{_quote(name)} {kind}" for name, kind in made.types.items()]
    marks = ", ".join(f"CAST(? AS {kind})" for kind in made.types.values())
    rows = list(zip(*made.columns.values(), strict=True))
    with engine.transaction() as run:
        run.run(f"CREATE OR REPLACE TABLE main.{_quote(table_name)} ({', '.join(quoted)})")
        if rows:
            places = ", ".join(f"({marks})" for _ in rows)
            run.run(f"INSERT INTO main.{_quote(table_name)} VALUES {places}", [value for row in rows for value in row])


def source_of(schema: Schema, table_name: str = "people", *, made: Table | None = None) -> Source:
    """Return the table of schema main as a source of rows; with `made`, its integer columns are known as such."""
    types = made.types if made is not None else {}
    whole = frozenset(name for name, kind in types.items() if kind in ("INTEGER", "BIGINT", "HUGEINT"))
    return Source(schema, table_reference(table_name, "main"), {}, integers=whole)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _numbers(feature: Numeric, count: int, chance: Random) -> tuple[str, list[Any]]:
    edges = [feature.lower, feature.upper, *feature.edges]
    near = [math.nextafter(edge, side) for edge in edges for side in (-math.inf, math.inf)]
    inside = [chance.uniform(feature.lower / 2, feature.upper / 2) * 2 for _ in range(20)]
    pool = [*chance.sample(edges, min(len(edges), 20)), *chance.sample(near, min(len(near), 20)), *inside, *SPECIAL]
    kind = chance.choice(list(_NUMBER_TYPES))
    fit = _NUMBER_TYPES[kind]
    return kind, [fit(chance.choice(pool)) for _ in range(count)]


def _categories(feature: Categorical, count: int, chance: Random) -> tuple[str, list[Any]]:
    if isinstance(feature, Hashed):
        return _hashable_values(count, chance)
    values = list(feature.values)
    if isinstance(feature, Boolean) or set(values) <= {"true", "false"}:
        return "BOOLEAN", [chance.choice([True, False, None]) for _ in range(count)]
    kinds = ["VARCHAR"]
    if len(values) < 200:
        kinds.append("ENUM")
    if all(value.isascii() and value.isdigit() and str(int(value)) == value and len(value) < 9 for value in values):
        kinds += ["BIGINT", "HUGEINT", "INTEGER"]
    kind = chance.choice(kinds)
    if kind in ("BIGINT", "HUGEINT", "INTEGER"):
        return kind, [chance.choice([*map(int, values), None, -1, 10**9]) for _ in range(count)]
    strange = [text for text in ("no such value", "NULL", values[0] + " ") if text not in values]
    pool = [*values, *strange]
    if kind == "ENUM":
        kind = f"ENUM({', '.join(_text(value) for value in pool)})"
    return kind, [chance.choice([*pool, None]) for _ in range(count)]


def _hashable_values(count: int, chance: Random) -> tuple[str, list[Any]]:
    """Return odd texts, or integers, for a hashed category."""
    if chance.random() < 0.3:
        return "BIGINT", [chance.choice([None, 0, -1, 10**15, chance.randrange(10**6)]) for _ in range(count)]
    texts = [text for text in HOSTILE if len(text) < 300]
    return "VARCHAR", [chance.choice([None, "", "a", "a ", "é", "e\u0301", "😀", *texts]) for _ in range(count)]


def _integer(bits: int) -> Callable[[float | None], int | None]:
    def fit(value: float | None) -> int | None:
        if value is None or not math.isfinite(value):
            return None
        return max(-(2 ** (bits - 1)) + 1, min(2 ** (bits - 1) - 1, round(value)))

    return fit


def _float(value: float | None) -> float | None:
    with np.errstate(over="ignore", under="ignore"):
        return None if value is None else float(np.float32(value))


def _decimal(value: float | None) -> Decimal | None:
    # 15 digits: a double holds every such decimal's quotient by a power of ten without a second rounding
    if value is None or not math.isfinite(value):
        return None
    return Decimal(round(max(-1e11, min(1e11, value)) * 1000)).scaleb(-3)


_NUMBER_TYPES: dict[str, Callable[[float | None], Any]] = {
    "DOUBLE": lambda value: value,
    "FLOAT": _float,
    "INTEGER": _integer(32),
    "BIGINT": _integer(64),
    "HUGEINT": _integer(127),
    "DECIMAL(18,3)": _decimal,
}


def _walk_tree(forest: Forest, tree: int, cells: Sequence[int]) -> int:
    node = tree
    for level in forest.levels:
        slot = 0
        if level.axis[node] != PASS:
            axis = forest.axes[level.axis[node]]
            cell = cells[axis.feature] // 64**axis.digit % 64
            slot = sum((int(plane[node]) >> cell & 1) * 2**p for p, plane in enumerate(level.planes))
        node = sum(int(arity) for arity in level.arity[:node]) + slot
    return node
