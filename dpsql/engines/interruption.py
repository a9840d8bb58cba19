"""Ctrl-C while a database works: the statement is stopped at once, and what has to be whole is ended first.

Python runs the handler of a signal in the main thread alone, and only between two of its own steps. A driver that
computes inside its own code lets it wait, for a minute where the statement takes one. So a statement that may take long
runs in a thread of its own (`run_stoppable`): the main thread waits for it, and Ctrl-C asks the database to stop it, as
often as it takes. What may not be cut in two (an entry of the ledger, the end of a session) is ended before Ctrl-C is
raised (`hold_interrupts`). However often the key is pressed meanwhile, nothing else is raised.

A database that does not listen while it plans is left behind after some patience: the call ends, and a thread goes on
asking until the statement has ended, whose result nobody gets.

A statement may call back into Python, as SQL that trains does. What is run inside such a call belongs to the statement,
whatever thread the database calls from (`call_inside_statement`): Ctrl-C stops both.

In other threads, and where somebody else ignores or handles the signal outside Python, nothing is changed. Nor is it
in a process that has said that it stops by itself (`never_hold_interrupts`).
"""

from __future__ import annotations

import atexit
import contextvars
import math
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Generic, TypeVar

_Result = TypeVar("_Result")
_Other = TypeVar("_Other")
_Handler = Callable[[int, FrameType | None], Any]
#: Seconds after which a statement that still runs is looked at, and stopped again: one that was being planned may have
#: started since.
_AGAIN = 0.25
#: Seconds that the end of the interpreter waits for a statement that was left behind.
_LAST_WAIT = 1.0
_PRESSED, _ENDED = "pressed", "ended"
#: Set where the process has a way of its own to stop.
_STOPS_BY_ITSELF = threading.Event()


def _ignore() -> None:
    """Do nothing."""


class _Hold:
    """A handler of Ctrl-C that notes it, and calls `tell`."""

    def __init__(self, tell: Callable[[], object]) -> None:
        self.pressed = False
        self._tell = tell

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.pressed = True
        self._tell()


@contextmanager
def hold_interrupts(tell: Callable[[], object] = _ignore) -> Iterator[None]:
    """Let Ctrl-C wait until a block has ended, well or badly; it is then raised, in place of any error of the block.

    `tell` is called each time the key is pressed meanwhile, between any two steps of the main thread.
    """
    before = _present_handler()
    if before is None:
        yield
        return
    hold = _Hold(tell)
    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if hold.pressed:
            before(signal.SIGINT, None)


def never_hold_interrupts() -> None:
    """Leave the signal to this process's own handler from now on: it must run at once, whatever is under way."""
    _STOPS_BY_ITSELF.set()


def _present_handler() -> _Handler | None:
    """Return what Ctrl-C calls now; None where that cannot be replaced for a while."""
    if _STOPS_BY_ITSELF.is_set() or threading.current_thread() is not threading.main_thread():
        return None
    handler = signal.getsignal(signal.SIGINT)
    return handler if callable(handler) else None


@dataclass(eq=False)
class _Statement(Generic[_Result]):
    """A statement that another thread runs, and what the main thread hears of it meanwhile."""

    act: Callable[[], _Result]
    news: queue.SimpleQueue[str] = field(default_factory=queue.SimpleQueue)
    #: What stops the statements that run inside this one.
    inner: list[Callable[[], object]] = field(default_factory=list)
    stopped: bool = False
    results: list[_Result] = field(default_factory=list)
    error: BaseException | None = None

    def run(self) -> None:
        """Run the statement, and say that it has ended."""
        _enclosing.set(self)
        try:
            self.results.append(self.act())
        except BaseException as error:  # noqa: BLE001  raised again in the thread that waits
            self.error = error
        self.news.put(_ENDED)

    def press(self) -> None:
        """Say that Ctrl-C was pressed: safe in the handler of a signal, whatever it has interrupted."""
        self.news.put(_PRESSED)

    def wait(self, stop: Callable[[], object], patience: float = math.inf) -> bool:
        """Wait until the statement has ended; ask it to stop, and what runs inside it, when Ctrl-C was pressed.

        Return False where it has not ended so many seconds after it was first asked to stop.
        """
        asked = math.inf
        while (word := self._hear()) != _ENDED:
            if word == _PRESSED:
                self.stopped, asked = True, min(asked, time.monotonic())
            for stop_it in (*self.inner, stop) if self.stopped else ():
                stop_it()
            if time.monotonic() - asked > patience:
                return False
        return True

    def _hear(self) -> str:
        """Return what happens next, or "" after a moment without anything.

        The moment has an end even where nothing was pressed yet: a signal that comes just before a thread begins to
        wait does not wake it.
        """
        try:
            return self.news.get(timeout=_AGAIN)
        except queue.Empty:
            return ""

    def leave(self, stop: Callable[[], object]) -> None:
        """Have another thread go on asking the statement to stop, and let go whatever it gives."""

        def ask_on() -> None:
            self.wait(stop)
            self.forget()

        threading.Thread(target=ask_on, name="dpsql stop", daemon=True).start()

    def forget(self) -> None:
        """Keep nothing of what the statement gave."""
        self.error = None
        self.results.clear()

    def run_inside(self, act: Callable[[], _Other], stop: Callable[[], object]) -> _Other:
        """Return what a statement inside this one returns; raise KeyboardInterrupt where this one is to stop."""
        self.inner.append(stop)
        try:
            if not self.stopped:
                return act()
        finally:
            self.inner.remove(stop)
            if self.stopped:
                raise KeyboardInterrupt

    def result(self) -> _Result:
        """Return what the statement gave, or raise what it raised; neither is kept."""
        error, self.error = self.error, None
        if error is not None:
            raise error
        return self.results.pop()


#: Statements with their contexts; None where there will be no more.
_Statements = queue.SimpleQueue[tuple[contextvars.Context, _Statement[Any]] | None]


class _Thread:
    """The thread that runs the main thread's statements, one after the other. It is started when it is first needed.

    It is one for all: a driver may keep something for each thread that it meets (Spark a connection to Java).
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        #: The context of the statement that runs.
        self.context: contextvars.Context | None = None
        self._statements: _Statements = queue.SimpleQueue()

    def start(self, statement: _Statement[Any]) -> None:
        """Start a statement, in the present context."""
        if self._thread is None or not self._thread.is_alive():  # a process that was forked has no other threads
            self._statements = queue.SimpleQueue()
            self._thread = threading.Thread(target=self._run_all, name="dpsql statements", daemon=True)
            self._thread.start()
        self.context = contextvars.copy_context()
        self._statements.put((self.context, statement))

    def leave(self) -> None:
        """Give the next statement a new thread: the present one is busy, and ends with what it does."""
        self._statements.put(None)
        self._thread = None

    def end(self) -> None:
        """End the thread with the interpreter: one that lives on keeps alive what it was started with, and drivers."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._statements.put(None)
            thread.join(_LAST_WAIT)

    def _run_all(self) -> None:
        statements = self._statements
        while _run_next(statements):
            pass


def _run_next(statements: _Statements) -> bool:
    """Run the next statement, unless there is none; when this has returned, nothing of it is left in this thread."""
    waiting = statements.get()
    if waiting is not None:
        context, statement = waiting
        context.run(statement.run)
    return waiting is not None


_THREAD = _Thread()
atexit.register(_THREAD.end)
#: The main thread's statement inside which this is called.
_enclosing: contextvars.ContextVar[_Statement[Any] | None] = contextvars.ContextVar("enclosing", default=None)


def call_inside_statement(call: Callable[[], _Result]) -> _Result:
    """Return what a call returns that a database makes while it runs a statement, in whatever thread."""
    context = _THREAD.context
    if context is None or _enclosing.get() is not None or threading.current_thread() is threading.main_thread():
        return call()
    return context.copy().run(call)


def run_stoppable(
    act: Callable[[], _Result], stop: Callable[[], object] | None, *, patience: float = math.inf
) -> _Result:
    """Return what `act` returns, a statement that a database runs; Ctrl-C has it stopped, and is then raised.

    `stop` asks the database to stop it. It is called in the main thread, may come too early or too late, and must raise
    nothing. Without it the statement is short: Ctrl-C waits for its end. `patience` is how many seconds a statement has
    to stop before it is left behind.
    """
    enclosing = _enclosing.get()
    if enclosing is not None and stop is not None:
        return enclosing.run_inside(act, stop)
    if _present_handler() is None:
        return act()
    if stop is None:
        with hold_interrupts():
            return act()
    statement = _Statement(act)
    try:
        with hold_interrupts(statement.press):
            _THREAD.start(statement)
            ended = statement.wait(stop, patience)
            _THREAD.context = None
            if not ended:
                _THREAD.leave()
                statement.leave(stop)
        if not ended or (statement.stopped and statement.error is not None):
            raise KeyboardInterrupt  # a handler of somebody else's, which raises nothing
        return statement.result()
    finally:
        statement.forget()
