"""Tests that every experiment runs short, resumes, and can be shown and drawn."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib.image import imread

from tests.papers.frame import EXPERIMENTS, main, module

Finished = Callable[[str], Path]
every = pytest.mark.parametrize("name", EXPERIMENTS)


def rows(file: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file."""
    with file.open(newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def short(name: str, data: Path) -> list[dict[str, str]]:
    """Return the cells of an experiment's short version, as text."""
    asked = module("experiment").RunSettings(data, data, short=True)
    return [{key: str(value) for key, value in cell.items()} for cell in EXPERIMENTS[name].cells(asked)]


@every
def test_results_have_every_cell_once(name: str, finished: Finished, data: Path) -> None:
    """The CSV file has one row for each cell of the short grid."""
    found = [{key: row[key] for key in EXPERIMENTS[name].keys} for row in rows(finished(name))]
    assert sorted(found, key=str) == sorted(short(name, data), key=str)


@every
def test_figures_are_there(name: str, finished: Finished) -> None:
    """Every column is filled, and percentages lie between 0 and 100."""
    for row in rows(finished(name)):
        assert all(row.values())
        assert all(0 <= float(value) <= 100 for column, value in row.items() if column.endswith("_percent"))


@every
def test_a_second_run_runs_nothing(
    name: str, finished: Finished, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is in the results is not run again."""
    file = finished(name)
    before = file.read_bytes()
    capsys.readouterr()
    assert main(["run", name, "--short", "--data", str(data), "--results", str(file.parent)]) == 0
    assert f"{name}: 0 cells run" in capsys.readouterr().out
    assert file.read_bytes() == before


@every
def test_the_picture_shows_something(name: str, finished: Finished) -> None:
    """A picture is written; it is not small, and not all of one colour."""
    folder = finished(name).parent
    assert main(["plot", name, "--short", "--results", str(folder)]) == 0
    pixels = imread(folder / f"{name}-short.png")
    assert pixels.shape[0] >= 300
    assert pixels.shape[1] >= 600
    assert pixels[..., :3].std() > 0.05


@every
def test_results_are_shown(name: str, finished: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    """`show` names the paper and the place, every claim, and what is not private."""
    folder = finished(name).parent
    capsys.readouterr()
    assert main(["show", name, "--short", "--results", str(folder)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    experiment = EXPERIMENTS[name]
    for text in (experiment.paper, experiment.place, experiment.exact, *(claim.text for claim in experiment.claims)):
        assert text in printed


def test_private_runs_spend_what_was_asked(finished: Finished) -> None:
    """A private cell's ledger says exactly its epsilon."""
    found = [row for row in rows(finished("rosnam-epsilon")) if row["private"] == "yes"]
    assert found
    assert all(row["epsilon_spent"] == row["epsilon"] for row in found)


def test_the_published_mechanism_is_marked(finished: Finished) -> None:
    """What ran on a public copy is marked as not private, and nothing else is."""
    for row in rows(finished("rosnam-others")):
        assert (row["private"] == "no") == (row["technique"] == "as published")


def test_every_row_pays_once_whatever_the_batches(finished: Finished) -> None:
    """Updates are charged on the new rows alone."""
    assert {(row["batches"], row["epsilon_spent"]) for row in rows(finished("rdt-updates"))} == {
        ("1", "0.5"),
        ("3", "0.5"),
    }


def test_shared_trees_add_up_to_epsilon(finished: Finished) -> None:
    """All rows in every tree for a share of epsilon each cost epsilon 1 together."""
    assert {row["epsilon_spent"] for row in rows(finished("rosnam-disjoint"))} == {"1"}


def test_two_parties_with_the_same_people_pay_twice(finished: Finished) -> None:
    """The united certificate adds the parties' epsilons up."""
    for row in rows(finished("rdt-vertical")):
        times = 2 if row["columns"] == "two parties" else 1
        assert float(row["epsilon_spent"]) == times * float(row["epsilon"])


def test_parties_with_different_people_pay_once(finished: Finished) -> None:
    """The merged certificate says the largest epsilon."""
    assert {row["epsilon_spent"] for row in rows(finished("rdt-horizontal"))} == {"0.5"}


def test_our_figure_stands_beside_the_papers(finished: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    """Table 4's depth of SynthA, 5, stands beside ours by either rule."""
    folder = finished("rosnam-listed").parent
    capsys.readouterr()
    main(["show", "rosnam-listed", "--short", "--results", str(folder)])
    lines = [line.replace("│", " ").split() for line in capsys.readouterr().out.splitlines()]
    assert ["SynthA", "theorem2", "1", "4.0", "0.0", "5", "-1.0"] in lines
    assert ["SynthA", "table4", "1", "5.0", "0.0", "5", "+0.0"] in lines
