"""Proves from a query's text that each of its rows depends on one unit's rows alone: joins and groups of many tables.

The text alone decides, with what the catalog says of types and keys, by a short list of what is allowed:

    query    = [WITH name AS ( query ), …] SELECT item AS name, … FROM source [AS name]
               { [INNER | LEFT] JOIN source [AS name] ON test } [WHERE test] [GROUP BY unit { , column }]
    source   = a stored table | a name of WITH | ( query )
    test     = a total condition over the joined row (`compile/views/total_expressions.py`)
    item     = a total expression over the joined row; with GROUP BY over its columns and aggregates
               (`compile/views/unit_aggregates.py`)

- A private table has the unit's column. The first source is private, or a query.
- A private source that is joined equates its unit with that of an earlier source: `ON a.person_id = b.person_id`.
- A public table is joined on columns that the catalog says are unique.
- GROUP BY has the unit's column of the first source, and the outermost SELECT gives it out under its own name.

Everything else is refused, with the reason. What is allowed is translated, step by step, into the relations of
`compile/views/unit_relations.py`, each of which is unit-local by the proof that stands there; by induction so is the
whole. The translation is what runs. So it does not matter if a database would read the text otherwise than sqlglot, or
if a macro bears the name of an aggregate.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp, parse
from sqlglot.errors import SqlglotError

from dpsql.compile.views.joined_rows import JoinedRows, expression_facts
from dpsql.compile.views.total_expressions import Refused, refuse_other_parts, unbracket
from dpsql.compile.views.unit_groups import group_rows
from dpsql.compile.views.unit_relations import (
    ColumnFacts,
    Joined,
    Relation,
    TableFacts,
    join_on,
    next_alias,
    private_rows,
    project,
    public_rows,
    same_unit,
    start_join,
    with_rows_where,
)
from dpsql.spelling import Vocabulary

#: Finds a stored table by the schema that a text gives (None without one) and its name; None where there is none.
FindTable = Callable[[str | None, str], TableFacts | None]
#: The longest text of a view, in characters, and how many sources it may have in all.
MAX_LENGTH, MAX_SOURCES = 50_000, 60


@dataclass(frozen=True, eq=False)
class UnitView:
    """A query that was proved unit-local: its rows, its columns in order, and the tables that it reads.

    The column at place k of `relation` is `names[k]`; the unit's column is `unit`, and has no place of its own.
    """

    relation: Relation
    names: tuple[str, ...]
    unit: str
    private: tuple[TableFacts, ...]
    public: tuple[TableFacts, ...]


def prove_unit_view(text: str, dialect: str, *, unit: str, find_table: FindTable, vocabulary: Vocabulary) -> UnitView:
    """Return the translation of a text whose rows each depend on one unit, or raise Refused with the reason."""
    try:
        reader = _Reader(dialect, unit, find_table, vocabulary)
        return reader.view(_parse(text, dialect))
    except RecursionError:
        raise Refused("is nested too deeply") from None


def _parse(text: str, dialect: str) -> exp.Select:
    """Return the one SELECT of a text, which may be given as CREATE VIEW."""
    if len(text) > MAX_LENGTH:
        raise Refused(f"is longer than {MAX_LENGTH} characters")
    try:
        statements = [statement for statement in parse(text, dialect=dialect) if statement is not None]
    except SqlglotError:
        raise Refused("has a text that dpsql cannot read") from None
    if len(statements) != 1:
        raise Refused(f"has {len(statements)} statements where one SELECT is needed")
    statement = statements[0]
    if isinstance(statement, exp.Create):
        if statement.kind != "VIEW":
            raise Refused("is not a SELECT, nor CREATE VIEW")
        refuse_other_parts(statement, "this", "kind", "expression", "replace")
        if isinstance(statement.this, exp.Schema):
            raise Refused("gives its columns names outside of the SELECT")
        statement = statement.expression
    return _plain_select(statement.transform(_standard_count))


def _standard_count(node: exp.Expr) -> exp.Expr:
    """Return COUNT(*) for the name that DuckDB gives it in the texts of stored views."""
    if isinstance(node, exp.Anonymous) and node.name.lower() == "count_star" and not node.expressions:
        return exp.Count(this=exp.Star())
    return node


def _plain_select(statement: object) -> exp.Select:
    if isinstance(statement, exp.SetOperation):
        raise Refused(f"uses {type(statement).__name__.upper()}, whose rows of one unit dpsql does not prove")
    if isinstance(statement, exp.Subquery):
        refuse_other_parts(statement, "this", "alias")
        return _plain_select(statement.this)
    if not isinstance(statement, exp.Select):
        raise Refused("is not one plain SELECT")
    if statement.args.get("having"):
        raise Refused("uses HAVING; put the query into FROM ( … ) AS name and filter it with WHERE")
    if statement.args.get("distinct"):
        raise Refused("uses DISTINCT; GROUP BY the unit's column instead")
    refuse_other_parts(statement, "expressions", "from_", "joins", "where", "group", "with_")
    return statement


class _Reader:
    """Reads the SELECTs of one text, from the inside out."""

    def __init__(self, dialect: str, unit: str, find_table: FindTable, vocabulary: Vocabulary) -> None:
        self.dialect = dialect
        self.unit = unit
        self.find_table = find_table
        self.vocabulary = vocabulary
        self.needed: frozenset[str] = frozenset()
        self.sources = 0
        self.private: dict[tuple[str, str], TableFacts] = {}
        self.public: dict[tuple[str, str], TableFacts] = {}
        self.kind = ""

    def view(self, select: exp.Select) -> UnitView:
        """Return the translation of the outermost SELECT."""
        self.needed = frozenset(node.name.lower() for node in select.find_all(exp.Column))
        relation = self.relation(select, {})
        if relation.unit_name.lower() != self.unit.lower():
            raise Refused(f'does not give out the unit\'s column as "{self.unit}"')
        names = tuple(facts.name for facts in relation.columns)
        return UnitView(relation, names, self.unit, tuple(self.private.values()), tuple(self.public.values()))

    def relation(self, select: exp.Select, outer: Mapping[str, Relation]) -> Relation:
        """Return the relation of one SELECT; `outer` are the names of WITH around it."""
        named = self._parts_of_with(select, outer)
        joined, aliases = self._join_sources(select, named)
        rows = JoinedRows(joined, aliases, self.dialect, self.vocabulary)
        where = select.args.get("where")
        if where is not None:
            refuse_other_parts(where, "this")
            joined = with_rows_where(joined, rows.condition(where.this))
        items = list(_items(select))
        if select.args.get("group") is not None or any(_has_aggregate(item) for _, item in items):
            relation = group_rows(select, items, joined, rows)
        else:
            relation = self._project_items(items, joined, rows)
        if sum(1 for _ in relation.query.find_all(exp.Table)) > MAX_SOURCES:  # a name of WITH counts wherever it stands
            raise Refused(f"reads from more than {MAX_SOURCES} sources")
        return relation

    def _project_items(
        self, items: Collection[tuple[str, exp.Expression]], joined: Joined, rows: JoinedRows
    ) -> Relation:
        """Return one row for each joined row."""
        units = [name for name, item in items if rows.is_unit(item)]
        if not units:
            raise Refused("does not give out the unit's column (of its first table)")
        columns = [
            (rows.value(item), replace(expression_facts(rows, item), name=name))
            for name, item in items
            if name != units[0]
        ]
        single = all(relation.single or not relation.unit for relation in joined.relations.values())
        return replace(project(joined, columns, single=single), unit_name=units[0])

    def _parts_of_with(self, select: exp.Select, outer: Mapping[str, Relation]) -> dict[str, Relation]:
        """Return the relations of WITH by their names in lower case, after those around it."""
        named = dict(outer)
        clause = select.args.get("with_")
        if clause is None:
            return named
        if clause.args.get("recursive"):
            raise Refused("uses WITH RECURSIVE")
        refuse_other_parts(clause, "expressions")
        for part in clause.expressions:
            refuse_other_parts(part, "this", "alias")
            refuse_other_parts(part.args["alias"], "this")
            name = part.alias.lower()
            if name in named or self.find_table(None, part.alias) is not None:
                raise Refused(f'uses WITH for the name "{part.alias}", which a table or another part has; rename it')
            named[name] = self.relation(_plain_select(part.this), named)
        return named

    def _join_sources(self, select: exp.Select, named: Mapping[str, Relation]) -> tuple[Joined, dict[str, str]]:
        """Return the joined sources of FROM, and the alias in SQL of each name that the text gives them."""
        source = select.args.get("from_")
        if source is None:
            raise Refused("has a SELECT without FROM")
        refuse_other_parts(source, "this")
        first, inner_joins = _without_brackets(source.this)
        name, relation = self._source(first, named)
        if not relation.unit:
            raise Refused(f'begins with the public table "{name}"; begin with a private one: FROM persons JOIN {name}')
        joined = start_join(relation)
        aliases = {name: joined.first_alias}
        for join in [*inner_joins, *(select.args.get("joins") or ())]:
            name, relation = self._source(join.this, named)
            if name in aliases:
                raise Refused(f'has two sources named "{name}"; give one another name with AS')
            aliases[name] = next_alias(joined, relation)
            joined = self._join(join, joined, relation, aliases, name)
        return joined, aliases

    def _source(self, node: exp.Expression, named: Mapping[str, Relation]) -> tuple[str, Relation]:
        """Return the name of a source in lower case, and its relation."""
        self.sources += 1
        if self.sources > MAX_SOURCES:
            raise Refused(f"reads from more than {MAX_SOURCES} sources")
        if isinstance(node, exp.Subquery):
            refuse_other_parts(node, "this", "alias")
            if not node.alias:
                raise Refused("has a subquery in FROM without a name (add AS name)")
            refuse_other_parts(node.args["alias"], "this")
            return node.alias.lower(), self.relation(_plain_select(node.this), named)
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            raise Refused("reads from something that is neither a table, a name of WITH nor a subquery")
        refuse_other_parts(node, "this", "db", "catalog", "alias")
        if node.catalog:
            raise Refused("reads from another database")
        if node.args.get("alias"):
            refuse_other_parts(node.args["alias"], "this")
        if not node.db and node.name.lower() in named:
            return node.alias_or_name.lower(), named[node.name.lower()]
        table = self.find_table(node.db or None, node.name)
        if table is None:
            raise Refused(f'reads "{node.name}", which is no stored table here')
        return node.alias_or_name.lower(), self._table(table)

    def _table(self, table: TableFacts) -> Relation:
        """Return the rows of a stored table."""
        lowered = [facts.name.lower() for facts in table.columns]
        if len(set(lowered)) < len(lowered):
            raise Refused(f'reads "{table.name}", which has two columns whose names differ in letter case alone')
        place = (table.schema, table.table)
        needed = [facts for facts in table.columns if facts.name.lower() in self.needed and not facts.unusable]
        if table.public:
            self.public[place] = table
            return public_rows(table, needed)
        own = next((facts for facts in table.columns if facts.name.lower() == self.unit.lower()), None)
        if own is None:
            raise Refused(
                f'reads "{table.name}", which has no column "{self.unit}"; if it holds no rows of anybody, '
                f"declare it public: --public {table.name}"
            )
        if own.unusable:
            raise Refused(f'cannot rely on the unit\'s column of "{table.name}": it {own.unusable}')
        kind = unit_kind(own, self.dialect)
        if kind is None:
            raise Refused(
                f'has units of type {own.type} in "{table.name}"; integers, texts and UUIDs have one spelling each'
            )
        if self.kind and kind != self.kind:
            raise Refused(f'has units of type {kind} in "{table.name}" and of type {self.kind} before')
        self.kind = kind
        self.private[place] = table
        return private_rows(table, self.unit, kind, needed)

    def _join(
        self, join: exp.Join, joined: Joined, relation: Relation, aliases: Mapping[str, str], name: str
    ) -> Joined:
        """Return the joined rows with one more source."""
        word = " ".join(str(join.args[part]).upper() for part in ("method", "side", "kind") if join.args.get(part))
        if word not in ("", "INNER", "LEFT", "LEFT OUTER"):
            raise Refused(f"uses {word} JOIN; INNER and LEFT are allowed")
        if join.args.get("using"):
            raise Refused(f"uses USING; write ON, with both columns: … JOIN {name} ON first.column = {name}.column")
        refuse_other_parts(join, "this", "on", "side", "kind")
        if join.args.get("on") is None:
            raise Refused(f'joins "{name}" without ON')
        alias = next_alias(joined, relation)
        wider = Joined(joined.query, {**joined.relations, alias: relation})
        rows = JoinedRows(wider, aliases, self.dialect, self.vocabulary)
        tests = [rows.without_text_casts(test) for test in _conjuncts(join.args["on"])]
        left, unit_alone = word.startswith("LEFT"), False
        if relation.unit:
            others = [_equated_unit(test, rows, alias) for test in tests]
            unit_alone = all(other is not None and other not in joined.optional for other in others)
            built = self._unit_tests(tests, others, rows, alias, name)
        else:
            _check_key(tests, rows, alias, relation, name)
            built = [rows.condition(test) for test in tests]
        return join_on(joined, relation, built, left=left, unit_alone=unit_alone)

    def _unit_tests(
        self, tests: list[exp.Expression], others: list[str | None], rows: JoinedRows, alias: str, name: str
    ) -> list[exp.Expr]:
        """Return the tests of a join with a private source, one of which must equate the units.

        `others` are, for each test, the alias of the source whose unit it equates with the newest one's, or None.
        """
        built = [
            rows.condition(test) if other is None else same_unit(other, alias, self.kind, self.vocabulary)
            for test, other in zip(tests, others, strict=True)
        ]
        if all(other is None for other in others):
            raise Refused(f'joins "{name}", which holds private rows, without equating its unit: add … AND '
                          f"first.{self.unit} = {name}.{self.unit} to ON")  # fmt: skip
        return built


def _without_brackets(node: exp.Expression) -> tuple[exp.Expression, list[exp.Join]]:
    """Return the first source of joins in brackets, and these joins: `((a JOIN b) JOIN c)` is `a JOIN b JOIN c`.

    Databases store the texts of views with such brackets.
    """
    joins = list(node.args.get("joins") or ())
    if isinstance(node, exp.Subquery) and not node.alias and not isinstance(node.this, exp.Query):
        refuse_other_parts(node, "this", "joins")
        first, before = _without_brackets(node.this)
        return first, [*before, *joins]
    if joins:
        node = node.copy()
        node.set("joins", None)
    return node, joins


def _equated_unit(test: exp.Expression, rows: JoinedRows, alias: str) -> str | None:
    """Return the alias of the earlier source whose unit a test equates with the newest one's, or None."""
    test = unbracket(test)
    if type(test) is not exp.EQ:
        return None
    refuse_other_parts(test, "this", "expression")
    sides = [rows.unit_alias(side) for side in (test.this, test.expression)]
    others = [side for side in sides if side != alias]
    return others[0] if alias in sides and len(others) == 1 and others[0] is not None else None


def _check_key(tests: list[exp.Expression], rows: JoinedRows, alias: str, relation: Relation, name: str) -> None:
    """Refuse a public table that is not joined on a unique key: its rows would multiply those of a unit."""
    equated = {column for test in tests if (column := _equated_column(test, rows, alias)) is not None}
    if not any(key <= equated for key in relation.keys):
        keys = " or ".join(sorted(f"({', '.join(sorted(key))})" for key in relation.keys)) or "it has none"
        raise Refused(
            f'joins the public table "{name}" on columns that the catalog does not say are unique '
            f"(unique keys: {keys}); add a PRIMARY KEY or UNIQUE constraint, and equate all of its columns"
        )


def _equated_column(test: exp.Expression, rows: JoinedRows, alias: str) -> str | None:
    """Return the column of the newest source, in lower case, that a test equates with one of another; or None."""
    test = unbracket(test)
    if type(test) is not exp.EQ or not all(isinstance(side, exp.Column) for side in (test.this, test.expression)):
        return None
    places = [rows.place(side) for side in (test.this, test.expression)]
    own = [(place, facts) for place, facts in places if place == alias]
    other = [(place, facts) for place, facts in places if place != alias]
    if len(own) != 1:
        return None
    facts, partner = own[0][1], other[0][1]
    exact = (facts.integer and partner.integer) or rows.both_text(facts, partner)
    same_type = facts.type == partner.type and facts.type.lower() in ("date", "uuid")
    return facts.name.lower() if exact or same_type else None


def unit_kind(facts: ColumnFacts, dialect: str) -> str | None:
    """Return the kind of a unit's values, or None where two spellings of one value could be equal."""
    if facts.integer:
        return "integer"
    if facts.type.lower() == "uuid":
        return "uuid"
    plain = facts.type.upper().split("(")[0].strip() in ("VARCHAR", "TEXT", "CHARACTER VARYING")
    return "text" if facts.family == "text" and plain else None


def _items(select: exp.Select) -> Iterator[tuple[str, exp.Expression]]:
    """Yield the name and the expression of each column that a SELECT gives out."""
    seen: set[str] = set()
    for place, item in enumerate(select.expressions):
        if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
            raise Refused("uses a star; name the columns")
        name = item.alias_or_name if isinstance(item, exp.Alias | exp.Column) else ""
        if isinstance(item, exp.Alias):
            refuse_other_parts(item, "this", "alias")
        if not name:
            raise Refused(f"gives its column {place + 1} no name (add AS name)")
        if name.lower() in seen:
            raise Refused(f'has two columns named "{name}"')
        seen.add(name.lower())
        if item.find(exp.Query, exp.SubqueryPredicate) is not None:
            raise Refused(f'uses a subquery in the column "{name}"; put it into FROM and join it on the unit')
        if item.find(exp.Window) is not None:
            raise Refused(f'uses a window function in the column "{name}"')
        yield name, item.this if isinstance(item, exp.Alias) else item


def _has_aggregate(item: exp.Expression) -> bool:
    return item.find(exp.AggFunc, exp.Filter) is not None


def _conjuncts(test: exp.Expression) -> Iterator[exp.Expression]:
    """Yield the tests that a condition joins by AND."""
    test = unbracket(test)
    if type(test) is exp.And:
        yield from _conjuncts(test.this)
        yield from _conjuncts(test.expression)
    else:
        yield test
