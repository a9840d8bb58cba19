"""Tests of examples/accuracy.py on a small table of our own."""

from __future__ import annotations

import csv
import json
import runpy
import sys
from pathlib import Path

import duckdb
import pytest

from dpsql import census

SCRIPT = Path(__file__).parents[2] / "examples" / "accuracy.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a data folder with one table of 600 people."""
    people = census.rows(600, seed=1)
    with duckdb.connect() as connection:
        connection.register("people", people)
        connection.execute("COPY people TO ? (FORMAT parquet)", [str(tmp_path / "people.parquet")])
    schemas = {"people": {**census.SCHEMA, "file": "people.parquet"}}
    (tmp_path / "schemas.json").write_text(json.dumps(schemas), encoding="utf-8")
    return tmp_path


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    """Return a function that runs the script on the folder and returns its two outputs."""

    def call(*words: str) -> tuple[str, str]:
        words = ("--data", str(folder), "--param", "trees=3", "--param", "depth=3", *words)
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *words])
        runpy.run_path(str(SCRIPT), run_name="__main__")
        captured = capsys.readouterr()
        return captured.out, captured.err

    return call


def test_one_line_per_table(run) -> None:  # type: ignore[no-untyped-def]
    """The table's name, the number of splits and the accuracy are printed."""
    line = run("--sets", "people", "--splits", "2")[0].splitlines()[1].split()
    assert line[:2] == ["people", "2"]
    assert 40 < float(line[2]) < 100


def test_missing_table_is_skipped_by_name(run) -> None:  # type: ignore[no-untyped-def]
    """A table that is not in the folder is named, and the others run."""
    assert "nowhere       skipped" in run("--sets", "nowhere,people", "--splits", "1")[0]


def test_held_out_rows_are_a_tenth(run, folder: Path) -> None:  # type: ignore[no-untyped-def]
    """Each split evaluates on 60 of 600 rows, and is written down."""
    run("--sets", "people", "--splits", "2", "--csv", str(folder / "out.csv"))
    with (folder / "out.csv").open(newline="", encoding="utf-8") as file:
        found = [(row["split"], row["rows"]) for row in csv.DictReader(file)]
    assert found == [("0", "60"), ("1", "60")]


def test_what_is_written_down_is_not_run_again(run, folder: Path) -> None:  # type: ignore[no-untyped-def]
    """With a CSV of two splits, asking for three runs one more."""
    words = ("--sets", "people", "--csv", str(folder / "out.csv"), "--splits")
    run(*words, "2")
    progress = run(*words, "3")[1]
    assert [line.split(":")[0].strip() for line in progress.splitlines()] == ["people split 2"]
