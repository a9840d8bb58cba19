"""A hashed category through the command line: from a schema file to a model that another database knows."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import dpsql
from dpsql.api.database import connect
from dpsql.cli.main import run_command_line
from tests.tables import run

SCHEMA = """
label: y
classes: ["no", "yes"]
rows: 4000
batch: era
features:
  job: {type: hashed, cells: 40}
  code: {type: hashed}
"""
JOBS = [f"job {number}" for number in range(12)]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a table whose label follows from the job, and register it by a file."""
    monkeypatch.chdir(tmp_path)
    with connect("data.duckdb", create=True) as db:
        text = "SELECT 'job ' || range % 12 AS job, range % 7 AS code, IF(range % 12 < 6, 'no', 'yes') AS y"
        run(db.engine, f"CREATE TABLE people AS {text}, IF(range % 2 = 0, 'a', 'b') AS era FROM range(4000)")
        run(db.engine, "CREATE TABLE fresh AS SELECT job, code, range AS id FROM (SELECT *, 1 FROM people), range(1)")
    Path("schema.yml").write_text(SCHEMA, encoding="utf-8")
    assert ran("register", "--table", "people", "--schema", "schema.yml", "--cap", "9") == 0
    return tmp_path


def ran(*words: str) -> int:
    """Run a command on the database and return its exit code."""
    return run_command_line([words[0], "--db", "data.duckdb", *words[1:]])


def test_a_model_of_hashed_features(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It learns from the cells, says which cell a word is in, and moves as JSON with the same predictions."""
    assert ran("train", "--table", "people", "--epsilon", "2", "--name", "m") == 0
    capsys.readouterr()
    assert ran("explain", "--model", "m", "--word", "job=job 3", "--word", "code=5") == 0
    out = capsys.readouterr().out
    assert f"job job 3 is in #{dpsql.hashed_cell('job 3', 40)} (a hash cell).\n" in out
    assert f"code 5 is in #{dpsql.hashed_cell(5)} (a hash cell).\n" in out
    assert ran("explain", "--model", "m", "--word", "job=job 3", "--json") == 0
    (word,) = json.loads(capsys.readouterr().out)["words"]
    assert word == {"feature": "job", "word": "job 3", "cell": f"#{dpsql.hashed_cell('job 3', 40)}"}
    assert ran("export", "--model", "m", "--to", "m.json") == 0
    rows = pd.DataFrame({"job": [*JOBS, None, "never seen"], "code": range(14)})
    with connect("data.duckdb") as db, connect("other.duckdb", create=True) as other:
        model = db.model("m")
        labels = list(model.predict(rows))
        assert labels[:12] == ["no"] * 6 + ["yes"] * 6
        moved = other.add(Path("m.json"))
        assert moved.schema.features == model.schema.features == (dpsql.Hashed("job", 40), dpsql.Hashed("code"))
        assert list(moved.predict(rows)) == labels
        assert set(db.model("m").predict("fresh", key="id")["prediction"]) == {"no", "yes"}


def test_a_batch_is_added_to_hashed_counts(data: Path) -> None:
    """An update counts new rows in the same cells."""
    shape = ("--method", "rdt", "--trees", "8")
    assert ran("train", "--table", "people", "--epsilon", "2", "--name", "one", "--batch", "a", *shape) == 0
    assert ran("update", "--model", "one", "--batch", "b", "--epsilon", "2", "--name", "two") == 0
    with connect("data.duckdb") as db:
        assert db.model("two").schema.features == db.model("one").schema.features


@pytest.mark.parametrize(("word", "message"), [("job", "FEATURE=WORD"), ("jb=x", 'there is no hashed feature "jb"')])
def test_a_word_of_no_hashed_feature_is_refused(
    data: Path, capsys: pytest.CaptureFixture[str], word: str, message: str
) -> None:
    """The allowed form, or the nearest feature, is named."""
    assert ran("train", "--table", "people", "--epsilon", "1", "--name", "m", "--method", "rdt") == 0
    assert ran("explain", "--model", "m", "--word", word) == 2
    assert message in capsys.readouterr().err
