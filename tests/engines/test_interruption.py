"""Ctrl-C stops the statement that runs at once, on every engine; the charge stays, the ledger and connections hold."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.engines.error_replacement import ErrorReplacement
from dpsql.engines.interruption import call_inside_statement, hold_interrupts, run_stoppable
from dpsql.errors import QueryFailed
from tests.servers import absent, fresh_database, spark_connect

ROOT = Path(__file__).resolve().parents[2]
#: Seconds in which any process of these tests ends, or is ended.
PATIENCE = 240
#: A statement of minutes.
LONG = "SELECT count(*) FROM range(100000000) a, range(100000) b WHERE (a.range * b.range) % 7 = 3"
#: How often the key is pressed. What follows a second time is the same code on every engine; some start slowly.
PRESSES = [("duckdb", 1), ("duckdb", 3), ("postgres", 1), ("postgres", 3), ("spark", 1), ("connect", 1), ("chdb", 1)]
needs_signals = pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent by a signal of POSIX")


def press() -> None:
    """Press Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)


class Lines:
    """What a process prints, line by line, within a time."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._process, self._out = process, process.stdout.fileno()
        self._read = b""
        self._deadline = time.monotonic() + PATIENCE

    def until(self, word: str) -> dict[str, Any]:
        """Return the next line that has a word."""
        while True:
            line, end, rest = self._read.partition(b"\n")
            if end:
                self._read = rest
                if line.startswith(b"{") and word in (said := json.loads(line)):
                    return dict(said)
                continue
            ready, _, _ = select.select([self._out], [], [], max(0.0, self._deadline - time.monotonic()))
            part = os.read(self._out, 65536) if ready else b""
            assert part, f"no word of {word}: {self._process.poll()}"
            self._read += part


@contextmanager
def trainer(engine: str, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Lines]]:
    """Start the process that trains, in a session of its own, and end it at last."""
    url = fresh_database() if engine == "postgres" else ""
    env = os.environ | {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
    with (folder / "errors").open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.engines.interrupted_trainer", engine, str(folder), url],
            cwd=folder, env=env, stdout=subprocess.PIPE, stderr=errors, start_new_session=True,
        )  # fmt: skip
    try:
        yield process, Lines(process)
    finally:
        with_children = os.getpgid(process.pid) if process.poll() is None else process.pid
        process.kill()
        process.wait()
        with suppress(ProcessLookupError):
            os.killpg(with_children, signal.SIGKILL)  # Java outlives a Python that was killed
        assert process.stdout is not None
        process.stdout.close()


def require(engine: str) -> None:
    """Skip where an engine is absent."""
    if engine in ("spark", "connect"):
        spark_connect()
    elif engine == "chdb":
        try:
            import chdb  # noqa: F401
        except ImportError:
            absent("clickhouse", "chdb is not installed")


@needs_signals
@pytest.mark.parametrize(("engine", "times"), PRESSES)
def test_ctrl_c_stops_a_run_at_once(tmp_path: Path, engine: str, times: int) -> None:
    """A run that is stopped in its first third ends long before it would have; it is charged, and lost."""
    require(engine)
    with trainer(engine, tmp_path) as (process, lines):
        charged = lines.until("charged")["at"]
        own = lines.until("ended")["at"] - charged
        began = lines.until("charged")["at"]
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(own / 3)
        pressed = time.time()
        for _ in range(times):
            process.send_signal(signal.SIGINT)
        seen = lines.until("stopped")
        assert seen["seconds_at"] - pressed < own / 3, (own, pressed - began, seen)
        number, state, amount = seen["entry"]
        assert (state, amount) == ("lost", "0.5")
        assert seen["charge"] == [number, "lost", "0.5", "epsilon"]
        assert seen["stopped"] == f"Epsilon 0.5 stays charged (entry {number}, lost)."
        assert seen["findings"] == []
        assert seen["rows"], "the caller's own connection"
        assert lines.until("model")["model"]
        assert process.wait(PATIENCE) == 0, (tmp_path / "errors").read_text(errors="replace")[-2000:]


# The two functions by themselves.


@needs_signals
def test_a_statement_in_the_drivers_own_code_is_stopped() -> None:
    """A DuckDB statement of minutes ends at once, and the connection can be used again."""
    connection = duckdb.connect()
    threading.Timer(0.3, press).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_stoppable(lambda: connection.execute(LONG).fetchall(), connection.interrupt)
    assert time.monotonic() - started < 20
    assert connection.execute("SELECT 42").fetchall() == [(42,)]


@needs_signals
def test_ctrl_c_wins_over_the_error_of_the_statement() -> None:
    """That the database says it was interrupted is not told as a failed query."""
    connection = duckdb.connect()
    replace = ErrorReplacement((duckdb.Error,), lambda doing, error: QueryFailed(doing, type(error).__name__))
    threading.Timer(0.3, press).start()
    with pytest.raises(KeyboardInterrupt):
        replace("count the rows", lambda: connection.execute(LONG).fetchall(), connection.interrupt)


@needs_signals
def test_a_statement_that_does_not_listen_is_asked_again() -> None:
    """A stop that comes too early, while a statement is planned, is followed by others."""
    asked: list[float] = []
    done = threading.Event()

    def stop() -> None:
        asked.append(time.monotonic())
        if len(asked) == 3:
            done.set()

    threading.Timer(0.1, press).start()
    with pytest.raises(KeyboardInterrupt):
        run_stoppable(lambda: done.wait(60), stop)
    assert len(asked) == 3


@needs_signals
def test_a_statement_that_never_listens_is_left_behind() -> None:
    """After some patience the call ends; somebody goes on asking; the next statement has a thread of its own."""
    asked: list[float] = []
    done, ended = threading.Event(), threading.Event()

    def act() -> None:
        done.wait(60)
        ended.set()

    threading.Timer(0.1, press).start()
    with pytest.raises(KeyboardInterrupt):
        run_stoppable(act, lambda: asked.append(time.monotonic()), patience=0.3)
    assert not ended.is_set()
    assert run_stoppable(lambda: 7, lambda: None) == 7
    so_far = len(asked)
    deadline = time.monotonic() + 60
    while len(asked) <= so_far and time.monotonic() < deadline:
        select.select([], [], [], 0.05)
    assert len(asked) > so_far
    done.set()
    assert ended.wait(60)


@needs_signals
def test_what_runs_inside_a_statement_is_stopped_with_it() -> None:
    """A function that the database calls back has its own statement stopped, in whatever thread it is called."""
    inner = duckdb.connect()
    outcome: list[str] = []

    def call_back() -> None:
        try:
            call_inside_statement(lambda: run_stoppable(lambda: inner.execute(LONG), inner.interrupt))
        except KeyboardInterrupt:
            outcome.append("interrupted")

    def act() -> None:
        other = threading.Thread(target=call_back)
        other.start()
        other.join(60)

    threading.Timer(0.3, press).start()
    with pytest.raises(KeyboardInterrupt):
        run_stoppable(act, lambda: None)
    assert outcome == ["interrupted"]


def test_results_and_errors_come_through() -> None:
    """A statement that nobody stops gives what it gives, in either thread; the main thread's context is seen."""
    assert run_stoppable(lambda: 7, lambda: None) == 7
    with pytest.raises(ZeroDivisionError):
        run_stoppable(lambda: 1 // 0, lambda: None)
    results: list[int] = []
    other = threading.Thread(target=lambda: results.append(run_stoppable(lambda: 8, lambda: None)))
    other.start()
    other.join()
    assert results == [8]


@needs_signals
def test_held_keys_are_raised_at_the_end() -> None:
    """A block is not cut in two, however often the key is pressed; then it is raised once, and the handler is back."""
    before = signal.getsignal(signal.SIGINT)
    steps: list[str] = []

    def fail() -> None:
        press()
        with hold_interrupts():  # the outer block takes over what is pressed in here
            press()
            raise ValueError("inner")

    def work() -> None:
        with hold_interrupts():
            press()
            steps.append("one")
            with pytest.raises(ValueError, match="inner"):
                fail()
            press()
            steps.append("two")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert steps == ["one", "two"]
    assert signal.getsignal(signal.SIGINT) is before


@needs_signals
@pytest.mark.parametrize("stopping", [True, False])
def test_a_handler_of_the_callers_own_is_asked(stopping: bool) -> None:
    """It is called when the statement has ended; where it raises nothing, a statement that was cut still does."""
    calls: list[int] = []
    act: Callable[[], object]
    ended = threading.Event()
    before = signal.signal(signal.SIGINT, lambda number, frame: calls.append(number))
    try:
        threading.Timer(0.1, press).start()
        if stopping:
            connection = duckdb.connect()
            with pytest.raises(KeyboardInterrupt):
                run_stoppable(lambda: connection.execute(LONG).fetchall(), connection.interrupt)
        else:
            act = lambda: ended.wait(60)  # noqa: E731
            assert run_stoppable(act, ended.set) is True
    finally:
        signal.signal(signal.SIGINT, before)
    assert calls == [signal.SIGINT]
