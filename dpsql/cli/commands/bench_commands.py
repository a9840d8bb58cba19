"""The command `dpsql bench`: loads the bench when it is asked for, so that other commands do not wait for it."""

from __future__ import annotations

from collections.abc import MutableMapping

import click

from dpsql.cli.command import GroupOnce


class _LateGroup(GroupOnce):
    """A group whose commands are imported when somebody looks at them."""

    @property
    def commands(self) -> MutableMapping[str, click.Command]:
        """All commands of the bench by name."""
        from dpsql.bench.commands import COMMANDS

        return {str(command.name): command for command in COMMANDS}

    @commands.setter
    def commands(self, _given: MutableMapping[str, click.Command]) -> None:
        """Take no others: click sets an empty group when it is made."""


@click.group(cls=_LateGroup)
def bench() -> None:
    """Measure dpsql on this machine: accuracy, speed, start-up.

    \b
    Example:
      dpsql bench accuracy --method rdt --sets census --epsilon 1
      dpsql bench counts --short

    Figures are reported, not judged: the exit code is 0 whatever they are.
    """
