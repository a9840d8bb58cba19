"""A small database file with a registered table, new rows and a model, and the command line run on it in-process."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dpsql.api.database import Database, connect
from dpsql.cli.main import run_command_line
from dpsql.ledger import anchor_path
from tests import tables

#: Stand in cells of the private table, in no schema: no output of any command may show one.
MARKERS = ("MARKER_CATEGORY", "MARKER_LABEL", "MARKER_NOTE", "7654321", "31.4159", "2718281")


@dataclass(frozen=True)
class Ran:
    """What a command gave: exit code, stdout, stderr."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON value on stdout."""
        return json.loads(self.out)


Cli = Callable[..., Ran]


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the file once: "people" registered with a cap of 10, "fresh" public, model "m" of rosnam for epsilon 1."""
    folder = tmp_path_factory.mktemp("template")
    db = connect(folder / "data.duckdb", create=True, who="ann")
    types = tables.TYPES | {"note": "VARCHAR"}
    secret = (7654321, 31.4159, "MARKER_CATEGORY", "MARKER_LABEL", "MARKER_NOTE")
    rows = [(*row, "MARKER_NOTE 2718281") for row in tables.some_rows()]
    tables.fill(db.engine, "people", [*rows, secret], types)  # type: ignore[list-item]
    tables.fill(db.engine, "fresh", tables.some_rows(12))
    tables.run(db.engine, "CREATE TABLE keyed AS SELECT x, c, person AS id FROM fresh WHERE person < 900")
    db.register("people", tables.SCHEMA, cap=10)
    db.train("people", name="m", method="rosnam", request_id="first", **tables.SMALL)
    db.close()
    return folder


@pytest.fixture
def path(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the database file, in a folder that is the working folder."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data.duckdb"


@pytest.fixture
def cli(path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Return a function that runs a command on the file (or on `db`), as "bob"."""
    monkeypatch.setenv("DPSQL_WHO", "bob")
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)

    def ran(*words: str, db: Path | str | None = path) -> Ran:
        capsys.readouterr()
        code = run_command_line([*words, *(["--db", str(db)] if db is not None else [])])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return ran


@pytest.fixture
def db(path: Path) -> Iterator[Database]:
    """Open the file from Python; close it before a command needs it."""
    opened = connect(path, who="bob")
    yield opened
    opened.close()


def kept(path: Path) -> tuple[bytes, bytes]:
    """Return the bytes of a database file and of its receipt."""
    return path.read_bytes(), anchor_path(path).read_bytes()
