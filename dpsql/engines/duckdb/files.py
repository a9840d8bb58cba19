"""One table of Parquet or CSV files in DuckDB: what its columns are, how its rows are read, and each row's address.

Parquet is read in place. Columns and types are those of the footer, the same in every part of a table. A row's
address is the number of its file and its place in it: no two rows share one, and it is the same in every statement of a
session, which is all that a keyed hash needs to deal rows out (`row_number() OVER ()` would promise neither).

CSV has no such address. Hashing whole rows would be private (a ticket is then a function of the row alone), but equal
rows would all go to one tree, which makes trees on few columns nearly useless. So a session loads a CSV file once, into
a temporary table of its own; the address is that table's.

Every cell of CSV is text, and so is what folders named `column=value` say: a type guessed from rows, or from which
folders there are, would be a fact about rows. Such a column is untyped, and a numeric feature is what TRY_CAST makes of
it: NULL where a cell holds no number. A line with too few cells is left out. None of this can make a statement fail.

A CSV file is read by one thread: several would each guess where a row starts, and with line breaks inside quotes one
row's length then changes many others. `csv_rows.py` refuses files in which one row can change others even so.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
from sqlglot import exp

from dpsql.engines.base import Column, TableInfo
from dpsql.engines.duckdb.catalog import duckdb_family
from dpsql.engines.duckdb.cursor import create_temporary, fetch_from_duckdb, replace_errors
from dpsql.engines.duckdb.vocabulary import DIALECT
from dpsql.engines.error_replacement import COUNTING
from dpsql.engines.files.csv_header import read_header
from dpsql.engines.files.csv_rows import check_rows
from dpsql.engines.files.file_parts import stamps_of, table_identity
from dpsql.engines.files.sqlite_rows import column_names, read_chunks
from dpsql.engines.files.table_files import CSV, SQLITE, TableFiles, file_identities
from dpsql.errors import DatabaseError, DpsqlError, TableChanged

#: How the comments of views that stand for files begin; a digest of the view's text follows.
MARK = "dpsql file "
#: DuckDB's own columns of a Parquet row. A file that has one of these names cannot be addressed.
FILE = "file_index"
PLACE = "file_row_number"
ADDRESS = "rowid"
#: Bits of an address that hold the row's place in its file; the bits above them hold the number of the file.
_PLACES = 40
#: Bytes of a line that DuckDB takes. `csv_rows.LONGEST_ROW` is less.
_LONGEST_LINE = 2_000_000
_CHUNK = "dpsql_batch"
#: How many different lists of columns the footers of some files have.
SHAPES = """
SELECT COUNT(DISTINCT shape)
FROM (
  SELECT list({{'name': name, 'type': duckdb_type, 'inside': num_children}} ORDER BY column_id) AS shape
  FROM parquet_schema({parts}) WHERE column_id > 0 GROUP BY file_name
)
"""
_Facts = tuple[tuple[int, ...], ...]


class FileTable:
    """One table of files: its columns, and the query that reads its rows."""

    def __init__(self, files: TableFiles, cursor: duckdb.DuckDBPyConnection) -> None:
        self.files = files
        self.name = files.name
        self._facts = _facts(files)
        self._connection = cursor
        self._checked = False
        self._problem: DpsqlError | None = None
        self._columns: tuple[Column, ...] = ()
        try:
            if files.kind == CSV:
                self._header = read_header(files.paths[0])
                self._columns = tuple(Column(name, "VARCHAR", "untyped") for name in self._header.names)
            elif files.kind == SQLITE:
                names = column_names(files.paths[0], files.name)
                self._columns = tuple(Column(name, "VARCHAR", "untyped") for name in names)
            else:
                self._columns = self._footer(cursor)
        except OSError:
            self._problem = DatabaseError(f"{files.words} cannot be read.", hint="check its permissions")
        except DpsqlError as problem:
            self._problem = problem

    @property
    def readable(self) -> bool:
        """Whether the files could be read when they were opened."""
        return self._problem is None

    def info(self) -> TableInfo | None:
        """Return what the files' headers or footers say; None when the files are gone."""
        if not all(path.exists() for path in self.files.paths):
            return None
        if self._problem is not None:
            raise self._problem
        self.check()
        self._check_rows()
        files = file_identities([self.files.place, *self.files.paths])
        rows = frozenset(f"{identity}{self.files.part}" for identity in files) | {table_identity(self.name)}
        return TableInfo(self.name, "main", self.name, self._columns, "table", rows=rows)

    def stamps(self) -> frozenset[str]:
        """Return what tells the files as they were last written."""
        return frozenset(f"{stamp}{self.files.part}" for stamp in stamps_of(self.files.paths))

    def check(self, when: str = "since they were opened") -> None:
        """Raise TableChanged unless the files are those that were opened."""
        if _facts(self.files) != self._facts:
            raise TableChanged(f'the files of table "{self.name}" have changed {when}.', hint="open them again")

    def _check_rows(self) -> None:
        """Raise DatabaseError unless every row can be read; looked at once, as the files stay the same.

        The rows of CSV must be told apart, the texts of Parquet be UTF-8, and its decimals have as many digits as they
        say: DuckDB fails on other cells, and a run would fail with it. Here the file is refused before a charge, and
        its owner mends it.
        """
        if self._checked:
            return
        if self.files.kind == CSV:
            check_rows(self.files.paths[0], self._header)
        elif self.files.kind != SQLITE:
            self._check_cells()
        self.check()
        self._checked = True

    def _check_cells(self) -> None:
        """Read all texts and decimals of Parquet once, and raise DatabaseError where one of them cannot be used."""
        texts = [column.name for column in self._columns if column.type == "VARCHAR"]
        looks: list[exp.Expr] = [exp.Length(this=exp.column(name, quoted=True)) for name in texts]
        decimals = [column for column in self._columns if column.type.startswith("DECIMAL(")]
        beyond = [exp.case().when(_is_beyond(column.name, column.type), exp.Literal.number(1)) for column in decimals]
        maxima = exp.select(*(exp.Max(this=expression) for expression in (*looks, *beyond)))
        if not looks and not beyond:
            return
        query = maxima.from_(exp.Table(this=self._parquet(self.files.paths))).sql(DIALECT)
        cursor = self._connection.cursor()
        try:
            cells = replace_errors(COUNTING, lambda: cursor.execute(query).fetchall(), cursor.interrupt)[0]
            problem = "have more digits than their type" if any(cells[len(looks) :]) else ""
        except DpsqlError:
            problem = "cannot be read: damaged, or not UTF-8"
        finally:
            cursor.close()
        if problem:
            raise DatabaseError(f"cells of {self.files.words} {problem}.", hint="write it again, texts as UTF-8")

    def rows(self, *, addressed: bool = False) -> exp.Select:
        """Return the query that reads the rows, with their addresses where the file format has them."""
        if self.files.kind == CSV:
            return exp.select("*").from_(exp.Table(this=self._csv()))
        query = exp.select("*").from_(exp.Table(this=self._parquet(self.files.paths)))
        if not addressed or any(column.name.lower() == ADDRESS for column in self._columns):
            return query  # a column of that name is then the address, as in a table of the database
        return query.select(exp.alias_(_address(), ADDRESS))

    def load(self, cursor: duckdb.DuckDBPyConnection, name: str) -> None:
        """Load the rows of CSV or SQLite into a temporary table of a cursor's own."""
        if self.files.kind != SQLITE:
            text = create_temporary(name, self.rows()).sql(DIALECT)
            replace_errors(COUNTING, lambda: cursor.execute(text).fetchall(), cursor.interrupt)
            return
        names = [column.name for column in self._columns]
        empty = exp.select(*(exp.alias_(_as_text(exp.null()), name, quoted=True) for name in names)).limit(0)
        place = exp.table_(name, db="main", catalog="temp", quoted=True)
        cells = exp.select(*(_as_text(exp.column(column, quoted=True)) for column in names)).from_(_CHUNK)
        append = exp.Insert(this=place, expression=cells).sql(DIALECT)
        replace_errors(COUNTING, lambda: cursor.execute(create_temporary(name, empty).sql(DIALECT)))
        for chunk in read_chunks(self.files.paths[0], self.files.name, names):
            replace_errors(COUNTING, partial(_append, cursor, append, chunk))

    def view(self) -> exp.Create:
        """Return the statement of the view that stands for the files where people type SQL."""
        return exp.Create(this=self._reference(), kind="VIEW", replace=True, expression=self.rows())

    def comment(self) -> str:
        """Return the view's comment, which changes when the view's text or columns do."""
        text = self.view().sql(DIALECT) + repr(self._columns)
        return MARK + hashlib.sha256(text.encode()).hexdigest()[:16]

    def comment_statement(self) -> exp.Comment:
        """Return the statement that gives the view its comment."""
        return exp.Comment(this=self._reference(), kind="VIEW", expression=exp.Literal.string(self.comment()))

    def _reference(self) -> exp.Table:
        return exp.table_(self.name, db="main", quoted=True)

    def _footer(self, cursor: duckdb.DuckDBPyConnection) -> tuple[Column, ...]:
        parts = exp.Array(expressions=[exp.Literal.string(as_pattern(path)) for path in self.files.paths])
        shapes = self._facts_of_footer(cursor, SHAPES.format(parts=parts.sql(DIALECT)))
        if shapes != [(1,)] or len(self.files.keys) > 1:
            raise DatabaseError(
                f"the files of {self.files.words} differ in their columns or types.", hint="write them with one schema"
            )
        columns = [(row[0], row[1]) for row in self._facts_of_footer(cursor, f"DESCRIBE {self.rows().sql(DIALECT)}")]
        names = {name.lower() for name, _ in columns}
        taken = sorted(names & {FILE, PLACE})
        if taken and ADDRESS not in names:
            raise DatabaseError(
                f'{self.files.words} has a column "{taken[0]}", which is DuckDB\'s own.', hint="rename it"
            )
        folders = {key.lower() for keys in self.files.keys for key in keys}
        return tuple(
            Column(name, kind, "untyped") if name.lower() in folders else _column(name, kind) for name, kind in columns
        )

    def _facts_of_footer(self, cursor: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
        """Return what footers say, or that they cannot be read."""
        try:
            return fetch_from_duckdb(cursor, query)
        except DpsqlError:
            unreadable = DatabaseError(f"{self.files.words} cannot be read as Parquet.", hint="check the file")
        raise unreadable

    def _parquet(self, paths: Sequence[Path]) -> exp.Expr:
        options = {"hive_partitioning": exp.convert(self.files.is_partitioned), "hive_types_autocast": exp.false()}
        return _call("read_parquet", paths, options)

    def _csv(self) -> exp.Expr:
        columns = exp.Struct(
            expressions=[
                exp.PropertyEQ(this=exp.Literal.string(name), expression=exp.Literal.string("VARCHAR"))
                for name in self._header.names
            ]
        )
        quote = exp.Literal.string('"')
        options = {
            "auto_detect": exp.false(),
            "header": exp.true(),
            "delim": exp.Literal.string(self._header.delimiter),
            "quote": quote,
            "escape": quote.copy(),
            "columns": columns,
            "strict_mode": exp.false(),
            "ignore_errors": exp.true(),
            "parallel": exp.false(),
            "max_line_size": exp.Literal.number(_LONGEST_LINE),
        }
        return _call("read_csv", self.files.paths, options)


def _as_text(cell: exp.Expr) -> exp.Expr:
    return exp.cast(cell, exp.DataType.build("VARCHAR"))


def _append(cursor: duckdb.DuckDBPyConnection, statement: str, chunk: Mapping[str, list[str | None]]) -> None:
    cursor.register(_CHUNK, pd.DataFrame(dict(chunk), dtype=object))
    cursor.execute(statement)
    cursor.unregister(_CHUNK)


def _column(name: str, kind: str) -> Column:
    """Return a column of Parquet. Times there can be numbers that DuckDB fails to read, as can what is inside others.

    >>> _column("n", "BIGINT").family, _column("t", "TIMESTAMP").family, _column("t", "TIMESTAMP").fallible
    ('integer', 'opaque', True)
    >>> _column("s", "STRUCT(t VARCHAR)").fallible
    True
    """
    word = "opaque" if kind.startswith("TIME") else duckdb_family(kind)
    return Column(name, kind, word, fallible=word == "opaque")


def _is_beyond(name: str, kind: str) -> exp.Expr:
    """Return whether a cell has more digits than its DECIMAL type: DuckDB fails on some when it computes with them."""
    digits, scale = (int(text) for text in kind.removeprefix("DECIMAL(").removesuffix(")").split(","))
    most = "9" * (digits - scale) + "." + "9" * scale
    bounds = [exp.cast(exp.Literal.string(sign + most), exp.DataType.build(kind)) for sign in ("-", "")]
    cell = exp.column(name, quoted=True)
    return exp.or_(cell < bounds[0], cell.copy() > bounds[1])


def _address() -> exp.Expr:
    """Return the number of the file and the place in it, as one number."""
    file, place = (exp.cast(exp.column(name), exp.DataType.Type.UBIGINT) for name in (FILE, PLACE))
    moved = exp.BitwiseLeftShift(this=file, expression=exp.Literal.number(_PLACES))
    return exp.Add(this=exp.Paren(this=moved), expression=place)


def _call(name: str, paths: Sequence[Path], options: Mapping[str, exp.Expr]) -> exp.Expr:
    listed = exp.Array(expressions=[exp.Literal.string(as_pattern(path)) for path in paths])
    named = [exp.EQ(this=exp.column(option), expression=value) for option, value in options.items()]
    return exp.Anonymous(this=name, expressions=[listed, *named])


def as_pattern(path: Path) -> str:
    """Return a path as DuckDB's pattern that means this one file: its name can hold signs that mean others."""
    return re.sub(r"([*?\[])", r"[\1]", str(path))


def _facts(table: TableFiles) -> _Facts:
    """Return what shows that a file changed, or that a table's folders gained or lost one; () when one of them is gone.

    Times of writing and lengths can be set by whoever rewrites a file; the time of the last change of any kind cannot.
    """
    try:
        facts = [path.stat() for path in (*table.paths, *sorted(table.folders))]
    except OSError:
        return ()
    return tuple((fact.st_mtime_ns, fact.st_ctime_ns, fact.st_size, fact.st_ino, fact.st_dev) for fact in facts)
