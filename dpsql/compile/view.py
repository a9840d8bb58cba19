"""Which views are row-to-row: each row of one base table gives at most one row, by that row alone.

A privacy unit of the base table is then the same unit in the view, and no row can make the view fail. The view's
text alone decides, against a short list of what is allowed; everything else is refused. Two facts are
not in the text, and what hangs on them is refused until the caller gives them:

- `types`: the base table's column types. `text IN (1, 2)` fails on a row that holds no number, so
  both sides of a comparison must be of one family, and that needs types. They also tell a base column
  from an alias and from pseudo-columns such as `rowid`, which depend on the other rows.
- `macros`: the names of all macros that users made. A macro can take the place of `lower`, or even of LIKE
  (whose name is `~~`), and do anything.

The base can be a view itself: the caller then asks the same about that one. An unqualified base is
looked for first in the view's own schema (`home`), then in the default one. What was proved holds for this
text, these types and these macros: ask again before each training.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlglot import Dialect, TokenType, exp
from sqlglot.errors import SqlglotError

#: Functions that never fail on text or on two values of one family, by the names a macro could take.
_FUNCTIONS = {exp.Lower: "lower", exp.Upper: "upper", exp.Trim: "trim", exp.Nullif: "nullif"}
_LIKE = frozenset(("~~", "!~~"))
#: Words that stand before a parenthesis without calling anything.
_SYNTAX = frozenset(
    ("and", "between", "by", "case", "cast", "coalesce", "decimal", "else", "from", "in", "is", "like", "not")
) | frozenset(("numeric", "or", "select", "then", "try_cast", "varchar", "when", "where"))
#: They depend on the other rows of the table.
_PSEUDO = frozenset(("rowid", "_rowid_", "ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"))
_INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_UNSIGNED = {"UTINYINT": 8, "USMALLINT": 16, "UINT": 32, "UBIGINT": 64}
_FAMILIES = dict.fromkeys([*_INTEGERS, *_UNSIGNED, "FLOAT", "DOUBLE"], "number") | dict.fromkeys(
    ["VARCHAR", "TEXT", "ENUM"], "text"
)
_FAMILIES |= {"BOOLEAN": "boolean", "DATE": "date", "TIMESTAMP": "timestamp", "TIMESTAMPNTZ": "timestamp"}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)


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


class _Refused(Exception):
    """Why a view is not row-to-row, in words that follow "the view"."""


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
    except _Refused:
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
    except _Refused as refused:
        return str(refused)
    return None


def base_name(definition: str, dialect: str) -> tuple[str | None, str] | None:
    """Return schema and name of the only table in a view's text, to look up its types; proves nothing."""
    try:
        table = _base(_parse(definition, dialect)[1])
    except _Refused:
        return None
    return table.db or None, table.name


def _examine(definition: str, dialect: str, types: Mapping[str, str] | None, macros: Collection[str] | None) -> RowView:
    try:
        create, select = _parse(definition, dialect)
        table = _base(select)
        row = _Row(select, table, dialect, types)
        names = [item.name for item in create.this.expressions] if isinstance(create.this, exp.Schema) else []
        columns, star = _columns(select, names, row)
        where = select.args.get("where")
        condition = None if where is None else row.bare(where.this, "boolean")
        row.check_order(select, columns)
        _check_calls(definition, dialect, select, macros)
    except RecursionError:
        raise _Refused("is nested too deeply") from None
    home = create.find(exp.Table)
    return RowView(table.name, table.db or None, (home.db or None) if home else None, columns, condition, star)


def _parse(definition: str, dialect: str) -> tuple[exp.Create, exp.Select]:
    try:
        create: exp.Expression = exp.maybe_parse(definition, dialect=dialect)
    except SqlglotError:
        raise _Refused("has a text that dpsql cannot read") from None
    except RecursionError:
        raise _Refused("is nested too deeply") from None
    if not isinstance(create, exp.Create) or create.kind != "VIEW":
        raise _Refused("is not given as CREATE VIEW")
    _only(create, "this", "kind", "expression", "replace")
    select = create.expression
    if not isinstance(select, exp.Select):
        raise _Refused("is not one plain SELECT")
    _only(select, "expressions", "from_", "where", "order")
    return create, select


def _base(select: exp.Select) -> exp.Table:
    source: Any = select.args.get("from_")
    table = source.this if source else None
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise _Refused("does not read from one table by name")
    _only(source, "this")
    _only(table, "this", "db", "catalog", "alias")
    if table.catalog:
        raise _Refused("reads from another database")
    if table.args.get("alias"):
        _only(table.args["alias"], "this")
    return table


def _columns(select: exp.Select, names: list[str], row: _Row) -> tuple[dict[str, exp.Expression], bool]:
    """Return the view's columns by name, and whether a star stands for all base columns."""
    stars = [item for item in select.expressions if _is_star(item)]
    if stars and (names or len(stars) > 1):
        raise _Refused("renames the columns of a star, or has two")
    found: dict[str, exp.Expression] = {}
    for place, item in enumerate(select.expressions):
        if _is_star(item):
            row.check_star(item)
            continue
        name = names[place] if place < len(names) else item.alias_or_name
        if not name:
            raise _Refused(f"gives its column {place + 1} no name (add AS name)")
        if name.lower() in {other.lower() for other in found}:
            raise _Refused(f'has two columns named "{name}"')
        found[name] = row.bare(item.this if isinstance(item, exp.Alias) else item)
    if stars and found and (row.types is None or any(name.lower() in row.types for name in found)):
        raise _Refused("adds columns to a star whose names could be the same")
    return found, bool(stars)


def _is_star(node: exp.Expression) -> bool:
    return isinstance(node.this if isinstance(node, exp.Column) else node, exp.Star)


class _Row:
    """The columns an expression may use, and the check that no value in them can make it fail."""

    def __init__(self, select: exp.Select, table: exp.Table, dialect: str, types: Mapping[str, str] | None) -> None:
        self.names = {table.alias_or_name.lower()}
        self.schema = table.db.lower()
        self.aliases = {
            item.alias.lower()
            for item in select.expressions
            if isinstance(item, exp.Alias) and item.alias.lower() != item.this.name.lower()
        }
        self.types = None if types is None else {name.lower(): family(kind, dialect) for name, kind in types.items()}

    def bare(self, node: exp.Expression, wanted: str | None = None) -> exp.Expression:
        """Check an expression and return it with its columns unqualified."""
        found = self.family(node)
        if wanted is not None and found not in (wanted, "null"):
            raise _Refused(f"uses a {found} value where a {wanted} is needed")
        strip = lambda part: exp.column(part.this.copy()) if isinstance(part, exp.Column) else part  # noqa: E731
        return node.copy().transform(strip)

    def family(self, node: exp.Expression) -> str:
        """Return the family of an expression's values, or refuse it."""
        check = _CHECKS.get(type(node))
        if check is None:
            raise _Refused(_words(node))
        return check(self, node)

    def same(self, nodes: Iterable[exp.Expression]) -> str:
        """Return the one family of several expressions, or refuse them."""
        found = {self.family(node) for node in nodes} - {"null"}
        if not found:
            return "null"
        if len(found) > 1 or found & {"other", "unknown"}:
            unknown = " (the base table's column types are not known)" if "unknown" in found else ""
            raise _Refused(f"compares or mixes values of type {' and '.join(sorted(found))}{unknown}")
        return found.pop()

    def all(self, wanted: str, nodes: Iterable[exp.Expression], result: str | None = None) -> str:
        """Refuse expressions that are not of the wanted family."""
        if self.same(nodes) not in (wanted, "null"):
            raise _Refused(f"needs a {wanted} value where it has another")
        return result or wanted

    def column(self, node: exp.Column) -> str:
        """Return the family of a base column; refuse aliases, pseudo-columns, fields and whole rows."""
        _only(node, "this", "table", "db")
        name = node.name.lower()
        if not isinstance(node.this, exp.Identifier) or (node.table and node.table.lower() not in self.names):
            raise _Refused(f'uses "{node.sql()}", which is not a column of its base table')
        if node.args.get("db") and node.text("db").lower() != self.schema:
            raise _Refused(f'uses "{node.sql()}", which is not a column of its base table')
        if self.types is not None and name in self.types:
            return self.types[name]
        if self.types is not None or name in (_PSEUDO | self.names | self.aliases):
            raise _Refused(f'uses "{node.name}", which is not a column of its base table')
        return "unknown"

    def check_star(self, node: exp.Expression) -> None:
        """Refuse every star but * and table.*"""
        star = node.this if isinstance(node, exp.Column) else node
        if any(star.args.values()):
            raise _Refused("uses a star with changes")
        if isinstance(node, exp.Column) and (node.table.lower() not in self.names or node.args.get("db")):
            raise _Refused("uses a star on something that is not its base table")

    def check_order(self, select: exp.Select, columns: Mapping[str, exp.Expression]) -> None:
        """Check that the order, which is dropped, cannot fail either."""
        outputs = {name.lower() for name in columns}
        for item in select.args["order"].expressions if select.args.get("order") else ():
            key = item.this
            if not (isinstance(key, exp.Column) and not key.table and key.name.lower() in outputs):
                self.family(key)


def family(kind: str | exp.DataType, dialect: str) -> str:
    """Return the family of a column type: number, text, boolean, date, timestamp or other.

    Numbers of more than 18 decimal digits are "other": comparing them can fail.
    """
    try:
        found = exp.DataType.build(kind, dialect=dialect)
    except SqlglotError:
        return "other"
    name = found.this.name if isinstance(found.this, exp.DataType.Type) else ""
    if name == "DECIMAL" and found.expressions:
        return "number" if int(found.expressions[0].name) <= 18 else "other"
    return "other" if found.args.get("nested") else _FAMILIES.get(name, "other")


def _literal(row: _Row, node: exp.Expression) -> str:
    if not node.is_string and len(node.name) > 15:
        raise _Refused("uses a number of more than 15 digits")
    return "text" if node.is_string else "number"


def _negative(row: _Row, node: exp.Expression) -> str:
    if not isinstance(node.this, exp.Literal):
        raise _Refused("uses arithmetic")
    return row.all("number", [node.this])


def _case(row: _Row, node: exp.Expression) -> str:
    _only(node, "this", "ifs", "default")
    for branch in node.args["ifs"]:
        _only(branch, "this", "true")
    tests = [branch.this for branch in node.args["ifs"]]
    if node.this:
        row.same([node.this, *tests])
    else:
        row.all("boolean", tests)
    default = [node.args["default"]] if node.args.get("default") else []
    return row.same([*(branch.args["true"] for branch in node.args["ifs"]), *default])


def _like(row: _Row, node: exp.Expression) -> str:
    _only(node, "this", "expression", "negate")
    if not isinstance(node.expression, exp.Literal):
        raise _Refused("uses LIKE with something else than a plain pattern")
    return row.all("text", [node.this, node.expression], "boolean")


def _is(row: _Row, node: exp.Expression) -> str:
    _only(node, "this", "expression")
    if isinstance(node.expression, exp.Null):
        row.family(node.this)
        return "boolean"
    return row.all("boolean", [node.this, node.expression])


def _try_cast(row: _Row, node: exp.Expression) -> str:
    _only(node, "this", "to", "safe", "requires_string")
    row.family(node.this)
    target = family(node.args["to"], "")
    if target == "other" or node.args["to"].this.name == "ENUM":
        raise _Refused("uses TRY_CAST to a type that dpsql does not know")
    return target


def _cast(row: _Row, node: exp.Expression) -> str:
    """Allow a plain cast that cannot fail: to text, of a condition to boolean, of a literal that fits."""
    _only(node, "this", "to")
    kind, source = node.args["to"], row.family(node.this)
    target = "other" if kind.expressions else family(kind, "")
    total = source not in ("other", "unknown") if target == "text" else target == source == "boolean"
    total = total or source == "null"
    if not total and not (isinstance(node.this, exp.Literal) and _fits(node.this.name, kind.this.name)):
        raise _Refused("uses CAST on a value that may not fit; use TRY_CAST")
    return target


def _fits(text: str, kind: str) -> bool:
    """Tell whether a literal surely casts to a type."""
    shapes = {"DATE": "%Y-%m-%d", "TIMESTAMP": "%Y-%m-%d %H:%M:%S", "TIMESTAMPNTZ": "%Y-%m-%d %H:%M:%S"}
    try:
        if kind in shapes:
            return datetime.strptime(text, shapes[kind]).strftime(shapes[kind]) == text
    except ValueError:
        return False
    if kind in _INTEGERS and re.fullmatch("-?[0-9]{1,19}", text):
        return bool(abs(int(text)) < 2 ** (_INTEGERS[kind] - 1))
    return kind == "BOOLEAN" and text in ("t", "f")


def _parts(*allowed: str) -> Callable[[exp.Expression], list[exp.Expression]]:
    """Return a function that lists a node's parts and refuses a node with any other part."""

    def listed(node: exp.Expression) -> list[exp.Expression]:
        _only(node, *allowed)
        values = [node.args.get(name) for name in allowed]
        return [one for value in values if value for one in (value if isinstance(value, list) else [value])]

    return listed


_two, _one = _parts("this", "expression"), _parts("this")
_Check = Callable[["_Row", exp.Expression], str]
_CHECKS: dict[type[exp.Expression], _Check] = {
    exp.Column: lambda row, node: row.column(node),
    exp.Literal: _literal,
    exp.Neg: _negative,
    exp.Null: lambda row, node: "null",
    exp.Boolean: lambda row, node: "boolean",
    exp.Paren: lambda row, node: row.family(_one(node)[0]),
    exp.Not: lambda row, node: row.all("boolean", _one(node)),
    exp.And: lambda row, node: row.all("boolean", _two(node)),
    exp.Or: lambda row, node: row.all("boolean", _two(node)),
    exp.Is: _is,
    exp.In: lambda row, node: row.same(_parts("this", "expressions")(node)) and "boolean",
    exp.Between: lambda row, node: row.same(_parts("this", "low", "high")(node)) and "boolean",
    exp.Like: _like,
    exp.Case: _case,
    exp.Coalesce: lambda row, node: row.same(_parts("this", "expressions")(node)),
    exp.Nullif: lambda row, node: row.same(_two(node)),
    exp.Lower: lambda row, node: row.all("text", _one(node)),
    exp.Upper: lambda row, node: row.all("text", _one(node)),
    exp.Trim: lambda row, node: row.all("text", _one(node)),
    exp.TryCast: _try_cast,
    exp.Cast: _cast,
} | dict.fromkeys(_COMPARISONS, lambda row, node: row.same(_two(node)) and "boolean")


def _only(node: exp.Expression, *allowed: str) -> None:
    """Refuse a node that has any other part than those allowed."""
    for name, value in node.args.items():
        if value and name not in allowed:
            raise _Refused(_PARTS.get(name) or f"uses {name.strip('_').upper().replace('_', ' ')}")


_PARTS = {"joins": "joins tables", "with_": "uses WITH", "group": "uses GROUP BY", "pivots": "uses PIVOT"}


def _words(node: exp.Expression) -> str:
    """Return why an expression is refused."""
    kinds: tuple[tuple[type[object], str], ...] = (
        (exp.Query, "uses a subquery"),
        (exp.SubqueryPredicate, "uses a subquery"),
        (exp.Window, "uses a window function"),
        (exp.AggFunc, "uses an aggregate"),
        (exp.UDTF, "makes several rows of one"),
        (exp.Binary, "uses arithmetic or an operator that dpsql cannot vouch for"),
    )
    for kind, words in kinds:
        if isinstance(node, kind):
            return words
    if isinstance(node, exp.Func):
        return f'calls the function "{node.name if isinstance(node, exp.Anonymous) else node.sql_name().lower()}"'
    return f"uses an expression that dpsql cannot vouch for ({type(node).__name__})"


def _check_calls(definition: str, dialect: str, select: exp.Select, macros: Collection[str] | None) -> None:
    """Refuse calls by any other name than the few allowed ones, and those that a macro may have taken over."""
    tokens = Dialect.get_or_raise(dialect).tokenize(definition)
    start = next(place for place, token in enumerate(tokens) if token.token_type == TokenType.ALIAS)
    used = {name for kind, name in _FUNCTIONS.items() if select.find(kind)}
    used |= _LIKE if select.find(exp.Like) else frozenset()
    for token, following in zip(tokens[start:], tokens[start + 1 :], strict=False):
        quoted = token.token_type == TokenType.IDENTIFIER
        word = token.text.lower()
        called = following.token_type == TokenType.L_PAREN and (quoted or word.replace("_", "").isalnum())
        if called and word not in used and (quoted or word not in _SYNTAX):
            raise _Refused(f'calls "{token.text}"')
    if used and macros is None:
        raise _Refused(f"calls {', '.join(sorted(used))}, which a macro may have replaced (macros are not known)")
    taken = sorted(used & {name.lower() for name in macros or ()})
    if taken:
        raise _Refused(f'calls "{taken[0]}", which a macro has replaced')
