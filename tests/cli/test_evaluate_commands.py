"""`dpsql evaluate`: figures and plots of public rows for free, of private rows for an epsilon."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.api.database import connect

from .conftest import Cli, kept

PRIVATE = ("evaluate", "--model", "m", "--table", "people", "--epsilon", "2")


def test_public_figures_are_printed(cli: Cli) -> None:
    """Accuracy, then the confusion table, the other figures, and the reliability table."""
    out = cli("evaluate", "--model", "m", "--table", "fresh").out
    words = ("accuracy", "true class", "balanced accuracy", "AUC", "log loss", "Brier score", "F1 of maybe", "observed")
    places = [out.index(word) for word in words]
    assert places == sorted(places)
    assert "95 %" not in out


def test_private_figures_have_intervals_and_a_budget(cli: Cli, path: Path) -> None:
    """A charged evaluation shows intervals and what is left."""
    ran = cli(*PRIVATE)
    assert ran.code == 0, ran.err
    assert "95 % interval" in ran.out
    assert 'Charged epsilon 2. Budget of "people": 7 of 10 left.' in ran.out
    with connect(path) as opened:
        assert opened.budget("people").spent_text == "3"


def test_private_figures_as_json(cli: Cli) -> None:
    """`--json` has the figures, their intervals, the cost and the budget; asked again under its id, the same."""
    first = cli(*PRIVATE, "--request-id", "r1", "--json").json
    assert {"intervals", "epsilon", "ledger_entry", "budget", "accuracy", "confusion"} <= set(first)
    assert cli(*PRIVATE, "--request-id", "r1", "--json").json == first


def test_a_dry_run_touches_nothing(cli: Cli, path: Path) -> None:
    """`--dry-run` shows the one step and the budget, as text and as JSON."""
    before = kept(path)
    ran = cli(*PRIVATE, "--dry-run")
    assert "score_counts" in ran.out
    assert "After this run: 3 spent." in ran.out
    found = cli(*PRIVATE, "--dry-run", "--json").json
    assert (found["epsilon"], found["fits"]) == (2, True)
    assert kept(path) == before


def test_a_dry_run_says_what_would_be_refused(cli: Cli) -> None:
    """More than is left is exit code 3."""
    assert cli("evaluate", "--model", "m", "--table", "people", "--epsilon", "50", "--dry-run").code == 3


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--table", "people"), 3, "--epsilon 0.5"),
        (("--table", "fresh", "--epsilon", "1"), 2, "it is free"),
        (("--table", "fresh", "--dry-run"), 2, "--epsilon"),
        (("--table", "fresh", "--request-id", "r"), 2, "--epsilon"),
        (("--table", "people", "--epsilon", "none"), 2, "epsilon"),
        (("--table", "people", "--epsilon", "1", "--plot", "a.txt"), 2, ".png"),
        (("--table", "people", "--epsilon", "1", "--plot", "nowhere/a.png"), 2, "folder that exists"),
        (("--table", "people", "--epsilon", "1", "--request-id", ""), 2, "not empty"),
    ],
)
def test_broken_requests_are_refused_before_any_charge(
    cli: Cli, path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    """The message says what is allowed, and nothing was charged."""
    before = kept(path)
    ran = cli("evaluate", "--model", "m", *words)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
    assert kept(path) == before


@pytest.mark.parametrize(
    "words", [("evaluate", "--model", "m", "--table", "fresh"), PRIVATE], ids=["public", "private"]
)
def test_a_plot_is_drawn(cli: Cli, words: tuple[str, ...]) -> None:
    """`--plot` writes a picture, and never over a file."""
    assert cli(*words, "--plot", "a.png").code == 0
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    assert cli(*words, "--plot", "a.png").code == 2
