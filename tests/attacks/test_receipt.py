"""The receipt outside the file: nothing is left beside it, and what goes wrong with it is told as it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpsql.engines.duckdb.open_database import open_file
from dpsql.errors import DiskFull
from dpsql.ledger import Charge, Ledger, anchor_path
from tests.tables import SCHEMA, model_of, small_forest, voting

from . import shortage

NANO = 10**9
ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a closed database file whose ledger has "adult" registered, in a folder that anybody can enter."""
    tmp_path.chmod(0o755)
    file = tmp_path / "data.duckdb"
    engine = open_file(file, create=True)
    Ledger(engine).register("adult", "adult", 100 * NANO, {}, "ann")
    engine.close()
    return file


def spend(path: Path, request_id: str) -> None:
    """Charge 1."""
    engine = open_file(path)
    try:
        Ledger(engine).reserve(Charge(request_id, "adult", "adult", "rdt", {}, NANO, who="eve"))
    finally:
        engine.close()


def ended(path: Path, *words: str) -> str:
    """Return what `shortage.py` says."""
    command = [sys.executable, shortage.__file__, str(path), *words]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=120, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    return done.stdout


def beside(path: Path) -> list[str]:
    """Return the names of the files in the database's folder."""
    return sorted(one.name for one in path.parent.iterdir())


def test_what_a_killed_writer_left_goes_with_the_next_receipt(path: Path) -> None:
    """A half-written receipt beside the real one does not stay, whatever it holds, and is never followed."""
    elsewhere = path.with_name("elsewhere")
    elsewhere.write_text("untouched")
    left = anchor_path(path).with_name(f"{anchor_path(path).name}.new")
    left.symlink_to(elsewhere)
    spend(path, "r1")
    assert beside(path) == ["data.duckdb", "data.duckdb.anchor", "elsewhere"]
    assert elsewhere.read_text() == "untouched"
    assert anchor_path(path).stat().st_mode & 0o777 == 0o600


def test_killed_writers_leave_one_file_at_most(path: Path) -> None:
    """However often a writer is killed while it writes a receipt, the files beside it do not add up."""
    for number in range(3):
        killed = f"""
import os, signal
from pathlib import Path
from dpsql.engines.duckdb.open_database import open_file
from dpsql.ledger import Charge, Ledger
engine = open_file(Path({str(path)!r}))
os.replace = os.fsync = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
Ledger(engine).reserve(Charge("k{number}", "adult", "adult", "rdt", {{}}, 10**9, who="eve"))
"""
        done = subprocess.run(
            [sys.executable, "-c", killed], check=False, timeout=60, env=os.environ | {"PYTHONPATH": str(ROOT)}
        )
        assert done.returncode == -9
    assert len([name for name in beside(path) if "anchor" in name]) == 2
    spend(path, "r1")
    assert beside(path) == ["data.duckdb", "data.duckdb.anchor"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs an account that gives up its rights")
def test_a_reader_without_the_right_is_told_that(path: Path) -> None:
    """Who may not read the receipt hears so, and not that the ledger was tampered with."""
    assert "may not read the ledger's receipt" in ended(path, "stranger")


def test_a_full_disk_under_the_receipt_is_called_that(path: Path) -> None:
    """Where the receipt has no room nothing is charged, nothing is left behind, and the error says why."""
    assert ended(path, "full", "100").startswith("DiskFull the ledger's receipt")
    assert "data.duckdb.anchor.new" not in beside(path)
    engine = open_file(path)
    assert Ledger(engine).verify() == []
    assert Ledger(engine).budget("adult").spent == 0
    engine.close()


def test_a_full_disk_under_the_database_is_called_that(path: Path) -> None:
    """Where the database's log has no room the commit fails as a full disk, not as a race with other writers."""
    assert ended(path, "full", "1000").startswith("DiskFull there is no room left on the disk")
    spend(path, "r1")


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """Return a disk of 2 MB, or skip where none can be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], check=False).returncode:
        pytest.skip("no small disk can be mounted here")
    return folder


def fill_up(path: Path) -> None:
    """Write a file until there is no room."""
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(b"0" * 4096)


def test_a_disk_that_fills_up_is_called_full(small_disk: Path) -> None:
    """On a disk without room a charge is refused as that, the earlier ones stand, and with room it goes on."""
    try:
        path = small_disk / "data.duckdb"
        engine = open_file(path, create=True)
        ledger = Ledger(engine)
        ledger.register("adult", "adult", 100 * NANO, {}, "ann")
        with pytest.raises(OSError, match="No space"):
            fill_up(small_disk / "filler")
        with pytest.raises(DiskFull):
            ledger.reserve(Charge("r1", "adult", "adult", "rdt", {}, NANO, who="eve"))
        engine.close()
        (small_disk / "filler").unlink()
        spend(path, "r2")
    finally:
        subprocess.run(["umount", "-l", str(small_disk)], check=False)


DAMAGED = {
    "deep": "[" * 100_000 + "]" * 100_000,
    "deep objects": '{"pending":' * 5000 + "1" + "}" * 5000,
    "just readable": '{"ledger_id": "a", "pending": null, "head": ' + "[" * 500 + "]" * 500 + "}",
    "no object": "7",
    "no text": "\udcff",
    "large": "[" + "1," * 2_000_000 + "1]",
    "a number that is text": '{"ledger_id": "a", "pending": null, "head": {"sequence": "1", "hash": "b"}}',
    "a number that is true": '{"ledger_id": "a", "pending": null, "head": {"sequence": true, "hash": "b"}}',
    "a hash that is a number": '{"ledger_id": "a", "pending": {"sequence": 1, "hash": 2}, "head": null}',
    "a long number": '{"ledger_id": ' + "9" * 5000 + "}",
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_receipt_that_makes_no_sense_is_a_finding(path: Path, what: str) -> None:
    """However a receipt is damaged, `verify` says that it cannot be read, and nothing is charged."""
    anchor_path(path).write_bytes(DAMAGED[what].encode("utf-8", "surrogateescape"))
    engine = open_file(path)
    assert Ledger(engine).verify() == ['the receipt "data.duckdb.anchor" cannot be read.']
    engine.close()


def test_a_receipt_is_whole_at_any_time(path: Path) -> None:
    """The receipt is replaced in one step: what is read under its name is always one receipt."""
    earlier = path.with_name("earlier")
    earlier.hardlink_to(anchor_path(path))
    spend(path, "r1")
    assert not anchor_path(path).samefile(earlier)
    assert json.loads(anchor_path(path).read_text())["head"]["sequence"] == 2


def test_a_model_that_finds_no_room_leaves_the_old_file(small_disk: Path) -> None:
    """A file of a model is written whole: without room the earlier one stays as it was, and nothing lies beside it."""
    try:
        model = model_of(voting(small_forest(), len(SCHEMA.classes)), SCHEMA)
        path = small_disk / "model.json"
        path.write_text("earlier")
        with pytest.raises(OSError, match="No space"):
            fill_up(small_disk / "filler")
        with pytest.raises(OSError, match="No space"):
            model.to_json(path)
        assert (path.read_text(), beside(path)) == ("earlier", ["filler", "model.json"])
    finally:
        subprocess.run(["umount", "-l", str(small_disk)], check=False)
