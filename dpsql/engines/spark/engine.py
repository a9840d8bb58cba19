"""Spark: private rows stay in the cluster, aggregates alone are fetched; the ledger is in another database.

Each piece of work has a session of its own, cloned from the caller's: its settings are ours, its temporary views are
seen by nobody else, and what is kept behind them is let go at the end. Spark has no transactions, so dpsql's own tables
(ledger, models) are in a DuckDB file or in PostgreSQL. A charge is durable there before Spark is asked anything.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from sqlglot import exp

from dpsql.engines.base import ColumnNote, Engine, Health, TableInfo, Transaction, check_same
from dpsql.engines.error_replacement import COUNTING
from dpsql.engines.files import file_parts
from dpsql.engines.files.table_files import file_identities
from dpsql.engines.ledger_elsewhere import LedgerElsewhere
from dpsql.engines.spark import catalog, java_bridge
from dpsql.engines.spark.cursor import SparkWorkspace, replace_errors, spark_arrays
from dpsql.engines.spark.files import ParquetFolder, local_files
from dpsql.engines.spark.opening import Address, start
from dpsql.engines.spark.vocabulary import DIALECT, SparkVocabulary
from dpsql.engines.spec import Opening
from dpsql.errors import QueryFailed

#: What a session of ours is set to, whatever the caller's is: what SQL means, that no cell can make it fail (which is
#: what ANSI would do), that planning has an end, and that kept rows are stored as they are: they are read a few times.
SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.crossJoin.enabled": "true",
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.codegen.hugeMethodLimit": "65535",
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}
#: Settings of a whole application that show more than they should, and what they show to whom.
_OPEN = {
    "spark.ui.enabled": "its pages show how many rows each step of a query had, and its SQL",
    "spark.eventLog.enabled": "the log files show how many rows each step of a query had, and its SQL",
}
#: The functions that dpsql's SQL calls: each must be Spark's own. All that Spark's vocabulary may call are among them.
_CALLED = tuple(sorted({
    "array", "coalesce", "count", "exp", "floor", "greatest", "isnan", "least", "ln", "lower", "max", "nullif",
    "row_number", "shiftleft", "shiftright", "sum", "trim", "upper",
} | SparkVocabulary.functions - {"is_nan"}))  # fmt: skip
_BUILT_IN = "org.apache.spark.sql.catalyst.expressions."


def open_target(target: str, opening: Opening) -> SparkEngine:
    """Start a Spark application by the URL of its master."""
    return open_cluster(target, opening.open_ledger, wait=opening.wait)


def adopt_connection(connection: object, opening: Opening) -> SparkEngine:
    """Work through a session that the caller opened."""
    return adopt(connection, opening.open_ledger)


def open_cluster(target: str, ledger: Engine, *, wait: float = 2.0) -> SparkEngine:
    """Start a Spark application by the URL of its master; Parquet tables of the URL's folder are tables too."""
    address = Address.parse(target)
    session, owned = start(address, wait=wait)
    return SparkEngine(session, ledger, folder=address.folder, owned=owned)


def adopt(session: Any, ledger: Engine) -> SparkEngine:
    """Work through a session that the caller opened. It stays the caller's: its settings and views are left alone."""
    return SparkEngine(session, ledger, folder=None, owned=False)


class SparkEngine(LedgerElsewhere):
    """A Spark application and the database with its ledger, behind the protocol of `engines/base.py`."""

    dialect = DIALECT
    driver = "pyspark"
    title = "Spark"
    random_id = "uuid()"

    def __init__(self, session: Any, ledger: Engine, *, folder: Path | None, owned: bool) -> None:
        super().__init__(ledger)
        self.session = session
        self.files = ParquetFolder(folder)
        self.owned = owned
        self.vocabulary = SparkVocabulary()
        self.home = catalog.home_schema(session)

    def __repr__(self) -> str:
        return f"<Spark {self.files.path or self.home}, ledger in {self.ledger!r}>"

    def health(self) -> list[Health]:
        """Return Spark's version, what this application shows to others, and how the ledger's database is."""
        weak = self.weaknesses()
        return [
            Health("driver", True, f"pyspark {self.session.version}"),
            Health("application", not weak, " ".join(weak) or "shows nothing", "let dpsql start it: --db spark://…"),
            *self.ledger_health(),
        ]

    def weaknesses(self) -> list[str]:
        """Return one sentence for each protection that this application lacks (none for one that dpsql started)."""
        if self.owned:
            return self.ledger.weaknesses()
        values = {name: self.session.conf.get(name, _DEFAULTS[name]) for name in _OPEN}
        shown = [f"{name} is true: {what}." for name, what in _OPEN.items() if str(values[name]).lower() == "true"]
        return [*shown, "errors of Spark go to this application's own log, and can quote a cell.",
                *self.ledger.weaknesses()]  # fmt: skip

    def tables(self) -> list[str]:
        """Return the tables, views, temporary views and Parquet tables, by the names that `table` takes."""
        return sorted({place.called for place in catalog.places(self.session, self.files)})

    def table(self, name: str, *, schema: str | None = None) -> TableInfo | None:
        """Return what the catalog (or a Parquet footer) says of a table or view. Reads no row.

        A table is identified by the place of its files, and by the files themselves where they lie on this machine. One
        whose rows are in memory has no identity that outlasts Spark.
        """
        place = catalog.find_table(self.session, self.files, name, schema=schema)
        if place is None:
            return None
        info = catalog.describe(self.session, self.files, place)
        files = local_files(info.rows)
        if not files:
            return info
        with self.ledger.snapshot() as transaction:
            read_as = file_parts.read_as(transaction, file_parts.stamps_of(files))
        rows = info.rows | file_identities(files) | {file_parts.table_identity(info.name)}
        return replace(info, rows=rows, within=read_as - rows)

    def column_notes(self, info: TableInfo) -> dict[str, ColumnNote]:
        """Return what people wrote about a table's columns."""
        place = catalog.find_table(self.session, self.files, info.table, schema=info.schema)
        return {} if place is None else catalog.read_notes(self.session, self.files, place)

    def identify(self, transaction: Transaction, info: TableInfo) -> TableInfo:
        """Return the table as it is: its place is its identity."""
        return info

    def user_functions(self) -> list[str]:
        """Return the names of functions that users defined, and of built-in ones that they replaced."""
        shown = replace_errors("read its catalog", lambda: self.session.sql("SHOW USER FUNCTIONS").collect())
        return sorted({row[0].split(".")[-1].lower() for row in shown} | set(self.redefined_functions()))

    def macros(self) -> dict[str, str]:
        """Return nothing: models lie elsewhere, where no SQL of this database can read them."""
        return {}

    def redefined_functions(self) -> list[str]:
        """Return the built-in functions that a user's temporary function stands in for."""
        get = self.session.catalog.getFunction
        classes = replace_errors("read its catalog", lambda: {name: get(name).className for name in _CALLED})
        return sorted(name for name, class_name in classes.items() if not str(class_name).startswith(_BUILT_IN))

    @contextmanager
    def workspace(self, reads: Sequence[TableInfo] = ()) -> Iterator[SparkWorkspace]:
        """Open a workspace: a session of its own, and nothing of it left when it is closed."""
        read = {info.name: file_parts.stamps_of(local_files(info.rows)) for info in reads}
        file_parts.remember(self.ledger.transaction, read)
        workspace = SparkWorkspace(self._clone(), self.ledger, self.files)
        try:
            for before in reads:
                check_same(before, self.table(before.table, schema=before.schema))
                if before.kind == "table":
                    workspace.pin(before)
            yield workspace
        finally:
            workspace.close()

    def frame(self, query: exp.Expr, tables: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Run a query over public or released tables and return it as a DataFrame (predictions, never training)."""
        with self.workspace() as workspace:
            return pd.DataFrame(
                workspace.run("read the table", query, tables or {}, lambda frame: spark_arrays(frame.toArrow()))
            )

    def chunks(self, query: exp.Expr, rows: int) -> Iterator[pd.DataFrame]:
        """Run a query over public or released tables, and yield its rows as partitions are computed."""
        with self.workspace() as workspace:
            yield from map(pd.DataFrame, workspace.chunks("read the table", query, rows))

    def create(self, name: str, query: exp.Expr, tables: Mapping[str, Any] | None = None) -> None:
        """Create a table from a query over public or released tables: Parquet in the folder, or one of the catalog."""
        with self.workspace() as workspace:
            if (folder := self.files.path) is not None:
                part = folder / f".{secrets.token_hex(8)}"
                workspace.run("create the table", query, tables or {}, lambda frame: frame.write.parquet(str(part)))
                part.rename(folder / f"{name}.parquet")
                return
            place = exp.table_(name, db=self.home, quoted=True).sql(DIALECT)
            workspace.run("create the table", query, tables or {}, lambda frame: frame.write.saveAsTable(place))

    def close(self) -> None:
        """Let the ledger go, and stop the application if dpsql started it; one that died has nothing to stop.

        To tell of it here would hide the error of the work that it died in.
        """
        self.ledger.close()
        if self.owned:
            with suppress(QueryFailed):
                replace_errors("stop", self.session.stop)

    def _clone(self) -> Any:
        """Return a session with settings and temporary views of its own; it sees the caller's views as they are now."""

        def clone() -> Any:
            session = java_bridge.clone(self.session)
            for name, value in SETTINGS.items():
                session.conf.set(name, value)
            return session

        return replace_errors(COUNTING, clone)


_DEFAULTS = {"spark.ui.enabled": "true", "spark.eventLog.enabled": "false"}
