"""What all commands share: help, JSON, no colours, results on stdout, exit codes, no traceback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from dpsql.api.database import Database
from dpsql.cli.main import app, run_command_line
from dpsql.errors import DatabaseError

from .conftest import Cli

SCRIPT = Path(sys.executable).with_name("dpsql")
SMALL = ("--trees", "1", "--depth", "1")
FLAGS = ("--label", "y", "--class", "no", "--class", "yes", "--numeric", "x:0:64")
JSON_FORMS = [
    ("register", "--table", "fresh", "--cap", "1", *FLAGS),
    ("register", "--table", "fresh", "--cap", "1", *FLAGS, "--dry-run"),
    ("schema", "draft", "--table", "people"),
    ("schema", "draft", "--table", "people", "--to", "people.yml"),
    ("budget",),
    ("budget", "--table", "people", "--set-cap", "4"),
    ("add-ids", "--table", "fresh"),
    ("advise", "--table", "people"),
    ("advise", "--table", "people", "--buy", "0.1"),
    ("advise", "--table", "people", "--tune", "rdt", "--rows", "500"),
    ("advise", "--table", "people", "--buy", "0.1", "--dry-run"),
    ("train", "--table", "people", *SMALL),
    ("train", "--table", "people", "--dry-run"),
    ("train", "--table", "people", "--sql"),
    ("explain", "--table", "people"),
    ("explain", "--model", "m"),
    ("explain", "--model", "m", "--plot", "m.png"),
    ("models",),
    ("structure", "--table", "people", "--to", "trees.json"),
    ("show", "--model", "m"),
    ("predict", "--model", "m", "--table", "fresh"),
    ("predict", "--model", "m", "--table", "fresh", "--into", "scored"),
    ("predict", "--model", "m", "--table", "fresh", "--to", "labels.csv"),
    ("predict", "--model", "m", "--table", "fresh", "--proba"),
    ("predict", "--model", "m", "--table", "fresh", "--top", "2"),
    ("evaluate", "--model", "m", "--table", "fresh"),
    ("evaluate", "--model", "m", "--table", "people", "--epsilon", "1"),
    ("evaluate", "--model", "m", "--table", "people", "--epsilon", "1", "--dry-run"),
    ("sql", "--model", "m"),
    ("export", "--model", "m", "--to", "m.json"),
    ("doctor",),
    ("export", "--model", "m", "--dialect", "trino"),
    ("export", "--model", "m", "--dialect", "trino", "--to", "m.sql"),
    ("export", "--model", "m", "--onnx", "m.onnx"),
    ("ledger",),
    ("ledger", "verify"),
    ("ledger", "accept"),
    ("shell", "-c", "FROM dpsql_budget('people')", "-c", "SELECT x FROM fresh"),
]


def commands(group: click.Group = app, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield every command of the program by its words."""
    yield path
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


@pytest.mark.parametrize("words", JSON_FORMS, ids=lambda words: " ".join(words[:3]))
def test_json_is_one_value_and_nothing_else(cli: Cli, words: tuple[str, ...]) -> None:
    """With --json, stdout is one JSON value."""
    if "--onnx" in words:
        pytest.importorskip("onnx")
    ran = cli(*words, "--json")
    assert ran.code == 0, ran.err
    assert isinstance(ran.json, dict | list)


def test_import_as_json(cli: Cli) -> None:
    """`import --json` names the stored model."""
    cli("export", "--model", "m", "--to", "m.json")
    assert cli("import", "--from", "m.json", "--name", "n", "--json").json == {"model": "n"}


def test_json_has_no_characters_that_steer_a_terminal(cli: Cli) -> None:
    """Control and direction characters in a value are escaped, and come back when read."""
    name = "a\x1b[31m\u202eb\x9b\u200d"
    ran = cli("train", "--table", "people", "--name", name, "--json", *SMALL)
    assert ran.json["model"] == name
    assert not re.search("[\x1b\u202e\x9b\u200d]", ran.out)


def test_text_has_no_characters_that_steer_a_terminal(cli: Cli) -> None:
    """In tables, results and messages they are replaced."""
    cli("train", "--table", "people", "--name", "a\x1b[31mb", *SMALL)
    ran, failed = cli("models"), cli("show", "--model", "c\x1b[31m\udcff")
    assert "a�[31mb" in ran.out
    assert 'there is no model "c�[31m�"' in failed.err


def test_infinities_do_not_break_json(cli: Cli, path: Path) -> None:
    """A key that is infinite is text in JSON, for JSON has no infinity."""
    cli("shell", "-c", "CREATE TABLE odd AS SELECT x, c, x AS k FROM fresh WHERE isinf(x)")
    assert [row["k"] for row in cli("predict", "--model", "m", "--table", "odd", "--json").json] == ["inf"]


@pytest.mark.parametrize("words", list(commands()), ids=lambda words: " ".join(words) or "dpsql")
def test_help_is_a_sentence_an_example_and_options(cli: Cli, words: tuple[str, ...]) -> None:
    """Help has one sentence, an example that calls the command, then the options, each with a help text."""
    ran = cli(*words, "--help", db=None)
    assert ran.code == 0
    usage, sentence, example, *rest = ran.out.split("\n\n")
    assert usage.startswith("Usage: dpsql")
    assert re.fullmatch(r"[A-Z][^.]*(\.[a-z][^.]*)*\.", " ".join(sentence.split()))
    assert re.match(r'  Example:\n    (eval "\$\()?dpsql ', example)
    assert " ".join(words) in example
    assert any(part.startswith("Options:") for part in rest)
    command: click.Command = app
    for word in words:
        assert isinstance(command, click.Group)
        command = command.commands[word]
    assert all(option.help for option in command.params if isinstance(option, click.Option))


def test_no_colours_where_no_terminal_is(cli: Cli) -> None:
    """Tables and errors into a pipe hold no escape sequence."""
    for words in (("models",), ("ledger",), ("budget",), ("show", "--model", "nope")):
        ran = cli(*words)
        assert "\x1b" not in ran.out + ran.err


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_no_colours_on_a_terminal_with_no_color(path: Path) -> None:
    """On a terminal NO_COLOR keeps the output free of colour codes."""
    import pty

    main, end = pty.openpty()
    environment = os.environ | {"NO_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": "100"}
    subprocess.run([SCRIPT, "models", "--db", path], stdout=end, stderr=end, stdin=end, env=environment, check=True)
    os.close(end)
    shown = b""
    try:
        while part := os.read(main, 65536):
            shown += part
    except OSError:  # Linux says so at the end
        pass
    os.close(main)
    assert b"rosnam" in shown
    assert not re.search(rb"\x1b\[[0-9;]*(3[0-9]|4[0-9]|9[0-9])[0-9;]*m", shown)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("models",), 0),
        (("shell", "-c", "SELECT CAST('x' AS INTEGER)"), 1),
        (("show", "--model", "nope"), 2),
        (("train", "--table", "people", "--epsilon", "19"), 3),
        (("models", "--db", "missing.duckdb"), 4),
    ],
    ids=["done", "failed", "usage", "budget", "database"],
)
def test_exit_codes_of_the_program_itself(path: Path, words: tuple[str, ...], code: int) -> None:
    """The installed command ends with each of the five codes; a failure is one message on stderr, no traceback."""
    where = () if "--db" in words else ("--db", str(path))
    ran = subprocess.run([SCRIPT, *words, *where], capture_output=True, text=True, timeout=60)
    assert ran.returncode == code
    assert "Traceback" not in ran.stderr
    assert ran.stderr.startswith("Error: ") is (code != 0)


@pytest.mark.parametrize("words", [(), ("nope",), ("train",), ("train", "--nope"), ("predict", "--model")])
def test_wrong_words_are_usage(cli: Cli, words: tuple[str, ...]) -> None:
    """A missing or unknown command or option exits with 2 and leaves stdout empty."""
    ran = cli(*words, db=None)
    assert (ran.code, ran.out) == (2, "")
    assert "Usage: dpsql" in ran.err or ran.err.startswith("Error: ")


def broken(*_: object, **__: object) -> None:
    """Fail as a bug would, with a private value in the text."""
    raise RuntimeError("SECRET CELL")


def test_an_internal_error_shows_neither_text_nor_traceback(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --debug the hook that Python calls last prints one sentence, and not even the class of the error."""
    monkeypatch.setattr(Database, "models", broken)
    with pytest.raises(RuntimeError) as caught:
        cli("models")
    sys.excepthook(caught.type, caught.value, caught.tb)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "something unexpected failed." in shown.err
    assert "RuntimeError" not in shown.err
    assert "SECRET" not in shown.err
    assert "Traceback" not in shown.err


def test_debug_shows_the_traceback(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --debug the hook stays Python's own."""
    monkeypatch.setattr(Database, "models", broken)
    before = sys.excepthook
    with pytest.raises(RuntimeError):
        cli("--debug", "models")
    assert sys.excepthook is before


def test_known_errors_have_no_traceback_even_with_debug(cli: Cli) -> None:
    """A message is enough where the reason is known."""
    ran = cli("--debug", "show", "--model", "nope")
    assert ran.code == 2
    assert "Traceback" not in ran.err


def test_a_reader_that_leaves_is_no_bug(path: Path) -> None:
    """`dpsql ledger | head -0` says nothing of bugs."""
    ran = subprocess.Popen([SCRIPT, "ledger", "--json", "--db", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert ran.stdout is not None
    assert ran.stderr is not None
    ran.stdout.close()
    assert ran.stderr.read() == b""
    ran.stderr.close()
    assert ran.wait(timeout=60) in (0, 1)


def test_stopping_is_said_in_a_word(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C prints "Stopped." and what was charged, and exits with 130, as a shell does for this signal."""

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Database, "models", stop)
    ran = cli("models")
    assert (ran.code, ran.out, ran.err) == (130, "", "\nStopped. Nothing was charged.\n")


def test_the_version_is_a_result(capsys: pytest.CaptureFixture[str]) -> None:
    """`dpsql --version` prints one line."""
    assert run_command_line(["--version"]) == 0
    assert re.fullmatch(r"dpsql, version \d+\.\d+\.\d+\n", capsys.readouterr().out)


def test_the_file_may_come_from_the_environment(cli: Cli, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DPSQL_DB stands in for --db."""
    monkeypatch.setenv("DPSQL_DB", str(path))
    assert [row["name"] for row in cli("models", "--json", db=None).json] == ["m"]
    assert cli("ledger", db=None).code == 0


def test_errors_carry_their_code(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is the error's own, and its hint is the Try line."""

    def fail(*_: object, **__: object) -> None:
        raise DatabaseError("it is gone.", hint="look for it")

    monkeypatch.setattr(Database, "models", fail)
    ran = cli("models")
    assert (ran.code, ran.err) == (4, "Error: it is gone.\nTry:   look for it\n")
