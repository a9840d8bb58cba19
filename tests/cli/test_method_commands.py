"""Tests of `dpsql methods`, and of what is said where a method is not known."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from dpsql.api.database import Database
from dpsql.api.method_descriptions import describe_method
from dpsql.methods import DEFAULT, METHODS

from .conftest import Cli, kept


def test_each_method_has_a_line_and_a_when(cli: Cli) -> None:
    """The list begins with the default and fits in 80 columns; every method says what it is and when to use it."""
    ran = cli("methods", db=None)
    lines = ran.out.splitlines()
    assert ran.code == 0
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[::2]] == list(METHODS)
    assert lines[0].startswith(DEFAULT)
    assert [line.strip() for line in lines[1::2]] == [f"When: {method.when}" for method in METHODS.values()]


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_shown_with_its_own_parameters(cli: Cli, name: str) -> None:
    """Each parameter stands there as an option; JSON has its range, default and help."""
    shown = cli("methods", name, db=None).out
    described = cli("methods", name, "--json", db=None).json
    assert f"docs/methods/{name}.md" in shown
    assert [given["name"] for given in described["parameters"]] == list(METHODS[name].parameters)
    assert described["summary"] in shown
    for given in described["parameters"]:
        assert f"--{given['name'].replace('_', '-')} " in shown
        parameter = METHODS[name].parameters[given["name"]]
        assert (given["help"], given["allowed"]) == (parameter.help, parameter.range_text)
        assert parameter.check(given["name"], None) == given["default"]


def test_what_may_be_given_is_what_is_refused_otherwise(cli: Cli) -> None:
    """The words of the list are those of the error."""
    allowed = next(given.allowed for given in describe_method("rdt").parameters if given.name == "trees")
    assert allowed in cli("train", "--table", "people", "--method", "rdt", "--trees", "0").err


def test_the_list_is_one_json_value(cli: Cli) -> None:
    """`--json` has every method with all that is said of it."""
    described = cli("methods", "--json", db=None).json
    assert [method["name"] for method in described] == list(METHODS)
    assert {key for method in described for key in method} == {field.name for field in fields(describe_method(DEFAULT))}


@pytest.mark.parametrize("words", [("train", "--table", "people", "--method"), ("methods",)])
def test_an_unknown_method_is_answered_with_what_there_is(cli: Cli, words: tuple[str, ...], path: Path) -> None:
    """The nearest names, or all of them; the next step is the list; nothing is charged."""
    before, database = kept(path), None if words == ("methods",) else path
    near, far = cli(*words, "rosnan", db=database), cli(*words, "xgboost", db=database)
    assert (near.code, far.code) == (2, 2)
    assert near.err == 'Error: there is no method "rosnan". Did you mean "rosnam"?\nTry:   dpsql methods\n'
    assert f"Known: {', '.join(sorted(METHODS))}." in far.err
    assert kept(path) == before


def test_the_help_of_train_points_to_the_list(cli: Cli) -> None:
    """Whoever reads `--method` finds `dpsql methods`."""
    assert "dpsql methods" in " ".join(cli("train", "--help", db=None).out.split())


def test_python_has_the_same_list(cli: Cli, db: Database) -> None:
    """`db.methods()` is a table of them, `db.method(name)` describes one."""
    assert list(db.methods()["name"]) == list(METHODS)
    assert set(db.methods().columns) == {"name", "what it is", "when to use it", "numbers"}
    assert db.method("rdt").to_dict() == cli("methods", "rdt", "--json", db=None).json | {
        "parameters": tuple(db.method("rdt").to_dict()["parameters"])
    }
    assert "trees (a whole number from 1 to 10000" in str(db.method("rdt"))
