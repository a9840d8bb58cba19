"""Options that several commands share, in the same words everywhere."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from typing import Any, TypeVar

import click

from dpsql.api.database import Database, connect
from dpsql.cli.own_hints import complete_hint, complete_problems
from dpsql.engines.open_engine import show_target, url_forms
from dpsql.errors import DpsqlError, SchemaError, UsageError
from dpsql.methods import METHODS, PARAMETERS
from dpsql.methods.base import Choice, Flag, Integer, Method, Parameter
from dpsql.runs.arguments import arguments

_URLS = url_forms().replace("://", "://…")
_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class DatabaseTarget:
    """Which database to open, and how."""

    db: str | None
    wait: float
    read_only: bool
    who: str | None
    ledger: str | None = None
    attach: tuple[str, ...] = ()

    def open(self, *, writes: bool = True, memory_limit: str | None = None) -> Database:
        """Open the database, hardened and locked; a command that `writes` nothing leaves every file as it was.

        `memory_limit` is that of `connect`.
        """
        if self.db is None:
            raise UsageError("no database was named.", hint="--db PATH")
        return connect(
            self.db,
            wait=self.wait,
            read_only=self.read_only or not writes,
            who=self.who,
            ledger=self.ledger,
            attach=self.attach,
            memory_limit=memory_limit,
        )

    @property
    def words(self) -> str:
        """The options that name the same database again, for a command to show: without passwords.

        >>> DatabaseTarget("postgresql://ann:secret@host/data", 2.0, False, None).words
        '--db postgresql://ann@host/data'
        >>> DatabaseTarget("spark://local[2]/lake", 2.0, False, None, "books.duckdb").words
        "--db 'spark://local[2]/lake' --ledger books.duckdb"
        """
        named = (("--db", self.db), ("--ledger", self.ledger), *(("--attach", text) for text in self.attach))
        return " ".join(f"{option} {shlex.quote(show_target(value))}" for option, value in named if value)


def database(command: _Command) -> _Command:
    """Add --db and its companions; the command gets them as one `target`."""
    return _with_target(command, required=True)


def maybe_database(command: _Command) -> _Command:
    """Add --db and its companions to a command that can do without a database: then `target.db` is None."""
    return _with_target(command, required=False)


def _with_target(command: _Command, *, required: bool) -> _Command:
    def command_with_target(
        db: str | None,
        wait: float,
        read_only: bool,
        who: str | None,
        ledger: str | None,
        attach: tuple[str, ...],
        **options: Any,
    ) -> Any:
        target = DatabaseTarget(db, wait, read_only, who, ledger, attach)
        try:
            return command(target=target, **options)
        except DpsqlError as error:
            error.hint = complete_hint(error.hint, target.words, options)
            if isinstance(error, SchemaError) and len(error.problems) > 1:
                error.message = complete_problems(error.message, target.words, options)
            raise

    command_with_target.__name__ = command.__name__
    command_with_target.__doc__ = command.__doc__
    for decorate in (
        click.option("--as", "who", metavar="NAME", envvar="DPSQL_WHO", help="Name for the ledger [default: login]."),
        click.option("--read-only", is_flag=True, help="Open the file read-only."),
        click.option("--wait", type=float, default=2.0, show_default=True, metavar="SECONDS",
                     help="How long to wait for another process to let the file go."),
        click.option("--ledger", metavar="FILE", envvar="DPSQL_LEDGER",
                     help="Where the ledger is, if not in the database: a file, or postgresql://…"),
        click.option("--attach", multiple=True, metavar="[NAME=]FILE",
                     help="Another DuckDB file, whose tables are NAME.TABLE (repeat)."),
        click.option("--db", required=required, metavar="PATH", envvar="DPSQL_DB",
                     help=f"A DuckDB, Parquet or CSV file, a folder of those, {_URLS}"),
    ):  # fmt: skip
        command_with_target = decorate(command_with_target)
    # Options declared on the command itself come first in its help.
    own_options = getattr(command, "__click_params__", [])
    command_with_target.__click_params__ += own_options  # type: ignore[attr-defined]
    return command_with_target  # type: ignore[return-value]


def as_json(command: _Command) -> _Command:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON value and nothing else.")(command)


def request_options(*, names_release: bool, table: str | None = None) -> Callable[[_Command], _Command]:
    """Return a decorator that adds what a training run can be asked for, and every parameter of any method.

    The command gets all of them by name. With `table`, a sentence, the table may be left out, and that is its help.
    """

    def decorate(command: _Command) -> _Command:
        for name, kinds in reversed(PARAMETERS.items()):
            command = _parameter_option(name, next(iter(kinds.values())), _parameter_help(kinds))(command)
        for name, argument in reversed(arguments(names_release=names_release).items()):
            sentence, metavar = argument.metadata["help"], argument.metadata["metavar"]
            if argument.metadata["flag"]:
                command = click.option(argument.metadata["flag"], name, is_flag=True, help=sentence)(command)
                continue
            settings: dict[str, Any] = {"help": sentence, "metavar": metavar}
            if argument.default is MISSING:
                settings |= {"required": table is None, "help": table or sentence}
            elif argument.default is not None:
                settings |= {"default": str(argument.default), "show_default": True}
            command = click.option(_option(name), **settings)(command)
        return command

    return decorate


def method_options(method: Method) -> Callable[[_Command], _Command]:
    """Return a decorator that adds the parameters of one method."""

    def decorate(command: _Command) -> _Command:
        for name, parameter in reversed(list(method.parameters.items())):
            command = _parameter_option(name, parameter, _sentence(parameter.help))(command)
        return command

    return decorate


def _parameter_option(name: str, parameter: Parameter, sentence: str) -> Callable[[_Command], _Command]:
    """Return the option of a parameter; one that is not given is None, and left to the method."""
    if isinstance(parameter, Flag):
        return click.option(_option(name), is_flag=True, default=None, help=sentence)
    if isinstance(parameter, Choice):
        return click.option(_option(name), metavar="|".join(parameter.values), help=sentence)
    return click.option(_option(name), type=int if isinstance(parameter, Integer) else str, help=sentence)


def _parameter_help(kinds: Mapping[str, Parameter]) -> str:
    """Return what methods say of a parameter, and in brackets which methods have it, unless all have.

    Where they do not say the same, only what they have in common is shown: all that stands before a semicolon.
    """
    helps = {parameter.help for parameter in kinds.values()}
    words = helps.pop() if len(helps) == 1 else next(iter(kinds.values())).help.partition(";")[0]
    return _sentence(words if len(kinds) == len(METHODS) else f"{words} ({', '.join(kinds)})")


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def parameters(options: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that were given, without those left to the method."""
    return {name: value for name, value in options.items() if value is not None}
