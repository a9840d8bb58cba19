"""A database of format 1 is read as it is, is upgraded by the first write, once, and goes on as if it were new."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from dpsql.api.database import Database, connect
from dpsql.errors import BudgetExceeded, DatabaseError, DpsqlError, LedgerBroken, RunsUnfinished, TableChanged
from dpsql.ledger import formats
from tests.upgrades.old_databases import OldDatabase, load_postgres, unpack_duckdb, unpack_files

SMALL: dict[str, Any] = {"method": "rdt", "trees": 2, "depth": 2}


@pytest.fixture(params=["duckdb", "postgres"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> OldDatabase:
    """Return a database as commit f20b367 left it."""
    return unpack_duckdb(tmp_path) if request.param == "duckdb" else load_postgres()


@pytest.fixture
def database(old: OldDatabase) -> Iterator[Database]:
    """Open it with the present code."""
    with connect(old.place, who="nora") as opened:
        yield opened


def upgrades(database: Database) -> list[dict[str, Any]]:
    """Return what each upgrade in the chain says of itself."""
    return [dict(entry.details) for entry in database.book.entries(event="upgrade")]


def is_upgraded(database: Database) -> bool:
    """Return whether the database has the table of format numbers."""
    with database.engine.snapshot() as transaction:
        return transaction.has_table("format")


def told_entries(database: Database) -> list[dict[str, Any]]:
    """Return the entries in the words of `format1/*.json`, with the hash of the last event of each entry."""
    with database.engine.snapshot() as transaction:
        events = transaction.rows("SELECT entry_id, hash FROM dpsql.entry ORDER BY sequence")
    last_hashes = {event["entry_id"]: event["hash"] for event in events}
    names = ("entry_id", "event", "state", "dataset", "kind", "hash")
    return [
        {name: getattr(entry, name) for name in names} | {"last_hash": last_hashes[entry.entry_id]}
        for entry in database.book.entries()
    ]


def assert_as_told(database: Database, told: dict[str, Any]) -> None:
    """Entries, budgets and models are those that the old code told of, and the chain holds."""
    assert told_entries(database)[: len(told["entries"])] == told["entries"]
    budgets = {(budget.dataset, budget.kind): (budget.cap, budget.spent) for budget in database.budgets()}
    assert budgets == {(row["dataset"], row["kind"]): (row["cap"], row["spent"]) for row in told["budgets"]}
    models = database.models()
    assert not any(models.pop("tags"))
    assert json.loads(models.to_json(orient="records")) == told["models"]
    assert database.verify() == told["verify"] == []


def test_reading_leaves_an_old_database_as_it_is(database: Database, old: OldDatabase) -> None:
    """Budgets, entries, models, free predictions and the proof of the chain need no upgrade, and make none."""
    assert_as_told(database, old.told)
    assert len(database.model("first").predict("fresh")) == 8
    assert database.budget("people").spent_text == "1.3"
    with pytest.raises(DpsqlError, match="registered private table"):
        database.model("first").predict("people")
    assert len(database.ledger("people")) > 0
    assert database.plan("people", method="rdt", trees=2, depth=2).nano_epsilon > 0
    assert "SELECT" in str(database.explain("people", method="rdt", trees=2, depth=2))
    assert database.advise("people", rows=1000).table == "people"
    assert not is_upgraded(database)
    assert len(database.book.entries()) == len(old.told["entries"])


def test_the_first_write_upgrades_once(database: Database, old: OldDatabase) -> None:
    """All that was there stays as it was, the upgrade is an event of the chain, and a second one does nothing."""
    before = database.model("auto").predict("fresh")
    database.set_cap("people", 3)
    assert upgrades(database) == [{"from": 1, "to": 3}]
    assert_as_told(database, old.told)
    assert database.model("auto").predict("fresh").equals(before)
    with database.engine.snapshot() as transaction:
        assert formats.check(transaction) == {"ledger": 3, "model": 1, "size": 1, "evaluation": 1}
    count = len(database.book.entries())
    with connect(old.place, who="nora") as again:
        again.book.upgrade()
        assert len(again.book.entries()) == count
        assert upgrades(again) == [{"from": 1, "to": 3}]


def test_an_old_database_trains_on(database: Database) -> None:
    """Every table of it: classes, a target, units, a view, labels alone, approximate; and the ledger says so."""
    for table in ("people", "visits", "houses", "answers", "risks", "moved", "tested", "adults"):
        database.train(table, epsilon="0.05", **SMALL)
    database.train("people", epsilon="0.05", batch="a", **SMALL)
    database.train("risks", epsilon="0.5", delta="1e-7", **SMALL)
    database.update("first", "b", epsilon="0.1")
    assert database.budget("people").spent_text == "1.45"
    assert database.verify() == []


def test_an_old_database_refuses_beyond_its_cap(database: Database) -> None:
    """What was spent before the upgrade counts after it: of 0.7 there is 0.1 left."""
    with pytest.raises(BudgetExceeded) as refused:
        database.train("adults", epsilon="0.2", **SMALL)
    assert (refused.value.left, refused.value.cap) == ("0.1", "0.7")
    assert database.budget("adults").spent_text == "0.6"


def test_old_requests_are_found_again(database: Database) -> None:
    """One request, one charge, whichever format it was made in."""
    assert database.book.find_request("rdt-1") is not None
    database.book.upgrade()
    entry = database.book.find_request("rdt-1")
    assert entry is not None
    assert (entry.state, entry.amount, entry.who) == ("released", 250_000_000, "bea")


def test_rules_that_came_later_are_not_held_against_old_charges(database: Database) -> None:
    """A small charge while seven runs were unfinished is no finding; the runs count for what comes after."""
    database.book.upgrade()
    assert database.verify() == []
    with pytest.raises(RunsUnfinished):
        database.train("failing", epsilon="0.1", **SMALL)
    database.accept_runs("failing")
    database.train("failing", epsilon="0.1", **SMALL)
    assert database.verify() == []


def test_tables_get_an_identity(database: Database) -> None:
    """After the upgrade a table that was made anew under the same name is not taken for the registered one."""
    database.book.upgrade()
    schema = database.engine.home
    with database.engine.transaction() as transaction:
        transaction.run(f"ALTER TABLE {schema}.tested RENAME TO elsewhere")
        transaction.run(f"CREATE TABLE {schema}.tested AS SELECT * FROM {schema}.elsewhere")
    with pytest.raises(TableChanged, match="is not the table that was registered"):
        database.train("tested", epsilon="0.1", **SMALL)
    with pytest.raises(TableChanged, match="was renamed since"):
        database.train("elsewhere", epsilon="0.1", **SMALL)


def test_a_table_that_is_gone_keeps_its_budget(database: Database) -> None:
    """Its dataset has no identity then: no run takes a table of that name for it before the owner says so."""
    schema = database.engine.home
    with database.engine.transaction() as transaction:
        transaction.run(f"CREATE TABLE {schema}.copied AS SELECT * FROM {schema}.tested")
        transaction.run(f"DROP TABLE {schema}.tested")
    spent = database.budget("tested").spent
    database.book.upgrade()
    with database.engine.transaction() as transaction:
        transaction.run(f"ALTER TABLE {schema}.copied RENAME TO tested")
    with pytest.raises(TableChanged):
        database.train("tested", epsilon="0.1", **SMALL)
    assert database.budget("tested").spent == spent > 0


def test_a_crash_in_the_middle_leaves_the_old_state(
    database: Database, old: OldDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever breaks off the upgrade, the old ledger is still there, and the next write upgrades it."""
    with monkeypatch.context() as broken:
        broken.setattr(formats, "record_parts", lambda transaction: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            database.set_cap("people", 3)
    assert not is_upgraded(database)
    assert_as_told(database, old.told)
    database.set_cap("people", 3)
    assert upgrades(database) == [{"from": 1, "to": 3}]


def test_two_who_open_at_once_upgrade_once(old: OldDatabase) -> None:
    """One of them upgrades, the other sees it done; both get their charge."""
    barrier, done = threading.Barrier(2), list[int]()

    def write(number: int) -> None:
        with connect(old.place, who=f"writer {number}") as opened:
            barrier.wait(timeout=30)
            opened.set_cap("people", 3 + number)
            done.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sorted(done) == [0, 1]
    with connect(old.place, who="nora") as opened:
        assert upgrades(opened) == [{"from": 1, "to": 3}]
        assert len(opened.book.entries(event="cap")) == 2 + sum(
            entry["event"] == "cap" for entry in old.told["entries"]
        )
        assert opened.verify() == []


EDITS = {
    "an amount": ("UPDATE dpsql.entry SET nano_epsilon = 1 WHERE sequence = 21", "event 21 was changed"),
    "a spent sum": ("UPDATE dpsql.budget SET spent = 0, whole = 0 WHERE table_name = 'houses'", "says 0 is spent"),
    "a forged format": ("CREATE TABLE dpsql.format AS SELECT 'ledger' AS part, 3 AS number", ""),
}


@pytest.mark.parametrize(("statement", "words"), EDITS.values(), ids=EDITS)
def test_a_tampered_old_ledger_is_not_upgraded(old: OldDatabase, statement: str, words: str) -> None:
    """Verify says what is wrong, every write is refused, and the tables stay as they are."""
    run_directly(old, statement)
    with connect(old.place, who="nora") as database:
        if words:
            assert words in " ".join(database.verify())
        with pytest.raises(LedgerBroken if words else DpsqlError):
            database.set_cap("people", 30)
        with pytest.raises(LedgerBroken if words else DpsqlError):
            database.train("people", epsilon="0.1", **SMALL)
        with database.engine.snapshot() as transaction:
            columns = transaction.rows("SELECT * FROM dpsql.entry")[0].keys()
        assert "nano_epsilon" in columns


def test_an_old_ledger_without_its_receipt_can_be_accepted(tmp_path: Path) -> None:
    """The owner accepts what is there; the upgrade and the acceptance are one step."""
    old = unpack_duckdb(tmp_path)
    Path(f"{old.place}.anchor").unlink()
    with connect(old.place, who="nora") as database:
        with pytest.raises(LedgerBroken, match="receipt"):
            database.set_cap("people", 3)
        assert not is_upgraded(database)
        database.accept()
        assert [entry.event for entry in database.book.entries()][-1] == "anchor"
        assert upgrades(database) == [{"from": 1, "to": 3}]
        database.train("people", epsilon="0.1", **SMALL)
        assert database.verify() == []


def test_the_receipt_of_an_old_ledger_goes_on(tmp_path: Path) -> None:
    """A receipt without a number is read; the next one has a number, and the head behind the upgrade."""
    old = unpack_duckdb(tmp_path)
    receipt = Path(f"{old.place}.anchor")
    assert "version" not in json.loads(receipt.read_text())
    with connect(old.place, who="nora") as database:
        database.book.upgrade()
        stored = json.loads(receipt.read_text())
        assert (stored["format"], stored["version"]) == ("dpsql-receipt", 1)
        assert stored["head"]["hash"] == database.book.entries()[-1].hash


def test_a_role_that_only_reads_is_told_so() -> None:
    """An analyst reads an old ledger on a server; what needs the upgrade is refused in one clear sentence."""
    old = load_postgres()
    with psycopg.connect(old.place, autocommit=True) as server:
        server.execute("DROP ROLE IF EXISTS old_reader")
        server.execute("CREATE ROLE old_reader LOGIN")
        server.execute("GRANT USAGE ON SCHEMA dpsql TO old_reader")
        server.execute("GRANT SELECT ON ALL TABLES IN SCHEMA dpsql TO old_reader")
        server.execute("GRANT SELECT ON dpsql.chain TO old_reader WITH GRANT OPTION")
    user = psycopg.conninfo.conninfo_to_dict(old.place)["user"]
    with connect(old.place.replace(f"//{user}", "//old_reader"), who="ana") as reader:
        assert reader.budget("people").spent_text == "1.3"
        assert reader.verify() == []
        with pytest.raises(DatabaseError) as refused:
            reader.train("people", epsilon="0.1", **SMALL)
        assert "owner" in str(refused.value)
        assert not is_upgraded(reader)
    with connect(old.place, who="nora") as owner:
        owner.book.upgrade()
    with connect(old.place.replace(f"//{user}", "//old_reader"), who="ana") as reader:
        assert reader.budget("people").spent_text == "1.3"
        assert reader.verify() == []


def test_a_ledger_beside_files_is_upgraded(tmp_path: Path) -> None:
    """The ledger of a folder of CSV files is a DuckDB file: it is upgraded like any other."""
    old = unpack_files(tmp_path)
    with connect(old.place, who="nora") as database:
        assert_as_told(database, old.told)
        database.train("people", epsilon="0.5", batch="b", **SMALL)
        assert upgrades(database) == [{"from": 1, "to": 3}]
        assert database.budget("people").spent_text == "0.5"  # two batches, 0.5 each
        assert database.verify() == []


def run_directly(old: OldDatabase, statement: str) -> None:
    """Change a database behind the ledger's back."""
    if old.place.startswith("postgresql"):
        with psycopg.connect(old.place, autocommit=True) as server:
            server.execute(statement)
    else:
        with duckdb.connect(old.place) as file:
            file.execute(statement)
