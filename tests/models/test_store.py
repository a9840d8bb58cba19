"""The shelf: models come back the same from the database, names are free or taken, imports work elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.api.database import Database, connect
from dpsql.errors import ParameterError, UnknownName
from dpsql.models.release_store import MODELS
from dpsql.schema import Schema
from dpsql.trees.grid import axes
from tests.hostile import HOSTILE
from tests.rows import any_forest, schemas
from tests.tables import (
    SCHEMA,
    SMALL,
    fill,
    memory,
    model_of,
    on_disk,
    rows_of,
    small_forest,
    some_rows,
    stored,
    voting,
)

_NUMBERS = count(1)


@cache
def shared() -> Database:
    """Return one database for tests that only add to it."""
    return connect(":memory:", who="ann")


@pytest.fixture
def database() -> Iterator[Database]:
    """Open an empty database in memory."""
    with connect(":memory:", who="ann") as opened:
        yield opened


@settings(max_examples=20)
@given(schema=schemas(most=8), seed=st.integers(0, 2**32), depth=st.integers(0, 3), most=st.integers(1, 5))
def test_a_stored_model_comes_back_the_same(schema: Schema, seed: int, depth: int, most: int) -> None:
    """Schema, votes, certificate and name survive the tables."""
    forest = any_forest(axes(schema), trees=1 + seed % 5, depth=depth, seed=seed)
    model = model_of(voting(forest, len(schema.classes), seed=seed, most=most), schema, f"m{next(_NUMBERS)}")
    shared().add(model)
    back = shared().model(model.name)
    assert (back.schema, back.released.digest()) == (schema, model.released.digest())
    assert (back.certificate, back.method, back.table) == (model.certificate, model.method, model.table)


def test_a_trained_model_comes_back_the_same() -> None:
    """What `train` returns is what the shelf holds, in the database and after export."""
    with memory(some_rows()) as opened:
        trained = opened.train("people", name="one", **SMALL)
        assert opened.model("one").to_json() == trained.to_json()


def test_a_model_moves_to_another_database(tmp_path: Path, database: Database) -> None:
    """Exported to a file and added elsewhere, a model scores the same rows alike, without a ledger entry there."""
    path = tmp_path / "model.json"
    with memory(some_rows()) as opened:
        trained = opened.train("people", name="one", **SMALL)
        trained.to_json(path)
        fill(opened.engine, "fresh", some_rows(9))
        labels = trained.predict("fresh")["prediction"].tolist()
    fill(database.engine, "fresh", some_rows(9))
    moved = database.add(path)
    assert moved.predict("fresh")["prediction"].tolist() == labels
    assert rows_of(database.engine, "SELECT entry_id FROM dpsql.model") == [{"entry_id": None}]


def test_an_import_may_have_another_name(tmp_path: Path, database: Database) -> None:
    """`add(file, name=…)` stores under that name."""
    path = tmp_path / "model.json"
    model_of(voting(small_forest(), 3), SCHEMA, "one").to_json(path)
    assert database.add(path, name="two").name == "two"
    assert database.models()["name"].tolist() == ["two"]


def test_a_taken_name_is_refused_before_the_charge(tmp_path: Path) -> None:
    """A model is never overwritten: training and adding under a taken name leave no trace."""
    with on_disk(tmp_path / "data.duckdb", some_rows()) as opened:
        model = opened.train("people", name="one", **SMALL)
        before = stored(opened)
        for act in (lambda: opened.train("people", name="one", **SMALL), lambda: opened.add(model)):
            with pytest.raises(ParameterError) as caught:
                act()
            assert caught.value.name == "name"
        assert stored(opened) == before


@pytest.mark.parametrize("name", ["", " ", "\n", "x" * 201, "a\x00b", "\ud800", 7, b"x"], ids=ascii)
def test_a_name_that_cannot_be_stored_is_refused_before_the_charge(name: object) -> None:
    """Names are text of 1 to 200 characters that UTF-8 can hold; another one charges nothing."""
    with memory(some_rows()) as opened:
        with pytest.raises(ParameterError) as caught:
            opened.train("people", name=name, **SMALL)  # type: ignore[arg-type]
        assert caught.value.name == "name"
        assert opened.budget("people").spent == 0


def test_hostile_names_are_only_names(database: Database) -> None:
    """Models of any name are stored, listed and found; nothing else happens."""
    names = [name for name in HOSTILE if len(name) <= 200 and name.strip()][::20]
    released = voting(small_forest(trees=1, depth=1), 3)
    for name in names:
        database.add(model_of(released, SCHEMA, name))
    assert database.models()["name"].tolist() == names
    assert [database.model(name).name for name in names] == names


def test_names_are_given_in_turn() -> None:
    """Without a name a model is called after its table, with the next free number."""
    with memory(some_rows()) as opened:
        opened.add(model_of(voting(small_forest(), 3), SCHEMA, "people_2"))
        names = [opened.train("people", **SMALL).name for _ in range(2)]
    assert names == ["people_1", "people_3"]


def test_an_unknown_model_offers_near_names(database: Database) -> None:
    """A misspelled name is refused with the one that was meant, also where no model was ever stored."""
    with pytest.raises(UnknownName):
        database.model("adult_v1")
    database.add(model_of(voting(small_forest(), 3), SCHEMA, "adult_v1"))
    with pytest.raises(UnknownName) as caught:
        database.model("adult_v2")
    assert caught.value.nearest == ["adult_v1"]


def test_the_list_of_models_has_public_facts() -> None:
    """One row for each model, oldest first: name, method, table, trees, depth, leaves, epsilon, time, digest."""
    with memory(some_rows()) as opened:
        first = opened.train("people", epsilon="0.25", name="one", method="rosnam", **SMALL)
        opened.add(model_of(voting(small_forest(), 3), SCHEMA, "two"))
        listed = opened.models()
    assert listed["name"].tolist() == ["one", "two"]
    row = listed.iloc[0]
    assert (row["table"], row["trees"], row["epsilon"], row["digest"]) == ("people", 3, "0.25", first.released.digest())


def test_a_new_database_has_no_models(database: Database) -> None:
    """Looking changes nothing: the list is empty and no table is made."""
    assert database.models().empty
    assert "digest" in database.models().columns
    assert stored(database) == {"receipt": b""}


def test_installing_twice_changes_nothing(database: Database) -> None:
    """The model tables are made once."""
    database.add(model_of(voting(small_forest(), 3), SCHEMA, "one"))
    before = stored(database)
    MODELS.install(database.engine)
    assert stored(database) == before
