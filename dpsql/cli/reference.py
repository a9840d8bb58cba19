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
    """Return the whole page: the program, then its commands below the headings of its help, then the environment."""
    top = _context(app, "dpsql", None)
    parts = [_HEAD, _part("##", top)]
    for heading, entries in app.sections.items():
        parts.append(f"## {heading}\n")
        for name in entries:
            parts += [_part("###", context) for context in _contexts(app.commands[name], name, top)]
    parts.append("## Environment variables\n\n| variable | what it is for |\n|---|---|")
    return "\n".join([*parts, *(f"| `{name}` | {words} |" for name, words in app.variables.items()), ""])


def _part(level: str, context: click.Context) -> str:
    """Return the part of one command: its heading and its help."""
    return f"{level} {context.command_path}\n\n```text\n{context.command.get_help(context)}\n```\n"


def _contexts(command: click.Command, name: str, parent: click.Context) -> Iterator[click.Context]:
    context = _context(command, name, parent)
    yield context
    if isinstance(command, click.Group):
        for inner_name, inner in command.commands.items():
            yield from _contexts(inner, inner_name, context)


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    settings = {"terminal_width": 100, "help_option_names": ["-h", "--help"]}
    return click.Context(command, info_name=name, parent=parent, **settings)  # type: ignore[arg-type]


if __name__ == "__main__":
    click.echo(reference(), nl=False)
