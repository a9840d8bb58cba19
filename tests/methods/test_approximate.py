"""One contract for all methods under approximate privacy: stated rho is charged rho, refusals leave no trace."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dpsql import methods
from dpsql.api.database import Database
from dpsql.errors import BudgetExceeded, ParameterError
from dpsql.kernel.noise import approximate
from dpsql.ledger import format_epsilon, parse_delta
from dpsql.models.usable_model import Model
from dpsql.schema import Schema
from tests.kernel.helpers import Watched
from tests.tables import SCHEMA, TARGET, UNITS, WAYS, Row, fitted, frame_of, memory, on_disk, shape, some_rows, stored

DELTA = "1e-6"
#: Methods that take a delta: those that do not read rows without labels.
METHODS = [name for name in methods.METHODS if "unlabelled" not in methods.get(name).parameters]
EACH = pytest.mark.parametrize("method", METHODS)
OTHERS = pytest.mark.parametrize("method", [way for way in WAYS if way not in METHODS])
LEVELS = pytest.mark.parametrize("schema", [SCHEMA, UNITS], ids=["row", "unit"])


def opened_for(database: Database, cap: object = 3) -> Database:
    """Return the database with a budget of kind "approximate" for "people"."""
    database.set_cap("people", cap, kind="approximate", delta=DELTA)
    return database


@cache
def trained(method: str) -> tuple[Database, Model]:
    """Return a database and a model trained in it at (0.75, 1e-6), made once for all tests that only look."""
    database = opened_for(memory(some_rows()))
    return database, database.train("people", epsilon="0.75", delta=DELTA, name="m", **fitted(method).asked)


@EACH
def test_the_stated_rho_is_the_charged_rho(method: str) -> None:
    """Plan, ledger entry, budget and certificate all say the rho of what was asked for; pure epsilon is untouched."""
    opened, model = trained(method)
    plan = opened.plan("people", epsilon="0.75", delta=DELTA, **fitted(method).asked)
    entry, kept = opened.book.entries(event="reserve")[-1], model.certificate
    rho = approximate(750_000_000, parse_delta(DELTA)).nano_rho
    assert plan.charge == entry.amount == opened.budget("people", "approximate").spent == rho
    assert (kept["epsilon"], kept["delta"], kept["rho"]) == ("0.75", "1e-6", format_epsilon(rho))
    assert plan.kind == entry.kind == kept["kind"] == "approximate"
    assert opened.budget("people").spent == 0
    assert kept["private"] is True


@EACH
def test_the_plan_before_is_the_plan_after(method: str) -> None:
    """What `plan` prints is what the ledger entry and the certificate record, with epsilon, delta and rho."""
    opened, model = trained(method)
    planned = opened.plan("people", epsilon="0.75", delta=DELTA, **fitted(method).asked).to_dict()
    assert opened.book.entries(event="reserve")[-1].plan == model.certificate["plan"] == planned
    assert (planned["epsilon"], planned["delta"]) == ("0.75", "1e-6")


@EACH
@LEVELS
@pytest.mark.parametrize("rows", [[], some_rows()], ids=["empty", "all kinds"])
def test_whatever_the_rows_a_model_comes_out(method: str, rows: list[Row], schema: Schema) -> None:
    """Empty and odd tables train and predict at row and at unit level; declared sizes or not."""
    for declared in (None, 1000):
        table = Schema(schema.label, schema.classes, schema.features, schema.unit, rows=declared)
        with opened_for(memory(rows, schema=table)) as opened:
            asked = {name: value for name, value in fitted(method, limit=4096).asked.items() if name != "depth"}
            labels = opened.train("people", delta=DELTA, **asked).predict(frame_of(some_rows()))
            assert set(labels) <= set(schema.classes)


@pytest.mark.parametrize("method", ["rdt", "spe"])
def test_numbers_are_predicted_too(method: str) -> None:
    """A numeric target trains under approximate privacy."""
    with opened_for(memory([(1, 1.0, "a", 5.0)], schema=TARGET)) as opened:
        assert opened.train("people", delta=DELTA, method=method, trees=3, depth=2).certificate["delta"] == DELTA


@EACH
def test_a_method_learns(method: str) -> None:
    """With much epsilon and a plain rule the model predicts it."""
    rows: list[Row] = [(k, float(k % 64), "a", "yes" if k % 64 < 32 else "no") for k in range(3000)]
    way = fitted(method, depth=6, trees=9)
    with opened_for(memory(rows), cap=1000) as opened:
        frame = frame_of(rows[:64])
        assert (opened.train("people", epsilon=100, delta=DELTA, **way.asked).predict(frame) == frame["y"]).mean() > 0.8


@EACH
def test_pure_epsilon_alone_is_allowed_until_the_owner_says_otherwise(method: str, tmp_path: Path) -> None:
    """Where no budget of this kind was opened a run is refused: exit code 3, a next step, no trace."""
    with on_disk(tmp_path / "data.duckdb", some_rows(), cap=1000) as opened:
        before = stored(opened)
        with pytest.raises(BudgetExceeded, match="approximate") as caught:
            opened.train("people", delta=DELTA, **fitted(method).asked)
        assert (caught.value.exit_code, caught.value.measure) == (3, "rho")
        assert "--kind approximate" in str(caught.value.hint)
        assert stored(opened) == before


@EACH
def test_a_run_beyond_the_cap_leaves_no_trace(method: str, tmp_path: Path) -> None:
    """What does not fit the cap in rho is refused, though pure epsilon has plenty left."""
    with opened_for(on_disk(tmp_path / "data.duckdb", some_rows(), cap=1000), cap=1) as opened:
        before = stored(opened)
        with pytest.raises(BudgetExceeded):
            opened.train("people", epsilon="1.0001", delta=DELTA, **fitted(method).asked)
        assert stored(opened) == before


@OTHERS
def test_rows_without_labels_take_no_delta(method: str) -> None:
    """Methods that read rows without labels, or protect labels alone, refuse a delta before anything is charged."""
    way = fitted(method)
    with memory(some_rows(), schema=way.schema, kind=way.kind) as opened:
        before = stored(opened)
        with pytest.raises(ParameterError) as caught:
            opened.train("people", delta=DELTA, **way.asked)
        assert caught.value.name == "delta"
        assert stored(opened) == before


@pytest.mark.parametrize("method", [name for name in METHODS if "as_published" in methods.get(name).parameters])
def test_published_forms_take_no_delta(method: str) -> None:
    """A form without a proof is refused with a delta, on public data too."""
    with memory(some_rows(), cap=None) as opened, pytest.raises(ParameterError, match="delta"):
        opened.train("people", delta=DELTA, as_published=True, **fitted(method).asked)


def artifact(rows: list[Row], method: str) -> dict[str, Any]:
    """Return what a run leaves or sends, released values replaced by their types."""
    with opened_for(memory(rows, schema=UNITS)) as opened:
        watched = Watched(opened.engine)
        database = Database(watched, who="ann")  # type: ignore[arg-type]
        model = database.train("people", epsilon=1, delta=DELTA, request_id="r", **fitted(method, UNITS).asked)
        whole = methods.get(method).trees_are_public
        return {
            "statements": watched.statements if whole else watched.statements[:1],
            "plan": model.certificate["plan"],
            # A method's own notes, and whether leaves hold log-scores, follow from noisy answers.
            "certificate": shape(
                {key: value for key, value in model.certificate.items() if key not in ("facts", "nat")}
            ),
            "entries": [shape(vars(entry)) for entry in database.book.entries()],
            "budget": database.budget("people", "approximate").spent,
            "leaves": len(model.released.weights) if whole else None,
        }


@EACH
def test_neighbours_leave_the_same_shape(method: str) -> None:
    """A unit more or less changes no statement, no plan, no charge and no length."""
    rows = some_rows()
    assert artifact(rows, method) == artifact([row for row in rows if row[0] != 3], method) == artifact([], method)
