"""A charge that could not be stored and read back the same cannot be made."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from dpsql.errors import ParameterError

from .helpers import charge


@pytest.mark.parametrize(
    "changes",
    [{"who": ""}, {"who": None}, {"dataset": "a\0b"}, {"table": "\ud800"}, {"kind": "gauss"},
     {"scope": "north"}, {"scope": "=x"}, {"scope": "region="}, {"scope": " region=x"}, {"scope": None},
     {"plan": {"x": float("nan")}}, {"plan": {"x": {1}}}],
    ids=str,
)  # fmt: skip
def test_a_malformed_charge_is_refused(changes: dict[str, Any]) -> None:
    """Empty or unstorable text, unknown kinds, shapeless scopes and plans JSON cannot hold are refused."""
    with pytest.raises(ParameterError):
        charge("r1", **changes)


@pytest.mark.parametrize("nano", [0, -1, 10**18 + 1, 1.0, True, "1"])
def test_the_amount_is_a_whole_number_in_range(nano: object) -> None:
    """Nano-epsilon is an int from 1 to 10**18."""
    with pytest.raises(ParameterError):
        dataclasses.replace(charge("r1"), amount=nano)  # type: ignore[arg-type]


def test_equal_plans_have_one_text() -> None:
    """The order of a plan's keys does not show in what is stored."""
    assert charge("r1", plan={"a": 1, "b": 2}).plan_text == charge("r1", plan={"b": 2, "a": 1}).plan_text


def test_a_charge_cannot_change() -> None:
    """A charge is frozen."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        charge("r1").amount = 1  # type: ignore[misc]
