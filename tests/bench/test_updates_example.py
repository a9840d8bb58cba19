"""Tests of examples/updates.py on a small table of our own."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import duckdb
import pytest

from dpsql import census

SCRIPT = Path(__file__).parents[2] / "examples" / "updates.py"


def test_every_row_pays_once_whatever_the_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line for each number of batches; each says that a row has paid epsilon once; a missing table is named."""
    people = census.rows(600, seed=1)
    with duckdb.connect() as connection:
        connection.register("people", people)
        connection.execute("COPY people TO ? (FORMAT parquet)", [str(tmp_path / "people.parquet")])
    schemas = {"people": {**census.SCHEMA, "rows": 600, "file": "people.parquet"}}
    (tmp_path / "schemas.json").write_text(json.dumps(schemas), encoding="utf-8")
    words = ["--data", str(tmp_path), "--sets", "people,nowhere", "--batches", "1,3", "--runs", "1"]
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *words])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    first, second, missing = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0::4] for line in (first, second)] == [["people", "0.5"], ["people", "0.5"]]
    assert "nowhere     skipped" in missing
