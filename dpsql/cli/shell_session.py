"""Talks SQL on a terminal: statements over several lines, dot commands, Ctrl-C for the line, Ctrl-D to leave."""

from __future__ import annotations

import difflib
import re
from functools import partial

import click

from dpsql.api.shell import Answer, Shell
from dpsql.cli.line_editor import LineEditor
from dpsql.cli.printing.output import note
from dpsql.cli.printing.wide_rows import print_rows
from dpsql.errors import Interrupted
from dpsql.kernel.charges_made import name_charges

_GREETING = "SQL, ended by a semicolon; .help says more, Ctrl-D leaves."
_PROMPT, _MORE = "dpsql> ", "...> "
#: What leaves, with and without a dot or a semicolon.
_LEAVE = (".quit", ".exit", "quit", "exit")
_HELP = """\
.tables   the tables and views, and which of them are registered
.models   the models
.quit     leaves, as .exit and Ctrl-D do
Ctrl-C clears the line, or stops the statement that runs; TAB completes; the arrow keys bring statements back.
SQL ends with a semicolon: FROM dpsql_plan('TABLE', epsilon := 0.5);  FROM dpsql_train('TABLE', epsilon := 0.5);
FROM dpsql_budget('TABLE');  FROM dpsql_score('MODEL', 'NEW_ROWS');  FROM dpsql_ledger();"""
#: What .models shows.
_MODELS = "SELECT name, table_name, method, trees, epsilon FROM dpsql_models()"
#: Words of SQL that TAB completes.
_SQL_WORDS = (
    "ALTER", "BETWEEN", "CALL", "CASE", "CAST", "COLUMNS", "CREATE", "DELETE", "DESCRIBE", "DISTINCT", "DROP",
    "EXCLUDE", "EXISTS", "EXPLAIN", "FILTER", "FROM", "GROUP BY", "HAVING", "INSERT INTO", "INTERSECT", "JOIN",
    "LEFT JOIN", "LIMIT", "OFFSET", "ORDER BY", "PIVOT", "QUALIFY", "REPLACE", "SELECT", "SUMMARIZE", "TABLE", "TEMP",
    "UNION ALL", "UPDATE", "USING", "VALUES", "VIEW", "WHERE", "WINDOW", "WITH",
)  # fmt: skip
#: Text within which a semicolon ends nothing: strings, names, remarks; what is not closed reaches to the end.
_QUOTED = re.compile(r"'(?:[^']|'')*(?:'|\Z)|\"(?:[^\"]|\"\")*(?:\"|\Z)|\$\$.*?(?:\$\$|\Z)", re.DOTALL)
_REMARK = re.compile(r"--[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_PIECE = re.compile(f"(?P<quoted>{_QUOTED.pattern})|(?P<remark>{_REMARK.pattern})|.", re.DOTALL)


def talk(shell: Shell) -> None:
    """Read statements and dot commands until the end, and print what each gives."""
    note(_GREETING)
    with LineEditor(lambda beginning: completions(shell, beginning)).open() as editor:
        while _answer_next(shell, editor):
            pass


def _answer_next(shell: Shell, editor: LineEditor) -> bool:
    """Read a statement or a dot command and do what it says; return False where it is the last one.

    Ctrl-C clears what is typed, or stops what runs and says what stays charged, whenever it comes.
    """
    try:
        text = _read_statement(editor)
        command = dot_command(text)
        if command in _LEAVE:
            return False
        editor.remember(text)
        name_charges(partial(_do, shell, text, command))
    except EOFError:
        click.echo(err=True)
        return False
    except KeyboardInterrupt as stop:
        note(f"Stopped. {stop}" if isinstance(stop, Interrupted) else "")
    return True


def _read_statement(editor: LineEditor) -> str:
    """Return a dot command, or a statement up to its semicolon. What is not ended at Ctrl-D is not run."""
    lines: list[str] = []
    while True:
        lines.append(editor.read_line(_MORE if lines else _PROMPT))
        text = "\n".join(lines)
        if is_complete(text) or (len(lines) == 1 and dot_command(text) is not None):
            return text
        if not text.strip():
            lines = []


def _do(shell: Shell, text: str, command: str | None) -> None:
    if command is None:
        for answer in shell.run(text):
            print_answer(answer)
    elif command == ".help":
        note(_HELP)
    elif command == ".tables":
        print_rows(["table", "registered"], shell.tables())
    elif command == ".models":
        _do(shell, _MODELS, None)
    else:
        known = [".help", ".models", ".quit", ".tables"]
        near = difflib.get_close_matches(command, known, n=1)
        note(f'Error: there is no command "{command}". Known: {", ".join(near or known)}.')


def print_answer(answer: Answer) -> None:
    """Print the rows of a statement, or its error."""
    if answer.error is not None:
        note(f"Error: {answer.message}")
    elif answer.columns:
        print_rows(answer.columns, answer.rows)


def dot_command(text: str) -> str | None:
    """Return the command that a line gives, None where it is SQL.

    >>> dot_command(" .Tables "), dot_command("exit;"), dot_command("help"), dot_command("SELECT 1;")
    ('.tables', 'exit', '.help', None)
    """
    word = text.strip().rstrip(";").rstrip().lower()
    if word == "help":
        return ".help"
    return word if word in _LEAVE or re.fullmatch(r"\.\w*", word) else None


def is_complete(text: str) -> bool:
    """Return whether a text ends with a semicolon of its own: outside strings, quoted names and remarks.

    >>> is_complete("SELECT 1; -- done"), is_complete("SELECT ';"), is_complete("SELECT 1 -- ;")
    (True, False, False)
    """
    pieces = [piece for piece in _PIECE.finditer(text) if piece["remark"] is None and piece[0].strip()]
    return bool(pieces) and pieces[-1][0] == ";"


def completions(shell: Shell, beginning: str) -> list[str]:
    """Return what a beginning may become: words of SQL, dpsql's functions, tables and models; dot commands too."""
    if beginning.startswith("."):
        return [
            command for command in (".exit", ".help", ".models", ".quit", ".tables") if command.startswith(beginning)
        ]
    words = [word.lower() if beginning.islower() else word for word in _SQL_WORDS]
    names = [*words, *(f"{function}(" for function in shell.functions()), *shell.names()]
    return sorted({name for name in names if beginning and name.lower().startswith(beginning.lower())})
