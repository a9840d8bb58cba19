"""The ledger reads what it needs: counted in statements, rows and hashes, so that no clock can blur it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sqlglot import exp

from dpsql.api.database import Database, connect
from dpsql.engines.duckdb.cursor import DuckDBTransaction
from dpsql.ledger import Charge, chain
from dpsql.schema import Schema

from .helpers import LENIENT

RUNS = 60
#: Registered, trained and then charged and released again and again: so many events.
EVENTS = 3 + 2 * RUNS
SCHEMA: dict[str, Any] = {
    "label": "y",
    "classes": ["no", "yes"],
    "features": {"x": {"type": "numeric", "lower": 0, "upper": 8}},
}
SMALL: dict[str, Any] = {"method": "rdt", "trees": 1, "depth": 1}


@dataclass
class Counted:
    """How much was read since the counting began."""

    #: The rows that each statement on `dpsql.entry` returned.
    events: list[int] = field(default_factory=list)
    hashes: int = 0
    schemas: int = 0


@pytest.fixture
def database(long_chain: Path, tmp_path: Path) -> Iterator[Database]:
    """Open a file whose chain is long and of which nothing was checked yet."""
    for suffix in ("", ".anchor"):
        shutil.copy(f"{long_chain}{suffix}", tmp_path)
    with connect(tmp_path / long_chain.name, who="ann") as opened:
        yield opened


@pytest.fixture(scope="module")
def long_chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a closed file with a registered table, a model and many charges."""
    path = tmp_path_factory.mktemp("made") / "long.duckdb"
    with connect(path, who="ann", create=True) as made:
        rows = pd.DataFrame({"x": [float(n % 8) for n in range(40)], "y": ["no", "yes"] * 20})
        for name, columns in (("people", ["x", "y"]), ("others", ["x", "y"]), ("fresh", ["x"])):
            made.engine.create(name, exp.select("*").from_("made"), {"made": rows[columns]})
        limits = {"lost_runs": LENIENT["lost_runs"], "least_epsilon": LENIENT["least_epsilon"]}
        dataset = made.register("people", SCHEMA, cap=3, **limits)
        made.train("people", epsilon="0.1", name="first", **SMALL)
        charges = [Charge(f"r{number}", dataset.id, "people", "rdt", {}, 10**6, who="ann") for number in range(RUNS)]
        entries = made.book.reserve_all(charges)
        made.book.write(lambda into: [made.book.release(entry, "d", into) for entry in entries])
    return path


@pytest.fixture
def counted(database: Database, monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Count what the database gives and what is hashed from now on."""
    counts = Counted()
    read, hash_of, parse = DuckDBTransaction.rows, chain.hash_of, Schema.from_dict

    def count_rows(self: DuckDBTransaction, statement: Any, parameters: Any = ()) -> list[dict[str, Any]]:
        rows = read(self, statement, parameters)
        if "dpsql.entry" in str(statement):
            counts.events.append(len(rows))
        return rows

    def count_hash(event: chain.Event) -> str:
        counts.hashes += 1
        return hash_of(event)

    def count_schema(declared: Any) -> Schema:
        counts.schemas += 1
        return parse(declared)

    monkeypatch.setattr(DuckDBTransaction, "rows", count_rows)
    monkeypatch.setattr(chain, "hash_of", count_hash)
    monkeypatch.setattr(Schema, "from_dict", staticmethod(count_schema))
    return counts


READS: dict[str, Callable[[Database], object]] = {
    "budget": lambda database: database.budget("people"),
    "budgets": lambda database: database.budgets(),
    "spent on": lambda database: database.spent_on("people"),
    "a request": lambda database: database.book.find_request("r7"),
    "no request": lambda database: database.book.find_request("none"),
    "an entry": lambda database: database.book.find_entry(5),
    "the register": lambda database: database.book.registrations(),
    "a plan": lambda database: database.plan("people", epsilon="0.1", **SMALL),
    "a free prediction": lambda database: database.model("first").predict("fresh"),
    "a free evaluation": lambda database: database.evaluate(
        "first", pd.DataFrame({"x": [1.0, 2.0], "y": ["no", "yes"]})
    ),
}


@pytest.mark.parametrize("name", READS)
def test_a_look_reads_a_few_rows_and_hashes_nothing(database: Database, counted: Counted, name: str) -> None:
    """However long the chain is: what is asked for is asked by SQL."""
    READS[name](database)
    assert sum(counted.events) <= 8
    assert max(counted.events, default=0) <= 2
    assert counted.hashes == 0


@pytest.mark.parametrize("name", ["budget", "budgets", "a request", "the register"])
def test_a_look_parses_no_schema(database: Database, counted: Counted, name: str) -> None:
    """A budget needs a name and sums, not what the columns mean."""
    READS[name](database)
    assert counted.schemas == 0


def test_a_free_prediction_parses_the_models_schema_alone(database: Database, counted: Counted) -> None:
    """Whether a table is private is told by identities, whatever the registered schemas say."""
    database.register("others", SCHEMA, cap=1)
    counted.schemas = 0
    database.model("first").predict("fresh")
    assert counted.schemas == 1


def test_a_training_reads_the_chain_once_and_hashes_on_from_its_head(database: Database, counted: Counted) -> None:
    """The first write of a process proves all that is there, once; then only what was appended is read or hashed."""
    database.train("people", epsilon="0.1", **SMALL)
    assert [rows for rows in counted.events if rows > 5] == [EVENTS]
    assert counted.hashes == EVENTS + 2  # what it appended itself: a charge and a release
    counted.events.clear()
    counted.hashes = 0
    database.train("people", epsilon="0.1", **SMALL)
    assert max(counted.events) <= 2
    assert counted.hashes == 2


def test_verify_reads_and_hashes_everything(database: Database, counted: Counted) -> None:
    """Whatever was checked before: also what this process has just proved."""
    database.train("people", epsilon="0.1", **SMALL)
    counted.events.clear()
    counted.hashes = 0
    assert database.verify() == []
    assert counted.events == [EVENTS + 2]
    assert counted.hashes == EVENTS + 2
