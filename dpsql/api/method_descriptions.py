"""Describes the methods to people, from what each says of itself: what it is, when to use it, its parameters."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from dpsql import methods


@dataclass(frozen=True)
class ParameterDescription:
    """One parameter of a method: its name, what it may be, what is taken when none is given, and what it is.

    `default` is None where the method works a value out; then `help` says from what.
    """

    name: str
    allowed: str
    default: int | str | bool | None
    help: str


@dataclass(frozen=True)
class MethodDescription:
    """What a method is, when to use it, whether it predicts numbers too, and its parameters."""

    name: str
    summary: str
    when: str
    numbers: bool
    page: str
    parameters: tuple[ParameterDescription, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the description as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.summary}", f"When: {self.when}", f"Page: {self.page}"]
        return "\n".join(
            [*lines, *(f"  {given.name} ({given.allowed}, by default {given.default}): {given.help}"
                       for given in self.parameters)]
        )  # fmt: skip


def describe_method(name: str) -> MethodDescription:
    """Return what there is to say of a method; an unknown one is refused with the nearest names.

    >>> sorted(given.name for given in describe_method("fs").parameters)[:2]
    ['branches', 'depth']
    """
    method = methods.get(name)
    parameters = tuple(
        ParameterDescription(word, parameter.range_text, parameter.default, parameter.help)
        for word, parameter in method.parameters.items()
    )
    page = f"docs/methods/{method.name}.md"
    return MethodDescription(method.name, method.summary, method.when, method.regression, page, parameters)


def method_table() -> pd.DataFrame:
    """Return all methods as a table for people to read, the default first."""
    described = [describe_method(name) for name in methods.METHODS]
    columns = {"name": "name", "summary": "what it is", "when": "when to use it", "numbers": "numbers"}
    return pd.DataFrame([entry.to_dict() for entry in described])[list(columns)].rename(columns=columns)
