"""Shows progress where `progress=True` asks for it: a line in a notebook, on a terminal, or one for each step.

In a notebook the line is replaced as the run goes on; it is plain HTML and needs no widgets. On a terminal it is
written over. Elsewhere, in a script's log, each step has a line of its own. All of it goes to stderr or to the cell.
"""

from __future__ import annotations

import html
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, TextIO

from dpsql.errors import ParameterError
from dpsql.kernel.progress import Progress, watch_progress

#: What `progress=` takes: True shows it here, a function is called with it, None or False shows nothing.
Listener = Callable[[Progress], object] | bool | None
#: Columns of a line that is written over, and cut so that it stays one line.
_WIDTH = 79


def show_or_call(progress: Listener) -> AbstractContextManager[None]:
    """Return a block whose runs are shown, for True, or told to a function."""
    if progress is None or progress is False:
        return watch_progress(None)
    if progress is not True and not callable(progress):
        allowed = "True, or a function that takes one dpsql.Progress"
        raise ParameterError("progress", allowed=allowed, given=progress)
    if progress is not True:
        return watch_progress(progress)
    return watch_progress(_NotebookLine() if in_notebook() else _TerminalLine(sys.stderr))


def in_notebook() -> bool:
    """Whether this runs in the kernel of a notebook, which shows HTML."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def progress_line(progress: Progress) -> str:
    """Return progress as one line of text.

    >>> progress_line(Progress("auto", 2, 5, "marginals", "histograms", 0.25, 61.5))
    'auto: step 2 of 5, marginals · 25 % · 1:01'
    """
    minutes, seconds = divmod(int(progress.seconds), 60)
    method = f"{progress.method}: " if progress.method else ""
    return f"{method}{progress} · {progress.share:.0%} · {minutes}:{seconds:02}".replace("%", " %")


def progress_html(progress: Progress) -> str:
    """Return progress as HTML: a bar of the browser's own, and the line."""
    line = html.escape(progress_line(progress))
    return f'<progress value="{progress.share:.4f}" max="1"></progress> <span>{line}</span>'


class _Shown:
    """What a notebook shows of progress: HTML, or text where it shows no HTML."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def __repr__(self) -> str:
        return progress_line(self._progress)

    def _repr_html_(self) -> str:
        return progress_html(self._progress)


class _NotebookLine:
    """A line in the output of a cell, which is replaced at each step."""

    def __init__(self) -> None:
        self._handle: Any = None

    def __call__(self, progress: Progress) -> None:
        if self._handle is not None:
            self._handle.update(_Shown(progress))
            return
        self._handle = import_module("IPython.display").display(_Shown(progress), display_id=True)


class _TerminalLine:
    """A line on a terminal, which is written over at each step; elsewhere a line for each step."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def __call__(self, progress: Progress) -> None:
        line = progress_line(progress)
        if self._out.isatty():
            end = "\n" if progress.share == 1 else ""
            self._out.write(f"\r{line[:_WIDTH]:<{_WIDTH}}{end}")
        else:
            self._out.write(f"{line}\n")
        self._out.flush()
