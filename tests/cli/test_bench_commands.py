"""Tests of `dpsql bench` as a command of the program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dpsql.bench.__main__ import main
from dpsql.cli.main import app, run


def test_both_ways_run_the_same_commands() -> None:
    """`dpsql bench` and `python -m dpsql.bench` have the very same commands."""
    assert app.commands["bench"].commands == main.commands  # type: ignore[attr-defined]
    assert set(main.commands) == {"accuracy", "peers", "counts", "engines", "growth", "noise", "matrix"}


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"], ["--version"]])
def test_other_commands_do_not_load_the_bench(words: list[str]) -> None:
    """Nor does the program's help, nor scikit-learn or matplotlib."""
    script = (
        "import sys; from dpsql.cli.main import run; code = run(sys.argv[1:]); "
        "late = [name for name in sys.modules if name.split('.')[0] in ('sklearn', 'matplotlib') "
        "or name.startswith('dpsql.bench')]; sys.exit(f'loaded: {late}' if late else code)"
    )
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_bench_runs_under_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its figures go to stdout."""
    assert run(["bench", "peers", "--peer-folder", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["installed"] is None


def test_errors_are_told_as_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A message and a next step on stderr, the exit code of wrong usage, nothing on stdout."""
    assert run(["bench", "accuracy", "--data", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "Error: none of the tables can be had.\nTry:   --data FOLDER" in said.err
