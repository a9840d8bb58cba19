"""Replaces a driver's errors by our own: their texts can quote a cell of a private table.

Each engine says which exceptions its driver raises and how it words them. What all of them share is here: the new error
is raised outside the `except` block, so that not even its context holds the old text; and a failed count has one error
whatever the reason, because whether a file grows too large, or time or memory runs out, depends on the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from dpsql.engines.interruption import run_stoppable
from dpsql.errors import QueryFailed

_Result = TypeVar("_Result")
#: The one thing that is done on private rows: not even the kind of its failure is told.
COUNTING = "count the rows"


@dataclass(frozen=True)
class ErrorReplacement:
    """Runs a call of a driver, and replaces its errors by our own.

    `errors` are the exceptions that the driver raises. `reword` returns our own error for one of them; it is also told
    what was being done. `hint` is the next step that every failed count names.
    """

    errors: tuple[type[Exception], ...]
    reword: Callable[[str, Exception], Exception]
    hint: str | None = None
    #: Seconds that a statement has to stop, when it is asked to, before it is left behind.
    patience: float = math.inf

    def __call__(self, doing: str, act: Callable[[], _Result], stop: Callable[[], object] | None = None) -> _Result:
        """Return what `act` returns, or raise our own error; `doing` follows "could not" in its message.

        `stop` asks the database to stop what may take long: so Ctrl-C does (`engines/interruption.py`).
        """
        problem: Exception
        try:
            return run_stoppable(act, stop, patience=self.patience)
        except self.errors as error:
            problem = self.failed_count() if doing == COUNTING else self.reword(doing, error)
        raise problem

    def failed_count(self) -> QueryFailed:
        """Return the one error of a count that failed."""
        return QueryFailed(COUNTING, "why is withheld too", hint=self.hint)
