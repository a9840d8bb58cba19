"""Plots: a reliability diagram shows what the table says; without matplotlib there is a clear error."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpsql.errors import ParameterError, UsageError
from dpsql.models.evaluate import Evaluation
from dpsql.models.plot import check_plot, reliability_plot


def evaluation(classes: int = 2, **columns: Any) -> Evaluation:
    """Return an evaluation with a small reliability table."""
    names = ["no", "yes", "maybe"][:classes]
    table = pd.DataFrame({"predicted": [0.2, 0.7], "observed": [0.3, 0.6], "rows": [10, 90], **columns})
    confusion = pd.DataFrame(np.ones((classes, classes), int), index=names, columns=names)
    return Evaluation("m", "t", 100, 0.8, 0.6, confusion, reliability=table)


def drawn(path: Path) -> str:
    """Return an SVG picture as text."""
    return path.read_text(encoding="utf-8")


def test_a_picture_says_whose_probability_it_shows(tmp_path: Path) -> None:
    """Of two classes it is the second, of more the predicted one."""
    reliability_plot(evaluation(2), tmp_path / "two.svg")
    reliability_plot(evaluation(3), tmp_path / "three.svg")
    assert 'predicted probability of "yes"' in drawn(tmp_path / "two.svg")
    assert "predicted probability of the predicted class" in drawn(tmp_path / "three.svg")


def test_intervals_are_bars(tmp_path: Path) -> None:
    """On private rows each point has a bar: the picture has more in it."""
    reliability_plot(evaluation(), tmp_path / "free.svg")
    reliability_plot(evaluation(low=[0.1, 0.5], high=[0.5, 0.7]), tmp_path / "noisy.svg")
    assert "LineCollection" in drawn(tmp_path / "noisy.svg")
    assert "LineCollection" not in drawn(tmp_path / "free.svg")


def test_no_rows_draw_an_empty_picture(tmp_path: Path) -> None:
    """An evaluation without rows is no error."""
    found = evaluation()
    empty = Evaluation("m", "t", 0, 0.0, 0.0, found.confusion, reliability=found.reliability[:0])
    reliability_plot(empty, tmp_path / "empty.png")
    assert (tmp_path / "empty.png").stat().st_size > 1000


def test_bad_paths_are_refused(tmp_path: Path) -> None:
    """Another kind of file, one that exists and one in no folder are refused with what is allowed."""
    (tmp_path / "there.png").write_text("mine")
    for path in (tmp_path / "a.jpeg", tmp_path / "there.png", tmp_path / "nowhere" / "a.png"):
        with pytest.raises(ParameterError):
            check_plot(path)
    assert (tmp_path / "there.png").read_text() == "mine"


def test_without_matplotlib_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is named."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError) as caught:
        check_plot(tmp_path / "a.png")
    assert "dpsql[plots]" in str(caught.value.hint)
