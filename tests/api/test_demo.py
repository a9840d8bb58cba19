"""`dpsql demo`: the whole path on synthetic data, with no data and no network."""

from __future__ import annotations

import contextlib
import io
import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dpsql.api.database import connect
from dpsql.cli.main import run_command_line


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder the demo runs in."""
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def shown(folder: Path) -> tuple[str, str]:
    """Run the demo once, where no socket can be opened, and give what it printed on stdout and stderr."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the demo opened a socket")

    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.chdir(folder)
        patch.setattr(socket, "socket", refuse)
        assert run_command_line(["demo", "--rows", "20000"]) == 0
    return out.getvalue(), err.getvalue()


def test_the_demo_prints_results_and_the_next_commands(shown: tuple[str, str]) -> None:
    """Evaluation, predictions and ledger are results; what to run next is a note."""
    out, err = shown
    for word in (
        "accuracy",
        "Predictions",
        "Ledger",
        "released",
        'Left of "census": 2 of 3.',
        'Left of "census:holdout": 2.9 of 3.',
        "On the hold-out: accuracy",
    ):
        assert word in out
    assert err.startswith("Next:\n  dpsql ")


def test_the_process_ends_without_a_word_more(tmp_path: Path) -> None:
    """Behind the next commands nothing follows on stderr: no driver misses an object when the interpreter ends."""
    root = str(Path(__file__).resolve().parents[2])
    program = f"import sys; sys.path.insert(0, {root!r}); from dpsql.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", program, "demo", "--rows", "1000", "--db", "tiny.duckdb"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=True)
    assert [line.split()[0] for line in done.stderr.splitlines()] == ["Next:", "dpsql", "dpsql", "dpsql"]


def test_the_next_commands_work(shown: tuple[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command that the demo prints can be run as it stands."""
    monkeypatch.chdir(folder)
    commands = re.findall(r"^  dpsql (.+)$", shown[1], re.MULTILINE)
    assert len(commands) == 3
    assert [run_command_line(command.split()) for command in commands] == [0, 0, 0]


@pytest.mark.usefixtures("shown")
def test_the_demos_ledger_is_sound(folder: Path) -> None:
    """The file passes `ledger verify`, and 1 of 3 is spent."""
    assert run_command_line(["ledger", "verify", "--db", str(folder / "demo.duckdb")]) == 0
    with connect(folder / "demo.duckdb") as opened:
        assert (opened.budget("census").spent_text, opened.budget("census").cap_text) == ("1", "3")


@pytest.mark.usefixtures("shown")
def test_the_demos_model_beats_the_largest_class(folder: Path) -> None:
    """On the hold-out it is right more often than one who always says the largest class."""
    with connect(folder / "demo.duckdb") as opened:
        measured = opened.evaluate("census_forest", "census_holdout")
    assert measured.accuracy > measured.majority


def test_the_demo_refuses_a_file_that_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An existing file stays as it is."""
    monkeypatch.chdir(tmp_path)
    Path("demo.duckdb").write_text("mine")
    assert run_command_line(["demo"]) == 2
    assert "a new file; this one exists" in capsys.readouterr().err
    assert Path("demo.duckdb").read_text() == "mine"


@pytest.mark.parametrize(("words", "code"), [(("--rows", "10"), 2), (("--rows", "1000"), 4)])
def test_the_demo_refuses_what_it_cannot_do(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    code: int,
) -> None:
    """Too few rows and a missing folder have their exit code, and no file is made."""
    monkeypatch.chdir(tmp_path)
    assert run_command_line(["demo", "--db", str(tmp_path / "none" / "demo.duckdb"), *words]) == code
    assert "Error: " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_demo_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` gives file, model, figures and budget as one value."""
    assert run_command_line(["demo", "--db", str(tmp_path / "small.duckdb"), "--rows", "1000", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["model"], found["spent"], found["left"]) == ("census_forest", 1, 2)
