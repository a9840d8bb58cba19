"""Unit-local relations: what a view over several tables is made of, and the SQL that is run for each part of it.

A relation is *unit-local* if it has a unit's column and, for every unit u, its rows of u are a function of the rows of
u in the private tables, of the public tables, and of nothing else; and if no row of it has a NULL unit. Each function
here builds one relation of others and keeps that property; its docstring says why. `compile/views/unit_view.py` reads
a query's text and calls them, and nothing of that text is ever run: the SQL is built here.

Columns are numbered (`c0`, `c1`, …) and the unit's column is called `unit`, so that no name that a user chose stands in
the SQL, except those of stored tables and their columns, which are quoted and have their schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from dpsql.compile.vocabulary import column
from dpsql.spelling import Vocabulary, split_catalog

#: The name of the unit's column in every relation.
UNIT = "unit"
#: How the alias of a relation with private rows begins, and that of a public table.
PRIVATE_ALIAS, PUBLIC_ALIAS = "rows_", "public_"
#: The alias of the whole relation in the statements that read it.
UNIT_ROWS = "unit_rows"


@dataclass(frozen=True)
class ColumnFacts:
    """What the catalog says of a column, or what was proved of an expression.

    `type` is the database's name of the type, `family` dpsql's name of its kind, `integer` says that it is an integer
    that fits into 64 bits with a sign, `decimal` that the type holds numbers which no double can, and `unusable` why
    no view may read it, in words that follow its name.
    """

    name: str
    type: str
    family: str
    integer: bool = False
    decimal: bool = False
    unusable: str = ""


@dataclass(frozen=True)
class TableFacts:
    """What the catalog and the owner say of a stored table.

    `keys` are the sets of columns, in lower case, that the catalog says are unique. `public` is the owner's word that
    the table holds no rows of anybody.
    """

    name: str
    schema: str
    table: str
    columns: tuple[ColumnFacts, ...]
    keys: tuple[frozenset[str], ...] = ()
    public: bool = False


@dataclass(frozen=True, eq=False)
class Relation:
    """Rows of a query: the SELECT that gives them and the columns that it has; a column's place is its number.

    `unit` is the kind of the unit's values (integer, text or uuid), "" for a public table. `single` says that a unit
    has at most one row. `keys` are the unique sets of columns of a public table, in lower case.
    """

    query: exp.Select
    columns: tuple[ColumnFacts, ...]
    unit: str = ""
    unit_name: str = ""
    single: bool = False
    keys: tuple[frozenset[str], ...] = ()


def number_name(number: int) -> str:
    """Return the name of a relation's column in SQL."""
    return f"c{number}"


def unit_of(alias: str) -> exp.Column:
    """Return the unit's column of a relation by its alias."""
    return column(UNIT, alias)


def private_rows(table: TableFacts, unit: str, kind: str, needed: Sequence[ColumnFacts]) -> Relation:
    """Return the rows of a private table whose unit is not NULL. Its rows of u are rows of u: it is unit-local."""
    own = next(facts for facts in table.columns if facts.name.lower() == unit.lower())
    query = _select_columns(table, needed).select(_alias(column(own.name), UNIT))
    query = query.where(column(own.name).is_(exp.null()).not_())
    single = frozenset([own.name.lower()]) in table.keys
    return Relation(query, tuple(needed), kind, own.name, single)


def public_rows(table: TableFacts, needed: Sequence[ColumnFacts]) -> Relation:
    """Return the rows of a public table, which are the same whoever is in the private tables."""
    return Relation(_select_columns(table, needed), tuple(needed), keys=table.keys)


def _select_columns(table: TableFacts, needed: Sequence[ColumnFacts]) -> exp.Select:
    names = [_alias(column(facts.name), number_name(number)) for number, facts in enumerate(needed)]
    catalog, schema = split_catalog(table.schema)
    place = exp.table_(table.table, db=schema, catalog=catalog, quoted=True)
    return exp.Select().select(*(names or [_alias(exp.Literal.number(0), "nothing")])).from_(place)


@dataclass(frozen=True, eq=False)
class Joined:
    """Relations that are joined by SQL: the aliases of all of them, and an unfinished SELECT without columns.

    The first is unit-local. A private one that is joined equates its unit with that of an earlier one, and a row pair
    that passes such a test has one unit; a public one depends on nobody. So the joined rows with the first one's unit
    are a function of that unit's rows, for INNER and for LEFT: whether a row finds no partner is decided among the rows
    of its own unit and public rows. A condition on the joined rows keeps this.

    `optional` are the relations that were joined by LEFT with a test beside the unit's, or on the unit of such a one:
    of the rows of one unit some may have a partner there, and others NULL in its place.
    """

    query: exp.Select
    relations: Mapping[str, Relation]
    optional: frozenset[str] = frozenset()

    @property
    def first(self) -> Relation:
        """The relation whose unit is the unit of the joined rows."""
        return next(iter(self.relations.values()))

    @property
    def first_alias(self) -> str:
        """The alias of that relation."""
        return next(iter(self.relations))


def start_join(relation: Relation) -> Joined:
    """Return the rows of one unit-local relation, to join others with."""
    alias = f"{PRIVATE_ALIAS}0"
    return Joined(exp.Select().from_(_subquery(relation, alias)), {alias: relation})


def next_alias(joined: Joined, relation: Relation) -> str:
    """Return the alias that a relation gets when it is joined next."""
    return f"{PRIVATE_ALIAS if relation.unit else PUBLIC_ALIAS}{len(joined.relations)}"


def join_on(
    joined: Joined, relation: Relation, tests: Sequence[exp.Expr], *, left: bool, unit_alone: bool = False
) -> Joined:
    """Return the rows with those of another relation joined to them, where all tests hold.

    `unit_alone` says that the tests do nothing but equate units, with relations that are not `optional`: such a unit is
    there in all joined rows of a unit or in none, so all of them find a partner, or none does.
    """
    alias = next_alias(joined, relation)
    query = joined.query.join(
        _subquery(relation, alias), on=exp.and_(*tests), join_type="LEFT" if left else "INNER", copy=True
    )
    optional = joined.optional | {alias} if left and not unit_alone else joined.optional
    return Joined(query, {**joined.relations, alias: relation}, optional)


def same_unit(first: str, second: str, kind: str, vocabulary: Vocabulary) -> exp.Expr:
    """Return the test that two relations' rows are of one unit."""
    if kind == "text":
        return same_text(unit_of(first), unit_of(second), vocabulary)
    return unit_of(first).eq(unit_of(second))


def same_text(first: exp.Expr, second: exp.Expr, vocabulary: Vocabulary) -> exp.Expr:
    """Return the test that two texts have the same bytes; two columns of other collations could not be compared."""
    return by_bytes(first, vocabulary).eq(by_bytes(second, vocabulary))


def by_bytes(text: exp.Expr, vocabulary: Vocabulary) -> exp.Expr:
    """Return a text that is compared byte by byte, where the database has a word for that; else texts always are."""
    if "collate" not in vocabulary.functions:
        return text
    return exp.Paren(this=exp.Collate(this=text, expression=exp.to_identifier("C", quoted=True)))


def with_rows_where(joined: Joined, test: exp.Expr) -> Joined:
    """Return the joined rows that pass a test."""
    return replace(joined, query=joined.query.where(test))


def project(joined: Joined, columns: Sequence[tuple[exp.Expr, ColumnFacts]], *, single: bool) -> Relation:
    """Return one row for each joined row: expressions over that row alone, under the first relation's unit."""
    first = joined.first
    query = joined.query.select(_alias(unit_of(joined.first_alias), UNIT))
    query = query.select(*(_alias(value, number_name(number)) for number, (value, _) in enumerate(columns)))
    return Relation(query, tuple(facts for _, facts in columns), first.unit, first.unit_name, single)


def add_windows(relation: Relation, windows: Sequence[tuple[exp.Expr, int, ColumnFacts]]) -> Relation:
    """Return the rows with aggregates over the rows of the same unit and the same first columns beside each.

    Each window is an aggregate over `rows_0`, the number of columns that its rows have in common beside the unit, and
    what is known of it. The unit is always among what they have in common, so a window sees rows of one unit.
    """
    alias = f"{PRIVATE_ALIAS}0"
    query = exp.Select().from_(_subquery(relation, alias)).select(_alias(unit_of(alias), UNIT))
    places = range(len(relation.columns))
    query = query.select(*(_alias(column(number_name(place), alias), number_name(place)) for place in places))
    for number, (aggregate, common, _) in enumerate(windows):
        keys = [unit_of(alias), *(column(number_name(place), alias) for place in range(common))]
        window = exp.Window(this=aggregate, partition_by=keys)
        query = query.select(_alias(window, number_name(len(places) + number)))
    columns = relation.columns + tuple(facts for *_, facts in windows)
    return Relation(query, columns, relation.unit, relation.unit_name, relation.single)


def group(relation: Relation, keys: int, values: Sequence[tuple[exp.Expr, ColumnFacts]], *, single: bool) -> Relation:
    """Return one row for each unit and each value of the first `keys` columns: those columns, then aggregates.

    A group has rows of one unit alone, and there is a group only where that unit has a row. The aggregates are over
    `rows_0` and depend on which values its rows have, not on their order (`compile/views/unit_aggregates.py`).
    """
    alias = f"{PRIVATE_ALIAS}0"
    key_columns = [column(number_name(place), alias) for place in range(keys)]
    query = exp.Select().from_(_subquery(relation, alias)).select(_alias(unit_of(alias), UNIT))
    named = [*key_columns, *(value for value, _ in values)]
    query = query.select(*(_alias(value.copy(), number_name(number)) for number, value in enumerate(named)))
    query = query.group_by(unit_of(alias), *(key.copy() for key in key_columns))
    columns = relation.columns[:keys] + tuple(facts for _, facts in values)
    return Relation(query, columns, relation.unit, relation.unit_name, single)


def _subquery(relation: Relation, alias: str) -> exp.Subquery:
    return exp.Subquery(this=relation.query.copy(), alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))


def as_rows(relation: Relation) -> exp.Subquery:
    """Return a relation as the rows that statements read."""
    return _subquery(relation, UNIT_ROWS)


def _alias(value: exp.Expr, name: str) -> exp.Alias:
    return exp.Alias(this=value, alias=exp.to_identifier(name, quoted=True))
