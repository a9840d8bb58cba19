"""Every command that a message of dpsql names exists, with the options it is named with, and quotes what it is given.

The texts are read from the source: whoever writes a new hint finds it tested here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from dpsql.cli.own_hints import complete_hint
from tests.cli.test_help import COMMANDS

ROOT = Path(__file__).resolve().parents[2] / "dpsql"
#: What stands for an expression in a text.
VALUE = "\x00"
#: A command inside a text, up to where the sentence goes on.
COMMAND = re.compile(r"\bdpsql ([a-z][a-z-]*)( [a-z][a-z-]*)?([^;,)]*)")
#: Words that follow "dpsql" in a sentence and are no command of it.
SENTENCES = ("model", "structure.", "ledger.")
#: Expressions that are options already, quoted where they were put together.
OPTIONS = ("words", "place", "named", "cap")


def _texts() -> Iterator[tuple[str, ast.expr]]:
    """Yield every text that is a hint, or is said by a command, with its place."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            said = isinstance(node.func, ast.Name) and node.func.id in ("note", "say")
            for value in [keyword.value for keyword in node.keywords if keyword.arg == "hint"] + node.args * said:
                for part in ast.walk(value):
                    if isinstance(part, ast.JoinedStr) or (
                        isinstance(part, ast.Constant) and isinstance(part.value, str)
                    ):
                        yield f"{path.relative_to(ROOT)}:{part.lineno}", part


def _plain(text: ast.expr) -> str:
    """Return a text with a mark in place of each expression."""
    if isinstance(text, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else VALUE for part in text.values)
    return str(text.value) if isinstance(text, ast.Constant) else ""


NAMED = sorted({(place, _plain(text)) for place, text in _texts() if re.search(r"\bdpsql [a-z]", _plain(text))})


def test_hints_were_found() -> None:
    """There are many, so that a change of how they are written does not empty this file."""
    assert len(NAMED) > 40


@pytest.mark.parametrize(("place", "text"), NAMED, ids=[place for place, _ in NAMED])
def test_a_command_in_a_hint_exists_with_its_options(place: str, text: str) -> None:
    """A name that was changed, or an option that is gone, would send people astray."""
    for first, second, rest in COMMAND.findall(text):
        command = COMMANDS.get(f"dpsql {first}")
        if command is None:
            assert first in SENTENCES, f"{place}: there is no command dpsql {first}"
            continue
        if isinstance(command, click.Group) and second.strip() in command.commands:
            command = command.commands[second.strip()]
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        for option in re.findall(r"--[a-z][a-z-]*", rest):
            assert option in known, f"{place}: dpsql {first} has no {option}"


@pytest.mark.parametrize(
    ("place", "text"),
    [(place, text) for place, text in _texts() if isinstance(text, ast.JoinedStr) and "dpsql " in _plain(text)],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_name_in_a_hint_is_quoted_for_a_shell(place: str, text: ast.JoinedStr) -> None:
    """`--table my table` cannot be pasted."""
    before = ""
    for part in text.values:
        if isinstance(part, ast.FormattedValue) and re.search(r"dpsql .*--[a-z-]+ $", before, re.DOTALL):
            shown = ast.unparse(part.value)
            is_number = "epsilon" in shown or "dialect" in shown
            assert shown.startswith("shlex.quote(") or shown in OPTIONS or is_number, f"{place}: {shown} is not quoted"
        before += str(part.value) if isinstance(part, ast.Constant) else VALUE


HINTS = sorted({_plain(text).replace(VALUE, "x") for place, text in _texts() if "cli/" not in place})


@pytest.mark.parametrize("hint", [hint for hint in HINTS if re.search(r"\bdpsql [a-z]+ (--|$)", hint)])
def test_a_hint_from_below_gets_the_users_own_database_and_table(hint: str) -> None:
    """What is raised far below the command line becomes a command that can be pasted."""
    completed = str(
        complete_hint(hint, "--db 'my data.duckdb'", {"table": "my t", "schema_file": "s.yml", "model": "m"})
    )
    assert "--db 'my data.duckdb'" in completed or "dpsql demo" in hint
    assert "--table TABLE" not in completed
