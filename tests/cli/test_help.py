"""The help of commands: sections, the database first, the options of methods from the methods themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from dpsql.cli.command import GroupOnce, OptionsOnce
from dpsql.cli.main import app
from dpsql.cli.options import parameter_sections
from dpsql.methods import METHODS, PARAMETERS
from tests.cli.conftest import Cli


def _commands(group: click.Group, name: str = "dpsql") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for inner_name in group.list_commands(context):
        inner = group.get_command(context, inner_name)
        assert inner is not None
        if inner_name != "bench":  # a room of its own, which knows nothing of this one
            yield f"{name} {inner_name}", inner
            if isinstance(inner, click.Group):
                yield from _commands(inner, f"{name} {inner_name}")


COMMANDS = dict(_commands(app))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_refuses_an_option_given_twice(name: str) -> None:
    """There is no command that takes the last of two values without a word."""
    assert isinstance(COMMANDS[name], OptionsOnce | GroupOnce)


@pytest.mark.parametrize("name", [name for name, made in COMMANDS.items() if isinstance(made, OptionsOnce)])
def test_the_database_is_the_first_option(name: str) -> None:
    """Wherever a command opens one: what everybody has to type comes first."""
    options = [option for parameter in COMMANDS[name].params for option in parameter.opts if option.startswith("-")]
    assert "--db" not in options or options[0] == "--db"


def test_train_shows_first_what_everybody_needs(cli: Cli) -> None:
    """Then what some runs need, then the options of methods, and last how the database is opened."""
    text = cli("train", "--help", db=None).out
    titles = re.findall(r"^([A-Z][^\n:]*):$", text, re.MULTILINE)
    assert titles[:4] == ["Options", "More options", "Options of most methods", "Options of auto"]
    assert titles[-1] == "Database options"
    first = re.findall(r"^  (--[a-z-]+)", text.partition("\nOptions:")[2].partition("More options:")[0], re.MULTILINE)
    assert first == ["--db", "--table", "--epsilon", "--method", "--name", "--evaluate", "--dry-run", "--json"]


def test_each_parameter_of_a_method_stands_in_one_section() -> None:
    """A section is named for its methods, so that a new method's options find their place by themselves."""
    sections = parameter_sections()
    assert sorted(name for names in sections.values() for name in names) == sorted(PARAMETERS)
    for title, names in sections.items():
        for name in names:
            assert title == "Options of most methods" or title == f"Options of {', '.join(PARAMETERS[name])}"


@pytest.mark.parametrize("command", ["train", "explain"])
def test_an_option_of_another_method_is_refused_with_those_that_there_are(cli: Cli, command: str) -> None:
    """The message says whose it is, and which ones the chosen method has."""
    refused = cli(command, "--table", "people", "--method", "rdt", "--depth-rule", "table4")
    assert refused.code == 2
    assert "method rdt has no --depth-rule; it belongs to rosnam." in refused.err
    assert all(f"--{name.replace('_', '-')}" in refused.err for name in METHODS["rdt"].parameters)
