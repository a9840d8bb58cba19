"""A model of words predicts the same in another database, whether that stores booleans, codes or the words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpsql.compile.predict.portable_walk import is_boolean
from dpsql.errors import SchemaError
from dpsql.models.usable_model import Model
from dpsql.schema import Boolean, Categorical, Schema
from dpsql.trees.grid import axes
from tests.elsewhere import ELSEWHERE, KEY
from tests.rows import any_forest
from tests.tables import model_of, voting

MAPPED = Schema(
    "y",
    ("no", "yes"),
    (
        Categorical("married", ("no", "yes"), synonyms=(("false", "no"), ("true", "yes"))),
        Categorical("sure", ("ja", "nein"), null="nein", synonyms=(("false", "nein"), ("true", "ja"))),
        Categorical(
            "sex", ("male", "female"), unknown="male", synonyms=(("1", "male"), ("2", "female"), ("", "female"))
        ),
    ),
)
BOOLEANS: dict[str, tuple[str, list[Any]]] = {
    "married": ("BOOLEAN", [True, False, None, True, False, True]),
    "sure": ("BOOLEAN", [False, True, None, None, True, False]),
    "sex": ("BIGINT", [1, 2, None, 3, 2, 1]),
}
WORDS: dict[str, tuple[str, list[Any]]] = {
    "married": ("VARCHAR", ["yes", "no", None, "true", "false", "yes"]),
    "sure": ("VARCHAR", ["nein", "ja", None, None, "true", "false"]),
    "sex": ("VARCHAR", ["male", "female", None, "3", "2", "1"]),
}


def model() -> Model:
    """Return a model whose labels depend on every feature."""
    forest = any_forest(axes(MAPPED), trees=9, depth=3, seed=1)
    return model_of(voting(forest, 2, seed=1, most=5), MAPPED)


def frame_of(columns: dict[str, tuple[str, list[Any]]]) -> pd.DataFrame:
    """Return columns as a DataFrame of objects."""
    return pd.DataFrame({name: values for name, (_, values) in columns.items()}).astype(object)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_booleans_codes_and_words_get_one_label(name: str) -> None:
    """The exported script reads BOOLEAN (0 and 1 where there is no such type), numbers and texts alike."""
    moved, elsewhere = model(), ELSEWHERE[name]()
    labels = moved.labels(frame_of(BOOLEANS)).tolist()
    assert labels == moved.labels(frame_of(WORDS)).tolist()
    assert len(set(labels)) == 2
    try:
        for columns in (BOOLEANS, WORDS):
            types = {KEY: "BIGINT"} | {column: kind for column, (kind, _) in columns.items()}
            cells = [list(range(6)), *(values for _, values in columns.values())]
            elsewhere.fill(types, list(zip(*cells, strict=True)))
            assert [row[1] for row in elsewhere.scored(moved)] == labels
    finally:
        elsewhere.close()


def test_onnx_knows_the_synonyms() -> None:
    """The graph looks up stored texts and words alike, and its text for a missing value is neither."""
    onnxruntime = pytest.importorskip("onnxruntime")
    from dpsql.models.export_onnx import missing_text, onnx_model

    session = onnxruntime.InferenceSession(onnx_model(model()).SerializeToString())
    for columns in (BOOLEANS, WORDS):
        feeds = {}
        for feature in MAPPED.categorical:
            texts = [None if value is None else str(value).lower() for value in columns[feature.name][1]]
            feeds[feature.name] = np.array([[missing_text(feature) if t is None else t] for t in texts], dtype=object)
        assert session.run(None, feeds)[0].tolist() == model().labels(frame_of(columns)).tolist()
    assert missing_text(MAPPED.categorical[2]) == "<missing>"


def test_a_category_is_stored_as_boolean_by_its_synonyms() -> None:
    """Redshift cannot cast a boolean to text: such a column is tested, not compared."""
    assert [is_boolean(feature) for feature in MAPPED.features] == [True, True, False]
    assert is_boolean(Boolean("b"))


@pytest.mark.parametrize(
    ("feature", "values"),
    [(Categorical("f", ("no", "yes")), [True, None]), (Boolean("f"), ["yes", "no"]), (Boolean("f"), [1, 0])],
)
def test_booleans_and_words_without_a_mapping_are_refused(feature: Categorical, values: list[Any]) -> None:
    """Every value would be unknown: an error, and no nonsense."""
    schema = Schema("y", ("a", "b"), (feature,))
    bare = model_of(voting(any_forest(axes(schema), trees=2, depth=1, seed=1), 2), schema)
    with pytest.raises(SchemaError, match='"false": '):
        bare.labels(pd.DataFrame({"f": values}).astype(object))
