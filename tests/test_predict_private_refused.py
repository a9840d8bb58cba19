"""Batches and requests that cannot be labelled from private rows: refused, and nothing is charged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpsql.api.database import Database
from dpsql.errors import (
    BudgetError,
    DpsqlError,
    NotRegistered,
    ParameterError,
    SchemaError,
    UnknownName,
    UsageError,
)
from dpsql.runs.label_rows import LabelRequest
from tests.tables import (
    SCHEMA,
    SMALL,
    TARGET,
    fill,
    memory,
    model_of,
    run,
    small_forest,
    some_rows,
    some_targets,
    stored,
    voting,
)

ROWS = some_rows()
NEW = some_rows(12)


@pytest.fixture(scope="module")
def shared() -> Iterator[Database]:
    """Open such a database for requests that are refused, with the model "votes" of no method that labels batches."""
    with memory(ROWS, cap=10) as opened:
        fill(opened.engine, "fresh", NEW)
        run(
            opened.engine,
            "CREATE VIEW seen AS SELECT * FROM people",
            "CREATE VIEW nested AS SELECT * FROM seen",
            "CREATE VIEW mixed AS SELECT fresh.* FROM fresh, people",
            "CREATE TABLE lacking AS SELECT x FROM fresh",
            "CREATE TABLE texts AS SELECT CAST(x AS VARCHAR) AS x, c FROM fresh",
            "CREATE TABLE nobody AS FROM fresh LIMIT 0",
        )
        opened.add(model_of(voting(small_forest(), 3), SCHEMA, "votes"))
        yield opened


@pytest.mark.parametrize("name", ["people", "PEOPLE", "seen", "nested", "mixed"])
def test_private_rows_are_no_batch(shared: Database, name: str) -> None:
    """A registered table, and any view that leads to it, is refused with exit code 3, for a plan too."""
    found, before = shared.structure("people", **SMALL), stored(shared)
    for act in (shared.plan_batch, shared.predict_private):
        with pytest.raises(BudgetError) as caught:
            act(found, name)
        assert caught.value.exit_code == 3
    assert stored(shared) == before


BATCHES: dict[str, tuple[type[DpsqlError], str]] = {
    "lacking": (UnknownName, '"c"'),
    "texts": (SchemaError, "x"),
    "nobody": (ParameterError, "from 1 to 1000000 rows, not 0"),
    "frsh": (UnknownName, 'Did you mean "fresh"'),
    "gone.csv": (DpsqlError, "there is no file"),
    "lacking.csv": (SchemaError, "lacks the feature 'c'"),
    "empty.csv": (ParameterError, "from 1 to 1000000 rows, not 0"),
    "blank.csv": (DpsqlError, "'c'"),
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_broken_batch_charges_nothing(
    shared: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Rows that are missing, that lack a feature or have another type of it are refused before any charge."""
    monkeypatch.chdir(tmp_path)
    for file, text in (("lacking", "x\n1\n"), ("empty", "x,c\n"), ("blank", "")):
        Path(f"{file}.csv").write_text(text, encoding="utf-8")
    found, before = shared.structure("people", **SMALL), stored(shared)
    error, said = BATCHES[name]
    for act in (shared.plan_batch, shared.predict_private):
        with pytest.raises(error) as caught:
            act(found, name)
        assert said in str(caught.value)
    assert stored(shared) == before


ASKED: dict[str, tuple[Callable[[Database, LabelRequest], object], str]] = {
    "trees": (
        lambda db, found: db.predict_private(found, "fresh", trees_see="both"),
        "trees_see must be one of all",
    ),
    "plan's trees": (
        lambda db, found: db.plan_batch(found, "fresh", trees_see=""),
        "trees_see must be one of all",
    ),
    "epsilon": (lambda db, found: db.predict_private(found, "fresh", epsilon=0), "epsilon must be a number above 0"),
    "name": (lambda db, found: db.predict_private(found, "fresh", name="votes"), "a model of that name exists"),
    "request": (lambda db, found: db.predict_private(found, "fresh", request_id=""), "request_id must be text"),
    "unknown model": (lambda db, _: db.predict_private("vots", "fresh"), 'Did you mean "votes"'),
    "unknown file": (lambda db, _: db.predict_private("none.json", "fresh"), 'no structure file "none.json"'),
    "folder": (lambda db, _: db.predict_private(Path("folder.json"), "fresh"), "no structure file"),
    "other method": (lambda db, _: db.predict_private("votes", "fresh"), "only mrf labels batches privately"),
    "other table": (lambda db, found: db.predict_private(replace(found, table="fresh"), "fresh"), "not registered"),
    "lost table": (lambda db, found: db.predict_private(replace(found, table="lost"), "fresh"), "there is no table"),
    "parameter": (lambda db, _: db.predict_private(LabelRequest("people", {"trees": 0}), "fresh"), "trees must be"),
    "small epsilon": (
        lambda db, _: db.predict_private(db.structure("people", trees=4, ensembles=2), "fresh", epsilon="1e-9"),
        "must be",
    ),
}


@pytest.mark.parametrize("what", ASKED)
def test_broken_requests_charge_nothing(
    shared: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Each is one of our errors, says what is wrong, and leaves no trace."""
    monkeypatch.chdir(tmp_path)
    Path("folder.json").mkdir()
    act, said = ASKED[what]
    found, before = shared.structure("people", **SMALL), stored(shared)
    with pytest.raises(DpsqlError) as caught:
        act(shared, found)
    assert said in str(caught.value)
    assert stored(shared) == before


GOOD = {"dpsql": "structure 1", "table": "people", "parameters": {}}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "trees",
        "null",
        "[]",
        "{}",
        '"structure 1"',
        json.dumps(GOOD | {"dpsql": "structure 2"}),
        json.dumps(GOOD | {"table": 3}),
        json.dumps(GOOD | {"parameters": None}),
        json.dumps(GOOD | {"parameters": [1]}),
        json.dumps(GOOD | {"parameters": {"trees": "six"}}),
        json.dumps(GOOD | {"parameters": {"tree": 6}}),
        json.dumps({"dpsql": "structure 1", "parameters": {}}),
        "\x00",
    ],
    ids=ascii,
)
def test_a_file_of_other_text_is_no_structure(shared: Database, tmp_path: Path, text: str) -> None:
    """Other JSON, no JSON at all and parameters that mrf does not have are refused, free of charge."""
    file = tmp_path / "trees.json"
    file.write_text(text, encoding="utf-8")
    before = stored(shared)
    with pytest.raises(UsageError):
        shared.predict_private(file, "fresh")
    assert stored(shared) == before


def test_shared_trees_of_several_parties_are_no_structure(shared: Database, tmp_path: Path) -> None:
    """What `export_structure` writes is for counting together, and is told apart."""
    file = tmp_path / "trees.json"
    file.write_text(shared.export_structure("people", **SMALL), encoding="utf-8")
    with pytest.raises(ParameterError, match="dpsql structure wrote"):
        shared.predict_private(file, "fresh")
    assert shared.budget("people").spent == 0


def test_numbers_are_refused() -> None:
    """A table with a numeric target has no classes to label with: no structure, no plan, no charge."""
    with memory(some_targets(), schema=TARGET) as opened:
        fill(opened.engine, "fresh", NEW)
        before = stored(opened)
        for act in (
            lambda: opened.structure("people"),
            lambda: opened.plan_batch(LabelRequest("people", {}), "fresh"),
            lambda: opened.predict_private(LabelRequest("people", {}), "fresh"),
        ):
            with pytest.raises(UsageError, match="labels classes"):
                act()
        assert stored(opened) == before


@pytest.mark.parametrize(
    ("table", "parameters", "error"),
    [
        ("peopel", {}, UnknownName),
        ("fresh", {}, NotRegistered),
        ("people", {"trees": 0}, ParameterError),
        ("people", {"tree": 3}, UnknownName),
        ("people", {"trees": 1, "ensembles": 2}, ParameterError),
    ],
    ids=str,
)
def test_an_odd_structure_is_refused_at_once(
    shared: Database, table: str, parameters: dict[str, Any], error: type[DpsqlError]
) -> None:
    """Unknown tables, public tables and parameters out of bounds never reach a plan."""
    with pytest.raises(error):
        shared.structure(table, **parameters)
