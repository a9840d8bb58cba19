"""The shell on a terminal: several lines, dot commands, history, completion, Ctrl-C and Ctrl-D, wide rows."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsql.api.shell import Shell
from dpsql.cli.line_editor import history_file
from dpsql.cli.printing import wide_rows
from dpsql.cli.printing.wide_rows import columns_that_fit
from dpsql.cli.shell_session import completions, dot_command, is_complete
from tests import tables

from .terminal import CTRL_C, CTRL_D, TAB, UP, Terminal, on_terminal

PROMPT, MORE = "dpsql> ", "...> "


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a database: "people" registered, "fresh people" public, a model "m"."""
    with tables.on_disk(tmp_path / "data.duckdb", tables.some_rows(), cap=3) as db:
        tables.fill(db.engine, "fresh people", tables.some_rows(12))
        db.train("people", method="rdt", trees=2, depth=2, name="m")
    return tmp_path


@pytest.fixture
def terminal(folder: Path) -> Iterator[Terminal]:
    """Open the shell on a terminal of 60 columns, at its first prompt."""
    words = ["shell", "--db", "data.duckdb"]
    with on_terminal(words, folder=folder, width=60, more={"XDG_STATE_HOME": str(folder / "state")}) as opened:
        opened.wait_for(PROMPT)
        yield opened


def say(terminal: Terminal, line: str) -> str:
    """Return what the shell prints for a line, up to its next prompt."""
    terminal.type(f"{line}\n")
    return terminal.wait_for(f"\n{PROMPT}")


def test_a_statement_takes_several_lines_and_leaves_at_ctrl_d(terminal: Terminal, folder: Path) -> None:
    """A semicolon in a text ends nothing; what was typed is kept, and read by nobody else; its rows are not."""
    terminal.type("SELECT 'a;\n")
    terminal.wait_for(MORE)
    assert "2 apart" in say(terminal, "b' AS n, 1 + 1 || ' apart' AS answer;")
    terminal.type(CTRL_D)
    assert terminal.end() == 0
    file = folder / "state" / "dpsql" / "shell_history"
    assert file.read_text().splitlines()[-1] == "SELECT 'a; b' AS n, 1 + 1 || ' apart' AS answer;"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_ctrl_c_clears_the_line(terminal: Terminal) -> None:
    """What was typed so far is gone, and the next statement is one of its own."""
    terminal.type("SELECT 'never\n")
    terminal.wait_for(MORE)
    terminal.type("more of it")
    terminal.press_until(CTRL_C, PROMPT)
    answer = say(terminal, "SELECT 6 * 7 AS answer;")
    assert "42" in answer
    assert "Error" not in answer


def test_ctrl_c_stops_the_statement_that_runs(terminal: Terminal) -> None:
    """It would run for hours; a key that comes before it starts clears its line, and the next statement runs."""
    terminal.type("SELECT sum(a.range) FROM range(900000000) a, range(90000) b;\n")
    terminal.wait_for("b;\r\n")
    terminal.press_until(CTRL_C, PROMPT)
    assert "42" in say(terminal, "SELECT 6 * 7 AS answer;")


def test_history_and_completion(folder: Path) -> None:
    """The arrow brings back what another session typed; TAB completes tables, also behind a quote, and functions."""
    more = {"XDG_STATE_HOME": str(folder / "state")}
    with on_terminal(["shell", "--db", "data.duckdb"], folder=folder, more=more) as first:
        first.wait_for(PROMPT)
        say(first, "SELECT 40 + 2 AS answer;")
        first.type(".quit\n")
        assert first.end() == 0
    with on_terminal(["shell", "--db", "data.duckdb"], folder=folder, more=more) as second:
        second.wait_for(PROMPT)
        assert "42" in say(second, UP)
        assert "46" in say(second, f"SELECT count(*) AS n FROM peo{TAB};")
        assert "18" in say(second, f"SELECT count(*) AS n FROM dpsql_score('m', 'fre{TAB});")
        assert "feature" in say(second, f"FROM dpsql_expl{TAB}'m');")


def test_dot_commands(terminal: Terminal) -> None:
    """Tables with what is private, models, help, and the nearest command for a wrong one."""
    lines = [line.split("┃") for line in say(terminal, ".tables").replace("│", "┃").splitlines() if "people" in line]
    assert [[cell.strip() for cell in line] for line in lines] == [["fresh people", ""], ["people", "private"]]
    assert "rdt" in say(terminal, ".models")
    assert "Ctrl-C clears the line" in say(terminal, "help")
    assert 'there is no command ".tabels". Known: .tables.' in say(terminal, ".tabels")
    terminal.type("exit\n")
    assert terminal.end() == 0


def test_an_error_is_a_note_and_a_look_again_is_free(terminal: Terminal) -> None:
    """After an error the next statement runs; the same training again says that nothing was charged."""
    assert "Error: Parser Error" in say(terminal, "SELECT FROM;")
    train = "SELECT note FROM dpsql_train('people', epsilon := 0.1, method := 'rdt', trees := 2, depth := 2);"
    assert "NULL" in say(terminal, train)
    assert "charged" in say(terminal, train)


def test_wide_rows_lose_their_middle(terminal: Terminal) -> None:
    """The first and the last columns are shown, and a note says how many."""
    columns = ", ".join(f"{number} AS column_{number}" for number in range(1, 20))
    answer = say(terminal, f"SELECT {columns};")
    header = next(line for line in answer.splitlines() if "┃" in line)
    assert [name.strip() for name in header.split("┃")] == [
        "column_1", "column_2", "column_3", "…", "column_18", "column_19",
    ]  # fmt: skip
    assert "5 of 19 columns are shown" in answer


@pytest.mark.parametrize(
    ("widths", "width", "shown"),
    [
        ([10, 10, 10], 36, None),
        ([10, 10, 10], 35, (1, 1)),
        ([10, 10, 10, 10, 10], 60, (2, 2)),
        ([100, 100], 80, (1, 0)),
        ([100], 80, None),
        ([], 80, None),
    ],
)
def test_columns_fit_beside_an_ellipsis(widths: list[int], width: int, shown: tuple[int, int] | None) -> None:
    """As many of the first and the last as there is room for, the first at least."""
    assert columns_that_fit(widths, width) == shown


def test_nothing_is_left_out_where_no_terminal_is(capsys: pytest.CaptureFixture[str]) -> None:
    """A file or a pipe gets all columns, each row on one line."""
    names = [f"column_{number}" for number in range(40)]
    wide_rows.print_rows(names, [[f"value_{number}" for number in range(40)]])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(name in lines[0] for name in names)


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SELECT 1;", True),
        ("SELECT 1; ", True),
        ("SELECT 1; -- done", True),
        ("SELECT 1 /* ; */;", True),
        ("SELECT 'it''s';", True),
        ("SELECT 1", False),
        ("SELECT ';", False),
        ('SELECT ";', False),
        ("SELECT $$ a;", False),
        ("SELECT 1 -- ;", False),
        ("SELECT 1 /* ;", False),
        ("", False),
        ("-- a remark", False),
    ],
)
def test_a_statement_ends_with_a_semicolon_of_its_own(text: str, complete: bool) -> None:
    """Strings, quoted names and remarks hide a semicolon."""
    assert is_complete(text) is complete


@pytest.mark.parametrize(
    ("line", "command"),
    [("EXIT;", "exit"), (".Quit", ".quit"), (" help ", ".help"), (".x", ".x"), ("helpless", None), (".5 + 1;", None)],
)
def test_dot_commands_are_words_alone(line: str, command: str | None) -> None:
    """With or without a semicolon, in any case; anything longer is SQL."""
    assert dot_command(line) == command


def test_what_a_beginning_may_become(folder: Path) -> None:
    """Words of SQL in the case that is typed, functions of dpsql, tables and models; nothing for nothing."""
    with Shell(tables.on_disk(folder / "other.duckdb", tables.some_rows(), cap=3)) as shell:
        list(shell.run("FROM dpsql_train('people', method := 'rdt', trees := 2, name := 'selected')"))
        assert completions(shell, "sel") == ["select", "selected"]
        assert completions(shell, "SELECT") == ["SELECT", "selected"]
        assert completions(shell, "dpsql_sc") == ["dpsql_score(", "dpsql_score_sql("]
        assert completions(shell, "DPSQL_TRAIN_") == []
        assert completions(shell, "peo") == ["people"]
        assert completions(shell, ".t") == [".tables"]
        assert completions(shell, "") == []


@pytest.mark.parametrize("state", ["", "not/absolute"])
def test_the_history_lies_in_the_home_folder_by_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, state: str
) -> None:
    """As the XDG rules say; a relative folder counts for none."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", state)
    assert history_file() == tmp_path / ".local" / "state" / "dpsql" / "shell_history"
