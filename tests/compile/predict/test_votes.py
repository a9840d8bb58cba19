"""A model predicts the same label in SQL and in Python: select, view, table macro, scalar macro, predict."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import count
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.api.database import Database, connect
from dpsql.models import store
from dpsql.models.usable_model import Model
from dpsql.schema import Boolean, Categorical, Feature, Numeric, Schema
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from dpsql.trees.voting import VotingForest
from tests.hostile import HOSTILE
from tests.rows import Table, any_forest, create, random_table, schemas
from tests.tables import model_of, quote, rows_of, run, voting

KEY = "which row"
FORMS = ("select", "view", "table_macro", "macro", "predict")
_NUMBERS = count(1)


@cache
def database() -> Database:
    """Return the one database of these tests."""
    return connect(":memory:", who="ann")


def stored_model(schema: Schema, released: VotingForest) -> Model:
    """Return a model on the shelf of the database."""
    return store.add(database().engine, model_of(released, schema, f"model {next(_NUMBERS)}")).within(database())


def table_of(schema: Schema, rows: int, seed: int) -> Table:
    """Create the table "fresh" with a key and random, odd values, and return it."""
    made = random_table(schema, rows, seed)
    made = Table({KEY: "BIGINT", **made.types}, {KEY: list(range(rows)), **made.columns})
    create(database().engine, "fresh", made)
    return made


def sql_labels(model: Model, form: str) -> list[str]:
    """Return the labels of "fresh" by one form of SQL, in the order of the key."""
    engine = database().engine
    if form == "predict":
        found = model.predict("fresh", key=KEY)
        return [label for _, label in sorted(zip(found[KEY], found["prediction"], strict=True))]
    text = model.sql(form, table="fresh", name="made up")
    queries = {
        "select": f"SELECT {quote(KEY)} AS k, prediction AS p FROM ({text}) ORDER BY k",
        "view": f'SELECT {quote(KEY)} AS k, prediction AS p FROM "made up" ORDER BY k',
        "table_macro": f"SELECT {quote(KEY)} AS k, prediction AS p FROM \"made up\"('fresh') ORDER BY k",
        "macro": f'SELECT {quote(KEY)} AS k, "made up"({arguments(model)}) AS p FROM fresh ORDER BY k',
    }
    if form != "select":
        run(engine, text)
    labels = [row["p"] for row in rows_of(engine, queries[form])]
    if form == "view":
        run(engine, 'DROP VIEW "made up"')
    return labels


def arguments(model: Model) -> str:
    """Return the features of a model as arguments of its scalar macro."""
    return ", ".join(f"fresh.{quote(feature.name)}" for feature in model.schema.features)


def python_labels(model: Model, made: Table) -> list[str]:
    """Return the labels that Python gives to the same rows."""
    return model.labels(pd.DataFrame(made.columns).astype(object)).tolist()


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=5)
@given(schema=schemas(most=25), seed=st.integers(0, 2**32), depth=st.integers(0, 3), most=st.integers(1, 3))
def test_sql_and_python_name_the_same_label(form: str, schema: Schema, seed: int, depth: int, most: int) -> None:
    """NaN, infinities, NULL, unknown values, odd names, wide categories, several words, ties: one label."""
    forest = any_forest(axes(schema), trees=4, depth=depth, seed=seed)
    model = stored_model(schema, voting(forest, len(schema.classes), seed=seed, most=most))
    made = table_of(schema, 12, seed)
    assert sql_labels(model, form) == python_labels(model, made)


#: Names that the statements use themselves, or that a macro's parameters could stand in for.
INTERNAL = [
    "node", "class", "ticket", "leaf", "weight", "score", "best", "level", "model_id", "word", "shift", "child", "row",
    "split", "roots", "start", "scores", "winner", "vote", "dpsql", "model_node", "model_leaf", "word_0", "word_1",
    "plane_0", "depth_1", "numbered", "packed", "shares", "total", "score_0", "source_table", "main", "fresh", "axis",
    "arity", "unused", "feature_node", "made up", "NODE", "Word_0", "model", "votes", "ways", "way", "planes", "nodes",
    "voices", "number", "level_0", "plane_0_0", "other", "scored", "weighed", "summed", "prediction_", "Model",
]  # fmt: skip


def _schema_of(names: list[str]) -> Schema:
    """Return a schema with these names, the kinds in turn."""
    kinds: list[Feature] = []
    for place, name in enumerate(names):
        kinds.append((Numeric(name, 0, 8), Categorical(name, ("a", "b")), Boolean(name))[place % 3])
    return Schema("the truth", ("no", "yes", "maybe"), tuple(kinds))


def _groups(names: list[str], size: int) -> Iterator[list[str]]:
    """Yield names in groups without two that differ by letter case alone."""
    group: list[str] = []
    for name in names:
        if len(group) == size or name.lower() in (one.lower() for one in group):
            yield group
            group = []
        group.append(name)
    yield group


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("names", list(_groups(INTERNAL, 30)), ids=lambda names: f"{names[0]}…")
def test_features_may_have_internal_names(form: str, names: list[str]) -> None:
    """A column that is named like a part of the statement changes no label."""
    schema = _schema_of(names)
    model = stored_model(schema, voting(any_forest(axes(schema), trees=9, depth=4, seed=3, wide=200), 3, seed=3))
    made = table_of(schema, 20, 5)
    assert sql_labels(model, form) == python_labels(model, made)


@pytest.mark.parametrize(
    "names", list(_groups([n for n in HOSTILE if len(n) < 200], 50)), ids=lambda names: ascii(names[0])[:12]
)
def test_hostile_names_are_only_names(names: list[str]) -> None:
    """Columns with hostile names are arguments of a scalar macro like any other, and nothing else happens."""
    schema = _schema_of(names)
    model = stored_model(schema, voting(any_forest(axes(schema), trees=6, depth=3, seed=3, wide=100), 3, seed=3))
    made = table_of(schema, 4, 5)
    assert sql_labels(model, "macro") == python_labels(model, made)


@pytest.mark.parametrize("form", ["predict", "macro"])
def test_hostile_classes_and_values_are_only_text(form: str) -> None:
    """Class labels and category values with quotes, comments and escapes come back as they are."""
    texts = [text for text in HOSTILE if len(text) < 300]
    schema = Schema(
        "y", tuple(texts[:200]), (Categorical("c", tuple(texts[:300])), Categorical("d", tuple(texts[-60:])))
    )
    forest = any_forest(axes(schema), trees=3, depth=4, seed=2, wide=300)
    model = stored_model(schema, voting(forest, 200, seed=2))
    made = table_of(schema, 40, 1)
    found = sql_labels(model, form)
    assert found == python_labels(model, made)
    assert len(set(found)) > 5


@pytest.mark.parametrize("most", [0, 2**16], ids=["each its own", "shared"])
@pytest.mark.parametrize(("ways", "depth"), [(2, 5), (4, 3)], ids=["two ways", "many ways"])
@pytest.mark.parametrize("form", ["select", "macro"])
def test_nodes_keep_their_ways_or_share_them(
    form: str, ways: int, depth: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels are the same whether equal ways through nodes are spelled out once or each node keeps its own."""
    monkeypatch.setattr("dpsql.compile.predict.lookups._MOST_WAYS", most)
    schema = _schema_of([f"f{number}" for number in range(15)])
    forest = any_forest(axes(schema), trees=5, depth=depth, seed=8, most=ways, wide=90)
    model = stored_model(schema, voting(forest, 3, seed=8))
    made = table_of(schema, 25, 3)
    assert sql_labels(model, form) == python_labels(model, made)


@pytest.mark.parametrize("form", FORMS)
def test_ties_go_to_the_first_class(form: str) -> None:
    """With equal scores SQL names the first class in the schema's order, as Python does."""
    schema = Schema("y", ("c", "b", "a"), (Numeric("x", 0, 1),))
    model = stored_model(schema, VotingForest(Forest(axes(schema), 2, ()), np.array([[0, 0, 7], [0, 7, 0]])))
    table_of(schema, 3, 1)
    assert sql_labels(model, form) == ["b", "b", "b"]


@pytest.mark.parametrize("form", FORMS)
def test_leaves_without_a_vote_lose_no_row(form: str) -> None:
    """A row that reaches silent leaves alone gets the first class, not NULL."""
    schema = Schema("y", ("no", "yes"), (Numeric("x", 0, 1),))
    model = stored_model(schema, VotingForest(Forest(axes(schema), 2, ()), np.zeros((2, 2), np.int64)))
    table_of(schema, 3, 1)
    assert sql_labels(model, form) == ["no", "no", "no"]


@pytest.mark.parametrize("form", ["select", "predict", "macro"])
def test_the_largest_weights_do_not_overflow(form: str) -> None:
    """Weights at their limit in many trees and classes are ranked in 64 bits."""
    schema = Schema("y", tuple(map(str, range(64))), (Numeric("x", 0, 1),))
    weights = np.zeros((2**16, 64), np.int64)
    weights[:, 63] = 2**40
    model = stored_model(schema, VotingForest(Forest(axes(schema), 2**16, ()), weights))
    table_of(schema, 1, 1)
    assert sql_labels(model, form) == ["63"]


def test_shares_agree_with_python() -> None:
    """The columns `p_<class>` of a scored table are the shares that Python gives, and add up to 1."""
    schema = _schema_of(["x", "c", "b"])
    model = stored_model(schema, voting(any_forest(axes(schema), trees=5, depth=3, seed=4), 3, seed=4))
    made = table_of(schema, 15, 9)
    found: Any = model.predict_proba("fresh", key=KEY)
    shares = found[[f"p_{name}" for name in schema.classes]].to_numpy()
    assert np.allclose(shares, model.predict_proba(pd.DataFrame(made.columns).astype(object)).to_numpy())
    assert np.allclose(shares.sum(axis=1), 1)
