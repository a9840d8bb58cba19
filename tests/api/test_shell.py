"""The shell's answers: rows, errors in words, exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.api.database import connect
from dpsql.api.shell import Answer, Shell
from tests import tables


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Open a shell on a file with "people" registered."""
    return Shell(tables.on_disk(tmp_path / "data.duckdb", tables.some_rows(), cap=3))


def test_statements_are_answered_in_order(shell: Shell) -> None:
    """Each statement of a text gives its columns and rows."""
    with shell:
        answers = list(shell.run("SELECT 1 AS a; SELECT 2 AS b, 3 AS c"))
    assert answers == [Answer(["a"], [(1,)]), Answer(["b", "c"], [(2, 3)])]


def test_the_first_error_is_the_last_answer(shell: Shell) -> None:
    """What stands behind a failed statement is not run."""
    with shell:
        answers = list(shell.run("SELECT 1 AS a; FROM dpsql_train('nope'); CREATE TABLE later (n INTEGER)"))
        assert list(shell.run("SELECT count(*) AS n FROM duckdb_tables() WHERE table_name = 'later'")) == [
            Answer(["n"], [(0,)])
        ]
    assert len(answers) == 2
    assert answers[1].message.startswith('there is no table "nope".')


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        ("BudgetExceeded: too much.", 3, "too much."),
        ("TableChanged: it: changed.", 4, "it: changed."),
        ("ValueError: a bug.", 1, "ValueError: a bug."),
        ("Parser Error: what?", 1, "Parser Error: what?"),
        (None, 1, ""),
    ],
)
def test_an_answer_knows_the_exit_code_of_its_error(error: str | None, code: int, message: str) -> None:
    """dpsql's own errors keep their code and lose the name of their class; all others are 1."""
    assert (Answer(error=error).exit_code, Answer(error=error).message) == (code, message)


def test_closing_lets_the_file_go(shell: Shell, tmp_path: Path) -> None:
    """After the block the file can be opened anew."""
    with shell:
        list(shell.run("FROM dpsql_train('people', trees := 2)"))
    with connect(tmp_path / "data.duckdb") as opened:
        assert opened.budget("people").spent_text == "1"
