"""Reads lines that are typed on a terminal: with editing, history and completion where Python has readline.

The history is a file in the user's state folder (`XDG_STATE_HOME`, else `~/.local/state`) that nobody else can read. It
holds the statements that were typed, and never what they gave.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import click

try:
    import readline as _readline
except ImportError:  # Python for Windows has none
    _EDITING: ModuleType | None = None
else:
    _EDITING = _readline

#: How many statements the history keeps.
_MOST_STATEMENTS = 1000
#: What ends a word: so a name is completed behind a quote, a bracket or a comma.
_BETWEEN_WORDS = " \t\n'\"`(),;=<>+-*/[]{}:"
#: The user alone reads and writes.
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700


def history_file() -> Path:
    """Return where the statements that were typed in the shell are kept."""
    state = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state"
    return folder / "dpsql" / "shell_history"


class LineEditor:
    """Reads lines from the terminal. `words` returns what TAB completes a beginning to; it is asked anew each time."""

    def __init__(self, words: Callable[[str], list[str]]) -> None:
        self._words = words
        on_terminal = sys.stdin is sys.__stdin__ and os.isatty(0) and os.isatty(1)
        self._editing = _EDITING if on_terminal else None

    def read_line(self, prompt: str) -> str:
        """Return a line without its end. Raises EOFError at Ctrl-D and KeyboardInterrupt at Ctrl-C."""
        if self._editing is not None:
            return input(prompt)
        click.echo(prompt, err=True, nl=False)
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.removesuffix("\n")

    def remember(self, statement: str) -> None:
        """Put a statement into the history, on one line where that means the same, and write the history down."""
        if self._editing is None or not statement.strip():
            return
        lines = [statement] if "--" in statement else [" ".join(statement.split("\n"))]
        for line in (part for text in lines for part in text.split("\n")):
            if line != self._editing.get_history_item(self._editing.get_current_history_length()):
                self._editing.add_history(line)
        with contextlib.suppress(OSError):  # a home that cannot be written is no reason to stop
            _make_private(history_file())
            self._editing.write_history_file(str(history_file()))

    @contextlib.contextmanager
    def open(self) -> Iterator[LineEditor]:
        """Load the history and turn completion on, for one block."""
        if self._editing is None:
            yield self
            return
        with contextlib.suppress(OSError):
            self._editing.read_history_file(str(history_file()))
        self._editing.set_history_length(_MOST_STATEMENTS)
        self._editing.set_auto_history(False)
        self._editing.set_completer_delims(_BETWEEN_WORDS)
        self._editing.set_completer(self._complete)
        is_libedit = "libedit" in (self._editing.__doc__ or "")
        self._editing.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
        try:
            yield self
        finally:
            self._editing.set_completer(None)
            self._editing.set_auto_history(True)

    def _complete(self, beginning: str, number: int) -> str | None:
        words = self._words(beginning)
        return words[number] if number < len(words) else None


def _make_private(file: Path) -> None:
    """Create a file, and its folder, that the user alone can read; take others' rights to one that is there."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=_PRIVATE_FOLDER)
    os.close(os.open(file, os.O_CREAT | os.O_WRONLY, _PRIVATE_FILE))
    file.chmod(_PRIVATE_FILE)
