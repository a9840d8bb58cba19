"""`dpsql ledger`, `ledger verify` and `ledger accept`."""

from __future__ import annotations

import csv
import io
import re
import sys
from pathlib import Path

import duckdb
import pytest

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
    """`ledger --json` says what `db.ledger()` says: amounts as numbers and exactly, null where that has nothing."""
    found = cli("ledger", "--json").json
    with connect(path) as opened:
        table = opened.ledger().to_dict("records")
    exact = [
        {name: row.get(f"{name}_exact", row[name]) for name in row if not name.endswith("_exact")} for row in found
    ]
    assert [{name: "" if cell is None else str(cell) for name, cell in row.items()} for row in exact] == [
        {name: str(cell) for name, cell in row.items()} for row in table
    ]


def test_the_ledger_as_csv_has_the_same_cells(cli: Cli, path: Path) -> None:
    """`ledger --csv` has the columns and values of `db.ledger()`."""
    with connect(path) as opened:
        table = opened.ledger().to_dict("records")
    wanted = [{key: str(value) for key, value in row.items()} for row in table]
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
    assert "stand behind it" in ran.json["error"]


def _terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Let stdout be a terminal of so many columns."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)


@pytest.mark.parametrize(
    ("width", "hidden"),
    [
        (120, ""),
        (80, "Hidden: method "),
        (60, "Hidden: method, cap, state "),
        (40, "Hidden: when, who, event, method, cap, state "),
    ],
)
def test_a_narrow_terminal_loses_columns_and_no_cell_is_broken(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, width: int, hidden: str
) -> None:
    """The least important go first, a note says which, and each entry stays one line that fits."""
    _terminal(monkeypatch, width)
    ran = cli("ledger")
    lines = ran.out.splitlines()
    assert len(lines) == 4
    assert max(len(line.rstrip()) for line in lines) <= width
    assert ran.err.startswith(hidden)
    assert bool(hidden) == ("Hidden" in ran.err)


def test_piped_output_is_not_cut(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where stdout is no terminal each entry is one line, however long its cells are."""
    monkeypatch.setenv("COLUMNS", "40")
    name = "a model with a name that is longer than any terminal is wide, and that nobody wants to see cut" * 2
    cli("models", "rename", "m", name[:200])
    ran = cli("models")
    assert name[:200] in ran.out
    assert "Hidden" not in ran.err


def test_times_are_readable_and_exact_where_they_are_read_by_programs(cli: Cli) -> None:
    """To the minute in the table, to the last digit in JSON and CSV."""
    assert re.search(r" 20\d\d-\d\d-\d\d \d\d:\d\d ", cli("ledger").out)
    assert "T" in cli("ledger", "--json").json[0]["when"]


def test_a_missing_number_is_explained(cli: Cli) -> None:
    """An auditor who asks where an entry went is told: it is the end of a run."""
    assert "is the end of a run" not in cli("ledger", "--table", "people").err
    cli("train", "--table", "people", "--method", "rdt", "--epsilon", "0.1")
    assert "A number that is missing here is the end of a run" in cli("ledger").err
