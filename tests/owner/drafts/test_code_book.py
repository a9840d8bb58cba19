"""Code books: CSV in three forms, YAML, dbt properties; what is wrong with one is told with its line."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.api.database import Database, connect
from dpsql.errors import DpsqlError, SchemaError
from dpsql.owner.drafts.code_book import read_code_book
from dpsql.owner.drafts.proposal import IDENTIFIER
from dpsql.schema import Categorical, Numeric
from dpsql.schema.schema_file import loads
from tests.tables import run

EXPECTED = (Numeric("age", 0, 110), Categorical("job", ("clerk", "007")), Categorical("sex", ("1", "2")))


@pytest.fixture
def db() -> Iterator[Database]:
    """Open a database with a private table."""
    with connect(":memory:", who="ann") as opened:
        run(opened.engine, "CREATE TABLE people (age INTEGER, job VARCHAR, sex TINYINT, y VARCHAR)")
        yield opened


def book(tmp_path: Path, text: str, name: str = "codes.csv") -> Path:
    """Write a code book and return its path."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


LONG = """variable,code,label
job,clerk,a clerk
,007,an agent
SEX,1,male
sex,2,female
y,no,
y,yes,
age,,
"""
BOUNDS = """Column;Min;Max;Allowed Values
age;0;110;
job;;;clerk|007
sex;;;1=male, 2=female
y;;;no|yes
other;1;2;
"""
MAPPING = """
columns:
  age: {min: 0, max: 110}
  job: [clerk, 007]
  sex: {1: male, 2: female}
  y: {values: [no, yes]}
"""
DBT = """
version: 2
models:
  - name: others
    columns:
      - name: age
        tests: [{accepted_values: {values: [1, 2]}}]
  - name: people
    columns:
      - name: age
        data_tests:
          - not_null
          - dbt_utils.accepted_range: {min_value: 0, max_value: 110}
      - name: job
        tests:
          - accepted_values:
              values: ['clerk', '007']
      - name: sex
        tests:
          - accepted_values: {arguments: {values: [1, 2], quote: false}}
      - name: y
        tests:
          - dbt_expectations.expect_column_values_to_be_in_set: {value_set: [no, yes]}
"""


@pytest.mark.parametrize(
    ("text", "name"), [(BOUNDS, "codes.csv"), (MAPPING, "codes.yml"), (DBT, "schema.yml")], ids=["csv", "yaml", "dbt"]
)
def test_a_code_book_fills_every_gap(db: Database, tmp_path: Path, text: str, name: str) -> None:
    """Each form gives the same schema; yes and no and leading zeros stay text."""
    schema = loads(db.draft("people", label="y", dictionary=book(tmp_path, text, name)).text)
    assert schema.features == EXPECTED
    assert schema.classes == ("no", "yes")


def test_a_line_for_each_value(db: Database, tmp_path: Path) -> None:
    """The long form lists values line by line, a blank repeats the column above, and the line is the origin."""
    draft = db.draft("people", label="y", dictionary=book(tmp_path, LONG))
    by_name = {proposal.column: proposal for proposal in draft.proposals}
    assert by_name["job"].feature["values"] == ["clerk", "007"]
    assert by_name["job"].origin == "code book codes.csv line 2"
    assert by_name["sex"].feature["values"] == [1, 2]
    assert by_name["age"].gaps == ("lower", "upper")


def test_ranges_of_dbt_expectations_and_unique_keys(db: Database, tmp_path: Path) -> None:
    """A range test gives bounds, and a unique test says that the column is a key."""
    text = """
models:
  - name: people
    columns:
      - name: age
        tests:
          - dbt_expectations.expect_column_values_to_be_between: {min_value: 0, max_value: 110, strictly: false}
      - name: job
        tests: [unique]
"""
    draft = db.draft("people", dictionary=book(tmp_path, text, "schema.yaml"))
    assert draft.proposals[0].feature == {"type": "numeric", "lower": 0, "upper": 110}
    assert draft.proposals[0].origin == "code book schema.yaml line 7"
    assert draft.proposals[1].role == IDENTIFIER


def test_a_code_book_comes_before_the_catalog(db: Database, tmp_path: Path) -> None:
    """What the owner wrote down wins over a CHECK, an ENUM and a name that looks like an identifier's."""
    run(db.engine, "CREATE TABLE t (x INTEGER CHECK (x IN (1, 2, 3)), zip VARCHAR, f BOOLEAN)")
    path = book(tmp_path, "column,values\nx,1|2\nzip,north|south\nf,0|1\n")
    features = {proposal.column: proposal.feature for proposal in db.draft("t", dictionary=path).proposals}
    assert features["x"]["values"] == [1, 2]
    assert features["zip"]["values"] == ["north", "south"]
    assert features["f"] == {"type": "boolean"}


def test_words_for_booleans_become_a_mapping(db: Database, tmp_path: Path) -> None:
    """No and yes in a code book, and BOOLEAN in the table that a CSV file became: the draft registers as it is."""
    run(db.engine, "CREATE TABLE t (ok BOOLEAN, odd BOOLEAN, x INTEGER, y BOOLEAN)")
    path = book(tmp_path, "column,values\nok,yes|no\nodd,left|right\nx,1|2\ny,No|Yes\n")
    draft = db.draft("t", dictionary=path, label="y")
    features = {proposal.column: proposal.feature for proposal in draft.proposals}
    assert features["ok"] == {"type": "categorical", "values": {"false": "no", "true": "yes"}}
    assert features["odd"] == {"type": "boolean"}
    assert 'cannot hold it: "left", "right"' in draft.text
    assert 'classes: {"false": "No", "true": "Yes"}  # code book codes.csv line 5' in draft.text
    (tmp_path / "t.yml").write_text(draft.text)
    dataset = db.register("t", tmp_path / "t.yml", cap=1)
    assert dataset.schema.classes == ("No", "Yes")
    assert dataset.schema.class_synonyms == (("false", "No"), ("true", "Yes"))


def test_words_that_no_integer_can_be_are_left_out_and_said(db: Database, tmp_path: Path) -> None:
    """The codes stay a list; where all are words nothing of the list is left."""
    run(db.engine, "CREATE TABLE t (x INTEGER, z INTEGER)")
    draft = db.draft("t", dictionary=book(tmp_path, "column,values\nx,1|2|NA\nz,low|high\n"))
    assert [proposal.feature.get("values") for proposal in draft.proposals] == [[1, 2], None]
    assert 'left out, as INTEGER cannot hold it: "NA"' in draft.proposals[0].advice
    assert "does not fit type INTEGER" in draft.proposals[1].advice


def test_what_does_not_fit_the_type_is_said(db: Database, tmp_path: Path) -> None:
    """Bounds of a text column are no domain: the line says so, and stays a gap."""
    draft = db.draft("people", dictionary=book(tmp_path, "column,min,max\njob,0,9\n"))
    assert "does not fit type VARCHAR" in draft.text
    assert "job" in draft.gaps


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("column,min,max\nage,old,9\n", "c.csv", "line 2: a bound of \"age\" is no number"),
        ("column,min,max\n\nage,9,0\n", "c.csv", "line 3: min of \"age\" must be below max"),
        ("column,min,max\nage,0,nan\n", "c.csv", "line 2"),
        ("column,min,max\nage,old,9\nsex,5,1\n", "c.csv", 'bound of "age" is no number; line 3: min of "sex"'),
        ("column,value\n,3\n", "c.csv", "line 2: it names no column"),
        ("a,b\n1,2\n", "c.csv", "line 1: its first line must name"),
        ('column,value\nage,"3\n', "c.csv", "line 2: it is not CSV"),
        ("column,value\nheight,3\n", "c.csv", "names no column of table"),
        ("column,value\n", "c.csv", "says nothing of any column"),
        ("table,column,value\na,age,1\nb,age,2\n", "c.csv", 'has no table "people". It has: "a", "b"'),
        ("age: [1, 2", "c.yml", "line 1"),
        ("age: {min: x, max: 3}\n", "c.yml", "line 1: a bound"),
        ("a: &a [x, x]\nb: *a\n", "c.yml", "anchors, aliases and tags .* in line 1"),
        ("a: !!python/object:os.system {}\n", "c.yml", "in line 1"),
        ("a: " + "[" * 50 + "]" * 50, "c.yml", "nested too deeply"),
        ("models:\n  - name: people\n    columns:\n      - tests: [unique]\n", "c.yml", "line 4: a column has no name"),
        ("", "c.yml", "says nothing"),
        ("x", "c.json", "must end in"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_their_line(db: Database, tmp_path: Path, text: str, name: str, words: str) -> None:
    """Nothing is drafted from a code book that cannot be read."""
    with pytest.raises(SchemaError, match=words):
        db.draft("people", dictionary=book(tmp_path, text, name))


def test_an_entry_for_no_column_is_said_in_the_draft(db: Database, tmp_path: Path) -> None:
    """It may be a misspelled name; the file stays one that reads back."""
    draft = db.draft("people", dictionary=book(tmp_path, "column,min,max\nage,0,110\nnope,3,9\n"))
    assert '# code book codes.csv line 3: there is no column "nope"\n' in draft.text
    assert draft.to_dict()["notes"] == list(draft.notes)
    assert db.draft("people", dictionary=book(tmp_path, "column,min,max\nage,0,110\n")).notes == ()


def test_a_missing_code_book_is_told(db: Database, tmp_path: Path) -> None:
    """The message names the file; a folder is none either."""
    with pytest.raises(SchemaError, match="no code book"):
        db.draft("people", dictionary=tmp_path / "none.csv")
    with pytest.raises(SchemaError, match="no code book"):
        db.draft("people", dictionary=tmp_path)


def test_a_million_lines_are_refused_quickly(db: Database, tmp_path: Path) -> None:
    """A table of rows given by mistake is refused before it is read through."""
    path = book(tmp_path, "column,value\n" + "".join(f"age,{number}\n" for number in range(1_000_000)))
    start = time.perf_counter()
    with pytest.raises(SchemaError, match="more than 200000 lines"):
        db.draft("people", dictionary=path)
    assert time.perf_counter() - start < 20


def test_too_many_values_are_left_to_the_owner(db: Database, tmp_path: Path) -> None:
    """A list that no schema can hold is a gap that says why."""
    path = book(tmp_path, "column,value\n" + "".join(f"job,v{number}\n" for number in range(30_000)))
    assert "30000 values are too many" in db.draft("people", dictionary=path).text


@given(st.text(max_size=200), st.sampled_from(["c.csv", "c.yml"]))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str, name: str) -> None:
    """Whatever a file holds, it is a code book or one of our errors."""
    path = tmp_path_factory.mktemp("book") / name
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with suppress(DpsqlError):
        assert read_code_book(path).entries
