"""Tests of the list of commands and of what `dpsql --help` makes of it."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from dpsql.cli.late_group import LateCommands, LateGroup, ListedCommand
from dpsql.cli.main import app, run_command_line

PACKAGE = Path(__file__).resolve().parent.parent.parent / "dpsql"


@pytest.mark.parametrize("name", app.listing)
def test_the_line_of_a_command_is_what_it_says_of_itself(name: str) -> None:
    """The list has each command under its own name, with the first sentence of its help."""
    command = app.commands[name]
    assert command.name == name
    assert app.listing[name].help == command.get_short_help_str(1000).rstrip(".")


def test_the_help_fits_in_80_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command has one line of its own below its heading, and none is cut."""
    monkeypatch.setenv("COLUMNS", "80")
    assert run_command_line(["--help"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    assert "..." not in shown.replace("COMMAND [ARGS]...", "")
    lines = [f"  {name.ljust(max(map(len, app.listing)))}  {entry.help}\n" for name, entry in app.listing.items()]
    assert all(line in shown for line in lines)
    places = [shown.index(f"{heading}:\n") for heading in app.sections]
    assert places == sorted(places)
    assert [re.match(r"\w+", heading)[0] for heading in app.sections] == [  # type: ignore[index]
        "Start",
        "Owner",
        "Analyst",
        "Share",
        "Research",
    ]


def test_every_variable_that_the_package_reads_is_in_the_help() -> None:
    """Each variable of dpsql's own that stands in the source is listed, and each that is listed is read."""
    texts = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py") if path.name != "command_list.py"]
    named = set(re.findall(r'(?:envvar=|environ\.get\(|environ\[)"(DPSQL_\w+)"', "\n".join(texts)))
    assert named == {name for name in app.variables if name.startswith("DPSQL_")}


def options_of(command: click.Command) -> list[click.Option]:
    """Return the options of a command and of all commands below it."""
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    own = [param for param in command.params if isinstance(param, click.Option)]
    return [*own, *(option for below in inner for option in options_of(below))]


def test_an_option_that_reads_a_variable_says_so() -> None:
    """Its help names the variable."""
    reading = [option for option in options_of(app) if option.envvar is not None]
    assert reading
    assert all(option.show_envvar for option in reading)


def test_a_list_of_commands_takes_others_in() -> None:
    """Other code can add and remove commands as in any group."""
    group = LateGroup("own", sections={"All": {"demo": ListedCommand("start_commands:demo", "x")}}, variables={})
    group.add_command(click.Command("more"))
    assert isinstance(group.commands, LateCommands)
    assert list(group.commands) == ["demo", "more"]
    assert group.commands["demo"] is app.commands["demo"]
    del group.commands["more"]
    assert len(group.commands) == 1
    assert group.get_command(click.Context(group), "more") is None
