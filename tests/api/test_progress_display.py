"""`progress=`: a function is called, True shows a line, in a notebook as HTML; anything else is refused."""

from __future__ import annotations

import io
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import dpsql
from dpsql.api import progress_display
from dpsql.api.progress_display import in_notebook, progress_html, show_or_call
from dpsql.errors import ParameterError
from dpsql.kernel.progress import Progress
from tests.tables import memory, some_rows

STEP = Progress("rdt", 1, 2, "a <step>", "leaf_counts", 0.5, 61.0)
#: Its depth follows from a size, which is bought by a run of its own.
SMALL: dict[str, Any] = {"method": "rdt", "trees": 2}


def test_a_function_is_called_with_each_step() -> None:
    """`train` takes it by name; the size that is charged first is a run of its own."""
    events: list[dpsql.Progress] = []
    with memory(some_rows(200)) as db:
        db.train("people", epsilon=20, progress=events.append, **SMALL)
    assert [(event.step, event.steps, event.share) for event in events] == [(0, 1, 0), (1, 1, 0), (1, 1, 1)] * 2
    assert events[1].asks == "size"


def test_true_shows_a_line_for_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    """Away from terminals and notebooks they stand below each other on stderr."""
    with memory(some_rows(200)) as db:
        model = db.train("people", epsilon=20, progress=True, **SMALL)
        db.evaluate(model, "people", epsilon=1, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert [line.partition(" · ")[0] for line in shown.err.splitlines()][:3] == [
        "rdt: 1 step",
        "rdt: step 1 of 1, size",
        "rdt: 1 step, done",
    ]
    assert "evaluate: step 1 of 1, scores" in shown.err


def test_nothing_is_shown_unless_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither by default nor for False."""
    with memory(some_rows(200)) as db:
        db.train("people", epsilon=1, **SMALL)
        db.train("people", epsilon=1, progress=False, **SMALL)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("given", [1, "yes", 0.5])
def test_anything_else_is_refused_before_the_charge(given: Any) -> None:
    """A parameter error, and no entry."""
    with memory(some_rows()) as db:
        with pytest.raises(ParameterError, match="progress must be True, or a function"):
            db.train("people", epsilon=1, progress=given, **SMALL)
        assert list(db.ledger()["event"]) == ["register"]


def test_a_line_on_a_terminal_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the width of a narrow terminal, and ends when the run does."""
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    line = progress_display._TerminalLine(terminal)
    line(STEP)
    line(Progress("rdt", 2, 2, "x" * 200, "leaf_counts", 1.0, 3.0))
    parts = terminal.getvalue().split("\r")
    assert [len(part.rstrip("\n")) for part in parts] == [0, 79, 79]
    assert terminal.getvalue().count("\n") == 1


def test_a_notebook_shows_html_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """One output is made and then replaced; it is the browser's own bar and a line, with names escaped."""
    outputs: list[Any] = []
    handle = SimpleNamespace(update=outputs.append)

    def display(shown: Any, *, display_id: bool) -> Any:
        outputs.append(shown)
        return handle

    ipython, displays = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    displays.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", displays)
    assert in_notebook()
    with memory(some_rows(200)) as db, show_or_call(progress=False):
        db.train("people", epsilon=20, progress=True, **SMALL)
    assert len(outputs) == 6
    assert outputs[-1]._repr_html_() == progress_html(Progress("rdt", 1, 1, "counts", "leaf_counts", 1.0, 0.0))
    assert repr(outputs[1]).startswith("rdt: step 1 of 1, size · 0 %")


def test_names_are_escaped() -> None:
    """A name is never taken for HTML."""
    assert progress_html(STEP).endswith("<span>rdt: step 1 of 2, a &lt;step&gt; · 50 % · 1:01</span>")


def test_a_shell_without_a_kernel_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """IPython on a terminal shows no HTML."""
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert not in_notebook()
