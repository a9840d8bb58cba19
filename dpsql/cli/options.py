"""Options that several commands share, in the same words everywhere."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass
from typing import Any, TypeVar

import click

from dpsql.api.database import Database, connect
from dpsql.cli.command import DATABASE, FIRST, MORE, SectionedOption
from dpsql.cli.known_names import complete_names
from dpsql.cli.own_hints import complete_hint, complete_problems
from dpsql.cli.written_files import refuse_private_files
from dpsql.engines.open_engine import show_target, url_forms
from dpsql.errors import DpsqlError, SchemaError, UsageError
from dpsql.kernel.charges_made import name_charges
from dpsql.methods import METHODS, PARAMETERS
from dpsql.methods.base import Choice, Flag, Integer, Method, Parameter
from dpsql.runs.arguments import arguments

#: The arguments of a run that stand first in the help; the others follow under a heading of their own.
_NEEDED_BY_ALL = ("table", "epsilon", "method", "name", "evaluate")
#: From how many methods on a parameter stands with those that most methods have, and what that section is called.
_MANY = 5
_OF_MANY = "Options of most methods"
#: Where a click context keeps how the database was named.
_WORDS = "dpsql.words"
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
        db = connect(
            self.db,
            wait=self.wait,
            read_only=self.read_only or not writes,
            who=self.who,
            ledger=self.ledger,
            attach=self.attach,
            memory_limit=memory_limit,
        )
        try:
            refuse_private_files(db)
        except BaseException:
            db.close()
            raise
        return db

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

    @staticmethod
    def words_of_command() -> str:
        """Return the words of the database that the command which runs was given."""
        context = click.get_current_context(silent=True)
        return "" if context is None else str(context.meta.get(_WORDS, ""))


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
        click.get_current_context().meta[_WORDS] = target.words
        try:
            return name_charges(lambda: command(target=target, **options))
        except DpsqlError as error:
            error.hint = complete_hint(error.hint, target.words, options)
            if isinstance(error, SchemaError) and len(error.problems) > 1:
                error.message = complete_problems(error.message, target.words, options)
            raise

    command_with_target.__name__ = command.__name__
    command_with_target.__doc__ = command.__doc__
    for decorate in (
        _database_option("--as", "who", metavar="NAME", envvar="DPSQL_WHO", show_envvar=True,
                         help="Name for the ledger [default: login]."),
        _database_option("--read-only", is_flag=True, help="Open the file read-only."),
        _database_option("--wait", type=float, default=2.0, show_default=True, metavar="SECONDS",
                         help="How long to wait for another process to let the file go."),
        _database_option("--ledger", metavar="FILE", envvar="DPSQL_LEDGER", show_envvar=True,
                         help="Where the ledger is, if not in the database: a file, or postgresql://…"),
        _database_option("--attach", multiple=True, metavar="[NAME=]FILE",
                         help="Another DuckDB file, whose tables are NAME.TABLE (repeat)."),
        click.option("--db", required=required, metavar="PATH", envvar="DPSQL_DB", show_envvar=True,
                     help=f"A DuckDB, Parquet or CSV file, a folder of those, {_URLS}"),
    ):  # fmt: skip
        command_with_target = decorate(command_with_target)
    # The database comes first in the help, then the options declared on the command itself; click has them backwards.
    *companions, named = command_with_target.__click_params__  # type: ignore[attr-defined]
    own_options = getattr(command, "__click_params__", [])
    command_with_target.__click_params__ = [*companions, *own_options, named]  # type: ignore[attr-defined]
    complete_names(own_options)
    return command_with_target  # type: ignore[return-value]


def _database_option(*declared: str, **settings: Any) -> Callable[[_Command], _Command]:
    """Return an option that says how a database is opened, in a section of its own."""
    return click.option(*declared, cls=SectionedOption, section=DATABASE, **settings)


def as_json(command: _Command) -> _Command:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON value and nothing else.")(command)


def request_options(*, names_release: bool, table: str | None = None) -> Callable[[_Command], _Command]:
    """Return a decorator that adds what a training run can be asked for, and every parameter of any method.

    The command gets all of them by name. With `table`, a sentence, the table may be left out, and that is its help.
    """

    def decorate(command: _Command) -> _Command:
        for section, names in reversed(parameter_sections().items()):
            for name in reversed(names):
                kinds = PARAMETERS[name]
                command = _parameter_option(name, next(iter(kinds.values())), _parameter_help(kinds, section), section)(
                    command
                )
        for name, argument in reversed(arguments(names_release=names_release).items()):
            sentence, metavar = argument.metadata["help"], argument.metadata["metavar"]
            section = FIRST if name in _NEEDED_BY_ALL else MORE
            if argument.metadata["flag"]:
                settings: dict[str, Any] = {"is_flag": True, "cls": SectionedOption, "section": section}
                command = click.option(argument.metadata["flag"], name, help=sentence, **settings)(command)
                continue
            settings = {"help": sentence, "metavar": metavar, "cls": SectionedOption, "section": section}
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


def _parameter_option(
    name: str, parameter: Parameter, sentence: str, section: str = FIRST
) -> Callable[[_Command], _Command]:
    """Return the option of a parameter; one that is not given is None, and left to the method."""
    place: dict[str, Any] = {"cls": SectionedOption, "section": section}
    if isinstance(parameter, Flag):
        return click.option(_option(name), is_flag=True, default=None, help=sentence, **place)
    if isinstance(parameter, Choice):
        return click.option(_option(name), metavar="|".join(parameter.values), help=sentence, **place)
    return click.option(_option(name), type=int if isinstance(parameter, Integer) else str, help=sentence, **place)


def parameter_sections() -> dict[str, list[str]]:
    """Return the sections of the help in which the parameters of methods stand, each with their names.

    What many methods have comes first; then a section for each method, or for each few that share a parameter.
    """
    sections: dict[str, list[str]] = {_OF_MANY: []}
    for name, kinds in sorted(PARAMETERS.items(), key=lambda pair: (list(pair[1]), list(PARAMETERS).index(pair[0]))):
        section = _OF_MANY if len(kinds) >= _MANY else f"Options of {', '.join(kinds)}"
        sections.setdefault(section, []).append(name)
    sections[_OF_MANY].sort(key=lambda name: -len(PARAMETERS[name]))
    return sections


def refuse_foreign_parameters(method: str, given: Iterable[str]) -> None:
    """Raise UsageError where a parameter is given that the method does not have, and say which ones it has."""
    own = METHODS[method].parameters if method in METHODS else None
    for name in given:
        if own is not None and name in PARAMETERS and name not in own:
            others = ", ".join(PARAMETERS[name])
            raise UsageError(
                f"method {method} has no {_option(name)}; it belongs to {others}. "
                f"Options of {method}: {', '.join(map(_option, own))}.",
                hint=f"leave out {_option(name)}, or --method {next(iter(PARAMETERS[name]))}",
            )


def _parameter_help(kinds: Mapping[str, Parameter], section: str) -> str:
    """Return what methods say of a parameter, and in brackets which methods have it, unless that is said already.

    Where they do not say the same, only what they have in common is shown: all that stands before a semicolon.
    """
    helps = {parameter.help for parameter in kinds.values()}
    words = helps.pop() if len(helps) == 1 else next(iter(kinds.values())).help.partition(";")[0]
    lacking = [name for name in METHODS if name not in kinds]
    if section != _OF_MANY or not lacking:
        return _sentence(words)
    shown = f"not {', '.join(lacking)}" if len(lacking) < len(kinds) else ", ".join(kinds)
    return _sentence(f"{words} ({shown})")


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def parameters(options: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that were given, without those left to the method."""
    return {name: value for name, value in options.items() if value is not None}
