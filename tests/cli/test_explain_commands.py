"""`dpsql explain --model`: what a model learned, as text, JSON and picture, free of charge."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.image import imread

from dpsql.api.database import connect
from dpsql.cli.printing.json_values import plain_numbers

from .conftest import Cli, kept


def test_explain_prints_what_python_says(cli: Cli, path: Path) -> None:
    """The text is that of `model.explain()`, and nothing stored changes."""
    before = kept(path)
    ran = cli("explain", "--model", "m")
    assert kept(path) == before
    with connect(path) as opened:
        assert ran.out == str(opened.model("m").explain()) + "\n"
    assert ran.out.startswith('What "m" learned\n')


def test_explain_as_json_is_the_dictionary(cli: Cli, path: Path) -> None:
    """`--json` is `to_dict()`, with numbers for amounts and null for what is empty."""
    found = cli("explain", "--model", "m", "--json").json
    with connect(path) as opened:
        assert found == json.loads(json.dumps(plain_numbers(opened.model("m").explain().to_dict())))


def test_top_is_how_many_features_are_shown(cli: Cli) -> None:
    """`--top 1` shows one bar."""
    assert len([line for line in cli("explain", "--model", "m", "--top", "1").out.splitlines() if "█" in line]) == 1
    ran = cli("explain", "--model", "m", "--top", "0")
    assert (ran.code, "top must be" in ran.err) == (2, True)


def test_plot_writes_a_picture(cli: Cli, path: Path) -> None:
    """`--plot` writes a PNG file beside the text; a file that exists is left alone."""
    ran = cli("explain", "--model", "m", "--plot", "m.png")
    assert ran.code == 0
    assert "Wrote m.png." in ran.err
    assert imread(path.parent / "m.png").shape[0] > 300
    again = cli("explain", "--model", "m", "--plot", "m.png")
    assert (again.code, 'm.png" exists' in again.err, "--plot" in again.err) == (2, True, True)


def test_a_background_of_public_rows(cli: Cli, path: Path) -> None:
    """`--background` takes a public table of the database, as `model.explain(table)` does."""
    ran = cli("explain", "--model", "m", "--background", "fresh")
    assert "as frequent as in the public rows you gave" in ran.out
    with connect(path) as opened:
        assert ran.out == str(opened.model("m").explain("fresh")) + "\n"


def test_a_private_background_is_refused(cli: Cli) -> None:
    """A registered table is never read for free; an unknown one is named."""
    ran = cli("explain", "--model", "m", "--background", "people")
    assert (ran.code, ran.out) == (3, "")
    assert cli("explain", "--model", "m", "--background", "nope").code == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name what to explain"),
        (("--model", "m", "--table", "people"), "name what to explain"),
        (("--model", "m", "--trees", "3"), "--trees goes with --table only"),
        (("--model", "m", "--as-published"), "--as-published goes with --table only"),
        (("--table", "people", "--plot", "m.png"), "--plot goes with --model only"),
        (("--table", "people", "--top", "3"), "--top goes with --model only"),
        (("--model", "nope"), 'there is no model "nope"'),
        (("--model", "m", "--plot", "m.gif"), "ends in .png"),
    ],
)
def test_what_does_not_go_together_is_refused(cli: Cli, words: tuple[str, ...], message: str) -> None:
    """Exactly one of --model and --table, and each with its own options."""
    ran = cli("explain", *words)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_one_row_is_explained(cli: Cli, path: Path) -> None:
    """`--row` says what `model.explain_row` says, from texts, from JSON and from a file; nothing stored changes."""
    before = kept(path)
    row = {"c": "b", "x": 40}
    with connect(path) as opened:
        why = opened.model("m").explain_row(row)
    pd.DataFrame([row]).to_csv(path.parent / "few.csv", index=False)
    words, as_object = "c=b,x=40", json.dumps(row)
    ran = cli("explain", "--model", "m", "--row", words)
    assert kept(path) == before
    assert ran.out.splitlines()[:2] == str(why).splitlines()[:2]
    assert cli("explain", "--model", "m", "--row", as_object).out == ran.out
    of_file = cli("explain", "--model", "m", "--file", "few.csv", "--row", "1").out
    assert of_file.splitlines()[1] == ran.out.splitlines()[1]
    told = cli("explain", "--model", "m", "--row", words, "--json").json
    assert told["average"] + sum(each["effect"] for each in told["contributions"]) == pytest.approx(told["score"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--model", "m", "--row", "c"), "COL=VALUE"),
        (("--model", "m", "--row", "d=3"), "the features are c, x"),
        (("--model", "m", "--row", "{1}"), "a JSON object"),
        (("--model", "m", "--row", "x=3", "--plot", "x.png"), "--plot"),
        (("--model", "m", "--file", "none.csv"), "--row 1"),
        (("--model", "m", "--file", "none.csv", "--row", "1"), "there is no file"),
        (("--table", "people", "--row", "x=3"), "--row goes with --model"),
    ],
)
def test_a_row_that_cannot_be_read_is_refused(cli: Cli, words: tuple[str, ...], says: str) -> None:
    """The error says how a row is written."""
    ran = cli("explain", *words)
    assert (ran.code in (1, 2, 4), says in ran.err, ran.out) == (True, True, "")
