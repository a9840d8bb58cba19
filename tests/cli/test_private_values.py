"""No output of any command shows a cell of the private table, whether the command works or fails."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dpsql.api.database import connect
from tests import tables

from .conftest import MARKERS, Cli, Ran

SMALL = ("--trees", "2", "--depth", "2")
FLAGS = ("--label", "y", "--class", "no", "--class", "yes")
EVERY_COMMAND = [
    ("train", "--table", "people"),
    ("train", "--table", "people", "--json"),
    ("train", "--table", "people", *SMALL),
    ("train", "--table", "people", *SMALL, "--json"),
    ("train", "--table", "people", "--dry-run"),
    ("train", "--table", "people", "--sql"),
    ("train", "--table", "people", "--epsilon", "50"),
    ("explain", "--table", "people", "--json"),
    ("advise", "--table", "people"),
    ("advise", "--table", "people", "--buy", "1"),
    ("explain", "--model", "m"),
    ("explain", "--model", "m", "--json"),
    ("explain", "--model", "m", "--background", "people"),
    ("explain", "--model", "m", "--background", "view_of_people"),
    ("shell", "-c", "FROM dpsql_explain('m')"),
    ("schema", "draft", "--table", "people"),
    ("schema", "draft", "--table", "people", "--label", "y", "--json"),
    ("register", "--table", "people", "--cap", "9", *FLAGS, "--numeric", "x:0:64", "--replace"),
    ("register", "--table", "people", "--cap", "9", *FLAGS, "--numeric", "c:0:64", "--replace"),
    ("register", "--table", "people", "--cap", "9", *FLAGS, "--boolean", "note", "--replace"),
    ("register", "--table", "people", "--cap", "9", *FLAGS, "--numeric", "nope:0:64", "--replace"),
    ("budget", "--json"),
    ("models", "--json"),
    ("show", "--model", "m"),
    ("show", "--model", "m", "--json"),
    ("predict", "--model", "m", "--table", "people"),
    ("predict", "--model", "m", "--table", "people", "--key", "note", "--into", "scored"),
    ("predict", "--model", "m", "--table", "view_of_people"),
    ("evaluate", "--model", "m", "--table", "people"),
    ("evaluate", "--model", "m", "--table", "view_of_people"),
    ("evaluate", "--model", "m", "--table", "people", "--epsilon", "1"),
    ("evaluate", "--model", "m", "--table", "people", "--epsilon", "1", "--dry-run"),
    ("evaluate", "--model", "m", "--table", "view_of_people", "--epsilon", "1"),
    ("sql", "--model", "m", "--form", "view", "--table", "people", "--create"),
    ("sql", "--model", "m", "--form", "macro"),
    ("ledger", "--json"),
    ("ledger", "verify"),
    ("shell", "-c", "FROM dpsql_train('people', trees := 2)"),
    ("shell", "-c", "FROM dpsql_score('m', 'people')"),
    ("shell", "-c", "FROM dpsql_score('m', 'view_of_people')"),
    ("shell", "-c", "SELECT CAST(note AS INTEGER) FROM people"),
    ("shell", "-c", "SELECT CAST(x AS TINYINT) + CAST(person AS TINYINT) FROM people"),
    ("shell", "-c", "SELECT error(note) FROM people"),
    ("shell", "-c", "SELECT strptime(note, '%Y') FROM people"),
    ("shell", "-c", "CREATE TABLE copied (n VARCHAR PRIMARY KEY); INSERT INTO copied SELECT note FROM people"),
    ("shell", "-c", "ATTACH 'stolen.duckdb'"),
    ("shell", "-c", "COPY people TO 'stolen.csv'"),
]


def shows_a_cell(ran: Ran) -> list[str]:
    """Return the marker values that stand in what a command printed."""
    return [marker for marker in MARKERS if marker in ran.out + ran.err]


@pytest.fixture(autouse=True)
def view(path: Path) -> None:
    """Add a view of the private table, so that it can be asked for by another name."""
    with connect(path) as opened:
        tables.run(opened.engine, "CREATE VIEW view_of_people AS SELECT person AS id, x, c, y FROM people")


@pytest.mark.parametrize("words", EVERY_COMMAND, ids=lambda words: " ".join(words)[:60])
def test_no_command_shows_a_cell(cli: Cli, words: tuple[str, ...]) -> None:
    """No marker is in stdout or stderr, even with --debug."""
    ran = cli("--debug", *words)
    assert shows_a_cell(ran) == []
    assert "Traceback" not in ran.err


def test_the_markers_are_there_to_be_seen(cli: Cli) -> None:
    """The holder of the file can read the cells, so that the tests above have something to miss."""
    assert set(shows_a_cell(cli("shell", "-c", "FROM people"))) == set(MARKERS)


def test_a_shell_answer_that_quotes_cells_is_withheld_with_debug_too(path: Path) -> None:
    """In a process of its own, with --debug, a failed cast over private cells quotes none of them."""
    words = ["--debug", "shell", "--db", str(path), "-c", "SELECT CAST(note AS DATE) FROM people"]
    script = Path(sys.executable).with_name("dpsql")
    ran = subprocess.run([script, *words], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1
    assert "its message could quote a private value" in ran.stderr
    assert not any(marker in ran.stdout + ran.stderr for marker in MARKERS)


ODD_TABLES = [
    "DELETE FROM people",
    "UPDATE people SET y = 'no'",
    "UPDATE people SET y = NULL",
    "UPDATE people SET y = 'MARKER_LABEL'",
    "UPDATE people SET x = 'nan'::DOUBLE",
    "UPDATE people SET x = NULL, c = NULL, person = NULL",
]


@pytest.mark.parametrize("rows", ODD_TABLES)
def test_what_depends_on_rows_is_never_an_error(cli: Cli, path: Path, rows: str) -> None:
    """An empty table, one class, no label, NULLs and NaN train without a word about them."""
    words = ("train", "--table", "people", "--request-id", "same", "--method", "rosnam", *SMALL)
    with connect(path) as opened:
        tables.run(opened.engine, rows)
    ran = cli(*words)
    assert ran.code == 0
    assert ran.out == (
        'Model "people_1": rosnam, 2 trees, depth 2, 8 leaves.\n'
        "Charged epsilon 1 (add or remove one row).\n"
        'Budget of "people": 2 of 10 spent, 8 left.\n'
        'To know: epsilon 0.1 of "people" (8 left) for an evaluation; these rows are those that it learned from, so it '
        "is optimistic.\n"
    )


@pytest.mark.parametrize("rows", ODD_TABLES)
def test_the_default_method_takes_odd_rows_too(cli: Cli, path: Path, rows: str) -> None:
    """The default method prints the same lines about them; its trees follow from noisy releases, and no more."""
    with connect(path) as opened:
        tables.run(opened.engine, rows)
    ran = cli("train", "--table", "people")
    assert ran.code == 0
    assert re.fullmatch(
        r'Model "people_1": auto, \d+ trees?( of one feature| \(.*\))?, depth \d+, \d+ leaves\.\n'
        r"Charged epsilon 1 \(add or remove one row\): 0\.03 for the size \(entry \d+\), "
        r"the rest for training \(entry \d+\)\.\n"
        r'Budget of "people": 2 of 10 spent, 8 left\.\n'
        r"(Likely: its own noisy counts suggest an accuracy of .*\n)?"
        r'(To know: epsilon 0\.\d+ of "people" \(8 left\) for .*\n)?',
        ran.out,
    )
    assert shows_a_cell(ran) == []
