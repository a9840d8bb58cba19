"""The command `dpsql completion`: the script by which a shell completes commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from dpsql.cli.command import command
from dpsql.errors import UsageError

SHELLS = ("bash", "zsh", "fish")
#: What the script sets when it asks; the program itself looks for this name.
_VARIABLE = "_DPSQL_COMPLETE"


@command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print the script that lets a shell complete words.

    \b
    Example:
      eval "$(dpsql completion bash)"                              in ~/.bashrc
      eval "$(dpsql completion zsh)"                               in ~/.zshrc
      dpsql completion fish > ~/.config/fish/completions/dpsql.fish

    Then <TAB> completes commands, options, and the names of methods; of tables and models too, where --db or DPSQL_DB
    names a DuckDB file, or a folder with its ledger. No row is read and nothing is written. Servers are not asked.
    """
    script = get_completion_class(shell)
    if script is None:
        raise UsageError(f"this click has no completion for {shell}.", hint="pip install -U click")
    click.echo(script(context.find_root().command, {}, "dpsql", _VARIABLE).source())
