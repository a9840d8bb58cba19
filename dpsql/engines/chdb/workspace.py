"""Work in one connection of chDB: statements with their errors replaced, and temporary tables that go with it."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as arrow
from sqlglot import exp

from dpsql.engines.arrow_columns import arrow_column
from dpsql.engines.base import OWN_SCHEMA, Arrays, Engine, TableInfo
from dpsql.engines.chdb.table_state import MERGE_TREE, State, check_state, engine_of
from dpsql.engines.chdb.vocabulary import DIALECT, render
from dpsql.engines.error_replacement import COUNTING, ErrorReplacement
from dpsql.engines.materialized_parts import store_materialized_parts
from dpsql.errors import QueryFailed

_Result = TypeVar("_Result")
READ_CATALOG = "read its catalog"
#: Types that Arrow has no word for: shown as text.
_SHOWN = re.compile(r"\b(Enum|U?Int128|U?Int256|UUID|IPv)")


def _reword(doing: str, error: Exception) -> QueryFailed:
    return QueryFailed(doing, type(error).__name__)


replace_errors = ErrorReplacement((RuntimeError, UnicodeError, arrow.ArrowException), _reword)


class ChdbWorkspace:
    """Temporary tables in a connection of their own, which go when it is closed. A table's name is never used again."""

    def __init__(self, session: Any, ledger: Engine, stop: Callable[[], object]) -> None:
        self._session = session
        self._ledger = ledger
        self._stop = stop
        self._names: dict[str, str] = {}
        self._states: list[tuple[TableInfo, State]] = []
        self._copies: dict[tuple[str, str], str] = {}

    def pin(self, table: TableInfo) -> None:
        """See to it that all statements read the same rows of a table, or fail."""
        if engine_of(self._rows, table) == MERGE_TREE:
            self._states.append((table, State.read(self._rows, table)))
            return
        place = exp.table_(table.table, db=table.schema, quoted=True)
        replace_errors(COUNTING, lambda: self._store("copy", exp.select("*").from_(place)), self._stop)
        self._copies[table.schema, table.table] = self._names.pop("copy")

    def keep(self, name: str, query: exp.Expr, tables: Mapping[str, Any]) -> None:
        """Keep the rows of a checked query, in memory, in place of those kept before."""
        before = self._names.get(name)
        self.run(COUNTING, query, tables, lambda ready: self._store(name, ready))
        self._check()
        if before is not None:
            self._drop(before)

    def aggregate(self, query: exp.Expr, tables: Mapping[str, Any]) -> Arrays:
        """Run one checked aggregate over private or kept rows; its groups alone are fetched."""
        groups = self.run(COUNTING, query, tables, self.fetch)
        self._check()
        return {name: np.asarray(groups.column(name).to_numpy()) for name in groups.column_names}

    def run(
        self, doing: str, query: exp.Expr, tables: Mapping[str, Any], act: Callable[[exp.Expr], _Result]
    ) -> _Result:
        """Do something with a query, with `tables` loaded for it and its MATERIALIZED parts computed before."""
        with self.ready(doing, query, tables) as ready:
            return replace_errors(doing, lambda: act(ready), self._stop)

    @contextmanager
    def ready(self, doing: str, query: exp.Expr, tables: Mapping[str, Any]) -> Iterator[exp.Expr]:
        """Give a query while what it reads is there: `tables`, and the rows of its MATERIALIZED parts."""
        for name, columns in tables.items():
            self._load(name, columns)
        once: list[str] = []
        try:
            yield store_materialized_parts(
                self._name_sources(query.copy()), lambda part: self._store_part(doing, part, once)
            )
        finally:
            for table in [*once, *(self._names.pop(name) for name in tables)]:
                self._drop(table)

    def chunks(self, doing: str, query: exp.Expr, rows: int) -> Iterator[pd.DataFrame]:
        """Yield a query's rows while it runs, about `rows` at a time; the first chunk even where there are none."""
        with self.ready(doing, query, {}) as ready:
            text = replace_errors(doing, lambda: render(self._with_texts(ready)))
            stream = replace_errors(doing, lambda: self._session.send_query(text, "Arrow"), self._stop)
            try:
                blocks = replace_errors(doing, lambda: iter(stream.record_batch(rows)))
                block = replace_errors(doing, lambda: next(blocks, None), self._stop)
                if block is None:
                    yield replace_errors(doing, lambda: self.fetch_frame(ready))
                while block is not None:
                    yield block.to_pandas(integer_object_nulls=True)
                    block = replace_errors(doing, lambda: next(blocks, None), self._stop)
            finally:
                stream.close()

    def fetch(self, query: exp.Expr) -> arrow.Table:
        """Return a query's rows."""
        return self._session.query(render(query), "ArrowTable")

    def fetch_frame(self, query: exp.Expr) -> pd.DataFrame:
        """Return a query's rows, with types that Arrow has no word for as text."""
        return self.fetch(self._with_texts(query)).to_pandas(integer_object_nulls=True)

    def _with_texts(self, query: exp.Expr) -> exp.Expr:
        """Return a query whose columns of types that Arrow has no word for are texts."""
        described = exp.Describe(this=exp.Subquery(this=query))
        kinds = {row["name"]: row["type"] for row in self.fetch(described).to_pylist()}
        odd = [exp.column(name, quoted=True) for name, kind in kinds.items() if _SHOWN.search(kind)]
        if not odd:
            return query
        texts = [exp.alias_(exp.cast(column, exp.DataType.Type.TEXT), column.name, quoted=True) for column in odd]
        return exp.select(exp.Star(replace=texts)).from_(exp.Subquery(this=query))

    def alter(self, change: exp.Alter) -> None:
        """Change what the catalog says of a table."""
        replace_errors("write to its catalog", lambda: self._session.query(change.sql(DIALECT, identify=True)))

    def make(self, place: exp.Table, query: exp.Expr, properties: Sequence[exp.Expr]) -> None:
        """Create a table of a query's rows."""
        clauses = exp.Properties(expressions=list(properties))
        self._session.query(render(exp.Create(this=place, kind="TABLE", expression=query, properties=clauses)))

    def close(self) -> None:
        """Let the connection go, and all temporary tables with it."""
        replace_errors(COUNTING, self._session.close)

    def _check(self) -> None:
        for table, state in self._states:
            check_state(self._rows, table, state)

    def _rows(self, query: exp.Select) -> list[dict[str, Any]]:
        return list(self.run(READ_CATALOG, query, {}, self.fetch).to_pylist())

    def _load(self, name: str, columns: Any) -> None:
        table = exp.Anonymous(this="Python", expressions=[exp.column("given")])

        def store(given: arrow.Table) -> None:
            """Store an Arrow table, which chDB finds by the argument's name."""
            self._store(name, exp.select("*").from_(exp.Table(this=table)))

        arrays = {str(column): arrow_column(np.asarray(values)) for column, values in columns.items()}
        replace_errors("load a temporary table", lambda: store(arrow.table(arrays)))

    def _store(self, name: str, query: exp.Expr) -> None:
        """Store a query's rows, and let queries find them by a name."""
        stored = f"{name}_{secrets.token_hex(8)}"
        self.make(exp.table_(stored, quoted=True), query, [exp.TemporaryProperty(), engine_property("Memory")])
        self._names[name] = stored

    def _drop(self, stored: str) -> None:
        text = exp.Drop(tables=[exp.table_(stored, quoted=True)], kind="TABLE", temporary=True).sql(DIALECT)
        replace_errors(COUNTING, lambda: self._session.query(text))

    def _name_sources(self, query: exp.Expr) -> exp.Expr:
        """Return a query that finds what it names: small tables, kept rows, and the rows of one model.

        These, of dpsql's own tables, are fetched from where the ledger is.
        """
        for table in list(query.find_all(exp.Table)):
            if table.db == OWN_SCHEMA:
                model_rows = table.parent_select
                assert model_rows is not None
                with self._ledger.transaction() as transaction:
                    self._load(table.name, transaction.arrays(model_rows))
                model_rows.replace(exp.select("*").from_(exp.table_(self._names[table.name], quoted=True)))
            elif (table.db, table.name) in self._copies or (not table.db and table.name in self._names):
                stored = self._copies.get((table.db, table.name)) or self._names[table.name]
                source = exp.table_(stored, quoted=True)
                table.replace(exp.alias_(source, table.alias_or_name, table=True, quoted=True))
        return query

    def _store_part(self, doing: str, query: exp.Select, once: list[str]) -> exp.Select:
        """Compute a query's rows now, and return the query that reads them."""
        replace_errors(doing, lambda: self._store("once", query), self._stop)
        once.append(self._names.pop("once"))
        return exp.select("*").from_(exp.table_(once[-1], quoted=True))


def engine_property(name: str) -> exp.Expr:
    """Return the part of CREATE TABLE that names how ClickHouse stores the rows."""
    return exp.EngineProperty(this=exp.to_identifier(name))
