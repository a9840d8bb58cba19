"""chDB, ClickHouse inside this process: rows stay in its folder, aggregates alone are fetched; the ledger is elsewhere.

Each piece of work has a connection of its own beside the caller's: its settings are ours, and its temporary tables are
seen by nobody else and gone with it. ClickHouse has no transactions, so dpsql's own tables (ledger, models) are in a
DuckDB file or in PostgreSQL. A charge is durable there before chDB is asked anything. A process has one folder open.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from chdb import __version__ as _version
from chdb.session import Session
from sqlglot import exp

from dpsql.engines.base import ColumnNote, Engine, Health, TableInfo, Transaction, check_same
from dpsql.engines.chdb.catalog import describe, read_functions, read_notes, read_places
from dpsql.engines.chdb.vocabulary import DIALECT, ChdbVocabulary
from dpsql.engines.chdb.workspace import READ_CATALOG, ChdbWorkspace, engine_property, replace_errors
from dpsql.engines.identity_texts import with_mark
from dpsql.engines.ledger_elsewhere import LedgerElsewhere
from dpsql.engines.spec import Opening
from dpsql.engines.table_names import find_entry, full_name
from dpsql.errors import DatabaseError, DpsqlError

PREFIX = "chdb://"
#: The setting whose text tells one of our connections from the others.
_MARKED_BY = "log_comment"
#: What a connection of ours is set to: what SQL means, that long statements are taken, and that no trace of them stays.
SETTINGS = {
    "prefer_column_name_to_alias": 1, "join_use_nulls": 1, "transform_null_in": 0, "precise_float_parsing": 1,
    "least_greatest_legacy_null_behavior": 0, "aggregate_functions_null_for_empty": 1,
    "asterisk_include_materialized_columns": 1, "query_plan_remove_redundant_sorting": 0,
    "use_variant_as_common_type": 0,
    "max_query_size": 2**30, "max_ast_depth": 10**6, "max_ast_elements": 10**9, "max_expanded_ast_elements": 10**9,
    "max_parser_depth": 10**5, "max_parser_backtracks": 10**9, "max_subquery_depth": 10**4,
    "log_queries": 0, "use_query_cache": 0, "use_query_condition_cache": 0,
    # Rows never go to files of their own, which others could read: what does not fit in memory fails.
    **{f"max_bytes_{what}before_external_{work}": 0
       for what in ("", "ratio_") for work in ("group_by", "sort", "distinct", "join")},
}  # fmt: skip


def open_target(target: str, opening: Opening) -> ChdbEngine:
    """Open a folder of chDB by its URL."""
    return open_folder(target, opening.open_ledger)


def adopt_connection(connection: object, opening: Opening) -> ChdbEngine:
    """Work beside a session that the caller opened."""
    return adopt(connection, opening.open_ledger)


def open_folder(target: str, ledger: Engine) -> ChdbEngine:
    """Open a folder of chDB by its URL."""
    folder = Path(target.removeprefix(PREFIX))
    if not folder.is_dir() or not folder.is_absolute():
        raise DatabaseError(f'there is no folder "{folder}" of chDB.', hint="--db chdb:///path/of/folder")
    session = _try_open(str(folder))
    if session is None:
        raise DatabaseError(
            f'chDB cannot open "{folder}": a process has one folder open, and a folder one process.',
            hint="end the other one, or pass its session to dpsql.connect",
        )
    return ChdbEngine(session, ledger, owned=True)


def adopt(session: Any, ledger: Engine) -> ChdbEngine:
    """Work beside a session that the caller opened. It stays the caller's: its settings and tables are left alone."""
    return ChdbEngine(session, ledger, owned=False)


def _try_open(path: str) -> Any:
    try:
        return Session(path)  # type: ignore[no-untyped-call]
    except RuntimeError:
        return None


class ChdbEngine(LedgerElsewhere):
    """A folder of chDB (or its memory) and the database with its ledger, behind the protocol of `engines/base.py`."""

    dialect = DIALECT
    driver = "chdb"
    title = "chDB"
    random_id = "generateUUIDv4()"

    def __init__(self, session: Any, ledger: Engine, *, owned: bool) -> None:
        super().__init__(ledger)
        self.session = session
        self.owned = owned
        self.vocabulary = ChdbVocabulary()
        where = "SELECT currentDatabase() AS home, path FROM system.disks WHERE name = 'default' LIMIT 1"
        row = replace_errors(READ_CATALOG, lambda: session.query(where, "ArrowTable").to_pylist()[0])
        self.home, folder = row["home"], row["path"]
        self._paths = (":memory:", folder, folder.rstrip("/"))

    def __repr__(self) -> str:
        return f"<chDB {self.home}, ledger in {self.ledger!r}>"

    def health(self) -> list[Health]:
        """Return chDB's version, and how the ledger's database is."""
        return [Health("driver", True, f"chdb {_version}"), *self.ledger_health()]

    def weaknesses(self) -> list[str]:
        """Return one sentence for each protection that the caller's session or the ledger's database lacks."""
        error_texts = "system.errors of this process keeps the last text of each error, which can quote a cell."
        return [*([] if self.owned else [error_texts]), *self.ledger.weaknesses()]

    def tables(self) -> list[str]:
        """Return the tables and views, by the names that `table` takes."""
        return sorted(full_name(place, self.home) for place in read_places(self._ask))

    def table(self, name: str, *, schema: str | None = None) -> TableInfo | None:
        """Return what the catalog says of a table or view. Reads no row."""
        entry = find_entry(read_places(self._ask), name, schema=schema, home=self.home)
        return None if entry is None else describe(self._ask, *entry, self.home)

    def column_notes(self, info: TableInfo) -> dict[str, ColumnNote]:
        """Return what people wrote about a table's columns."""
        return read_notes(self._ask, info)

    def identify(self, transaction: Transaction, info: TableInfo) -> TableInfo:
        """Return a base table with its identity; one in memory gets it written into its comment."""
        if info.identity:
            return info
        comment = with_mark(
            read_places(self._ask)[info.schema, info.table]["comment"], identity := secrets.token_hex(16)
        )
        changed = exp.Var(this="MODIFY COMMENT " + exp.Literal.string(comment).sql(DIALECT))
        place = exp.table_(info.table, db=info.schema, quoted=True)
        with self.workspace() as workspace:
            workspace.alter(exp.Alter(this=place, kind="TABLE", actions=[changed]))
        return replace(info, identity=identity, rows=frozenset([identity]))

    def user_functions(self) -> list[str]:
        """Return the names of functions that users defined."""
        return sorted(read_functions(self._ask, system=False))

    def macros(self) -> dict[str, str]:
        """Return nothing: models lie elsewhere, where no SQL of this database can read them."""
        return {}

    def redefined_functions(self) -> list[str]:
        """Return the built-in functions that a user's stands in for: one may be called FLOOR, though not floor."""
        return sorted(read_functions(self._ask, system=False) & read_functions(self._ask, system=True))

    @contextmanager
    def workspace(self, reads: Sequence[TableInfo] = ()) -> Iterator[ChdbWorkspace]:
        """Open a workspace: a connection of its own, and nothing of it left when it is closed."""
        mark = secrets.token_hex(16)
        workspace = ChdbWorkspace(self._second_connection(mark), self.ledger, lambda: self._stop(mark))
        try:
            for before in reads:
                check_same(before, self.table(before.table, schema=before.schema))
                workspace.pin(before)
            yield workspace
        finally:
            workspace.close()

    def frame(self, query: exp.Expr, tables: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Run a query over public or released tables and return it as a DataFrame (predictions, never training)."""
        with self.workspace() as workspace:
            return workspace.run("read the table", query, tables or {}, workspace.fetch_frame)

    def chunks(self, query: exp.Expr, rows: int) -> Iterator[pd.DataFrame]:
        """Run a query over public or released tables, and yield its rows as ClickHouse streams them."""
        with self.workspace() as workspace:
            yield from workspace.chunks("read the table", query, rows)

    def create(self, name: str, query: exp.Expr, tables: Mapping[str, Any] | None = None) -> None:
        """Create a table from a query over public or released tables; ClickHouse names it when it is complete."""
        unordered = exp.Order(expressions=[exp.Ordered(this=exp.Tuple(), nulls_first=False)])
        properties = [engine_property("MergeTree"), unordered]
        with self.workspace() as workspace:
            place = exp.table_(name, db=self.home, quoted=True)
            workspace.run(
                "create the table", query, tables or {}, lambda ready: workspace.make(place, ready, properties)
            )

    def close(self) -> None:
        """Let the ledger go, and the folder if dpsql opened it."""
        self.ledger.close()
        if self.owned:
            replace_errors("close", self.session.close)

    def _ask(self, query: exp.Select) -> list[dict[str, str]]:
        """Return the rows of a question to the catalog; settings of the caller's session do not matter."""
        with self.workspace() as workspace:
            return workspace.run(READ_CATALOG, query, {}, workspace.fetch).to_pylist()

    def _stop(self, mark: str) -> None:
        """Have chDB stop what runs in the connection of a mark: from another one, and in no other."""
        settings = exp.Bracket(this=exp.column("Settings"), expressions=[exp.Literal.string(_MARKED_BY)])
        marked = settings.eq(exp.Literal.string(mark)).sql(DIALECT)
        with suppress(DpsqlError, RuntimeError), closing(self._second_connection()) as session:
            session.query(exp.Command(this="KILL QUERY WHERE", expression=f"{marked} ASYNC").sql(DIALECT))

    def _second_connection(self, mark: str = "") -> Any:
        """Return a connection with settings and temporary tables of its own; it is opened by the path that chDB was.

        The mark tells what runs in it from what runs in others.
        """
        session = next(filter(None, map(_try_open, self._paths)), None)
        if session is None:
            raise DatabaseError("chDB opens no second connection.", hint="use a Session of a folder, or of :memory:")
        items = [
            exp.EQ(this=exp.column(name), expression=exp.convert(value))
            for name, value in {**SETTINGS, _MARKED_BY: mark}.items()
        ]
        text = exp.Set(expressions=[exp.SetItem(this=item) for item in items]).sql(DIALECT)
        replace_errors("take its settings", lambda: session.query(text))
        return session
