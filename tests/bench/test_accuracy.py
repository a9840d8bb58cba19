"""Tests of `dpsql bench accuracy`: sample tables that need no download, and what is measured on them."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner, Result

from dpsql import methods
from dpsql.bench import accuracy, sample_tables
from dpsql.bench.__main__ import run_bench
from dpsql.bench.sample_tables import BOUNDS, LABEL, MADE_UP, SampleTable, load_sample
from dpsql.schema import Schema

QUICK = ("--method", "rdt", "--param", "trees=3", "--epsilon", "1", "--splits", "1")


def run(*words: str) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(run_bench, ["accuracy", *words], catch_exceptions=False)


def figures(*words: str) -> list[dict[str, Any]]:
    """Return what the command says with --json."""
    done = run(*words, "--json")
    assert done.exit_code == 0, done.stderr
    said: list[dict[str, Any]] = json.loads(done.stdout)["figures"]
    return said


@pytest.fixture
def without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let scikit-learn seem not to be installed."""
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "sklearn" else there(name))


@pytest.mark.parametrize("name", MADE_UP)
def test_made_up_tables_hold_what_their_schemas_declare(name: str) -> None:
    """Every number lies within its bounds, every class is declared, and the rows are the same every time."""
    table = load_sample(name)
    check_bounds(table, within=1.0)
    assert table.frame.equals(load_sample(name).frame)


@pytest.mark.parametrize("name", BOUNDS)
def test_bundled_tables_hold_what_their_schemas_declare(name: str) -> None:
    """Nearly every number lies within the declared bounds."""
    pytest.importorskip("sklearn")
    table = load_sample(name)
    check_bounds(table, within=0.99)


def check_bounds(table: SampleTable, *, within: float) -> None:
    """Check a table against its schema: classes, columns, and the share of the numbers within bounds."""
    schema = Schema.from_dict(table.schema)
    assert set(table.frame[schema.label].astype(str)) == set(schema.classes)
    for name, feature in table.schema["features"].items():
        if feature["type"] == "numeric":
            assert table.frame[name].between(feature["lower"], feature["upper"]).mean() >= within, name


def test_scikit_learns_tables_are_the_default() -> None:
    """Where scikit-learn is installed."""
    pytest.importorskip("sklearn")
    assert sample_tables.default_names() == tuple(BOUNDS)


@pytest.mark.usefixtures("without_scikit_learn")
def test_made_up_tables_are_the_default_without_scikit_learn() -> None:
    """The command then says that there is no forest to compare with."""
    done = run(*QUICK)
    assert done.exit_code == 0, done.stderr
    assert all(name in done.stdout for name in MADE_UP)
    assert "scikit-learn is not installed" in done.stdout
    assert "iris" not in done.stdout


@pytest.mark.usefixtures("without_scikit_learn")
def test_a_bundled_table_is_refused_without_scikit_learn() -> None:
    """With the way to install it, or what to take instead."""
    done = run("--sets", "iris")
    assert done.exit_code == 2
    assert "Try:   pip install scikit-learn, or --sets census,corners" in done.stderr


def test_one_figure_for_each_table_method_and_epsilon() -> None:
    """In the order in which they were asked for, with means in %."""
    said = figures("--sets", "corners,census", "--method", "rosnam,rdt", "--epsilon", "0.5,1.0", "--splits", "1")
    assert [(one["table"], one["method"], one["epsilon"]) for one in said] == [
        (table, method, epsilon)
        for table in ("corners", "census")
        for method in ("rosnam", "rdt")
        for epsilon in ("0.5", "1")
    ]
    assert all(0 < one["mean"] <= 100 and 0 < one["majority"] < 100 for one in said)
    assert all(one["standard_deviation"] is None and one["seconds"] > 0 for one in said)


def test_the_default_method_learns() -> None:
    """At a large epsilon it is far above the largest class, and near the forest without privacy."""
    pytest.importorskip("sklearn")
    (one,) = figures("--sets", "corners", "--epsilon", "10", "--splits", "2")
    assert one["method"] == methods.DEFAULT
    assert one["mean"] > one["majority"] + 40
    assert one["without_privacy"] > 85
    assert one["standard_deviation"] is not None


def test_exactly_epsilon_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the ledger of a split has charged in all is epsilon."""
    spent: list[str] = []
    original = accuracy.connect

    def connect(path: Any) -> Any:
        database = original(path)
        close = database.close
        database.close = lambda: spent.append(database.budget("train").spent_text) or close()
        return database

    monkeypatch.setattr(accuracy, "connect", connect)
    figures("--sets", "corners", *QUICK)
    assert spent == ["1"]


def test_a_fifth_is_held_out_and_every_row_is_in_one_part() -> None:
    """The same number draws the same rows, another number others."""
    table = SampleTable("rows", {}, pd.DataFrame({LABEL: range(103)}))
    train, test = accuracy.train_and_test(table, 3)
    assert (len(train), len(test)) == (83, 20)
    assert sorted([*train[LABEL], *test[LABEL]]) == list(range(103))
    assert accuracy.train_and_test(table, 3)[1].equals(test)
    assert not accuracy.train_and_test(table, 4)[1].equals(test)


def test_the_table_names_what_stands_beside() -> None:
    """Title and headings say what the columns are."""
    printed = run("--sets", "corners", *QUICK).stdout
    assert all(word in printed for word in ("largest class", "no privacy", "corners", "rdt", "4,000"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--method", "rdz"), 'there is no method "rdz". Did you mean'),
        (("--epsilon", "many"), "epsilon must be"),
        (("--splits", "0"), "splits"),
        (("--param", "trees"), "param must be NAME=VALUE"),
        (("--sets", "corners", "--param", "trees=0"), "trees must be"),
        (("--sets", "adult"), 'there is no table "adult"'),
    ],
)
def test_wrong_words_are_refused(words: tuple[str, ...], said: str) -> None:
    """The error is told in one sentence, with exit code 2 and nothing on stdout."""
    done = run(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
