"""Tests of what an experiment is made of: grids, summaries, claims, the papers' own figures."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import pytest

from tests.papers.frame import EXPERIMENTS, module

FRAME = ("experiment", "sets", "product", "catalogue", "runner", "showing", "plots")


def result(**columns: object) -> dict[str, str]:
    """Return one row of results."""
    return {name: str(value) for name, value in columns.items()}


def judged(experiment: str, claim: int, rows: list[dict[str, str]]) -> bool | None:
    """Return whether a claim of an experiment holds for these results."""
    one = EXPERIMENTS[experiment]
    summary = module("experiment").Summary(rows, one.figures[0])
    verdict: bool | None = one.claims[claim].judge(summary)[1]
    return verdict


@pytest.mark.parametrize("name", FRAME)
def test_examples_in_docstrings_hold(name: str) -> None:
    """The examples in the program's docstrings give what they say."""
    assert doctest.testmod(module(name)).failed == 0


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_short_grid_is_part_of_the_whole_one(name: str) -> None:
    """A short run has the same columns, and fewer cells."""
    one, asked = EXPERIMENTS[name], module("experiment").RunSettings
    assert set(one.short) <= set(one.grid)
    sizes = [len(list(one.cells(asked(Path(), Path(), splits=1, short=short)))) for short in (True, False)]
    assert 0 < sizes[0] < sizes[1]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_papers_figures_stand_beside_a_cell(name: str) -> None:
    """Every figure from a paper's text fits a cell that is run."""
    one = EXPERIMENTS[name]
    asked = module("experiment").RunSettings(Path(), Path(), splits=1)
    cells = [{key: str(value) for key, value in cell.items()} for cell in one.cells(asked)]
    assert all(any(given.fits(cell) for cell in cells) for given in one.given)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_picture_names_columns_of_the_grid(name: str) -> None:
    """What is drawn along the axis, in panels and in colours are columns of the grid."""
    one = EXPERIMENTS[name]
    drawn = {one.picture.x, one.picture.panel, one.picture.hue} - {None}
    assert drawn <= set(one.grid)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_no_claim_is_judged_without_results(name: str) -> None:
    """Nothing holds, and nothing fails, before it was run."""
    summary = module("experiment").Summary([], EXPERIMENTS[name].figures[0])
    for claim in EXPERIMENTS[name].claims:
        assert claim.judge(summary)[1] is None, claim.text


@pytest.mark.parametrize("name", ["rdt-epsilon", "snr-epsilon", "rosnam-empty"])
def test_a_whole_grid_fits_its_picture(name: str, tmp_path: Path) -> None:
    """Several panels, colours and the paper's figures find room; matplotlib warns otherwise, and warnings fail."""
    one = EXPERIMENTS[name]
    cells = one.cells(module("experiment").RunSettings(Path(), Path(), splits=2))
    rows = [result(**cell, **{one.figures[0]: 20 + 7 * (place % 11)}) for place, cell in enumerate(cells)]
    module("plots").draw(one, rows, tmp_path / "whole.png")
    assert (tmp_path / "whole.png").stat().st_size > 20_000


def test_splits_come_one_after_the_other() -> None:
    """Every cell runs its first split before any runs its second; an experiment may set a limit."""
    asked = module("experiment").RunSettings(Path(), Path(), splits=50)
    splits = [cell["split"] for cell in EXPERIMENTS["rosnam-size"].cells(asked)]
    assert splits == sorted(splits)
    assert max(splits) == 2


def test_summary_of_a_figure() -> None:
    """Mean, spread and gains are over the rows with the values asked for."""
    rows = [result(set="a", way=way, value=value) for way, value in (("x", 3), ("x", 5), ("y", 1))]
    summary: Any = module("experiment").Summary(rows, "value")
    assert summary.mean(way="x") == 4
    assert summary.spread(way="y") == 0
    assert summary.gains("set", {"way": "x"}, {"way": "y"}) == {"a": 3}


@pytest.mark.parametrize(("spent", "holds"), [("1", False), ("0.5", True)])
def test_the_vertical_claim_fails_where_epsilons_add_up(spent: str, holds: bool) -> None:
    """The claim "also private" holds only if two parties cost what one does."""
    rows = [result(columns="two parties", epsilon="0.5", epsilon_spent=spent, accuracy_percent=90)]
    assert judged("rdt-vertical", 0, rows) is holds


@pytest.mark.parametrize(("small", "holds"), [(84.9, False), (85.1, True)])
def test_the_claim_of_85_percent(small: float, holds: bool) -> None:
    """30,000 rows at epsilon 1 are judged by their mean."""
    assert judged("rosnam-size", 1, [result(rows=30_000, epsilon=1, accuracy_percent=small)]) is holds


def test_synthetic_tables_follow_their_seed() -> None:
    """The same seed gives the same table, another seed another one."""
    make = module("sets").synthetic
    first, same, other = (make("SynthF", 50, seed=seed).frame for seed in (1, 1, 2))
    assert first.equals(same)
    assert not first.equals(other)
    assert len(first.columns) == 11


def test_gaps_are_filled_or_dropped(data: Path) -> None:
    """The votes have no gaps once they are filled, and fewer rows once rows with gaps are dropped."""
    sets = module("sets")
    whole = sets.load("votes", data, split=0)
    assert whole.frame.isna().to_numpy().any()
    assert not sets.load("votes-filled", data, split=0).frame.isna().to_numpy().any()
    assert sets.complete(whole).rows < whole.rows
