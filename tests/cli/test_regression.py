"""A numeric target on the command line: register, train, evaluate, show, predict, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.api.database import connect
from tests import tables

from .conftest import Cli

FLAGS = ("--table", "numbers", "--cap", "9", "--label", "y", "--numeric", "x:0:64", "--categorical", "c:a,b")


@pytest.fixture
def numbers(cli: Cli, path: Path) -> Cli:
    """Add a private table "numbers" with a target, a public one "others", and a model "n"."""
    with connect(path) as db:
        tables.fill(db.engine, "numbers", tables.some_targets(), tables.types_of(tables.TARGET))
        tables.fill(db.engine, "others", tables.some_targets(12), tables.types_of(tables.TARGET))
    assert cli("register", *FLAGS, "--target", "0:10").code == 0
    assert cli("train", "--table", "numbers", "--method", "rdt", "--depth", "2", "--name", "n").code == 0
    return cli


def test_register_takes_bounds(numbers: Cli) -> None:
    """`--target LOWER:UPPER` declares a numeric label; `--dry-run` shows it."""
    shown = numbers("register", *FLAGS, "--target", "-5:10.5", "--replace", "--dry-run", "--json").json
    assert shown["schema"]["target"] == {"lower": -5.0, "upper": 10.5}
    assert "classes" not in shown["schema"]


@pytest.mark.parametrize(
    "flags", [(), ("--target", "5"), ("--target", "5:a"), ("--target", "5:5"), ("--target", "0:9", "--class", "a")]
)
def test_register_refuses_bounds_that_make_no_sense(numbers: Cli, flags: tuple[str, ...]) -> None:
    """No bounds, half of them, no numbers, an empty range, or classes too: wrong usage."""
    assert numbers("register", *FLAGS, *flags, "--replace").code in (1, 2)


def test_evaluate_prints_errors(numbers: Cli, path: Path) -> None:
    """Text and JSON say what Python says."""
    with connect(path) as db:
        found = db.evaluate("n", "others")
    assert numbers("evaluate", "--model", "n", "--table", "others", "--json").json == found.to_dict()
    assert numbers("evaluate", "--model", "n", "--table", "others").out == f"{found}\n"


def test_show_says_what_is_predicted(numbers: Cli) -> None:
    """The label and its bounds stand above the certificate."""
    assert "Predicts:    y, a number from 0 to 10" in numbers("show", "--model", "n").out


def test_predictions_are_numbers(numbers: Cli, path: Path) -> None:
    """`predict --json` holds the numbers of Python."""
    found = numbers("predict", "--model", "n", "--table", "others", "--key", "person", "--json").json
    with connect(path) as db:
        expected = db.model("n").predict("others", key="person")
    assert expected is not None
    assert [row["prediction"] for row in found] == expected["prediction"].tolist()


def test_shares_are_refused(numbers: Cli) -> None:
    """`--proba` has no classes to share votes."""
    ran = numbers("predict", "--model", "n", "--table", "others", "--proba")
    assert ran.code == 2
    assert "predicts a number" in ran.err


def test_the_default_method_predicts_numbers(numbers: Cli) -> None:
    """Without --method a numeric target is planned, trained, scored and measured by rdt; `auto` means the same."""
    assert numbers("train", "--table", "numbers", "--dry-run").out.startswith("Plan of rdt: epsilon 1 in all")
    ran = numbers("train", "--table", "numbers", "--depth", "2", "--name", "d")
    assert ran.code == 0
    assert 'Model "d": rdt, ' in ran.out
    named = numbers("train", "--table", "numbers", "--depth", "2", "--method", "auto", "--json").json
    assert named["certificate"]["method"] == "rdt"
    assert [row["method"] for row in numbers("models", "--json").json] == ["rosnam", "rdt", "rdt", "rdt"]
    measured = numbers("evaluate", "--model", "d", "--table", "others", "--json").json
    assert measured["rmse"] > 0


def test_a_method_of_classes_names_one_that_can(numbers: Cli) -> None:
    """A method of classes is refused with the option that works."""
    ran = numbers("train", "--table", "numbers", "--method", "rosnam")
    assert ran.code == 2
    assert "--method rdt" in ran.err


def test_a_macro_predicts_numbers(numbers: Cli, path: Path) -> None:
    """The scalar macro that `sql --create` makes gives the numbers of Python."""
    assert numbers("sql", "--model", "n", "--form", "macro", "--name", "guess", "--create").code == 0
    with connect(path) as db:
        found = tables.rows_of(db.engine, "SELECT guess(x, c) AS p FROM others")
        expected = db.model("n").predict("others", key="person")
    assert expected is not None
    assert [row["p"] for row in found] == expected["prediction"].tolist()
