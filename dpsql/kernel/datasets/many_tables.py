"""Views over several tables as datasets: which tables one reads, the proof that it can be one, and where its rows are.

The proof (`compile/views/unit_view.py`) is made from the text and the catalog alone, when the view is registered and
again before every run. No row is read for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from dpsql.compile.rows import Source
from dpsql.compile.views.total_expressions import Refused
from dpsql.compile.views.unit_relations import UNIT, ColumnFacts, TableFacts, as_rows, number_name
from dpsql.compile.views.unit_view import UnitView, prove_unit_view
from dpsql.compile.vocabulary import column
from dpsql.engines.base import Column, Engine, TableInfo
from dpsql.engines.table_names import quote_parts
from dpsql.errors import SchemaError, UnknownName, UsageError
from dpsql.kernel.datasets.identity import Base, why_private
from dpsql.kernel.datasets.untyped_columns import UNTYPED
from dpsql.kernel.datasets.view_datasets import look_up
from dpsql.schema import Schema

#: What a dataset is whose rows are a query that was given as text; no table or view of the database has this kind.
QUERY = "query"
#: Integer types whose values fit into 64 bits with a sign.
_INTEGERS = frozenset(("tinyint", "smallint", "integer", "bigint", "utinyint", "usmallint", "uinteger"))
_HINT = "docs/how-to/warehouse.md says what a view over several tables may be made of"


@dataclass(frozen=True, eq=False)
class ProvedView:
    """A view over several tables that was proved: what it looks like as a table, its proof, and the tables it reads.

    `stored` is what the catalog says of a view of the database, and None for a query that was given as text.
    """

    info: TableInfo
    stored: TableInfo | None
    proof: UnitView
    private: tuple[TableInfo, ...]
    public: tuple[TableInfo, ...]

    @property
    def single(self) -> bool:
        """Whether a unit has at most one row."""
        return self.proof.relation.single


def query_info(name: str, text: str) -> TableInfo:
    """Return a query that is given as text as if the catalog described it; its columns follow from the proof."""
    return TableInfo(name=name, schema="", table=name, columns=(), kind=QUERY, definition=text)


def prove_view(engine: Engine, info: TableInfo, schema: Schema) -> ProvedView:
    """Return the proof of a view or query, or raise SchemaError with the reason why there is none."""
    if schema.unit.column is None:
        raise SchemaError(f'"{info.name}" reads several tables, and the schema names no unit.', hint="--unit COLUMN")
    if schema.public_features:
        raise SchemaError(
            f'"{info.name}" reads several tables, and labels alone cannot be private there.',
            hint="leave out public_features",
        )
    public = _public_tables(engine, schema.public_tables)
    tables: dict[tuple[str, str], TableInfo] = {}

    def find(place: str | None, name: str) -> TableFacts | None:
        table = look_up(engine, place, name, info.schema or engine.home)
        if table is None and info.kind == QUERY:  # the rows' own file, where the ledger is in another
            table = engine.table(quote_parts([place, name] if place else [name]))
        if table is None:
            return None
        is_public = any((known.schema, known.table) == (table.schema, table.table) for known in public)
        tables[(table.schema, table.table)] = table
        return _facts(engine, table, public=is_public)

    try:
        proof = prove_unit_view(
            info.definition, engine.dialect, unit=schema.unit.column, find_table=find, vocabulary=engine.vocabulary
        )
    except Refused as reason:
        raise SchemaError(f'"{info.name}" cannot be registered: it {reason}.', hint=_HINT) from None
    private = tuple(tables[(facts.schema, facts.table)] for facts in proof.private)
    read_public = tuple(tables[(facts.schema, facts.table)] for facts in proof.public)
    for table in (info, *private, *read_public):
        if table.unfit:
            raise SchemaError(f'"{table.name}" {table.unfit}.', hint=table.remedy or _HINT)
    described = TableInfo(
        name=info.name,
        schema=info.schema,
        table=info.table,
        columns=_columns(proof, private),
        kind=info.kind,
        definition=info.definition,
        identity=info.identity,
        version=info.version,
        unsafe=info.unsafe,
        unfit=info.unfit,
        remedy=info.remedy,
    )
    return ProvedView(described, None if info.kind == QUERY else info, proof, private, read_public)


def _public_tables(engine: Engine, names: Sequence[str]) -> list[TableInfo]:
    """Return the tables that the owner declares public, which must be stored tables."""
    tables = []
    for name in names:
        table = engine.table(name)
        if table is None:
            raise UnknownName("public table", name, engine.tables())
        if table.kind != "table":
            raise SchemaError(
                f'"{name}" is a view, and what a view shows can be private.', hint="declare stored tables public"
            )
        tables.append(table)
    return tables


def _facts(engine: Engine, table: TableInfo, *, public: bool) -> TableFacts:
    """Return what the proof needs to know of a stored table."""
    if table.kind != "table":
        raise Refused(f'reads "{table.name}", which is no stored table; write its query into this one')
    keys = engine.unique_keys(table)
    if keys is None:
        raise Refused("reads several tables, which is possible on DuckDB and PostgreSQL")
    columns = tuple(_column_facts(column) for column in table.columns)
    return TableFacts(table.name, table.schema, table.table, columns, tuple(keys), public)


def _column_facts(column: Column) -> ColumnFacts:
    unusable = ""
    if column.collation:
        unusable = f"is compared by the collation {column.collation}"
    elif column.computed or column.fallible:
        unusable = "is computed when it is read, or a time in a file, which can fail on a row"
    elif column.family == UNTYPED:
        unusable = "has no type"
    integer = column.family == "integer" and column.type.lower() in _INTEGERS
    return ColumnFacts(column.name, column.type, column.family, integer, column.decimal, unusable)


def _columns(proof: UnitView, private: Sequence[TableInfo]) -> tuple[Column, ...]:
    """Return the columns of a proved view, the unit's first."""
    own = next(facts for facts in proof.private[0].columns if facts.name.lower() == proof.unit.lower())
    unit = Column(proof.relation.unit_name, own.type, own.family)
    others = (
        Column(name, facts.type, facts.family, _enum_values(private, facts), facts.decimal)
        for name, facts in zip(proof.names, proof.relation.columns, strict=True)
    )
    return (unit, *others)


def _enum_values(private: Sequence[TableInfo], facts: ColumnFacts) -> tuple[str, ...]:
    """Return the values of an ENUM, by the type's name."""
    columns = (column for table in private for column in table.columns)
    return next((column.values for column in columns if column.values and column.type == facts.type), ())


def view_source(view: ProvedView, schema: Schema) -> Source:
    """Return where the rows of a proved view are."""
    places = {name: column(number_name(place)) for place, name in enumerate(view.proof.names)}
    columns = {view.proof.relation.unit_name: column(UNIT), **places}
    stored = [] if view.stored is None else [view.stored]
    return Source(
        schema,
        as_rows(view.proof.relation),
        columns,
        integers=view.info.integers,
        decimals=view.info.decimals,
        reads=(replace(view.info, kind=QUERY), *stored, *view.private, *view.public),
    )


def base_of(identified: Sequence[TableInfo], earlier: Base | None) -> Base:
    """Return the private tables of a view as one base: each has the budget, and so have those before them."""
    first, *others = identified
    rows = frozenset().union(*(table.rows for table in identified), earlier.rows if earlier else ())
    places = tuple((table.schema, table.table, table.identity) for table in others)
    return Base(first.schema, first.table, first.identity, rows, others=places)


def why_changed(view: ProvedView, base: Base) -> str | None:
    """Return how the private tables of a view differ from those that were registered, as a sentence, or None."""
    registered = {(schema, table): identity for schema, table, identity in base.tables}
    for table in view.private:
        place = (table.schema, table.table)
        if place not in registered:
            return f'"{view.info.name}" reads "{table.name}", which it did not when it was registered.'
        if registered[place] != table.identity:
            return f'"{table.name}" is not the table that was registered: it was made anew, or another took its name.'
        if base.has_grown(table):
            return f'table "{table.name}" has other parts than when it was registered.'
    return None


def check_public(
    engine: Engine,
    view: ProvedView,
    private: Iterable[tuple[str, Base]],
    *,
    own_marks: Collection[str],
    before: Base | None = None,
) -> None:
    """Raise UsageError if a table that a view takes for public holds rows of a registered table.

    `private` are the registered tables, each by its name and its base, and `own_marks` the identities that lookups of
    this ledger gave. `before` is the base of the dataset that is replaced by the view: what was private in it stays so.
    """
    registered = list(private)
    own = {(table.schema, table.table) for table in view.private}
    for table in view.public:
        reason = why_private(engine, table, registered, own_marks=own_marks)
        if before is not None and before.shares(table):
            reason = "was a private one of this dataset before, and its rows keep their budget"
        if (table.schema, table.table) in own:
            reason = "is private in the same view"
        if reason is not None:
            raise UsageError(
                f'"{table.name}" cannot be a public table of "{view.info.name}": it {reason}.',
                hint="take it for private: leave it out of --public and public_tables",
            )
