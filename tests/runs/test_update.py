"""Updates: a new batch's noisy counts are added to a model, charged on that batch alone, and the certificate tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpsql.api.database import Database
from dpsql.errors import BudgetExceeded, DpsqlError, ParameterError, UsageError
from dpsql.models.usable_model import Model
from dpsql.runs.update import rebuild_gain
from dpsql.schema import Schema, Unit
from dpsql.trees.serialize import node_columns
from tests.kernel.helpers import has_scale
from tests.tables import SCHEMA, fill, frame_of, plain, some_rows, stored
from tests.test_batch import BATCHED, EXACT, RDT, batched

SIZES = [("a", 6), ("b", 9), ("c", 4)]


@pytest.fixture
def database() -> Iterator[Database]:
    """Open a database with three batches of "people" and a cap of 1."""
    with batched(SIZES, cap=1) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[Database, Model, Model]]:
    """Return a database, a model of batch a at epsilon 0.5 and its update by b, then c; tests only look."""
    with batched(SIZES, cap=1) as opened:
        first = opened.train("people", epsilon="0.5", batch="a", name="first", **RDT)
        yield opened, first, first.update("b").update("c", epsilon="0.25", name="last")


def same_structure(one: Model, other: Model) -> bool:
    """Whether two models have the same trees."""
    mine, theirs = (node_columns(model.released.forest) for model in (one, other))
    return all(np.array_equal(mine[name], theirs[name]) for name in mine)


def test_the_counts_add_up() -> None:
    """With almost no noise, an updated model's weights are those of both batches' own models on the same trees."""
    with batched(SIZES) as opened:
        first, second = (opened.train("people", epsilon=EXACT, batch=batch, **RDT) for batch in "ab")
        updated = first.update("b")
        assert same_structure(first, updated)
        assert (updated.released.weights == first.released.weights + second.released.weights).all()
        assert updated.released.weights.sum() == 2 * (6 + 9)


def test_the_update_adds_one_batch_of_noise() -> None:
    """The new weights are the old ones, noise and all, plus noise of the update's own scale, and no less of it."""
    with batched([]) as opened:
        first = opened.train("people", epsilon=2, batch="a", method="rdt", trees=10, depth=8)
        noise = first.update("b", epsilon=1).released.weights - first.released.weights
    assert noise.size > 2000
    assert has_scale(noise, 10)
    assert not has_scale(noise, 10 * 1.3)
    assert not has_scale(noise, 10 * 0.7)


def test_the_old_model_stays(shared: tuple[Database, Model, Model]) -> None:
    """An update is a new model; the one before is on the shelf as it was."""
    opened, first, last = shared
    assert opened.model("first").to_json() == first.to_json()
    assert opened.model("last").to_json() == last.to_json()
    assert opened.models()["name"].tolist() == ["first", "people_1", "last"]


def test_a_row_pays_once(shared: tuple[Database, Model, Model]) -> None:
    """Three batches of 0.5, 0.5 and 0.25 cost no row more than 0.5; each has its own entry and scope."""
    opened = shared[0]
    entries = [(entry.scope, entry.amount_text) for entry in opened.book.entries(event="reserve")]
    assert entries == [("month=a", "0.5"), ("month=b", "0.5"), ("month=c", "0.25")]
    assert opened.budget("people").spent_text == "0.5"


def test_the_certificate_tells_batches_and_composition(shared: tuple[Database, Model, Model]) -> None:
    """It lists each batch with its epsilon and noise; epsilon is the largest; it names the model before."""
    opened, _, last = shared
    card = last.certificate
    assert card["batches"] == ["a", "b", "c"]
    assert card["updates"] == [
        {"batch": "a", "epsilon": "0.5", "noise_scale": 4.0},
        {"batch": "b", "epsilon": "0.5", "noise_scale": 4.0},
        {"batch": "c", "epsilon": "0.25", "noise_scale": 8.0},
    ]
    assert (card["epsilon"], card["composition"]) == ("0.5", "parallel over disjoint batches")
    assert card["updated_from"] == opened.model("people_1").certificate["digest"]
    assert card["digest"] == last.released.digest()


def test_the_certificate_survives_the_file(shared: tuple[Database, Model, Model]) -> None:
    """An updated model comes back from its JSON the same, certificate included."""
    last = shared[2]
    assert Model.from_json(last.to_json()).to_json() == last.to_json()
    assert plain(last.to_json())["certificate"]["batches"] == ["a", "b", "c"]


def test_sql_predicts_what_python_predicts(shared: tuple[Database, Model, Model]) -> None:
    """An updated model gives each row the same class in SQL and in Python."""
    opened, _, last = shared
    fill(opened.engine, "fresh", some_rows(60))
    assert last.predict("fresh")["prediction"].tolist() == last.labels(frame_of(some_rows(60))).tolist()


def test_at_unit_level_the_epsilons_add_up() -> None:
    """A person may be in all batches: the certificate's epsilon, and the budget, are the sums."""
    with batched(SIZES, schema=replace(BATCHED, unit=Unit("person", 2))) as opened:
        updated = opened.train("people", epsilon="0.5", batch="a", **RDT).update("b").update("c", epsilon="0.25")
        assert updated.certificate["epsilon"] == opened.budget("people").spent_text == "1.25"
    assert updated.certificate["composition"].startswith("sequential")


def test_a_batch_is_counted_once(shared: tuple[Database, Model, Model]) -> None:
    """A batch that the model has seen, first or later, is refused; nothing is charged."""
    opened, _, last = shared
    before = stored(opened)
    for batch in "abc":
        with pytest.raises(ParameterError) as caught:
            last.update(batch)
        assert caught.value.name == "batch"
    assert stored(opened) == before


def test_a_number_is_not_a_second_name_of_a_batch() -> None:
    """After batch "0", the number 0 is refused, not counted again."""
    with batched([(0, 3)], kind="INTEGER") as opened:
        model = opened.train("people", batch="0", **RDT)
        before = stored(opened)
        with pytest.raises(ParameterError):
            model.update(0)  # type: ignore[arg-type]
        assert stored(opened) == before


@pytest.mark.parametrize(
    "ask",
    [
        lambda db: db.train("people", epsilon="0.5", trees=2, depth=1, batch="a"),
        lambda db: db.train("people", epsilon="0.5", **RDT),
    ],
    ids=["rosnam", "whole table"],
)
def test_other_models_cannot_be_updated(database: Database, ask: Callable[[Database], Model]) -> None:
    """Only counts that were trained on a batch can take another; the refusal charges nothing."""
    model = ask(database)
    before = stored(database)
    with pytest.raises(UsageError, match="cannot be updated"):
        model.update("b")
    assert stored(database) == before


@pytest.mark.parametrize(
    "schema",
    [
        replace(BATCHED, features=BATCHED.features[:1]),
        replace(BATCHED, features=BATCHED.features[::-1]),
        replace(BATCHED, classes=("yes", "no", "maybe")),
        replace(BATCHED, classes=("yes", "no")),
        replace(BATCHED, batch="person"),
        SCHEMA,
    ],
    ids=["fewer features", "other order", "other class order", "fewer classes", "other batches", "no batches"],
)
def test_a_table_that_means_something_else_is_refused(database: Database, schema: Schema) -> None:
    """After --replace the counts of old and new rows would not be of the same things; nothing is charged."""
    model = database.train("people", epsilon="0.5", batch="a", **RDT)
    database.register("people", schema, cap=1, replace=True)
    before = stored(database)
    with pytest.raises(UsageError, match="not as it was"):
        model.update("b")
    assert stored(database) == before


def test_another_declared_size_does_not_matter(database: Database) -> None:
    """`rows` may be declared anew as the table grows."""
    model = database.train("people", epsilon="0.5", batch="a", **RDT)
    database.register("people", replace(BATCHED, rows=5000), cap=1, replace=True)
    assert model.update("b").certificate["batches"] == ["a", "b"]


def test_a_model_of_another_database_is_refused(database: Database) -> None:
    """A table of the same name elsewhere is another dataset."""
    with batched(SIZES, cap=1) as other:
        model = other.train("people", epsilon="0.5", batch="a", **RDT)
    before = stored(database)
    with pytest.raises(UsageError, match="not as it was"):
        database.update(model, "b")
    assert stored(database) == before


def test_a_repeated_request_returns_the_stored_update(database: Database) -> None:
    """The same request id gives the same bytes and one charge; another batch under it is refused."""
    model = database.train("people", epsilon="0.5", batch="a", **RDT)
    once = database.update(model, "b", request_id="r")
    before = stored(database)
    assert database.update(model, "b", request_id="r").to_json() == once.to_json()
    with pytest.raises(ParameterError) as caught:
        database.update(model, "c", request_id="r")
    assert caught.value.name == "request_id"
    assert stored(database) == before


def test_the_cap_holds_for_the_new_batch(database: Database) -> None:
    """An update above the cap is refused without a trace."""
    model = database.train("people", epsilon="0.5", batch="a", **RDT)
    before = stored(database)
    with pytest.raises(BudgetExceeded):
        model.update("b", epsilon=2)
    assert stored(database) == before


def test_a_model_without_a_database_says_where_to_go(shared: tuple[Database, Model, Model]) -> None:
    """A model read from a file has no table to count."""
    with pytest.raises(ParameterError, match="stored in a database"):
        Model.from_json(shared[2].to_json()).update("d")


@pytest.mark.parametrize(("count", "factor"), [(2, "1.4"), (4, "2.0"), (9, "3.0"), (16, "4.0")])
def test_equal_batches_cost_the_square_root_in_noise(count: int, factor: str) -> None:
    """After k equal batches the noise is sqrt(k) times what one run on all of them would have."""
    updates: list[dict[str, Any]] = [{"noise_scale": 10.0}] * count
    told = rebuild_gain({"updates": updates}) or ""
    assert told.startswith(
        f"{count} batches, counted one by one: noise of standard deviation {200**0.5 * count**0.5:.3g}"
    )
    assert f"would be 14.1 ({factor} times less)" in told


def test_the_gain_is_over_the_dearest_batch(shared: tuple[Database, Model, Model]) -> None:
    """With unequal epsilons a new run is taken at the largest: sqrt(4² + 4² + 8²) = 9.80 against 4."""
    told = rebuild_gain(shared[2].certificate) or ""
    assert "standard deviation 13.9 " in told
    assert "would be 5.66 (2.4 times less)" in told


def test_a_model_without_updates_has_no_gain(shared: tuple[Database, Model, Model]) -> None:
    """There is nothing to tell before the first update."""
    assert rebuild_gain(shared[1].certificate) is None


def test_an_unknown_model_is_a_typed_error(database: Database) -> None:
    """Updating a name that is not on the shelf names it."""
    with pytest.raises(DpsqlError, match='no model "nope"'):
        database.update("nope", "a")


def test_an_empty_request_id_is_refused_and_charges_nothing(database: Database) -> None:
    """An unset variable in a script: the second run would charge again. So for every kind of run."""
    model = database.train("people", epsilon="0.1", batch="a", **RDT)
    before = stored(database)
    runs: list[Callable[[], Any]] = [
        lambda: database.update(model, "b", request_id=""),
        lambda: database.train("people", epsilon="0.1", batch="b", request_id="", **RDT),
        lambda: database.contribute("people", database.export_structure("people", trees=2, depth=2), request_id=""),
        lambda: database.advise("people", buy="0.1", request_id=""),
        lambda: database.evaluate(model, "people", epsilon="0.1", request_id=""),
    ]
    for run in runs:
        with pytest.raises(ParameterError, match="request_id must be text, not empty"):
            run()
    assert stored(database) == before
