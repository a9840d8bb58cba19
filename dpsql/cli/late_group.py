"""A group of commands that are loaded when they are called: its help and completion read a list alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from dpsql.cli.command import GroupOnce


class ListedCommand(NamedTuple):
    """Where a command is defined, as `module:name` below `dpsql.cli.commands`, and its line in the help."""

    place: str
    help: str


#: For each heading of a group's help, the commands below it, in the order of use.
Sections = Mapping[str, Mapping[str, ListedCommand]]


class LateCommands(MutableMapping[str, click.Command]):
    """Commands by name: to go through the names loads nothing, to take a command loads its module."""

    def __init__(self, entries: Mapping[str, ListedCommand]) -> None:
        self._places = {name: entry.place for name, entry in entries.items()}
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            module, _, attribute = self._places[name].partition(":")
            self._loaded[name] = getattr(import_module(f"dpsql.cli.commands.{module}"), attribute)
        return self._loaded[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._places[name] = ""
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._places[name]
        self._loaded.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class LateGroup(GroupOnce):
    """A group that lists its commands in sections without loading any, and environment variables below them."""

    def __init__(
        self, name: str | None = None, *, sections: Sections, variables: Mapping[str, str], **settings: Any
    ) -> None:
        self.sections = sections
        self.variables = variables
        self.listing = {word: entry for below in sections.values() for word, entry in below.items()}
        super().__init__(name, commands=LateCommands(self.listing), **settings)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of use."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, a section for each heading, with their lines below each other throughout."""
        width = max(map(len, self.listing))
        for heading, entries in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), entry.help) for name, entry in entries.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the environment variables below the commands."""
        with formatter.section("Environment variables"):
            formatter.write_dl(list(self.variables.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands, and the group's own options, that begin as the word that is being typed."""
        names = [
            CompletionItem(name, help=entry.help) for name, entry in self.listing.items() if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]
