"""Evaluating on private rows: charged first, released once, refused without a budget or where it does not fit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpsql.api.database import Database
from dpsql.errors import (
    BudgetError,
    BudgetExceeded,
    DpsqlError,
    NotRegistered,
    ParameterError,
    QueryFailed,
    SchemaError,
    UsageError,
)
from dpsql.models.evaluate import Evaluation
from dpsql.models.usable_model import Model
from dpsql.schema import Categorical, Numeric, Schema, Unit
from dpsql.trees.voting import VotingForest
from tests.tables import (
    SCHEMA,
    TARGET,
    UNITS,
    fill,
    frame_of,
    memory,
    model_of,
    on_disk,
    rows_of,
    run,
    small_forest,
    some_rows,
    some_targets,
    stored,
)

TWO = replace(SCHEMA, classes=("no", "yes"))
ROWS = some_rows(400)


def scorer(schema: Schema, name: str = "m") -> Model:
    """Return a model of log-scores that knows nothing."""
    forest = small_forest(schema, trees=3, depth=3)
    weights = np.random.default_rng(4).integers(-900, 400, (forest.leaves, len(schema.classes)))
    return model_of(VotingForest(forest, weights, 300), schema, name)


@pytest.fixture
def db() -> Iterator[Database]:
    """Open a database with the private table "people", a cap of 10 and the model "m"."""
    with memory(ROWS, cap=10) as opened:
        opened.add(scorer(SCHEMA))
        yield opened


@pytest.mark.parametrize("schema", [TWO, SCHEMA, replace(UNITS, classes=TWO.classes), UNITS], ids=lambda s: str(s.unit))
def test_without_much_noise_figures_are_those_of_the_rows(schema: Schema) -> None:
    """For a very large epsilon each figure is that of a free evaluation on the same rows."""
    with memory(ROWS, schema=schema, cap=10**6) as opened:
        model = opened.add(scorer(schema))
        found = opened.evaluate("m", "people", epsilon=10**5)
        used = [row for row in ROWS if row[0] is not None or schema.unit.column is None]
        wanted = opened.evaluate(model, frame_of(used))
    assert found.rows == wanted.rows
    assert found.confusion.to_numpy().tolist() == wanted.confusion.to_numpy().tolist()
    for name in ("accuracy", "majority", "balanced_accuracy", "f1"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name))
    assert found.class_f1 == pytest.approx(wanted.class_f1)
    for name in ("log_loss", "brier"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), abs=0.06)
    assert (found.auc is None) == (len(schema.classes) > 2)


def test_it_is_charged_and_in_the_ledger(db: Database) -> None:
    """The charge is an entry of method "evaluate", released, with the plan and the model's digest in it."""
    found = db.evaluate("m", "people", epsilon=0.5)
    assert (found.epsilon, db.budget("people").spent_text) == ("0.5", "0.5")
    [entry] = [entry for entry in db.book.entries() if entry.method == "evaluate"]
    assert (entry.state, entry.entry_id) == ("released", found.entry)
    assert entry.plan["parameters"]["model_digest"] == db.model("m").certificate["digest"]
    assert entry.plan["steps"][0]["operation"] == "score_counts"
    assert db.verify() == []


def test_each_evaluation_is_charged_anew(db: Database) -> None:
    """Without a request id two evaluations are two charges and two releases."""
    first, second = (db.evaluate("m", "people", epsilon=0.1) for _ in range(2))
    assert db.budget("people").spent_text == "0.2"
    assert first.to_dict() != second.to_dict()


def test_one_request_is_one_release(db: Database) -> None:
    """The same request id gives the same bytes and charges nothing more; with other words it is refused."""
    first = db.evaluate("m", "people", epsilon=0.5, request_id="r1")
    before = stored(db)
    again = db.evaluate("m", "people", epsilon=0.5, request_id="r1")
    assert json.dumps(again.to_dict()) == json.dumps(first.to_dict())
    assert stored(db) == before
    with pytest.raises(ParameterError, match="request_id"):
        db.evaluate("m", "people", epsilon=0.25, request_id="r1")
    db.add(scorer(SCHEMA, "other"))
    with pytest.raises(ParameterError, match="request_id"):
        db.evaluate("other", "people", epsilon=0.5, request_id="r1")


def test_a_release_survives_closing_the_file(tmp_path: Path) -> None:
    """What was paid for is still there when the file is opened again."""
    from dpsql.api.database import connect

    with on_disk(tmp_path / "data.duckdb", ROWS) as opened:
        opened.add(scorer(SCHEMA))
        first = opened.evaluate("m", "people", epsilon=0.5, request_id="r1").to_dict()
    with connect(tmp_path / "data.duckdb") as opened:
        assert opened.evaluate("m", "people", epsilon=0.5, request_id="r1").to_dict() == first


def test_the_digest_is_that_of_the_stored_counts(db: Database) -> None:
    """The ledger names the very bytes that were released."""
    import hashlib

    found = db.evaluate("m", "people", epsilon=0.5)
    [row] = rows_of(db.engine, "FROM dpsql.evaluation")
    [entry] = [entry for entry in db.book.entries() if entry.entry_id == found.entry]
    assert entry.digest == hashlib.sha256(row["noisy_counts"].encode()).hexdigest()


def test_intervals_hold_their_figures(db: Database) -> None:
    """Each figure that has a value lies within its interval, and the dictionary survives JSON."""
    found = db.evaluate("m", "people", epsilon=8).to_dict()
    for name in ("accuracy", "balanced_accuracy", "f1", "log_loss", "brier", "rows"):
        low, high = found["intervals"][name]
        assert low <= found[name] <= high
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_a_tiny_epsilon_says_that_it_says_nothing(db: Database) -> None:
    """Where noise drowns the rows there is no accuracy, and the text says why."""
    db.set_limits("people", least_epsilon="0.0001")
    found = db.evaluate("m", "people", epsilon="0.0001")
    assert isinstance(found, Evaluation)
    assert "too few rows" in str(found)
    plain = found.to_dict()
    assert (plain["accuracy"], plain["majority_class_share"], plain["log_loss"]) == (None, None, None)


def test_without_epsilon_it_is_refused_with_the_next_step(db: Database) -> None:
    """A private table, or a view of it, is never measured for free."""
    run(db.engine, "CREATE VIEW shown AS SELECT * FROM people")
    for name in ("people", "shown"):
        with pytest.raises(BudgetError) as caught:
            db.evaluate("m", name)
        assert "--epsilon" in str(caught.value.hint)
    with pytest.raises(NotRegistered):
        db.evaluate("m", "shown", epsilon=1)


def test_a_refused_charge_leaves_no_trace(db: Database) -> None:
    """More than the cap is refused before any row is read; nothing is stored."""
    before = stored(db)
    with pytest.raises(BudgetExceeded):
        db.evaluate("m", "people", epsilon=11)
    with pytest.raises(ParameterError):
        db.evaluate("m", "people", epsilon=0)
    assert stored(db) == before


def test_a_failure_keeps_the_charge(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that fails after the charge is lost, not refunded; its request is not run again."""
    from dpsql.kernel.exact import Rows

    def broken(*_: object) -> None:
        raise ValueError("42 rows")

    monkeypatch.setattr(Rows, "score_counts", broken)
    with pytest.raises(QueryFailed) as caught:
        db.evaluate("m", "people", epsilon=1, request_id="r1")
    assert "42" not in str(caught.value)
    assert db.budget("people").spent_text == "1"
    monkeypatch.undo()
    with pytest.raises(DpsqlError, match="released no evaluation"):
        db.evaluate("m", "people", epsilon=1, request_id="r1")


def test_a_plan_reads_and_charges_nothing(db: Database) -> None:
    """`plan_evaluation` says cost and noise; the ledger is as it was."""
    before = stored(db)
    plan = db.plan_evaluation("m", "people", epsilon=0.5)
    assert (plan.method, plan.nano_epsilon, plan.steps[0].operation.name) == ("evaluate", 500_000_000, "score_counts")
    assert plan.to_dict()["steps"][0]["noise_scale"] == 8  # four histograms
    assert stored(db) == before


def test_public_data_needs_no_epsilon(db: Database) -> None:
    """Epsilon for a public table or a DataFrame is refused: it is free."""
    fill(db.engine, "fresh", some_rows(10))
    with pytest.raises(UsageError, match="free"):
        db.evaluate("m", "fresh", epsilon=1)
    with pytest.raises(UsageError):
        db.evaluate("m", frame_of(some_rows(10)), epsilon=1)
    with pytest.raises(UsageError):
        db.evaluate("m", "fresh", request_id="r1")


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (replace(SCHEMA, classes=("no", "yes")), "classes"),
        (replace(SCHEMA, label="person"), "label"),
        (replace(SCHEMA, features=(Numeric("person", 0, 9),)), '"person"'),
        (replace(SCHEMA, features=(Categorical("x", ("a", "b")), Numeric("c", 0, 1))), '"x"'),
    ],
    ids=["classes", "label", "unregistered feature", "other kind"],
)
def test_a_model_must_fit_the_registered_schema(db: Database, schema: Schema, said: str) -> None:
    """Another label, other classes, or a feature that was not registered is refused before any charge."""
    db.add(scorer(schema, "misfit"))
    with pytest.raises(SchemaError, match=said):
        db.evaluate("misfit", "people", epsilon=1)
    assert db.budget("people").spent == 0


def test_numbers_are_refused() -> None:
    """A numeric target is refused with what to do instead."""
    with memory(some_targets(), schema=TARGET) as opened:
        opened.train("people", method="rdt", trees=2, depth=2, name="n")
        with pytest.raises(UsageError, match="only classes") as caught:
            opened.evaluate("n", "people", epsilon=1)
        assert "public" in str(caught.value.hint)


def test_a_registered_view_is_measured() -> None:
    """A row-to-row view is evaluated through its base table."""
    wanted = sum(row[1] is not None and row[1] < 32 and row[3] in SCHEMA.classes for row in ROWS)
    with memory() as fresh:
        fill(fresh.engine, "base", ROWS)
        run(fresh.engine, "CREATE VIEW adults AS SELECT person, x, c, y FROM base WHERE x < 32")
        fresh.register("adults", SCHEMA, cap=10**6)
        fresh.add(scorer(SCHEMA))
        assert fresh.evaluate("m", "adults", epsilon=10**5).rows == wanted


def test_units_with_many_rows_count_with_their_most() -> None:
    """At most `max_rows` rows of a unit are measured."""
    schema = replace(SCHEMA, unit=Unit("person", 2))
    with memory([(1, float(k), "a", "yes") for k in range(20)], schema=schema, cap=10**6) as opened:
        opened.add(scorer(schema))
        assert opened.evaluate("m", "people", epsilon=10**5).rows == 2
