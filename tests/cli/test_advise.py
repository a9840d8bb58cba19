"""`dpsql advise`: free words and JSON, a bought size with its cost, schema files without a database, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.api.database import Database
from dpsql.cli.printing.json_values import plain_numbers
from dpsql.schema import schema_file
from tests import tables

from .conftest import MARKERS, Cli, kept

ADVISE = ("advise", "--table", "people")


@pytest.fixture
def schema(tmp_path: Path) -> str:
    """Write a schema file of a table that is nowhere."""
    file = tmp_path / "plan.yml"
    file.write_text(schema_file.dump(tables.SCHEMA), encoding="utf-8")
    return str(file)


def test_it_is_free(cli: Cli, path: Path) -> None:
    """The file and its receipt stay as they are, byte for byte, read-only or not."""
    before = kept(path)
    assert cli(*ADVISE, "--rows", "5000").code == 0
    assert cli(*ADVISE, "--read-only").code == 0
    assert kept(path) == before


def test_words_say_what_to_know(cli: Cli) -> None:
    """Method, noise, the smallest epsilon, what more would bring, the budget, the assumption."""
    ran = cli(*ADVISE, "--rows", "5000", "--epsilon", "0.5")
    assert "--details" in ran.err
    assert "Method: auto" not in ran.out
    out = cli(*ADVISE, "--rows", "5000", "--epsilon", "0.5", "--details").out
    assert out.startswith(ran.out)
    for words in ("Method: auto", "Noise: a leaf's count", "Smallest epsilon", "Twice the epsilon", "Twice the rows",
                  "9 left of 10; a run at epsilon 0.5 fits", "reference problem", "your own guess"):  # fmt: skip
        assert words in out


def test_not_worth_the_budget(cli: Cli) -> None:
    """It says so on a tiny table and not on a large one."""
    assert "Not worth the budget" in cli(*ADVISE, "--rows", "50", "--epsilon", "0.1").out
    assert "Not worth the budget" not in cli(*ADVISE, "--rows", "500000").out


def test_json_is_what_python_gives(cli: Cli, db: Database) -> None:
    """One value on stdout, equal to `to_dict`."""
    wanted = db.advise("people", rows=5000, epsilon="0.5", majority=0.5).to_dict()
    db.close()
    ran = cli(*ADVISE, "--rows", "5000", "--epsilon", "0.5", "--majority", "0.5", "--json")
    assert ran.json == plain_numbers(wanted)
    assert ran.err == ""


def test_a_size_can_be_bought(cli: Cli) -> None:
    """The charge is told and in the ledger; later advice takes the size for free."""
    ran = cli(*ADVISE, "--buy", "0.25")
    assert "bought, noisy: ± 5.66 for epsilon 0.25" in ran.out
    assert "Charged epsilon 0.25 for the size" in ran.err
    assert cli("ledger", "--json").json[-1]["method"] == "advise"
    again = cli(*ADVISE)
    assert again.out == ran.out
    assert "Charged" not in again.err


def test_a_dry_run_buys_nothing(cli: Cli, path: Path) -> None:
    """It shows the one step and what would be left; more than is left is exit code 3."""
    before = kept(path)
    shown = cli(*ADVISE, "--buy", "0.25", "--dry-run")
    assert (shown.code, "size" in shown.out, "After this run: 1.25 spent." in shown.out) == (0, True, True)
    assert cli(*ADVISE, "--buy", "20", "--dry-run").code == 3
    assert kept(path) == before


def test_a_schema_file_needs_no_database(cli: Cli, schema: str) -> None:
    """A file and a guess are enough; without a guess there is a list over sizes."""
    ran = cli("advise", "--schema", schema, "--rows", "5000", "--json", db=None)
    assert (ran.code, ran.json["table"], ran.json["budget"], ran.json["rows"]) == (0, None, None, 5000)
    listed = cli("advise", "--schema", schema, db=None).out
    assert "1000000" in listed
    assert "Budget" not in listed


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("advise",), "--table NAME, or --schema FILE"),
        ((*ADVISE, "--schema", "FILE"), "--table NAME, or --schema FILE"),
        (("advise", "--schema", "FILE", "--buy", "1"), "a schema file has no rows"),
        ((*ADVISE, "--dry-run"), "leave out --dry-run"),
        ((*ADVISE, "--entry", "x"), "--schema FILE --entry NAME"),
        ((*ADVISE, "--rows", "5", "--buy", "1"), "guessed or bought, not both"),
        ((*ADVISE, "--epsilon", "0"), "epsilon"),
        ((*ADVISE, "--rows", "-5"), "rows"),
        ((*ADVISE, "--majority", "1.5"), "majority"),
        (("advise", "--table", "poeple"), 'Did you mean "people"?'),
    ],
)
def test_wrong_words_are_refused(cli: Cli, schema: str, words: tuple[str, ...], says: str) -> None:
    """Wrong usage is exit code 2 (1 for an unknown table), with the next step."""
    ran = cli(*(schema if word == "FILE" else word for word in words))
    assert ran.code in (1, 2)
    assert says in ran.err
    assert ran.out == ""


def test_a_table_needs_a_database(cli: Cli) -> None:
    """Without --db it says so."""
    ran = cli(*ADVISE, db=None)
    assert (ran.code, "--db PATH" in ran.err) == (2, True)


def test_no_value_of_a_cell_is_shown(cli: Cli) -> None:
    """Neither advice nor a purchase prints anything that stands in the private table alone."""
    for words in ((), ("--buy", "5"), ("--json",)):
        ran = cli(*ADVISE, *words)
        assert not [marker for marker in MARKERS if marker in ran.out + ran.err]
