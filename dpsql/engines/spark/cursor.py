"""Work in one Spark session: statements with their errors replaced, small tables, rows that are kept and let go."""

from __future__ import annotations

import logging
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as arrow
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql.functions import broadcast
from pyspark.sql.pandas.types import to_arrow_schema
from sqlglot import exp

from dpsql.engines.arrow_columns import arrow_column
from dpsql.engines.base import OWN_SCHEMA, Arrays, Engine, TableInfo
from dpsql.engines.error_replacement import COUNTING, ErrorReplacement
from dpsql.engines.materialized_parts import store_materialized_parts
from dpsql.engines.spark import java_bridge
from dpsql.engines.spark.files import ParquetFolder, is_parquet
from dpsql.engines.spark.vocabulary import DIALECT
from dpsql.errors import QueryFailed, TableChanged

_Result = TypeVar("_Result")
try:
    from grpc import RpcError  # a Spark Connect server that cannot be reached
except ImportError:
    _ERRORS: tuple[type[Exception], ...] = (PySparkException, Py4JError, OSError)
else:
    _ERRORS = (PySparkException, Py4JError, OSError, RpcError)
Tables = Mapping[str, Any]
#: Expressions in one part of a query; after a longer part a new stage begins.
_LONG = 300
#: Expressions in one stage; a stage that grows longer ends.
_LONGEST = 1500
#: Pieces of a table; more than a table is ever read in.
_PIECES = 1_000_000
#: Types of cells that Spark takes as they are; others are handed over as texts.
_PLAIN = frozenset({int, float, bool, str})
#: Where a session's temporary views are said to be; no database can have that name.
SESSION = "(session)"


class _Withheld(logging.Filter):
    """Keeps pyspark from printing an error that happens in our own calls: it prints the text, which can quote cells."""

    _own = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        """Let errors of other calls through."""
        return not getattr(self._own, "calls", 0)

    @contextmanager
    def hold_back(self) -> Iterator[None]:
        """Hold back what this thread logs meanwhile."""
        self._own.calls = getattr(self._own, "calls", 0) + 1
        try:
            yield
        finally:
            self._own.calls -= 1


_WITHHELD = _Withheld()
for _name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
    PySparkLogger.getLogger(_name).addFilter(_WITHHELD)


#: Seconds that jobs have to stop. Spark plans a long statement for much longer, and listens to nothing meanwhile.
_PATIENCE = 1.0
_HINT = "check that the cluster and its workers are up"


def _reword(doing: str, error: Exception) -> QueryFailed:
    hint = None if isinstance(error, AnalysisException) else _HINT
    return QueryFailed(doing, type(error).__name__, hint=hint)


_replacement = ErrorReplacement(_ERRORS, _reword, _HINT, patience=_PATIENCE)


def replace_errors(doing: str, act: Callable[[], _Result], stop: Callable[[], object] | None = None) -> _Result:
    """Do something in Spark; replace its errors, whose texts can quote cells, by our own, and log nothing meanwhile."""

    def act_silently() -> _Result:
        with _WITHHELD.hold_back():  # in the thread that acts: it may be another one
            return act()

    return _replacement(doing, act_silently, stop)


def run_tagged(session: Any, doing: str, act: Callable[[], _Result]) -> _Result:
    """Do something in Spark that may take long, as `replace_errors` does; Ctrl-C stops its jobs, and no others.

    A tag is that of one thread. Jobs that start after a stop, as those of a statement that was being planned, are
    stopped by the next one, whether the caller still waits or not.
    """
    tag = f"dpsql_{secrets.token_hex(8)}"

    def act_with_tag() -> _Result:
        session.addTag(tag)
        try:
            return act()
        finally:
            session.removeTag(tag)

    def stop() -> None:
        with suppress(*_ERRORS), _WITHHELD.hold_back():
            session.interruptTag(tag)

    return replace_errors(doing, act_with_tag, stop)


def as_arrow(columns: pd.DataFrame | Mapping[str, np.ndarray[Any, Any]]) -> arrow.Table:
    """Return whole columns as an Arrow table in types that Spark has; one without NULL is said to have none."""
    arrays = {str(name): arrow_column(_as_signed(np.asarray(values)), _PLAIN) for name, values in columns.items()}
    fields = [arrow.field(name, column.type, nullable=column.null_count > 0) for name, column in arrays.items()]
    return arrow.table(list(arrays.values()), schema=arrow.schema(fields))


def _as_signed(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a column in a signed type; words of 64 bits are the signed numbers of the same bits."""
    if values.dtype == np.uint64:
        return np.ascontiguousarray(values).view(np.int64)
    if values.dtype.kind == "u":
        return values.astype(np.int64 if values.dtype.itemsize > 1 else np.int16)
    return values


def spark_arrays(result: arrow.Table) -> Arrays:
    """Return a result as one array for each column."""
    return {name: _array(result.column(place)) for place, name in enumerate(result.column_names)}


def _array(column: arrow.ChunkedArray) -> np.ndarray[Any, Any]:
    kind = column.type
    if arrow.types.is_decimal(kind):
        return np.array([np.nan if value is None else float(value) for value in column.to_pylist()], np.float64)
    if arrow.types.is_floating(kind) or (column.null_count == 0 and arrow.types.is_integer(kind)):
        return np.asarray(column.to_numpy())
    return np.array([*column.to_pylist(), None], object)[:-1]


class SparkWorkspace:
    """Temporary views in a session of their own, and the rows kept behind them, which go when it is closed.

    A view's name is never used again: Spark would forget the rows that were kept with the help of the view before.
    """

    def __init__(self, session: Any, ledger: Engine, files: ParquetFolder) -> None:
        self._session = session
        self._ledger = ledger
        self._files = files
        self._stored: dict[str, Any] = {}
        self._views: dict[str, str] = {}
        self._sources: dict[tuple[str, str], str] = {}
        self._facts: list[tuple[TableInfo, Any, Any]] = []
        self._fixed: list[Any] = []

    def pin(self, table: TableInfo) -> None:
        """See to it that all statements read the same rows of a table, or fail.

        The files of a table in a columnar format are listed once, and compared after every statement. What else a
        table may be made of cannot be compared: its rows are read once, and stored until the end.
        """
        place = exp.table_(table.table, db=table.schema)
        frame = self._frame(place)
        facts = replace_errors("read its catalog", lambda: java_bridge.file_facts(frame))
        if facts is None:
            frame = run_tagged(self._session, COUNTING, lambda: java_bridge.copy_rows(frame))
            self._fixed.append(frame)
        else:
            self._facts.append((table, frame, facts))
        self._sources[table.schema, table.table] = self._show("source", frame)

    def keep(self, name: str, query: exp.Expr, tables: Tables) -> None:
        """Keep the rows of a checked query; rows of a lost worker are computed again, and are the same again."""
        self._check()
        stored = self.run(COUNTING, query, tables, java_bridge.store, nested=True)
        self._check()
        self._show(name, stored)
        before, self._stored[name] = self._stored.get(name), stored
        if before is not None:
            replace_errors(COUNTING, lambda: before.unpersist(blocking=False))

    def aggregate(self, query: exp.Expr, tables: Tables) -> Arrays:
        """Run one checked aggregate over private or kept rows; its groups alone are fetched."""
        self._check()
        groups = self.run(COUNTING, query, tables, lambda frame: spark_arrays(frame.toArrow()))
        self._check()
        return groups

    def _check(self) -> None:
        for table, frame, before in self._facts:
            if replace_errors("read its catalog", lambda pinned=frame: java_bridge.file_facts(pinned)) != before:  # type: ignore[misc]
                raise TableChanged(
                    f'the files of table "{table.name}" changed while they were read, and the charge stays.',
                    hint="ask again when nobody writes to it",
                )

    def run(
        self, doing: str, query: exp.Expr, tables: Tables, act: Callable[[Any], _Result], *, nested: bool = False
    ) -> _Result:
        """Do something with a query's rows, with `tables` loaded as small tables that every worker gets in full."""
        with self.ready(doing, query, tables, nested=nested) as text:
            session = self._session  # by itself: a statement that is left behind must not hold the ledger open
            return run_tagged(session, doing, lambda: act(session.sql(text)))

    def chunks(self, doing: str, query: exp.Expr, rows: int) -> Iterator[Arrays]:
        """Yield a query's rows, partition by partition, `rows` at a time; the first even where there are none."""
        with self.ready(doing, query, {}) as text:
            frame = replace_errors(doing, lambda: self._session.sql(text))
            schema = replace_errors(doing, lambda: to_arrow_schema(frame.schema))
            given = replace_errors(doing, lambda: iter(frame.toLocalIterator()))
            first = True
            while True:
                listed = run_tagged(self._session, doing, lambda: list(islice(given, rows)))
                if not listed and not first:
                    return
                first = False
                columns = list(zip(*listed, strict=True)) or [()] * len(schema)
                arrays = [arrow.array(cells, field.type) for cells, field in zip(columns, schema, strict=True)]
                yield spark_arrays(arrow.Table.from_arrays(arrays, schema=schema))

    @contextmanager
    def ready(self, doing: str, query: exp.Expr, tables: Tables, *, nested: bool = False) -> Iterator[str]:
        """Give a query's text while what it reads is there: `tables`, and the rows of its MATERIALIZED parts."""
        for name, columns in tables.items():
            self._load(name, columns)
        once: list[Any] = []
        try:
            ready = store_materialized_parts(
                self._name_sources(query.copy()), lambda part: self._store_part(doing, part, once)
            )
            yield _render(ready, nested=nested)
        finally:
            for frame in once:
                replace_errors(COUNTING, lambda stored=frame: java_bridge.forget(stored))  # type: ignore[misc]

    def close(self) -> None:
        """Let all kept rows go, before anything else happens."""
        for frame in self._stored.values():
            replace_errors(COUNTING, lambda stored=frame: stored.unpersist(blocking=True))  # type: ignore[misc]
        for frame in self._fixed:
            replace_errors(COUNTING, lambda stored=frame: java_bridge.forget(stored))  # type: ignore[misc]
        self._stored, self._fixed, self._facts = {}, [], []

    def _load(self, name: str, columns: Any) -> None:
        arrow_table = as_arrow(columns)
        self._show(
            name,
            replace_errors("load a temporary table", lambda: broadcast(self._session.createDataFrame(arrow_table))),
        )

    def _show(self, name: str, frame: Any) -> str:
        """Let queries find a frame by a name, and return that of the view which shows it."""
        view = self._views[name] = f"{name}_{secrets.token_hex(8)}"
        replace_errors("make a temporary view", lambda: frame.createTempView(view))
        return view

    def _source(self, table: exp.Table) -> str:
        """Return the view that shows a view of the caller's or a Parquet table: the same files as long as we work."""
        key = table.db, table.name
        if key not in self._sources:
            self._sources[key] = self._show("source", self._frame(table))
        return self._sources[key]

    def _frame(self, table: exp.Table) -> Any:
        if is_parquet(table.db, table.name):
            return replace_errors("read its catalog", lambda: self._files.frame(self._session, table.name))
        place = exp.table_(table.name, db=None if table.db == SESSION else table.db, quoted=True).sql(DIALECT)
        return replace_errors("read its catalog", lambda: self._session.table(place))

    def _name_sources(self, query: exp.Expr) -> exp.Expr:
        """Return a query that finds what it names: small tables, kept rows, views of the caller's, Parquet, our own.

        What it reads gets a name that no part of the query has. Of dpsql's own tables, the rows that the query asks
        for, which are those of one model, are fetched from the ledger's database.
        """
        for table in list(query.find_all(exp.Table)):
            name = table.name
            if table.db == OWN_SCHEMA:
                model_rows = table.parent_select
                assert model_rows is not None
                with self._ledger.transaction() as transaction:
                    self._load(name, transaction.arrays(model_rows))
                model_rows.replace(exp.select("*").from_(self._views[name]))
                continue
            if table.db == SESSION or is_parquet(table.db, name) or (table.db, name) in self._sources:
                view = self._source(table)
            elif table.db or name not in self._views:
                continue
            else:
                view = self._views[name]
            table.replace(exp.alias_(exp.to_table(view), table.alias_or_name, table=True, quoted=True))
        return query

    def _store_part(self, doing: str, query: exp.Select, once: list[Any]) -> exp.Select:
        """Compute a query's rows now, and return the query that reads them."""
        text = _render(query)
        session = self._session
        frame = run_tagged(session, doing, lambda: java_bridge.copy_rows(session.sql(text)))
        once.append(frame)
        self._show("once", frame)
        return exp.select("*").from_(exp.to_table(self._views["once"]))


def _render(query: exp.Expr, *, nested: bool = False) -> str:
    """Return a query's text, cut into stages whose generated code is short enough for Java to compile.

    Java leaves long methods to its interpreter, which is ten times slower. A COALESCE to more pieces than there can be
    changes nothing about the rows, and ends a stage. Parts that are used once stand where they are used, which Spark
    reads sooner; with `nested` all do: rows stored for a query with a WITH of its own are not found again inside
    another WITH.
    """
    for parts in query.find_all(exp.With):
        length = 0
        for part in parts.expressions:
            own = sum(1 for _ in part.walk())
            length += own
            if (own > _LONG or length > _LONGEST) and isinstance(part.this, exp.Select):
                cut = exp.Anonymous(this="COALESCE", expressions=[exp.Literal.number(_PIECES)])
                part.this.set("hint", exp.Hint(expressions=[cut]))
                length = 0
    return (_nest_parts(query) if nested or _uses_each_part_once(query) else query).sql(DIALECT, identify=True)


def _uses_each_part_once(query: exp.Expr) -> bool:
    """Return whether no part of a query's WITH, the only one it has, is used twice."""
    parts = query.args.get("with_")
    if parts is None or len(list(query.find_all(exp.With))) > 1:
        return False
    names = {part.alias for part in parts.expressions}
    used = [table.name for table in query.find_all(exp.Table) if not table.db and table.name in names]
    return len(used) == len(set(used))


def _nest_parts(query: exp.Expr) -> exp.Expr:
    """Return a query with the parts of its WITH in the places of their names, each with the names of its columns.

    A part is copied for all places but its last one: a wide part that is used once moves there whole.
    """
    earlier_parts: dict[str, exp.CTE] = {}
    places = Counter(table.name for table in query.find_all(exp.Table) if not table.db)

    def put(body: exp.Expr) -> exp.Expr:
        for table in [source for source in body.find_all(exp.Table) if not source.db and source.name in earlier_parts]:
            part = earlier_parts[table.name]
            columns = [name.copy() for name in part.args["alias"].columns]
            place = exp.TableAlias(this=exp.to_identifier(table.alias_or_name), columns=columns)
            places[table.name] -= 1
            rows = part.this.copy() if places[table.name] else part.this
            table.replace(exp.Subquery(this=rows, alias=place))
        return body

    parts = query.args.get("with_")
    query.set("with_", None)
    for part in parts.expressions if parts else ():
        put(part.this)
        earlier_parts[part.alias] = part
    return put(query)
