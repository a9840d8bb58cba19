"""Tests of completion: which words a shell is offered, from which databases, and what that leaves untouched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from click.shell_completion import ShellComplete

from dpsql.api.database import connect
from dpsql.bench.start_up_commands import HERE
from dpsql.cli.main import app
from dpsql.methods import METHODS
from tests import tables

from .conftest import Cli, kept


def offered(*words: str) -> list[str]:
    """Return what is offered for the last word."""
    completer = ShellComplete(app, {}, "dpsql", "_DPSQL_COMPLETE")
    return [item.value for item in completer.get_completions(list(words[:-1]), words[-1])]


def test_commands_are_offered() -> None:
    """By their beginning; all of them where nothing is typed."""
    assert offered("ex") == ["explain", "export"]
    assert offered("") == list(app.listing)


def test_options_of_a_command_are_offered() -> None:
    """As click does for any command."""
    assert "--epsilon" in offered("train", "--e")


@pytest.mark.parametrize("words", [("train", "--method", "s"), ("methods", "s")])
def test_methods_are_offered(words: tuple[str, ...]) -> None:
    """Wherever a method is named, without a database."""
    assert offered(*words) == [name for name in METHODS if name.startswith("s")]


@pytest.mark.parametrize("command", ["show", "predict", "evaluate", "export", "sql", "explain"])
def test_models_are_offered(path: Path, command: str) -> None:
    """The names of stored models."""
    assert offered(command, "--db", str(path), "--model", "") == ["m"]
    assert offered(command, "--db", str(path), "--model", "x") == []


def test_tables_are_offered_by_what_a_command_does_with_them(path: Path) -> None:
    """Registered ones where a budget is needed, all of the database where any may be meant."""
    at = ("--db", str(path))
    for command in (("train",), ("budget",), ("ledger",), ("ledger", "accept"), ("advise",)):
        assert offered(*command, *at, "--table", "") == ["people"]
    for command in (("predict",), ("register",), ("schema", "draft")):
        assert offered(*command, *at, "--table", "") == ["people", "fresh", "keyed"]
    assert offered("predict", *at, "--table", "k") == ["keyed"]


def test_the_database_may_come_from_the_environment(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DPSQL_DB stands in for --db here too."""
    monkeypatch.setenv("DPSQL_DB", str(path))
    assert offered("show", "--model", "") == ["m"]
    assert offered("ledger", "--table", "p") == ["people"]


def test_a_completion_leaves_everything_as_it_was(path: Path) -> None:
    """The file, its receipt and its folder."""
    before, files = kept(path), sorted(path.parent.iterdir())
    assert offered("train", "--db", str(path), "--table", "")
    assert offered("show", "--db", str(path), "--model", "")
    assert (kept(path), sorted(path.parent.iterdir())) == (before, files)


def test_a_folder_of_files_is_asked_for_its_ledger_alone(tmp_path: Path) -> None:
    """Names are those of the ledger and of the files, even where rows cannot be read."""
    folder = tmp_path / "lake"
    folder.mkdir()
    duckdb.sql("SELECT 1 AS x").write_parquet(str(folder / "other.parquet"))
    rows = ", ".join(f"({x}, '{c}')" for x, c in [(1, "a"), (2, "b")] * 20)
    duckdb.sql(f"FROM (VALUES {rows}) AS t(x, c)").write_parquet(str(folder / "people.parquet"))
    schema = {"label": "c", "classes": ["a", "b"], "features": {"x": {"type": "numeric", "lower": 0, "upper": 9}}}
    with connect(folder) as db:
        db.register("people", schema, cap=3)
    (folder / "people.parquet").write_bytes(b"no longer Parquet")
    files = sorted(folder.iterdir())
    assert offered("train", "--db", str(folder), "--table", "") == ["people"]
    assert offered("train", "--db", str(folder / "other.parquet"), "--table", "") == ["people"]
    assert offered("predict", "--db", str(folder), "--table", "") == ["people", "other"]
    assert sorted(folder.iterdir()) == files


@pytest.mark.parametrize(
    "target", ["none.duckdb", "text.txt", "postgresql://nobody@localhost:1/none", "spark://local", "", "a\0b", "empty"]
)
def test_what_cannot_be_asked_has_no_names(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """No file, no database, a server, an empty folder: nothing is offered, said or made."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("no database")
    (tmp_path / "empty").mkdir()
    files = sorted(tmp_path.rglob("*"))
    assert offered("show", "--db", target, "--model", "") == []
    assert offered("predict", "--db", target, "--table", "") == []
    assert sorted(tmp_path.rglob("*")) == files
    assert tuple(capfd.readouterr()) == ("", "")


def test_a_database_that_another_process_writes_to_is_left_alone(path: Path) -> None:
    """It is locked: nothing is offered, at once."""
    script = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        assert offered("show", "--db", str(path), "--model", "") == []
    assert offered("show", "--db", str(path), "--model", "") == ["m"]


def test_a_name_that_needs_quotes_is_not_offered(path: Path) -> None:
    """No table's name can put more than a word onto a command line."""
    with connect(path) as db:
        tables.run(db.engine, 'CREATE TABLE "f; rm -rf ." AS SELECT 1 AS x', 'CREATE TABLE "$(f)" AS SELECT 1 AS x')
    assert offered("predict", "--db", str(path), "--table", "") == ["people", "fresh", "keyed"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(cli: Cli, shell: str) -> None:
    """It names the program, and the variable that the program looks for."""
    ran = cli("completion", shell, db=None)
    assert ran.code == 0
    assert f"_DPSQL_COMPLETE={shell}_complete" in ran.out
    assert "dpsql" in ran.out


def test_another_shell_is_refused(cli: Cli) -> None:
    """With those that there are."""
    ran = cli("completion", "csh", db=None)
    assert (ran.code, ran.out) == (2, "")
    assert "'bash', 'zsh', 'fish'" in ran.err


def test_bash_completes_by_the_script(path: Path) -> None:
    """The script as printed, run by bash as it does when <TAB> is pressed."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    program = path.parent / "dpsql"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m dpsql "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    typed = f"dpsql show --db {path} --model "
    script = (
        'eval "$(dpsql completion bash)"; complete -p dpsql; '
        f'COMP_WORDS=({typed} ""); COMP_CWORD=5; _dpsql_completion dpsql; echo "offered: ${{COMPREPLY[*]}}"'
    )
    surroundings = {**os.environ, "PATH": f"{path.parent}:{os.environ['PATH']}", "PYTHONPATH": str(HERE)}
    done = subprocess.run([bash, "-c", script], env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "complete -o nosort -F _dpsql_completion dpsql" in done.stdout
    assert done.stdout.endswith("offered: m\n")
