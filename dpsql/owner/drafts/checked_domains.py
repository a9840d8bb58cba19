"""What CHECK constraints say of single columns: bounds, or the only values that they may have.

A constraint that dpsql cannot read tells nothing, and neither does what is not said for sure (an OR of two columns).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, InvalidOperation

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

#: What a comparison becomes when its sides change places.
_FLIPPED = {exp.GT: exp.LT, exp.LT: exp.GT, exp.GTE: exp.LTE, exp.LTE: exp.GTE}

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


def numeric_bounds(domain: CheckedDomain, *, integer: bool) -> dict[str, Decimal | None]:
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


def listed_values(domain: CheckedDomain) -> tuple[str, ...]:
    """Return the values that a domain lists, as texts; none where it lists none."""
    allowed = [value for value in domain.values or () if domain.allows(value)]
    return tuple(dict.fromkeys(value if isinstance(value, str) else _number_text(value) for value in allowed))


def _number_text(value: Decimal) -> str:
    return str(int(value)) if value == value.to_integral_value() else f"{value.normalize():f}"


def checked_domains(checks: Iterable[str], dialect: str) -> dict[str, CheckedDomain]:
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
