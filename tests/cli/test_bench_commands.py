"""Tests of `dpsql bench` as a command of the program."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from dpsql.bench.__main__ import run_bench
from dpsql.cli.main import app, run_command_line


def test_both_ways_run_the_same_commands() -> None:
    """`dpsql bench` and `python -m dpsql.bench` have the very same commands."""
    assert app.commands["bench"].commands == run_bench.commands  # type: ignore[attr-defined]
    assert set(run_bench.commands) == {
        "accuracy", "counts", "engines", "forms", "growth", "noise", "scoring", "start",
    }  # fmt: skip


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"], ["--version"]])
def test_other_commands_do_not_load_the_bench(words: list[str]) -> None:
    """Nor does the program's help, nor scikit-learn or matplotlib."""
    script = (
        "import sys; from dpsql.cli.main import run_command_line; code = run_command_line(sys.argv[1:]); "
        "late = [name for name in sys.modules if name.split('.')[0] in ('sklearn', 'matplotlib') "
        "or name.startswith('dpsql.bench')]; sys.exit(f'loaded: {late}' if late else code)"
    )
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_bench_runs_under_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    """Its figures go to stdout."""
    assert run_command_line(["bench", "noise", "--draws", "100", "--repeat", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["draws"] == 100


def test_errors_are_told_as_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    """A message on stderr, the exit code of wrong usage, nothing on stdout."""
    assert run_command_line(["bench", "accuracy", "--sets", "corner"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert 'Error: there is no table "corner". Did you mean "corners"' in said.err
