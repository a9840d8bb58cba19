"""Synonyms: a mapping from stored texts to words, in place of a list of words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dpsql.errors import SchemaError
from dpsql.kernel.border import rebuild_features
from dpsql.schema import Categorical, Schema, schema_file
from dpsql.schema.synonyms import with_synonyms_of, without_synonyms

MAPPED = """
label: churn
classes: {true: yes, false: no}
features:
  sex:
    type: categorical
    values: {1: male, 2: female, m: male, unknown: unknown}
    null: unknown
"""


def test_the_words_are_the_values_in_the_order_of_first_appearance() -> None:
    """The stored texts become synonyms, and a word that stands for itself needs none."""
    schema = schema_file.loads(MAPPED)
    assert schema.classes == ("yes", "no")
    assert schema.class_synonyms == (("true", "yes"), ("false", "no"))
    assert schema.features[0] == Categorical(
        "sex",
        ("male", "female", "unknown"),
        null="unknown",
        synonyms=(("1", "male"), ("m", "male"), ("2", "female")),
    )


def test_a_mapping_comes_back_the_same() -> None:
    """YAML, plain values and JSON all give the same schema again."""
    schema = schema_file.loads(MAPPED)
    assert schema_file.loads(schema_file.dump(schema)) == schema
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


def test_keys_of_a_dictionary_may_be_numbers_and_booleans() -> None:
    """A Python dictionary with real booleans and numbers as keys is read as the texts that databases give."""
    declared: dict[Any, Any] = {
        "label": "y",
        "classes": {False: "no", True: "yes"},
        "features": {"s": {"type": "categorical", "values": {1: "a", 2.0: "b"}}},
    }
    schema = Schema.from_dict(declared)
    assert schema.class_synonyms == (("false", "no"), ("true", "yes"))
    assert schema.features[0].cell(2) == schema.features[0].cell("b") == 1


@pytest.mark.parametrize("synonyms", [(("b", "a"),), (("x", "c"),), (("x", "a"), ("x", "b"))])
def test_ambiguous_synonyms_are_refused(synonyms: tuple[tuple[str, str], ...]) -> None:
    """A stored text that is another word, that means no word, or that means two, is refused."""
    with pytest.raises(SchemaError):
        Categorical("f", ("a", "b"), synonyms=synonyms)
    with pytest.raises(SchemaError):
        Schema("y", ("a", "b"), (Categorical("f", ("a",)),), class_synonyms=synonyms)


def test_the_kernel_rebuilds_synonyms() -> None:
    """A feature that a method hands over keeps its synonyms."""
    features = schema_file.loads(MAPPED).features
    assert rebuild_features(features) == features


def test_synonyms_are_left_out_and_brought_back() -> None:
    """Parties compare schemas without synonyms, and a joined model knows those of all."""
    schema = schema_file.loads(MAPPED)
    bare = without_synonyms(schema)
    assert bare.class_synonyms == () == bare.features[0].synonyms  # type: ignore[union-attr]
    assert with_synonyms_of(bare, schema) == schema
    other = Categorical("sex", ("male", "female", "unknown"), synonyms=(("1", "female"), ("f", "female")))
    joined = with_synonyms_of(schema, Schema("churn", ("yes", "no"), (other,)))
    assert joined.features[0].synonyms == (("1", "male"), ("m", "male"), ("2", "female"), ("f", "female"))  # type: ignore[union-attr]
