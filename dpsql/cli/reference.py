"""Writes `docs/reference/commands.md`: every command with its help, so that the page cannot drift from the program.

python -m dpsql.cli.reference > docs/reference/commands.md
"""

from __future__ import annotations

from collections.abc import Iterator

import click

from dpsql.cli.main import app

_HEAD = """# Commands

Made by `python -m dpsql.cli.reference`; a test compares it with the program. Exit codes: 0 done, 1 failed,
2 wrong usage, 3 budget refused, 4 database out of reach, 130 stopped by Ctrl-C. Results go to stdout, notes and
errors to stderr.
"""


def reference() -> str:
    """Return the whole page."""
    parts = [_HEAD]
    for context in _contexts(app, "dpsql", None):
        parts.append(f"## {context.command_path}\n\n```text\n{context.command.get_help(context)}\n```\n")
    return "\n".join(parts)


def _contexts(command: click.Command, name: str, parent: click.Context | None) -> Iterator[click.Context]:
    settings = {"terminal_width": 100, "help_option_names": ["-h", "--help"]}
    context = click.Context(command, info_name=name, parent=parent, **settings)  # type: ignore[arg-type]
    yield context
    if isinstance(command, click.Group):
        for inner_name, inner in command.commands.items():
            yield from _contexts(inner, inner_name, context)


if __name__ == "__main__":
    click.echo(reference(), nl=False)
