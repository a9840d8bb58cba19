"""Prepares a PostgreSQL database: a schema and its tables, an owner's and an analysts' role, and who may do what.

A superuser runs it once. Afterwards the owner role owns everything of dpsql, an analyst reads released models, the
public ledger and the budgets, and calls functions; private tables, exact counts, partition keys and the budget's own
rows are out of the analyst's reach. With `plpython` an analyst trains inside the server with nothing but EXECUTE.
"""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sqlglot import exp

from dpsql.engines import sql_files
from dpsql.engines.base import Engine, Transaction
from dpsql.errors import DatabaseError, DpsqlError, ParameterError, UnknownName, UsageError
from dpsql.kernel.datasets.dataset import registered_datasets
from dpsql.ledger import Ledger
from dpsql.models.release_store import MODELS

if TYPE_CHECKING:
    from dpsql.engines.postgres.engine import PostgresEngine

#: The longest name of a role, in bytes: PostgreSQL cuts off longer ones.
_LONGEST_NAME = 63
#: The most characters of the name under which the ledger records an act.
_MOST_WHO = 200


@dataclass(frozen=True)
class PreparedServer:
    """What was prepared: the roles, whether the functions that train were installed, and warnings about what is open.

    `statistics` says whether row counts in the catalog were closed to other roles.
    """

    owner: str
    analyst: str
    plpython: bool
    statistics: bool
    warnings: tuple[str, ...] = ()


def prepare_server(
    engine: Engine,
    *,
    owner: str = "dpsql_owner",
    analyst: str = "dpsql_analyst",
    tables: Sequence[str] = (),
    plpython: bool = False,
    path: str | None = None,
    secret_folder: str | None = None,
    keep_statistics: bool = False,
    who: str = "dpsql init",
) -> PreparedServer:
    """Create schema, tables, roles and grants; anything that is there already is brought up to date.

    `tables` are private tables that the owner role may read, each in a schema that no analyst may enter: where analysts
    can name a table, the server's planner tells them how many rows it has. `path` is where the server's Python finds
    dpsql, and `secret_folder` where the server's user keeps the way back to it. A copy of a prepared database is taken
    for a database of its own, and its ledger says so.
    """
    if engine.dialect != "postgres":
        raise UsageError("roles are for PostgreSQL servers: who holds a file owns it.", hint="--db postgresql://…")
    _check_roles(owner, analyst)
    _check_superuser(engine)
    _check_tables(engine, tables)
    _check_schema(engine, owner)
    server = cast("PostgresEngine", engine)
    here, before = server.place()
    with engine.transaction() as transaction:
        for role in (owner, analyst):
            _create_role(transaction, role)
    _install(engine)
    if before not in ("", here):
        Ledger(engine).accept(f"{who}, for a copy: {before}"[:_MOST_WHO])
    values = _values(owner, analyst, here, path=path, secret_folder=secret_folder)
    statistics = [] if keep_statistics else ["statistics.sql"]
    renewed = _build(
        engine, owner, values, ["functions.sql", "init.sql", "uncounted.sql", *statistics], plpython=plpython
    )
    if renewed and before == here:
        Ledger(engine).accept(f"{who}, for a server that was moved or restored, or a new secret folder"[:_MOST_WHO])
    warnings = [] if keep_statistics else _close_counters(server)
    _check_closed(server, tables)
    for table in tables:
        _grant(engine, table, owner)
    warnings += _find_trouble(engine, values) if plpython else []
    warnings += _open_tables(server)
    warnings += [f"analysts can create in schema {schema}, which others meet." for schema in server.open_schemas()]
    return PreparedServer(owner, analyst, plpython, not keep_statistics, tuple(warnings))


def _check_roles(owner: str, analyst: str) -> None:
    for name, role in (("owner", owner), ("analyst", analyst)):
        if not role or len(role.encode()) > _LONGEST_NAME or "\x00" in role or role.startswith("pg_"):
            raise ParameterError(name, allowed="a role's name of 1 to 63 bytes, not beginning with pg_", given=role)
    if owner == analyst:
        raise ParameterError("analyst", allowed="another role than the owner's", given=analyst)


def _values(owner: str, analyst: str, here: str, *, path: str | None, secret_folder: str | None) -> dict[str, str]:
    """Return what stands for each name with a colon in the files of `sql/postgres`."""
    paths = [path] if path else packages()
    return {
        "owner": _identifier(owner),
        "analyst": _identifier(analyst),
        "place": _python({"path": paths, "folder": secret_folder, "owner": owner, "place": here}),
        "backend": _python(str(Path(paths[0]) / "dpsql" / "api" / "plpython_caller.py")),
        "loopback": _python(str(Path(paths[0]) / "dpsql" / "engines" / "postgres" / "loopback.py")),
        "here": _text(here),
    }


def _build(engine: Engine, owner: str, values: dict[str, str], files: Sequence[str], *, plpython: bool) -> bool:
    """Run the files in one transaction; return whether functions from before now have a new way back to the server."""
    prepared = plpython and _has_functions(engine)
    with engine.transaction() as transaction:
        _give_to_owner(transaction, owner)
        for name in [*files, *(["plpython.sql", "owner_functions.sql"] if plpython else [])]:
            _run(transaction, name, values)
        _give_to_owner(transaction, owner)
        return plpython and _check_secret(transaction) and prepared


def _has_functions(engine: Engine) -> bool:
    with engine.transaction() as transaction:
        return bool(transaction.rows("SELECT 1 WHERE to_regproc('dpsql.train') IS NOT NULL"))


def _check_secret(transaction: Transaction) -> bool:
    """Return whether the server has a new way back to itself; undo everything where it could not keep one."""
    (answer,) = transaction.rows(
        "SELECT current_setting('dpsql.problem', true) AS problem, current_setting('dpsql.secret', true) AS secret"
    )
    if answer["problem"]:
        raise DatabaseError(answer["problem"], hint="--secret-folder FOLDER, a place on the server's machine")
    return bool(answer["secret"] == "new")


def _find_trouble(engine: Engine, values: dict[str, str]) -> list[str]:
    """Return why functions inside the server would not work, [] where they would."""
    with engine.transaction() as transaction:
        _run(transaction, "check.sql", values)
        (answer,) = transaction.rows("SELECT current_setting('dpsql.problem', true) AS problem")
    return [f"functions inside the server do not work yet: {answer['problem']}"] if answer["problem"] else []


def _close_counters(server: PostgresEngine) -> list[str]:
    """Close the counters of the whole server in each of its databases; return a warning where that was not possible."""
    with server.transaction() as transaction:
        _run(transaction, "counters.sql", {})
    failed = [
        f'the server\'s counters may be open in database "{name}", which nobody can enter; its owner can let people in.'
        for name in server.shut_databases()
    ]
    for name in server.siblings():
        try:
            with closing(server.engine_on(name)) as other:
                with other.transaction() as transaction:
                    _run(transaction, "counters.sql", {})
                if other.counters_open():
                    failed.append(f'the server\'s counters stay open in database "{name}", whatever was tried.')
        except DpsqlError:
            failed.append(f'the server\'s counters stay open in database "{name}", which could not be entered.')
    return failed


def _check_closed(server: PostgresEngine, tables: Sequence[str]) -> None:
    """Refuse to hand over a private table that an analyst can name. All else is prepared by then, and stays."""
    for table in tables:
        info = server.table(table)
        for way in server.ways_in(info) if info is not None else ():
            raise UsageError(way.state, hint=f"{way.fix}; then dpsql init again")


def _open_tables(server: PostgresEngine) -> list[str]:
    """Return a warning for each table with a cap that an analyst can name.

    Such a table was registered before there were analysts.
    """
    book = Ledger(server)
    capped = [dataset for dataset in registered_datasets(book).values() if book.budget(dataset.payer).cap is not None]
    places = dict.fromkeys(place for dataset in capped for place in dataset.private_places)
    tables = [server.table(name, schema=schema) for schema, name in places]
    return [f"{way.state} {way.fix}." for info in tables if info is not None for way in server.ways_in(info)]


def _check_schema(engine: Engine, owner: str) -> None:
    """Refuse a schema dpsql in which another role owns something: that would be run as the owner or as a superuser."""
    with engine.transaction() as transaction:
        strangers = transaction.rows(_STRANGERS, (owner,))
    if strangers:
        raise DatabaseError(
            f'schema "dpsql" holds {strangers[0]["what"]}, of role "{strangers[0]["role"]}".',
            hint=f"drop it, or give that role's work to the owner: --owner {strangers[0]['role']}",
        )


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
        names = {"schema": _identifier(info.schema), "table": place, "owner": _identifier(owner)}
        _run(transaction, "grant.sql", names)


def _check_superuser(engine: Engine) -> None:
    with engine.transaction() as transaction:
        if not transaction.rows("SELECT 1 FROM pg_roles WHERE rolname = current_user AND rolsuper"):
            raise DatabaseError(
                "dpsql init must be run by a superuser.", hint="--db postgresql://postgres@HOST/DATABASE"
            )


def _create_role(transaction: Transaction, role: str) -> None:
    if not transaction.rows("SELECT 1 FROM pg_roles WHERE rolname = ?", (role,)):
        _run(transaction, "role.sql", {"role": _identifier(role)})


def _install(engine: Engine) -> None:
    """Create all tables of dpsql, as whoever is connected; `_give_to_owner` gives them away."""
    Ledger(engine).install()
    MODELS.install(engine)
    with engine.transaction() as transaction:
        for name in ("size.sql", "evaluation.sql", "domains.sql", "dropped_model.sql", "model_tag.sql"):
            for statement in sql_files.statements(name, engine.dialect):
                transaction.run(statement)


def _give_to_owner(transaction: Transaction, owner: str) -> None:
    """Make the owner role the owner of the schema and of everything in it."""
    _run(transaction, "own.sql", {"owner": _identifier(owner), "owner_name": _text(owner)})


def _run(transaction: Transaction, name: str, values: dict[str, str]) -> None:
    """Run the statements of a file of `sql/postgres` with names and texts, quoted already, in their places."""
    places = re.compile(rf"(?<!:):({'|'.join(values) or '(?!)'})\b")
    for statement in sql_files.statements(f"postgres/{name}"):
        transaction.run(places.sub(lambda place: values[place[1]], statement))


def _identifier(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql("postgres")


def _text(value: str) -> str:
    return exp.Literal.string(value).sql("postgres")


def _python(value: object) -> str:
    """Return a value as Python that can stand in the body of a function: without a dollar sign, which could end it."""
    return repr(value).replace("$", "\\x24")


def packages() -> list[str]:
    """Return where this Python finds dpsql and what it needs."""
    return [str(Path(__file__).resolve().parents[2]), sysconfig.get_path("purelib")]


_STRANGERS = """
WITH strangers AS (SELECT oid, rolname FROM pg_roles WHERE NOT rolsuper AND rolname <> ?),
home AS (SELECT oid, nspowner FROM pg_namespace WHERE nspname = 'dpsql')
SELECT what, rolname AS role FROM (
    SELECT 'the schema itself' AS what, nspowner AS owner FROM home
    UNION ALL SELECT 'table or view ' || relname, relowner FROM pg_class JOIN home ON relnamespace = home.oid
    UNION ALL SELECT 'function ' || proname, proowner FROM pg_proc JOIN home ON pronamespace = home.oid
    UNION ALL SELECT 'type ' || typname, typowner FROM pg_type JOIN home ON typnamespace = home.oid
    UNION ALL SELECT 'operator ' || oprname, oprowner FROM pg_operator JOIN home ON oprnamespace = home.oid
    UNION ALL SELECT 'trigger ' || tgname, proowner FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid
        JOIN pg_class ON pg_class.oid = tgrelid JOIN home ON relnamespace = home.oid
) AS things JOIN strangers ON strangers.oid = things.owner
ORDER BY what LIMIT 1
"""
