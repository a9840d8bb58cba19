"""The command `dpsql methods`: which methods there are, when to use which, and what one of them can be told."""

from __future__ import annotations

import shlex

import click

from dpsql.api.method_descriptions import MethodDescription, ParameterDescription, describe_method
from dpsql.cli.command import command
from dpsql.cli.known_names import KnownName
from dpsql.cli.options import as_json
from dpsql.cli.printing.output import note, print_json, print_table, say
from dpsql.methods import METHODS


@command("methods")
@click.argument("name", required=False, metavar="[NAME]", type=KnownName("method"))
@as_json
def methods_command(name: str | None, as_json: bool) -> None:
    """List the methods and when to use which; NAME shows one.

    \b
    Example:
      dpsql methods
      dpsql methods rdt
      dpsql methods --json

    The first one is the default, and our advice. Of one method, all parameters are shown with what they may be.
    """
    described = [describe_method(word) for word in ([name] if name is not None else METHODS)]
    if as_json:
        print_json(described[0].to_dict() if name is not None else [method.to_dict() for method in described])
    elif name is not None:
        _print_method(described[0])
    else:
        _print_methods(described)


def _print_methods(described: list[MethodDescription]) -> None:
    """Print two lines for each method: what it is, and when to use it."""
    width = max(len(method.name) for method in described)
    for method in described:
        say(f"{method.name:{width}}  {_with_capital(method.summary)}")
        say(f"{'':{width}}  When: {method.when}")
    note("\nOne method with its parameters:  dpsql methods NAME")


def _print_method(method: MethodDescription) -> None:
    """Print what a method is, its parameters as options, and how to see what it would do."""
    say(f"{method.name}: {method.summary}")
    say(f"When:     {method.when}")
    say(f"Predicts: {'classes and numbers' if method.numbers else 'classes'}")
    say(f"Page:     {method.page}\n")
    rows = [(_option(given), given.allowed, _default_text(given), given.help) for given in method.parameters]
    print_table(None, ("option", "may be", "default", "what it is"), rows)
    note(f"\nTry:   dpsql train --db PATH --table TABLE --method {shlex.quote(method.name)} --dry-run")


def _option(given: ParameterDescription) -> str:
    return f"--{given.name.replace('_', '-')}"


def _default_text(given: ParameterDescription) -> str:
    """Return the default in words; a dash where there is none, or where the method works it out."""
    if isinstance(given.default, bool):
        return "on" if given.default else "off"
    return "–" if given.default is None else str(given.default)


def _with_capital(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}"
