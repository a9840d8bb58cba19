"""Amounts of epsilon (or rho) as whole billionths: read once, rounded up, added exactly, shown exactly; and deltas."""

from __future__ import annotations

import re
from decimal import Context, Decimal
from fractions import Fraction
from numbers import Integral, Real
from typing import TypeAlias

from dpsql.errors import ParameterError

#: What an amount of epsilon may be given as; floats count by their shortest decimal form.
Amount: TypeAlias = str | int | float | Decimal | Fraction

#: Nano-units in one unit of epsilon, or of rho.
NANO = 10**9
#: The largest amount in nano-units, an epsilon of 10**9: a cap plus a charge then always fits a BIGINT.
MOST = 10**9 * NANO
_ALLOWED = "a number above 0 and at most 1000000000"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)
#: The most characters of a number that is given as text.
_LONGEST = 100
#: Deltas must be below this one, which would let a run publish one row in a hundred.
MOST_DELTA = Decimal("0.01")
#: The least delta that is taken.
_LEAST_DELTA = Decimal("1e-100")
#: The digits that a delta may have: those that are kept when it is shown.
_SHORT = Context(prec=20)


def parse_epsilon(value: object, name: str = "epsilon") -> int:
    """Return an amount of epsilon in nano-epsilon, rounded up, so that no charge is ever understated.

    Takes text, int, float (by its shortest decimal form), Decimal or Fraction; above 0, at most 10**9.
    Raises ParameterError, with `name`, for anything else.

    >>> parse_epsilon("0.25"), parse_epsilon(0.1), parse_epsilon("1e-10")
    (250000000, 100000000, 1)
    """
    exact = _exact(value, name)
    if not 0 < exact * NANO <= MOST:
        raise _refusal(value, name)
    scaled = exact * NANO
    return -(-scaled.numerator // scaled.denominator)


def format_epsilon(nano: int) -> str:
    """Return an amount, in nano-epsilon or in nano-rho, as the shortest exact decimal text.

    >>> format_epsilon(1_000_000_000), format_epsilon(250_000_000), format_epsilon(1)
    ('1', '0.25', '0.000000001')
    """
    sign = "-" if nano < 0 else ""
    units, rest = divmod(abs(nano), NANO)
    decimals = str(rest).zfill(9).rstrip("0")
    return f"{sign}{units}.{decimals}" if decimals else f"{sign}{units}"


def parse_delta(value: object, name: str = "delta") -> Decimal:
    """Return a delta, exactly as it was written: at least 1e-100 and below 0.01.

    Takes text, float (by its shortest decimal form) or Decimal. It should be far below 1 over the number of rows.

    >>> format_delta(parse_delta("1e-6")), format_delta(parse_delta(0.00025))
    ('1e-6', '2.5e-4')
    """
    text = value.strip() if isinstance(value, str) else str(value)
    number = isinstance(value, str | Decimal | Real) and not isinstance(value, bool | Integral)
    if number and len(text) <= _LONGEST and _NUMBER.fullmatch(text):
        delta = Decimal(text)
        if _LEAST_DELTA <= delta < MOST_DELTA and delta.normalize(_SHORT) == delta:
            return delta.normalize(_SHORT)
    raise ParameterError(
        name,
        allowed="a number from 1e-100 to below 0.01, far below 1 over the number of rows",
        given=value,
        hint="delta 1e-6",
    )


def format_delta(delta: Decimal) -> str:
    """Return a delta as text that reads back the same."""
    return f"{delta.normalize(_SHORT):e}"


def _exact(value: object, name: str) -> Fraction:
    """Return the value as a fraction. Raises ParameterError unless it is a finite number."""
    if isinstance(value, bool):
        raise _refusal(value, name)
    if isinstance(value, Integral):
        return Fraction(int(value))
    if isinstance(value, Fraction):
        return value
    if isinstance(value, Decimal):
        return _from_decimal(value, value, name)
    if isinstance(value, Real):
        return _from_decimal(Decimal(repr(float(value))), value, name)
    text = value.strip() if isinstance(value, str) else ""
    if len(text) > _LONGEST or not _NUMBER.fullmatch(text):
        raise _refusal(value, name)
    return _from_decimal(Decimal(text), value, name)


def _from_decimal(number: Decimal, value: object, name: str) -> Fraction:
    """Return a decimal number as a fraction, without ever writing out a huge power of ten.

    A number that is far too large is refused. One far below a billionth becomes a billionth, to which it would be
    rounded up anyway.
    """
    if not number.is_finite() or number < 0 or (number and number.adjusted() > 10):
        raise _refusal(value, name)
    if number > 0 and number.adjusted() < -10:
        return Fraction(1, NANO)
    return Fraction(number)


def _refusal(value: object, name: str) -> ParameterError:
    shown = value
    if isinstance(value, int | Fraction) and not isinstance(value, bool):  # too long to be written out
        shown = Context(prec=6).divide(Decimal(value.numerator), Decimal(value.denominator))
    return ParameterError(name, allowed=_ALLOWED, given=shown, hint=f"{name} 1, or a decimal such as 0.25")
