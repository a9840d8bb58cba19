"""chDB, ClickHouse inside this process: rows stay in its folder, aggregates alone are fetched; the ledger is elsewhere.

Each piece of work has a connection of its own beside the caller's: its settings are ours, and its temporary tables are
seen by nobody else and gone with it. ClickHouse has no transactions, so dpsql's own tables (ledger, models) are in a
DuckDB file or in PostgreSQL. A charge is durable there before chDB is asked anything. A process has one folder open.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as arrow
from chdb import __version__ as _version
from chdb.session import Session
from sqlglot import exp

from dpsql.engines.base import Arrays, Column, Engine, Health, TableInfo, Transaction, check_same
from dpsql.engines.chdb.table_state import MERGE_TREE, State, check_state, engine_of
from dpsql.engines.ledger_elsewhere import LedgerElsewhere
from dpsql.engines.materialized import worked_out
from dpsql.engines.naming import full_name, marked, pick, with_mark
from dpsql.engines.vocabulary import StandardVocabulary, lowest_bit
from dpsql.errors import DatabaseError, QueryFailed

_Result = TypeVar("_Result")
_Tables = Mapping[str, Any]
DIALECT = "clickhouse"
PREFIX = "chdb://"
#: The one thing done on private rows: not even the kind of its failure is told.
_COUNTING = "count the rows"
_READING = "read its catalog"
#: The schema of dpsql's own tables, which are where the ledger is.
_OWN = "dpsql"
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
#: Table engines that hold rows as they were put in; others read elsewhere, or merge rows by themselves.
_PLAIN = ("MergeTree", "Memory", "Log", "StripeLog", "TinyLog")
_SYSTEM = ("system", "information_schema")
#: What a materialized view keeps its copies in.
_INNER = ".inner"
_RANDOM = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FAMILIES = {"String": "text", "Bool": "boolean", "Date": "date", "Date32": "date"}
_OTHER = ("UUID", "IPv4", "IPv6", "DateTime", "DateTime64", "FixedString")
#: A default that is the same for every row: a number, a text, or NULL.
_CONSTANT = re.compile(r"-?[0-9.]+(e[-+]?[0-9]+)?|NULL|true|false|'(?:[^'\\]|\\.)*'", re.IGNORECASE)
#: Types that Arrow has no word for: shown as text.
_SHOWN = re.compile(r"\b(Enum|U?Int128|U?Int256|UUID|IPv)")
_BITS = {
    exp.BitwiseAnd: "bitAnd", exp.BitwiseOr: "bitOr", exp.BitwiseXor: "bitXor",
    exp.BitwiseLeftShift: "bitShiftLeft", exp.BitwiseRightShift: "bitShiftRight",
}  # fmt: skip


def open_folder(target: str, ledger: Engine) -> ChdbEngine:
    """Open a folder of chDB by its URL."""
    folder = Path(target.removeprefix(PREFIX))
    if not folder.is_dir() or not folder.is_absolute():
        raise DatabaseError(f'there is no folder "{folder}" of chDB.', hint="--db chdb:///path/of/folder")
    opened = _opened(str(folder))
    if opened is None:
        raise DatabaseError(
            f'chDB cannot open "{folder}": a process has one folder open, and a folder one process.',
            hint="end the other one, or pass its session to dpsql.connect",
        )
    return ChdbEngine(opened, ledger, owned=True)


def adopt(session: Any, ledger: Engine) -> ChdbEngine:
    """Work beside a session that the caller opened. It stays the caller's: its settings and tables are left alone."""
    return ChdbEngine(session, ledger, owned=False)


def _opened(path: str) -> Any:
    try:
        return Session(path)  # type: ignore[no-untyped-call]
    except RuntimeError:
        return None


def guarded(doing: str, act: Callable[[], _Result]) -> _Result:
    """Do something in chDB; replace its errors, whose texts can quote cells, by our own.

    The new error is raised outside the except block, so that not even its context holds the old text.
    """
    try:
        return act()
    except (RuntimeError, UnicodeError, arrow.ArrowException) as error:
        kind = "why is withheld too" if doing == _COUNTING else type(error).__name__
    raise QueryFailed(doing, kind)


class ChdbVocabulary(StandardVocabulary):
    """ClickHouse's own spellings. Trees are joins, level by level; a cell is worked out in doubles, as in DuckDB."""

    dialect = DIALECT

    def is_nan(self, number: exp.Expr) -> exp.Expr:
        """Return `isNaN(number)`."""
        return exp.IsNan(this=number)

    def position(self, values: Sequence[str], text: exp.Expr) -> exp.Expr:
        """Return `nullIf(indexOf([…], text), 0) - 1`: a place that is none is 0 here."""
        listed = exp.Array(expressions=[exp.Literal.string(value) for value in values])
        place = exp.Anonymous(this="indexOf", expressions=[listed, text])
        found = exp.Nullif(this=place, expression=exp.Literal.number(0))
        return exp.Sub(this=found, expression=exp.Literal.number(1))

    def keyed_hash(self, values: Sequence[exp.Expr], keys: Sequence[int | str]) -> exp.Expr:
        """Return `sipHash64Keyed((key, key), …)`, cut to 63 bits, of the values as texts and of all further keys.

        A hash of NULL would be NULL, so it is that of an empty text. Equal numbers have equal hashes: -0.0 is 0.0, and
        every NaN has the same text.
        """
        first, second, *others = [_unsigned(key) for key in (*keys, *keys[:1])[: max(2, len(keys))]]
        hashed = [exp.Tuple(expressions=[first, second]), *map(_hashable, values), *others]
        state = exp.Anonymous(this="sipHash64Keyed", expressions=hashed)
        return exp.Paren(this=exp.BitwiseAnd(this=state, expression=exp.Literal.number(2**63 - 1)))

    def row_address(self) -> None:
        """Return nothing: parts of a table are merged at any time. A row is known by its features, as in Spark."""

    def word(self, cell: exp.Expr) -> exp.Expr:
        """Return the cell as UInt64."""
        return exp.cast(cell, exp.DataType.Type.UBIGINT)

    def bit(self, plane: exp.Expr, cell: exp.Expr) -> exp.Expr:
        """Return `CAST(bitAnd(bitShiftRight(plane, cell), 1) AS Int32)`."""
        return lowest_bit(plane, cell)

    def day(self, text: str) -> exp.Expr:
        """Return `CAST('2020-01-31' AS Date32)`: a Date begins in 1970."""
        return exp.cast(exp.Literal.string(text), exp.DataType.Type.DATE32)


def _unsigned(key: int | str) -> exp.Expr:
    value = exp.Placeholder(this=key) if isinstance(key, str) else exp.Literal.number(key)
    return exp.Cast(this=value, to=exp.DataType.build("UInt64", dialect=DIALECT))


def _hashable(value: exp.Expr) -> exp.Expr:
    text = exp.Coalesce(this=exp.cast(value, exp.DataType.Type.TEXT), expressions=[exp.Literal.string("")])
    zeros = [exp.Array(expressions=[exp.Literal.string(zero)]) for zero in ("-0", "0")]
    return exp.Anonymous(this="transform", expressions=[text, *zeros])


class ChdbEngine(LedgerElsewhere):
    """A folder of chDB (or its memory) and the database with its ledger, behind the protocol of `engines/base.py`."""

    dialect = DIALECT
    driver = "chdb"
    called = "chDB"
    random_id = "generateUUIDv4()"

    def __init__(self, session: Any, ledger: Engine, *, owned: bool) -> None:
        super().__init__(ledger)
        self.session = session
        self.owned = owned
        self.vocabulary = ChdbVocabulary()
        where = "SELECT currentDatabase() AS home, path FROM system.disks WHERE name = 'default' LIMIT 1"
        found = guarded(_READING, lambda: session.query(where, "ArrowTable").to_pylist()[0])
        self.home, folder = found["home"], found["path"]
        self._paths = (":memory:", folder, folder.rstrip("/"))

    def __repr__(self) -> str:
        return f"<chDB {self.home}, ledger in {self.ledger!r}>"

    def health(self) -> list[Health]:
        """Return chDB's version, and how the ledger's database is."""
        return [Health("driver", True, f"chdb {_version}"), *self.ledger_health()]

    def weaknesses(self) -> list[str]:
        """Return one sentence for each protection that the caller's session or the ledger's database lacks."""
        kept = "system.errors of this process keeps the last text of each error, which can quote a cell."
        return [*([] if self.owned else [kept]), *self.ledger.weaknesses()]

    def tables(self) -> list[str]:
        """Return the tables and views, by the names that `table` takes."""
        return sorted(full_name(place, self.home) for place in self._places())

    def table(self, name: str, *, schema: str | None = None) -> TableInfo | None:
        """Return what the catalog says of a table or view. Reads no row.

        A view, and a table whose rows are not its own, have a text that proves nothing. A table is told by the folder
        of its rows, which a new name does not change; one in memory by its comment.
        """
        places = self._places()
        place = pick(places, name, schema=schema, home=self.home)
        if place is None:
            return None
        (schema, table), row = place, places[place]
        engine = row["engine"]
        asked = exp.select("name", "type", "default_expression").from_("system.columns").order_by("position")
        own = [exp.column(one).eq(value) for one, value in (("database", schema), ("table", table))]
        asked = asked.where(*own, "default_kind NOT IN ('ALIAS', 'EPHEMERAL')")
        columns = tuple(_column(row["name"], row["type"], row["default_expression"]) for row in self._asked(asked))
        unended = exp.select("mutation_id").from_("system.mutations").where(*own, "NOT is_done").limit(1)
        unfit = "has a change of its rows that has not ended" if self._asked(unended) else ""
        plain = engine in _PLAIN and not table.startswith(_INNER)
        definition = "" if plain else f"a table of engine {engine}, whose rows may be those of others"
        identity = _identity(row) if plain else ""
        rows = frozenset([identity] if identity else [])
        kind, called = "table" if plain else "view", full_name(place, self.home)
        facts = TableInfo(called, schema, table, columns, kind, definition, identity=identity, rows=rows)
        return replace(facts, unfit=unfit)

    def identify(self, transaction: Transaction, info: TableInfo) -> TableInfo:
        """Return a base table with its identity; one in memory gets it written into its comment."""
        if info.identity:
            return info
        comment = with_mark(self._places()[info.schema, info.table]["comment"], identity := secrets.token_hex(16))
        changed = exp.Var(this="MODIFY COMMENT " + exp.Literal.string(comment).sql(DIALECT))
        place = exp.table_(info.table, db=info.schema, quoted=True)
        with self.workspace() as here:
            here.alter(exp.Alter(this=place, kind="TABLE", actions=[changed]))
        return replace(info, identity=identity, rows=frozenset([identity]))

    def user_functions(self) -> list[str]:
        """Return the names of functions that users defined."""
        return sorted(self._functions(system=False))

    def redefined(self) -> list[str]:
        """Return the built-in functions that a user's stands in for: one may be called FLOOR, though not floor."""
        return sorted(self._functions(system=False) & self._functions(system=True))

    def ways_in(self, info: TableInfo) -> list[Health]:
        """Return nothing: there are no roles, so whoever can name a table can read it."""
        return []

    def readers(self, info: TableInfo) -> list[Health]:
        """Return nothing: there are no roles."""
        return []

    def aggregate(self, query: exp.Expr, tables: _Tables) -> Arrays:
        """Run one checked aggregate over private rows, with `tables` loaded as temporary tables for it."""
        with self.workspace() as here:
            return here.aggregate(query, tables)

    @contextmanager
    def workspace(self, reads: Sequence[TableInfo] = ()) -> Iterator[ChdbWorkspace]:
        """Open a workspace: a connection of its own, and nothing of it left when it is closed."""
        here = ChdbWorkspace(self._beside(), self.ledger)
        try:
            for before in reads:
                check_same(before, self.table(before.table, schema=before.schema))
                here.pin(before)
            yield here
        finally:
            here.close()

    def frame(self, query: exp.Expr, tables: _Tables | None = None) -> pd.DataFrame:
        """Run a query over public or released tables and return it as a DataFrame (predictions, never training)."""
        with self.workspace() as here:
            return here.run("read the table", query, tables or {}, here.shown)

    def create(self, name: str, query: exp.Expr, tables: _Tables | None = None) -> None:
        """Create a table from a query over public or released tables; ClickHouse names it when it is whole."""
        unordered = exp.Order(expressions=[exp.Ordered(this=exp.Tuple(), nulls_first=False)])
        properties = [_engine("MergeTree"), unordered]
        with self.workspace() as here:
            place = exp.table_(name, db=self.home, quoted=True)
            here.run("create the table", query, tables or {}, lambda one: here.make(place, one, properties))

    def close(self) -> None:
        """Let the ledger go, and the folder if dpsql opened it."""
        self.ledger.close()
        if self.owned:
            guarded("close", self.session.close)

    def _places(self) -> dict[tuple[str, str], dict[str, str]]:
        """Return what the catalog says of each table, by its database and name."""
        folder = exp.Anonymous(this="arrayElement", expressions=[exp.column("data_paths"), exp.Literal.number(1)])
        asked = exp.select("database", "name", "engine", "comment", exp.alias_(folder, "folder"))
        found = self._asked(asked.from_("system.tables").where("NOT is_temporary"))
        return {(row["database"], row["name"]): row for row in found if row["database"].lower() not in _SYSTEM}

    def _functions(self, *, system: bool) -> set[str]:
        origin = exp.column("origin").eq("System")
        asked = exp.select("name").from_("system.functions").where(origin if system else exp.not_(origin))
        return {row["name"].lower() for row in self._asked(asked)}

    def _asked(self, query: exp.Select) -> list[dict[str, str]]:
        """Return the rows of a question to the catalog; settings of the caller's session have no say in them."""
        with self.workspace() as here:
            return here.run(_READING, query, {}, here.fetched).to_pylist()

    def _beside(self) -> Any:
        """Return a connection with settings and temporary tables of its own; it is told the path that chDB was told."""
        found = next(filter(None, map(_opened, self._paths)), None)
        if found is None:
            raise DatabaseError("chDB opens no second connection.", hint="use a Session of a folder, or of :memory:")
        items = [exp.EQ(this=exp.column(name), expression=exp.convert(value)) for name, value in SETTINGS.items()]
        text = exp.Set(expressions=[exp.SetItem(this=item) for item in items]).sql(DIALECT)
        guarded("take its settings", lambda: found.query(text))
        return found


class ChdbWorkspace:
    """Temporary tables in a connection of their own, which go when it is closed. A table's name is never used again."""

    def __init__(self, session: Any, ledger: Engine) -> None:
        self._session = session
        self._ledger = ledger
        self._names: dict[str, str] = {}
        self._states: list[tuple[TableInfo, State]] = []
        self._copies: dict[tuple[str, str], str] = {}

    def pin(self, table: TableInfo) -> None:
        """See to it that all statements read the same rows of a table, or fail."""
        if engine_of(self._rows, table) == MERGE_TREE:
            self._states.append((table, State.read(self._rows, table)))
            return
        place = exp.table_(table.table, db=table.schema, quoted=True)
        guarded(_COUNTING, lambda: self._store("copy", exp.select("*").from_(place)))
        self._copies[table.schema, table.table] = self._names.pop("copy")

    def keep(self, name: str, query: exp.Expr, tables: _Tables) -> None:
        """Keep the rows of a checked query, in memory, in place of those kept before."""
        before = self._names.get(name)
        self.run(_COUNTING, query, tables, lambda one: self._store(name, one))
        self._check()
        if before is not None:
            self._drop(before)

    def aggregate(self, query: exp.Expr, tables: _Tables) -> Arrays:
        """Run one checked aggregate over private or kept rows; its groups alone are fetched."""
        found = self.run(_COUNTING, query, tables, self.fetched)
        self._check()
        return {name: np.asarray(found.column(name).to_numpy()) for name in found.column_names}

    def run(self, doing: str, query: exp.Expr, tables: _Tables, act: Callable[[exp.Expr], _Result]) -> _Result:
        """Do something with a query, with `tables` loaded for it and its MATERIALIZED parts worked out before."""
        for name, columns in tables.items():
            self._load(name, columns)
        once: list[str] = []
        try:
            ready = worked_out(self._placed(query.copy()), lambda part: self._once(doing, part, once))
            return guarded(doing, lambda: act(ready))
        finally:
            for table in [*once, *(self._names.pop(name) for name in tables)]:
                self._drop(table)

    def fetched(self, query: exp.Expr) -> arrow.Table:
        """Return a query's rows."""
        return self._session.query(_rendered(query), "ArrowTable")

    def shown(self, query: exp.Expr) -> pd.DataFrame:
        """Return a query's rows, with types that Arrow has no word for as text."""
        described = exp.Describe(this=exp.Subquery(this=query))
        kinds = {row["name"]: row["type"] for row in self.fetched(described).to_pylist()}
        odd = [exp.column(name, quoted=True) for name, kind in kinds.items() if _SHOWN.search(kind)]
        if odd:
            texts = [exp.alias_(exp.cast(one, exp.DataType.Type.TEXT), one.name, quoted=True) for one in odd]
            query = exp.select(exp.Star(replace=texts)).from_(exp.Subquery(this=query))
        return self.fetched(query).to_pandas(integer_object_nulls=True)

    def alter(self, change: exp.Alter) -> None:
        """Change what the catalog says of a table."""
        guarded("write to its catalog", lambda: self._session.query(change.sql(DIALECT, identify=True)))

    def make(self, place: exp.Table, query: exp.Expr, properties: Sequence[exp.Expr]) -> None:
        """Create a table of a query's rows."""
        made = exp.Properties(expressions=list(properties))
        self._session.query(_rendered(exp.Create(this=place, kind="TABLE", expression=query, properties=made)))

    def close(self) -> None:
        """Let the connection go, and all temporary tables with it."""
        guarded(_COUNTING, self._session.close)

    def _check(self) -> None:
        for table, state in self._states:
            check_state(self._rows, table, state)

    def _rows(self, query: exp.Select) -> list[dict[str, Any]]:
        return list(self.run(_READING, query, {}, self.fetched).to_pylist())

    def _load(self, name: str, columns: Any) -> None:
        table = exp.Anonymous(this="Python", expressions=[exp.column("given")])

        def store(given: arrow.Table) -> None:
            """Store an Arrow table, which chDB finds by the argument's name."""
            self._store(name, exp.select("*").from_(exp.Table(this=table)))

        made = {str(one): _as_arrow(np.asarray(values)) for one, values in columns.items()}
        guarded("load a temporary table", lambda: store(arrow.table(made)))

    def _store(self, name: str, query: exp.Expr) -> None:
        """Store a query's rows, and let queries find them by a name."""
        stored = f"{name}_{secrets.token_hex(8)}"
        self.make(exp.table_(stored, quoted=True), query, [exp.TemporaryProperty(), _engine("Memory")])
        self._names[name] = stored

    def _drop(self, stored: str) -> None:
        text = exp.Drop(tables=[exp.table_(stored, quoted=True)], kind="TABLE", temporary=True).sql(DIALECT)
        guarded(_COUNTING, lambda: self._session.query(text))

    def _placed(self, query: exp.Expr) -> exp.Expr:
        """Return a query that finds what it names: small tables, kept rows, and the rows of one model.

        These, of dpsql's own tables, are fetched from where the ledger is.
        """
        for table in list(query.find_all(exp.Table)):
            if table.db == _OWN:
                asked = table.parent_select
                assert asked is not None
                with self._ledger.transaction() as transaction:
                    self._load(table.name, transaction.arrays(asked))
                asked.replace(exp.select("*").from_(exp.table_(self._names[table.name], quoted=True)))
            elif (table.db, table.name) in self._copies or (not table.db and table.name in self._names):
                stored = self._copies.get((table.db, table.name)) or self._names[table.name]
                found = exp.table_(stored, quoted=True)
                table.replace(exp.alias_(found, table.alias_or_name, table=True, quoted=True))
        return query

    def _once(self, doing: str, query: exp.Select, once: list[str]) -> exp.Select:
        """Work a query out now, and return the one that reads its rows."""
        guarded(doing, lambda: self._store("once", query))
        once.append(self._names.pop("once"))
        return exp.select("*").from_(exp.table_(once[-1], quoted=True))


def _rendered(query: exp.Expr) -> str:
    """Return a query's text; in ClickHouse bits, and casts that must not fail, are functions, and counts unsigned.

    The query is changed. A column keeps its name, which would be `roots.node` where a join has another `node`.
    """
    for node in reversed(list(query.walk())):
        if isinstance(node, exp.Column) and node.table and node.arg_key == "expressions" and not node.is_star:
            if isinstance(node.parent, exp.Select):
                node.replace(exp.Alias(this=node.copy(), alias=exp.to_identifier(node.name, quoted=True)))
        elif isinstance(node, exp.Binary) and type(node) in _BITS:
            parts = [node.this.unnest(), node.expression.unnest()]
            node.replace(exp.Anonymous(this=_BITS[type(node)], expressions=parts))
        elif isinstance(node, exp.Count) and not isinstance(node.parent, exp.Cast):
            node.replace(exp.cast(node.copy(), exp.DataType.Type.BIGINT))
        elif isinstance(node, exp.TryCast):
            kind = exp.Literal.string(node.to.sql(DIALECT))
            node.replace(exp.Anonymous(this="accurateCastOrNull", expressions=[node.this, kind]))
    return query.sql(DIALECT, identify=True)


def _engine(name: str) -> exp.Expr:
    return exp.EngineProperty(this=exp.to_identifier(name))


def _identity(row: Mapping[str, str]) -> str:
    """Return the name of the folder with a table's rows, which ClickHouse draws at random, or the comment's mark."""
    folder = Path(row["folder"]).name if row["folder"] else ""
    return folder if _RANDOM.fullmatch(folder) else marked(row["comment"])


def _column(name: str, kind: str, default: str = "") -> Column:
    """Return a column as the catalog describes it.

    A MATERIALIZED or DEFAULT column is worked out when it is read, in parts of the table that were written before it
    was added: unless its expression is a constant, a row can make it fail. An ALIAS always is, and is not listed.

    >>> [_column("x", kind).family for kind in ("Nullable(Int8)", "Decimal(9, 2)", "LowCardinality(String)", "JSON")]
    ['integer', 'real', 'text', 'opaque']
    >>> [_column("x", "Int8", text).computed for text in ("", "7", "-7", "'a'", "toInt8(text)")]
    [False, False, False, False, True]
    """
    computed = bool(default) and _CONSTANT.fullmatch(default) is None
    inner = re.sub(r"^(LowCardinality\(|Nullable\()*", "", kind)
    word = re.split(r"[^A-Za-z0-9]", inner, maxsplit=1)[0]
    if re.fullmatch("U?Int[0-9]+", word):
        return Column(name, kind, "integer", computed=computed)
    if re.fullmatch("Float[0-9]+|BFloat16|Decimal", word):
        return Column(name, kind, "real", computed=computed)
    if word in ("Enum8", "Enum16"):
        values = re.findall(r"'((?:[^'\\]|\\.)*)' = -?[0-9]+", inner)
        return Column(name, kind, "text", tuple(re.sub(r"\\(.)", r"\1", value) for value in values), computed=computed)
    return Column(name, kind, _FAMILIES.get(word) or ("other" if word in _OTHER else "opaque"), computed=computed)


def _as_arrow(values: np.ndarray[Any, Any]) -> arrow.Array:
    """Return a column in a type that ClickHouse has; values of several types are texts."""
    if values.dtype.kind in "uifbM":
        return arrow.array(values)
    cells = [None if gone else value for gone, value in zip(pd.isna(values), values, strict=True)]
    if len({type(cell) for cell in cells if cell is not None}) == 1:
        return arrow.array(cells)
    return arrow.array([None if cell is None else str(cell) for cell in cells], arrow.string())
