"""`dpsql shell`: statements from -c and from stdin, errors and exit codes."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from .conftest import Cli, kept


def typed(monkeypatch: pytest.MonkeyPatch, text: str, *, terminal: bool = False) -> None:
    """Put a text on stdin, as a file or as if typed on a terminal."""
    stdin = io.StringIO(text)
    monkeypatch.setattr(stdin, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stdin", stdin)


def test_a_command_prints_its_rows(cli: Cli) -> None:
    """`-c` runs a statement and prints a table; several run in order."""
    ran = cli("shell", "-c", "CREATE TEMP TABLE one AS SELECT 41 AS n", "-c", "SELECT n + 1 AS answer FROM one")
    assert ran.code == 0
    assert ran.out.splitlines()[-3:][0].strip() == "answer"
    assert ran.out.splitlines()[-1].strip() == "42"


def test_a_script_comes_from_stdin(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without -c the statements are read from stdin; a semicolon at a line's end within a text ends nothing."""
    typed(monkeypatch, "CREATE TEMP TABLE t AS\nSELECT 'a;\nb' AS n;\n-- a remark;\nSELECT length(n) AS size FROM t")
    ran = cli("shell")
    assert ran.code == 0
    assert ran.out.splitlines()[-1].strip() == "4"


def test_an_empty_script_is_done(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing to run is no error."""
    typed(monkeypatch, "")
    ran = cli("shell")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_the_shell_trains_and_charges(cli: Cli) -> None:
    """`FROM dpsql_train(...)` in the shell is a charge under the caller's name."""
    ran = cli("shell", "-c", "FROM dpsql_train('people', epsilon := 0.5, trees := 2, name := 'by_sql')")
    size, last = cli("ledger", "--json").json[-2:]
    assert ran.code == 0
    assert "by_sql" in ran.out
    assert (last["who"], last["epsilon"], last["state"]) == ("bob", 0.485, "released")
    assert (size["who"], size["epsilon"], size["state"]) == ("bob", 0.015, "released")


@pytest.mark.parametrize(
    ("statement", "code", "message"),
    [
        ("FROM dpsql_train('peopel')", 2, 'Error: there is no table "peopel". Did you mean "people"?'),
        ("FROM dpsql_train('fresh')", 3, 'Error: table "fresh" is not registered'),
        ("FROM dpsql_train('people', epsilon := 9.5)", 3, "Error: the run needs epsilon 9.5"),
        ("SELECT FROM", 1, "Parser Error"),
        ("FROM nothing_there", 1, "Catalog Error"),
        ("SELECT CAST('MARKER' AS INTEGER)", 1, "its message could quote a private value"),
    ],
)
def test_an_error_has_its_code_and_stops_the_script(cli: Cli, statement: str, code: int, message: str) -> None:
    """dpsql's own errors keep their words and exit code; what comes after is not run."""
    ran = cli("shell", "-c", statement, "-c", "SELECT 'never' AS n")
    assert ran.code == code
    assert message in ran.err
    assert ran.out == ""


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "ATTACH 'other.duckdb'",
        "COPY fresh TO 'fresh.csv'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "EXPORT DATABASE 'folder'",
    ],
)
def test_the_shell_reaches_nothing_outside(cli: Cli, path: Path, statement: str) -> None:
    """No files, no other databases, no extensions, no settings."""
    ran = cli("shell", "-c", statement)
    assert ran.code == 1
    assert sorted(file.name for file in path.parent.iterdir()) == ["data.duckdb", "data.duckdb.anchor"]


def test_a_read_only_shell_reads(cli: Cli, path: Path) -> None:
    """`--read-only` can list models and cannot train."""
    before = kept(path)
    assert "rosnam" in cli("shell", "--read-only", "-c", "FROM dpsql_models()").out
    assert cli("shell", "--read-only", "-c", "FROM dpsql_train('people')").code == 4
    assert kept(path) == before


def test_typing_goes_on_after_an_error(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal an error is a note, and the next statement runs."""
    typed(monkeypatch, "SELECT FROM;\nSELECT 40 + 2\nAS answer;\n", terminal=True)
    ran = cli("shell")
    assert ran.code == 0
    assert "Error: Parser Error" in ran.err
    assert ran.err.count("dpsql> ") == 3
    assert "42" in ran.out


def test_a_command_that_fails_on_a_terminal_has_its_code(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """With -c an error ends the shell, terminal or not."""
    typed(monkeypatch, "", terminal=True)
    assert cli("shell", "-c", "FROM dpsql_train('nope')").code == 2


def test_json_holds_every_answer(cli: Cli) -> None:
    """`--json` is a list with columns and rows of each statement that gave some."""
    ran = cli("shell", "--json", "-c", "SELECT 1 AS a, NULL AS b", "-c", "SELECT 'nan'::DOUBLE AS c, [1, 2] AS d")
    assert ran.json == [
        {"columns": ["a", "b"], "rows": [[1, None]]},
        {"columns": ["c", "d"], "rows": [[None, [1, 2]]]},
    ]
