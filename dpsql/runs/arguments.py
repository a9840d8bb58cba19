"""Offers the arguments of a training run by name, with the defaults and the help that `TrainRequest` declares.

The command line, Python, SQL and PL/Python use it. The arguments are the fields of `TrainRequest` (`runs/train.py`); a
method's own parameters stand in its file.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import Field
from typing import Any, TypeVar

from dpsql.errors import ParameterError
from dpsql.runs.train import ARGUMENTS

_Function = TypeVar("_Function", bound=Callable[..., Any])


def arguments(*, names_release: bool) -> dict[str, Field[Any]]:
    """Return the arguments by their names: all of them, or without `names_release` those that shape a plan."""
    return {
        name: argument
        for name, argument in ARGUMENTS.items()
        if names_release or not argument.metadata["names_release"]
    }


def with_options(given: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments given by name together with a map of options; refuse an option that was given by name."""
    for name in options:
        if (name in ARGUMENTS and name in given) or given.get(name) is not None:
            raise ParameterError("options", allowed="without what is given by name", given=name)
    return {**given, **options}


def takes_request(*, names_release: bool, **more: Any) -> Callable[[_Function], _Function]:
    """Return a decorator for a method of (self, table, **arguments): its signature and help name every argument.

    `more` are the function's own arguments, with their defaults.
    """
    named = {name: argument for name, argument in arguments(names_release=names_release).items() if name != "table"}

    def decorate(function: _Function) -> _Function:
        first = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", "table")]
        defaults = {**more, **{name: argument.default for name, argument in named.items()}}
        own = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value) for name, value in defaults.items()
        ]
        rest = inspect.Parameter("parameters", inspect.Parameter.VAR_KEYWORD)
        signature = inspect.Signature([*first, *own, rest])
        function.__signature__ = signature  # type: ignore[attr-defined]
        lines = [f"        {name}: {argument.metadata['help']}" for name, argument in named.items()]
        lines.append("        parameters: The method's own parameters, such as trees.")
        function.__doc__ = "\n".join([str(function.__doc__).rstrip(), "", *lines, "        "])
        return function

    return decorate
