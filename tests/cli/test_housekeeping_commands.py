"""`dpsql models` and its subcommands, and options that are given once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli, kept


def test_models_are_tagged_and_listed_by_tag(cli: Cli) -> None:
    """The list shows tags once there are any, and --tag picks by them."""
    assert "tags" not in cli("models").out
    assert cli("models", "tag", "m", "stage=live", "good").out == 'Tags of "m": good, stage=live.\n'
    assert "good, stage=live" in cli("models").out
    assert [row["name"] for row in cli("models", "--tag", "stage=live", "--json").json] == ["m"]
    assert cli("models", "--tag", "stage=test", "--json").json == []
    assert cli("models", "tag", "m", "good", "--remove", "--json").json == {"model": "m", "tags": ["stage=live"]}


def test_a_model_is_renamed_and_dropped(cli: Cli) -> None:
    """Each act says what it did, and what a drop leaves."""
    assert cli("models", "rename", "m", "new").out == 'Model "m" is now called "new".\n'
    dropped = cli("models", "drop", "new")
    assert (dropped.code, dropped.out) == (0, 'Dropped model "new".\n')
    assert "stays charged" in dropped.err
    assert cli("models", "--json").json == []
    assert cli("ledger", "verify").code == 0


def test_what_reads_a_model_keeps_it_unless_forced(cli: Cli) -> None:
    """The view is named, and the next step."""
    cli("sql", "--model", "m", "--form", "view", "--table", "fresh", "--create")
    refused = cli("models", "drop", "m")
    assert refused.code == 2
    assert 'model "m" is read by view "m_scored"' in refused.err
    assert "--force drops the model" in refused.err
    assert cli("models", "drop", "m", "--force", "--json").json == {"model": "m", "dropped": True}


def test_the_database_may_be_named_before_the_subcommand(cli: Cli, path: Path) -> None:
    """As with the ledger's subcommands; other options stand behind it."""
    assert cli("models", "--db", str(path), "tag", "m", "x", db=None).code == 0
    assert cli("models", "--json", "--db", str(path), "tag", "m", "x", db=None).code == 2
    assert cli("models", db=None).code == 2


def test_a_model_that_is_not_there_changes_nothing(cli: Cli, path: Path) -> None:
    """The hint is a command that can be pasted."""
    before = kept(path)
    for words in (("drop", "n"), ("rename", "n", "k"), ("tag", "n", "k")):
        refused = cli("models", *words)
        assert (refused.code, "Try:   dpsql models --db" in refused.err) == (2, True)
    assert kept(path) == before


@pytest.mark.parametrize(
    "words",
    [
        ("train", "--table", "people", "--epsilon", "1", "--epsilon", "0.1"),
        ("predict", "--model", "m", "--table", "fresh", "--table", "keyed"),
        ("show", "--model=m", "--model=n"),
        ("ledger", "--table", "a", "--table", "b"),
        ("models", "--tag", "a", "--tag", "b"),
        ("models", "tag", "m", "x", "--as", "ann", "--as", "bob"),
        ("register", "--table", "t", "--cap", "1", "--cap", "2"),
    ],
)
def test_an_option_given_twice_is_refused(cli: Cli, path: Path, words: tuple[str, ...]) -> None:
    """Nobody can tell which one was meant; nothing is charged or changed."""
    before = kept(path)
    refused = cli(*words)
    assert refused.code == 2
    assert "is given 2 times and takes one value" in refused.err
    assert kept(path) == before


def test_an_option_that_repeats_is_still_taken_each_time(cli: Cli) -> None:
    """--tables of init, --word of explain, classes of register: what is meant to repeat does."""
    flags = ("--numeric", "x:0:10", "--numeric", "z:0:1", "--class", "no", "--class", "yes", "--label", "y")
    ran = cli("register", "--table", "fresh", "--cap", "1", *flags, "--dry-run")
    assert "takes one value" not in ran.err
