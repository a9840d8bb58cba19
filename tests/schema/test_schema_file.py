"""Schema files: the traps of YAML, files that cannot be read, and text that comes back the same."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.errors import SchemaError, UnknownName
from dpsql.schema import Boolean, Categorical, Numeric, Schema, Unit
from dpsql.schema.schema_file import Placeholder, dump, line, load_schema, loads

SMALL = "label: y\nclasses: [0, 1]\nfeatures:\n  x: {type: boolean}\n"
HOSTILE = ['"', "'", "a\nb", "\r", "\t", "<=50K", ">50K", "no", "1e3", "", " ", "~", "null", "???", "#", ": ", "- a"]
HOSTILE += ["\u2028", "\x85", "\x7f", "\ufeff", "😀", "true", "0x1", "1_000", "2020-01-01", "&a", "*a", "!b", "\\"]


def values_of(line: str) -> tuple[str, ...]:
    """Return the values of a categorical feature that is written with this YAML."""
    feature = loads(
        f"label: y\nclasses: [0, 1]\nfeatures:\n  c:\n    type: categorical\n    values: {line}\n"
    ).features[0]
    assert isinstance(feature, Categorical)
    return feature.values


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("[<=50K, '>50K']", ("<=50K", ">50K")),
        ("[yes, no]", ("yes", "no")),
        ("[Yes, OFF, on, y, N]", ("Yes", "OFF", "on", "y", "N")),
        ("[true, false]", ("true", "false")),
        ("[True, FALSE]", ("true", "false")),
        ("[2020-01-01, 2020-01-01 10:00:00]", ("2020-01-01", "2020-01-01 10:00:00")),
        ("[007, 0o17, 0x1F, 1_000, 1:30]", ("007", "0o17", "0x1F", "1_000", "1:30")),
        ("[1, 2, -3]", ("1", "2", "-3")),
        ("['null', '~', '']", ("null", "~", "")),
        ("['???']", ("???",)),
        ("[<<, =]", ("<<", "=")),
    ],
)
def test_values_are_read_as_written(line: str, values: tuple[str, ...]) -> None:
    """Plain values that YAML would turn into booleans, dates or octal numbers stay text."""
    assert values_of(line) == values


@pytest.mark.parametrize("line", ["[a, null]", "[a, ~]", "[a, ]\n  d:", "???", "[a, .nan]"])
def test_missing_values_are_refused(line: str) -> None:
    """NULL, NaN and placeholders are not values."""
    with pytest.raises(SchemaError):
        values_of(line)


def test_null_is_a_key() -> None:
    """The option `null` is a key like any other, not YAML's null."""
    feature = loads(
        "label: y\nclasses: [a, b]\nfeatures:\n  x: {type: numeric, lower: 0, upper: 1e3, null: 5}\n"
    ).features[0]
    assert feature.null == 5


@pytest.mark.parametrize("bound", [".inf", "-.inf", ".nan", "9" * 400, "1e999", "yes", "'1'", "~"])
def test_bad_bounds_are_refused(bound: str) -> None:
    """Bounds that are infinite, NaN, too large or not numbers are refused."""
    with pytest.raises(SchemaError, match="bounds|finite number"):
        loads(f"label: y\nclasses: [a, b]\nfeatures:\n  x: {{type: numeric, lower: {bound}, upper: 1}}\n")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("# only a comment\n", "empty"),
        ("- a\n- b\n", "must hold a mapping"),
        ("just text", "must hold a mapping"),
        (SMALL + "label: z\n", 'the key "label" stands twice'),
        (SMALL + "  x: {type: boolean}\n", 'the key "x" stands twice'),
        ("label: &a y\nclasses: *a\n", "anchors"),
        ("label: !!python/object/apply:os.system [ls]\n", "tags"),
        ("label: !!binary aGk=\n", "tags"),
        ("? [a]\n: b\n", "a key must be text"),
        ("label: [\n", "cannot be read as YAML"),
        ("label: y\nclasses: [>50K]\n", "cannot start any token in line 2"),
        (SMALL + "---\n" + SMALL, "another document"),
        ("label: \x01\n", "escaped"),
        ("rows: " + "9" * 5000, "number is too long"),
        ("a: " * 3, "mapping values are not allowed"),
    ],
)
def test_bad_yaml_is_refused(text: str, reason: str) -> None:
    """Text that is not plain YAML of one mapping is refused with the reason."""
    with pytest.raises(SchemaError, match=reason):
        loads(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("{", "is not JSON"),
        ("[1]", "must hold a mapping"),
        ('{"label": "y", "label": "z"}', "stands twice"),
        ("[" * 100_000, "too deeply|is not JSON"),
        ('{"rows": ' + "9" * 5000 + "}", "too long"),
        ('{"label": "y", "classes": [NaN, 1], "features": {"x": {"type": "boolean"}}}', "NULL"),
        ('{"label":"y","classes":[0,1],"features":{"x":{"type":"numeric","lower":-Infinity,"upper":1}}}', "finite"),
    ],
)
def test_bad_json_is_refused(text: str, reason: str) -> None:
    """Text that is not JSON of one mapping is refused with the reason."""
    with pytest.raises(SchemaError, match=reason):
        loads(text, kind=".json")


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_deep_nesting_ends_soon(opening: str) -> None:
    """Nesting without end is refused before it costs time."""
    start = time.monotonic()
    with pytest.raises(SchemaError):
        loads(opening * 50_000)
    assert time.monotonic() - start < 5


def test_alias_bomb_is_refused() -> None:
    """A text whose aliases would grow without end is refused at the first anchor."""
    bomb = "a: &a [x, x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(20)
    )
    with pytest.raises(SchemaError, match="anchors"):
        loads(bomb)


def written(folder: Path, name: str, content: str | bytes) -> Path:
    """Return a file with that content."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_schema_is_returned_as_it_is() -> None:
    """A Schema is its own source."""
    schema = loads(SMALL)
    assert load_schema(schema) is schema


@pytest.mark.parametrize("name", ["a.yml", "a.yaml", "a.YML"])
def test_yaml_file_is_read(tmp_path: Path, name: str) -> None:
    """A YAML file is read by its path, as text or as a Path."""
    path = written(tmp_path, name, SMALL)
    assert load_schema(path) == load_schema(str(path)) == loads(SMALL)


def test_json_file_is_read(tmp_path: Path) -> None:
    """A JSON file is read by its path."""
    assert load_schema(written(tmp_path, "a.json", json.dumps(loads(SMALL).to_dict()))) == loads(SMALL)


def test_byte_order_mark_is_read_past(tmp_path: Path) -> None:
    """A UTF-8 file that starts with a byte order mark is read."""
    assert load_schema(written(tmp_path, "a.yml", b"\xef\xbb\xbf" + SMALL.encode())) == loads(SMALL)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.yml", b"label: \xff\xfe", "not UTF-8"),
        ("a.yml", SMALL.encode("utf-16"), "not UTF-8"),
        ("a.yml", b"", "empty"),
        ("a.json", b"  ", "empty"),
        ("a.csv", b"a,b", "must end in"),
        ("a", b"", "must end in"),
        ("a.yml", b"#" * (2**20 + 1), "larger than 1 MB"),
        ("a.json", b" " * (2**24 + 1), "larger than 16 MB"),
    ],
)
def test_bad_file_is_refused(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    """A file with a wrong name, encoding or size is refused with the reason."""
    with pytest.raises(SchemaError, match=reason):
        load_schema(written(tmp_path, name, content))


def test_all_gaps_are_told_with_their_lines() -> None:
    """A draft that is not filled in is refused once, with everything that is missing."""
    text = "label: y\nclasses: ???\nfeatures:\n  a: {type: numeric, lower: ???, upper: 3}\n  b: ???\n"
    with pytest.raises(SchemaError, match="the schema has 3 problems") as refused:
        loads(text)
    for words in ("line 2: classes is", 'line 4: feature "a": lower is', "line 5: features: b is"):
        assert f"{words} still the placeholder ???." in refused.value.message


def test_a_comment_stays_on_its_line() -> None:
    """No character in a comment behind a line ends the line, and braces may hold a placeholder."""
    text = line("x", {"lower": Placeholder(), "v": ["?", "??"]}, comment="a\nb: 2\u2028c: 3\x85d: 4\re: 5")
    assert len(text.splitlines()) == 1
    assert "# a\\x0ab: 2" in text
    with pytest.raises(SchemaError, match='feature "x": lower is still the placeholder'):
        loads(f"label: null\nfeatures:\n  {text}\n")


@pytest.mark.parametrize("value", ["{a: ????}", "{???: 1}", "[???, ???]", "{? a : 1}", "???x", "{a: ???x}"])
def test_odd_question_marks_are_read_or_refused(value: str) -> None:
    """Whatever stands around a placeholder, the result is an error of ours."""
    with pytest.raises(SchemaError):
        loads(f"label: null\nfeatures:\n  x: {value}\n")


def test_missing_file_is_told(tmp_path: Path) -> None:
    """A file that is not there is named, with the command that drafts one."""
    with pytest.raises(SchemaError, match=r"no schema file .*none.yml[\s\S]*schema draft"):
        load_schema(tmp_path / "none.yml")


def test_folder_is_refused(tmp_path: Path) -> None:
    """A folder is not a schema file, whatever it is called."""
    (tmp_path / "folder.yml").mkdir()
    with pytest.raises(SchemaError, match="is a folder"):
        load_schema(tmp_path / "folder.yml")


@pytest.mark.parametrize("source", [None, 3, b"a.yml", ["a.yml"], "a\x00.yml"])
def test_odd_source_is_refused(source: Any) -> None:
    """What is neither a schema, a mapping nor a path is refused."""
    with pytest.raises(SchemaError, match="a schema must be"):
        load_schema(source)


SEVERAL: dict[str, Any] = {"first": loads(SMALL).to_dict(), "second": {**loads(SMALL).to_dict(), "label": "z"}}


def test_entry_is_picked() -> None:
    """One of several schemas is picked by its name."""
    assert load_schema(SEVERAL, entry="second").label == "z"


def test_entry_is_picked_from_a_file(tmp_path: Path) -> None:
    """One of several schemas in a file is picked by its name."""
    assert load_schema(written(tmp_path, "a.json", json.dumps(SEVERAL)), entry="second").label == "z"


def test_several_without_entry_are_named() -> None:
    """Several schemas without a choice are named, with the way to choose."""
    with pytest.raises(SchemaError, match=r'"first", "second"\.[\s\S]*entry='):
        load_schema(SEVERAL)


@pytest.mark.parametrize("source", [SEVERAL, loads(SMALL).to_dict()])
def test_unknown_entry_is_told(source: dict[str, Any]) -> None:
    """A name that is not in the file is an UnknownName."""
    with pytest.raises(UnknownName, match='no schema entry "secund"'):
        load_schema(source, entry="secund")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("label: ???\nclasses: [a, b]\nfeatures:\n  x: {type: boolean}\n", "label is still the placeholder"),
        ("label: y\nclasses: ???\nfeatures:\n  x: {type: boolean}\n", "classes is still the placeholder"),
        (
            "label: y\nclasses: [a, b]\nfeatures:\n  x:\n    type: numeric\n    lower: ???\n    upper: 1\n",
            'feature "x": lower is still the placeholder',
        ),
        (
            "label: y\nclasses: [a, b]\nfeatures:\n  x:\n    type: categorical\n    values:\n    - ???\n",
            'feature "x": values is still the placeholder',
        ),
    ],
)
def test_placeholder_is_named(text: str, reason: str) -> None:
    """A draft that is not filled in says which feature and which part is missing."""
    with pytest.raises(SchemaError, match=reason):
        loads(text)


characters = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
texts = st.sampled_from(HOSTILE) | st.text(characters, max_size=12)
names = texts.filter(bool)
floats = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e200, max_value=1e200)
lists = st.lists(texts, min_size=2, max_size=4, unique=True).map(tuple)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """Return a schema with hostile names and values."""
    columns = draw(st.lists(names, min_size=5, max_size=5, unique_by=str.lower))
    label, first, second, third, person = columns
    values = draw(lists)
    lower = draw(floats)
    null = draw(st.none() | floats)
    features = (
        Numeric(first, lower, lower + abs(lower) + draw(st.floats(1, 1e6)), draw(st.integers(2, 64)), null),
        Categorical(second, values, draw(st.sampled_from([None, *values])), draw(st.sampled_from([None, *values]))),
        Boolean(third, null=draw(st.sampled_from([None, "true"]))),
    )
    unit = Unit(person, draw(st.integers(1, 9))) if draw(st.booleans()) else Unit()
    return Schema(label, draw(lists), features, unit, draw(st.none() | st.integers(1, 10**9)))


@given(schemas(), st.text(characters, max_size=40))
def test_written_schema_comes_back(schema: Schema, comment: str) -> None:
    """Any schema, with any comments, is read back the same from its YAML text."""
    remarks = {"": comment, **{feature.name: comment for feature in schema.features}}
    assert loads(dump(schema, comments=remarks)) == schema


@pytest.mark.parametrize("name", ["\x01" * 1000, "é" * 1000, "a" * 1000, "😀" * 999, '"' * 1000])
def test_long_names_come_back(name: str) -> None:
    """Names longer than a YAML key may be are read back the same."""
    schema = Schema("y", ("0", "1"), (Boolean(name), Numeric(name[:-1] + "£", 0, 1)))
    assert loads(dump(schema)) == schema


def test_written_schema_is_plain() -> None:
    """A written schema reads like one written by hand."""
    schema = Schema("y", ("<=50K", "no"), (Numeric("age", 0, 90.5),), Unit("person", 2))
    assert dump(schema, comments={"age": "in years"}).splitlines() == [
        "label: \"y\"", 'classes: ["<=50K", "no"]', "privacy_unit:", "  column: person", "  max_rows: 2",
        "features:", "  # in years", "  age:", "    type: numeric", "    lower: 0", "    upper: 90.5",
    ]  # fmt: skip


@given(st.text(max_size=60) | st.text("[]{}:,&*!|>'\"%@`#?- \n\tab01~", max_size=60))
def test_any_text_gives_a_schema_or_a_schema_error(text: str) -> None:
    """Whatever a file holds, the answer is a schema or a SchemaError."""
    for kind in (".yml", ".json"):
        with pytest.raises(SchemaError):
            loads(text, kind=kind)


def test_bounds_keep_every_digit() -> None:
    """Bounds are read to the last digit."""
    schema = Schema("y", ("0", "1"), (Numeric("x", 0.1, math.nextafter(1e17, 0)),))
    assert loads(dump(schema)) == schema
