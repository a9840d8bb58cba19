"""Files that a command writes: new ones, or with --force in place of those that are there, all of it or nothing.

A file is written beside its place under a name of its own and then put there in one step, so that nobody ever reads a
half. What is no file, a database, a receipt, and the rows of a private table are never overwritten.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from dpsql.api.database import Database
from dpsql.errors import UsageError
from dpsql.ledger import anchor_path
from dpsql.models.score import public_file

_Command = TypeVar("_Command", bound=Callable[..., Any])
#: Where a click context keeps whether --force was given, and the files that it is to overwrite.
_FORCE, _OVERWRITTEN = "dpsql.force", "dpsql.overwritten"
#: What stands in a DuckDB database from the ninth byte on.
_DUCKDB_MARK = b"DUCK"


def overwrites(command: _Command) -> _Command:
    """Add --force, which lets a command overwrite the files that it writes."""
    return click.option(
        "--force", is_flag=True, expose_value=False, callback=_remember_force, help="Overwrite a file that exists."
    )(command)


def _remember_force(context: click.Context, _option: click.Parameter, given: bool) -> None:
    context.meta[_FORCE] = given


def may_overwrite(path: Path) -> bool:
    """Whether --force was given; raises UsageError where the path is nothing that a command may overwrite."""
    meta = _meta()
    if not meta.get(_FORCE):
        return False
    if not path.is_file():
        raise UsageError(f'"{path}" is no file, and is not overwritten.', hint="another name")
    if _is_database(path) or path.name.endswith(anchor_path(Path("x")).name[1:]):
        raise UsageError(f'"{path}" is a database or its receipt, and is not overwritten.', hint="another name")
    meta.setdefault(_OVERWRITTEN, []).append(path)
    return True


def overwrite_hint(option: str) -> str:
    """Return what to do about a file that exists, in a command that has --force or in one that has not."""
    return (
        f"--force overwrites it, or another name behind --{option}"
        if _FORCE in _meta()
        else (f"another name behind --{option}, or remove it")
    )


def refuse_private_files(db: Database) -> None:
    """Raise an error where --force would overwrite a file with rows of a private table of this database."""
    for path in _meta().get(_OVERWRITTEN, ()):
        public_file(db, path)


@contextmanager
def new_place(to: str | Path) -> Iterator[Path]:
    """Yield a path at which there is no file, and put what is written there into its place at the end.

    Where nothing is to be overwritten it is the place itself: whoever writes there refuses a file that came meanwhile.
    """
    target = Path(to)
    if not _meta().get(_FORCE) or not target.is_file():
        yield target
        return
    target = target.resolve()  # a link stays a link
    beside = target.with_name(f".{secrets.token_hex(8)}{target.suffix}")
    try:
        yield beside
        if beside.exists():
            beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


def _is_database(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(12)[8:] == _DUCKDB_MARK
    except OSError:
        return False  # writing it will say why not


def _meta() -> dict[str, Any]:
    context = click.get_current_context(silent=True)
    return {} if context is None else context.meta
