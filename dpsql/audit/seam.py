"""Where the audit listens: the few places of the kernel where exact values meet noise, and where secret keys are drawn.

The kernel has no hook for this, so that no method can use one. `listen` puts listeners in the place of the functions
named in `_put_in_place`, for the time of one run. They act only in the thread and context that opened them: any other
run of the process goes through them to the real functions.

An audit of a run that went another way would see nothing, and that must not look like a loss of 0. So the recorder
stops a charged operation that met no mechanism, and noise or a choice outside of an operation (`audit/record.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from decimal import Decimal
from fractions import Fraction
from functools import wraps
from threading import RLock
from typing import Any

from dpsql.audit.record import EXPONENTIAL, FLIP, GAUSSIAN, LAPLACE, Numbers, Recorder
from dpsql.engines.base import Arrays, Engine, Workspace
from dpsql.kernel import exact, noise, session, statement_size
from dpsql.kernel.operations import OPERATIONS
from dpsql.kernel.plan import Step
from dpsql.kernel.promise import Promise

_RECORDER: ContextVar[Recorder | None] = ContextVar("recorder", default=None)
#: One audit at a time puts its listeners in place.
_ONE_AT_A_TIME = RLock()
#: The kernel's limit on the groups of one statement, in each module that reads it.
_LIMIT = "GROUPS_PER_STATEMENT"
#: What a session does without an answer; what it was told must be the same on both tables.
_INSTRUCTIONS = (*(name for name, kind in OPERATIONS.items() if not kind.answers), "narrow", "hold")


@contextmanager
def listen(recorder: Recorder, *, groups: int | None = None) -> Iterator[None]:
    """Let a recorder hear, and answer for, every run of this context.

    With `groups` a statement may count no more groups than that, for the time of the block: forests as small as an
    audit's are then counted in several statements, as large ones always are.
    """
    with _ONE_AT_A_TIME, ExitStack() as places:
        _put_in_place(places)
        for module in (statement_size, exact) if groups is not None else ():
            places.callback(setattr, module, _LIMIT, vars(module)[_LIMIT])
            setattr(module, _LIMIT, groups)
        token = _RECORDER.set(recorder)
        try:
            yield
        finally:
            _RECORDER.reset(token)


def _put_in_place(places: ExitStack) -> None:
    """Put a listener in the place of each function through which exact values meet noise."""
    swaps: list[tuple[object, str, Callable[[Any], Any]]] = [
        (exact, "random_key", _key),
        (noise, "add_noise", _addition),
        (noise, "select_common", _selection),
        (noise, "discrete_laplace", _sampler(LAPLACE)),
        (noise, "discrete_gaussian", _sampler(GAUSSIAN)),
        (noise, "permute_and_flip", _choice(FLIP)),
        (noise, "exponential", _choice(EXPONENTIAL)),
        (session, "exponential", _choice(EXPONENTIAL)),
        *((session.Session, name, _operation(name)) for name in OPERATIONS if name not in _INSTRUCTIONS),
        *((session.Session, name, _instruction(name)) for name in _INSTRUCTIONS),
    ]
    for owner, name, listener in swaps:
        real = vars(owner)[name]
        places.callback(setattr, owner, name, real)
        setattr(owner, name, wraps(real)(listener(real)))


def _key(real: Callable[..., int]) -> Callable[..., int]:
    def listen(*given: Any, **named: Any) -> int:
        recorder = _RECORDER.get()
        return real(*given, **named) if recorder is None else recorder.key(lambda: real(*given, **named))

    return listen


def _addition(real: Callable[..., Numbers]) -> Callable[..., Numbers]:
    def listen(counts: Numbers, *given: Any, **named: Any) -> Numbers:
        recorder = _RECORDER.get()
        if recorder is None:
            return real(counts, *given, **named)
        return recorder.addition(counts, lambda: real(counts, *given, **named))

    return listen


def _selection(real: Callable[..., dict[Any, int]]) -> Callable[..., dict[Any, int]]:
    def listen(groups: Mapping[Any, int], step: Step, promise: Promise) -> dict[Any, int]:
        recorder = _RECORDER.get()
        if recorder is None:
            return real(groups, step, promise)
        allowed = Decimal(0) if promise.approximate is None else promise.approximate.selection_delta
        least = noise.least_common(step, promise)
        return recorder.selection(groups, lambda: real(groups, step, promise), least=least, allowed=allowed)

    return listen


def _sampler(mechanism: str) -> Callable[[Any], Any]:
    def of(real: Callable[..., Numbers]) -> Callable[..., Numbers]:
        def listen(parameter: Fraction, size: int, **named: Any) -> Numbers:
            recorder = _RECORDER.get()
            if recorder is None:
                return real(parameter, size, **named)
            return recorder.noise(mechanism, parameter, lambda: real(parameter, size, **named))

        return listen

    return of


def _choice(mechanism: str) -> Callable[[Any], Any]:
    def of(real: Callable[..., Numbers]) -> Callable[..., Numbers]:
        def listen(utilities: Numbers, epsilon: Fraction, **named: Any) -> Numbers:
            recorder = _RECORDER.get()
            if recorder is None:
                return real(utilities, epsilon, **named)
            width = Fraction(named.get("sensitivity", 1)) * (1 if named.get("monotone", False) else 2)
            draw = lambda: real(utilities, epsilon, **named)  # noqa: E731
            return recorder.choice(mechanism, Fraction(epsilon) / width, utilities, named.get("weights"), draw)

        return listen

    return of


def _operation(name: str) -> Callable[[Any], Any]:
    """Return what listens to a question of the session that has an answer."""

    def of(real: Callable[..., Any]) -> Callable[..., Any]:
        def listen(opened: session.Session, step: str, *given: Any, **named: Any) -> Any:
            recorder = _RECORDER.get()
            if recorder is None:
                return real(opened, step, *given, **named)
            promise = opened.plan.promise
            rate = Fraction(1) if promise.approximate is None else promise.approximate.rate
            try:
                allowed = opened.step(step).epsilon * rate
            except KeyError:
                allowed = Fraction(0)  # not in the plan: the session refuses it
            approximate, public = promise.approximate is not None, OPERATIONS[name].free
            recording = recorder.operation(
                name, step, session=opened, allowed=allowed, approximate=approximate, public=public
            )
            with recording as answer:
                answer.append(real(opened, step, *given, **named))
            return answer[0]

        return listen

    return of


def _instruction(name: str) -> Callable[[Any], Any]:
    """Return what listens to something that the session is told: it must follow from what was released."""

    def of(real: Callable[..., Any]) -> Callable[..., Any]:
        def listen(opened: session.Session, *given: Any, **named: Any) -> Any:
            recorder = _RECORDER.get()
            if recorder is None:
                return real(opened, *given, **named)
            nothing = Fraction(0)
            recording = recorder.operation(name, "", session=opened, allowed=nothing, approximate=False, public=True)
            with recording as answer:
                done = real(opened, *given, **named)
                answer.append((given, named))
            return done

        return listen

    return of


class Watched:
    """An engine whose statements over private rows are written on a recorder's tape, whole, joined tables included."""

    def __init__(self, engine: Engine, recorder: Recorder) -> None:
        self._engine = engine
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    @contextmanager
    def workspace(self, *given: Any, **named: Any) -> Iterator[WatchedWorkspace]:
        """Open a workspace whose statements are written down too."""
        with self._engine.workspace(*given, **named) as here:
            yield WatchedWorkspace(here, self)

    def note(self, what: str, query: Any, tables: Mapping[str, Mapping[str, Any]]) -> None:
        """Write a statement down: its text, secret keys included, and what it joins."""
        joined = {name: {key: column.tolist() for key, column in table.items()} for name, table in tables.items()}
        self._recorder.statement(f"{what} {query.sql(self._engine.dialect)} {joined}")


class WatchedWorkspace:
    """A workspace whose statements are written down."""

    def __init__(self, here: Workspace, watched: Watched) -> None:
        self._here = here
        self._watched = watched

    def __getattr__(self, name: str) -> Any:
        return getattr(self._here, name)

    def keep(self, name: str, query: Any, tables: Any) -> None:
        """Keep rows and write down how."""
        self._watched.note(f"keep {name}", query, tables)
        self._here.keep(name, query, tables)

    def aggregate(self, query: Any, tables: Any) -> Arrays:
        """Run a statement and write it down."""
        self._watched.note("aggregate", query, tables)
        return self._here.aggregate(query, tables)
