"""Other databases, for tests of exported models: each creates a table, runs a script and gives back the predictions.

One that is not on this machine is skipped by name, unless the environment variable DPSQL_REQUIRE names it. Values are
passed so that none can change on the way: as parameters, or in hexadecimal.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import sqlite3
import struct
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Protocol

import duckdb
import pytest

from dpsql.models.export_sql import export_script, export_statements
from dpsql.models.usable_model import Model
from tests.servers import chdb, fresh_database, spark

KEY = "which_row"
NAME = "moved"
Rows = list[tuple[Any, ...]]
MADE = (("VIEW", "scored"), ("TABLE", "node"), ("TABLE", "leaf"))


class Elsewhere(Protocol):
    """A database that a model moves to.

    `reals`: it stores NaN and infinities. `names`: a column may have any name.
    """

    dialect: str
    reals: bool
    names: bool

    def fill(self, types: dict[str, str], rows: Rows) -> None:
        """Create (or replace) the table "new_rows"; types are those of DuckDB."""
        ...

    def scored(self, model: Model, *, probabilities: bool = False) -> Rows:
        """Run the script, and return key, prediction and probabilities in the order of the key."""
        ...

    def close(self) -> None:
        """End it."""
        ...


def absent(name: str, reason: str) -> NoReturn:
    """Skip the tests of a database that is not here, or fail where the environment says that it must be."""
    if name in os.environ.get("DPSQL_REQUIRE", "").replace(",", " ").split():
        pytest.fail(f"{name} is required, but {reason}")
    pytest.skip(f"{name}: {reason}")


def wanted(model: Model, probabilities: bool, mark: str = '"') -> str:
    """Return the columns to read, quoted: key, prediction, probabilities."""
    names = [KEY, "prediction", *(f"p_{name}" for name in model.classes if probabilities)]
    return ", ".join(quoted(name, mark) for name in names)


def quoted(name: str, mark: str = '"') -> str:
    """Return a name between quotes."""
    return mark + name.replace(mark, mark * 2) + mark


def made(types: dict[str, str], kinds: dict[str, str], mark: str = '"') -> str:
    """Return the columns of a CREATE TABLE, each type replaced by the database's own."""
    named = {name: "VARCHAR" if kind.startswith("ENUM") else kind for name, kind in types.items()}
    return ", ".join(f"{quoted(name, mark)} {kinds.get(kind, kind)}" for name, kind in named.items())


def hexed(text: str) -> str:
    """Return the bytes of a text in hexadecimal."""
    return text.encode().hex()


class Sqlite:
    """Python's own SQLite, in memory. It has no booleans and no NaN."""

    dialect, reals, names = "sqlite", True, True

    def __init__(self) -> None:
        self.connection = sqlite3.connect(":memory:")

    def fill(self, types: dict[str, str], rows: Rows) -> None:
        """Create the table; a category's column passes over letter case, as a column may."""
        kinds: ClassVar = {
            "VARCHAR": "TEXT COLLATE NOCASE",
            "BOOLEAN": "INTEGER",
            "HUGEINT": "",
            "DECIMAL(18,3)": "REAL",
            "DATE": "TEXT",
            "TIMESTAMP": "TEXT",
        }
        self.connection.execute("DROP TABLE IF EXISTS new_rows")
        self.connection.execute(f"CREATE TABLE new_rows ({made(types, kinds)})")
        kept = [[float(cell) if _wide(cell) else cell for cell in row] for row in rows]
        marks = ", ".join("?" for _ in types)
        self.connection.executemany(f"INSERT INTO new_rows VALUES ({marks})", kept)

    def scored(self, model: Model, *, probabilities: bool = False) -> Rows:
        """Run the script with `executescript`."""
        for kind, name in MADE:
            self.connection.execute(f"DROP {kind} IF EXISTS {NAME}_{name}")
        text = export_script(model, dialect="sqlite", form="view", name=NAME, probabilities=probabilities)
        self.connection.executescript(text)
        columns = wanted(model, probabilities)
        return self.connection.execute(f"SELECT {columns} FROM {NAME}_scored ORDER BY {KEY}").fetchall()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


class Duckdb:
    """A bare DuckDB in memory: nothing of dpsql is in it."""

    dialect, reals, names = "duckdb", True, True

    def __init__(self) -> None:
        self.connection = duckdb.connect(":memory:")

    def fill(self, types: dict[str, str], rows: Rows) -> None:
        """Create the table as it is."""
        marks = ", ".join("?" for _ in types)
        self.connection.execute(f"CREATE OR REPLACE TABLE new_rows ({made(types, {})})")
        self.connection.executemany(f"INSERT INTO new_rows VALUES ({marks})", rows)

    def scored(self, model: Model, *, probabilities: bool = False) -> Rows:
        """Run the script as one text."""
        for kind, name in MADE:
            self.connection.execute(f"DROP {kind} IF EXISTS {NAME}_{name}")
        self.connection.execute(
            export_script(model, dialect="duckdb", form="view", name=NAME, probabilities=probabilities)
        )
        columns = wanted(model, probabilities)
        return self.connection.execute(f"SELECT {columns} FROM {NAME}_scored ORDER BY {KEY}").fetchall()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


class Clickhouse:
    """ClickHouse inside this process (chDB)."""

    dialect, reals, names = "clickhouse", True, True
    kinds: ClassVar = {
        "DOUBLE": "Float64",
        "FLOAT": "Float32",
        "INTEGER": "Int32",
        "BIGINT": "Int64",
        "HUGEINT": "Int128",
        "DECIMAL(18,3)": "Decimal(18, 3)",
        "VARCHAR": "String",
        "BOOLEAN": "Bool",
        "DATE": "Date32",
        "TIMESTAMP": "DateTime64(6, 'UTC')",
    }

    def __init__(self) -> None:
        self.session = chdb()

    def fill(self, types: dict[str, str], rows: Rows) -> None:
        """Create the table, numbers and texts in hexadecimal."""
        kinds: ClassVar = {name: f"Nullable({kind})" for name, kind in self.kinds.items()}
        self.session.query("DROP TABLE IF EXISTS new_rows")
        named = {_backslashed(name): kind for name, kind in types.items()}
        self.session.query(f"CREATE TABLE new_rows ({made(named, kinds)}) ENGINE = Memory")
        values = ", ".join("(" + ", ".join(map(self._cell, row)) + ")" for row in rows)
        self.session.query(f"INSERT INTO new_rows SELECT * FROM values({values})")

    def scored(self, model: Model, *, probabilities: bool = False) -> Rows:
        """Run the statements one by one."""
        for kind, name in MADE:
            self.session.query(f"DROP {kind} IF EXISTS {NAME}_{name}")
        for text in _texts(model, self.dialect, "view", probabilities):
            self.session.query(text)
        columns = _backslashed(wanted(model, probabilities))
        found = self.session.query(f"SELECT {columns} FROM {NAME}_scored ORDER BY {KEY}", "JSONCompactEachRow")
        return [tuple(json.loads(line)) for line in str(found).split("\n") if line]

    def close(self) -> None:
        """Leave the session to the other tests of this process, without the model's tables."""
        for kind, name in MADE:
            self.session.query(f"DROP {kind} IF EXISTS {NAME}_{name}")
        self.session.query("DROP TABLE IF EXISTS new_rows")

    @staticmethod
    def _cell(cell: Any) -> str:
        if isinstance(cell, float):
            return f"reinterpretAsFloat64(unhex('{struct.pack('<d', cell).hex()}'))"
        if isinstance(cell, str):
            return f"unhex('{hexed(cell)}')"
        if isinstance(cell, Decimal):
            return f"toDecimal64('{cell}', 3)"
        return "NULL" if cell is None else str(cell).lower() if isinstance(cell, bool) else f"toInt128('{cell}')"


class Mariadb:
    """A MariaDB server of its own, on a socket in a folder that goes away, asked through its command line."""

    dialect, reals, names = "mysql", False, False
    kinds: ClassVar = {"VARCHAR": "VARCHAR(1000)", "HUGEINT": "DECIMAL(40, 0)", "TIMESTAMP": "DATETIME(6)"}

    def __init__(self) -> None:
        if shutil.which("mariadbd") is None:
            absent("mariadb", "mariadbd is not installed")
        self.folder = Path(tempfile.mkdtemp())
        self.socket = self.folder / "socket"
        place = [f"--datadir={self.folder}/data", "--user=root" if os.geteuid() == 0 else "--skip-name-resolve"]
        made_by = ["mariadb-install-db", "--no-defaults", "--auth-root-authentication-method=normal", *place]
        subprocess.run(made_by, check=True, capture_output=True)
        server = ["mariadbd", "--no-defaults", *place, f"--socket={self.socket}", "--skip-networking"]
        with (self.folder / "log").open("w") as log:
            self.server = subprocess.Popen([*server, "--innodb-buffer-pool-size=32M"], stdout=log, stderr=log)
        subprocess.run(
            ["mariadb-admin", f"--socket={self.socket}", "--wait=60", "ping"], check=True, capture_output=True
        )
        self._run("CREATE DATABASE lab CHARACTER SET utf8mb4", database="")

    def fill(self, types: dict[str, str], rows: Rows) -> None:
        """Create the table; its texts pass over letter case and trailing spaces, as they do by default."""
        values = ", ".join("(" + ", ".join(map(self._cell, row)) + ")" for row in rows)
        self._run(
            f"DROP TABLE IF EXISTS new_rows; CREATE TABLE new_rows ({made(types, self.kinds, '`')}); "
            f"INSERT INTO new_rows VALUES {values}"
        )

    def scored(self, model: Model, *, probabilities: bool = False) -> Rows:
        """Run the script as a file of commands; results come back in hexadecimal."""
        drops = "".join(f"DROP {kind} IF EXISTS {NAME}_{name};\n" for kind, name in MADE)
        text = export_script(model, dialect="mysql", form="view", name=NAME, probabilities=probabilities)
        columns = wanted(model, probabilities, "`").split(", ", 2)
        shown = ", ".join([columns[0], "HEX(CONVERT(prediction USING utf8mb4))", *columns[2:]])
        if model.schema.target is not None:
            shown = wanted(model, False, "`")
        found = self._run(f"{drops}{text}SELECT {shown} FROM {NAME}_scored ORDER BY {KEY};")
        return [self._row(line.split("\t"), number=model.schema.target is not None) for line in found.splitlines()]

    def close(self) -> None:
        """Stop the server."""
        self.server.terminate()
        self.server.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, text: str, *, database: str = "lab") -> str:
        latin = "--default-character-set=latin1"  # the script itself says that it is UTF-8
        command = ["mariadb", "--no-defaults", latin, f"--socket={self.socket}", "-uroot", "-N", "-B", database]
        done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()[:2000]
        return done.stdout.decode()

    @staticmethod
    def _row(cells: list[str], *, number: bool) -> tuple[Any, ...]:
        label = float(cells[1]) if number else bytes.fromhex(cells[1]).decode()
        return int(cells[0]), label, *map(float, cells[2:])

    @staticmethod
    def _cell(cell: Any) -> str:
        if isinstance(cell, str):
            return f"CONVERT(X'{hexed(cell)}' USING utf8mb4)"
        return (
            "NULL"
            if cell is None
            else f"{cell!r}e0".replace("e0", "", "e" in repr(cell))
            if isinstance(cell, float)
            else str(cell)
        )


class Postgres:
    """PostgreSQL, in a database of the test's own."""

    dialect, reals, names = "postgres", True, False
    kinds: ClassVar = {"DOUBLE": "DOUBLE PRECISION", "FLOAT": "REAL", "HUGEINT": "NUMERIC", "VARCHAR": "TEXT"}

    def __init__(self) -> None:
        psycopg = pytest.importorskip("psycopg")
        self.connection = psycopg.connect(fresh_database(), autocommit=True, prepare_threshold=None)

    def fill(self, types: dict[str, str], rows: Rows) -> None:
        """Create the table, values as parameters."""
        marks = ", ".join("%s" for _ in types)
        for kind, name in MADE:
            self.connection.execute(f"DROP {kind} IF EXISTS {NAME}_{name}")
        self.connection.execute("DROP TABLE IF EXISTS new_rows")
        self.connection.execute(f"CREATE TABLE new_rows ({made(types, self.kinds)})")
        with self.connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO new_rows VALUES ({marks})", rows)

    def scored(self, model: Model, *, probabilities: bool = False) -> Rows:
        """Run the script as one text."""
        for kind, name in MADE:
            self.connection.execute(f"DROP {kind} IF EXISTS {NAME}_{name}")
        self.connection.execute(
            export_script(model, dialect="postgres", form="view", name=NAME, probabilities=probabilities)
        )
        columns = wanted(model, probabilities)
        return self.connection.execute(f"SELECT {columns} FROM {NAME}_scored ORDER BY {KEY}").fetchall()

    def close(self) -> None:
        """Leave it; its server goes with the tests."""
        self.connection.close()


class Spark:
    """Spark beside this process: seconds for each query, so it runs few tests."""

    dialect, reals, names = "spark", True, False
    kinds: ClassVar = {"INTEGER": "INT", "HUGEINT": "DECIMAL(38,0)", "VARCHAR": "STRING", "TIMESTAMP": "TIMESTAMP_NTZ"}

    def __init__(self) -> None:
        self.session = spark().newSession()

    def fill(self, types: dict[str, str], rows: Rows) -> None:
        """Make a temporary view of the rows."""
        wide = [kind == "HUGEINT" for kind in types.values()]
        kept = [tuple(_decimal(cell) if huge else cell for cell, huge in zip(row, wide, strict=True)) for row in rows]
        self.session.createDataFrame(kept, made(types, self.kinds, "`")).createOrReplaceTempView("new_rows")

    def scored(self, model: Model, *, probabilities: bool = False) -> Rows:
        """Run the statements one by one; the last is the SELECT."""
        for _, name in MADE[1:]:
            self.session.sql(f"DROP TABLE IF EXISTS {NAME}_{name}")
        *before, query = _texts(model, self.dialect, "select", probabilities)
        for text in before:
            self.session.sql(text)
        self.session.sql(query).createOrReplaceTempView(f"{NAME}_scored")
        found = self.session.sql(f"SELECT {wanted(model, probabilities, '`')} FROM {NAME}_scored ORDER BY {KEY}")
        with warnings.catch_warnings():  # Spark leaves its sockets to the garbage collector
            warnings.simplefilter("ignore", ResourceWarning)
            rows = [tuple(row) for row in found.collect()]
            gc.collect()
        return rows

    def close(self) -> None:
        """Leave it to the other tests of this process, without the model's tables."""
        for _, name in MADE[1:]:
            self.session.sql(f"DROP TABLE IF EXISTS {NAME}_{name}")


def _texts(model: Model, dialect: str, form: str, probabilities: bool) -> list[str]:
    return export_statements(
        model, dialect=dialect, table="new_rows", form=form, name=NAME, probabilities=probabilities
    )


def _backslashed(text: str) -> str:
    return text.replace("\\", "\\\\")


def _decimal(cell: int | None) -> Decimal | None:
    return None if cell is None else Decimal(cell)


def _wide(cell: Any) -> bool:
    return isinstance(cell, Decimal) or (isinstance(cell, int) and abs(cell) >= 2**63)


ELSEWHERE: dict[str, Callable[[], Elsewhere]] = {
    "sqlite": Sqlite,
    "duckdb": Duckdb,
    "clickhouse": Clickhouse,
    "mariadb": Mariadb,
    "postgres": Postgres,
    "spark": Spark,
}
#: Those that take seconds for each query.
SLOW = ("spark",)
