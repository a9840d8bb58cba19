"""Several problems of one schema, reported together: each with its place in the schema, what is wrong, and the fix."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dpsql.errors import DpsqlError, SchemaError, UsageError

#: The keys that lead to a part of a schema, as ("features", "age", "lower").
Path = tuple[str, ...]
#: The most problems that one error spells out.
MOST_SHOWN = 50
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class SchemaProblem:
    """What is wrong at one place of a schema; `error` is what would be raised if this were all."""

    path: Path
    error: DpsqlError

    def text(self, lines: Mapping[Path, int], *, fix: bool) -> str:
        """Return the problem in one line: where, what, and with `fix` what to do about it."""
        line = line_of(self.path, lines)
        where = "" if line is None else f"line {line}: "
        return f"{where}{self.error.message}" + (f" Try: {self.error.hint}" if fix and self.error.hint else "")


class ProblemList:
    """Collects problems while the parts of a schema are looked at one by one."""

    def __init__(self) -> None:
        self.collected: list[SchemaProblem] = []

    def attempt(self, path: Path, look: Callable[[], _Value], default: _Value) -> _Value:
        """Return what `look` returns; where it refuses, note why, and return the default."""
        try:
            return look()
        except UsageError as error:
            self.collected += getattr(error, "problems", ()) or [SchemaProblem(path, error)]
            return default

    def refuse(self) -> None:
        """Raise an error where anything was noted: the only one as it was, several as one list."""
        if self.collected:
            raise one_error(self.collected)


def one_error(problems: Sequence[SchemaProblem], lines: Mapping[Path, int] | None = None) -> DpsqlError:
    """Return one error for some problems; `lines` says where the parts of a schema stand in its file."""
    known = lines or {}
    error = problems[0].error
    if len(problems) == 1 and (line_of(problems[0].path, known) is None or not isinstance(error, SchemaError)):
        if isinstance(error, SchemaError):
            error.problems = tuple(problems)
        return error
    if len(problems) == 1:
        message = f"line {line_of(problems[0].path, known)}: {error.message}"
        return SchemaError(message, hint=error.hint, problems=tuple(problems))
    in_order = sorted(problems, key=lambda problem: line_of(problem.path, known) or 0)
    hints = {problem.error.hint for problem in problems}
    shown = [f"  {problem.text(known, fix=len(hints) > 1)}" for problem in in_order[:MOST_SHOWN]]
    if len(problems) > MOST_SHOWN:
        shown.append(f"  … and {len(problems) - MOST_SHOWN} more")
    message = "\n".join([f"the schema has {len(problems)} problems:", *shown])
    return SchemaError(message, hint=hints.pop() if len(hints) == 1 else None, problems=tuple(in_order))


def line_of(path: Path, lines: Mapping[Path, int]) -> int | None:
    """Return the line of a part of a schema, or of the smallest part around it that has a line; None without lines.

    >>> line_of(("features", "age", "upper"), {("features",): 3, ("features", "age"): 4})
    4
    """
    return next((lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in lines), None)
