"""`examples/regression.py` prints a line for each set, method and epsilon, and skips by name what is not there."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

PROGRAM = Path(__file__).resolve().parent.parent / "examples" / "regression.py"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import the program, with a small synthetic table."""
    spec = importlib.util.spec_from_file_location("regression_example", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "CENSUS_ROWS", 300)
    return module


def test_the_program_prints_a_line_for_each_epsilon(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Two epsilons give two lines with an RMSE each; a set that is not in the folder is skipped and named."""
    sets = "census.hours_per_week,adult.age"
    given = ["--data", str(tmp_path), "--epsilons", "1,50", "--splits", "2", "--sets", sets, "--param", "depth=2"]
    monkeypatch.setattr(sys, "argv", ["regression.py", *given, "--no-forest"])
    example.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    figures = [float(line[40:49]) for line in lines[1:3]]
    assert all(5 < figure < 30 for figure in figures)
    assert lines[3].startswith("adult.age")
    assert "skipped" in lines[3]


def test_the_forest_is_measured_on_the_same_split(example: ModuleType, tmp_path: Path) -> None:
    """The non-private forest is better than the mean on the synthetic table."""
    pytest.importorskip("sklearn")
    one = example.load(tmp_path, "census.hours_per_week")
    _, test = one.split(0)
    assert example.forest_error(one, 0) < test["hours_per_week"].std()
