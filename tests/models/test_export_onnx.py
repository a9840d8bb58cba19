"""A model written as ONNX names the same labels as our own code, in every row."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.errors import ParameterError, UsageError
from dpsql.models.export_onnx import missing_text, onnx_model
from dpsql.models.usable_model import Model
from dpsql.schema import Categorical, Hashed, Numeric, Schema, Target, category_text, hashed_cell
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from dpsql.trees.voting import VotingForest
from tests.hostile import HOSTILE
from tests.rows import any_forest, random_table, schemas
from tests.tables import SCHEMA, model_of, small_forest, voting

onnxruntime = pytest.importorskip("onnxruntime")


def rows_of(schema: Schema, count: int, seed: int) -> pd.DataFrame:
    """Return odd values for each feature of a schema."""
    table = random_table(replace(schema, classes=("no", "yes"), target=None), count, seed)
    return pd.DataFrame({one.name: table.columns[one.name] for one in schema.features}).astype(object)


def fed(schema: Schema, frame: pd.DataFrame) -> dict[str, Any]:
    """Return the rows as inputs of the graph: doubles with NaN, texts with the text for what is missing."""
    feeds: dict[str, Any] = {}
    for feature in schema.features:
        column = frame[feature.name]
        if isinstance(feature, Numeric):
            feeds[feature.name] = np.array([[np.nan if cell is None else float(cell)] for cell in column])
        elif isinstance(feature, Hashed):
            feeds[feature.name] = np.array([[hashed_cell(cell, feature.hash_cells)] for cell in column], np.int64)
        else:
            texts = [category_text(cell) for cell in column]
            feeds[feature.name] = np.array([[missing_text(feature) if t is None else t] for t in texts], dtype=object)
    return feeds


def run(model: Model, frame: pd.DataFrame) -> list[Any]:
    """Return what onnxruntime makes of the rows."""
    session = onnxruntime.InferenceSession(onnx_model(model).SerializeToString())
    return session.run(None, fed(model.schema, frame))


@settings(max_examples=25)
@given(schema=schemas(most=25), seed=st.integers(0, 2**32), depth=st.integers(0, 4), most=st.integers(1, 3))
def test_labels_are_equal(schema: Schema, seed: int, depth: int, most: int) -> None:
    """NaN, infinities, missing and unknown values, odd names, wide categories, early leaves: one label."""
    frame = rows_of(schema, 20, seed)
    forest = any_forest(axes(schema), trees=4, depth=depth, seed=seed)
    model = model_of(voting(forest, len(schema.classes), seed=seed, most=most), schema)
    labels, shares = run(model, frame)
    assert labels.tolist() == model.labels(frame).tolist()
    assert shares.tolist() == model.predict_proba(frame).to_numpy().tolist()


def test_hostile_texts_are_only_texts() -> None:
    """Classes, values and names of features may be any text, those of the graph's own parts too."""
    texts = [text for text in HOSTILE if len(text) < 300]
    features = (Categorical("label", tuple(texts)), Categorical("constant", tuple(texts[:50]), null=texts[3]))
    schema = Schema("y", tuple(texts), features)
    frame = rows_of(schema, 300, 1)
    model = model_of(voting(any_forest(axes(schema), trees=3, depth=4, seed=2, wide=300), len(texts), seed=2), schema)
    assert run(model, frame)[0].tolist() == model.labels(frame).tolist()


@pytest.mark.parametrize("weights", [[[0, 0, 7], [0, 7, 0]], [[0, 0, 0], [0, 0, 0]], [[-1, -2, -1], [0, 1, 0]]])
def test_ties_go_to_the_first_class(weights: list[list[int]]) -> None:
    """Of equal scores the first class wins; where no class has a vote all are equally probable."""
    schema = Schema("y", ("c", "b", "a"), (Numeric("x", 0, 1),))
    frame = rows_of(schema, 3, 1)
    model = model_of(VotingForest(Forest(axes(schema), 2, ()), np.array(weights)), schema)
    labels, shares = run(model, frame)
    assert labels.tolist() == model.labels(frame).tolist()
    assert shares.tolist() == model.predict_proba(frame).to_numpy().tolist()


def test_large_scores_stay_apart() -> None:
    """Scores that 32 bits, or doubles, would take for equal are told apart."""
    schema = Schema("y", ("a", "b"), (Numeric("x", 0, 1),))
    weights = np.tile([2**40 - 1, 2**40 - 1], (2**20, 1))
    weights[0, 1] = 2**40
    model = model_of(VotingForest(Forest(axes(schema), 2**20, ()), weights), schema)
    assert run(model, rows_of(schema, 1, 1))[0].tolist() == ["b"]


def test_probabilities_of_log_scores() -> None:
    """Log-scores give the same probabilities, up to the last digits of Exp."""
    forest = any_forest(axes(SCHEMA), trees=6, depth=3, seed=4)
    weights = np.random.default_rng(1).integers(-90_000, 90_000, (forest.leaves, 3))
    model, frame = model_of(VotingForest(forest, weights, nat=700), SCHEMA), rows_of(SCHEMA, 60, 5)
    assert np.allclose(run(model, frame)[1], model.predict_proba(frame).to_numpy(), rtol=1e-13, atol=1e-300)


def test_numbers_are_equal() -> None:
    """A numeric target is predicted to the last bit."""
    schema = replace(SCHEMA, classes=(), target=Target(-3.7, 98.6))
    forest = any_forest(axes(schema), trees=6, depth=3, seed=4)
    weights = np.random.default_rng(1).integers(0, 2**20, (forest.leaves, 2))
    model, frame = model_of(VotingForest(forest, weights), schema), rows_of(schema, 60, 5)
    (found,) = run(model, frame)
    assert found.tolist() == model.labels(frame).tolist()


def test_a_hashed_category_is_the_number_of_its_cell() -> None:
    """The metadata says how many cells there are and how to find one; any other number is a missing value."""
    schema = Schema("y", ("a", "b"), (Hashed("job", 20),))
    model = model_of(voting(any_forest(axes(schema), trees=5, depth=3, seed=3), 2, seed=3), schema)
    session = onnxruntime.InferenceSession(onnx_model(model).SerializeToString())
    facts = session.get_modelmeta().custom_metadata_map
    assert json.loads(facts["dpsql.hashed"]) == {"job": 20}
    assert json.loads(facts["dpsql.missing"]) == {}
    assert "MD5" in facts["dpsql.hash"]
    numbers = [20, -1, 21, 64, 2**62, -(2**62)]
    (labels, _) = session.run(None, {"job": np.array([[number] for number in numbers], np.int64)})
    assert labels.tolist() == list(model.predict(pd.DataFrame({"job": [None] * len(numbers)})))


def test_listed_cells_of_a_hash_are_told_apart() -> None:
    """The number of a value's cell in the wide hash goes in; cells outside the list count as missing."""
    schema = Schema("y", ("a", "b"), (Hashed("job", 4096, (145, 2433, 2609)),))
    model = model_of(voting(any_forest(axes(schema), trees=5, depth=3, seed=3), 2, seed=3), schema)
    session = onnxruntime.InferenceSession(onnx_model(model).SerializeToString())
    assert json.loads(session.get_modelmeta().custom_metadata_map["dpsql.hashed"]) == {"job": 4096}
    words = ["nurse", "clerk", "pilot", None]
    numbers = [[hashed_cell(word, 4096)] for word in words] + [[-1], [2**40]]
    (labels, _) = session.run(None, {"job": np.array(numbers, np.int64)})
    assert labels.tolist() == list(model.predict(pd.DataFrame({"job": [*words, None, None]})))
    assert len(set(labels.tolist())) == 2


def test_the_file_says_how_to_write_what_is_missing(tmp_path: Path) -> None:
    """Where the empty text is a declared value, another stands for a missing one, and the metadata tells which."""
    schema = Schema("y", ("a", "b"), (Categorical("c", ("", "x"), null="x"), Categorical("d", ("x",))))
    model_of(voting(small_forest(schema), 2), schema).export_onnx(tmp_path / "m.onnx")
    facts = onnxruntime.InferenceSession(tmp_path / "m.onnx").get_modelmeta().custom_metadata_map
    assert json.loads(facts["dpsql.missing"]) == {"c": "<missing>", "d": ""}
    assert facts["dpsql.model"] == "model"


def test_an_existing_file_stays(tmp_path: Path) -> None:
    """A file that exists is not written over."""
    path = tmp_path / "m.onnx"
    path.write_text("mine")
    with pytest.raises(ParameterError, match="a new file; this one exists"):
        model_of(voting(small_forest(), 3), SCHEMA).export_onnx(path)
    assert path.read_text() == "mine"


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where onnx is not installed the error says what to install, and no file is left behind."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"dpsql\[onnx\]"):
        model_of(voting(small_forest(), 3), SCHEMA).export_onnx(tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())
