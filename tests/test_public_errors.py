"""The error contract: the tree in the docstring, the exit codes, the figures, the Try line."""

from __future__ import annotations

import inspect
import re

import pytest

import dpsql
from dpsql import errors
from dpsql.errors import DpsqlError

TREE = re.findall(r"^    ([│├└─ ]*)(\w+) +(\d)  \S", errors.__doc__ or "", re.MULTILINE)
CLASSES = {name: kind for name, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, DpsqlError)}
MADE: dict[str, DpsqlError] = {
    "ParameterError": errors.ParameterError("trees", allowed="a whole number", given="x"),
    "UnknownName": errors.UnknownName("model", "adlut", ["adult", "zebra"]),
    "BudgetExceeded": errors.BudgetExceeded('table "t"', needed="1", left="0.5", cap="2"),
    "ChargeTooSmall": errors.ChargeTooSmall("adult", needed="0.0001", least="0.001"),
    "RunsUnfinished": errors.RunsUnfinished("adult", lost=3, reserved=2, limit=5),
    "ChargedBefore": errors.ChargedBefore(7, why="its run failed", hint="again := true"),
    "NotRegistered": errors.NotRegistered("adlut", ["adult"]),
    "LedgerBroken": errors.LedgerBroken(["one.", "two."]),
    "NewerFormat": errors.NewerFormat("this model", number=7, known=2),
    "NoRowsCounted": errors.NoRowsCounted("none.", noisy_rows=3, deviation=47.1, entry=2, spent="0.03", unspent="0.97"),
    "QueryFailed": errors.QueryFailed("count", "ConversionException"),
    "RunFailed": errors.RunFailed(),
}
FIGURES = [
    ("ParameterError", {"name": "trees", "allowed": "a whole number", "given": "x"}),
    ("UnknownName", {"kind": "model", "name": "adlut", "known": ["adult", "zebra"], "nearest": ["adult"]}),
    ("BudgetExceeded", {"needed": "1", "left": "0.5", "cap": "2"}),
    ("ChargeTooSmall", {"needed": "0.0001", "least": "0.001", "measure": "epsilon"}),
    ("RunsUnfinished", {"table": "adult", "lost": 3, "reserved": 2, "limit": 5}),
    ("ChargedBefore", {"entry": 7}),
    ("NotRegistered", {"table": "adlut", "known": ["adult"]}),
    ("LedgerBroken", {"findings": ["one.", "two."]}),
    ("NewerFormat", {"number": 7, "known": 2}),
    ("NoRowsCounted", {"noisy_rows": 3, "deviation": 47.1, "entry": 2, "spent": "0.03", "unspent": "0.97"}),
    ("QueryFailed", {"kind": "ConversionException"}),
]


def example(name: str) -> DpsqlError:
    """Return an error of a class, made as dpsql makes it."""
    return MADE.get(name) or CLASSES[name]("it failed.")


def test_the_tree_names_every_class() -> None:
    """The docstring draws all errors there are and no others."""
    assert sorted(name for _, name, _ in TREE) == sorted(CLASSES)


@pytest.mark.parametrize(("indent", "name", "code"), TREE, ids=[name for _, name, _ in TREE])
def test_each_class_has_the_exit_code_of_the_tree(indent: str, name: str, code: str) -> None:
    """The number behind a name is its exit code."""
    assert CLASSES[name].exit_code == int(code)
    assert example(name).exit_code == int(code)


def test_each_class_has_the_parent_of_the_tree() -> None:
    """A class stands under the one it derives from."""
    above: list[str] = []
    for indent, name, _ in TREE:
        depth = len(indent) // 4
        above[depth:] = [name]
        wanted = CLASSES[above[depth - 1]] if depth else Exception
        assert CLASSES[name].__base__ is wanted


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_each_class_is_public(name: str) -> None:
    """`dpsql.NAME` is the class, so that it can be caught without digging."""
    assert getattr(dpsql, name) is CLASSES[name]


@pytest.mark.parametrize(("name", "figures"), FIGURES, ids=[name for name, _ in FIGURES])
def test_figures_are_attributes(name: str, figures: dict[str, object]) -> None:
    """A caller reads figures from attributes and never parses text."""
    assert {key: getattr(MADE[name], key) for key in figures} == figures


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_the_try_line_is_there_when_there_is_a_hint(name: str) -> None:
    """`str(error)` is the message, and a Try line when there is a hint and only then."""
    error = example(name)
    assert str(error) == (f"{error.message}\nTry:   {error.hint}" if error.hint else error.message)
    assert "Try:" not in error.message
    error.hint = "look here"
    assert str(error) == f"{error.message}\nTry:   look here"
    error.hint = None
    assert str(error) == error.message


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_a_message_is_a_sentence(name: str) -> None:
    """It ends with a full stop or a question."""
    assert example(name).message[-1] in ".?"


def test_near_names_are_offered() -> None:
    """A slip of the fingers is met with the nearest known names."""
    assert 'Did you mean "adult"?' in str(MADE["UnknownName"])
    assert 'Did you mean "adult"?' in str(MADE["NotRegistered"])


def test_long_values_are_cut() -> None:
    """A value of any length makes a message of bounded length."""
    long = "x" * 10_000
    for error in (errors.ParameterError("a", allowed="b", given=long), errors.UnknownName("model", long)):
        assert len(str(error)) < 300
