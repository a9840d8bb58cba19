"""The partition column in a schema: hashed by its name alone, or taken as it stands with a number of parts."""

from __future__ import annotations

from typing import Any

import pytest

from dpsql.errors import SchemaError
from dpsql.schema import Schema
from dpsql.schema.schema_file import dump, loads

PLAIN: dict[str, Any] = {"label": "y", "classes": ["no", "yes"], "features": {"x": {"type": "boolean"}}}
TEXT = "label: y\nclasses: ['no', 'yes']\npartition: {column: part, parts: 10}\nfeatures:\n  x: {type: boolean}\n"


def test_a_column_with_parts_is_read_and_written_the_same() -> None:
    """The mapping gives column and parts, and comes back from plain values and from YAML."""
    schema = loads(TEXT)
    assert (schema.partition, schema.parts) == ("part", 10)
    assert schema.to_dict()["partition"] == {"column": "part", "parts": 10}
    assert Schema.from_dict(schema.to_dict()) == schema
    assert loads(dump(schema)) == schema


def test_a_name_alone_is_hashed_as_before() -> None:
    """A schema of the old form means what it meant, and is written as it was."""
    schema = Schema.from_dict(PLAIN | {"partition": "id"})
    assert (schema.partition, schema.parts) == ("id", None)
    assert schema.to_dict()["partition"] == "id"


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"column": "part"}, "parts: NUMBER"),
        ({"parts": 10}, "column: NAME"),
        ({"column": "part", "parts": 0}, "from 1 to"),
        ({"column": "part", "parts": 10**7}, "from 1 to"),
        ({"column": "part", "parts": "ten"}, "parts"),
        ({"column": "part", "parts": True}, "parts"),
        ({"column": "part", "parts": 10, "trees": 3}, "not known"),
        ({"column": "y", "parts": 10}, "label or a feature"),
        ({"column": "x", "parts": 10}, "label or a feature"),
        ([1, 2], "text"),
    ],
)
def test_what_is_wrong_is_said(declared: object, words: str) -> None:
    """Each mistake is refused with a message that names what is allowed."""
    with pytest.raises(SchemaError, match=words):
        Schema.from_dict(PLAIN | {"partition": declared})


def test_parts_need_a_column() -> None:
    """In Python, parts without a column are refused as well."""
    with pytest.raises(SchemaError, match="name the column"):
        Schema("y", ("no", "yes"), Schema.from_dict(PLAIN).features, parts=10)
