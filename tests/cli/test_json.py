"""--json: one value on stdout, of every command; amounts are numbers, what is empty is null, errors are values too."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest

from dpsql.cli.printing.json_values import AMOUNTS
from tests.cli.conftest import Cli
from tests.cli.test_help import COMMANDS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "json.md"
FLAGS = ("--label", "y", "--class", "no", "--class", "yes", "--numeric", "x:0:64", "--categorical", "c:u,v")
SCHEMA = "label: y\nclasses: ['no', 'yes']\nfeatures:\n  x: {type: numeric, lower: 0, upper: 64}\n"
SHARE = ("party", "export-structure", "--table", "people", "--depth", "2", "--to", "s.json")
#: Command -> what to run first, and its own words. The files that are read are written by the commands before.
RUNS: dict[str, list[tuple[str, ...]]] = {
    "dpsql init": [("init",)],
    "dpsql doctor": [("doctor",)],
    "dpsql register": [("register", "--table", "fresh", "--cap", "2", *FLAGS)],
    "dpsql schema draft": [("schema", "draft", "--table", "fresh")],
    "dpsql budget": [("budget",)],
    "dpsql add-ids": [("add-ids", "--table", "keyed", "--column", "own_id")],
    "dpsql advise": [("advise", "--table", "people", "--rows", "1000")],
    "dpsql train": [("train", "--table", "people", "--epsilon", "0.5", "--method", "rdt", "--trees", "2")],
    "dpsql methods": [("methods",)],
    "dpsql completion": [("completion", "bash")],
    "dpsql explain": [("explain", "--model", "m")],
    "dpsql update": [("update", "--model", "m", "--batch", "new")],
    "dpsql party export-structure": [
        ("party", "export-structure", "--table", "people", "--depth", "2", "--to", "s.json")
    ],
    "dpsql party contribute": [
        ("party", "export-structure", "--table", "people", "--depth", "2", "--to", "s.json"),
        ("party", "contribute", "--table", "people", "--structure", "s.json", "--to", "c.json"),
    ],
    "dpsql party merge": [("party", "merge", "--from", "none.json", "--to", "m.json")],
    "dpsql party unite": [("party", "unite", "--from", "none.json", "--to", "m.json")],
    "dpsql models": [("models",)],
    "dpsql models tag": [("models", "tag", "m", "live")],
    "dpsql models rename": [("models", "rename", "m", "n")],
    "dpsql models drop": [("models", "drop", "m")],
    "dpsql show": [("show", "--model", "m")],
    "dpsql structure": [("structure", "--table", "people", "--to", "trees.json", "--trees", "2", "--depth", "1")],
    "dpsql predict": [("predict", "--model", "m", "--table", "keyed")],
    "dpsql evaluate": [("evaluate", "--model", "m", "--table", "fresh")],
    "dpsql compare": [
        ("train", "--table", "people", "--name", "n", "--method", "rdt", "--trees", "2"),
        ("compare", "--model", "m", "--model", "n", "--table", "fresh"),
    ],
    "dpsql sql": [("sql", "--model", "m")],
    "dpsql export": [("export", "--model", "m", "--to", "m.json")],
    "dpsql import": [("export", "--model", "m", "--to", "m.json"), ("import", "--from", "m.json", "--name", "again")],
    "dpsql ledger": [("ledger",)],
    "dpsql ledger verify": [("ledger", "verify")],
    "dpsql ledger accept": [("ledger", "accept")],
    "dpsql shell": [("shell", "-c", "SELECT 1 AS one")],
    "dpsql demo": [("demo", "--rows", "1000")],
}
#: Commands that fail on this database, and so print an error: there are no roles, no batches, no files of parties.
FAIL = ("dpsql init", "dpsql update", "dpsql party merge", "dpsql party unite")
#: Commands that name no database with --db.
WITHOUT_DATABASE = ("dpsql party merge", "dpsql party unite", "dpsql methods", "dpsql completion")
#: Keys below which documents and things that users named stand.
DOCUMENTS = ("schema", "feature", "parameters", "rows", "drawn")


def _wrong(value: Any, place: str = "") -> list[str]:
    """Return each place where an amount is text, or an empty text stands for nothing."""
    if isinstance(value, dict):
        places = [f"{place}.{key} is empty" for key, inner in value.items() if inner == ""]
        places += [
            f"{place}.{key} is text" for key, inner in value.items() if key in AMOUNTS and isinstance(inner, str)
        ]
        parts = [(key, inner) for key, inner in value.items() if key not in DOCUMENTS]
        return places + [wrong for key, inner in parts for wrong in _wrong(inner, f"{place}.{key}")]
    if isinstance(value, list):
        return [wrong for number, inner in enumerate(value) for wrong in _wrong(inner, f"{place}[{number}]")]
    return [f"{place} is {value}"] if value == "no cap" else []


def _printing() -> list[str]:
    """Return every command that has --json."""
    return [name for name, made in COMMANDS.items() if any("--json" in option.opts for option in made.params)]


def test_every_command_is_tried() -> None:
    """A new command with --json finds its place in this file, and on the page."""
    groups = [name for name, made in COMMANDS.items() if isinstance(made, click.Group)]
    assert set(COMMANDS) - set(_printing()) <= {*groups, "dpsql completion"}  # that one prints a script of a shell
    page = PAGE.read_text(encoding="utf-8")
    for name in _printing():
        assert name in RUNS, f"{name} is not tried with --json"
        assert f"| `{name}` |" in page, f"docs/reference/json.md does not say what {name} prints"


@pytest.mark.parametrize("name", RUNS)
def test_a_command_prints_one_value_with_numbers_and_nulls(cli: Cli, name: str) -> None:
    """Stdout is one JSON value, whether the command works or fails; amounts are numbers."""
    db: dict[str, Any] = {"db": None} if name in WITHOUT_DATABASE else {}
    if name == "dpsql demo":
        db = {"db": "new.duckdb"}
    *before, words = RUNS[name]
    for earlier in before:
        assert cli(*earlier).code == 0
    ran = cli(*words, "--json", **db)
    assert ran.code == (0 if name not in FAIL else ran.json["code"]), ran.out + ran.err
    value = ran.json
    if name == "dpsql show":  # the certificate is a document, with exact texts
        assert value.pop("certificate")["epsilon"] == "1"
    assert _wrong(value) == []
    assert set(value) == {"error", "try", "code", "kind"} if name in FAIL else "error" not in value


@pytest.mark.parametrize("name", _printing())
def test_a_command_line_that_cannot_be_read_is_an_error_value(cli: Cli, name: str) -> None:
    """What click refuses has the same form, and stderr is empty."""
    ran = cli(*name.split()[1:], "--json", "--no-such-option", db=None)
    assert (ran.code, ran.json["code"], ran.err) == (2, 2, "")
    assert "no-such-option" in ran.json["error"]
    assert ran.json["try"].startswith("dpsql")


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        (("train", "--table", "people", "--epsilon", "12"), 3, "BudgetExceeded"),
        (("train", "--table", "nobody"), 2, "UnknownName"),
        (("budget", "--db", "absent.duckdb"), 4, "DatabaseError"),
        (("predict", "--model", "m", "--table", "people"), 3, "BudgetError"),
    ],
)
def test_an_error_is_a_value_with_its_exit_code(cli: Cli, words: tuple[str, ...], code: int, kind: str) -> None:
    """The message, the next step with the user's own database, the code and the kind; nothing else on either side."""
    ran = cli(*words, "--json", db=None if "--db" in words else "data.duckdb")
    assert (ran.code, ran.json["code"], ran.json["kind"]) == (code, code, kind)
    assert "\n" not in ran.json["error"]
    assert not re.search("^Error", ran.err, re.MULTILINE)


def test_a_value_that_says_what_is_wrong_is_not_followed_by_another(cli: Cli) -> None:
    """A plan that does not fit says so itself: the error is then on stderr, and the exit code is as ever."""
    ran = cli("train", "--table", "people", "--epsilon", "12", "--method", "rdt", "--dry-run", "--json")
    assert (ran.code, ran.json["fits"]) == (3, False)
    assert ran.err.startswith("Error: the run needs epsilon 12")


def test_names_and_rows_of_users_are_left_as_they_are(cli: Cli, path: Path) -> None:
    """A column called "cap" with the text "10" is the user's own."""
    Path("new.csv").write_text("x,c,cap,left\n1,u,10,\n")
    assert cli("predict", "--model", "m", "--file", "new.csv", "--json").json[0]["cap"] in (10, "10")
    assert "cap_exact" not in cli("predict", "--model", "m", "--file", "new.csv", "--json").out
    shown = cli("shell", "-c", "SELECT '10' AS cap", "--json").json
    assert shown == [{"columns": ["cap"], "rows": [["10"]]}]


def test_what_training_prints_is_short(cli: Cli) -> None:
    """The certificate without the plan; all of it is what show prints."""
    ran = cli("train", "--table", "people", "--method", "rdt", "--trees", "2", "--json")
    assert len(ran.out.splitlines()) < 60
    assert ran.json["certificate"]["ledger_entry"] > 0
    whole = cli("show", "--model", ran.json["model"], "--json").json["certificate"]
    assert whole["plan"]["steps"]
    assert json.dumps(whole["epsilon"]) == '"1"'


def test_ctrl_c_is_an_error_value(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads stdout finds one value there, however a command ends."""

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dpsql.api.database.Database.models", stop)
    ran = cli("models", "--json")
    assert (ran.code, ran.json["code"], ran.json["error"]) == (130, 130, "Stopped. Nothing was charged.")
