"""Models as values: JSON and back, damaged files, scores of DataFrames, words about themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.errors import NewerFormat, ParameterError, SchemaError, UnknownName
from dpsql.models.usable_model import Model
from dpsql.schema import Boolean, Categorical, Numeric, Schema
from dpsql.trees.grid import axes
from tests.rows import any_forest, random_table, schemas, walk
from tests.tables import SCHEMA, frame_of, model_of, plain, small_forest, some_rows, voting


@cache
def small_model() -> Model:
    """Return a small model that was never trained."""
    return model_of(voting(small_forest(), 3), SCHEMA)


def text(**changes: Any) -> str:
    """Return the small model's JSON with some of its top-level parts replaced."""
    return json.dumps(plain(small_model().to_json()) | changes)


@settings(max_examples=25)
@given(schema=schemas(most=6), seed=st.integers(0, 2**32), depth=st.integers(0, 3))
def test_json_comes_back_the_same(schema: Schema, seed: int, depth: int) -> None:
    """A model written as JSON and read again has the same schema, votes, certificate and labels."""
    released = voting(any_forest(axes(schema), trees=3, depth=depth, seed=seed), len(schema.classes), seed=seed, most=4)
    model = model_of(released, schema)
    back = Model.from_json(model.to_json())
    frame = pd.DataFrame(random_table(schema, 9, seed).columns).astype(object)
    assert (back.schema, back.released.digest()) == (schema, released.digest())
    assert dict(back.certificate) == dict(model.certificate)
    assert back.labels(frame).tolist() == model.labels(frame).tolist()


@settings(max_examples=25)
@given(schema=schemas(most=6), seed=st.integers(0, 2**32))
def test_labels_are_the_majority_of_a_walk(schema: Schema, seed: int) -> None:
    """A row's label is the class that most of the leaves it reaches name, the first of equals."""
    released = voting(any_forest(axes(schema), trees=5, depth=3, seed=seed), len(schema.classes), seed=seed)
    made = random_table(schema, 9, seed)
    expected = []
    for row in made.rows:
        votes = [int(released.weights[leaf].argmax()) for leaf in walk(schema, released.forest, row)]
        expected.append(schema.classes[max(range(len(schema.classes)), key=lambda c: (votes.count(c), -c))])
    assert model_of(released, schema).labels(pd.DataFrame(made.columns).astype(object)).tolist() == expected


def test_a_file_comes_back_the_same(tmp_path: Path) -> None:
    """`to_json(path)` writes what `from_json(path)` reads, given as Path or as text."""
    path = tmp_path / "model.json"
    written = small_model().to_json(path)
    assert [Model.from_json(one).to_json() for one in (path, str(path))] == [written, written]


def test_another_name_may_be_given() -> None:
    """`name` replaces the name in the file."""
    assert Model.from_json(text(), name="other").name == "other"


@pytest.mark.parametrize("part", ["format", "version", "name", "method", "table", "schema", "certificate", "forest"])
@pytest.mark.parametrize("bad", ["missing", None, 7, [], {}, "x"], ids=str)
def test_a_missing_or_wrong_part_is_refused(part: str, bad: Any) -> None:
    """A model file without one of its parts, or with another thing in its place, is a SchemaError.

    One of a later format is told apart from those: a newer dpsql reads it.
    """
    stored = plain(text())
    stored[part] = bad
    if bad == "missing":
        del stored[part]
    if part in ("name", "method", "table") and bad == "x":
        assert Model.from_json(json.dumps(stored)).schema == SCHEMA
        return
    with pytest.raises(NewerFormat if (part, bad) == ("version", 7) else SchemaError):
        Model.from_json(json.dumps(stored))


@pytest.mark.parametrize("key", ["digest", "epsilon", "created_at"])
def test_a_certificate_without_its_facts_is_refused(key: str) -> None:
    """What a certificate must say is looked for when a file is read."""
    certificate = {name: value for name, value in small_model().certificate.items() if name != key}
    with pytest.raises(SchemaError):
        Model.from_json(text(certificate=certificate))


def test_an_edited_vote_is_found_out() -> None:
    """A file whose forest is sound but not the one of its certificate is refused by its digest."""
    stored = plain(text())
    stored["forest"]["leaves"]["class"][0] = (stored["forest"]["leaves"]["class"][0] + 1) % 3
    with pytest.raises(SchemaError, match="digest"):
        Model.from_json(json.dumps(stored))


@pytest.mark.parametrize(
    "source",
    [
        "", " ", "{", "{}", "[]", "null", "not JSON", "{'format': 1}", "x" * 10_000, "[" * 10_000, '{"a":' * 5000,
        '{"format": "dpsql-model", "version": 1' + "0" * 5000 + "}", "\x00", "no such file.json", "{\ud800}",
    ],
    ids=lambda source: ascii(source[:12]),
)  # fmt: skip
def test_what_is_no_model_is_refused(source: str) -> None:
    """Text that is not JSON, not a model, too deep, or the name of no file is a SchemaError."""
    with pytest.raises(SchemaError):
        Model.from_json(source)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"", b"\x00" * 100, b"PAR1"], ids=str)
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, content: bytes) -> None:
    """A binary or empty file, and a folder, are a SchemaError."""
    path = tmp_path / "model.json"
    path.write_bytes(content)
    for one in (path, tmp_path):
        with pytest.raises(SchemaError):
            Model.from_json(one)


def test_predict_keeps_order_and_index() -> None:
    """Labels come in the order of the rows, under their index, duplicates included."""
    frame = frame_of(some_rows(6) * 2)
    frame.index = pd.Index([*range(100, 112), *range(100, 112)])
    labels = small_model().predict(frame)
    assert isinstance(labels, pd.Series)
    assert labels.index.equals(frame.index)
    assert labels.tolist() == [small_model().labels(frame.iloc[[k]])[0] for k in range(len(frame))]


def test_shares_are_the_votes() -> None:
    """`predict_proba` has a column for each class; a row's shares are its scores over their sum, and add up to 1."""
    frame = frame_of(some_rows())
    shares = small_model().predict_proba(frame)
    scores = small_model().scores(frame)
    assert list(shares.columns) == list(SCHEMA.classes)
    assert np.allclose(shares.to_numpy().sum(axis=1), 1)
    assert np.allclose(shares.to_numpy(), scores / 3)


def test_an_empty_frame_has_no_labels() -> None:
    """No rows in, no labels out."""
    assert small_model().predict(frame_of([])).tolist() == []
    assert small_model().predict_proba(frame_of([])).shape == (0, 3)


def test_a_missing_column_offers_near_names() -> None:
    """A DataFrame without a feature is refused with the column that comes nearest."""
    with pytest.raises(UnknownName) as caught:
        small_model().predict(pd.DataFrame({"X": [1.0], "c": ["a"], "xx": [1.0]}))
    assert "xx" in caught.value.nearest or "X" in caught.value.known


MISSING = Schema("y", ("no", "yes", "maybe"), (Boolean("b"), Categorical("c", ("1", "2")), Numeric("x", 0, 64)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: pd.DataFrame({"b": [True, None], "c": [1, None], "x": [5, None]}),
        lambda: pd.DataFrame({"b": [True, None], "c": ["1", None], "x": [5, None]}, dtype=object),
        lambda: pd.DataFrame({"b": [True, pd.NA], "c": ["1", pd.NA], "x": [5, pd.NA]}, dtype=object),
        lambda: pd.DataFrame(
            {
                "b": pd.array([True, None], "boolean"),
                "c": pd.array([1, None], "Int64"),
                "x": pd.array([5, None], "Int64"),
            }
        ),
        lambda: pd.DataFrame(
            {"b": ["true", None], "c": pd.array(["1", None], "string"), "x": pd.array([5, None], "Float64")}
        ),
        lambda: pd.DataFrame({"b": pd.Categorical(["true", None]), "c": pd.Categorical(["1", None]), "x": ["5", None]}),
        lambda: pd.DataFrame({"b": ["true", pd.NaT], "c": ["1", float("nan")], "x": [np.float32(5), np.nan]}),
    ],
)  # fmt: skip
def test_every_kind_of_missing_value_is_null(make: Callable[[], pd.DataFrame]) -> None:
    """None, NaN, NA and NaT, in plain and in extension columns, score like NULL; values like their text."""
    model = model_of(voting(any_forest(axes(MISSING), trees=9, depth=3, seed=7), 3, seed=7, most=9), MISSING)
    reference = pd.DataFrame({"b": ["true", None], "c": ["1", None], "x": [5.0, float("nan")]}, dtype=object)
    assert model.scores(make()).tolist() == model.scores(reference).tolist()


@pytest.mark.parametrize("bad", ["abc", pd.Timestamp("2026-01-01"), [1], 10**400], ids=lambda bad: type(bad).__name__)
def test_text_in_a_number_is_refused(bad: object) -> None:
    """A column that cannot be read as numbers is a SchemaError that names the column, not the value."""
    with pytest.raises(SchemaError, match='"x"') as caught:
        small_model().predict(pd.DataFrame({"x": [1.0, bad], "c": ["a", "a"]}, dtype=object))
    assert "abc" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "bad"),
    [("tree", 3), ("tree", -1), ("tree", True), ("tree", "x"), ("depth", 0), ("depth", "x"), ("depth", True)],
)
def test_a_tree_that_is_not_there_cannot_be_shown(name: str, bad: Any) -> None:
    """`show` takes the number of a tree and a depth from 1."""
    with pytest.raises(ParameterError) as caught:
        small_model().show(**{name: bad})
    assert caught.value.name == name


def test_a_model_that_is_not_stored_scores_frames_only() -> None:
    """Tables and SQL need the database that holds the model; the error says what to do."""
    for act in (lambda: small_model().predict("people"), lambda: small_model().sql()):
        with pytest.raises(ParameterError, match="stored"):
            act()


def test_into_needs_a_table() -> None:
    """A DataFrame's labels are handed back, not stored."""
    with pytest.raises(ParameterError):
        small_model().predict(frame_of(some_rows()), into="scored")


def test_a_model_says_what_it_is() -> None:
    """`repr` names model, method, trees, leaves and epsilon."""
    leaves = small_model().released.forest.leaves
    assert repr(small_model()) == f'<Model "model": rosnam, 3 trees, {leaves} leaves, epsilon 1>'
