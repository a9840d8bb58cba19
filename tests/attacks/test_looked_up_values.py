"""Attacks on the mark of a lookup: no edited file, no new registration, no rename and no view takes it off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import dpsql
from dpsql.api.database import Database, connect
from dpsql.errors import SchemaError, UsageError
from tests.tables import run

SCHEMA = {
    "label": "y",
    "classes": ["no", "yes"],
    "features": {"job": {"type": "categorical", "values": ["clerk", "cook"]}},
}
TABLE = """
CREATE TABLE t AS SELECT ['clerk', 'cook'][1 + i % 2] AS job, ['no', 'yes'][1 + i % 2] AS y, i % 3 AS part
FROM range(60) r (i)
"""
SMALL = {"method": "rdt", "trees": 2, "depth": 1}


@pytest.fixture
def db() -> Iterator[Database]:
    """Open a database whose private table was looked up."""
    with connect(":memory:", who="ann") as opened:
        run(opened.engine, TABLE)
        opened.draft("t", values_are_public=["job"])
        yield opened


def marks(db: Database, table: str) -> list[str]:
    """Return what the certificate of a new model of a table says."""
    return list(db.train(table, epsilon=1, **SMALL).certificate.get("looked_up", []))  # type: ignore[arg-type]


def test_an_edited_file_keeps_the_mark(db: Database) -> None:
    """A schema without the key, or with an empty one, is registered with the columns that the ledger knows."""
    dataset = db.register("t", SCHEMA, cap=9)
    assert dataset.schema.looked_up == ("job",)
    assert marks(db, "t") == ["job"]
    db.register("t", {**SCHEMA, "looked_up": []}, cap=9, replace=True)
    assert marks(db, "t") == ["job"]


def test_a_renamed_table_keeps_the_mark(db: Database) -> None:
    """The mark follows the database's identity of the table, not its name."""
    run(db.engine, "ALTER TABLE t RENAME TO innocent")
    db.register("innocent", SCHEMA, cap=9)
    assert marks(db, "innocent") == ["job"]


def test_a_table_made_anew_in_its_place_keeps_the_mark(db: Database) -> None:
    """A copy under the old name holds the same people: the place is enough."""
    run(db.engine, "CREATE TABLE copy AS SELECT * FROM t", "DROP TABLE t", "ALTER TABLE copy RENAME TO t")
    db.register("t", SCHEMA, cap=9)
    assert marks(db, "t") == ["job"]


def test_a_view_with_other_names_keeps_the_mark(db: Database) -> None:
    """A view that renames the column still says which column of its table was looked up."""
    run(db.engine, "CREATE VIEW v AS SELECT job AS work, y FROM t")
    db.register("v", {**SCHEMA, "features": {"work": SCHEMA["features"]["job"]}}, cap=9)  # type: ignore[index]
    assert marks(db, "v") == ["job"]


def test_a_view_that_was_looked_up_marks_its_table(db: Database) -> None:
    """Looking through a view is looking at the table behind it."""
    run(db.engine, "CREATE VIEW w AS SELECT part AS kind, y FROM t")
    db.draft("w", values_are_public=["kind"])
    db.register("t", SCHEMA, cap=9)
    assert marks(db, "t") == ["job", "kind"]


def test_a_look_after_registration_counts_too(db: Database) -> None:
    """A column that was looked up later is named by every model from then on, registered anew or not."""
    db.register("t", SCHEMA, cap=9)
    assert marks(db, "t") == ["job"]
    db.draft("t", values_are_public=["part"])
    assert marks(db, "t") == ["job", "part"]


REFUSALS = {
    "many values": "SELECT i::VARCHAR AS code, 'clerk' AS job, 'no' AS y FROM range(2000) r (i)",
    "long texts": "SELECT repeat('x', 300) AS code, 'clerk' AS job, 'no' AS y FROM range(9) r (i)",
    "single rows": "SELECT 'a' || i AS code, 'clerk' AS job, 'no' AS y FROM range(9) r (i)",
    "no values": "SELECT NULL::VARCHAR AS code, 'clerk' AS job, 'no' AS y FROM range(9) r (i)",
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_that_read_rows_leaves_a_mark(case: str) -> None:
    """What a refusal says of the rows is a lookup: the ledger has it before the owner does, and certificates after."""
    with connect(":memory:", who="ann") as db:
        run(db.engine, f"CREATE TABLE t AS {REFUSALS[case]}")
        with pytest.raises(UsageError, match="entry 1 of the ledger"):
            db.draft("t", values_are_public=["job", "code", "y"])
        [entry] = db.book.entries()
        assert (entry.event, entry.who, entry.table, entry.amount) == ("lookup", "ann", "t", 0)
        assert entry.details["columns"] == {"job": None, "code": None}
        assert entry.details["refused"] == "code"
        assert db.verify() == []
        db.register("t", SCHEMA, cap=9)
        assert marks(db, "t") == ["code", "job"]


def test_a_refusal_without_rows_leaves_none(db: Database) -> None:
    """A name, a key or a type is refused from the catalog alone, before any column is read."""
    run(db.engine, "CREATE TABLE u (job VARCHAR, email VARCHAR, k INTEGER PRIMARY KEY, wage DOUBLE)")
    for column in ("email", "k", "wage"):
        with pytest.raises(UsageError, match="were not looked up"):
            db.draft("u", values_are_public=["job", column])
    assert [entry.table for entry in db.book.entries()] == ["t"]


def test_updates_and_joined_models_keep_the_mark(db: Database, tmp_path: Path) -> None:
    """A model that is made of marked ones is marked."""
    db.register("t", SCHEMA, cap=9)
    first = db.train("t", epsilon=1, **SMALL)  # type: ignore[arg-type]
    with connect(":memory:", who="eve") as other:
        run(other.engine, TABLE.replace("TABLE t", "TABLE u").replace("AS job", "AS town"))
        features = {"town": {"type": "categorical", "values": ["clerk", "cook"]}}
        other.register("u", {**SCHEMA, "features": features}, cap=9)
        second = other.train("u", epsilon=1, **SMALL)  # type: ignore[arg-type]
    assert dpsql.unite([first, second], name="both").certificate["looked_up"] == ["job"]


def test_the_entry_cannot_be_taken_out(tmp_path: Path) -> None:
    """Deleting the entry of a lookup breaks the chain, and nothing more is trained."""
    with connect(tmp_path / "data.duckdb", create=True, who="ann") as db:
        run(db.engine, TABLE)
        db.draft("t", values_are_public=["job"])
        db.register("t", SCHEMA, cap=9)
    with connect(tmp_path / "data.duckdb") as db:
        run(db.engine, "DELETE FROM dpsql.entry WHERE event = 'lookup'")
        assert db.verify()
        with pytest.raises(dpsql.LedgerBroken):
            db.train("t", epsilon=1, **SMALL)  # type: ignore[arg-type]


def test_a_lookup_is_no_second_registration(db: Database) -> None:
    """The identity that a lookup writes opens no way around the one budget: the table is registered once."""
    db.register("t", SCHEMA, cap=1)
    run(db.engine, "CREATE VIEW v AS SELECT * FROM t")
    with pytest.raises(UsageError, match="one budget"):
        db.register("v", SCHEMA, cap=1)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_that_is_written_anew_or_renamed_keeps_the_mark(tmp_path: Path, kind: str) -> None:
    """Files are told by what the file system says and by their place: one of both is enough."""
    rows = pd.DataFrame({"job": ["clerk", "cook"] * 30, "y": ["no", "yes"] * 30})
    place, other = tmp_path / f"t.{kind}", tmp_path / f"innocent.{kind}"

    def write() -> None:
        rows.to_csv(place, index=False) if kind == "csv" else rows.to_parquet(place)

    write()
    with connect(tmp_path, who="ann") as db:
        draft = db.draft("t", label="y", values_are_public=["job", "y"])
        assert draft.gaps == ()
    place.rename(other)
    with connect(tmp_path, who="ann") as db:
        assert db.register("innocent", SCHEMA, cap=9).schema.looked_up == ("job", "y")
        assert marks(db, "innocent") == ["job", "y"]
    other.rename(tmp_path / "old.txt")  # not removed: a new file could get its number
    write()
    with connect(tmp_path, who="ann") as db:
        assert db.draft("t", label="y").looked_up == ()
        db.register("t", SCHEMA, cap=9)
        assert marks(db, "t") == ["job", "y"]


def test_a_lookup_makes_no_table_private(db: Database) -> None:
    """A public table whose values were looked up stays readable; only a registration makes rows private."""
    db.register("t", SCHEMA, cap=9)
    model = db.train("t", epsilon=1, **SMALL)  # type: ignore[arg-type]
    run(db.engine, TABLE.replace("TABLE t", "TABLE later"))
    db.draft("later", values_are_public=["job"])
    assert len(model.predict("later")) == 60


def test_a_lookup_of_another_ledger_is_refused(tmp_path: Path) -> None:
    """A table that another ledger looked up carries that ledger's mark, and is registered there."""
    with connect(tmp_path / "data.duckdb", create=True) as db:
        run(db.engine, TABLE)
        db.draft("t", values_are_public=["job"])
        run(db.engine, "DROP SCHEMA dpsql CASCADE")
    for path in tmp_path.glob("*.anchor"):
        path.unlink()
    with connect(tmp_path / "data.duckdb") as db, pytest.raises(UsageError, match="another ledger"):
        db.register("t", SCHEMA, cap=1)


@pytest.mark.parametrize("given", ["job", {"job": 1}, [["job"]], [None]])
def test_the_key_is_a_list_of_names(given: object) -> None:
    """Anything else under `looked_up` is refused."""
    with pytest.raises(SchemaError, match="looked_up"):
        dpsql.Schema.from_dict({**SCHEMA, "looked_up": given})


def test_an_imported_model_with_a_strange_mark_is_refused(db: Database, tmp_path: Path) -> None:
    """A certificate from a file may say what it likes; only a list is taken."""
    db.register("t", SCHEMA, cap=9)
    text = db.train("t", epsilon=1, **SMALL).to_json()  # type: ignore[arg-type]
    assert '"looked_up": ["job"]' in text
    with pytest.raises(SchemaError, match="damaged"):
        dpsql.Model.from_json(text.replace('"looked_up": ["job"], "facts"', '"looked_up": 7, "facts"').replace(
            '"looked_up": ["job"]}', '"looked_up": 7}'))  # fmt: skip
