"""Every method's model can be explained, for free, from its released values alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpsql.api.database import connect
from dpsql.models.usable_model import Model
from tests.models.explain.made import naive_bayes
from tests.models.explain.test_class_profiles import PEOPLE, people
from tests.tables import TARGET, WAYS, fitted, memory, some_rows, some_targets, stored


@pytest.mark.parametrize("way", WAYS)
def test_every_method_is_explained_for_free(way: str) -> None:
    """Importance sums to 1 (or is 0 throughout), each class has a profile, and nothing stored changes: no charge."""
    asked = fitted(way)
    with memory(some_rows(200), schema=asked.schema, kind=asked.kind) as database:
        model = database.train("people", epsilon=2, name="m", **asked.asked)
        before = stored(database)
        learned = model.explain()
        assert stored(database) == before
    assert learned.importance.sum() == pytest.approx(1) or not learned.importance.any()
    assert set(learned.importance.index) == {"c", "x"}
    assert [profile.name for profile in learned.profiles] == list(asked.schema.classes)
    assert learned.epsilon == "2"
    assert learned.neighbours in str(learned)


@pytest.mark.parametrize("method", ["rdt", "spe"])
def test_a_model_of_a_number_is_explained(method: str) -> None:
    """A regression model has two profiles, high and low."""
    with memory(some_targets(200), schema=TARGET) as database:
        learned = database.train("people", epsilon=2, **fitted(method, TARGET).asked).explain()
    assert [profile.name for profile in learned.profiles] == ["high", "low"]
    assert "a number from 0 to 10" in str(learned)


def test_no_table_is_needed(tmp_path: Path) -> None:
    """An exported model, read back where there is no database, is explained in the same words."""
    with memory(some_rows(200)) as database:
        model = database.train("people", epsilon=2, name="m", trees=3, depth=2)
        learned = model.explain()
        model.to_json(tmp_path / "m.json")
    alone = Model.from_json(tmp_path / "m.json")
    assert alone.database is None
    assert alone.explain() == learned


def test_rows_that_change_afterwards_change_nothing() -> None:
    """The explanation reads no row: with the private table gone it is the same."""
    with memory(some_rows(200)) as database:
        model = database.train("people", epsilon=2, name="m", trees=3, depth=2)
        learned = model.explain()
        with database.engine.transaction() as transaction:
            transaction.run("DELETE FROM people")
        assert database.model("m").explain() == learned


def test_facts_come_back_with_a_stored_model(tmp_path: Path) -> None:
    """Noisy counts in a certificate survive the database, and explain the same."""
    model = naive_bayes(PEOPLE, people(2000), scale=5)
    plain = Model.from_json(model.to_json())
    with connect(tmp_path / "data.duckdb", create=True) as database:
        kept = database.add(plain, name="kept")
        assert database.model("kept").explain().profiles == kept.explain().profiles
        assert kept.explain().profiles == model.explain().profiles
        assert all(effect.counted for effect in kept.explain().effects)


def test_the_dictionary_is_plain_and_whole() -> None:
    """`to_dict` survives JSON, and has the importance, the groups and the reasons."""
    learned = naive_bayes(PEOPLE, people(2000), scale=5).explain()
    found = json.loads(json.dumps(learned.to_dict()))
    assert found["model"] == "made"
    assert [effect["feature"] for effect in found["effects"]] == list(learned.importance.index)
    assert found["profiles"][1]["reasons"][0]["text"] == learned.profiles[1].reasons[0].text


def test_the_summary_says_what_cost_and_what_is_free() -> None:
    """The text names label, classes, features, epsilon and neighbours, and that the summary is free."""
    text = str(naive_bayes(PEOPLE, people(2000), scale=5).explain())
    for words in (
        "income, one of low or high",
        "4 of 4 features",
        "epsilon 1",
        "add or remove one row",
        "costs nothing",
    ):
        assert words in text


def test_top_limits_the_bars() -> None:
    """With `top` the rest is summed up in one line."""
    learned = naive_bayes(PEOPLE, people(2000), scale=5).explain()
    text = learned.text(top=1)
    assert text.count("█  ") + text.count("█\n") == 1
    assert "3 more" in text
