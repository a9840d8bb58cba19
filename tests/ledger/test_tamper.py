"""What a meddler does to the file or its receipt is found by verify, and blocks every charge."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dpsql.engines.duckdb.open_database import open_file
from dpsql.errors import LedgerBroken
from dpsql.ledger import Ledger, anchor_path, parse_epsilon

from .helpers import LENIENT, charge, meddle


@pytest.fixture
def closed(path: Path) -> Path:
    """Return a closed file: register, three charges, one release (events 1 to 5), one scope."""
    engine = open_file(path, create=True)
    ledger = Ledger(engine)
    ledger.register("adult", "adult", parse_epsilon("2"), LENIENT, "ann")
    first = ledger.reserve(charge("r1", "0.5"))
    ledger.reserve(charge("r2", "0.25"))
    ledger.write(lambda transaction: ledger.release(first, "d1", transaction))
    ledger.reserve(charge("r3", "0.125", scope="region=north"))
    engine.close()
    return path


def assert_broken(path: Path, words: str) -> None:
    """Verify says so in words, and neither a charge nor a cap goes through."""
    engine = open_file(path)
    ledger = Ledger(engine)
    findings = ledger.verify()
    assert words in " ".join(findings)
    with pytest.raises(LedgerBroken) as refused:
        ledger.reserve(charge("r9", "0.1"))
    assert refused.value.findings == findings
    with pytest.raises(LedgerBroken):
        ledger.set_cap("adult", parse_epsilon("9"), "ann")
    engine.close()


def test_an_untouched_ledger_verifies(closed: Path) -> None:
    """Nothing is found where nothing was done."""
    engine = open_file(closed)
    assert Ledger(engine).verify() == []
    engine.close()


EDITS = {
    "an edited amount": ("UPDATE dpsql.entry SET amount = 1 WHERE sequence = 2", "event 2 was changed"),
    "an edited name": ("UPDATE dpsql.entry SET who = 'bob' WHERE sequence = 3", "event 3 was changed"),
    "an edited time": ("UPDATE dpsql.entry SET recorded_at = '' WHERE sequence = 1", "event 1 was changed"),
    "an edited digest": ("UPDATE dpsql.entry SET digest = 'x' WHERE sequence = 4", "event 4 was changed"),
    "another request": ("UPDATE dpsql.entry SET request_id = 'x' WHERE sequence = 3", "event 3 was changed"),
    "a forged hash": ("UPDATE dpsql.entry SET hash = 'x' WHERE sequence = 3", "does not follow event 3"),
    "a deleted event": ("DELETE FROM dpsql.entry WHERE sequence = 3", "gap between events 2 and 4"),
    "a deleted first event": ("DELETE FROM dpsql.entry WHERE sequence = 1", "events before 2 are missing"),
    "a deleted tail": ("DELETE FROM dpsql.entry WHERE sequence >= 4", "at event 3, its receipt at 5"),
    "an emptied ledger": ("DELETE FROM dpsql.entry", "at event 0, its receipt at 5"),
    "a renamed ledger": ("UPDATE dpsql.chain SET ledger_id = 'x'", "another ledger"),
    "a ledger without a name": ("DELETE FROM dpsql.chain", "must hold one row"),
    "edited spending": ("UPDATE dpsql.budget SET spent = 0", "says 0 is spent, its events add up to 0.875"),
    "an edited cap": ("UPDATE dpsql.budget SET cap = 9000000000", "was changed"),
    "a deleted budget": ("DELETE FROM dpsql.budget", "is missing"),
    "a forged budget": ("INSERT INTO dpsql.budget VALUES ('x', 'pure', 'x', 9, 0, 0)", "has no event behind"),
    "an edited scope": ("UPDATE dpsql.scope_budget SET spent = 0", "says 0 is spent"),
    "an edited analyst": ("UPDATE dpsql.analyst_budget SET spent = 0", "says 0 is spent"),
}


@pytest.mark.parametrize(("statement", "words"), EDITS.values(), ids=EDITS)
def test_one_statement_behind_the_ledgers_back_is_found(closed: Path, statement: str, words: str) -> None:
    """Each edit of a row, its deletion or an insertion is found and blocks charges."""
    meddle(closed, statement)
    assert_broken(closed, words)


def test_swapped_events_are_found(closed: Path) -> None:
    """Two events that change places do not follow any more."""
    meddle(
        closed,
        "UPDATE dpsql.entry SET sequence = 99 WHERE sequence = 2",
        "UPDATE dpsql.entry SET sequence = 2 WHERE sequence = 3",
        "UPDATE dpsql.entry SET sequence = 3 WHERE sequence = 99",
    )
    assert_broken(closed, "does not follow")


def test_a_tail_cut_off_with_its_sums_is_found_by_the_receipt(closed: Path) -> None:
    """A careful meddler who also lowers the sums is still behind the receipt."""
    meddle(
        closed,
        "DELETE FROM dpsql.entry WHERE sequence = 5",
        "DELETE FROM dpsql.scope_budget",
        "UPDATE dpsql.budget SET spent = 750000000",
        "UPDATE dpsql.analyst_budget SET spent = 750000000",
    )
    assert_broken(closed, "an old copy or a lost log")


def test_a_restored_backup_is_found(closed: Path, tmp_path: Path) -> None:
    """An old copy of the whole file is behind its receipt."""
    shutil.copy(closed, tmp_path / "old")
    engine = open_file(closed)
    Ledger(engine).reserve(charge("r4", "0.1"))
    engine.close()
    shutil.copy(tmp_path / "old", closed)
    assert_broken(closed, "at event 5, its receipt at 6")


def test_a_backup_that_went_its_own_way_is_found(closed: Path, tmp_path: Path) -> None:
    """A copy with as many events, but other ones, does not match the receipt."""
    copy = tmp_path / "copy.duckdb"
    shutil.copy(closed, copy)
    shutil.copy(anchor_path(closed), anchor_path(copy))
    for file, request in ((closed, "r4"), (copy, "r5")):
        engine = open_file(file)
        Ledger(engine).reserve(charge(request, "0.1"))
        engine.close()
    shutil.copy(copy, closed)
    assert_broken(closed, "is not the one in its receipt")


def test_a_lost_log_is_found(closed: Path, tmp_path: Path) -> None:
    """The file without its write-ahead log is behind the receipt."""
    engine = open_file(closed)
    Ledger(engine).reserve(charge("r4", "0.1"))
    copy = tmp_path / "copy.duckdb"
    shutil.copy(closed, copy)  # the main file alone, while the charge is still in the log
    shutil.copy(anchor_path(closed), anchor_path(copy))
    engine.close()
    assert_broken(copy, "at event 5, its receipt at 6")


def test_a_dropped_ledger_is_found(closed: Path) -> None:
    """A receipt without a ledger blocks charges, and registering anew does not help."""
    meddle(closed, "DROP SCHEMA dpsql CASCADE")
    assert_broken(closed, "no ledger in the database")
    engine = open_file(closed)
    with pytest.raises(LedgerBroken, match="another ledger"):
        Ledger(engine).register("adult", "adult", 10**9, LENIENT, "eve")
    engine.close()


def _set(**changes: object) -> Callable[[Path], None]:
    def change(receipt: Path) -> None:
        receipt.write_text(json.dumps(json.loads(receipt.read_text()) | changes))

    return change


RECEIPTS = {
    "deleted": (Path.unlink, "is missing"),
    "empty": (lambda receipt: receipt.write_text(""), "cannot be read"),
    "half": (lambda receipt: receipt.write_text(receipt.read_text()[:40]), "cannot be read"),
    "not text": (lambda receipt: receipt.write_bytes(b"\xff\xfe"), "cannot be read"),
    "a list": (lambda receipt: receipt.write_text("[]"), "cannot be read"),
    "behind": (_set(head={"sequence": 1, "hash": "x"}), "is not the one in its receipt"),
    "of another ledger": (_set(ledger_id="x"), "another ledger"),
}


@pytest.mark.parametrize(("change", "words"), RECEIPTS.values(), ids=RECEIPTS)
def test_a_changed_receipt_is_found(closed: Path, change: Callable[[Path], None], words: str) -> None:
    """A receipt that is gone, unreadable or wrong blocks charges."""
    change(anchor_path(closed))
    assert_broken(closed, words)


def test_a_broken_ledger_marks_nothing_released_or_lost(closed: Path) -> None:
    """Appending to a broken chain would renew its receipt and hide the breach, so it is refused."""
    engine = open_file(closed)
    ledger = Ledger(engine)
    entry = ledger.reserve(charge("r4", "0.1"))
    with engine.transaction() as transaction:
        transaction.run("UPDATE dpsql.budget SET spent = 0")
    with pytest.raises(LedgerBroken):
        ledger.write(lambda block: ledger.release(entry, "d", block))
    with pytest.raises(LedgerBroken):
        ledger.mark_lost(entry, "QueryFailed")
    engine.close()


def test_a_charge_that_passed_its_cap_is_found(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should the guard ever fail, verify says which event passed the cap."""
    engine = open_file(closed)
    monkeypatch.setattr("dpsql.ledger.spend._SPEND_ON_TABLE", UNGUARDED)
    Ledger(engine).reserve(charge("r4", "5"))
    assert Ledger(engine).verify() == ["event 6 passes the cap that held then."]
    engine.close()


UNGUARDED = """
UPDATE dpsql.budget SET whole = whole + ?, spent = spent + ? WHERE dataset = ? AND kind = ? AND ? > 0
"""


def test_the_receipt_is_its_owners_alone(closed: Path) -> None:
    """The receipt's mode is 0600."""
    assert anchor_path(closed).stat().st_mode & 0o777 == 0o600


def test_a_link_to_the_file_leads_to_the_same_receipt(closed: Path, tmp_path: Path) -> None:
    """Opened through a symbolic link, the database has the receipt of the real file."""
    link = tmp_path / "link.duckdb"
    link.symlink_to(closed)
    assert anchor_path(link) == anchor_path(closed)
