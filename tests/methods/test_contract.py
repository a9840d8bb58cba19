"""One contract for all methods: stated cost is charged cost, rows are never an error, refusals leave no trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dpsql import methods
from dpsql.api.database import Database
from dpsql.errors import BudgetExceeded, DpsqlError, NotPrivate, ParameterError, UnknownName
from dpsql.ledger import format_epsilon
from dpsql.methods.base import Flag, Integer, Parameter, Text
from dpsql.models.usable_model import Model
from dpsql.schema import Schema
from tests.tables import (
    LABEL_WAYS,
    SCHEMA,
    UNITS,
    WAYS,
    Fitted,
    Row,
    fitted,
    frame_of,
    memory,
    on_disk,
    some_rows,
    stored,
)

METHODS = pytest.mark.parametrize("method", WAYS)
#: The ways that protect labels alone.
LABELS = pytest.mark.parametrize("method", LABEL_WAYS)
#: The methods whose paper has a form without a proof.
PUBLISHED = pytest.mark.parametrize(
    "method", [name for name, method in methods.METHODS.items() if "as_published" in method.parameters]
)


def asked(method: str) -> dict[str, Any]:
    """Return what a short run of this method is asked with."""
    return fitted(method).asked


def prepared(rows: list[Row], way: Fitted, cap: int = 1) -> Database:
    """Return a database in memory with the budget that a way to run a method needs."""
    return memory(rows, schema=way.schema, cap=cap, kind=way.kind)


@cache
def trained(method: str) -> tuple[Database, Model]:
    """Return a database and a model trained in it at epsilon 0.75, made once for all tests that only look."""
    database = prepared(some_rows(), fitted(method), cap=3)
    return database, database.train("people", epsilon="0.75", name="m", **asked(method))


@pytest.fixture
def database(method: str, tmp_path: Path) -> Iterator[Database]:
    """Open a file with "people" registered at cap 1, of the kind that the method is charged."""
    way = fitted(method)
    with on_disk(tmp_path / "data.duckdb", some_rows(), schema=way.schema, cap=1, kind=way.kind) as opened:
        yield opened


@METHODS
def test_the_stated_cost_is_the_charged_cost(method: str) -> None:
    """Plan, ledger entry, budget and certificate all say the epsilon that was asked for."""
    opened, model = trained(method)
    plan = opened.plan("people", epsilon="0.75", **asked(method))
    entries, kind = opened.book.entries(event="reserve"), fitted(method).kind
    charged = sum(entry.amount for entry in entries)  # a size that is bought has an entry of its own
    assert plan.nano_epsilon == charged == opened.budget("people", kind).spent == 750_000_000
    assert model.certificate["epsilon"] == "0.75"


@METHODS
def test_the_kind_of_privacy_is_the_same_everywhere(method: str) -> None:
    """Plan, ledger entry and certificate name one kind and its neighbours, and no other budget is touched."""
    opened, model = trained(method)
    way = fitted(method)
    plan = opened.plan("people", epsilon="0.75", **asked(method))
    entry = opened.book.entries(event="reserve")[-1]
    assert plan.kind == entry.kind == model.certificate["kind"] == way.kind
    expected = "change the label of one row" if method in LABEL_WAYS else "add or remove one row"
    assert plan.promise.neighbours == entry.neighbours == model.certificate["neighbours"] == expected
    assert [budget.spent for budget in opened.budgets() if budget.kind != way.kind] == [0] * (way.kind == "label")


@METHODS
def test_the_plan_before_is_the_plan_after(method: str) -> None:
    """What `plan` prints is what the ledger entry and the certificate record."""
    opened, model = trained(method)
    planned = opened.plan("people", epsilon="0.75", **asked(method)).to_dict()
    recorded = opened.book.entries(event="reserve")[-1].plan
    assert model.certificate["plan"] == recorded
    if "size" in model.certificate:  # by now the size is bought, and a plan for it has all of epsilon
        assert recorded["parameters"]["size_entry"] == planned["parameters"]["size_entry"]
    else:
        assert recorded == planned


@METHODS
def test_no_step_costs_more_than_the_plan(method: str) -> None:
    """Each step's epsilon is positive (0 for what is public) and within the whole; the composition gives the whole."""
    plan = trained(method)[0].plan("people", epsilon="0.75", **asked(method))
    paid = [step for step in plan.steps if not step.free]
    assert all(0 < step.nano_epsilon <= plan.nano_epsilon for step in paid)
    assert all(step.nano_epsilon == step.scale(plan.promise) == 0 for step in plan.steps if step.free)
    assert (len(paid) < len(plan.steps)) == (method in LABEL_WAYS)
    assert format_epsilon(plan.composition.cost) == "0.75"


@METHODS
def test_the_certificate_names_its_entry(method: str) -> None:
    """Ledger number, hash, digest and neighbours of the certificate are those of the entry."""
    opened, model = trained(method)
    entry = opened.book.entries(event="reserve")[-1]
    kept = model.certificate
    assert (kept["ledger_entry"], kept["ledger_hash"]) == (entry.entry_id, entry.hash)
    assert (kept["digest"], kept["neighbours"], kept["unit"]) == (entry.digest, entry.neighbours, entry.unit)
    assert kept["private"] is True


@METHODS
def test_planning_leaves_no_trace(method: str, database: Database) -> None:
    """A plan reads no row and charges nothing."""
    before = stored(database)
    database.plan("people", epsilon=5, **asked(method))
    assert stored(database) == before


TABLES: dict[str, list[Row]] = {
    "empty": [],
    "one row": [(1, 1.0, "a", "no")],
    "one class": [(k, float(k), "b", "maybe") for k in range(9)],
    "all NULL": [(None, None, None, None)] * 3,
    "unseen values": [(k, 1e308 * (-1) ** k, "never declared", "never declared") for k in range(9)],
}


@METHODS
@pytest.mark.parametrize("schema", [SCHEMA, UNITS], ids=["row", "unit"])
@pytest.mark.parametrize("rows", TABLES.values(), ids=TABLES)
def test_whatever_the_rows_a_model_comes_out(method: str, rows: list[Row], schema: Schema) -> None:
    """Empty tables, one row, one class, NULL and unseen values train, charge and predict like any other."""
    way = fitted(method, schema)
    with prepared(rows, way) as opened:
        model = opened.train("people", **way.asked)
        labels = model.predict(frame_of(some_rows()))
        assert set(labels) <= set(schema.classes)
        assert (len(labels), opened.budget("people", way.kind).spent) == (46, 10**9)
        assert model.certificate["neighbours"] == way.promise.neighbours


def parameters_of(method: str) -> Mapping[str, Parameter]:
    """Return the parameters of the method that a way runs."""
    return methods.get(WAYS[method][0]).parameters


@METHODS
def test_a_method_learns(method: str) -> None:
    """With much epsilon and a plain rule the model predicts it: the noise is not all there is."""
    rows: list[Row] = [(k, float(k % 64), "a", "yes" if k % 64 < 32 else "no") for k in range(3000)]
    way = fitted(method, depth=6, trees=9, more_trees=9)
    # Half as many rows again without a label, for methods that learn from these too.
    without = [(k, float(k % 64), "a", None) for k in range(1500)] if "unlabelled" in parameters_of(method) else []
    with prepared(rows + without, way, cap=1000) as opened:
        model = opened.train("people", epsilon=100, **way.asked)
        frame = frame_of(rows[:64])
        assert (model.predict(frame) == frame["y"]).mean() > 0.8


@METHODS
def test_a_refused_run_leaves_no_trace(method: str, database: Database) -> None:
    """A run beyond the cap changes no ledger row, no receipt and no model."""
    before = stored(database)
    with pytest.raises(BudgetExceeded) as caught:
        database.train("people", epsilon="1.000000001", **asked(method))
    assert (caught.value.needed, caught.value.left, caught.value.cap) == ("1.000000001", "1", "1")
    assert stored(database) == before


def _bad(method: str) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for name, parameter in methods.get(method).parameters.items():
        if isinstance(parameter, Integer):
            found += [(name, bad) for bad in (parameter.lowest - 1, parameter.highest + 1, "x", "3", True)]
            found += [(name, bad) for bad in (float("nan"), 2.5, [3])]
        elif isinstance(parameter, Text):
            found += [(name, bad) for bad in ("", " \n", 0, True, ["x"], "x" * 10_001)]
        elif isinstance(parameter, Flag):
            found += [(name, bad) for bad in (1, "yes", "false")]
        else:
            found += [(name, bad) for bad in ("none of them", 0, True)]
    return found


@pytest.mark.parametrize(
    ("method", "name", "bad"), [(method, *pair) for method in methods.METHODS for pair in _bad(method)]
)
def test_a_bad_parameter_is_refused(method: str, name: str, bad: object) -> None:
    """A parameter outside what its method allows raises ParameterError with its name, before anything is charged."""
    opened, kind = trained(method)[0], fitted(method).kind
    spent = opened.budget("people", kind).spent
    with pytest.raises((ParameterError, UnknownName)) as caught:
        opened.train("people", **{**asked(method), name: bad})
    assert caught.value.name == (name if isinstance(caught.value, ParameterError) else bad)
    assert opened.budget("people", kind).spent == spent


@METHODS
def test_an_unknown_parameter_offers_the_nearest(method: str) -> None:
    """A misspelled parameter is refused with the name that was meant."""
    name = next(iter(parameters_of(method)))
    with pytest.raises(UnknownName) as caught:
        trained(method)[0].plan("people", **{**asked(method), name + "s": 3})
    assert name in caught.value.nearest


@PUBLISHED
def test_as_published_is_refused_under_a_cap(method: str, database: Database) -> None:
    """A published form without a proof is refused on a dataset with a cap, with exit code 3 and no trace."""
    before = stored(database)
    with pytest.raises(NotPrivate) as caught:
        database.train("people", as_published=True, **asked(method))
    assert caught.value.exit_code == 3
    assert stored(database) == before


@PUBLISHED
def test_as_published_is_marked_on_public_data(method: str) -> None:
    """On a dataset without a cap the published form runs, and certificate and ledger say that it is not private."""
    with memory(some_rows(), cap=None) as opened:
        model = opened.train("people", as_published=True, **asked(method))
        assert model.certificate["private"] is False
        assert opened.book.entries(event="reserve")[-1].plan["private"] is False


def test_an_unknown_method_offers_the_nearest() -> None:
    """A misspelled method is refused with the name that was meant."""
    with pytest.raises(UnknownName) as caught:
        methods.get("rosnan")
    assert caught.value.nearest == ["rosnam"]


def test_the_default_is_a_method() -> None:
    """The method that is used when none is named is there."""
    assert methods.DEFAULT in methods.METHODS


@METHODS
def test_a_method_cannot_reach_an_exact_count_by_its_words(method: str) -> None:
    """A method has a name of its own, one line of summary, and help for each parameter."""
    found = methods.get(WAYS[method][0])
    assert found.name == WAYS[method][0]
    assert "\n" not in found.summary
    assert all(parameter.help for parameter in found.parameters.values())


@METHODS
def test_a_failing_method_keeps_its_charge(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When training fails after the charge no model is stored and the entry is lost."""
    way = fitted(method)
    with prepared(some_rows(), way) as opened:

        def fail(session: object) -> None:
            raise ArithmeticError("secret 4711")

        monkeypatch.setattr(methods.get(way.asked["method"]), "train", fail)
        with pytest.raises(DpsqlError) as caught:
            opened.train("people", **asked(method))
        assert "4711" not in str(caught.value)
        assert opened.models().empty
        assert opened.book.entries(event="reserve")[-1].state == "lost"
        assert opened.budget("people", way.kind).left == 0


@LABELS
def test_labels_alone_are_not_protected_where_features_are_private(method: str) -> None:
    """On a dataset whose features are not declared public the run is refused, with exit code 3 and no trace."""
    with memory(some_rows(), cap=9) as opened:
        before = stored(opened)
        for act in (opened.plan, opened.train):
            with pytest.raises(NotPrivate) as caught:
                act("people", **asked(method))
            assert caught.value.exit_code == 3
        with pytest.raises(NotPrivate):
            opened.set_cap("people", 9, kind="label")
        assert stored(opened) == before


@LABELS
def test_a_budget_of_rows_does_not_pay_for_labels(method: str) -> None:
    """Without a budget of kind "label" the run is refused, however much is left of the other, and leaves no trace."""
    with memory(some_rows(), schema=fitted(method).schema, cap=1000) as opened:
        before = stored(opened)
        with pytest.raises(BudgetExceeded):
            opened.train("people", **asked(method))
        assert stored(opened) == before


@LABELS
@pytest.mark.parametrize("schema", [SCHEMA, UNITS], ids=["row", "unit"])
def test_the_noise_of_a_changed_label_is_planned(method: str, schema: Schema) -> None:
    """A changed label moves two counts in each tree it is counted in: the plan states twice the noise of a row."""
    way = fitted(method, schema)
    found = methods.get(way.asked["method"])
    parameters = {name: value for name, value in way.asked.items() if name != "method"}
    plan = found.plan(way.schema, 10**9, parameters)
    counts = plan.step("counts")
    trees = counts.trees if counts.shared else 1
    assert counts.scale(plan.promise) == 2 * trees * schema.unit.max_rows
    assert plan.to_dict()["unit"].startswith("label of")


@pytest.mark.parametrize("condition", [None, "x < 5", "y IS NULL", "person < 2 OR y IS NULL", "person < 2 AND c = 'a'"])
def test_a_unit_is_on_one_side(condition: str | None) -> None:
    """At unit level `sspe` takes a condition on the unit alone: any other could put a person on both sides."""
    with memory(some_rows(), schema=UNITS, cap=1) as opened:
        before = stored(opened)
        with pytest.raises(ParameterError) as caught:
            opened.train("people", method="sspe", trees=3, depth=2, unlabelled=condition)
        assert caught.value.name == "unlabelled"
        assert stored(opened) == before


@pytest.mark.parametrize("name", sorted(methods.PARAMETERS))
def test_methods_say_the_same_of_a_parameter_that_they_share(name: str) -> None:
    """What stands before a semicolon is the same in all methods: it is what `dpsql train --help` shows."""
    assert len({parameter.help.partition(";")[0] for parameter in methods.PARAMETERS[name].values()}) == 1
