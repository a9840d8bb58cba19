"""What an engine declares of itself, so that it can be found and opened before its driver is imported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from dpsql.engines.base import Engine
from dpsql.errors import DatabaseError


@dataclass(frozen=True)
class Opening:
    """How the caller asked for a database to be opened.

    `wait` are the seconds to wait for others who hold the database. `ledger_place` is where the caller wants the
    ledger; `ledger` is the open database that holds it, for an engine that declares `ledger_elsewhere`.
    `made_by_writing` says that a file which is not there is made by the first write to it, and not before. `attach` are
    the databases to attach to a DuckDB file, each FILE or NAME=FILE. `memory_limit` is what DuckDB may take of this
    process's memory, such as "512MB"; other databases have limits of their own.
    """

    create: bool = False
    read_only: bool = False
    wait: float = 2.0
    ledger_place: str | Path | None = None
    ledger: Engine | None = None
    made_by_writing: bool = False
    attach: tuple[str, ...] = ()
    memory_limit: str | None = None

    @property
    def open_ledger(self) -> Engine:
        """The open database with the ledger, for an engine that declared that it needs one."""
        assert self.ledger is not None, "the registry opens the ledger of an engine that declares ledger_elsewhere"
        return self.ledger


class NotAConnection(Exception):
    """An object of the driver's is no connection that the engine can work through."""


class EngineModule(Protocol):
    """The module of an engine's package that imports the driver."""

    def open_target(self, target: str, opening: Opening) -> Engine:
        """Open what a path or a URL with one of the engine's prefixes names."""
        ...

    def adopt_connection(self, connection: object, opening: Opening) -> Engine:
        """Wrap an open connection of the driver's, or raise NotAConnection."""
        ...


def _keep_all(target: str) -> str:
    return target


def _never(target: str) -> bool:
    return False


@dataclass(frozen=True)
class EngineSpec:
    """One engine: how targets and connections are recognised as its own, and what it needs.

    Attributes:
        name: what dpsql calls it; the pip extra with its driver has the same name.
        title: what people call the database.
        module: the module behind `EngineModule`, imported when the engine is first opened.
        drivers: the top-level modules that its connections come from; the first is what has to be installed.
        prefixes: what its URLs begin with, each a scheme and `://`.
        packages: what people install for it, in words; "" where it comes with dpsql.
        ledger_elsewhere: it has no transactions, so that its ledger is in another database.
        opens_path: whether a target that is no URL is its own.
        takes_ledger: whether the caller may say where the ledger of such a path is.
        behind_ibis: an Ibis backend shows the driver's own connection as `con`.
        hide_secrets: a URL as it may be shown, without passwords.
    """

    name: str
    title: str
    module: str
    drivers: tuple[str, ...]
    prefixes: tuple[str, ...] = ()
    packages: str = ""
    ledger_elsewhere: bool = False
    opens_path: Callable[[str], bool] = _never
    takes_ledger: Callable[[str], bool] = _never
    behind_ibis: bool = False
    hide_secrets: Callable[[str], str] = _keep_all

    def opens_url(self, target: str) -> bool:
        """Whether a URL begins with one of the engine's prefixes."""
        return bool(self.prefixes) and target.startswith(self.prefixes)

    def load(self) -> EngineModule:
        """Return the engine's module, or say what to install."""
        try:
            return cast(EngineModule, import_module(self.module))
        except ImportError:
            if not self.packages:
                raise
        raise DatabaseError(
            f"{self.title} needs {self.packages}, which is not installed.", hint=f"pip install 'dpsql[{self.name}]'"
        )
