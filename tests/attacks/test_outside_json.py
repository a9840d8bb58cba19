"""JSON from outside: models and structures that are damaged, nested deeply or say little are clear errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpsql.api.database import Database
from dpsql.cli.main import run_command_line
from dpsql.errors import DpsqlError, LedgerBroken
from dpsql.ledger import json_text
from dpsql.models.usable_model import Model
from dpsql.runs.label_rows import LabelRequest
from dpsql.runs.parties import read_shared_trees
from tests.tables import SCHEMA, SMALL, memory, model_of, on_disk, small_forest, some_rows, voting
from tests.tables import run as run_statement

DEEP = {
    "lists": "[" * 100_000 + "]" * 100_000,
    "objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "lists in an object": '{"format": ' + "[" * 700 + "]" * 700 + "}",
    "unfinished": '{"a":' * 100_000,
}


@pytest.mark.parametrize("what", DEEP)
def test_deep_nesting_is_a_clear_error_everywhere(tmp_path: Path, what: str) -> None:
    """A model, a structure of parties and a structure of a batch, nested deeply, are refused in our own words."""
    path = tmp_path / "deep.json"
    path.write_text(DEEP[what])
    for read in (Model.from_json, read_shared_trees):
        with pytest.raises(DpsqlError):
            read(path)
    with pytest.raises(DpsqlError):
        LabelRequest.from_json(DEEP[what])


def test_depth_has_a_limit_and_length_has_one(tmp_path: Path) -> None:
    """Up to the limit nesting is read, beyond it is refused; so is a file that is too large."""
    most = json_text.MOST_DEPTH
    assert json_text.parse("[" * most + "]" * most)
    with pytest.raises(ValueError, match="too deeply"):
        json_text.parse("[" * (most + 3) + "]" * (most + 3))
    (tmp_path / "large").write_text(" " * (2**20 + 1))
    with pytest.raises(ValueError, match="larger than 1 MB"):
        json_text.read_file(tmp_path / "large", megabytes=1)


def imported(db: Database, **changes: Any) -> Model:
    """Return a model in the database whose certificate says what it must and no more, and then `changes`."""
    model = model_of(voting(small_forest(), len(SCHEMA.classes)), SCHEMA)
    stored = json.loads(model.to_json())
    stored["certificate"] |= changes
    return db.add(Model.from_json(json.dumps(stored)))


def test_a_model_that_says_little_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`show` of an imported model tells what its certificate leaves out, and does not take it for private."""
    path = tmp_path / "data.duckdb"
    with on_disk(path, some_rows()) as db:
        imported(db)
    assert run_command_line(["show", "--db", str(path), "--model", "model"]) == 0
    told = capsys.readouterr().out
    assert "Private:     not said" in told
    assert "Neighbours:  not said" in told


@pytest.mark.parametrize(
    "changes",
    [
        {"private": "yes"},
        {"ledger_hash": 5},
        {"plan": []},
        {"ledger_entry": "x"},
        {"neighbours": None},
        {"updates": {}},
    ],
    ids=str,
)
def test_a_certificate_of_other_kinds_is_refused(changes: dict[str, Any]) -> None:
    """What a certificate says is of the kind that dpsql writes, or the file is damaged."""
    with memory(some_rows()) as db, pytest.raises(DpsqlError, match="damaged"):
        imported(db, **changes)


@pytest.mark.parametrize("updates", [[1], [{}], [{"noise_scale": "x"}], [{"noise_scale": 0}]], ids=str)
def test_updates_that_make_no_sense_are_a_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], updates: list[Any]
) -> None:
    """`show` says that the certificate is damaged."""
    path = tmp_path / "data.duckdb"
    with on_disk(path, some_rows()) as db:
        imported(db, updates=updates)
    assert run_command_line(["show", "--db", str(path), "--model", "model"]) == 2
    assert "damaged" in capsys.readouterr().err


def test_an_imported_model_that_says_little_is_no_structure_and_is_not_updated() -> None:
    """What needs more than the certificate says is refused before anything is charged."""
    with memory(some_rows()) as db:
        model = model_of(voting(small_forest(), len(SCHEMA.classes)), SCHEMA, "bare")
        stored = json.loads(model.to_json()) | {"method": "mrf"}
        db.add(Model.from_json(json.dumps(stored)))
        stored |= {"method": "rdt", "name": "counts"}
        stored["certificate"] |= {"batches": ["a"]}
        db.add(Model.from_json(json.dumps(stored)))
        before = db.budget("people").spent
        with pytest.raises(DpsqlError, match="does not say how its trees were grown"):
            db.predict_private("bare", "people")
        with pytest.raises(DpsqlError):
            db.update("counts", "b")
        assert db.budget("people").spent == before


def test_a_structure_with_other_parts_is_damaged() -> None:
    """Lists where objects belong, and the reverse, are no crash."""
    with memory(some_rows()) as db:
        good = json.loads(db.export_structure("people", **SMALL))
    for key in ("format", "version", "schema", "forest", "digest"):
        for wrong in ([], {}, 3, None, "x"):
            with pytest.raises(DpsqlError):
                read_shared_trees(json.dumps(good | {key: wrong}))


@pytest.mark.parametrize("column", ["schema", "certificate"])
def test_a_stored_model_that_was_changed_is_a_clear_error(column: str) -> None:
    """A model whose row holds no JSON, or nests deeply, is said to be damaged."""
    with memory(some_rows()) as db:
        imported(db)
        run_statement(db.engine, f"UPDATE dpsql.model SET {column} = '{'[' * 5000}'")
        with pytest.raises(DpsqlError, match="damaged"):
            db.model("model")


def test_an_entry_that_was_changed_is_a_broken_ledger() -> None:
    """Whatever somebody writes into the ledger's JSON, looking at it says that the ledger does not hold."""
    with memory(some_rows()) as db:
        run_statement(db.engine, f"UPDATE dpsql.entry SET details = '{'[' * 5000}'")
        for look in (db.ledger, lambda: db.budget("people"), lambda: db.train("people", **SMALL)):
            with pytest.raises(LedgerBroken):
                look()
        assert db.verify() == ["event 1 was changed after it was written."]
