"""Links and new names of files: a table's rows have one budget, whichever name leads to them."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from dpsql.api.database import connect
from dpsql.errors import DatabaseError, DatabaseLocked
from tests.attacks.budgets import SCHEMA, TINY

LEDGER = "shop.db.dpsql_ledger.duckdb"
#: Holds a ledger open until it is told to end.
HOLDER = "import duckdb, sys; held = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"


def make(path: Path) -> Path:
    """Make a SQLite file of one table, or a CSV file."""
    rows = [(number, "a", "yes" if number % 2 else "no") for number in range(20)]
    if path.suffix == ".csv":
        path.write_text("x,c,y\n" + "".join(f"{x},{c},{y}\n" for x, c, y in rows))
        return path
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE people (x INTEGER, c TEXT, y TEXT)")
        connection.executemany("INSERT INTO people VALUES (?, ?, ?)", rows)
        connection.commit()
    return path


def spend(path: Path, ledger: Path | None = None) -> None:
    """Register the table of people, and spend half of its budget."""
    with connect(path, ledger=ledger) as db:
        db.register("people", SCHEMA, cap=1)
        db.train("people", **TINY)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Return a SQLite file half of whose budget is spent."""
    spend(make(tmp_path / "shop.db"))
    return tmp_path / "shop.db"


@pytest.mark.parametrize("name", ["link.db", "sub/shop.db", "sub/link.db"])
def test_a_symbolic_link_leads_to_the_files_own_ledger(shop: Path, name: str) -> None:
    """Whatever the link is called and wherever it lies: the budget is that of the file, and no ledger is made."""
    (shop.parent / "sub").mkdir()
    link = shop.parent / name
    link.symlink_to(shop)
    with connect(link) as db:
        assert db.budget("people").spent_text == "0.5"
        assert db.engine.path == shop.with_name(LEDGER)
    assert not list(link.parent.glob("link*ledger*"))


def test_a_hard_link_in_the_folder_is_refused(shop: Path) -> None:
    """By either name, before a ledger is made."""
    other = shop.with_name("other.db")
    os.link(shop, other)
    for path in (shop, other):
        with pytest.raises(DatabaseError, match="one file under two names"):
            connect(path)
    assert not list(shop.parent.glob("other*ledger*"))


def test_a_renamed_file_has_no_second_ledger(shop: Path) -> None:
    """The old ledger is named; with it, or under the old name, all is as it was."""
    moved = shop.rename(shop.with_name("moved.db"))
    with pytest.raises(DatabaseError, match=LEDGER) as refused:
        connect(moved)
    assert f"--ledger {shop.parent / LEDGER}" in str(refused.value.hint)
    with pytest.raises(DatabaseError, match=LEDGER):
        connect(moved, ledger=shop.with_name("second.duckdb"))
    assert sorted(path.name for path in shop.parent.iterdir()) == ["moved.db", LEDGER, f"{LEDGER}.anchor"]
    with connect(moved, ledger=shop.with_name(LEDGER)) as db:
        assert db.budget("people").spent_text == "0.5"
    with connect(moved.rename(shop)) as db:
        assert db.budget("people").spent_text == "0.5"


def test_files_that_change_names_are_refused(shop: Path) -> None:
    """Each would find the ledger of the other, which does not know it."""
    other = make(shop.with_name("other.db"))
    spend(other)
    between = shop.rename(shop.with_name("between"))
    other.rename(shop)
    between.rename(other)
    for path in (shop, other):
        with pytest.raises(DatabaseError, match="its rows have one budget"):
            connect(path)


def test_a_file_that_was_written_anew_and_read_is_known_after_a_rename(shop: Path) -> None:
    """A charged run has read it, which the ledger's database remembers."""
    os.replace(make(shop.with_name("new.db")), shop)
    with connect(shop) as db:
        db.train("people", **TINY)
    with pytest.raises(DatabaseError, match=LEDGER):
        connect(shop.rename(shop.with_name("moved.db")))


def test_another_file_of_the_folder_has_a_ledger_of_its_own(shop: Path) -> None:
    """Also while this process has the first one open."""
    other = make(shop.with_name("other.db"))
    with connect(shop) as db, connect(other) as second:
        second.register("people", SCHEMA, cap=1)
        assert (db.budget("people").spent_text, second.budget("people").spent_text) == ("0.5", "0")


def test_a_ledger_that_is_held_is_to_be_closed_first(shop: Path) -> None:
    """It may know the file, so a file that no other ledger knows is not opened beside it."""
    other = make(shop.with_name("other.db"))
    command = [sys.executable, "-c", HOLDER, str(shop.with_name(LEDGER))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(DatabaseLocked, match="may know") as refused:
            connect(other, wait=0)
        holder.communicate()
    assert refused.value.hint == "close it first"


def test_a_ledger_that_cannot_be_read_may_know_the_file(shop: Path) -> None:
    """What is no database is named, and nothing is opened beside it."""
    other = make(shop.with_name("other.db"))
    shop.with_name(LEDGER).write_text("no database")
    with pytest.raises(DatabaseError, match="cannot be read"):
        connect(other)


@pytest.mark.parametrize("single", [False, True])
def test_a_link_to_a_file_whose_folder_has_a_ledger_is_refused(tmp_path: Path, single: bool) -> None:
    """A second ledger would be made in the link's folder; the ledger of the real folder may be given."""
    (tmp_path / "real").mkdir()
    (tmp_path / "links").mkdir()
    file = make(tmp_path / "real" / "people.csv")
    spend(file)
    link = tmp_path / "links" / "people.csv"
    link.symlink_to(file)
    target = link if single else link.parent
    with pytest.raises(DatabaseError, match="two budgets") as refused:
        connect(target)
    assert str(file.parent / "dpsql_ledger.duckdb") in refused.value.message
    assert list(link.parent.iterdir()) == [link]
    with connect(target, ledger=file.parent / "dpsql_ledger.duckdb") as db:
        assert db.budget("people").spent_text == "0.5"
