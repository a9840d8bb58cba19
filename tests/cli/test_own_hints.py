"""Next steps that can be pasted: they carry the user's own database and names, quoted for a shell."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from dpsql.api.database import connect
from dpsql.cli.main import run_command_line
from dpsql.cli.own_hints import complete_hint
from dpsql.errors import NoRowsCounted
from tests import tables
from tests.cli.conftest import Cli

ODD = "it's a table; rm"


def words_after(text: str, start: str) -> list[str]:
    """Return the words of the command that follows `start`, as a shell splits them."""
    line = next(line for line in text.splitlines() if line.startswith(start))
    return shlex.split(line.removeprefix(start).strip())


def test_the_next_step_of_an_error_names_the_database(cli: Cli, path: Path) -> None:
    """A table without a budget: the command that registers it has --db and the table."""
    ran = cli("train", "--table", "fresh")
    assert ran.code == 3
    words = words_after(ran.err, "Try:")
    assert words[:6] == ["dpsql", "register", "--db", str(path), "--table", "fresh"]


def test_the_next_step_can_be_pasted(cli: Cli, path: Path) -> None:
    """A run beyond the cap: the command shown is run as it stands, and ends well."""
    ran = cli("train", "--table", "people", "--epsilon", "50")
    assert ran.code == 3
    words = words_after(ran.err, "Try:")
    assert words[:2] == ["dpsql", "ledger"]
    assert run_command_line(words[1:]) == 0


def test_registering_ends_with_a_next_step_that_can_be_pasted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With names that a shell would take apart, in file and table."""
    path = tmp_path / "my data.duckdb"
    with connect(path, create=True) as db:
        tables.fill(db.engine, ODD, tables.some_rows())
    features = ["--numeric", "x:0:64", "--categorical", "c:a,b", "--label", "y", "--class", "no", "--class", "yes"]
    assert run_command_line(["register", "--db", str(path), "--table", ODD, "--cap", "3", *features]) == 0
    words = words_after(capsys.readouterr().err, "Next:")
    assert words == ["dpsql", "train", "--db", str(path), "--table", ODD, "--dry-run"]
    assert run_command_line(words[1:]) == 0


def test_hints_without_commands_stay_as_they_are() -> None:
    """Words about dpsql are no commands, and a command that names its database keeps it."""
    for hint in ("check --db", "rename it", "take the [dpsql …] out of the comment", "dpsql demo"):
        assert complete_hint(hint, "--db x", {}) == hint
    assert complete_hint("dpsql ledger verify --db PATH …", "--db x", {}) == "dpsql ledger verify --db PATH …"
    assert complete_hint("dpsql ledger accept", "--db x", {}) == "dpsql ledger accept --db x"


def test_a_hint_has_no_password(cli: Cli) -> None:
    """The words that name a server again leave its password out."""
    ran = cli("budget", db="postgresql://ann:pa55word@127.0.0.1:1/none")
    assert ran.code == 4
    assert "pa55word" not in ran.out + ran.err


def test_a_model_is_quoted_in_the_next_step(cli: Cli, path: Path) -> None:
    """A name that a shell would take apart stays one word."""
    ran = cli("train", "--table", "people", "--name", ODD, "--method", "rosnam", "--trees", "2", "--depth", "2")
    assert ran.code == 0
    words = words_after(ran.err, "Next:")
    assert words == ["dpsql", "predict", "--db", str(path), "--model", ODD, "--table", "NEW_ROWS"]


def test_each_of_several_problems_has_a_next_step_that_can_be_pasted(cli: Cli, path: Path, tmp_path: Path) -> None:
    """Where hints differ they stand in the lines of the message, and name the database there."""
    file = tmp_path / "wrong.yml"
    file.write_text("label: y\nclases: [no, yes]\nfeatures:\n  x: {type: numeric, lower: ???, upper: 1}\n")
    ran = cli("register", "--table", "fresh", "--schema", str(file), "--cap", "1", "--dry-run")
    line = next(line for line in ran.err.splitlines() if 'has no "classes"' in line)
    words = shlex.split(line.partition(" Try: ")[2])
    assert words == ["dpsql", "schema", "draft", "--db", str(path), "--table", "fresh"]
    assert run_command_line(words[1:]) == 0


def test_the_next_step_after_a_run_on_no_rows_lacks_no_option(path: Path, tmp_path: Path) -> None:
    """Registering again needs a cap: with a file and a number in the places of FILE and EPSILON it ends well."""
    hint = NoRowsCounted("about no row", noisy_rows=1, deviation=47.1, table="people").hint
    completed = complete_hint(hint, f"--db {shlex.quote(str(path))}", {})
    file = tmp_path / "right.json"
    file.write_text(json.dumps(tables.SCHEMA.to_dict()))
    given = {"FILE": str(file), "EPSILON": "5"}
    words = shlex.split(str(completed).partition("(")[0])
    assert run_command_line([given.get(word, word) for word in words if word != "dpsql"]) == 0


def test_a_source_of_a_draft_without_a_purchase_leads_to_a_draft(cli: Cli, path: Path) -> None:
    """What `register` takes with --buy alone, `schema draft` takes; the command that is shown runs as it stands."""
    ran = cli("register", "--table", "fresh", "--label", "y", "--cap", "3", "--like", "sample.csv")
    assert ran.code == 2
    words = shlex.split(ran.err.partition("or dpsql")[2])
    assert words == ["schema", "draft", "--db", str(path), "--table", "fresh"]
    assert run_command_line(words) == 0
