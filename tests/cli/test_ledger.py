"""`dpsql ledger`, `ledger verify` and `ledger accept`."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import duckdb

from dpsql.api.database import connect
from dpsql.ledger import anchor_path

from .conftest import Cli


def test_the_ledger_is_a_table(cli: Cli) -> None:
    """One line for each entry: who, what, how much, and how it ended."""
    lines = [[word.strip() for word in line.split("│")] for line in cli("ledger").out.splitlines()[2:]]
    assert [(line[0], line[2], line[3], line[6], line[8]) for line in lines] == [
        ("1", "ann", "register", "", ""),
        ("2", "ann", "reserve", "1", "released"),
    ]


def test_the_ledger_as_json_equals_python(cli: Cli, path: Path) -> None:
    """`ledger --json` equals `db.ledger()`."""
    found = cli("ledger", "--json").json
    with connect(path) as opened:
        assert found == opened.ledger().to_dict("records")


def test_the_ledger_as_csv_has_the_same_cells(cli: Cli) -> None:
    """`ledger --csv` has the columns and values of the JSON form."""
    wanted = [{key: str(value) for key, value in row.items()} for row in cli("ledger", "--json").json]
    assert list(csv.DictReader(io.StringIO(cli("ledger", "--csv").out))) == wanted


def test_the_ledger_of_one_table(cli: Cli) -> None:
    """`--table` keeps that table's entries alone."""
    flags = ("--label", "y", "--class", "no", "--class", "yes", "--numeric", "x:0:64")
    cli("register", "--table", "fresh", "--cap", "1", *flags)
    assert [row["table"] for row in cli("ledger", "--table", "fresh", "--json").json] == ["fresh"]


def test_a_sound_ledger_is_said_to_be_sound(cli: Cli) -> None:
    """`verify` exits with 0; the file may be named before or behind it."""
    assert cli("ledger", "verify").out == "The ledger is sound: chain, sums and receipt agree.\n"
    assert cli("ledger", "--db", "data.duckdb", "verify", db=None).code == 0
    assert cli("ledger", "verify", "--json").json == {"sound": True, "findings": []}


def test_a_changed_ledger_is_found_out(cli: Cli, path: Path) -> None:
    """After an edit behind dpsql's back `verify` exits with 3 and says what does not hold."""
    with duckdb.connect(str(path)) as connection:
        connection.execute("UPDATE dpsql.budget SET spent = 0, whole = 0")
    ran = cli("ledger", "verify")
    assert ran.code == 3
    assert "says 0 is spent, its events add up to 1" in ran.err
    assert cli("ledger", "verify", "--json").json["sound"] is False
    assert cli("train", "--table", "people", "--trees", "1").code == 3


def test_accept_mends_a_lost_receipt(cli: Cli, path: Path) -> None:
    """Without its receipt the ledger refuses; after the owner accepts, it is sound and the act is an entry."""
    anchor_path(path).unlink()
    assert cli("ledger", "verify").code == 3
    assert cli("ledger", "accept").out == "Accepted. The act is an entry in the ledger.\n"
    assert cli("ledger", "verify").code == 0
    assert cli("ledger", "--json").json[-1]["event"] == "anchor"


def test_options_in_front_of_a_subcommand_are_not_dropped(cli: Cli) -> None:
    """`ledger --json verify` is an error, not text."""
    ran = cli("ledger", "--json", "verify")
    assert ran.code == 2
    assert "stand behind it" in ran.err
