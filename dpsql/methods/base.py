"""What a method is: it plans from public facts, then turns the kernel's noisy answers into a forest.

A method may import `schema`, `trees` and `kernel`, nothing else of dpsql: it cannot see an exact count, so a mistake
in it costs accuracy, never privacy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from dpsql.errors import ParameterError, UnknownName
from dpsql.kernel.plan import Plan
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import Session
from dpsql.schema import Schema
from dpsql.trees.forest import Forest
from dpsql.trees.voting import VotingForest


@dataclass(frozen=True)
class Integer:
    """A parameter that is a whole number; where `default` is None, the method works out a value."""

    default: int | None
    lowest: int
    highest: int
    help: str

    @property
    def range_text(self) -> str:
        """What the parameter may be, in words."""
        return f"a whole number from {self.lowest} to {self.highest}"

    def check(self, name: str, given: Any) -> int | None:
        """Return the value, or raise ParameterError when it is not allowed."""
        if given is None:
            return self.default
        if isinstance(given, bool) or not isinstance(given, int) or not self.lowest <= given <= self.highest:
            raise ParameterError(name, allowed=self.range_text, given=given)
        return given

    def parse(self, name: str, text: str) -> int:
        """Return the number that a text spells, or raise ParameterError when it spells none."""
        try:
            return int(text)
        except ValueError:
            raise ParameterError(name, allowed="a whole number", given=text) from None


@dataclass(frozen=True)
class Choice:
    """A parameter with a few named values; the first is the default."""

    values: tuple[str, ...]
    help: str

    @property
    def range_text(self) -> str:
        """What the parameter may be, in words."""
        return f"one of {', '.join(self.values)}"

    @property
    def default(self) -> str:
        """The value that is taken when none is given."""
        return self.values[0]

    def check(self, name: str, given: Any) -> str:
        """Return the value, or raise ParameterError when it is not one of those named."""
        if given is None:
            return self.default
        if given not in self.values:
            raise ParameterError(name, allowed=self.range_text, given=given)
        return str(given)

    def parse(self, name: str, text: str) -> str:
        """Return the text itself."""
        return text


@dataclass(frozen=True)
class Flag:
    """A parameter that is on or off; off by default."""

    help: str
    default: ClassVar[bool] = False
    range_text: ClassVar[str] = "true or false"

    def check(self, name: str, given: Any) -> bool:
        """Return the value, or raise ParameterError when it is not a boolean."""
        if given is None:
            return self.default
        if not isinstance(given, bool):
            raise ParameterError(name, allowed=self.range_text, given=given)
        return given

    def parse(self, name: str, text: str) -> bool:
        """Return whether a text is "true" rather than "false", or raise ParameterError for any other text."""
        if text.lower() not in ("true", "false"):
            raise ParameterError(name, allowed=self.range_text, given=text)
        return text.lower() == "true"


@dataclass(frozen=True)
class Text:
    """A parameter that is any text; nothing by default."""

    help: str
    default: ClassVar[None] = None
    range_text: ClassVar[str] = "text, not empty"

    def check(self, name: str, given: Any) -> str | None:
        """Return the value, or raise ParameterError when it is not text."""
        if given is not None and (not isinstance(given, str) or not given.strip() or len(given) > 10_000):
            raise ParameterError(name, allowed=self.range_text, given=given)
        return None if given is None else given.strip()

    def parse(self, name: str, text: str) -> str:
        """Return the text itself."""
        return text


Parameter = Integer | Choice | Flag | Text


@dataclass(frozen=True, eq=False)
class Trained:
    """All that a method learned: the forest, and facts to store with the model.

    Both are public, because the method saw noisy answers alone.
    """

    forest: VotingForest
    facts: Mapping[str, Any] = field(default_factory=dict)


class Method(Protocol):
    """One method: its name, its parameters, its plan, its training. Each method's class derives from this one.

    `summary` says in a line what it is and whose; `when` in a line when to use it.
    """

    name: str
    summary: str
    when: str
    parameters: Mapping[str, Parameter]
    #: Whether the trees follow from schema, parameters and size alone. Trees that follow from noisy releases are as
    #: private as these, but differ from run to run, so tests that compare the runs of two tables leave them out.
    trees_are_public: ClassVar[bool] = True
    #: Whether the method can predict a numeric target.
    regression: ClassVar[bool] = False

    def plan(
        self, schema: Schema, nano_epsilon: int, parameters: Mapping[str, Any], promise: Promise | None = None
    ) -> Plan:
        """Return the plan for a schema and a budget. Reads no row.

        `promise` is what the run promises, and decides how much noise a step gets; left out, it is pure epsilon for the
        declared unit. A method that protects labels alone returns a plan whose promise says so.
        """
        ...

    def public_trees(self, schema: Schema, plan: Plan) -> Forest:
        """Return the trees as far as they are known before any row is read (roots alone, where splits need data)."""
        ...

    def train(self, session: Session) -> Trained:
        """Return a released forest, from the session's noisy answers alone."""
        ...


def resolve_parameters(method: Method, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return every parameter of a method, checked, defaults filled in; refuse unknown ones."""
    for name in given:
        if name not in method.parameters:
            raise UnknownName(f'parameter of method "{method.name}" called', name, method.parameters)
    return {name: parameter.check(name, given.get(name)) for name, parameter in method.parameters.items()}
