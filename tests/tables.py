"""Small tables, databases and models for tests above the compiler: one schema, plain rows, a dump of what is stored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpsql import methods
from dpsql.api.database import Database, connect
from dpsql.engines.base import Engine
from dpsql.kernel.datasets.dataset import Dataset, columns_used
from dpsql.kernel.datasets.identity import Base
from dpsql.kernel.promise import Promise
from dpsql.models.usable_model import Model
from dpsql.schema import Categorical, Numeric, Schema, Target, Unit
from dpsql.trees.estimate.mixtures import Mixtures
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from dpsql.trees.grow.random_trees import random_forest
from dpsql.trees.voting import VotingForest

SCHEMA = Schema("y", ("no", "yes", "maybe"), (Categorical("c", ("a", "b")), Numeric("x", 0, 64)))
UNITS = Schema(SCHEMA.label, SCHEMA.classes, SCHEMA.features, Unit("person", 3))
#: The same table with a number to predict: "y" from 0 to 10 in 100 steps.
TARGET = Schema(SCHEMA.label, (), SCHEMA.features, target=Target(0, 10, steps=100))
TARGET_UNITS = Schema(SCHEMA.label, (), SCHEMA.features, Unit("person", 3), target=TARGET.target)
TYPES = {"person": "BIGINT", "x": "DOUBLE", "c": "VARCHAR", "y": "VARCHAR"}
Row = tuple[int | None, float | None, str | None, str | float | None]
#: A method's parameters that keep a run small; methods take those that they have.
SMALL = {"trees": 3, "depth": 2}
#: Every way to run a method: each as it is, and `sspe` where labels alone are private.
WAYS: dict[str, tuple[str, dict[str, Any]]] = {name: (name, {}) for name in methods.METHODS}
WAYS["sspe labels"] = ("sspe", {"privacy": "labels"})
#: Those that protect labels alone.
LABEL_WAYS = ("pte", "ssrdt", "sspe labels")


def quote(name: str) -> str:
    """Return a name as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def run(engine: Engine, *statements: str) -> None:
    """Run statements, one transaction each."""
    for statement in statements:
        with engine.transaction() as transaction:
            transaction.run(statement)


def rows_of(engine: Engine, query: str) -> list[dict[str, Any]]:
    """Return the rows of a query."""
    with engine.transaction() as transaction:
        return transaction.rows(query)


def fill(
    engine: Engine, name: str, rows: Iterable[Row], types: Mapping[str, str] = TYPES, *, anew: bool = False
) -> None:
    """Create a table of persons, x, c and y; one that is there with these columns gets new rows, and stays itself.

    With `anew` it is another table, whose rows have the addresses of a first filling.
    """
    columns = ", ".join(f"{quote(column)} {kind}" for column, kind in types.items())
    info = engine.table(name)
    same = not anew and info is not None and [column.name for column in info.columns] == list(types)
    with engine.transaction() as transaction:
        transaction.run(f"DELETE FROM {quote(name)}" if same else f"CREATE OR REPLACE TABLE {quote(name)} ({columns})")
        listed = [list(row) for row in rows]
        if listed:
            marks = ", ".join("(" + ", ".join("?" for _ in types) + ")" for _ in listed)
            values = [value for row in listed for value in row]
            transaction.run(f"INSERT INTO {quote(name)} VALUES {marks}", values)


def types_of(schema: Schema) -> dict[str, str]:
    """Return the column types of "people" for a schema: a numeric target is a DOUBLE."""
    return TYPES if schema.target is None else {**TYPES, "y": "DOUBLE"}


def some_targets(count: int = 40) -> list[Row]:
    """Return the rows of `some_rows` with numbers to predict, some beyond the bounds, infinite, NaN or NULL."""
    odd = [None, float("nan"), float("inf"), float("-inf"), 1e300, -7.5]
    return [
        (person, x, c, odd[number % 6] if number % 8 == 7 else number * 3 % 11 + 0.25)
        for number, (person, x, c, _) in enumerate(some_rows(count))
    ]


def some_rows(count: int = 40) -> list[Row]:
    """Return rows of all classes, with a NULL, a NaN, an infinity, unknown values and a NULL unit among them."""
    rows: list[Row] = [
        (number // 2, float(number * 7 % 64), ("a", "b", "z", None)[number % 4], ("no", "yes", "maybe")[number % 3])
        for number in range(count)
    ]
    odd: list[Row] = [
        (None, 1.0, "a", "yes"),
        (900, None, None, "yes"),
        (901, float("nan"), "q", "maybe"),
        (902, float("inf"), "a", "no"),
        (903, 1e300, "b", "unknown label"),
        (904, 3.0, "b", None),
    ]
    return rows + odd


@dataclass(frozen=True)
class Fitted:
    """A way to run a method on a schema: the schema as this way needs it, what to ask for, what kind it is charged."""

    schema: Schema
    asked: dict[str, Any]
    kind: str

    @property
    def promise(self) -> Promise:
        """What the run promises."""
        return Promise(self.schema.unit, labels_only=self.kind == "label")


def fitted(way: str, schema: Schema = SCHEMA, **parameters: Any) -> Fitted:
    """Return how a method is run in a short time; `parameters` that it has replace the small ones."""
    method, own = WAYS[way]
    known = methods.get(method).parameters
    small = {**SMALL, "more_trees": 2, **own, **parameters}
    asked = {"method": method} | {name: value for name, value in small.items() if name in known}
    if way in LABEL_WAYS:
        return Fitted(replace(schema, public_features=True), asked, "label")
    if "unlabelled" in known and schema.unit.column is not None:
        asked.setdefault("unlabelled", f"{schema.unit.column} < 2")
    return Fitted(schema, asked, "pure")


def memory(
    rows: Iterable[Row] = (),
    *,
    schema: Schema = SCHEMA,
    cap: object | None = 1000,
    kind: str = "pure",
    **limits: Any,
) -> Database:
    """Return an open database in memory with the table "people" registered, and a budget of another kind beside."""
    return _registered(connect(":memory:", who="ann"), rows, schema, cap, kind, limits)


def on_disk(
    path: Path,
    rows: Iterable[Row] = (),
    *,
    schema: Schema = SCHEMA,
    cap: object | None = 1000,
    kind: str = "pure",
    **limits: Any,
) -> Database:
    """Return an open database file with the table "people" registered, and a budget of another kind beside."""
    return _registered(connect(path, create=True, who="ann"), rows, schema, cap, kind, limits)


def _registered(
    database: Database, rows: Iterable[Row], schema: Schema, cap: object | None, kind: str, limits: Mapping[str, Any]
) -> Database:
    fill(database.engine, "people", rows, types_of(schema))
    database.register("people", schema, cap=cap, **limits)
    if kind != "pure":
        database.set_cap("people", cap, kind=kind)
    return database


def stored(database: Database) -> dict[str, Any]:
    """Return everything that dpsql keeps: each of its tables, and the receipt's bytes."""
    tables = rows_of(
        database.engine, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'dpsql' ORDER BY ALL"
    )
    kept: dict[str, Any] = {
        row["table_name"]: rows_of(database.engine, f"FROM dpsql.{quote(row['table_name'])} ORDER BY ALL")
        for row in tables
    }
    # An empty table is no trace, and neither is the number of its format.
    filled = ["ledger", *(name for name, rows in kept.items() if rows)]
    kept["format"] = [row for row in kept.get("format", []) if row["part"] in filled]
    kept = {name: rows for name, rows in kept.items() if rows}
    for row in kept.get("chain", []):
        del row["turn"]  # whoever looks at a request once more has a turn, and leaves nothing else
    path = database.book.receipt_path
    kept["receipt"] = path.read_bytes() if path is not None else b""
    return kept


def small_forest(schema: Schema = SCHEMA, *, trees: int = 3, depth: int = 2, seed: int = 1) -> Forest:
    """Return a small random forest over a schema."""
    return random_forest(axes(schema), trees=trees, depth=depth, seed=seed)


def voting(forest: Forest, classes: int, *, seed: int = 1, most: int = 1) -> VotingForest:
    """Return a forest whose leaves vote at random, with weights up to `most`, for odd seeds negative ones too."""
    generator = np.random.default_rng(seed)
    if most == 1:
        return VotingForest.majority(forest, generator.integers(0, classes, forest.leaves), classes)
    least = -most if seed % 2 else 0
    return VotingForest(forest, generator.integers(least, most + 1, (forest.leaves, classes)))


def model_of(released: VotingForest, schema: Schema, name: str = "model") -> Model:
    """Return a model that was never trained, with a certificate that fits."""
    certificate = {"epsilon": "1", "created_at": "2026-01-01T00:00:00+00:00", "digest": released.digest()}
    return Model(name, "rosnam", "people", schema, released, certificate)


def frame_of(rows: Sequence[Row]) -> pd.DataFrame:
    """Return rows as a DataFrame with the columns of `fill`."""
    return pd.DataFrame([list(row) for row in rows], columns=list(TYPES)).astype(object)


def shape(value: Any) -> Any:
    """Return a JSON-like value with every leaf replaced by its type: keys and lengths stay."""
    if isinstance(value, Mapping):
        return {str(key): shape(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [shape(inner) for inner in value]
    return type(value).__name__


def plain(text: str) -> Any:
    """Return what a JSON text holds."""
    return json.loads(text)


def dataset_of(engine: Engine, name: str, schema: Schema) -> Dataset:
    """Return a table as a dataset that nobody registered: what a run sees of it after a charge."""
    info = engine.table(name)
    assert info is not None
    place, columns = (info.schema, info.table), columns_used(info, schema)
    return Dataset("d", info.name, place, Base.of(info), schema, columns, info.definition)


def mixture_weights(mixtures: Mixtures, number: int) -> Any:
    """Return the leaves' weights in one mixture: those that were released, times the factor of each leaf's part."""
    return mixtures.released.weights * mixtures.factors[number][mixtures.leaf_part][:, None]
