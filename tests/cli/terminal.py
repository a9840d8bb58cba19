"""A command on a pseudo-terminal, in a process of its own, with every wait bounded.

A shell takes the terminal as the one that Ctrl-C comes from and becomes the command behind it. This process is not
forked: the threads of drivers that other tests loaded can leave a fork hanging for ever.
"""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CTRL_C, CTRL_D, TAB, UP = "\x03", "\x04", "\t", "\x1b[A"
#: The longest that anything is waited for, in seconds.
PATIENCE = 60.0
_ON_TERMINAL = ["sh", "-c", 'exec "$@" < "$0" > "$0" 2>&1']


class Terminal:
    """A running command: what is typed to it, and what it says."""

    def __init__(self, end: int, process: subprocess.Popen[bytes]) -> None:
        self._end = end
        self._process = process
        self.output = ""

    def type(self, text: str) -> None:
        """Type a text as it is; a line needs its end."""
        os.write(self._end, text.encode())

    def wait_for(self, text: str) -> str:
        """Return what the command says up to a text, and that text; fail where it does not come."""
        deadline, said = time.monotonic() + PATIENCE, ""
        while text not in self.output:
            part = self._read_part()
            if part is None or time.monotonic() > deadline:
                raise AssertionError(f"{text!r} did not come, but: {self.output!r}")
            self.output += part
        said, self.output = self.output.split(text, 1)
        return said + text

    def press_until(self, key: str, text: str) -> None:
        """Press a key, and once more after ten seconds, until the command says a text: one too early is missed."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.output and time.monotonic() < deadline:
            self.type(key)
            for _ in range(40):
                part = self._read_part()
                if part is None:
                    raise AssertionError(f"the command ended, and {text!r} did not come, but: {self.output!r}")
                self.output += part
                if text in self.output:
                    break
        self.wait_for(text)

    def end(self) -> int:
        """Return the exit code of a command that was told to leave."""
        deadline = time.monotonic() + PATIENCE
        while self._read_part() is not None and time.monotonic() < deadline:
            pass
        return self._process.wait(PATIENCE)

    def _read_part(self) -> str | None:
        """Return what there is to read, "" after a moment without anything, None at the end."""
        if not select.select([self._end], [], [], 0.25)[0]:
            return ""
        try:
            return os.read(self._end, 65536).decode(errors="replace") or None
        except OSError:
            return None


@contextlib.contextmanager
def on_terminal(
    words: list[str], *, folder: Path, width: int = 80, more: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    """Run `dpsql` with these words on a terminal of that width; it is gone after the block."""
    own, other = pty.openpty()
    termios.tcsetwinsize(other, (24, width))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "INPUTRC")}
    process = subprocess.Popen(
        [*_ON_TERMINAL, os.ttyname(other), sys.executable, "-m", "dpsql", *words],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT), "TERM": "dumb", **(more or {})},
        stdin=other,
        stdout=other,
        stderr=other,
        start_new_session=True,
    )
    os.close(other)
    try:
        yield Terminal(own, process)
    finally:
        process.kill()
        process.wait()
        os.close(own)
