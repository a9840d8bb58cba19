"""Which engine opens a target: dpsql's own by what they declare, and those of other packages by an entry point."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlglot import exp

import dpsql
from dpsql.api import census
from dpsql.engines.open_engine import SPECS, open_engine, show_target, url_forms
from dpsql.errors import DatabaseError, ParameterError, UsageError

#: A package with an engine of its own: DuckDB's, under another prefix and with connections of another class.
ENGINE = '''
"""An engine of another package."""

from dataclasses import dataclass

from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.duckdb.open_database import open_file
from dpsql.engines.spec import EngineSpec, NotAConnection, Opening


@dataclass
class Connection:
    """An open connection of this package's driver."""

    path: str


def open_target(target: str, opening: Opening) -> DuckDBEngine:
    """Open a file by its URL."""
    return open_file(target.removeprefix("mine://"), create=opening.create, wait=opening.wait)


def adopt_connection(connection: object, opening: Opening) -> DuckDBEngine:
    """Open the file of a connection."""
    if not isinstance(connection, Connection):
        raise NotAConnection
    return open_file(connection.path)


def hide(url: str) -> str:
    """Hide everything."""
    return "mine://…"


SPEC = EngineSpec(
    name="mine", title="Mine", module="mine_engine", drivers=("mine_engine",), prefixes=("mine://",), hide_secrets=hide
)
'''


def install(folder: Path, package: str, module: str, entries: str) -> None:
    """Put a distribution into a folder: a module, and the metadata that an installer would have written."""
    (folder / f"{package}.py").write_text(module)
    metadata = folder / f"{package}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[dpsql.engines]\n{entries}\n")


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder of installed packages; what was imported from it is forgotten."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if name.startswith("mine"):
            del sys.modules[name]


def test_an_engine_of_another_package_trains(packages: Path, tmp_path: Path) -> None:
    """Its URLs and its connections are opened by it, and its ledger is charged."""
    install(packages, "mine_engine", ENGINE, "mine = mine_engine:SPEC")
    file = tmp_path / "people.duckdb"
    with dpsql.connect(f"mine://{file}", create=True) as db:
        db.engine.create("adult", exp.select("*").from_("made"), {"made": census.rows(300, seed=1)})
        db.register("adult", census.SCHEMA, cap=1)
        db.train("adult", method="rdt", trees=2, depth=2)
    with dpsql.connect(sys.modules["mine_engine"].Connection(str(file))) as db:
        assert db.budget("adult").spent_text == "1"
    assert show_target(f"mine://{file}") == "mine://…"


def test_a_prefix_of_dpsqls_own_cannot_be_taken(packages: Path, tmp_path: Path) -> None:
    """An entry point for chdb://, postgresql:// or spark:// is never even imported; nor for DuckDB's connections."""
    refuse = 'raise RuntimeError("imported")\n'
    names = [prefix.removesuffix("://") for spec in SPECS for prefix in spec.prefixes]
    install(packages, "mine_thief", refuse, "\n".join(f"{name} = mine_thief:SPEC" for name in [*names, "duckdb"]))
    for name in names:
        with pytest.raises((UsageError, DatabaseError)):
            open_engine(f"{name}://127.0.0.1:1/none", wait=0.1)
    with duckdb.connect() as connection:
        assert type(open_engine(connection)).__name__ == "DuckDBEngine"
    open_engine(tmp_path / "new.duckdb", create=True).close()
    assert "mine_thief" not in sys.modules


def test_a_connection_of_dpsqls_own_cannot_be_taken(packages: Path) -> None:
    """A spec of another package that names DuckDB's driver gets no connection of DuckDB's."""
    install(
        packages, "mine_engine", ENGINE.replace('("mine_engine",)', '("duckdb", "_duckdb")'), "mine = mine_engine:SPEC"
    )
    with duckdb.connect() as connection:
        assert repr(open_engine(connection)) == "<DuckDB in memory>"
    assert "mine_engine" not in sys.modules


@pytest.mark.parametrize(
    ("module", "entries", "words"),
    [
        ("SPEC = 5", "mine = mine_broken:SPEC", "no EngineSpec with the prefix mine://"),
        ("", "mine = mine_broken:SPEC", "cannot be imported"),
        ("import nothing_of_that_name", "mine = mine_broken:SPEC", "cannot be imported"),
        (ENGINE.replace('("mine://",)', '("postgresql://",)'), "mine = mine_broken:SPEC", "with the prefix mine://"),
    ],
)
def test_a_broken_entry_point_is_named(packages: Path, module: str, entries: str, words: str) -> None:
    """With its package, and what to do; URLs of others are opened all the same."""
    install(packages, "mine_broken", module, entries)
    with pytest.raises(DatabaseError, match=words) as caught:
        open_engine("mine://x")
    assert "mine_broken" in caught.value.message
    open_engine(":memory:").close()


def test_two_packages_with_one_prefix_are_refused(packages: Path) -> None:
    """Which of them would read the rows must not depend on the order of folders."""
    for package in ("mine_engine", "mine_other"):
        install(packages, package, ENGINE, f"mine = {package}:SPEC")
    with pytest.raises(DatabaseError, match="2 installed packages open mine:// URLs"):
        open_engine("mine://x")


def test_a_url_that_nobody_knows_is_no_file(tmp_path: Path) -> None:
    """It is refused as a URL, with what is possible instead."""
    with pytest.raises(UsageError, match="does not open such URLs"):
        open_engine("mine://x")


@pytest.mark.parametrize("target", ["", "a\x00b", "postgresql://a\x00b", "n" * 300, None, 5, object()])
def test_what_no_engine_can_open_is_refused(target: Any) -> None:
    """The error says what can be opened."""
    with pytest.raises(ParameterError, match=f"db must be a path, a {url_forms()} URL"):
        open_engine(target)


def test_an_object_of_a_driver_that_is_no_connection_is_refused() -> None:
    """A relation of DuckDB's comes from the driver, too."""
    with duckdb.connect() as connection, pytest.raises(ParameterError, match="a connection of DuckDB"):
        open_engine(connection.sql("SELECT 1"))


_IMPORTED = """
import sys
import dpsql.engines.open_engine as opening

opening.entry_points = lambda **_: 1 / 0
opening.open_engine(sys.argv[1], create=True).close()
print(sorted({"chdb", "psycopg", "pyspark"} & set(sys.modules)))
"""


def test_a_duckdb_file_needs_no_other_driver(tmp_path: Path) -> None:
    """Neither another driver nor the list of installed packages is looked at."""
    command = [sys.executable, "-c", _IMPORTED, str(tmp_path / "new.duckdb")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stdout + done.stderr


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.packages], ids=lambda spec: spec.name)
def test_a_driver_that_is_not_installed_is_named(spec: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it."""
    for name in [spec.drivers[0], *(name for name in sys.modules if name.startswith(spec.module))]:
        monkeypatch.setitem(sys.modules, name, None)
    ledger = ":memory:" if spec.ledger_elsewhere else None
    with pytest.raises(DatabaseError, match=f"{spec.title} needs {spec.packages}") as caught:
        open_engine(f"{spec.prefixes[0]}none", ledger=ledger)
    assert caught.value.hint == f"pip install 'dpsql[{spec.name}]'"


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.ledger_elsewhere], ids=lambda spec: spec.name)
def test_a_ledger_is_asked_for_where_an_engine_keeps_none(spec: Any) -> None:
    """And it can be in no other engine that keeps none."""
    with pytest.raises(UsageError, match=f"{spec.title} has no transactions"):
        open_engine(f"{spec.prefixes[0]}none")
    for other in [other for other in SPECS if other.ledger_elsewhere]:
        with pytest.raises(ParameterError, match="ledger must be a DuckDB file or a postgresql://"):
            open_engine(f"{spec.prefixes[0]}none", ledger=f"{other.prefixes[0]}elsewhere")


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("postgresql://ann:secret@host/data?password=secret", "postgresql://ann@host/data"),
        ("postgres://ann@host/data", "postgres://ann@host/data"),
        ("spark://local[2]/lake", "spark://local[2]/lake"),
        ("data.duckdb", "data.duckdb"),
    ],
)
def test_a_target_is_shown_without_passwords(target: str, shown: str) -> None:
    """Each engine says how its URLs may be shown."""
    assert show_target(target) == shown
