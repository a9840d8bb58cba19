"""Work in one Spark session: statements with their errors replaced, small tables, rows that are kept and let go."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as arrow
from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.functions import broadcast
from sqlglot import exp

from dpsql.engines.base import Arrays, Engine
from dpsql.engines.spark_vocabulary import DIALECT
from dpsql.errors import QueryFailed

_Result = TypeVar("_Result")
#: The one thing done on private rows: not even the kind of its failure is told.
COUNTING = "count the rows"
Tables = Mapping[str, Any]
#: How many expressions one stage may have, and more parts than a table is ever read in.
_LONG, _PARTS = 500, 1_000_000
#: Where a session's temporary views are said to be; no database can have that name.
SESSION = "(session)"
#: The schema of dpsql's own tables, which are where the ledger is.
OWN = "dpsql"


def guarded(doing: str, act: Callable[[], _Result]) -> _Result:
    """Do something in Spark; replace its errors, whose texts can quote cells, by our own.

    The new error is raised outside the except block, so that not even its context holds the old text.
    """
    try:
        return act()
    except (PySparkException, Py4JError, OSError) as error:
        kind = "why is withheld too" if doing == COUNTING else type(error).__name__
        hint = None if isinstance(error, AnalysisException) else "check that the cluster and its workers are up"
    raise QueryFailed(doing, kind, hint=hint)


def parquet_names(folder: Path | None) -> dict[str, Path]:
    """Return the Parquet tables of a folder by their names: files, and folders of files."""
    if folder is None:
        return {}
    entries = [entry for entry in sorted(folder.iterdir()) if not entry.name.startswith((".", "_"))]
    found = [entry for entry in entries if entry.suffix == ".parquet" or (entry.is_dir() and _has_parts(entry))]
    return {entry.name.removesuffix(".parquet"): entry for entry in found if not set(entry.name) & set("*?[]{}\\")}


def _has_parts(folder: Path) -> bool:
    return next(folder.rglob("*.parquet"), None) is not None


def as_arrow(columns: pd.DataFrame | Mapping[str, np.ndarray[Any, Any]]) -> arrow.Table:
    """Return whole columns as an Arrow table in types that Spark has."""
    return arrow.table({str(name): _as_arrow(np.asarray(values)) for name, values in columns.items()})


def _as_arrow(values: np.ndarray[Any, Any]) -> arrow.Array:
    if values.dtype == np.uint64:  # words of 64 bits: the signed numbers of the same bits
        return arrow.array(np.ascontiguousarray(values).view(np.int64))
    if values.dtype.kind == "u":
        return arrow.array(values.astype(np.int64 if values.dtype.itemsize > 1 else np.int16))
    if values.dtype.kind in "ifbM":
        return arrow.array(values)
    missing = pd.isna(values)
    held = {type(value) for value in values[~missing]}
    cells = [None if gone else value for gone, value in zip(missing, values, strict=True)]
    if len(held) == 1 and held <= {int, float, bool, str}:
        return arrow.array(cells)
    return arrow.array([None if value is None else str(value) for value in cells], arrow.string())


def arrays_of(found: arrow.Table) -> Arrays:
    """Return a result as one array for each column."""
    return {name: _array(found.column(place)) for place, name in enumerate(found.column_names)}


def _array(column: arrow.ChunkedArray) -> np.ndarray[Any, Any]:
    kind = column.type
    if arrow.types.is_decimal(kind):
        return np.array([np.nan if value is None else float(value) for value in column.to_pylist()], np.float64)
    if arrow.types.is_floating(kind) or (column.null_count == 0 and arrow.types.is_integer(kind)):
        return np.asarray(column.to_numpy())
    return np.array([*column.to_pylist(), None], object)[:-1]


class SparkWorkspace:
    """Temporary views in a session of their own, and the rows kept behind them, which go when it is closed."""

    def __init__(self, session: Any, ledger: Engine) -> None:
        self._session = session
        self._ledger = ledger
        self._kept: dict[str, Any] = {}

    def keep(self, name: str, query: exp.Expr, tables: Tables) -> None:
        """Keep the rows of a checked query; rows of a lost worker are worked out again, and are the same again."""
        held = self.run(COUNTING, query, tables, lambda frame: _stored(frame.persist(StorageLevel.MEMORY_AND_DISK)))
        guarded(COUNTING, lambda: held.createOrReplaceTempView(name))
        before, self._kept[name] = self._kept.get(name), held
        if before is not None:
            guarded(COUNTING, lambda: before.unpersist(blocking=False))

    def aggregate(self, query: exp.Expr, tables: Tables) -> Arrays:
        """Run one checked aggregate over private or kept rows; its groups alone are fetched."""
        return self.run(COUNTING, query, tables, lambda frame: arrays_of(frame.toArrow()))

    def run(self, doing: str, query: exp.Expr, tables: Tables, act: Callable[[Any], _Result]) -> _Result:
        """Do something with a query's rows, with `tables` loaded as small tables that every worker gets whole."""
        for name, columns in tables.items():
            self._load(name, columns)
        once: list[Any] = []
        try:
            text = _rendered(self._worked_out(doing, self._placed(query.copy()), once))
            return guarded(doing, lambda: act(self._session.sql(text)))
        finally:
            for frame in once:
                _forget(frame)

    def close(self) -> None:
        """Let all kept rows go, before anything else happens."""
        for frame in self._kept.values():
            guarded(COUNTING, lambda held=frame: held.unpersist(blocking=True))  # type: ignore[misc]
        self._kept = {}

    def _load(self, name: str, columns: Any) -> None:
        made = as_arrow(columns)
        guarded(
            "load a temporary table",
            lambda: broadcast(self._session.createDataFrame(made)).createOrReplaceTempView(name),
        )

    def _placed(self, query: exp.Expr) -> exp.Expr:
        """Return a query that finds what it names: the caller's temporary views, and tables that are with the ledger.

        A view of the caller's gets a name that no part of the query has; of dpsql's own tables the rows asked for,
        those of one model, are fetched from where they are.
        """
        for table in list(query.find_all(exp.Table)):
            name = f"found_{secrets.token_hex(8)}"
            if table.db == SESSION:
                view = exp.table_(table.name, quoted=True).sql(DIALECT)
                guarded("read its catalog", lambda v=view, n=name: self._session.table(v).createOrReplaceTempView(n))  # type: ignore[misc]
                table.replace(exp.alias_(exp.to_table(name), table.alias_or_name, table=True, quoted=True))
            elif table.db == OWN:
                asked = table.parent_select
                assert asked is not None
                with self._ledger.transaction() as transaction:
                    self._load(name, transaction.arrays(asked))
                asked.replace(exp.select("*").from_(name))
        return query

    def _worked_out(self, doing: str, query: exp.Expr, once: list[Any]) -> exp.Expr:
        """Return a query whose MATERIALIZED parts, which Spark has no word for, are views of rows worked out before.

        Numbers given to rows must not change while they are used: these rows are never worked out again, and a worker
        that is lost with them ends the statement.
        """
        for part in list(_materialized(query)):
            above = part.parent
            assert isinstance(above, exp.With)
            earlier = above.expressions[: above.expressions.index(part)]
            name = f"once_{secrets.token_hex(8)}"
            body = exp.select("*").from_(exp.to_identifier(part.alias))
            body.set("with_", exp.With(expressions=[one.copy() for one in (*earlier, part)]))
            for one in body.args["with_"].expressions:
                one.set("materialized", None)
            text = _rendered(body)
            frame = guarded(doing, lambda text=text: self._session.sql(text).localCheckpoint())  # type: ignore[misc]
            once.append(frame)
            guarded(doing, lambda frame=frame, name=name: frame.createOrReplaceTempView(name))  # type: ignore[misc]
            part.set("this", exp.select("*").from_(exp.to_identifier(name)))
            part.set("materialized", None)
            part.args["alias"].set("columns", None)
        return query


def _materialized(node: exp.Expr) -> Iterator[exp.CTE]:
    """Yield the MATERIALIZED parts of a query, those inside others and those before others first."""
    for inner in node.iter_expressions():
        yield from _materialized(inner)
    if isinstance(node, exp.CTE) and node.args.get("materialized"):
        yield node


def _rendered(query: exp.Expr) -> str:
    """Return a query's text, cut into stages whose generated code is short enough for Java to compile.

    Java leaves long methods to its interpreter, which is ten times slower. A COALESCE to more parts than there can be
    changes nothing about the rows, and ends a stage.
    """
    for parts in query.find_all(exp.With):
        length = 0
        for part in parts.expressions:
            length += sum(1 for _ in part.walk())
            if length > _LONG and isinstance(part.this, exp.Select):
                cut = exp.Anonymous(this="COALESCE", expressions=[exp.Literal.number(_PARTS)])
                part.this.set("hint", exp.Hint(expressions=[cut]))
                length = 0
    return query.sql(DIALECT, identify=True)


def _stored(frame: Any) -> Any:
    """Return the frame after all its rows were worked out and stored."""
    frame.write.format("noop").mode("overwrite").save()
    return frame


def _forget(frame: Any) -> None:
    """Let a checkpoint's rows go; a Spark Connect server does when nobody holds the frame."""
    if hasattr(frame, "_jdf"):
        guarded(COUNTING, lambda: frame._jdf.logicalPlan().rdd().unpersist(True))
