"""Labelling a batch straight from private rows: charged first, stored once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from dpsql.api.database import Database, connect
from dpsql.engines.base import Engine
from dpsql.errors import (
    BudgetExceeded,
    DpsqlError,
    ParameterError,
    QueryFailed,
)
from dpsql.kernel.exact import Rows
from dpsql.methods.mrf.mrf import GRAIN
from dpsql.models.usable_model import Model
from dpsql.runs.label_rows import TREES_SEE, LabelRequest
from dpsql.schema import Numeric, Schema
from dpsql.trees.strategies import optimize
from tests.kernel.helpers import Watched
from tests.rows import naive_counts, walk
from tests.tables import (
    SCHEMA,
    SMALL,
    UNITS,
    Row,
    fill,
    frame_of,
    memory,
    on_disk,
    run,
    some_rows,
    stored,
)

ROWS = some_rows()
NEW = some_rows(12)
#: Those that a CSV file can hold.
FINITE = [row for row in NEW if row[1] is None or np.isfinite(row[1])]
#: At this epsilon the noise is 0, so that counts are seen as they are.
EXACT = 10**5
EVERY_WAY = pytest.mark.parametrize("way", TREES_SEE)


@pytest.fixture
def db() -> Iterator[Database]:
    """Open a database with the private table "people", a cap of 10, and the batch "fresh"."""
    with memory(ROWS, cap=10) as opened:
        fill(opened.engine, "fresh", NEW)
        yield opened


def labels(model: Model, data: str | Path = "fresh") -> list[str]:
    """Return the labels that a model gives to a batch."""
    found = model.predict(data)
    assert isinstance(found, pd.DataFrame)
    return found["prediction"].tolist()


def csv_of(path: Path) -> Path:
    """Write the rows that CSV can hold to a file and return its path."""
    frame_of(FINITE).to_csv(path, index=False)
    return path


# Structures.


def test_a_structure_is_free(db: Database) -> None:
    """It leaves no ledger entry and spends nothing."""
    before = stored(db)
    found = db.structure("people", **SMALL)
    assert (found.table, found.parameters["trees"], found.parameters["depth"]) == ("people", 3, 2)
    assert db.budget("people").spent == 0
    assert stored(db) == before


def test_a_structure_survives_json(db: Database) -> None:
    """Its text leads to the same structure, all parameters written out."""
    found = db.structure("people", seed=7, strategy="identity", **SMALL)
    assert LabelRequest.from_json(found.to_json()) == found
    assert json.loads(found.to_json())["parameters"] == dict(found.parameters)


def test_the_same_trees_from_a_value_a_file_and_a_model(db: Database, tmp_path: Path) -> None:
    """A structure, its JSON file and a stored model of the same parameters all lead to one plan."""
    found = db.structure("people", **SMALL)
    file = tmp_path / "trees.json"
    file.write_text(found.to_json(), encoding="utf-8")
    db.train("people", method="mrf", name="trained", epsilon=1, trees=3, depth=2)
    plans = [db.plan_batch(one, "fresh")[0].to_dict() for one in (found, file, str(file), "trained")]
    assert plans[0] == plans[1] == plans[2] == plans[3]


def test_a_released_batch_is_a_structure_too(db: Database) -> None:
    """What was released for one batch names the trees for the next."""
    first = db.predict_private(db.structure("people", seed=4, **SMALL), "fresh", epsilon=1)
    second = db.predict_private(first.name, "fresh", epsilon=1)
    assert second.certificate["plan"] == first.certificate["plan"]
    assert db.budget("people").spent_text == "2"


# Plans.


@EVERY_WAY
def test_a_plan_charges_nothing(db: Database, way: str) -> None:
    """It says the cost and who pays; the ledger is as it was."""
    before = stored(db)
    plan, table = db.plan_batch(db.structure("people", **SMALL), "fresh", epsilon=0.5, trees_see=way)
    assert (table, plan.method, plan.nano_epsilon, plan.private) == ("people", "mrf", 500_000_000, True)
    assert [step.operation for step in plan.steps] == ["linear"]
    assert (plan.parameters["batch_rows"], plan.parameters["way"]) == (len(NEW), TREES_SEE[way])
    assert stored(db) == before


@EVERY_WAY
def test_a_plan_reads_no_private_row(way: str) -> None:
    """No statement runs over private rows for a plan; the charged run has one for each step."""
    with memory(ROWS) as opened:
        fill(opened.engine, "fresh", NEW)
        watched = Watched(opened.engine)
        looked = Database(cast("Engine", watched), who="ann")
        found = looked.structure("people", ensembles=2, features=1, **SMALL)
        plan, _ = looked.plan_batch(found, "fresh", trees_see=way)
        assert watched.statements == []
        looked.predict_private(found, "fresh", trees_see=way)
        assert len(watched.statements) == sum(step.scans for step in plan.steps)
        assert all("people" in statement for statement in watched.statements)


@EVERY_WAY
def test_neighbouring_tables_have_the_same_plan(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """No row, many rows and one row less lead to the same questions: they depend on the batch alone."""
    plans = []
    for rows in ([], ROWS, ROWS[:-1]):
        monkeypatch.setattr(optimize, "_known", {})
        with memory(rows) as opened:
            fill(opened.engine, "fresh", NEW)
            plans.append(opened.plan_batch(opened.structure("people", **SMALL), "fresh", trees_see=way)[0].to_dict())
    assert plans[0] == plans[1] == plans[2]


def test_another_batch_has_another_plan(db: Database) -> None:
    """The plan names the batch by its cells, so that the ledger knows one batch from another."""
    found = db.structure("people", **SMALL)
    fill(db.engine, "others", NEW[:-1])
    fill(db.engine, "copied", NEW)
    digests = [db.plan_batch(found, name)[0].parameters["batch_digest"] for name in ("fresh", "others", "copied")]
    assert digests[0] == digests[2] != digests[1]


def test_disjoint_trees_are_one_step(db: Database) -> None:
    """With `subsample` each row is in one tree: one step of all trees, whose rows are not shared."""
    plan, _ = db.plan_batch(db.structure("people", ensembles=2, features=1, trees=6), "fresh", trees_see="parts")
    [step] = plan.steps
    assert (step.name, step.trees, step.shared, step.nano_epsilon) == ("leaves", 6, False, 10**9)
    assert plan.to_dict()["steps"][0]["rows"] == "one tree each"


def test_ensembles_share_epsilon(db: Database) -> None:
    """With `batch` every ensemble sees all rows: their parts add up to epsilon."""
    plan, _ = db.plan_batch(db.structure("people", ensembles=3, features=1, trees=6), "fresh", epsilon="0.7")
    assert len(plan.steps) == 3
    assert sum(step.nano_epsilon for step in plan.steps) == plan.nano_epsilon == 700_000_000


@EVERY_WAY
def test_a_unit_of_several_rows_has_more_noise(way: str) -> None:
    """Where a person has up to three rows, the noise of the same questions is three times as wide."""
    scales = []
    for schema in (SCHEMA, UNITS):
        with memory(ROWS, schema=schema) as opened:
            fill(opened.engine, "fresh", NEW)
            found = opened.structure("people", strategy="identity", **SMALL)
            scales.append(opened.plan_batch(found, "fresh", trees_see=way)[0].to_dict()["steps"][0]["noise_scale"])
            assert opened.predict_private(found, "fresh", trees_see=way).certificate["private"]
    assert scales == [1, 3]


def test_hard_votes_become_sums(db: Database) -> None:
    """What is optimised are sums of counts, so a structure of hard votes is asked for those."""
    plan, _ = db.plan_batch(db.structure("people", votes="hard", **SMALL), "fresh")
    assert plan.parameters["votes"] == "summed"


# What is charged and what is released.


@EVERY_WAY
def test_it_is_charged_and_in_the_ledger(db: Database, way: str) -> None:
    """Exactly epsilon is spent; the entry is released, with the plan and the digest of the stored model."""
    model = db.predict_private(db.structure("people", **SMALL), "fresh", epsilon="0.3", trees_see=way)
    assert (model.certificate["epsilon"], db.budget("people").spent_text) == ("0.3", "0.3")
    [entry] = [entry for entry in db.book.entries() if entry.method == "mrf"]
    assert (entry.state, entry.entry_id) == ("released", model.certificate["ledger_entry"])
    assert entry.digest == model.certificate["digest"]
    assert entry.plan == model.certificate["plan"]
    assert db.verify() == []


@EVERY_WAY
def test_labels_can_be_read_again_for_nothing(db: Database, way: str) -> None:
    """The model is stored: the same labels come from it later, and nothing more is charged."""
    model = db.predict_private(db.structure("people", **SMALL), "fresh", epsilon=0.5, trees_see=way)
    first, before = labels(model), stored(db)
    assert len(first) == len(NEW)
    assert set(first) <= set(SCHEMA.classes)
    assert labels(db.model(model.name)) == first
    assert stored(db) == before


def test_labels_survive_closing_the_file(tmp_path: Path) -> None:
    """What was paid for is still there when the file is opened again, by name and by request."""
    with on_disk(tmp_path / "data.duckdb", ROWS) as opened:
        fill(opened.engine, "fresh", NEW)
        found = opened.structure("people", **SMALL)
        first = labels(opened.predict_private(found, "fresh", name="mine", request_id="r1"))
    with connect(tmp_path / "data.duckdb", who="ann") as opened:
        assert labels(opened.model("mine")) == first
        assert labels(opened.predict_private(found, "fresh", request_id="r1")) == first
        assert opened.budget("people").spent_text == "1"


def test_one_request_is_one_charge(db: Database) -> None:
    """The same request id gives the same model and changes nothing; with other words it is refused."""
    found = db.structure("people", **SMALL)
    first = db.predict_private(found, "fresh", epsilon=0.5, request_id="r1")
    before = stored(db)
    again = db.predict_private(found, "fresh", epsilon=0.5, request_id="r1")
    assert again.to_json() == first.to_json()
    fill(db.engine, "others", NEW[:-1])
    for data, epsilon, way in (("fresh", 0.25, "all"), ("fresh", 0.5, "parts"), ("others", 0.5, "all")):
        with pytest.raises(ParameterError, match="request_id"):
            db.predict_private(found, data, epsilon=epsilon, trees_see=way, request_id="r1")
    assert stored(db) == before


def test_each_batch_is_charged_anew(db: Database) -> None:
    """Without a request id the same batch twice is two charges and two models."""
    found = db.structure("people", **SMALL)
    first, second = (db.predict_private(found, "fresh", epsilon=0.5) for _ in range(2))
    assert db.budget("people").spent_text == "1"
    assert db.models()["name"].tolist() == [first.name, second.name] == ["people_batch_1", "people_batch_2"]
    assert first.certificate["digest"] != second.certificate["digest"]


def test_a_batch_beyond_the_cap_is_refused(db: Database) -> None:
    """A second batch that does not fit leaves no model and no charge."""
    found = db.structure("people", **SMALL)
    db.predict_private(found, "fresh", epsilon=9.5)
    before = stored(db)
    with pytest.raises(BudgetExceeded) as caught:
        db.predict_private(found, "fresh", epsilon=0.75)
    assert (caught.value.needed, caught.value.left, caught.value.cap) == ("0.75", "0.5", "10")
    assert stored(db) == before
    assert len(db.models()) == 1


def test_a_failure_keeps_the_charge(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The charge comes before the question: a run that fails is not refunded, and leaves no model."""

    def broken(*_: object, **__: object) -> None:
        raise ValueError("42 rows")

    monkeypatch.setattr(Rows, "leaf_counts", broken)
    found = db.structure("people", **SMALL)
    with pytest.raises(QueryFailed) as caught:
        db.predict_private(found, "fresh", request_id="r1")
    assert "42" not in str(caught.value)
    monkeypatch.undo()
    assert db.budget("people").spent_text == "1"
    assert len(db.models()) == 0
    with pytest.raises(DpsqlError, match="released no model"):
        db.predict_private(found, "fresh", request_id="r1")


@EVERY_WAY
def test_the_certificate_names_the_batch(db: Database, tmp_path: Path, way: str) -> None:
    """It says how many rows, from where, and which way; a file goes by its path."""
    found = db.structure("people", **SMALL)
    file = csv_of(tmp_path / "new.csv")
    for data, rows in (("fresh", len(NEW)), (file, len(FINITE))):
        model = db.predict_private(found, data, trees_see=way)
        assert model.certificate["batch"] == {"rows": rows, "data": str(data), "way": TREES_SEE[way]}
        assert (model.certificate["table"], model.method) == ("people", "mrf")


@EVERY_WAY
def test_a_file_is_labelled_like_a_table(db: Database, tmp_path: Path, way: str) -> None:
    """A CSV file has the plan of a table of the same rows, and the model scores both alike."""
    file = csv_of(tmp_path / "new.csv")
    fill(db.engine, "same", FINITE)
    found = db.structure("people", **SMALL)
    plans = [db.plan_batch(found, data, trees_see=way)[0].to_dict() for data in (file, str(file), "same")]
    assert plans[0] == plans[1] == plans[2]
    model = db.predict_private(found, file, trees_see=way)
    assert labels(model, file) == labels(model, "same")
    assert db.budget("people").spent_text == "1"


def test_a_view_of_public_rows_is_a_batch(db: Database) -> None:
    """A view that leads to public tables is as good as a table."""
    run(db.engine, "CREATE VIEW recent AS SELECT * FROM fresh WHERE person < 3")
    assert len(labels(db.predict_private(db.structure("people", **SMALL), "recent"), "recent")) == 6


# Labels without noise.


def records(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return rows as dictionaries."""
    return [{str(name): value for name, value in one.items()} for one in frame_of(rows).to_dict("records")]


def summed(model: Model, rows: Sequence[Row], batch: Sequence[Row]) -> np.ndarray:
    """Return the rows of each class in the leaves that a batch reaches, over all trees, counted in plain Python."""
    forest = model.released.forest
    counts = np.zeros((forest.leaves, len(model.schema.classes)))
    for place, number in naive_counts(model.schema, forest, records(rows)).items():
        counts[place] = number
    return np.array([counts[walk(model.schema, forest, row)].sum(axis=0) for row in records(batch)])


@pytest.mark.parametrize("strategy", ["best", "pidentity", "marginals"])
@pytest.mark.parametrize("batch", [NEW, NEW[:1], [NEW[2]] * 5], ids=["many", "one", "equal"])
def test_without_noise_votes_are_summed_counts(batch: Sequence[Row], strategy: str) -> None:
    """Whatever is asked, the votes for the batch's rows are the exact counts of their leaves, up to rounding."""
    with memory(ROWS, cap=10**9) as opened:
        fill(opened.engine, "fresh", batch)
        found = opened.structure("people", trees=6, depth=2, strategy=strategy)
        model = opened.predict_private(found, "fresh", epsilon=10**8)
    exact, weights = summed(model, ROWS, batch), model.released.weights
    votes = [weights[walk(SCHEMA, model.released.forest, row)].sum(axis=0) for row in records(batch)]
    assert exact.any()
    assert np.abs(np.array(votes) / GRAIN - exact).max() <= 6 / 2 / GRAIN


@pytest.mark.parametrize("parameters", [{}, {"seed": 3, "depth": 1}, {"ensembles": 2, "features": 1}], ids=str)
def test_without_noise_labels_are_those_of_training(parameters: dict[str, int]) -> None:
    """A forest trained on the same trees gives the batch the same labels: the classes of the largest summed counts."""
    rows: list[Row] = [*some_rows(40), *[(k, 3.0 * k, "ab"[k % 2], ("no", "yes")[k % 2]) for k in range(17)]]
    with memory(rows, cap=10**8) as opened:
        fill(opened.engine, "fresh", NEW)
        asked: dict[str, Any] = {"trees": 6, "depth": 2, "strategy": "identity", **parameters}
        model = opened.predict_private(opened.structure("people", **asked), "fresh", epsilon=EXACT)
        trained = opened.train("people", method="mrf", epsilon=EXACT, **asked)
        found = labels(model)
        assert found == labels(trained)
    assert found == [SCHEMA.classes[k] for k in summed(model, rows, NEW).argmax(axis=1)]
    assert len(set(found)) > 1


def test_without_noise_disjoint_trees_hold_each_row_once() -> None:
    """With `subsample` all leaves together weigh every row with a class once, however many trees there are."""
    with memory(ROWS, cap=10**8) as opened:
        fill(opened.engine, "fresh", NEW)
        found = opened.structure("people", trees=6, depth=2, strategy="identity")
        weights = opened.predict_private(found, "fresh", epsilon=EXACT, trees_see="parts").released.weights
    by_class = [sum(row[3] == label for row in ROWS) for label in SCHEMA.classes]
    assert (weights.sum(axis=0) / GRAIN).tolist() == by_class
    assert weights.min() == 0


def test_questions_fit_the_batch() -> None:
    """A batch has its own strategy: for shallow trees its error is far below that of asking for every cell."""
    schema = Schema("y", ("no", "yes"), tuple(Numeric(name, 0, 1) for name in ("x0", "x1", "x2")))
    with connect(":memory:", who="ann") as opened:
        run(opened.engine, "CREATE TABLE people AS SELECT 0.1 AS x0, 0.5 AS x1, 0.9 AS x2, 'no' AS y")
        run(opened.engine, "CREATE TABLE fresh AS SELECT 0.3 AS x0, 0.5 AS x1, 0.7 AS x2")
        opened.register("people", schema, cap=1)
        plan, _ = opened.plan_batch(opened.structure("people", trees=8, depth=1), "fresh")
    assert plan.parameters["error_to_identity"][0] < 0.5
    assert plan.parameters["strategies"] != ["identity"]
    assert plan.steps[0].row_weight > 1
