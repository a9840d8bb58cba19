"""The columns that an expression over joined relations may use, and its translation; each name means one column.

The expressions are those of `compile/views/total_expressions.py`: no value of a cell makes one fail. Here names are
looked up in several relations, and a name that two of them have is refused unless it says which is meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlglot import exp

from dpsql.compile.views.total_expressions import (
    NEVER_COMPARED,
    Refused,
    Row,
    is_single,
    refuse_other_parts,
    type_family,
    unbracket,
)
from dpsql.compile.views.unit_aggregates import CONDITION, INTEGER, REAL
from dpsql.compile.views.unit_relations import ColumnFacts, Joined, by_bytes, number_name, unit_of
from dpsql.compile.vocabulary import column
from dpsql.spelling import Vocabulary

#: What is known of an expression that is neither a column nor a number, by the family of its values.
_FACTS = {
    "text": ColumnFacts("", "TEXT", "text"),
    "boolean": CONDITION,
    "date": ColumnFacts("", "DATE", "date"),
    "timestamp": ColumnFacts("", "TIMESTAMP", "other"),
}


class JoinedRows(Row):
    """The names of joined relations: `aliases` maps the names that the text gives them to those in SQL."""

    def __init__(self, joined: Joined, aliases: Mapping[str, str], dialect: str, vocabulary: Vocabulary) -> None:
        self.joined = joined
        self.relation_aliases = dict(aliases)
        self.dialect = dialect
        self.vocabulary = vocabulary

    def column(self, node: exp.Column) -> str:
        """Return the family of a column's values."""
        return self._family(self.place(node)[1])

    def _family(self, facts: ColumnFacts) -> str:
        return type_family(facts.type, self.dialect)

    def place(self, node: exp.Column) -> tuple[str, ColumnFacts]:
        """Return the alias of the relation that a column belongs to, and what is known of the column."""
        alias, _, facts = self._find(node)
        return alias, facts

    def _find(self, node: exp.Column) -> tuple[str, int | None, ColumnFacts]:
        """Return a column's alias, its place in that relation (None for the unit's column), and what is known of it."""
        refuse_other_parts(node, "this", "table")
        if not isinstance(node.this, exp.Identifier):
            raise Refused(f'uses "{node.sql()}", which is not a column')
        if node.table and node.table.lower() not in self.relation_aliases:
            raise Refused(f'uses "{node.sql()}", and "{node.table}" is none of its sources')
        names = [node.table.lower()] if node.table else list(self.relation_aliases)
        matches = [match for name in names for match in self._matches(self.relation_aliases[name], node.name.lower())]
        if not matches:
            raise Refused(f'uses "{node.sql()}", which is not a column of its sources, or one that cannot be read')
        if len(matches) > 1:
            raise Refused(f'uses "{node.name}", which several sources have; write SOURCE.{node.name}')
        return matches[0]

    def _matches(self, alias: str, name: str) -> list[tuple[str, int | None, ColumnFacts]]:
        relation = self.joined.relations[alias]
        if relation.unit and relation.unit_name.lower() == name:
            return [(alias, None, unit_facts(relation.unit, relation.unit_name))]
        return [(alias, place, facts) for place, facts in enumerate(relation.columns) if facts.name.lower() == name]

    def unit_alias(self, node: exp.Expression) -> str | None:
        """Return the alias of the relation whose unit a node is, or None."""
        node = unbracket(node)
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return None
        alias, place, _ = self._find(node)
        return alias if place is None else None

    def is_unit(self, node: exp.Expression) -> bool:
        """Whether a node is the unit's column of the first relation."""
        return self.unit_alias(node) == self.joined.first_alias

    def both_text(self, first: ColumnFacts, second: ColumnFacts) -> bool:
        """Whether two columns hold texts, which can be compared byte by byte."""
        return (
            self._family(first) == self._family(second) == "text" and "ENUM" not in (first.type + second.type).upper()
        )

    def family(self, node: exp.Expression) -> str:
        """Return the family of an expression's values, or refuse it."""
        if self._compares_texts(node):
            refuse_other_parts(node, "this", "expression")
            return "boolean"
        return super().family(node)

    def _compares_texts(self, node: exp.Expr) -> bool:
        """Whether a node asks if two columns of text are equal."""
        if type(node) not in (exp.EQ, exp.NEQ):
            return False
        first, second = unbracket(node.this), unbracket(node.expression)
        if not isinstance(first, exp.Column) or not isinstance(second, exp.Column):
            return False
        return self.both_text(self.place(first)[1], self.place(second)[1])

    def without_text_casts(self, node: exp.Expression) -> exp.Expression:
        """Return a test without casts of columns of text to text, which PostgreSQL adds to stored views."""

        def strip(part: Any) -> Any:
            inner = unbracket(part.this) if type(part) is exp.Cast else None
            if type(inner) is not exp.Column or part.args["to"].sql() != "TEXT":
                return part
            plain = self.place(inner)[1].type.upper().startswith(("VARCHAR", "TEXT", "CHARACTER VARYING"))
            return inner.copy() if plain else part

        stripped: Any = node.copy().transform(strip)
        return stripped

    def same(self, nodes: Iterable[exp.Expression]) -> str:
        """Return the one family of several expressions, or refuse them; two columns of text have two collations."""
        nodes = list(nodes)
        families = {self.family(node) for node in nodes} - {"null"}
        self.check_singles(nodes)
        columns = {self._find(part)[:2] for node in nodes for part in node.find_all(exp.Column)}
        if families == {"text"} and len(columns) > 1:
            raise Refused("mixes two columns of text, whose collations may differ; = and <> are allowed")
        if not families:
            return "null"
        if len(families) > 1 or families & NEVER_COMPARED:
            raise Refused(f"compares or mixes values of type {' and '.join(sorted(families))}")
        return families.pop()

    def is_single(self, node: exp.Column) -> bool:
        """Whether a column has a type of single precision, to which a number may have to be cast."""
        return is_single(self.place(node)[1].type, self.dialect)

    def condition(self, node: exp.Expression) -> exp.Expr:
        """Return a test over a joined row in SQL, or refuse it."""
        family = self.family(node)
        if family not in ("boolean", "null"):
            raise Refused(f"uses a {family} value where a condition is needed")
        return exp.Paren(this=self.translate(node))

    def value(self, node: exp.Expression) -> exp.Expr:
        """Return an expression over a joined row in SQL, of the type that `expression_facts` says, or refuse it."""
        facts, translated = expression_facts(self, node), self.translate(node)
        if type(unbracket(node)) is exp.Column:
            return translated
        if facts.integer:
            return exp.cast(translated, exp.DataType.Type.BIGINT)
        if facts.family == "real":
            return self.number(node)
        return exp.cast(translated, exp.DataType.Type.TEXT) if facts.family == "text" else translated

    def number(self, node: exp.Expression) -> exp.Expr:
        """Return a number over a joined row as a double."""
        decimal = any(self.place(part)[1].decimal for part in node.find_all(exp.Column))
        return self.vocabulary.number(exp.Paren(this=self.translate(node)), decimal=decimal)

    def is_whole(self, node: exp.Expression) -> bool:
        """Whether a number is surely an integer of at most 64 bits."""
        node = unbracket(node)
        if isinstance(node, exp.Column):
            return self.place(node)[1].integer
        if isinstance(node, exp.Neg):
            return self.is_whole(node.this)
        if isinstance(node, exp.Literal):
            return not node.is_string and node.name.isdigit() and len(node.name) <= 15
        if isinstance(node, exp.Null):
            return True
        if isinstance(node, exp.Case):
            results = [branch.args["true"] for branch in node.args["ifs"]]
            return all(self.is_whole(result) for result in [*results, node.args.get("default") or exp.null()])
        if isinstance(node, exp.Coalesce):
            return all(self.is_whole(part) for part in [node.this, *node.expressions])
        return isinstance(node, exp.Nullif) and self.is_whole(node.this) and self.is_whole(node.expression)

    def translate(self, node: exp.Expression) -> exp.Expr:
        """Return an expression that was checked, with its columns by their aliases and numbers."""

        def sql(part: exp.Expr) -> exp.Expr:
            if not isinstance(part, exp.Column):
                return part
            alias, place, _ = self._find(part)
            return unit_of(alias) if place is None else column(number_name(place), alias)

        bytewise = [self._compares_texts(part) for part in node.walk()]
        copied = node.copy()
        for part, compared in zip(list(copied.walk()), bytewise, strict=True):
            if compared:
                part.set("this", by_bytes(part.this.copy(), self.vocabulary))
                part.set("expression", by_bytes(part.expression.copy(), self.vocabulary))
        translated: Any = copied.transform(sql)
        return self.with_bounded_letter_case(translated)


def expression_facts(rows: JoinedRows, node: exp.Expression) -> ColumnFacts:
    """Return what is known of an expression's values, or refuse it: a column's own facts, else those of its family."""
    family, inner = rows.family(node), unbracket(node)
    if type(inner) is exp.Column:
        return rows.place(inner)[1]
    if family == "number":
        return INTEGER if rows.is_whole(inner) else REAL
    if family not in _FACTS:
        raise Refused("gives out NULL without a type" if family == "null" else "gives out a value of unknown type")
    return _FACTS[family]


def unit_facts(kind: str, name: str) -> ColumnFacts:
    """Return what is known of a unit's column of one of the three kinds."""
    if kind == "integer":
        return ColumnFacts(name, "BIGINT", "integer", integer=True)
    return ColumnFacts(name, "TEXT", "text") if kind == "text" else ColumnFacts(name, "UUID", "other")
