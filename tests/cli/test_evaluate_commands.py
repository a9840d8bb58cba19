"""`dpsql evaluate`: figures and plots of public rows for free, of private rows for an epsilon."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.api.database import connect
from tests.tables import SMALL, run

from .conftest import Cli, kept

PRIVATE = ("evaluate", "--model", "m", "--table", "people", "--epsilon", "2")


def test_public_figures_are_printed(cli: Cli) -> None:
    """Accuracy, then the confusion table, the other figures, and the reliability table."""
    out = cli("evaluate", "--model", "m", "--table", "fresh").out
    words = ("accuracy", "true class", "balanced accuracy", "AUC", "log loss", "Brier score", "F1 of maybe", "observed")
    places = [out.index(word) for word in words]
    assert places == sorted(places)
    assert "95 %" not in out


def test_two_models_are_not_one(cli: Cli, path: Path) -> None:
    """`evaluate` measures one model; several are refused with the command that compares them."""
    before = kept(path)
    ran = cli("evaluate", "--model", "m", "--model", "other one", "--table", "fresh")
    assert (ran.code, ran.out) == (2, "")
    assert "dpsql compare --db" in ran.err
    assert "--model m --model 'other one' --table fresh" in ran.err
    assert kept(path) == before


def test_labels_of_other_words_are_an_error(cli: Cli, path: Path) -> None:
    """Public rows without a class of the model: exit code 2, both lists, nothing on stdout."""
    with connect(path) as opened:
        run(opened.engine, "CREATE TABLE shouted AS SELECT * REPLACE (upper(y) AS y) FROM fresh")
    ran = cli("evaluate", "--model", "m", "--table", "shouted")
    assert (ran.code, ran.out) == (2, "")
    assert "labels here: MAYBE, NO, UNKNOWN LABEL, YES;" in ran.err
    assert "the model's classes: no, yes, maybe" in ran.err
    assert "CASE y WHEN 'MAYBE' THEN 'maybe' … END" in ran.err


def test_compare_shows_models_side_by_side(cli: Cli, path: Path) -> None:
    """`dpsql compare` prints a line for each model and who is best; JSON has all figures of each."""
    with connect(path) as opened:
        opened.train("people", name="n", method="rosnam", epsilon=2, **SMALL)
    words = ("compare", "--model", "m", "--model", "n", "--table", "fresh")
    ran = cli(*words)
    assert ran.code == 0, ran.err
    assert all(word in ran.out for word in ("accuracy", "AUC", "log loss", "m ", "n ", " rows of fresh"))
    assert "Best in" in ran.out or "Too near" in ran.out
    figures = cli(*words, "--json").json
    assert [one["model"] for one in figures["models"]] == ["m", "n"]
    assert set(figures["best"]) == {"accuracy", "balanced_accuracy", "f1", "auc", "log_loss", "brier"}


def test_a_charged_comparison_says_the_total_before(cli: Cli, path: Path) -> None:
    """The dry run shows one step for each model and touches nothing; the run says its whole cost, and charges it."""
    with connect(path) as opened:
        opened.train("people", name="n", method="rosnam", **SMALL)
    words = ("compare", "--model", "m", "--model", "n", "--table", "people", "--epsilon", "2")
    before = kept(path)
    dry = cli(*words, "--dry-run")
    assert dry.code == 0, dry.err
    assert "Plan of compare: epsilon 2 in all" in dry.out
    assert kept(path) == before
    ran = cli(*words)
    assert "2 models at epsilon 1 each: epsilon 2 in all" in ran.err
    assert "±" in ran.out
    assert 'Charged epsilon 2. Budget of "people": 6 of 10 left.' in ran.out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--model", "m", "--table", "fresh"), 2, "two or more different models"),
        (("--model", "m", "--model", "mm", "--table", "fresh"), 2, 'Did you mean "m"'),
        (("--model", "m", "--model", "m", "--table", "fresh", "--dry-run"), 2, "--epsilon"),
        (("--model", "m", "--model", "mm", "--table", "people"), 2, 'Did you mean "m"'),
    ],
)
def test_a_broken_comparison_is_refused(cli: Cli, path: Path, words: tuple[str, ...], code: int, said: str) -> None:
    """The message says what is allowed, and nothing is charged."""
    before = kept(path)
    ran = cli("compare", *words)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
    assert kept(path) == before


def test_the_curve_is_shown_on_request(cli: Cli) -> None:
    """`--curve` prints recall and lift by threshold for each class; JSON has the same points."""
    words = ("evaluate", "--model", "m", "--table", "fresh")
    assert "lift" not in cli(*words).out
    assert all(f"{name} from" in cli(*words, "--curve").out for name in ("no", "yes", "maybe"))
    points = cli(*words, "--json").json["curve"]
    assert {"class", "threshold", "named", "recall", "precision", "lift"} <= set(points[0])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--cost", "yes"], "CLASS=COST"),
        (["--cost", "yes=5"], "for two classes"),
    ],
)
def test_a_cost_that_makes_no_sense_is_refused(cli: Cli, words: list[str], said: str) -> None:
    """A cost has a class and a number, and a threshold is for two classes."""
    ran = cli("evaluate", "--model", "m", "--table", "fresh", *words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_a_cost_is_refused_before_a_charge(cli: Cli, path: Path) -> None:
    """A charged evaluation whose cost could not be worked out is not made."""
    before = kept(path)
    assert cli(*PRIVATE, "--cost", "yes=5").code == 2
    assert cli(*PRIVATE, "--plot-curves", "a.png").code == 2
    assert kept(path) == before


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
