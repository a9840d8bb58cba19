"""Decides which expressions over a row never fail, whatever the row holds, and depend on that row alone.

There is a short list of what is allowed, and for each entry a check of the families of values that it takes; everything
else is refused. `compile/views/row_to_row.py` checks a view's columns and filter by it.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

#: Pseudo-columns: their values depend on the other rows of the table.
_PSEUDO = frozenset(("rowid", "_rowid_", "ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"))
#: Signed integer types, each with its size in bits.
_INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
#: Unsigned integer types, each with its size in bits.
_UNSIGNED = {"UTINYINT": 8, "USMALLINT": 16, "UINT": 32, "UBIGINT": 64}
#: The family of values of each type; types that are not here are of the family "other".
_FAMILIES = dict.fromkeys([*_INTEGERS, *_UNSIGNED, "FLOAT", "DOUBLE"], "number") | dict.fromkeys(
    ["VARCHAR", "TEXT", "ENUM"], "text"
)
_FAMILIES |= {"BOOLEAN": "boolean", "DATE": "date", "TIMESTAMP": "timestamp", "TIMESTAMPNTZ": "timestamp"}
#: Types of longer numbers. Comparing two of them can fail, TRY_CAST of one cannot.
_FAMILIES |= dict.fromkeys(("INT128", "UINT128", "INT256", "UINT256"), "long number")
#: Dialects in which comparing decimals can fail: they are rescaled for it, and to overflow the type is an error.
_DECIMALS_FAIL = frozenset(("clickhouse",))
#: Dialects in which what is mixed with a column of single precision is cast to its type, and fails where that cannot
#: hold it; and the least and the largest number, in absolute value, that such a type surely holds.
_SINGLES_FAIL = frozenset(("postgres",))
_LEAST_SINGLE, _LARGEST_SINGLE = 1.2e-38, 3.4e38
#: The most digits, and the most places after the point, of a decimal that every type of numbers can stand for.
_DECIMAL_DIGITS = 18
#: Dialects in which LOWER and UPPER fail on a long text, because they need more memory than a value may have.
_LONG_CASES_FAIL = frozenset(("postgres",))
#: The longest text, in bytes, that LOWER and UPPER are applied to: a quarter of what PostgreSQL can still do under
#: every collation.
_LONGEST_CASE = 2**26
#: Dialects that can store times before all calendars, and fail when such a time is cast to text, by TRY_CAST too.
_TIMES_FAIL = frozenset(("duckdb",))
#: The types that a cast may name; any other name can be a type that users made, with checks of its own.
_CAST_TO = frozenset((*_INTEGERS, "FLOAT", "DOUBLE", "DECIMAL", "VARCHAR", "TEXT", "BOOLEAN", "DATE")) | frozenset(
    ("TIMESTAMP", "TIMESTAMPNTZ")
)
#: Families whose values are neither compared nor mixed.
NEVER_COMPARED = frozenset(("other", "unknown", "long number"))
_NUMBER = re.compile("[0-9]+([.][0-9]*)?([eE][-+]?[0-9]+)?|[.][0-9]+([eE][-+]?[0-9]+)?")
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)


class Refused(Exception):
    """Why an expression or a view is refused, in words that follow "it" or "the view"."""


def unbracket(node: exp.Expression) -> exp.Expression:
    """Return what stands inside of brackets, however many there are."""
    inner: Any = node.unnest()
    return inner


class Row:
    """The columns an expression may use, and the check that no value in them can make it fail."""

    def __init__(self, select: exp.Select, table: exp.Table, dialect: str, types: Mapping[str, str] | None) -> None:
        self.names = {table.alias_or_name.lower()}
        self.schema = table.db.lower()
        self.aliases = {
            item.alias.lower()
            for item in select.expressions
            if isinstance(item, exp.Alias) and item.alias.lower() != item.this.name.lower()
        }
        self.dialect = dialect
        self.types = (
            None if types is None else {name.lower(): type_family(kind, dialect) for name, kind in types.items()}
        )
        self.singles = {name.lower() for name, kind in (types or {}).items() if is_single(kind, dialect)}
        if types is not None and len(types) > len(self.types or ()):
            raise Refused("reads a table with two columns whose names differ in letter case alone")

    def without_qualifiers(self, node: exp.Expression, needed: str | None = None) -> exp.Expression:
        """Check an expression and return it with its columns unqualified."""
        family = self.family(node)
        if needed is not None and family not in (needed, "null"):
            raise Refused(f"uses a {family} value where a {needed} is needed")
        strip = lambda part: exp.column(part.this.copy()) if isinstance(part, exp.Column) else part  # noqa: E731
        return self.with_bounded_letter_case(node.copy().transform(strip))

    def with_bounded_letter_case(self, node: exp.Expression) -> exp.Expression:
        """Return an expression whose LOWER and UPPER cannot fail on a long text."""
        return node.transform(_bound_letter_case) if self.dialect in _LONG_CASES_FAIL else node

    def family(self, node: exp.Expression) -> str:
        """Return the family of an expression's values, or refuse it."""
        check = _CHECKS.get(type(node))
        if check is None:
            raise Refused(_reason(node))
        return check(self, node)

    def same(self, nodes: Iterable[exp.Expression]) -> str:
        """Return the one family of several expressions, or refuse them.

        Two columns of text are refused: where their collations differ, PostgreSQL fails as soon as it compares a row.
        """
        nodes = list(nodes)
        families = {self.family(node) for node in nodes} - {"null"}
        self.check_singles(nodes)
        if (
            families == {"text"}
            and len({column.name.lower() for node in nodes for column in node.find_all(exp.Column)}) > 1
        ):
            raise Refused("compares or mixes two columns of text, whose collations may differ")
        if not families:
            return "null"
        if len(families) > 1 or families & NEVER_COMPARED:
            unknown = " (the base table's column types are not known)" if "unknown" in families else ""
            raise Refused(f"compares or mixes values of type {' and '.join(sorted(families))}{unknown}")
        return families.pop()

    def check_singles(self, nodes: Iterable[exp.Expression]) -> None:
        """Refuse a column of single precision beside a literal that its type cannot hold.

        PostgreSQL gives COALESCE, CASE and IN the column's type. A literal that a CASE chooses for some rows is then
        cast for those rows, and fails.
        """
        parts = [part for node in nodes for part in node.walk()]
        sizes = [float(part.name) for part in parts if isinstance(part, exp.Literal) and not part.is_string]
        if all(size == 0 or _LEAST_SINGLE < size < _LARGEST_SINGLE for size in sizes):
            return
        if any(isinstance(part, exp.Column) and self.is_single(part) for part in parts):
            raise Refused("mixes a column of single precision with a number that it cannot hold")

    def is_single(self, node: exp.Column) -> bool:
        """Whether a column has a type of single precision, to which a number may have to be cast."""
        return node.name.lower() in self.singles

    def all(self, needed: str, nodes: Iterable[exp.Expression], result: str | None = None) -> str:
        """Refuse expressions that are not of the needed family; return `result`, or else that family."""
        if self.same(nodes) not in (needed, "null"):
            raise Refused(f"needs a {needed} value where it has another")
        return result or needed

    def column(self, node: exp.Column) -> str:
        """Return the family of a base column; refuse aliases, pseudo-columns, fields and whole rows."""
        refuse_other_parts(node, "this", "table", "db")
        name = node.name.lower()
        if not isinstance(node.this, exp.Identifier) or (node.table and node.table.lower() not in self.names):
            raise Refused(f'uses "{node.sql()}", which is not a column of its base table')
        if node.args.get("db") and node.text("db").lower() != self.schema:
            raise Refused(f'uses "{node.sql()}", which is not a column of its base table')
        if self.types is not None and name in self.types:
            return self.types[name]
        if self.types is not None or name in (_PSEUDO | self.names | self.aliases):
            raise Refused(f'uses "{node.name}", which is not a column of its base table')
        return "unknown"

    def check_star(self, node: exp.Expression) -> None:
        """Refuse every star but * and table.*"""
        star = node.this if isinstance(node, exp.Column) else node
        if any(star.args.values()):
            raise Refused("uses a star with changes")
        if isinstance(node, exp.Column) and (node.table.lower() not in self.names or node.args.get("db")):
            raise Refused("uses a star on something that is not its base table")

    def check_order(self, select: exp.Select, columns: Mapping[str, exp.Expression]) -> None:
        """Check that the view's ORDER BY, which is dropped, cannot fail either."""
        outputs = {name.lower() for name in columns}
        for item in select.args["order"].expressions if select.args.get("order") else ():
            key = item.this
            if not (isinstance(key, exp.Column) and not key.table and key.name.lower() in outputs):
                self.family(key)


def type_family(kind: str | exp.DataType, dialect: str) -> str:
    """Return the family of a column type: number, long number, text, boolean, date, timestamp or other.

    Decimals of more than 18 digits, or of more places after the point, are long numbers, and in ClickHouse all decimals
    are: comparing them can fail. PostgreSQL has decimals of five digits that no double can stand for.
    """
    try:
        data_type = exp.DataType.build(kind, dialect=dialect)
    except SqlglotError:
        return "other"
    name = data_type.this.name if isinstance(data_type.this, exp.DataType.Type) else ""
    if name == "DECIMAL" and data_type.expressions:
        few = all(int(size.name) <= _DECIMAL_DIGITS for size in data_type.expressions) and dialect not in _DECIMALS_FAIL
        return "number" if few else "long number"
    return "other" if data_type.args.get("nested") else _FAMILIES.get(name, "other")


def is_single(kind: str, dialect: str) -> bool:
    """Whether a column type is one of single precision in a dialect where casts to it fail on some numbers.

    >>> is_single("real", "postgres"), is_single("double precision", "postgres"), is_single("FLOAT", "duckdb")
    (True, False, False)
    """
    if dialect not in _SINGLES_FAIL:
        return False
    try:
        return bool(exp.DataType.build(kind, dialect=dialect).is_type(exp.DataType.Type.FLOAT))
    except SqlglotError:
        return False


def _bound_letter_case(node: exp.Expression) -> exp.Expression:
    """Return LOWER or UPPER applied to texts on which it cannot fail; a longer text stays as it is."""
    if not isinstance(node, exp.Lower | exp.Upper):
        return node
    text = node.this.transform(_bound_letter_case)
    size = exp.Anonymous(this="OCTET_LENGTH", expressions=[text.copy()])
    short = exp.LTE(this=size, expression=exp.Literal.number(_LONGEST_CASE))
    return exp.Case(ifs=[exp.If(this=short, true=type(node)(this=text.copy()))], default=text)


def _literal(row: Row, node: exp.Expression) -> str:
    if node.is_string:
        return "text"
    if len(node.name) > 15:
        raise Refused("uses a number of more than 15 digits")
    size = float(node.name) if _NUMBER.fullmatch(node.name) else math.inf
    zero = not re.search("[1-9]", re.split("[eE]", node.name)[0])
    if size > sys.float_info.max or (size < sys.float_info.min and not zero):
        raise Refused("uses a number that no ordinary double holds")
    return "number"


def _negative(row: Row, node: exp.Expression) -> str:
    if not isinstance(node.this, exp.Literal):
        raise Refused("uses arithmetic")
    return row.all("number", [node.this])


def _case(row: Row, node: exp.Expression) -> str:
    refuse_other_parts(node, "this", "ifs", "default")
    for branch in node.args["ifs"]:
        refuse_other_parts(branch, "this", "true")
    tests = [branch.this for branch in node.args["ifs"]]
    if node.this:
        row.same([node.this, *tests])
    else:
        row.all("boolean", tests)
    default = [node.args["default"]] if node.args.get("default") else []
    return row.same([*(branch.args["true"] for branch in node.args["ifs"]), *default])


def _like(row: Row, node: exp.Expression) -> str:
    refuse_other_parts(node, "this", "expression", "negate")
    if not isinstance(node.expression, exp.Literal):
        raise Refused("uses LIKE with something else than a plain pattern")
    if "\\" in node.expression.name:
        raise Refused("uses LIKE with a backslash, which fails at the end of a pattern")
    return row.all("text", [node.this, node.expression], "boolean")


def _is(row: Row, node: exp.Expression) -> str:
    refuse_other_parts(node, "this", "expression", "negate")  # PostgreSQL's IS NOT NULL is one node
    if isinstance(node.expression, exp.Null):
        row.family(node.this)
        return "boolean"
    return row.all("boolean", [node.this, node.expression])


def _in(row: Row, node: exp.Expression) -> str:
    """Allow a list of literals alone: ClickHouse casts the elements of the list to the type of what is looked up."""
    first, *listed = _parts("this", "expressions")(node)
    if not all(isinstance(item.unnest(), exp.Literal | exp.Neg | exp.Null | exp.Boolean | exp.Cast) for item in listed):
        raise Refused("uses IN with something else than literals")
    if any(item.find(exp.Column) for item in listed):
        raise Refused("uses IN with a column in its list")
    row.same([first, *listed])
    return "boolean"


def _try_cast(row: Row, node: exp.Expression) -> str:
    """Allow TRY_CAST where the database has it; Spark's CAST is parsed as one, but fails on values that do not fit."""
    if not node.args.get("safe"):
        return _cast(row, node)
    refuse_other_parts(node, "this", "to", "safe", "requires_string")
    source = row.family(node.this)
    _check_time(row, source, node.args["to"])
    if source == "other" or (source == "unknown" and row.dialect in _TIMES_FAIL):
        raise Refused("uses TRY_CAST on a value of a type that dpsql does not know")
    if not node.sql(row.dialect).upper().startswith("TRY_CAST("):
        raise Refused("uses TRY_CAST, which this database does not have")
    return _target(node.args["to"])


def _target(kind: exp.Expression) -> str:
    """Return the family that a cast leads to; refuse every type but a few built-in ones."""
    refuse_other_parts(kind, "this", "expressions", "nullable")
    name = kind.this.name if isinstance(kind.this, exp.DataType.Type) else ""
    target = type_family(kind, "") if isinstance(kind, exp.DataType) and name in _CAST_TO else "other"
    if target in NEVER_COMPARED:
        raise Refused("uses a cast to a type that dpsql does not know")
    return target


def _cast(row: Row, node: exp.Expression) -> str:
    """Allow a plain cast that cannot fail: to text, of a condition to boolean, of a literal that fits."""
    refuse_other_parts(node, "this", "to", "requires_string")
    kind, source = node.args["to"], row.family(node.this)
    target, inner = _target(kind), node.this.unnest()
    _check_time(row, source, kind)
    plain = not kind.expressions and kind.args.get("nullable") is not False  # ClickHouse: CAST(NULL AS String) fails
    total = source not in NEVER_COMPARED if target == "text" else target == source == "boolean"
    total = plain and (total or source == "null")
    if not total and not (
        isinstance(inner, exp.Literal) and not kind.expressions and _fits(inner.name, kind.this.name)
    ):
        raise Refused("uses CAST on a value that may not fit; use TRY_CAST")
    return target


def _check_time(row: Row, source: str, kind: exp.Expression) -> None:
    """Refuse a cast of a timestamp to text where the database fails on some timestamps."""
    if source == "timestamp" and row.dialect in _TIMES_FAIL and _target(kind) == "text":
        raise Refused("makes text of a timestamp, which can fail on a row")


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
    if kind == "DOUBLE":
        return re.fullmatch("-?[0-9]{1,30}([.][0-9]{1,30})?", text) is not None
    return kind == "BOOLEAN" and text in ("t", "f")


def _parts(*allowed: str) -> Callable[[exp.Expression], list[exp.Expression]]:
    """Return a function that lists a node's parts and refuses a node with any other part."""

    def list_parts(node: exp.Expression) -> list[exp.Expression]:
        refuse_other_parts(node, *allowed)
        values = [node.args.get(name) for name in allowed]
        return [part for value in values if value for part in (value if isinstance(value, list) else [value])]

    return list_parts


_two_operands = _parts("this", "expression")
_one_operand = _parts("this")
_Check = Callable[["Row", exp.Expression], str]
_CHECKS: dict[type[exp.Expression], _Check] = {
    exp.Column: lambda row, node: row.column(node),
    exp.Literal: _literal,
    exp.Neg: _negative,
    exp.Null: lambda row, node: "null",
    exp.Boolean: lambda row, node: "boolean",
    exp.Paren: lambda row, node: row.family(_one_operand(node)[0]),
    exp.Not: lambda row, node: row.all("boolean", _one_operand(node)),
    exp.And: lambda row, node: row.all("boolean", _two_operands(node)),
    exp.Or: lambda row, node: row.all("boolean", _two_operands(node)),
    exp.Is: _is,
    exp.In: _in,
    exp.Between: lambda row, node: row.same(_parts("this", "low", "high")(node)) and "boolean",
    exp.Like: _like,
    exp.Case: _case,
    exp.Coalesce: lambda row, node: row.same(_parts("this", "expressions")(node)),
    exp.Nullif: lambda row, node: row.same(_two_operands(node)),
    exp.Lower: lambda row, node: row.all("text", _one_operand(node)),
    exp.Upper: lambda row, node: row.all("text", _one_operand(node)),
    exp.Trim: lambda row, node: row.all("text", _one_operand(node)),
    exp.TryCast: _try_cast,
    exp.Cast: _cast,
} | dict.fromkeys(_COMPARISONS, lambda row, node: row.same(_two_operands(node)) and "boolean")


def refuse_other_parts(node: exp.Expression, *allowed: str) -> None:
    """Refuse a node that has any other part than those allowed."""
    for name, value in node.args.items():
        if value and name not in allowed:
            raise Refused(_PARTS.get(name) or f"uses {name.strip('_').upper().replace('_', ' ')}")


#: How some parts of a query that are refused are called in errors; the others go by their names.
_PARTS = {"joins": "joins tables", "with_": "uses WITH", "group": "uses GROUP BY", "pivots": "uses PIVOT"} | {
    "query": "uses a subquery",
    "order": "uses ORDER BY",
}


def _reason(node: exp.Expression) -> str:
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
