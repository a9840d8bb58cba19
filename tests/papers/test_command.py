"""Tests of `python -m examples.papers`: its commands, its errors, several processes."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.papers.frame import EXPERIMENTS, main

Finished = Callable[[str], Path]


def test_list_names_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    """One line for each experiment, with its paper and its place there."""
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(EXPERIMENTS)
    assert all(one.place in line for one, line in zip(EXPERIMENTS.values(), lines, strict=True))


def test_two_processes_do_the_same_work(data: Path, tmp_path: Path) -> None:
    """`--jobs 2` runs every cell once, from a command line of its own."""
    words = ["run", "rosnam-listed", "--short", "--jobs", "2", "--data", str(data), "--results", str(tmp_path)]
    told = subprocess.run([sys.executable, "-m", "examples.papers", *words], capture_output=True, text=True, check=True)
    assert "rosnam-listed: 4 cells run" in told.stdout
    assert len((tmp_path / "rosnam-listed-short.csv").read_text(encoding="utf-8").splitlines()) == 5


def test_unknown_name_offers_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that is not known is refused with one that is."""
    assert main(["show", "rdt-update"]) == 2
    assert '"rdt-updates"' in capsys.readouterr().err


def test_a_paper_names_all_its_experiments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A paper's file name stands for all of its experiments."""
    assert main(["show", "fletcher_islam_2015", "--results", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert all(f"{name}: not run yet" in told for name in EXPERIMENTS if name.startswith("snr"))


def test_missing_table_is_skipped_by_name(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A table that is not in the data folder is named, and the others run."""
    assert main(["run", "rosnam-listed", "--splits", "1", "--data", str(data), "--results", str(tmp_path)]) == 0
    assert "rosnam-listed: pendigits is skipped, it is not in" in capsys.readouterr().err
    assert "wall_robot" in (tmp_path / "rosnam-listed.csv").read_text(encoding="utf-8")


def test_missing_matplotlib_names_the_way_to_install_it(
    finished: Finished, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without matplotlib `plot` fails with the command that installs it."""
    folder = finished("rosnam-listed").parent
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else found(name))
    assert main(["plot", "rosnam-listed", "--short", "--results", str(folder)]) == 2
    assert "pip install 'dpsql[plots]'" in capsys.readouterr().err


def test_nothing_to_show_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without any results the next step is named."""
    assert main(["plot", "all", "--results", str(tmp_path)]) == 2
    assert "python -m examples.papers run" in capsys.readouterr().err
