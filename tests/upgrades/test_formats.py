"""What a newer dpsql has written is refused, part by part and document by document, before anything is charged."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dpsql.api.database import Database, connect
from dpsql.engines import sql_files
from dpsql.errors import NewerFormat
from dpsql.ledger import chain, formats
from dpsql.models.model import check_certificate
from dpsql.models.usable_model import Model
from dpsql.runs.label_rows import LabelRequest
from dpsql.runs.parties import read_shared_trees
from tests.ledger.helpers import dump, meddle
from tests.upgrades.old_databases import FOLDER

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "reference" / "stored-formats.md"
SCHEMA: dict[str, Any] = {
    "label": "y",
    "classes": ["no", "yes"],
    "features": {"x": {"type": "numeric", "lower": 0, "upper": 8}},
}
FILES = (
    "ledger.sql",
    "model.sql",
    "postgres/model.sql",
    "size.sql",
    "evaluation.sql",
    "domains.sql",
    "part.sql",
    "dropped_model.sql",
    "postgres/dropped_model.sql",
    "model_tag.sql",
    "postgres/model_tag.sql",
)
#: Parts that a database has once they are needed: files, purchases, models that were dropped or tagged.
LATER = ("part", "domains", "dropped_model", "model_tag")
USES: dict[str, Callable[[Database], object]] = {
    "budget": lambda database: database.budget("people"),
    "ledger": lambda database: database.ledger(),
    "models": lambda database: database.models(),
    "model": lambda database: database.model("first"),
    "train": lambda database: database.train("people", epsilon="0.1", method="rdt", trees=1, depth=1),
    "register": lambda database: database.register("people", SCHEMA, cap=9, replace=True),
    "add": lambda database: database.add(Model.from_json(FOLDER / "auto.json")),
    "evaluate": lambda database: database.evaluate("first", "people", epsilon="0.1"),
    "accept": lambda database: database.accept(),
}


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    """Return a copy of that database, with its receipt, for one test."""
    for suffix in ("", ".anchor"):
        shutil.copy(f"{made}{suffix}", tmp_path)
    return tmp_path / made.name


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a closed database with a table, a model, a bought size and an evaluation."""
    place = tmp_path_factory.mktemp("made") / "new.duckdb"
    with connect(place, who="nora", create=True) as database:
        rows = pd.DataFrame({"x": [float(n % 8) for n in range(40)], "y": ["no", "yes"] * 20})
        database.engine.create("people", "SELECT * FROM made", {"made": rows})  # type: ignore[arg-type]
        database.register("people", SCHEMA, cap=3)
        database.train("people", epsilon="0.1", method="rdt", trees=1, depth=1, name="first")
        database.advise("people", epsilon=1, buy="0.1")
        database.evaluate("first", "people", epsilon="0.1")
    return place


@pytest.mark.parametrize(("heading", "numbers"), [("part", formats.PARTS), ("document", formats.DOCUMENTS)])
def test_the_page_on_stored_formats_lists_every_number(heading: str, numbers: dict[str, int]) -> None:
    """docs/reference/stored-formats.md has each part and each kind of document, in their order, and no other."""
    pattern = rf"^\| {heading} \|.*\n\|[-| ]+\n((?:\|.*\n)+)"
    (table,) = re.findall(pattern, PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert re.findall(r"^\| `([\w-]+)` \| (\d+) \|", table, re.MULTILINE) == [
        (name, str(number)) for name, number in numbers.items()
    ]
    assert len(table.splitlines()) == len(numbers)


@pytest.mark.parametrize("name", FILES)
def test_each_file_of_sql_writes_the_number_that_the_code_knows(name: str) -> None:
    """A part that is installed has its newest format."""
    written = re.findall(r"SELECT '(\w+)', (\d+) WHERE NOT EXISTS", sql_files.read_sql(name))
    part = Path(name).stem
    assert written == [(part, str(formats.PARTS[part]))]


def test_a_new_database_has_a_number_for_each_part(path: Path) -> None:
    """But for the parts that come once they are needed."""
    with connect(path, who="nora") as database, database.engine.snapshot() as transaction:
        numbers = formats.check(transaction)
    assert numbers == {name: number for name, number in formats.PARTS.items() if name not in LATER}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("part", formats.PARTS)
def test_a_newer_part_is_refused_by_every_use(path: Path, part: str, use: str) -> None:
    """One sentence says which part, both numbers and the next step; nothing is written or charged."""
    meddle(path, f"DELETE FROM dpsql.format WHERE part = '{part}'", f"INSERT INTO dpsql.format VALUES ('{part}', 7)")
    with connect(path, who="nora") as database:
        before = dump(database.engine)
        with pytest.raises(NewerFormat) as refused:
            USES[use](database)
        assert dump(database.engine) == before
    known = formats.PARTS[part]
    assert str(refused.value) == (
        f'part "{part}" of this database was written by a newer dpsql (format 7; this one knows up to {known}).\n'
        "Try:   pip install -U dpsql"
    )


def test_a_part_that_this_code_does_not_know_is_let_be(path: Path) -> None:
    """A newer dpsql may keep more beside: what this one knows is still as it was."""
    meddle(path, "INSERT INTO dpsql.format VALUES ('reports', 9)")
    with connect(path, who="nora") as database:
        assert database.budget("people").spent_text == "0.3"


def test_a_newer_receipt_is_refused_before_a_charge(path: Path) -> None:
    """The ledger cannot tell whether it is the newest copy, so nothing is charged."""
    receipt = path.with_name(f"{path.name}.anchor")
    receipt.write_text(json.dumps(json.loads(receipt.read_text()) | {"version": 2}))
    with connect(path, who="nora") as database:
        with pytest.raises(NewerFormat, match="this receipt was written by a newer dpsql"):
            database.train("people", epsilon="0.1", method="rdt", trees=1, depth=1)
        assert database.budget("people").spent_text == "0.3"


def test_a_format_that_the_events_do_not_bear_out_is_found(tmp_path: Path, path: Path) -> None:
    """Who writes another number into an upgraded ledger is told by verify: the upgrade is in the chain."""
    with connect(path, who="nora") as database:
        event = chain.Event(0, "upgrade", 0, who="dpsql", details='{"from":1,"to":1}')
        database.book.write(lambda into: into.append(event))
        assert database.verify() == ["dpsql.format says that the ledger has format 3, its events say 1."]


DOCUMENTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "auto.json": lambda document: Model.from_json(json.dumps(document)),
    "updated.json": lambda document: Model.from_json(json.dumps(document)),
    "houses.json": lambda document: Model.from_json(json.dumps(document)),
    "votes.json": lambda document: Model.from_json(json.dumps(document)),
    "structure.json": lambda document: read_shared_trees(json.dumps(document)),
    "certificate.json": check_certificate,
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_of_the_first_format_are_read(name: str) -> None:
    """Exported models, a shared structure and a certificate, as commit f20b367 wrote them; newer ones are refused."""
    document = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    DOCUMENTS[name](document)
    with pytest.raises(NewerFormat, match=r"\(format 9; this one knows up to 1\)"):
        DOCUMENTS[name](document | {"version": 9})


def test_label_requests_of_the_first_format_are_read() -> None:
    """They once said what they are in another way."""
    old = {"dpsql": "structure 1", "table": "people", "parameters": {"trees": 2}}
    request = LabelRequest.from_json(json.dumps(old))
    assert (request.table, request.parameters["trees"]) == ("people", 2)
    new = json.loads(request.to_json())
    assert (new["format"], new["version"]) == ("dpsql-label-request", 1)
    with pytest.raises(NewerFormat):
        LabelRequest.from_json(json.dumps(new | {"version": 2}))


def test_new_certificates_have_a_number(path: Path) -> None:
    """In the database and in an exported model."""
    with connect(path, who="nora") as database:
        certificate = database.model("first").certificate
    assert (certificate["format"], certificate["version"]) == ("dpsql-certificate", 1)


def test_the_labels_of_the_hash_never_change() -> None:
    """A hash that was written once can be proved for ever: these labels, in any order, and no others."""
    assert sorted(label for label, _ in chain.HASHED) == [
        "analyst", "cap", "dataset", "details", "digest", "entry_id", "event", "kind", "method", "nano_epsilon",
        "neighbours", "plan", "previous_hash", "recorded_at", "request_id", "scope", "sequence", "table_name", "unit",
        "who",
    ]  # fmt: skip
    event = chain.link(chain.Event(0, "reserve", 0, amount=5, who="ann"), chain.Head(0, chain.genesis("x")))
    assert event.hash == "383b137e246f8eb6f0a96da043e90ae06b0bdd08d38b03017dffa7f3c4587a5e"
