"""Drafts a schema file from the catalog alone: column types, ENUM values and CHECK constraints, never rows.

What the catalog does not say is left as `???` with a comment. Loading a draft with such gaps fails, and the error names
what is missing. The limits of an integer type are not proposed as bounds: they are public, but far too wide to be of
use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, InvalidOperation

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from dpsql.engines.base import Column, Engine, TableInfo
from dpsql.errors import UnknownName
from dpsql.schema.schema_file import Placeholder, pair, quote, remark

#: Columns of these names are taken for the label.
_LABELS = ("label", "class", "target", "y")
#: Columns of such names are taken for identifiers.
_ID = re.compile(r"(?s)(?i:(?:.*[_ -])?(?:id|uuid|guid|key))|.*[a-z](?:Id|ID)")
#: What a comparison becomes when its sides change places.
_FLIPPED = {exp.GT: exp.LT, exp.LT: exp.GT, exp.GTE: exp.LTE, exp.LTE: exp.GTE}
_HEAD = """A draft for table {table}, made from the catalog alone: no row was read.
Everything in this file becomes public. Write what you know from documentation, laws or
common sense, never what a look at the rows tells you. Fill in each ???, then register."""

_OR_TARGET = """To predict a number instead of a class, write its public bounds in place of the classes:
target: {lower: 0, upper: 100}"""

_UNTYPED = """{column}: its file gives no type. Write one of these, with what you know:
{{type: numeric, lower: 0, upper: 100}}
{{type: categorical, values: [red, green]}}
{{type: boolean}}"""

Values = tuple[Decimal | str, ...]


@dataclass(frozen=True)
class CheckedDomain:
    """What the constraints say of a column: its bounds, or the only values that it may have.

    With `above` the lower bound itself is excluded, with `below` the upper one.
    """

    lower: Decimal | None = None
    upper: Decimal | None = None
    above: bool = False
    below: bool = False
    values: Values | None = None

    def __and__(self, other: CheckedDomain) -> CheckedDomain:
        lowers = _given_bounds((self.lower, self.above), (other.lower, other.above))
        uppers = _given_bounds((self.upper, self.below), (other.upper, other.below))
        lower, above = max(lowers, default=(None, False))
        upper, below = min(uppers, key=lambda part: (part[0], not part[1]), default=(None, False))
        lists = [values for values in (self.values, other.values) if values is not None]
        values = lists[0] if lists else None
        if len(lists) == 2:
            values = tuple(value for value in lists[0] if value in lists[1])
        return CheckedDomain(lower, upper, above, below, values)

    def allows(self, value: Decimal | str) -> bool:
        """Return whether a listed value also lies within the bounds."""
        if not isinstance(value, Decimal):
            return True
        low = self.lower is None or (value > self.lower if self.above else value >= self.lower)
        return low and (self.upper is None or (value < self.upper if self.below else value <= self.upper))


def draft_schema(engine: Engine, table: str, *, label: str | None = None) -> str:
    """Return a schema file in YAML for the owner to complete. Reads the catalog, no row.

    `label` is the column to predict; without it, a single column called label, class, target or y is taken.
    """
    info = engine.table(table)
    if info is None:
        raise UnknownName("table", table, engine.tables())
    target = _label(info, label)
    domains = _domains(info.checks, engine.dialect)
    names = [column for column in info.columns if column is not target]
    identifiers = [
        column
        for column in names
        if _ID.fullmatch(column.name) and not column.values and column.name.lower() not in domains
    ]
    unfit = [column for column in names if _unfit(column) and column not in identifiers]
    lines = remark(_HEAD.format(table=quote(info.name)))
    lines += _label_lines(target, [column.name for column in names], domains)
    lines += _unit_lines(identifiers)
    lines += _left_out(unfit)
    lines.append("features:")
    for column in names:
        if column not in identifiers and column not in unfit:
            lines += _feature_lines(column, domains.get(column.name.lower(), CheckedDomain()))
    return "\n".join(lines) + "\n"


def _label(info: TableInfo, label: str | None) -> Column | None:
    if label is not None:
        column_to_predict = info.column(label)
        if column_to_predict is None:
            raise UnknownName("column", label, [column.name for column in info.columns])
        return column_to_predict
    guesses = [column for column in info.columns if column.name.lower() in _LABELS]
    return guesses[0] if len(guesses) == 1 else None


def _label_lines(target: Column | None, names: list[str], domains: dict[str, CheckedDomain]) -> list[str]:
    if target is None:
        listed = ", ".join(quote(name) for name in names)
        advice = f"label: the column to predict, one of {listed}.\nRemove it from the features."
        return [*remark(advice), *pair("label", Placeholder()), *_classes(())]
    domain = domains.get(target.name.lower(), CheckedDomain())
    if target.family == "real":
        return [*pair("label", target.name), *_target(target, domain)]
    values = target.values or _listed_values(domain)
    if target.family == "boolean":
        values = ("false", "true")
    either = _OR_TARGET if target.family in ("integer", "untyped") and len(values) < 2 else ""
    return [*pair("label", target.name), *remark(either), *_classes(values)]


def _target(column: Column, domain: CheckedDomain) -> list[str]:
    bounds = _numeric_bounds(domain, integer=False)
    missing = [name for name, bound in bounds.items() if bound is None]
    advice = f"target: write {quote(column.name)}'s public {' and '.join(missing)} bound; values beyond are clamped."
    return [*(remark(advice) if missing else []), *pair("target", _bounds_or_blanks(bounds))]


def _classes(values: Iterable[str]) -> list[str]:
    classes = list(values)
    if len(classes) > 1:
        return pair("classes", classes)
    return [*remark('classes: all values of the label, as in ["no", "yes"].'), *pair("classes", Placeholder())]


def _unit_lines(identifiers: list[Column]) -> list[str]:
    lines = pair("privacy_unit", "row")
    if identifiers:
        names = ", ".join(quote(column.name) for column in identifiers)
        advice = f"Left out, as they look like identifiers: {names}.\nIf one person can have several rows, write:"
        lines += remark(advice) + remark("privacy_unit:")
        lines += remark("\n".join(pair("column", identifiers[0].name, indent=2))) + remark("  max_rows: 10")
    return lines


def _unfit(column: Column) -> bool:
    return column.family in ("date", "other", "opaque") or bool(column.collation) or column.computed


def _left_out(columns: list[Column]) -> list[str]:
    if not columns:
        return []
    names = ", ".join(f"{quote(column.name)} ({quote(column.type)[1:-1][:60]})" for column in columns)
    return remark(f"Left out, as their types cannot be features: {names}.")


def _feature_lines(column: Column, domain: CheckedDomain) -> list[str]:
    if column.family == "boolean":
        return pair(column.name, {"type": "boolean"}, indent=2)
    values = column.values or (_listed_values(domain) if column.family != "real" else ())
    if values:
        return pair(column.name, {"type": "categorical", "values": list(values)}, indent=2)
    if column.family == "text":
        advice = f"{quote(column.name)}: list every value it can have, as in [red, green]."
        blank = {"type": "categorical", "values": Placeholder()}
        return [*remark(advice, indent=2), *pair(column.name, blank, indent=2)]
    if column.family == "untyped":
        return [
            *remark(_UNTYPED.format(column=quote(column.name)), indent=2),
            *pair(column.name, Placeholder(), indent=2),
        ]
    return _numeric_lines(column, domain, integer=column.family == "integer")


def _numeric_bounds(domain: CheckedDomain, *, integer: bool) -> dict[str, Decimal | None]:
    """Return the bounds that a domain gives; None where it gives none."""
    numbers = [value for value in domain.values or () if isinstance(value, Decimal) and domain.allows(value)]
    if numbers:
        domain &= CheckedDomain(lower=min(numbers), upper=max(numbers))
    lower, upper = domain.lower, domain.upper
    if integer and lower is not None and domain.above:
        lower = (lower + 1).to_integral_value(ROUND_FLOOR)
    if integer and upper is not None and domain.below:
        upper = (upper - 1).to_integral_value(ROUND_CEILING)
    if lower is not None and upper is not None and lower >= upper:
        lower = upper = None
    return {"lower": lower, "upper": upper}


def _bounds_or_blanks(bounds: dict[str, Decimal | None]) -> dict[str, float | Placeholder]:
    return {name: Placeholder() if bound is None else float(bound) for name, bound in bounds.items()}


def _numeric_lines(column: Column, domain: CheckedDomain, *, integer: bool) -> list[str]:
    bounds = _numeric_bounds(domain, integer=integer)
    missing = [name for name, bound in bounds.items() if bound is None]
    advice = f"{quote(column.name)}: write its public {' and '.join(missing)} bound; values beyond are clamped."
    return [
        *(remark(advice, indent=2) if missing else []),
        *pair(column.name, {"type": "numeric", **_bounds_or_blanks(bounds)}, indent=2),
    ]


def _listed_values(domain: CheckedDomain) -> tuple[str, ...]:
    allowed = [value for value in domain.values or () if domain.allows(value)]
    return tuple(dict.fromkeys(value if isinstance(value, str) else _number_text(value) for value in allowed))


def _number_text(value: Decimal) -> str:
    return str(int(value)) if value == value.to_integral_value() else f"{value.normalize():f}"


def _domains(checks: Iterable[str], dialect: str) -> dict[str, CheckedDomain]:
    """Return what all CHECK constraints together say, by column in lower case."""
    domains: dict[str, CheckedDomain] = {}
    for check in checks:
        try:
            parsed = parse_one(check, dialect=dialect)
            facts = list(_facts(parsed))
        except (SqlglotError, RecursionError):
            continue  # a constraint that dpsql cannot read tells nothing
        for name, domain in facts:
            domains[name] = domains.get(name, CheckedDomain()) & domain
    return domains


def _facts(node: exp.Expr) -> Iterable[tuple[str, CheckedDomain]]:
    """Yield what a condition says of single columns; what it does not say for sure is passed over."""
    node = node.unnest()
    if isinstance(node, exp.And):
        yield from _facts(node.left)
        yield from _facts(node.right)
    elif isinstance(node, exp.Or):
        yield from _facts_of_or(node)
    elif isinstance(node, exp.Between) and isinstance(node.this, exp.Column):
        yield from _facts_of_comparison(exp.GTE, node.this, node.args["low"])
        yield from _facts_of_comparison(exp.LTE, node.this, node.args["high"])
    elif isinstance(node, exp.In) and isinstance(node.this, exp.Column) and node.expressions:
        values = [_constant(value) for value in node.expressions]
        if None not in values:
            yield node.this.name.lower(), CheckedDomain(values=tuple(value for value in values if value is not None))
    elif isinstance(node, exp.EQ | exp.GT | exp.GTE | exp.LT | exp.LTE):
        left, right = node.left.unnest(), node.right.unnest()
        if isinstance(left, exp.Column):
            yield from _facts_of_comparison(type(node), left, right)
        elif isinstance(right, exp.Column):
            yield from _facts_of_comparison(_FLIPPED.get(type(node), type(node)), right, left)


def _facts_of_or(node: exp.Or) -> Iterable[tuple[str, CheckedDomain]]:
    """Yield the union of two lists of values for one column; any other OR says nothing for sure."""
    left, right = list(_facts(node.left)), list(_facts(node.right))
    if len(left) == len(right) == 1 and left[0][0] == right[0][0]:
        first, second = left[0][1].values, right[0][1].values
        if first is not None and second is not None:
            yield left[0][0], CheckedDomain(values=tuple(dict.fromkeys((*first, *second))))


def _facts_of_comparison(
    kind: type[exp.Expr], column: exp.Column, node: exp.Expr
) -> Iterable[tuple[str, CheckedDomain]]:
    value, name = _constant(node), column.name.lower()
    if value is not None and kind is exp.EQ:
        yield name, CheckedDomain(values=(value,))
    elif isinstance(value, Decimal) and kind in (exp.GT, exp.GTE):
        yield name, CheckedDomain(lower=value, above=kind is exp.GT)
    elif isinstance(value, Decimal):
        yield name, CheckedDomain(upper=value, below=kind is exp.LT)


def _constant(node: exp.Expr) -> Decimal | str | None:
    """Return a literal's value: text, or an exact finite number; None for anything else, NULL included."""
    node = node.unnest()
    sign = -1 if isinstance(node, exp.Neg) else 1
    literal = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(literal, exp.Literal):
        return None
    if literal.is_string:
        return literal.name if sign == 1 else None
    try:
        number = sign * Decimal(literal.name)
    except InvalidOperation:
        return None
    return number if abs(number) < Decimal("1e300") else None


def _given_bounds(*parts: tuple[Decimal | None, bool]) -> list[tuple[Decimal, bool]]:
    return [(bound, strict) for bound, strict in parts if bound is not None]
