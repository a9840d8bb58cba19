"""Fixed schemas that break things elsewhere, and every kernel operation on them: equal counts on every engine.

The expected counts come from DuckDB or from a walk in plain Python; predictions are compared with the model's own.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpsql.api.database import Database
from dpsql.compile.rows import EVERY_UNIT
from dpsql.engines.base import Engine
from dpsql.kernel.candidates import Candidates
from dpsql.kernel.exact import Rows
from dpsql.kernel.operations import Choose
from dpsql.methods.shared.greedy import even_weights
from dpsql.schema import Boolean, Categorical, Hashed, Numeric, Schema, Target, Unit, hashed_cell
from dpsql.trees.estimate.mixtures import Mixtures
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from dpsql.trees.grow.random_trees import random_forest
from dpsql.trees.grow.splits import two_way
from dpsql.trees.score_grid import ScoreGrid
from dpsql.trees.voting import VotingForest
from tests.conformance.tables import put, source_in
from tests.rows import Table, class_of, walk
from tests.tables import mixture_weights, model_of

#: A column that numbers the rows.
ROW = "row number"
CLASSES = ("no", "yes", 'it\'s \\ "maybe" %s ?')
COUNT = 90


def column(pool: list[Any], seed: int) -> list[Any]:
    """Return values drawn from a pool."""
    chance = Random(seed)
    return [chance.choice(pool) for _ in range(COUNT)]


def made(features: dict[str, tuple[str, Any, list[Any]]]) -> tuple[Schema, Table]:
    """Return a schema and a table from (type, feature, values to draw from) by name."""
    types = {name: kind for name, (kind, _, _) in features.items()} | {"label": "VARCHAR"}
    columns = {name: column(pool, seed) for seed, (name, (_, _, pool)) in enumerate(features.items())}
    columns["label"] = column([*CLASSES, *CLASSES, None, "unknown"], 99)
    return Schema("label", CLASSES, tuple(one for _, one, _ in features.values())), Table(types, columns)


def odd_numbers() -> tuple[Schema, Table]:
    """NULL, NaN, infinities, the largest and the smallest double, both zeros."""
    pool = [
        None,
        math.nan,
        math.inf,
        -math.inf,
        1.7976931348623157e308,
        -1.7976931348623157e308,
        5e-324,
        0.0,
        -0.0,
        0.5,
    ]
    return made(
        {
            "plain": ("DOUBLE", Numeric("plain", 0, 1), pool),
            "null_right": ("DOUBLE", Numeric("null_right", -1, 1, null=1), pool),
            "null_middle": ("DOUBLE", Numeric("null_middle", -8e307, 8e307, null=0), pool),
            "single": ("FLOAT", Numeric("single", 0, 1, cells=17), [None, math.nan, math.inf, 0.1, 0.5, 0.99]),
        }
    )


def decimals() -> tuple[Schema, Table]:
    """Decimals on and beside the edges of cells."""
    pool = [None, *(Decimal(n).scaleb(-2) for n in range(-5, 105, 3))]
    return made({"price": ("DECIMAL(18,2)", Numeric("price", 0, 1, cells=50), pool)})


def categories() -> tuple[Schema, Table]:
    """Unknown values, NULL, empty text, quotes, backslashes, emoji, trailing blanks, case; booleans; integers."""
    values = ("a", "A", "a ", "", "'", '"', "\\", "😀", "é", "e\u0301", "%s", "?", "$1", "a,b", "{a}", "NULL")
    pool = [*values, None, "unknown", "b"]
    return made(
        {
            "text": ("VARCHAR", Categorical("text", values, null="", unknown="a"), pool),
            "few": ("VARCHAR", Categorical("few", ("a", "A")), pool),
            "flag": ("BOOLEAN", Boolean("flag", null="true"), [True, False, None]),
            "whole": ("BIGINT", Categorical("whole", ("1", "-2", "9223372036854775807")), [1, -2, 2**63 - 1, 0, None]),
        }
    )


def odd_names() -> tuple[Schema, Table]:
    """Reserved words, letter case, emoji, blanks, quotes, names that our own statements use."""
    names = [
        "select",
        "Select Me",
        "ORDER",
        "😀",
        'quo"te',
        "node",
        "class",
        "ticket",
        "word_0",
        "value_0",
        "a.b",
        "row",
    ]
    return made({name: ("DOUBLE", Numeric(name, 0, 10), [None, 1.0, 5.0, 9.0]) for name in names})


def many_columns() -> tuple[Schema, Table]:
    """Two hundred columns, twenty words of cells: enough to see what grows faster than the columns."""
    return made({f"x{n}": ("SMALLINT", Numeric(f"x{n}", 0, 9), [None, 0, 3, 9]) for n in range(200)})


def many_values() -> tuple[Schema, Table]:
    """Ten thousand categories, three digits of a cell."""
    values = tuple(f"value {n}" for n in range(10_000))
    return made({"zip": ("VARCHAR", Categorical("zip", values), [*values[::700], values[-1], None, "unknown"])})


def enums() -> tuple[Schema, Table]:
    """An ENUM column."""
    return made(
        {"mood": ("ENUM('sad', 'it''s fine')", Categorical("mood", ("sad", "it's fine")), ["sad", "it's fine", None])}
    )


def dates() -> tuple[Schema, Table]:
    """A column of dates as a category, by the names that ISO gives them."""
    days = [datetime.date(year, 2, 28) for year in (1, 1969, 2000, 2024, 9999)]
    values = tuple(day.isoformat() for day in days[:-1])
    return made({"day": ("DATE", Categorical("day", values, null=values[1]), [*days, None])})


def hashed() -> tuple[Schema, Table]:
    """Hashed categories of odd texts, integers, dates and an ENUM, with and without a list of cells."""
    lengths = ["x" * length for length in (1, 55, 56, 63, 64, 65, 119, 120, 5000)]
    pool = [
        *lengths,
        "",
        " ",
        "a",
        "A",
        "a ",
        "é",
        "e\u0301",
        "ß",
        "日本",
        "😀",
        "\U0010ffff",
        "\u200b",
        "'",
        "\\",
        None,
    ]
    days = [datetime.date(year, 2, 28) for year in (1, 1969, 2000, 2024, 9999)]
    return made(
        {
            "text": ("VARCHAR", Hashed("text"), pool),
            "few": ("VARCHAR", Hashed("few", 2), pool),
            "listed": (
                "VARCHAR",
                Hashed("listed", 4096, tuple(sorted({hashed_cell(text, 4096) for text in pool[:6]}))),
                pool,
            ),
            "whole": ("BIGINT", Hashed("whole", 40), [0, 1, -1, 2**63 - 1, 1 - 2**63, 10**15, None]),
            "day": ("DATE", Hashed("day", 20), [*days, None]),
            "mood": (
                "ENUM('sad', 'it''s fine')",
                Hashed("mood", 50, tuple(range(0, 50, 2))),
                ["sad", "it's fine", None],
            ),
        }
    )


SCHEMAS = {
    "odd numbers": odd_numbers,
    "decimals": decimals,
    "categories": categories,
    "odd names": odd_names,
    "many columns": many_columns,
    "many values": many_values,
    "enums": enums,
    "dates": dates,
    "hashed": hashed,
}


@pytest.fixture(params=SCHEMAS)
def case(request: pytest.FixtureRequest) -> tuple[Schema, Table]:
    """Return one schema and its table after the other."""
    return SCHEMAS[request.param]()


def expected_counts(schema: Schema, table: Table, forest: Forest) -> np.ndarray:
    """Return the count of each (leaf, class) by a walk in plain Python, every row in every tree."""
    found = np.zeros((forest.leaves, max(1, len(schema.classes))), np.int64)
    for row in table.rows:
        label = class_of(schema, row)
        if label is not None:
            found[walk(schema, forest, row), label] += 1
    return found


@pytest.mark.parametrize("branches", [2, 5])
def test_leaf_counts_are_equal(engine: Engine, case: tuple[Schema, Table], branches: int) -> None:
    """From the table itself, and from packed rows that are held."""
    schema, table = case
    put(engine, "t", table)
    forest = random_forest(axes(schema), trees=4, depth=3, seed=7, branches=branches)
    rows = Rows(engine, source_in(engine, schema, "t"), {})
    try:
        wanted = expected_counts(schema, table, forest)
        assert (rows.leaf_counts(forest, EVERY_UNIT, shared=True) == wanted).all()
        rows.hold()
        assert (rows.leaf_counts(forest, EVERY_UNIT, shared=True) == wanted).all()
        assert rows.size(EVERY_UNIT) * forest.trees == wanted.sum()
    finally:
        rows.close()


def test_scores_of_mixtures_and_of_rows_are_equal(engine: Engine, case: tuple[Schema, Table]) -> None:
    """Rows that a released forest labels right, by mixture, and their histogram on the public grid."""
    schema, table = case
    put(engine, "t", table)
    forest = random_forest(axes(schema), trees=4, depth=2, seed=3, branches=2)
    weights = np.random.default_rng(1).integers(-50, 50, (forest.leaves, len(schema.classes)))
    released = VotingForest(forest, weights, nat=20)
    mixtures = Mixtures(released, np.array([0, 0, 1, 1]), np.array([[1, 0], [0, 1], [1, 1]]), np.ones(3, np.int64))
    rows = Rows(engine, source_in(engine, schema, "t"), {})
    known = [row for row in table.rows if class_of(schema, row) is not None]
    right = np.zeros(3, np.int64)
    for row in known:
        leaves = walk(schema, forest, row)
        for number in range(3):
            scores = mixture_weights(mixtures, number)[leaves].sum(axis=0)
            right[number] += int(scores.argmax()) == class_of(schema, row)
    try:
        assert rows.right_rows(mixtures, EVERY_UNIT).tolist() == right.tolist()
        grid = ScoreGrid(len(schema.classes))
        counted = rows.score_counts(released, schema.features, grid, EVERY_UNIT)
        starts = [*grid.starts.values(), grid.cells]
        sizes = [counted[a:b].sum() for a, b in pairwise(starts)]
        assert set(sizes) == {len(known)}
    finally:
        rows.close()


def test_rows_labelled_by_a_model_are_counted_alike(engine: Engine, case: tuple[Schema, Table]) -> None:
    """Each row in the leaf it reaches, with the class that a released forest gives it."""
    schema, table = case
    put(engine, "t", table)
    teacher = random_forest(axes(schema), trees=3, depth=2, seed=3, branches=2)
    weights = np.random.default_rng(1).integers(1, 50, (teacher.leaves, len(schema.classes)))
    pupil = random_forest(axes(schema), trees=2, depth=2, seed=5, branches=2)
    wanted = np.zeros((pupil.leaves, len(schema.classes)), np.int64)
    for row in table.rows:
        guess = int(weights[walk(schema, teacher, row)].sum(axis=0).argmax())
        wanted[walk(schema, pupil, row), guess] += 1
    rows = Rows(engine, replace(source_in(engine, schema, "t"), labelled=False), {})
    try:
        assert (rows.pseudo_counts(VotingForest(teacher, weights), pupil, EVERY_UNIT) == wanted).all()
    finally:
        rows.close()


def every_split(tree: Forest) -> Candidates:
    """Return all splits of all axes between single cells, for each leaf of a tree."""
    splits = two_way(tree.axes)
    weights = even_weights(tree.axes, (splits.arity > 0)[None])
    axis = np.arange(len(tree.axes), dtype=np.int16)[None]
    return Candidates(splits, np.repeat(axis, tree.leaves, axis=0), np.repeat(weights, tree.leaves, axis=0))


def test_choices_are_scored_alike(engine: Engine, case: tuple[Schema, Table], duckdb_engine: Engine) -> None:
    """The utility of every candidate split at every leaf, against DuckDB's."""
    schema, table = case
    if len(schema.features) > 50:
        schema = replace(schema, features=schema.features[:50])
    tree = random_forest(axes(schema), trees=1, depth=2, seed=2, branches=2)
    found = []
    for one in (engine, duckdb_engine):
        put(one, "t", table)
        rows = Rows(one, source_in(one, schema, "t"), {})
        try:
            candidates = every_split(tree)
            found.append(rows.scores(tree, candidates, [EVERY_UNIT], Choose("majority"), shared=False))
        finally:
            rows.close()
    assert (found[0] == found[1]).all()


def test_sums_of_a_target_are_equal(engine: Engine) -> None:
    """Steps above and below the bounds, whatever the target holds."""
    pool = [None, math.nan, math.inf, -math.inf, 1e308, -1e308, 0.0, 9.999, 10.0, 3.3, 5e-324]
    schema = Schema("y", (), (Numeric("x", 0, 1),), target=Target(0, 10, steps=100))
    table = Table({"x": "DOUBLE", "y": "DOUBLE"}, {"x": column([0.1, 0.6, None], 1), "y": column(pool, 2)})
    put(engine, "t", table)
    forest = random_forest(axes(schema), trees=2, depth=2, seed=1, branches=2)
    wanted = np.zeros((forest.leaves, 2), np.int64)
    for row in table.rows:
        above = class_of(schema, row)
        if above is not None:
            for leaf in walk(schema, forest, row):
                wanted[leaf] += (100 - above, above)
    rows = Rows(engine, source_in(engine, schema, "t"), {})
    try:
        assert (rows.leaf_sums(forest, EVERY_UNIT, shared=True) == wanted).all()
    finally:
        rows.close()


@pytest.mark.parametrize("kind", ["BIGINT", "VARCHAR", "DOUBLE", "DECIMAL(18,3)", "DATE"])
def test_no_unit_counts_more_than_it_may(engine: Engine, kind: str) -> None:
    """Units of any type: at most two rows each, and none without a unit."""
    pools: dict[str, list[Any]] = {
        "BIGINT": [1, 2, 3, None],
        "VARCHAR": ["a", "A", "", None],
        "DOUBLE": [0.5, 1.5, math.nan, None],
        "DECIMAL(18,3)": [Decimal("1.500"), Decimal("2"), None],
        "DATE": [datetime.date(2020, 1, 1), datetime.date(1999, 12, 31), None],
    }
    schema = Schema("y", ("a", "b"), (Numeric("x", 0, 1),), Unit("who", 2))
    units = column(pools[kind], 4)
    table = Table(
        {"who": kind, "x": "DOUBLE", "y": "VARCHAR"},
        {"who": units, "x": column([0.1, 0.2, 0.9], 5), "y": column(["a", "b"], 6)},
    )
    put(engine, "t", table)
    rows = Rows(engine, source_in(engine, schema, "t"), {})
    try:
        assert rows.size(EVERY_UNIT) == 2 * (len(pools[kind]) - 1)
    finally:
        rows.close()


def test_predictions_are_the_models_own(make_engine: Callable[[], Engine], case: tuple[Schema, Table]) -> None:
    """The label and the probabilities of every row, in the database and in Python; no order of rows is promised."""
    schema, table = case
    engine = make_engine()
    numbers = range(len(next(iter(table.columns.values()))))
    put(engine, "t", Table({**table.types, ROW: "BIGINT"}, {**table.columns, ROW: list(numbers)}))
    forest = random_forest(axes(schema), trees=3, depth=3, seed=11, branches=2)
    weights = np.random.default_rng(2).integers(1, 50, (forest.leaves, len(schema.classes)))
    with Database(engine) as db:
        model = db.add(model_of(VotingForest(forest, weights), schema))
        frame = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in table.columns.items()})
        found = model.predict_proba("t", key=ROW if len(table.columns) > 100 else None).sort_values(ROW)
        assert found["prediction"].tolist() == list(model.predict(frame))
        wanted = model.predict_proba(frame).to_numpy(float)
        shares = found[[name for name in found if name.startswith("p_")]].to_numpy(float)
        assert np.abs(shares - wanted).max() < 1e-12
