"""Decides which views are row-to-row: each row of one base table gives at most one row, which depends on it alone.

A privacy unit of the base table is then the same unit in the view, and no row can make the view fail. The view's
text alone decides, by a short list of what is allowed; everything else is refused. Two facts are not in the text, and
a view that depends on one of them is refused unless the caller gives that fact:

- `types`: the base table's column types. `text IN (1, 2)` fails on a row that holds no number, so
  both sides of a comparison must be of one family, and that needs types. They also tell a base column
  from an alias and from pseudo-columns such as `rowid`, which depend on the other rows.
- `macros`: the names of all macros that users made. A macro can take the place of `lower`, or even of LIKE
  (whose name is `~~`), and do anything.

The base may be a view itself: the caller then examines that view in the same way. An unqualified base is looked up
first in the view's own schema (`home`), then in the default one. What was proved holds for this text, these types and
these macros only: callers must ask again before each training.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import Dialect, TokenType, exp
from sqlglot.errors import SqlglotError

from dpsql.compile.views.total_expressions import Refused, Row, refuse_other_parts

#: Functions that never fail on text or on two values of one family, with the name by which a macro could replace each.
_FUNCTIONS = {exp.Lower: "lower", exp.Upper: "upper", exp.Trim: "trim", exp.Nullif: "nullif"}
#: The names of LIKE and NOT LIKE, by which a macro could replace them.
_LIKE = frozenset(("~~", "!~~"))
#: Words that stand before a parenthesis without calling anything.
_SYNTAX = frozenset(
    ("and", "between", "by", "case", "cast", "coalesce", "decimal", "else", "from", "in", "is", "like", "not")
) | frozenset(("numeric", "or", "select", "then", "try_cast", "varchar", "when", "where"))


@dataclass(frozen=True)
class RowView:
    """A view that is row-to-row on one base table.

    `columns` maps the view's columns to expressions over base columns (unqualified), in order;
    with `star` all base columns are there too, under their own names.
    """

    table: str
    schema: str | None
    home: str | None
    columns: Mapping[str, exp.Expression]
    where: exp.Expression | None
    star: bool


def row_to_row(
    definition: str,
    dialect: str,
    *,
    types: Mapping[str, str] | None = None,
    macros: Collection[str] | None = None,
) -> RowView | None:
    """Return what a row-to-row view is made of, or None where it cannot be proved to be one.

    >>> row_to_row("CREATE VIEW v AS SELECT a FROM t WHERE a > 2", "duckdb", types={"a": "INTEGER"}).table
    't'
    """
    try:
        return _examine(definition, dialect, types, macros)
    except Refused:
        return None


def why_not(
    definition: str,
    dialect: str,
    *,
    types: Mapping[str, str] | None = None,
    macros: Collection[str] | None = None,
) -> str | None:
    """Return why a view is refused, in words that follow "the view", or None where it is row-to-row.

    >>> why_not("CREATE VIEW v AS SELECT DISTINCT a FROM t", "duckdb")
    'uses DISTINCT'
    """
    try:
        _examine(definition, dialect, types, macros)
    except Refused as refused:
        return str(refused)
    return None


def base_name(definition: str, dialect: str) -> tuple[str | None, str] | None:
    """Return schema and name of the only table in a view's text, to look up its types; this proves nothing."""
    try:
        table = _base(_parse(definition, dialect)[1])
    except Refused:
        return None
    return table.db or None, table.name


def _examine(definition: str, dialect: str, types: Mapping[str, str] | None, macros: Collection[str] | None) -> RowView:
    try:
        create, select = _parse(definition, dialect)
        table = _base(select)
        row = Row(select, table, dialect, types)
        names = [item.name for item in create.this.expressions] if isinstance(create.this, exp.Schema) else []
        columns, star = _columns(select, names, row)
        where = select.args.get("where")
        condition = None if where is None else row.without_qualifiers(where.this, "boolean")
        row.check_order(select, columns)
        _check_calls(definition, dialect, select, macros)
    except RecursionError:
        raise Refused("is nested too deeply") from None
    home = create.find(exp.Table)
    return RowView(table.name, table.db or None, (home.db or None) if home else None, columns, condition, star)


def _parse(definition: str, dialect: str) -> tuple[exp.Create, exp.Select]:
    try:
        create: exp.Expression = exp.maybe_parse(definition, dialect=dialect)
    except SqlglotError:
        raise Refused("has a text that dpsql cannot read") from None
    except RecursionError:
        raise Refused("is nested too deeply") from None
    if not isinstance(create, exp.Create) or create.kind != "VIEW":
        raise Refused("is not given as CREATE VIEW")
    refuse_other_parts(create, "this", "kind", "expression", "replace")
    select = create.expression
    if not isinstance(select, exp.Select):
        raise Refused("is not one plain SELECT")
    refuse_other_parts(select, "expressions", "from_", "where", "order")
    return create, select


def _base(select: exp.Select) -> exp.Table:
    source: Any = select.args.get("from_")
    table = source.this if source else None
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise Refused("does not read from one table by name")
    refuse_other_parts(source, "this")
    refuse_other_parts(table, "this", "db", "catalog", "alias")
    if table.catalog:
        raise Refused("reads from another database")
    if table.args.get("alias"):
        refuse_other_parts(table.args["alias"], "this")
    return table


def _columns(select: exp.Select, names: list[str], row: Row) -> tuple[dict[str, exp.Expression], bool]:
    """Return the view's columns by name, and whether a star stands for all base columns."""
    stars = [item for item in select.expressions if _is_star(item)]
    if stars and (names or len(stars) > 1):
        raise Refused("renames the columns of a star, or has two")
    columns: dict[str, exp.Expression] = {}
    for place, item in enumerate(select.expressions):
        if _is_star(item):
            row.check_star(item)
            continue
        name = names[place] if place < len(names) else item.alias_or_name
        if not name:
            raise Refused(f"gives its column {place + 1} no name (add AS name)")
        if name.lower() in {other.lower() for other in columns}:
            raise Refused(f'has two columns named "{name}"')
        columns[name] = row.without_qualifiers(item.this if isinstance(item, exp.Alias) else item)
    if stars and columns and (row.types is None or any(name.lower() in row.types for name in columns)):
        raise Refused("adds columns to a star whose names could be the same")
    return columns, bool(stars)


def _is_star(node: exp.Expression) -> bool:
    return isinstance(node.this if isinstance(node, exp.Column) else node, exp.Star)


def _check_calls(definition: str, dialect: str, select: exp.Select, macros: Collection[str] | None) -> None:
    """Refuse calls of anything but the few allowed functions, and of those that a macro may have replaced."""
    tokens = Dialect.get_or_raise(dialect).tokenize(definition)
    start = next(place for place, token in enumerate(tokens) if token.token_type == TokenType.ALIAS)
    used = {name for kind, name in _FUNCTIONS.items() if select.find(kind)}
    used |= _LIKE if select.find(exp.Like) else frozenset()
    for token, following in zip(tokens[start:], tokens[start + 1 :], strict=False):
        quoted = token.token_type == TokenType.IDENTIFIER
        word = token.text.lower()
        called = following.token_type == TokenType.L_PAREN and (quoted or word.replace("_", "").isalnum())
        if called and word not in used and (quoted or word not in _SYNTAX):
            raise Refused(f'calls "{token.text}"')
    if used and macros is None:
        raise Refused(f"calls {', '.join(sorted(used))}, which a macro may have replaced (macros are not known)")
    taken = sorted(used & {name.lower() for name in macros or ()})
    if taken:
        raise Refused(f'calls "{taken[0]}", which a macro has replaced')
