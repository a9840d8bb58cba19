"""The command `dpsql completion`: the script by which a shell completes commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from dpsql.cli.command import command
from dpsql.cli.options import as_json
from dpsql.cli.printing.output import print_json
from dpsql.errors import UsageError

SHELLS = ("bash", "zsh", "fish")
#: What the script sets when it asks; the program itself looks for this name.
_VARIABLE = "_DPSQL_COMPLETE"


@command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@as_json
@click.pass_context
def completion_command(context: click.Context, shell: str, as_json: bool) -> None:
    """Print the script that lets a shell complete words.

    \b
    Example:
      dpsql completion bash
      dpsql completion fish > ~/.config/fish/completions/dpsql.fish

    For bash put  eval "$(dpsql completion bash)"  into ~/.bashrc, for zsh the same with zsh into ~/.zshrc.

    Then <TAB> completes commands, options, and the names of methods; of tables and models too, where --db or DPSQL_DB
    names a DuckDB file, or a folder with its ledger. No row is read and nothing is written. Servers are not asked.
    """
    script = get_completion_class(shell)
    if script is None:
        raise UsageError(f"this click has no completion for {shell}.", hint="pip install -U click")
    text = script(context.find_root().command, {}, "dpsql", _VARIABLE).source()
    if as_json:
        print_json({"shell": shell, "script": text})
    else:
        click.echo(text)
