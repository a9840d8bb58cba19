"""A PostgreSQL server with a private table and an analyst, ann, who may call dpsql's functions and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pytest

from dpsql.api import census
from dpsql.api.database import connect
from tests.servers import absent, fresh_database, has_plpython, secret_folder

OWNER = "own er"
PRIVATE = "private.people"
#: Nobody waits longer than so many seconds for what must come at once: machines that test are busy.
PATIENCE = 60.0


@dataclass(frozen=True)
class Server:
    """A prepared database: how to connect to it as a superuser, and as each role."""

    url: str

    def as_role(self, role: str, database: str | None = None) -> str:
        """Return the URL for another role, or another database of the server too."""
        found = self.url.replace("//tester@", f"//{role}@")
        return found if database is None else f"{found.rsplit('/', 1)[0]}/{database}"

    @property
    def name(self) -> str:
        """The database's name."""
        return self.url.rsplit("/", 1)[1]

    def run(self, *statements: str, role: str = "tester", database: str | None = None) -> list[tuple[Any, ...]]:
        """Run statements one by one in a session of a role's, and return the rows of the last."""
        psycopg = pytest.importorskip("psycopg")
        with psycopg.connect(self.as_role(role, database), autocommit=True) as connection:
            found = [connection.execute(statement) for statement in statements][-1]
            return list(found.fetchall()) if found.description else []

    def spent(self) -> int:
        """Return what all budgets have spent, in nano-epsilon."""
        return int(self.run("SELECT sum(spent) FROM dpsql.budget")[0][0])


def put(url: str, name: str, rows: int, seed: int = 1, *, schema: str = "public") -> None:
    """Create a table of so many people."""
    psycopg = pytest.importorskip("psycopg")
    people = census.rows(rows, seed=seed)
    with psycopg.connect(url, autocommit=True) as connection:
        kinds = ["TEXT" if people[column].dtype.kind in "OUT" else "BIGINT" for column in people]
        defined = ", ".join(f'"{column}" {kind}' for column, kind in zip(people, kinds, strict=True))
        connection.execute(f'CREATE TABLE "{schema}"."{name}" ({defined})')
        with connection.cursor() as cursor, cursor.copy(f'COPY "{schema}"."{name}" FROM STDIN') as copy:
            for row in people.astype(object).itertuples(index=False):
                copy.write_row([None if pd.isna(value) else value for value in row])


def prepared(*, rows: int = 1000, cap: int = 10, url: str | None = None) -> Server:
    """Return a database with private table people, public table newcomers, model "first", and ann, who may create.

    Private tables are in schema "private", which no analyst may enter; whoever may finds them by their names alone.
    """
    if not has_plpython():
        absent("postgres", "its server has no PL/Python (Debian: postgresql-plpython3)")
    server = Server(url or fresh_database())
    server.run("CREATE SCHEMA private", f"ALTER DATABASE {server.name} SET search_path = public, private")
    put(server.url, "people", rows, schema="private")
    put(server.url, "newcomers", 100, seed=2)
    with connect(server.url, who="boss") as db:
        db.init(owner=OWNER, analyst="analysts", tables=[PRIVATE], plpython=True, secret_folder=secret_folder())
        db.register(PRIVATE, census.SCHEMA, cap=cap)
        db.train(PRIVATE, epsilon="0.1", method="rdt", name="first", trees=2, depth=2)
    if not server.run("SELECT 1 FROM pg_roles WHERE rolname = 'ann'"):
        server.run('CREATE ROLE ann LOGIN IN ROLE "analysts"')
    server.run(f'GRANT SELECT ON newcomers TO ann, "{OWNER}"', "GRANT CREATE ON SCHEMA public TO ann")
    return server


def wait_for(condition: Callable[[], bool]) -> bool:
    """Return whether a condition comes true in time."""
    ends = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > ends:
            return False
    return True
