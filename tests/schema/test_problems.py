"""All that is wrong with a schema is reported at once, with the lines of its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.api.database import connect
from dpsql.errors import SchemaError
from dpsql.schema import schema_file
from tests.tables import run

DRAFT = """label: y
classes: ???
colour: red
features:
  age:
    type: numeric
    lower: ???
    upper: ???
  sex: {type: categoric}
  pay: {type: numeric, lower: 9}
"""


def lines_of(error: SchemaError) -> list[int]:
    """Return the lines that an error names."""
    return [int(part.split(":")[0]) for part in error.message.split("line ")[1:]]


def test_all_gaps_and_all_mistakes_are_reported_with_their_lines() -> None:
    """Three gaps, an unknown key, a wrong type and a missing bound: one error."""
    with pytest.raises(SchemaError) as refused:
        schema_file.loads(DRAFT)
    assert lines_of(refused.value) == [2, 3, 7, 8, 9, 10]
    assert len(refused.value.problems) == 6
    assert 'feature "age": upper is still the placeholder ???.' in str(refused.value)


def test_gaps_alone_share_one_next_step() -> None:
    """Where all problems have the same fix, it is said once."""
    with pytest.raises(SchemaError) as refused:
        schema_file.loads(
            DRAFT.replace("colour: red\n", "").replace("categoric", "boolean").replace("9}", "9, upper: 10}")
        )
    assert lines_of(refused.value) == [2, 6, 7]
    assert "never look it up" in str(refused.value.hint)
    assert str(refused.value).count("never look it up") == 1


def test_a_single_mistake_has_its_line_too() -> None:
    """One mistake reads as before, with its line in front."""
    text = "label: y\nclasses: [a, b]\nfeatures:\n  x: {type: boolean}\n  z: {type: numeric, lower: 3, upper: 3}\n"
    with pytest.raises(SchemaError, match=r'^line 5: feature "z": lower'):
        schema_file.loads(text)


def test_json_has_lines_too() -> None:
    """The lines of JSON are found by its keys."""
    feature = '{"type": "numeric",\n "lower": 3, "upper": 1}'
    text = f'{{"label": "y",\n "classes": ["a", "b"],\n "features": {{"lower": {feature}}}}}'
    with pytest.raises(SchemaError, match="line 3: "):
        schema_file.loads(text, kind=".json")


def test_an_entry_of_a_file_has_its_own_lines() -> None:
    """Of several schemas in a file, the lines are those of the one that was asked for."""
    text = (
        "one:\n  label: y\n  classes: [a, b]\n  features:\n    x: {type: boolean}\ntwo:\n  label: y\n  classes: ???\n"
    )
    with pytest.raises(SchemaError) as refused:
        schema_file.loads(text, entry="two")
    assert "line 8: classes is still the placeholder" in str(refused.value)


def test_what_does_not_fit_the_table_is_reported_with_lines(tmp_path: Path) -> None:
    """A missing column, a type that does not fit and impossible words: one error, and nothing is registered."""
    path = tmp_path / "s.yml"
    path.write_text(
        "label: y\nclasses: [no, yes]\nfeatures:\n  age: {type: numeric, lower: 0, upper: 9}\n"
        "  gone: {type: boolean}\n  name: {type: numeric, lower: 0, upper: 1}\n"
    )
    with connect(":memory:") as database:
        run(database.engine, "CREATE TABLE t (y BOOLEAN, age BIGINT, name VARCHAR)")
        with pytest.raises(SchemaError) as refused:
            database.register("t", path, cap=1)
        assert lines_of(refused.value) == [2, 5, 6]
        assert database.budgets() == []


def test_label_as_feature_and_keys_twice_are_reported_with_all_else() -> None:
    """One error, with a line each: a gap, wrong bounds, the label among the features, two keys that stand twice."""
    text = (
        "label: y\nclasses: [no, yes]\nlabel: z\nfeatures:\n  x: {type: numeric, lower: ???, upper: 9}\n"
        "  w: {type: numeric, lower: 9, upper: 1}\n  Y: {type: boolean}\n  w: {type: boolean}\n"
    )
    with pytest.raises(SchemaError) as refused:
        schema_file.loads(text)
    assert lines_of(refused.value) == [1, 3, 5, 6, 8]
    assert 'the label "y" is also listed as a feature' in str(refused.value)
    assert str(refused.value).count("stands twice in one mapping") == 2


def test_a_single_key_that_stands_twice_has_its_line() -> None:
    """The line is that of the second one."""
    with pytest.raises(SchemaError, match='line 4: the key "x" stands twice'):
        schema_file.loads("label: y\nclasses: [no, yes]\nfeatures: {x: {type: boolean},\n x: {type: boolean}}\n")
