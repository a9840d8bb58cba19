"""The command `python -m dpsql.bench`: the same as `dpsql bench`, where only this package is wanted."""

from __future__ import annotations

import click

from dpsql.bench.commands import COMMANDS
from dpsql.errors import DpsqlError


class StandaloneGroup(click.Group):
    """A group that prints errors itself; under `dpsql` the command line does."""

    def invoke(self, ctx: click.Context) -> None:
        """Run the command; an error of dpsql's own becomes a message and an exit code."""
        try:
            super().invoke(ctx)
        except DpsqlError as error:
            click.echo(f"Error: {error}", err=True)
            ctx.exit(error.exit_code)


@click.group("bench", context_settings={"help_option_names": ["-h", "--help"]}, cls=StandaloneGroup)
def run_bench() -> None:
    """Measure dpsql on this machine. Figures are reported, not judged: the exit code is 0 whatever they are."""


for _command in COMMANDS:
    run_bench.add_command(_command)

if __name__ == "__main__":
    run_bench(prog_name="python -m dpsql.bench")
