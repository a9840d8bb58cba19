"""Says how far a run is: which step of its plan it has come to, and for how long it has run.

All of it is public before the run, except the time: the number and the names of the steps, and the share of the plan's
scans that lie behind. No count of rows and nothing of an answer is in it, and whoever is told is called between two
operations of a session, when no exact count is on its way to its noise. Steps that are planned during a run
(`operations.Later`) follow from answers that were released. How long a run takes is among what is not promised.

Whoever is told is the caller's own code (`watch_progress`), never a method's. If it raises an error, the run ends: the
charge stays, and the error comes to the caller as it was raised. It is told once before the charge, so that code that
cannot work at all costs nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType

from dpsql.kernel.plan import Plan, Step
from dpsql.trees.strategies.optimize import KINDS, watch_search


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes:
        method: what runs, by the name in its plan; "" while a strategy is looked for, before there is a plan.
        step, steps: the number of the step that begins now, from 1, and how many there are; 0 before the charge, and
            both 0 before there is a plan.
        name, asks: the step's name in the plan, and the operation it asks for.
        share: how much of the plan's scans lie behind, from 0 to 1; 1 once the result is stored.
        seconds: since the run began.

    >>> print(Progress("auto", 2, 5, "marginals", "histograms", 0.25, 1.5))
    step 2 of 5, marginals
    >>> print(Progress("auto", 5, 5, "pick", "pick", 1.0, 3.5))
    5 steps, done
    """

    method: str
    step: int
    steps: int
    name: str
    asks: str
    share: float
    seconds: float

    def __str__(self) -> str:
        if not self.steps:
            return self.name
        if not self.step:
            return f"{self.steps} steps" if self.steps > 1 else "1 step"
        if self.share == 1:
            return f"{self.steps} steps, done" if self.steps > 1 else "1 step, done"
        return f"step {self.step} of {self.steps}, {self.name}"


class _Listener:
    """Who is told of progress, and the error that it raised: it is told nothing after one."""

    def __init__(self, tell: Callable[[Progress], object]) -> None:
        self._tell = tell
        self.error: Exception | None = None
        #: Where the error was raised, without a frame of what called.
        self._trace: TracebackType | None = None

    def hear(self, progress: Progress) -> None:
        """Tell of progress."""
        if self.error is not None:
            raise self.error
        try:
            self._tell(progress)
        except Exception as error:
            self.error, self._trace = error, error.__traceback__
            raise

    def own_error(self) -> Exception:
        """Return the error as it was raised, without the frames of a run that it went through."""
        assert self.error is not None
        return self.error.with_traceback(self._trace)


_listening: ContextVar[_Listener | None] = ContextVar("listening", default=None)


@contextmanager
def watch_progress(tell: Callable[[Progress], object] | None) -> Iterator[None]:
    """Call `tell` with each step of each run, until the block ends; None tells nobody anew."""
    if tell is None:
        yield
        return
    listener = _Listener(tell)
    started = time.monotonic()

    def hear_of_search(kind: str) -> None:
        share, seconds = KINDS.index(kind) / len(KINDS), time.monotonic() - started
        listener.hear(Progress("", 0, 0, f"looking for a strategy ({kind})", "", share, seconds))

    token = _listening.set(listener)
    try:
        with watch_search(hear_of_search):
            yield
    finally:
        _listening.reset(token)


class RunProgress:
    """The steps of one run, told as they begin."""

    def __init__(self, plan: Plan) -> None:
        self._listener = _listening.get()
        self._method = plan.method
        self._steps = {step.name: step for step in plan.steps}
        self._begun: list[str] = []
        self._started = time.monotonic()

    def announce(self) -> None:
        """Tell what is planned: before the charge, so that an error of the listener's own costs nothing."""
        self._tell("", "", 0.0)

    def begin(self, step: Step) -> None:
        """Tell that a step begins; further uses of a step that has begun are parts of it."""
        if step.name in self._begun:
            return
        done = sum(self._steps[name].scans for name in self._begun)
        self._begun.append(step.name)
        self._tell(step.name, step.operation.name, done / sum(step.scans for step in self._steps.values()))

    def replace(self, name: str, steps: Sequence[Step]) -> None:
        """Put steps in the place of the one that allowed for them."""
        del self._steps[name]
        self._steps.update((step.name, step) for step in steps)

    def end(self) -> None:
        """Tell that the result is stored."""
        last = self._steps[self._begun[-1]] if self._begun else None
        self._tell("" if last is None else last.name, "" if last is None else last.operation.name, 1.0)

    @property
    def error(self) -> Exception | None:
        """The error that the listener has raised: it ends the run, whatever a method did about it."""
        heard = self._listener is not None and self._listener.error is not None
        return self._listener.own_error() if self._listener is not None and heard else None

    def _tell(self, name: str, asks: str, share: float) -> None:
        if self._listener is None:
            return
        step = len(self._steps) if share == 1 else len(self._begun)
        seconds = time.monotonic() - self._started
        self._listener.hear(Progress(self._method, step, len(self._steps), name, asks, share, seconds))
