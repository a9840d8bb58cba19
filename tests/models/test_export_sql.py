"""A model that moved to another database predicts there what it predicts here, in every row."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.models.usable_model import Model
from dpsql.schema import Boolean, Categorical, Hashed, Numeric, Schema, Target
from dpsql.trees.forest import Forest, Level, bits
from dpsql.trees.grid import axes
from dpsql.trees.voting import VotingForest
from tests.elsewhere import ELSEWHERE, KEY, SLOW, Elsewhere, absent
from tests.hostile import HOSTILE
from tests.rows import any_forest, random_table, schemas
from tests.tables import model_of, voting

#: A schema with every kind of feature, odd bounds and a category of two digits in base 64.
MIXED = Schema(
    "y",
    ("no", "yes", "it's"),
    (
        Numeric("age", 0, 64),
        Numeric("rate", 0.1, 0.7, null=0.5),
        Numeric("huge", -8e307, 8e307, cells=17),
        Numeric("tiny", 1e-300, 3e-300),
        Boolean("flag"),
        Boolean("sure", null="true"),
        Categorical("color", ("red", "Red", "red ", "", "rot\\", "O'Neil"), unknown="Red"),
        Categorical("zip", tuple(map(str, range(130))), null="7"),
    ),
)


@pytest.fixture(scope="module")
def databases() -> Iterator[Callable[[str], Elsewhere]]:
    """Return a function that opens another database; each is opened once and closed in the end."""
    opened: dict[str, Elsewhere] = {}

    def open_one(name: str) -> Elsewhere:
        if name not in opened:
            opened[name] = ELSEWHERE[name]()
        return opened[name]

    yield open_one
    for one in opened.values():
        one.close()


@pytest.fixture(params=list(ELSEWHERE))
def elsewhere(request: pytest.FixtureRequest, databases: Callable[[str], Elsewhere]) -> Elsewhere:
    """Give each other database in turn."""
    return databases(request.param)


@pytest.fixture(params=[name for name in ELSEWHERE if name not in SLOW])
def quick(request: pytest.FixtureRequest, databases: Callable[[str], Elsewhere]) -> Elsewhere:
    """Give each other database in turn that answers in milliseconds."""
    return databases(request.param)


def moved(elsewhere: Elsewhere, schema: Schema, rows: int, seed: int) -> tuple[Schema, pd.DataFrame]:
    """Fill the table elsewhere with odd values; return the schema as it can have it, and the rows."""
    if not elsewhere.names:
        features = tuple(replace(one, name=f"feature {place}") for place, one in enumerate(schema.features))
        schema = replace(schema, features=features)
    table = random_table(replace(schema, classes=("no", "yes"), target=None), rows, seed)
    names = [feature.name for feature in schema.features]
    types = {KEY: "BIGINT"} | {name: table.types[name] for name in names}
    columns: dict[str, list[Any]] = {KEY: list(range(rows))} | {name: table.columns[name] for name in names}
    if not elsewhere.reals:
        columns = {name: [_finite(cell, types[name]) for cell in column] for name, column in columns.items()}
    elsewhere.fill(types, list(zip(*columns.values(), strict=True)))
    return schema, pd.DataFrame(columns).astype(object)


def _finite(cell: Any, kind: str) -> Any:
    if not isinstance(cell, float) or math.isfinite(cell):
        return cell
    largest = float(np.finfo(np.float32).max) if kind == "FLOAT" else 1.7e308
    return None if math.isnan(cell) else math.copysign(largest, cell)


def check_labels(elsewhere: Elsewhere, model: Model, frame: pd.DataFrame) -> None:
    """Hold the predictions elsewhere against our own."""
    found = elsewhere.scored(model)
    assert [row[0] for row in found] == list(range(len(frame)))
    assert [row[1] for row in found] == model.labels(frame).tolist()


@settings(max_examples=25)
@given(schema=schemas(most=25), seed=st.integers(0, 2**32), depth=st.integers(0, 4), most=st.integers(1, 3))
def test_labels_are_equal_elsewhere(quick: Elsewhere, schema: Schema, seed: int, depth: int, most: int) -> None:
    """NaN, infinities, NULL, unknown values, odd names, wide categories, early leaves: one label."""
    schema, frame = moved(quick, schema, 12, seed)
    forest = any_forest(axes(schema), trees=4, depth=depth, seed=seed)
    check_labels(quick, model_of(voting(forest, len(schema.classes), seed=seed, most=most), schema), frame)


@pytest.mark.parametrize("seed", range(3))
def test_every_kind_of_feature_moves(quick: Elsewhere, seed: int) -> None:
    """Letter case, trailing spaces, backslashes, the empty text, wide categories, bounds near the ends of a double."""
    schema, frame = moved(quick, MIXED, 300, seed)
    forest = any_forest(axes(schema), trees=12, depth=4, seed=seed, wide=300)
    check_labels(quick, model_of(voting(forest, 3, seed=seed, most=5), schema), frame)


def test_the_widest_category_moves(quick: Elsewhere) -> None:
    """A category of 4096 values has three digits in base 64."""
    schema, frame = moved(quick, Schema("y", ("a", "b"), (Categorical("zip", tuple(map(str, range(4096)))),)), 60, 5)
    check_labels(quick, model_of(voting(any_forest(axes(schema), trees=5, depth=4, seed=1), 2, most=3), schema), frame)


def test_hostile_texts_are_only_texts(elsewhere: Elsewhere) -> None:
    """Classes and values with quotes, comments, escapes and line breaks come back as they are."""
    texts = [text for text in HOSTILE if len(text) < 300]
    features = (Categorical("c", tuple(texts)), Categorical("d", tuple(texts[-60:])))
    schema, frame = moved(elsewhere, Schema("y", tuple(texts), features), 400, 1)
    forest = any_forest(axes(schema), trees=3, depth=4, seed=2, wide=600)
    check_labels(elsewhere, model_of(voting(forest, len(texts), seed=2), schema), frame)
    model = model_of(VotingForest(Forest(axes(schema), 1, ()), np.eye(len(texts), dtype=np.int64)[[7]]), schema)
    assert {row[1] for row in elsewhere.scored(model)} == {texts[7]}


@pytest.mark.parametrize("declared", [(63,), (126, tuple(range(0, 126, 2)))], ids=["all cells", "listed cells"])
def test_hashed_texts_have_the_same_cells(elsewhere: Elsewhere, declared: tuple[Any, ...]) -> None:
    """Each cell of a hash is a class of its own: hostile, long, empty and astral texts are in the same elsewhere."""
    features = (Hashed("job" if elsewhere.names else "feature 0", *declared),)
    schema, name = Schema("y", tuple(map(str, range(64))), features), features[0].name
    lengths = ["x" * length for length in (55, 56, 63, 64, 119, 120, 500)]
    odd = ["", " ", "a", "A", "a ", "é", "e\u0301", "日本", "😀", "\U0010ffff", "\ufeffa", None]
    texts = [*(text for text in HOSTILE if len(text) < 300), *lengths, *odd]
    elsewhere.fill({KEY: "BIGINT", name: "VARCHAR"}, list(enumerate(texts)))
    places = np.arange(64)
    planes = np.stack([bits((places >> plane & 1 == 1)[None, :]) for plane in range(6)])
    level = Level(np.zeros(1, np.int16), np.array([64], np.uint8), planes)
    released = VotingForest(Forest(axes(schema), 1, (level,)), np.eye(64, dtype=np.int64))
    scored = elsewhere.scored(model_of(released, schema))
    assert [row[1] for row in scored] == [str(schema.features[0].cell(text)) for text in texts]  # type: ignore[union-attr]


def test_nodes_with_many_children(quick: Elsewhere) -> None:
    """A node may send each of 64 cells another way; cell 63 is the highest bit of a plane."""
    schema, frame = moved(quick, Schema("y", tuple(map(str, range(64))), (Numeric("x", 0, 64),)), 300, 3)
    places = np.arange(64)
    planes = np.stack([bits((places >> plane & 1 == 1)[None, :]) for plane in range(6)])
    level = Level(np.zeros(1, np.int16), np.array([64], np.uint8), planes)
    released = VotingForest(Forest(axes(schema), 1, (level,)), np.eye(64, dtype=np.int64))
    check_labels(quick, model_of(released, schema), frame)
    assert frame[schema.features[0].name].map(str).nunique() > 30


@pytest.mark.parametrize("weights", [[[0, 0, 7], [0, 7, 0]], [[0, 0, 0], [0, 0, 0]], [[-1, -2, -1], [0, 1, 0]]])
def test_ties_go_to_the_first_class(quick: Elsewhere, weights: list[list[int]]) -> None:
    """Of equal scores the first class wins, below zero too; where no leaf speaks it is the first of all."""
    schema, frame = moved(quick, Schema("y", ("c", "b", "a"), (Numeric("x", 0, 1),)), 3, 1)
    check_labels(quick, model_of(VotingForest(Forest(axes(schema), 2, ()), np.array(weights)), schema), frame)


def test_the_largest_weights_do_not_overflow(quick: Elsewhere) -> None:
    """Weights at their limit are ranked in 64 bits, and their shares are right to the last digit."""
    schema, frame = moved(quick, Schema("y", ("a", "b", "c", "d"), (Numeric("x", 0, 1),)), 2, 1)
    weights = np.tile([2**40, 2**40 - 1, 3, -(2**40)], (2**10, 1))
    model = model_of(VotingForest(Forest(axes(schema), 2**10, ()), weights), schema)
    found = quick.scored(model, probabilities=True)
    assert {row[1] for row in found} == {"a"}
    assert np.array([row[2:] for row in found], float).tolist() == model.predict_proba(frame).to_numpy().tolist()


@pytest.mark.parametrize("nat", [0, 700])
def test_probabilities_are_equal_elsewhere(elsewhere: Elsewhere, nat: int) -> None:
    """Shares of votes are equal; those of log-scores are up to the last digits of EXP."""
    schema, frame = moved(elsewhere, MIXED, 60, 5)
    forest = any_forest(axes(schema), trees=6, depth=3, seed=4)
    weights = np.random.default_rng(nat).integers(-400 * max(nat, 1), 400 * max(nat, 1), (forest.leaves, 3))
    model = model_of(VotingForest(forest, weights, nat=nat), schema)
    found = elsewhere.scored(model, probabilities=True)
    assert [row[1] for row in found] == model.labels(frame).tolist()
    shares = np.array([row[2:] for row in found], float)
    expected = model.predict_proba(frame).to_numpy()
    assert np.allclose(shares, expected, rtol=1e-13, atol=1e-300) if nat else shares.tolist() == expected.tolist()


def check_numbers(elsewhere: Elsewhere, target: Target) -> None:
    """Hold predicted numbers elsewhere against our own, to the last bit."""
    schema, frame = moved(elsewhere, replace(MIXED, classes=(), target=target), 60, 7)
    forest = any_forest(axes(schema), trees=6, depth=3, seed=4)
    weights = np.random.default_rng(1).integers(0, 2**20, (forest.leaves, 2))
    check_labels(elsewhere, model_of(VotingForest(forest, weights), schema), frame)


def test_numbers_are_equal_elsewhere(elsewhere: Elsewhere) -> None:
    """A numeric target is predicted to the last bit."""
    check_numbers(elsewhere, Target(-3.7, 98.6))


@pytest.mark.parametrize("target", [Target(0, 1e9), Target(-1e-300, 3e-300), Target(-8e307, 8e307)], ids=str)
def test_numbers_at_the_ends_are_equal(quick: Elsewhere, target: Target) -> None:
    """Bounds may be as small or as large as doubles are."""
    check_numbers(quick, target)


def test_a_required_database_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is absent is skipped by name, and fails where DPSQL_REQUIRE names it."""
    monkeypatch.delenv("DPSQL_REQUIRE", raising=False)
    with pytest.raises(pytest.skip.Exception, match="mariadb: not here"):
        absent("mariadb", "not here")
    monkeypatch.setenv("DPSQL_REQUIRE", "clickhouse, mariadb")
    with pytest.raises(pytest.fail.Exception, match="mariadb is required"):
        absent("mariadb", "not here")
