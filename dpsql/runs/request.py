"""What a training run can be asked for: the one place that knows the arguments of `train`.

The command line, Python, SQL and PL/Python offer the fields of `TrainRequest` and the methods' own parameters, with the
names, defaults and sentences that stand here and in the methods. A new argument is a new field.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, TypeVar

from dpsql import methods
from dpsql.errors import ParameterError
from dpsql.ledger import parse_delta, parse_epsilon

_Function = TypeVar("_Function", bound=Callable[..., Any])
_METHOD = f"One of: {', '.join(methods.METHODS)}. For a number auto is {methods.REGRESSION}."


def _argument(
    sentence: str,
    *,
    default: Any = MISSING,
    metavar: str | None = None,
    must_be: str | None = None,
    names_release: bool = False,
) -> Any:
    """Return a field of the request: its help, how help shows its value, and what it must be where it must be text.

    `names_release` marks an argument that a plan has no use for.
    """
    metadata = {"help": sentence, "metavar": metavar, "must_be": must_be, "names_release": names_release}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class TrainRequest:
    """A request to train, checked as far as that needs no database."""

    table: str = _argument("The registered table.", must_be="the name of a table")
    epsilon: object = _argument("What the run may cost.", metavar="E", default=1)
    delta: object | None = _argument(
        "Approximate privacy: (epsilon, delta), far below 1 over the rows.", metavar="D", default=None
    )
    method: str = _argument(_METHOD, default=methods.DEFAULT, must_be="the name of a method")
    batch: str | None = _argument(
        "Only the rows of one batch, charged on that batch alone.", metavar="VALUE", default=None
    )
    name: str | None = _argument(
        "Name of the model [default: the table's name and a number].", names_release=True, default=None
    )
    request_id: str | None = _argument(
        "Ask twice under one id: the same model, one charge.", metavar="ID", names_release=True, default=None
    )
    #: The method's own parameters, as far as they were given.
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, known in ARGUMENTS.items():
            value = getattr(self, name)
            if known.metadata["must_be"] and not isinstance(value, str):
                given = "NULL" if value is None else value
                raise ParameterError(name, allowed=known.metadata["must_be"], given=given)
        parse_epsilon(self.epsilon)
        if self.delta is not None:
            parse_delta(self.delta)
        if self.batch is not None and self.delta is not None:
            raise ParameterError(
                "delta", allowed="left out for a batch: updates add up epsilon alone", given=self.delta
            )

    @property
    def nano_epsilon(self) -> int:
        """Epsilon in billionths, as the ledger counts it."""
        return parse_epsilon(self.epsilon)

    @property
    def delta_value(self) -> Any:
        """Delta as an exact number; None for pure epsilon."""
        return None if self.delta is None else parse_delta(self.delta)

    @classmethod
    def of(cls, table: str, given: Mapping[str, Any]) -> TrainRequest:
        """Return a request from named arguments: what is no argument of `train` is a parameter of its method."""
        own = {name: value for name, value in given.items() if name in ARGUMENTS}
        parameters = {name: value for name, value in given.items() if name not in ARGUMENTS}
        return cls(**{**own, "table": table}, parameters=parameters)

    @classmethod
    def from_text(cls, given: Mapping[str, str | None]) -> TrainRequest:
        """Return a request from arguments and parameters that are all written as text, as SQL hands them over.

        A parameter that is NULL is left to the method. An argument that is NULL is not left out: it is checked like any
        other value, so that an expression that turned out NULL never stands for a charge that nobody named.
        """
        own = {name: text for name, text in given.items() if name in ARGUMENTS}
        parameters = {
            name: _parse_parameter(name, text)
            for name, text in given.items()
            if name not in ARGUMENTS and text is not None
        }
        return cls(**own, parameters=parameters)  # type: ignore[arg-type]  # checked above


#: The arguments of `train` by their names, without the methods' own parameters.
ARGUMENTS: dict[str, Field[Any]] = {known.name: known for known in fields(TrainRequest) if known.name != "parameters"}


def arguments(*, names_release: bool) -> dict[str, Field[Any]]:
    """Return the arguments by their names: all of them, or those that shape a plan."""
    return {name: known for name, known in ARGUMENTS.items() if names_release or not known.metadata["names_release"]}


def with_options(given: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was given by name together with a map of options; refuse what has its place by name already."""
    for name in options:
        if (name in ARGUMENTS and name in given) or given.get(name) is not None:
            raise ParameterError("options", allowed="without what is given by name", given=name)
    return {**given, **options}


def takes_request(*, names_release: bool, **more: Any) -> Callable[[_Function], _Function]:
    """Return a decorator for a method of (self, table, **arguments): its signature and help name every argument.

    `more` are the function's own arguments, with their defaults.
    """
    known = {name: one for name, one in arguments(names_release=names_release).items() if name != "table"}

    def decorate(function: _Function) -> _Function:
        first = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", "table")]
        defaults = {**more, **{name: one.default for name, one in known.items()}}
        own = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=it) for name, it in defaults.items()]
        rest = inspect.Parameter("parameters", inspect.Parameter.VAR_KEYWORD)
        signature = inspect.Signature([*first, *own, rest])
        function.__signature__ = signature  # type: ignore[attr-defined]
        lines = [f"        {name}: {one.metadata['help']}" for name, one in known.items()]
        lines.append("        parameters: The method's own parameters, such as trees.")
        function.__doc__ = "\n".join([str(function.__doc__).rstrip(), "", *lines, "        "])
        return function

    return decorate


def _parse_parameter(name: str, text: str) -> Any:
    """Return what a text says for a parameter; of a name that no method knows the text, which is then refused."""
    kinds = methods.PARAMETERS.get(name)
    return text if kinds is None else next(iter(kinds.values())).parse(name, text)
