"""The commands and options of dpsql: help in sections, and an option given twice is refused, not the last one taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import click

#: The section of options that have no other, which comes first.
FIRST = "Options"
#: Sections after the first, in their order; those that are not listed stand before the last, as they come.
MORE, DATABASE = "More options", "Database options"


class SectionedOption(click.Option):
    """An option that stands in a section of the help."""

    def __init__(self, *declared: Any, section: str = FIRST, **settings: Any) -> None:
        super().__init__(*declared, **settings)
        self.section = section


class OptionsOnce(click.Command):
    """A command whose help has sections, and whose options are given once, unless they say that they repeat."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words of a command line; refuse an option that stands there twice and takes one value."""
        refuse_repeated(self, ctx, args)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section."""
        write_sections(self, ctx, formatter)


class GroupOnce(click.Group):
    """A group whose own options, and those of its commands, are as those of `OptionsOnce`."""

    command_class = OptionsOnce

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words before the subcommand; refuse an option that stands there twice and takes one value."""
        refuse_repeated(self, ctx, args)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section, and then the commands."""
        write_sections(self, ctx, formatter)
        self.format_commands(ctx, formatter)


def command(name: str | None = None) -> Callable[[Callable[..., Any]], OptionsOnce]:
    """Return a decorator that makes a command of dpsql."""
    return click.command(name, cls=OptionsOnce)


def command_group(name: str | None = None, **settings: Any) -> Callable[[Callable[..., Any]], GroupOnce]:
    """Return a decorator that makes a group of commands."""
    return click.group(name, cls=GroupOnce, **settings)


def refuse_repeated(parsed: click.Command, ctx: click.Context, args: list[str]) -> None:
    """Raise UsageError where an option that takes one value is given twice: nobody could tell which one was meant."""
    _, _, order = parsed.make_parser(ctx).parse_args(list(args))
    for parameter, times in Counter(order).items():
        single = isinstance(parameter, click.Option) and not (
            parameter.multiple or parameter.is_flag or parameter.count
        )
        if single and times > 1:
            name = max(parameter.opts, key=len)
            raise click.UsageError(f"Option '{name}' is given {times} times and takes one value.", ctx)


def write_sections(shown: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the options of a command, each in its section."""
    sections: dict[str, list[tuple[str, str]]] = {FIRST: [], MORE: []}
    for parameter in shown.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None:
            sections.setdefault(getattr(parameter, "section", FIRST), []).append(record)
    last = {DATABASE: sections.pop(DATABASE, [])}
    for title, records in (sections | last).items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)
