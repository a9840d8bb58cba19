"""Options that several commands share, in the same words everywhere."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from dpsql.api.database import Database, connect
from dpsql.engines.open_engine import show_target, url_forms
from dpsql.errors import UsageError
from dpsql.methods import DEFAULT, METHODS, REGRESSION

_METHOD = f"One of: {', '.join(METHODS)}. For a number auto is {REGRESSION}."
_URLS = url_forms().replace("://", "://…")
_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Target:
    """Which database to open, and how."""

    db: str | None
    wait: float
    read_only: bool
    who: str | None
    ledger: str | None = None

    def open(self) -> Database:
        """Open the database, hardened and locked."""
        if self.db is None:
            raise UsageError("no database was named.", hint="--db PATH")
        return connect(self.db, wait=self.wait, read_only=self.read_only, who=self.who, ledger=self.ledger)

    @property
    def words(self) -> str:
        """The options that name the same database again, for a command to show: without passwords.

        >>> Target("postgresql://ann:secret@host/data", 2.0, False, None).words
        '--db postgresql://ann@host/data'
        >>> Target("spark://local[2]/lake", 2.0, False, None, "books.duckdb").words
        "--db 'spark://local[2]/lake' --ledger books.duckdb"
        """
        named = (("--db", self.db), ("--ledger", self.ledger))
        return " ".join(f"{option} {shlex.quote(show_target(value))}" for option, value in named if value)


def database(command: _Command) -> _Command:
    """Add --db and its companions; the command gets them as one `target`."""
    return _with_target(command, required=True)


def maybe_database(command: _Command) -> _Command:
    """Add --db and its companions to a command that can do without a database: then `target.db` is None."""
    return _with_target(command, required=False)


def _with_target(command: _Command, *, required: bool) -> _Command:
    def wrapped(
        db: str | None, wait: float, read_only: bool, who: str | None, ledger: str | None, **options: Any
    ) -> Any:
        return command(target=Target(db, wait, read_only, who, ledger), **options)

    wrapped.__name__ = command.__name__
    wrapped.__doc__ = command.__doc__
    for decorate in (
        click.option("--as", "who", metavar="NAME", envvar="DPSQL_WHO", help="Name for the ledger [default: login]."),
        click.option("--read-only", is_flag=True, help="Open the file read-only."),
        click.option("--wait", type=float, default=2.0, show_default=True, metavar="SECONDS",
                     help="How long to wait for another process to let the file go."),
        click.option("--ledger", metavar="FILE", envvar="DPSQL_LEDGER",
                     help="Where the ledger is, if not in the database: a file, or postgresql://…"),
        click.option("--db", required=required, metavar="PATH", envvar="DPSQL_DB",
                     help=f"A DuckDB, Parquet or CSV file, a folder of those, {_URLS}"),
    ):  # fmt: skip
        wrapped = decorate(wrapped)
    # Options declared on the command itself come first in its help.
    wrapped.__click_params__ = wrapped.__click_params__ + getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    return wrapped  # type: ignore[return-value]


def as_json(command: _Command) -> _Command:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON value and nothing else.")(command)


def method_parameters(command: _Command) -> _Command:
    """Add what a training run takes; the command gets `epsilon`, `method` and the method's parameters."""
    for decorate in (
        click.option("--as-published", is_flag=True, default=None, help="The paper's unproven form: NOT private."),
        click.option("--shared", is_flag=True, default=None, help="Every row in every tree (rosnam)."),
        click.option("--unlabelled", metavar="TABLE|CONDITION", help="Unlabelled rows that shape the trees."),
        click.option("--privacy", type=str, help="What is private: rows, or labels alone (sspe)."),
        click.option("--allocation", type=str, help="How levels share epsilon: geometric or uniform."),
        click.option("--utility", type=str, help="What a split is chosen by: max, gain or gini (fs)."),
        click.option("--more-trees", type=int, help="Trees that learn from the first ones (pte)."),
        click.option("--ensembles", type=int, help="Sets of trees over random features (mrf)."),
        click.option("--features", type=int, help="Features of each ensemble (mrf)."),
        click.option("--cells", type=int, help="Most cells of one ensemble (mrf)."),
        click.option("--votes", type=str, help="What leaves say: summed counts, or a hard vote each (mrf)."),
        click.option("--strategy", type=str, help="What is asked of the cells; best tries all kinds (mrf)."),
        click.option("--effort", type=int, help="Work for the search of a strategy (mrf)."),
        click.option("--seed", type=int, help="Shapes the trees; never touches noise."),
        click.option("--limit", type=int, help="Most cells (leaves of all trees × classes) of the release."),
        click.option("--bins", type=int, help="Branches of a split on a number (id3), bins of one (mrf)."),
        click.option("--branches", type=int, help="Most branches of one split."),
        click.option("--depth-rule", type=str, help="How the depth is worked out: theorem2 or table4."),
        click.option("--depth", type=int, help="Depth of the trees [default: the method's own]."),
        click.option("--trees", type=int, help="Number of trees [default: the method's own]."),
        click.option("--method", default=DEFAULT, show_default=True, help=_METHOD),
        click.option("--delta", metavar="D", help="Approximate privacy: (epsilon, delta), far below 1 over the rows."),
        click.option("--epsilon", default="1", show_default=True, metavar="E", help="What the run may cost."),
    ):
        command = decorate(command)
    return command


def training(command: _Command) -> _Command:
    """Add the table and what a training run takes."""
    return click.option("--table", required=True, help="The registered table.")(method_parameters(command))


def parameters(options: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that were given, without those left to the method."""
    return {name: value for name, value in options.items() if value is not None}
