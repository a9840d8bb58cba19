"""Amounts of epsilon are read exactly or rounded up, and shown exactly."""

from __future__ import annotations

import decimal
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.errors import ParameterError
from dpsql.ledger import format_delta, format_epsilon, parse_delta, parse_epsilon

REFUSED = [
    "1e400", "1e400000000", "1e99999999999999999999", "-1e99999999", "-1e-400000000", "nan", "inf", "-inf", "0", "0e5",
    "-1", "abc", "", " ", "1_0", "٣", "1" * 5000, "1000000000.0000000001", "0x10", True, False, None, [], 0, -1,
    10**5000, 1000000001, float("nan"), float("inf"), -0.0, 1e300, Decimal("1e400000"), Decimal("NaN"), Decimal("sNaN"),
    Decimal("-0"), Fraction(-1, 3), Fraction(10**5000), Fraction(1, -(10**5000)), 1j, b"1",
]  # fmt: skip


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: type(value).__name__)
def test_what_is_no_amount_is_refused(value: object) -> None:
    """Anything but a finite number above 0 and at most 10**9 is a ParameterError with a hint."""
    with pytest.raises(ParameterError) as refused:
        parse_epsilon(value, "cap")
    assert refused.value.name == "cap"
    assert refused.value.hint
    assert str(refused.value).startswith("cap must be")


@pytest.mark.parametrize(
    ("value", "nano"),
    [("1", 10**9), (" 0.25 ", 250_000_000), (".5", 500_000_000), ("1e-3", 10**6), ("1e9", 10**18), (1, 10**9),
     (0.1, 10**8), (Decimal("0.1"), 10**8), (Fraction(1, 3), 333_333_334), ("1e-10", 1), ("1e-400000000", 1),
     (Decimal("1e-400000"), 1), (5e-324, 1), ("0.0000000011", 2), (np.float64(0.1), 10**8),
     (np.int64(2), 2 * 10**9), (0.1 + 0.2, 300_000_001)],
)  # fmt: skip
def test_an_amount_is_read_exactly_or_rounded_up(value: object, nano: int) -> None:
    """Text and numbers become whole nano-epsilon, rounded up when they are finer."""
    assert parse_epsilon(value) == nano


@given(st.decimals(min_value="1e-30", max_value="1000000000", allow_nan=False))
def test_an_amount_is_never_rounded_down(value: Decimal) -> None:
    """What is charged is at least what was said, and less than one nano more."""
    said = Fraction(value)
    assert said <= Fraction(parse_epsilon(value), 10**9) < said + Fraction(1, 10**9)


@given(st.fractions(min_value=Fraction(1, 10**15), max_value=10**9))
def test_a_fraction_is_never_rounded_down(value: Fraction) -> None:
    """Fractions are rounded up to the nano."""
    assert value <= Fraction(parse_epsilon(value), 10**9) < value + Fraction(1, 10**9)


@given(st.integers(1, 10**18))
def test_nine_decimals_come_back_the_same(nano: int) -> None:
    """Every amount of whole nano-epsilon survives being shown and read again."""
    assert parse_epsilon(format_epsilon(nano)) == nano
    assert Fraction(Decimal(format_epsilon(nano))) == Fraction(nano, 10**9)


def test_the_callers_decimal_context_does_not_round() -> None:
    """A low precision set by the calling program changes nothing."""
    with decimal.localcontext() as context:
        context.prec = 2
        assert parse_epsilon("123.456789012") == 123_456_789_012
        assert parse_epsilon(Decimal("123.456789012")) == 123_456_789_012


@pytest.mark.parametrize(("nano", "text"), [(10**9, "1"), (250_000_000, "0.25"), (1, "0.000000001"), (0, "0"),
                                            (10**10, "10"), (-500_000_000, "-0.5")])  # fmt: skip
def test_an_amount_is_shown_as_the_shortest_decimal(nano: int, text: str) -> None:
    """No trailing zeros, no exponent."""
    assert format_epsilon(nano) == text


@pytest.mark.parametrize(
    "value",
    ["0", "-1e-6", "0.01", "0.5", "1", 1, 0, True, None, "1e-101", "1e-400000000", "1e999999999", "nan", "inf", "1/3",
     float("nan"), Decimal("NaN"), Decimal("1e-500000"), Fraction(1, 10**6), "1e-6e", "", [], "0.000" + "1" * 50],
    ids=repr,
)  # fmt: skip
def test_what_is_no_delta_is_refused(value: object) -> None:
    """A delta is a decimal number from 1e-100 to below 0.01; anything else is a ParameterError with a hint."""
    with pytest.raises(ParameterError) as refused:
        parse_delta(value)
    assert refused.value.name == "delta"
    assert refused.value.hint


@pytest.mark.parametrize(
    ("value", "text"),
    [("1e-6", "1e-6"), (1e-6, "1e-6"), (Decimal("0.00025"), "2.5e-4"), (" 1E-09 ", "1e-9"), (np.float64(1e-7), "1e-7"),
     ("0.0000010", "1e-6"), ("1e-100", "1e-100")],
)  # fmt: skip
def test_a_delta_is_read_exactly(value: object, text: str) -> None:
    """Text and floats become the decimal that was written, and are shown in one way."""
    assert format_delta(parse_delta(value)) == text
    assert parse_delta(text) == parse_delta(value)
