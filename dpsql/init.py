"""Prepares a PostgreSQL database: a schema and its tables, an owner's and an analysts' role, and who may do what.

Run once, by a superuser. Afterwards the owner role owns everything of dpsql, an analyst reads released models, the
public ledger and the budgets, and calls functions; private tables, exact counts, partition keys and the budget's own
rows are out of the analyst's reach. With `plpython` an analyst trains inside the server with nothing but EXECUTE.
"""

from __future__ import annotations

import re
import secrets
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from sqlglot import exp

from dpsql import shelf, sqlfiles
from dpsql.engines.base import Engine, Transaction
from dpsql.errors import DatabaseError, ParameterError, UnknownName, UsageError
from dpsql.ledger import Ledger

_LONGEST = 63


@dataclass(frozen=True)
class Prepared:
    """What was prepared: the roles, and whether the functions that train were installed."""

    owner: str
    analyst: str
    plpython: bool
    statistics: bool


def init(
    engine: Engine,
    *,
    owner: str = "dpsql_owner",
    analyst: str = "dpsql_analyst",
    tables: Sequence[str] = (),
    plpython: bool = False,
    path: str | None = None,
    keep_statistics: bool = False,
) -> Prepared:
    """Create schema, tables, roles and grants; anything that is there already is brought up to date.

    `tables` are private tables that the owner role may read; `path` is where the server's Python finds dpsql.
    """
    if engine.dialect != "postgres":
        raise UsageError("roles are for PostgreSQL servers: who holds a file owns it.", hint="--db postgresql://…")
    for name, role in (("owner", owner), ("analyst", analyst)):
        if not role or len(role.encode()) > _LONGEST or "\x00" in role or role.startswith("pg_"):
            raise ParameterError(name, allowed="a role's name of 1 to 63 bytes, not beginning with pg_", given=role)
    if owner == analyst:
        raise ParameterError("analyst", allowed="another role than the owner's", given=analyst)
    _check_superuser(engine)
    _check_tables(engine, tables)
    names = {"owner": _quoted(owner), "analyst": _quoted(analyst), "path": repr([path] if path else packages())}
    with engine.transaction() as transaction:
        for role in (owner, analyst):
            _create_role(transaction, role)
    _install(engine)
    with engine.transaction() as transaction:
        _own(transaction, owner)
        files = ["functions.sql", "init.sql", *([] if keep_statistics else ["statistics.sql"])]
        for name in [*files, *(["plpython.sql"] if plpython else [])]:
            _run(transaction, name, names)
        _own(transaction, owner)
        if plpython:
            _connect_back(transaction, owner)
    for table in tables:
        _grant(engine, table, owner)
    return Prepared(owner, analyst, plpython, not keep_statistics)


def _check_tables(engine: Engine, tables: Sequence[str]) -> None:
    for table in tables:
        if engine.table(table) is None:
            raise UnknownName("table", table, engine.tables())


def _grant(engine: Engine, table: str, owner: str) -> None:
    """Let the owner role read a private table; nobody else is given anything."""
    info = engine.table(table)
    assert info is not None
    place = exp.table_(info.table, db=info.schema, quoted=True).sql("postgres")
    with engine.transaction() as transaction:
        names = {"schema": _quoted(info.schema), "table": place, "owner": _quoted(owner)}
        _run(transaction, "grant.sql", names)


def _check_superuser(engine: Engine) -> None:
    with engine.transaction() as transaction:
        if not transaction.rows("SELECT 1 FROM pg_roles WHERE rolname = current_user AND rolsuper"):
            raise DatabaseError(
                "dpsql init must be run by a superuser.", hint="--db postgresql://postgres@HOST/DATABASE"
            )


def _create_role(transaction: Transaction, role: str) -> None:
    if not transaction.rows("SELECT 1 FROM pg_roles WHERE rolname = ?", (role,)):
        _run(transaction, "role.sql", {"role": _quoted(role)})


def _install(engine: Engine) -> None:
    """Create all tables of dpsql, as whoever is connected; `_own` gives them away."""
    Ledger(engine).install()
    shelf.install(engine)
    with engine.transaction() as transaction:
        for name in ("size.sql", "evaluation.sql"):
            for statement in sqlfiles.statements(name, engine.dialect):
                transaction.run(statement)


def _own(transaction: Transaction, owner: str) -> None:
    """Make the owner role the owner of the schema and of everything in it."""
    _run(transaction, "own.sql", {"owner": _quoted(owner), "owner_name": _text(owner)})


def _connect_back(transaction: Transaction, owner: str) -> None:
    """Give the owner role a password that nobody knows, and keep with it how to connect to this very server."""
    password = secrets.token_urlsafe(32)
    _run(transaction, "login.sql", {"owner": _quoted(owner), "password": _text(password)})
    (here,) = transaction.rows(
        "SELECT current_setting('port') AS port, current_database() AS name, "
        "coalesce(host(inet_server_addr()), '127.0.0.1') AS host"
    )
    conninfo = f"postgresql://{_url(owner)}:{_url(password)}@{here['host']}:{here['port']}/{_url(here['name'])}"
    transaction.run("INSERT INTO dpsql.loopback VALUES (?)", (conninfo,))


def _run(transaction: Transaction, name: str, values: dict[str, str]) -> None:
    """Run the statements of a file of `sql/postgres` with names and texts, quoted already, in their places."""
    places = re.compile(rf"(?<!:):({'|'.join(values)})\b")
    for statement in sqlfiles.statements(f"postgres/{name}"):
        transaction.run(places.sub(lambda place: values[place[1]], statement))


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql("postgres")


def _text(value: str) -> str:
    return exp.Literal.string(value).sql("postgres")


def _url(value: str) -> str:
    return quote(value, safe="")


def packages() -> list[str]:
    """Return where this Python finds dpsql and what it needs."""
    return [str(Path(__file__).resolve().parent.parent), sysconfig.get_path("purelib")]
