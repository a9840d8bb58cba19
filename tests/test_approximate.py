"""Approximate privacy at the front door: budgets in rho, runs that add up, words everywhere, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.api.database import Database
from dpsql.errors import BudgetExceeded, NotRegistered, ParameterError, UsageError
from dpsql.kernel.noise import approximate
from dpsql.ledger import format_epsilon, parse_delta
from dpsql.runs.parties import merge, unite
from tests.tables import SMALL, fill, frame_of, memory, on_disk, some_rows, stored

DELTA = "1e-6"
SCHEMA = dpsql.Schema.from_dict(
    {
        "label": "y",
        "classes": ["no", "yes", "maybe"],
        "batch": "person",
        "features": {
            "x": {"type": "numeric", "lower": 0, "upper": 64},
            "c": {"type": "categorical", "values": ["a", "b"]},
        },
    }
)


def rho(epsilon: int, delta: str = DELTA) -> int:
    """Return the nano-rho that (epsilon, delta) allows."""
    return approximate(epsilon * 10**9, parse_delta(delta)).nano_rho


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a file with "people", a pure cap of 2 and an approximate cap of (3, 1e-6)."""
    with on_disk(tmp_path / "data.duckdb", some_rows(), cap=2, schema=SCHEMA) as opened:
        opened.set_cap("people", 3, kind="approximate", delta=DELTA)
        yield opened


def test_the_cap_is_the_rho_of_what_the_owner_declared(database: Database) -> None:
    """A cap of (3, 1e-6) is stored in nano-rho, and shown as both."""
    found = database.budget("people", "approximate")
    assert (found.cap, found.spent, found.left) == (rho(3), 0, rho(3))
    assert found.cap_text == f"rho {format_epsilon(rho(3))} (epsilon 3)"
    assert (found.left_text, found.kind_text) == (found.cap_text, "approximate, delta 1e-6")


def test_runs_add_up_in_rho(database: Database) -> None:
    """Seven runs of epsilon 1 fit a cap of epsilon 3, where pure epsilon has room for three; the eighth is refused."""
    assert 7 * rho(1) <= rho(3) < 8 * rho(1)
    for _ in range(7):
        database.train("people", epsilon=1, delta=DELTA, method="rdt", **SMALL)
    found = database.budget("people", "approximate")
    assert found.spent == 7 * rho(1)
    assert "(epsilon 2.8" in found.spent_text
    with pytest.raises(BudgetExceeded) as caught:
        database.train("people", epsilon=1, delta=DELTA, method="rdt", **SMALL)
    assert (caught.value.needed, caught.value.left) == (format_epsilon(rho(1)), format_epsilon(rho(3) - 7 * rho(1)))
    assert database.verify() == []


def test_what_is_left_can_be_asked_for(database: Database) -> None:
    """The epsilon that is shown as left is one that a run may cost, and one a little above it is not."""
    database.train("people", epsilon="1.3", delta=DELTA, method="rdt", **SMALL)
    found = database.budget("people", "approximate")
    left = found.epsilon_text(found.left or 0)
    with pytest.raises(BudgetExceeded):
        database.train("people", epsilon=f"{float(left) + 0.0001:.4f}", delta=DELTA, method="rdt", **SMALL)
    database.train("people", epsilon=left, delta=DELTA, method="rdt", **SMALL)


def test_the_two_budgets_do_not_mix(database: Database) -> None:
    """A pure run charges the pure budget, an approximate one the other."""
    database.train("people", epsilon=2, method="rdt", **SMALL)
    assert database.budget("people", "approximate").spent == 0
    database.train("people", epsilon=2, delta=DELTA, method="rdt", **SMALL)
    assert database.budget("people").spent == 2 * 10**9


def test_a_run_may_have_another_delta_than_the_cap(database: Database) -> None:
    """What is charged is rho: the smaller the delta of a run, the less it costs and the noisier it is."""
    database.train("people", epsilon=1, delta="1e-12", method="rdt", **SMALL)
    assert database.budget("people", "approximate").spent == rho(1, "1e-12") < rho(1)


def test_a_cap_needs_a_delta_of_its_own_kind(database: Database) -> None:
    """Kind "approximate" is set with a delta, other kinds without, and a refusal leaves no trace."""
    before = stored(database)
    for wrong in ({"kind": "approximate"}, {"delta": DELTA}, {"kind": "approximate", "delta": "0.5"}):
        with pytest.raises(ParameterError) as caught:
            database.set_cap("people", 1, **wrong)  # type: ignore[arg-type]
        assert caught.value.name == "delta"
    assert stored(database) == before


def test_an_analyst_has_a_cap_in_rho_too(database: Database) -> None:
    """An analyst's cap of (1, 1e-6) lets one run through, and can be lifted."""
    database.set_cap("people", 1, analyst="ann", kind="approximate", delta=DELTA)
    database.train("people", epsilon=1, delta=DELTA, method="rdt", **SMALL)
    with pytest.raises(BudgetExceeded, match="analyst") as caught:
        database.train("people", epsilon="0.1", delta=DELTA, method="rdt", **SMALL)
    assert caught.value.measure == "rho"
    database.set_cap("people", None, analyst="ann", kind="approximate")
    database.train("people", epsilon="0.1", delta=DELTA, method="rdt", **SMALL)


def test_an_analyst_cannot_have_a_cap_of_a_kind_that_is_closed() -> None:
    """The owner opens the kind first."""
    with memory(some_rows()) as opened, pytest.raises(NotRegistered):
        opened.set_cap("people", 1, analyst="eve", kind="approximate", delta=DELTA)


def test_the_ledger_tells_kind_epsilon_delta_and_rho(database: Database) -> None:
    """Caps and charges are told as they were declared, with the rho that was booked."""
    database.train("people", epsilon=1, delta=DELTA, method="rdt", **SMALL)
    columns = ["event", "kind", "epsilon", "cap", "delta", "rho"]
    assert database.ledger("people")[columns].to_numpy().tolist() == [
        ["register", "pure", "", "2", "", ""],
        ["cap", "approximate", "", "3", "1e-6", format_epsilon(rho(3))],
        ["reserve", "approximate", "1", "", "1e-6", format_epsilon(rho(1))],
    ]


def test_a_repeated_request_costs_nothing_and_another_delta_is_another_request(database: Database) -> None:
    """The same words under one id give the stored model; another delta under it is refused."""
    first = database.train("people", delta=DELTA, request_id="r", method="rdt", **SMALL)
    again = database.train("people", delta=1e-6, request_id="r", method="rdt", **SMALL)
    assert (again.name, database.budget("people", "approximate").spent) == (first.name, rho(1))
    with pytest.raises(ParameterError, match="request_id"):
        database.train("people", delta="1e-7", request_id="r", method="rdt", **SMALL)
    with pytest.raises(ParameterError, match="request_id"):
        database.train("people", request_id="r", method="rdt", **SMALL)


def test_a_batch_takes_no_delta(database: Database) -> None:
    """Updates add up epsilon, so a batch is refused with a delta, in a plan and in a run; nothing is charged."""
    before = stored(database)
    for act in (database.plan, database.train):
        with pytest.raises(ParameterError) as caught:
            act("people", delta=DELTA, batch="3", method="rdt", **SMALL)
        assert caught.value.name == "delta"
    assert stored(database) == before


def test_models_with_a_delta_are_not_joined(database: Database) -> None:
    """Merging and uniting add up epsilon alone, so they refuse a model that has a delta."""
    models = [database.train("people", epsilon=1, delta=DELTA, method="rdt", **SMALL) for _ in range(2)]
    for join in (merge, unite):
        with pytest.raises(UsageError, match="delta"):
            join(models)


def test_a_model_says_its_delta(database: Database) -> None:
    """The model's repr, its export and its copy elsewhere carry epsilon, delta and rho."""
    model = database.train("people", epsilon=1, delta=DELTA, method="rdt", name="mine", **SMALL)
    assert repr(model).endswith("epsilon 1, delta 1e-6>")
    with memory() as elsewhere:
        kept = elsewhere.add(model).certificate
    assert (kept["kind"], kept["delta"], kept["rho"]) == ("approximate", "1e-6", format_epsilon(rho(1)))


def test_the_sklearn_front_takes_a_delta(database: Database) -> None:
    """`DPForestClassifier(delta=…)` trains under approximate privacy."""
    forest = dpsql.DPForestClassifier(1, method="rdt", delta=DELTA, **SMALL).fit(database, "people")
    assert forest.model_.certificate["delta"] == "1e-6"
    assert set(forest.predict(frame_of(some_rows()))) <= set(SCHEMA.classes)


def test_sql_takes_a_delta() -> None:
    """`dpsql_train(…, delta := …)` and `dpsql_plan(…)` work from SQL, with a number or with text."""
    with duckdb.connect() as connection:
        attached = dpsql.attach(connection, who="ann")
        fill(attached.engine, "people", some_rows())
        attached.register("people", SCHEMA, cap=5)
        attached.set_cap("people", 3, kind="approximate", delta=DELTA)
        asked = "FROM dpsql_train('people', epsilon := 1, delta := {}, method := 'rdt', trees := 3, depth := 2)"
        for delta in ("'1e-6'", "0.000001", "1e-6"):
            row = connection.execute("SELECT epsilon, delta, rho " + asked.format(delta)).fetchone()
            assert row == ("1", "1e-6", format_epsilon(rho(1)))
        [noise] = connection.execute(
            "SELECT noise_scale FROM dpsql_plan('people', delta := 1e-6, method := 'rdt', trees := 3, depth := 2)"
        ).fetchall()
        plan = attached.plan("people", delta=DELTA, method="rdt", trees=3, depth=2)
        assert noise[0] == plan.to_dict()["steps"][0]["noise_scale"]
        booked = connection.execute(
            "SELECT epsilon, rho FROM dpsql_ledger() WHERE event = 'reserve' LIMIT 1"
        ).fetchone()
        assert booked is not None
        assert (booked[0], format_epsilon(int(booked[1] * 10**9))) == (None, format_epsilon(rho(1)))
