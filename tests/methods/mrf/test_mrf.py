"""`mrf`: exact leaves from strategies, hard votes, shares of epsilon, public structure, what is refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpsql.errors import ParameterError, UnknownName, UsageError
from dpsql.kernel.plan import Plan
from dpsql.kernel.promise import Promise
from dpsql.methods.mrf.ensembles import FEW_CELLS, SEVERAL, ensembles, usual_depth
from dpsql.methods.mrf.mrf import POINTS_PER_ROW, Mrf, leaf_votes
from dpsql.models.usable_model import Model
from dpsql.schema import Boolean, Categorical, Numeric, Schema
from dpsql.trees.forest import Forest
from dpsql.trees.strategies import optimize
from dpsql.trees.strategies.optimize import KINDS
from dpsql.trees.voting import VotingForest, Weights, largest_weight
from tests.rows import naive_counts
from tests.tables import SCHEMA, TARGET, UNITS, Row, frame_of, memory, some_rows

METHOD = Mrf()
NANO = 10**9
#: At this epsilon the noise is 0, so that counts are seen as they are.
EXACT = 10**5
SMALL: dict[str, Any] = {"trees": 6, "depth": 2}
#: Six numbers: 5⁶ cells are few enough at once, 5⁷ are not.
SIX = Schema("y", ("no", "yes"), tuple(Numeric(f"x{k}", 0, 1) for k in range(6)))
MANY = Schema("y", ("no", "yes"), tuple(Numeric(f"x{k}", 0, 1) for k in range(9)))
FOUR = Schema("y", ("no", "yes"), tuple(Numeric(f"x{k}", 0, 1) for k in range(4)))


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start each test with no strategy in memory and none on disk."""
    monkeypatch.setattr(optimize, "_cache", {})
    monkeypatch.delenv("DPSQL_CACHE", raising=False)


def true_counts(model: Model, rows: Sequence[Row]) -> Weights:
    """Return the exact counts of a model's leaves by walking its trees in plain Python."""
    found = np.zeros_like(model.released.weights)
    records = frame_of(rows).to_dict("records")
    for place, number in naive_counts(model.schema, model.released.forest, records).items():
        found[place] = number
    return found


def trained(rows: Sequence[Row], *, epsilon: float = EXACT, schema: Schema = SCHEMA, **parameters: Any) -> Model:
    """Return a model of these rows."""
    with memory(rows, schema=schema, cap=10**8) as opened:
        return opened.train("people", method="mrf", epsilon=epsilon, **{**SMALL, **parameters})


def same(one: Forest, other: Forest) -> bool:
    """Whether two forests are made of the same splits."""
    none = [np.zeros((forest.leaves, 1), np.int64) for forest in (one, other)]
    return VotingForest(one, none[0]).digest() == VotingForest(other, none[1]).digest()


@pytest.mark.parametrize("strategy", ["best", *KINDS])
@pytest.mark.parametrize("depth", [1, 2])
def test_without_noise_leaves_weigh_their_counts(strategy: str, depth: int) -> None:
    """Whatever is asked, the leaves that follow are GRAIN times the rows that a walk through the trees puts there."""
    rows = some_rows(60)
    model = trained(rows, strategy=strategy, depth=depth)
    assert (model.released.weights == POINTS_PER_ROW * true_counts(model, rows)).all()
    leaf_rows = model.released.weights.sum(axis=1)
    assert np.bincount(model.released.forest.leaf_tree, leaf_rows).tolist() == [64 * POINTS_PER_ROW] * 6


@pytest.mark.parametrize("parameters", [{"ensembles": 2}, {"ensembles": 3, "features": 1}, {"cells": 6}], ids=str)
def test_leaves_of_all_ensembles_weigh_their_counts(parameters: dict[str, Any]) -> None:
    """Each ensemble's answers go to its own trees, whatever their features and depths."""
    rows = some_rows(60)
    model = trained(rows, strategy="identity", **parameters)
    assert model.released.forest.trees == 6
    assert (model.released.weights == POINTS_PER_ROW * true_counts(model, rows)).all()


def test_a_unit_of_few_rows_counts_whole() -> None:
    """At unit level the counts are those of all rows with a unit, as long as no unit has too many."""
    rows = some_rows(40)
    model = trained(rows, schema=UNITS, strategy="identity")
    assert (
        model.released.weights == POINTS_PER_ROW * true_counts(model, [row for row in rows if row[0] is not None])
    ).all()


def test_hard_votes_name_the_largest_class() -> None:
    """Each leaf has one vote, for the class with most rows; of equal ones the first."""
    rows = some_rows(61)
    model = trained(rows, strategy="identity", votes="hard")
    counts = true_counts(model, rows)
    assert model.released.weights.tolist() == np.eye(3, dtype=int)[counts.argmax(axis=1)].tolist()
    assert len(set(counts.argmax(axis=1).tolist())) > 1


def test_votes_are_whole_numbers() -> None:
    """Counts become points of a vote, rounded; hard votes take the first of equal classes."""
    leaves = np.array([[1.0, 2.51, -0.3], [0.0, 0.0, 0.0]])
    assert leaf_votes(leaves, hard=False).tolist() == [[16, 40, -5], [0, 0, 0]]
    assert leaf_votes(leaves, hard=True).tolist() == [[0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize("nano", [4, 5, 7, 999_999_999, 1_000_000_001, 123_456_789])
@pytest.mark.parametrize("count", [1, 3, 4])
def test_ensembles_share_epsilon_exactly(nano: int, count: int) -> None:
    """The steps' parts add up to the last nano-epsilon, and differ by one at most."""
    plan = METHOD.plan(SIX, nano, {**SMALL, "ensembles": count, "features": 2})
    parts = [step.nano_epsilon for step in plan.steps]
    assert len(parts) == count
    assert sum(parts) == plan.nano_epsilon == nano
    assert max(parts) - min(parts) <= 1


def test_an_epsilon_too_small_for_the_ensembles_is_refused() -> None:
    """Each ensemble needs a billionth."""
    with pytest.raises(ParameterError):
        METHOD.plan(SIX, 3, {**SMALL, "ensembles": 4, "features": 2})


def test_steps_declare_what_their_strategies_ask() -> None:
    """Each step names its questions by class and the sensitivity that its noise is made for."""
    plan = METHOD.plan(SIX, NANO, {**SMALL, "ensembles": 2, "features": 3, "depth": 1})
    found = ensembles(SIX, plan.parameters)
    for step, one in zip(plan.steps, found, strict=True):
        strategy = optimize.best_strategy(one.workload).strategy
        assert strategy.sensitivity > 1
        assert (step.operation.name, step.trees, step.shared) == ("linear", 1, False)
        assert (step.cells, step.row_weight) == (2 * strategy.questions, strategy.sensitivity)
        assert step.scale(Promise(SIX.unit)) == 2 * strategy.sensitivity


def test_noise_is_that_of_the_cells_alone() -> None:
    """With every cell asked for, a leaf's error is one count's for each cell in it, however many trees there are."""
    rows, variance = some_rows(40), []
    for trees in (1, 60):
        model = trained(rows, epsilon=1, trees=trees, depth=2, bins=64, strategy="identity")
        noise = (model.released.weights / POINTS_PER_ROW - true_counts(model, rows)).ravel()
        variance.append(float((noise**2).mean()))
    # 2q/(1 − q)² for q = 1/e is 1.84, give or take 12 % for 384 values; trees that shared epsilon would make it 7,000.
    assert variance == pytest.approx([1.84, 1.84], rel=0.8)


def structure(rows: Sequence[Row], **parameters: Any) -> tuple[Forest, dict[str, Any]]:
    """Return the trees of a model, and the plan that it was made by."""
    with memory(rows, cap=10**8) as opened:
        plan = opened.plan("people", method="mrf", epsilon=1, **SMALL, **parameters)
        model = opened.train("people", method="mrf", epsilon=1, **SMALL, **parameters)
    return model.released.forest, plan.to_dict()


@pytest.mark.parametrize("parameters", [{}, {"ensembles": 2}], ids=str)
def test_structure_and_strategy_do_not_depend_on_rows(
    monkeypatch: pytest.MonkeyPatch, parameters: dict[str, int]
) -> None:
    """No row, many rows and no table at all lead to the same trees, questions and plan."""
    found = []
    for rows in ([], some_rows(60)):
        monkeypatch.setattr(optimize, "_cache", {})
        found.append(structure(rows, **parameters))
    alone = METHOD.plan(SCHEMA, NANO, {**SMALL, **parameters})
    public = METHOD.public_trees(SCHEMA, alone)
    assert found[0][1] == found[1][1] == alone.to_dict()
    assert all(same(forest, public) for forest, _ in found)


@pytest.mark.parametrize("parameters", [{}, {"ensembles": 3}, {"depth": 1}, {"strategy": "pidentity"}], ids=str)
def test_the_same_parameters_give_the_same_plan(monkeypatch: pytest.MonkeyPatch, parameters: dict[str, Any]) -> None:
    """Whether strategies are in memory or looked for again, and for the same trees."""
    plans = [METHOD.plan(FOUR, NANO, {"trees": 12, **parameters}) for _ in range(2)]
    monkeypatch.setattr(optimize, "_cache", {})
    plans.append(METHOD.plan(FOUR, NANO, {"trees": 12, **parameters}))
    assert plans[0].to_dict() == plans[1].to_dict() == plans[2].to_dict()
    assert same(METHOD.public_trees(FOUR, plans[0]), METHOD.public_trees(FOUR, plans[2]))


def test_another_seed_gives_other_trees() -> None:
    """The seed shapes trees, and which features an ensemble has."""
    forests = []
    for seed in (1, 2):
        plan = METHOD.plan(SIX, NANO, {**SMALL, "ensembles": 2, "features": 3, "seed": seed})
        forests.append(METHOD.public_trees(SIX, plan))
    assert not same(*forests)


def facts(plan: Plan) -> dict[str, Any]:
    """Return what a plan says of its ensembles."""
    return dict(plan.parameters["chosen"])


def test_few_features_are_one_ensemble() -> None:
    """Where all features' cells fit they are one ensemble of all of them; its depth is three fifths of them."""
    plan = METHOD.plan(FOUR, NANO, {"trees": 5})
    assert facts(plan)["cells"] == [5**4]
    assert METHOD.public_trees(FOUR, plan).depth == usual_depth(4) == 2


def test_many_features_are_several_ensembles() -> None:
    """Where they do not fit, each ensemble gets random features with few cells."""
    plan = METHOD.plan(MANY, NANO, {"trees": 10, "effort": 10})
    cells = facts(plan)["cells"]
    assert len(cells) == SEVERAL
    assert max(cells) <= FEW_CELLS
    assert METHOD.public_trees(MANY, plan).trees == 10


def test_ensembles_share_the_trees() -> None:
    """Trees are dealt out evenly; their numbers add up."""
    plan = METHOD.plan(SIX, NANO, {"trees": 11, "depth": 1, "ensembles": 3, "features": 2})
    trees = [one.forest.trees for one in ensembles(SIX, plan.parameters)]
    assert sorted(trees) == [3, 4, 4]


def test_the_plan_tells_the_strategy() -> None:
    """For each ensemble it says which questions are asked, and their error next to that of every cell."""
    shallow = facts(METHOD.plan(FOUR, NANO, {"trees": 20, "depth": 1}))
    deep = facts(METHOD.plan(FOUR, NANO, {"trees": 20, "depth": 4}))
    assert shallow["strategies"] == ["marginals"]
    assert shallow["error_to_identity"][0] < 0.5
    assert (deep["strategies"], deep["error_to_identity"]) == (["identity"], [1.0])


def test_features_of_one_value_or_of_many_are_left_out() -> None:
    """A category of more than 63 values, or of one, is no part of the cells; the others are."""
    wide, one = Categorical("wide", tuple(map(str, range(70)))), Categorical("one", ("only",))
    schema = Schema("y", ("no", "yes"), (wide, one, Boolean("b"), Numeric("x", 0, 1, cells=3)))
    plan = METHOD.plan(schema, NANO, {"trees": 3})
    assert facts(plan)["cells"] == [2 * 3]


WIDE = Categorical("wide", tuple(map(str, range(70))))
USELESS: dict[str, tuple[Categorical, ...]] = {
    "wide": (WIDE, replace(WIDE, name="other")),
    "one value": (Categorical("one", ("only",)),),
}


@pytest.mark.parametrize("features", USELESS.values(), ids=USELESS)
def test_a_schema_without_narrow_features_is_refused(features: tuple[Categorical, ...]) -> None:
    """Without a feature of 2 to 63 values there are no cells: the error says so, and what to do."""
    with pytest.raises(UsageError, match="2 to 63 values"):
        METHOD.plan(Schema("y", ("no", "yes"), features), NANO, {})


def test_too_many_features_for_the_cells_are_refused() -> None:
    """Asked features whose cells pass the limit are refused by name, with the limit."""
    with pytest.raises(ParameterError, match="at most 100 cells") as caught:
        METHOD.plan(SIX, NANO, {"features": 3, "cells": 100})
    assert (caught.value.name, caught.value.given) == ("features", 3)
    assert facts(METHOD.plan(SIX, NANO, {"features": 3, "cells": 125, "trees": 4}))["cells"] == [125] * SEVERAL


@pytest.mark.parametrize("count", [2, 64])
def test_fewer_trees_than_ensembles_are_refused(count: int) -> None:
    """Each ensemble needs a tree."""
    with pytest.raises(ParameterError, match=f"each of {count} ensembles") as caught:
        METHOD.plan(SIX, NANO, {"trees": count - 1, "ensembles": count, "features": 1})
    assert (caught.value.name, caught.value.given) == ("trees", count - 1)


ODD: dict[str, Any] = {
    "trees": 0,
    "depth": 21,
    "bins": 1,
    "ensembles": 65,
    "features": 0,
    "cells": 1,
    "votes": "loud",
    "strategy": "none",
    "effort": 0,
    "seed": -1,
}


@pytest.mark.parametrize("name", ODD)
def test_odd_parameters_are_refused_by_name(name: str) -> None:
    """Every parameter has bounds, and the error names it and what came."""
    with pytest.raises(ParameterError) as caught:
        METHOD.plan(FOUR, NANO, {name: ODD[name]})
    assert (caught.value.name, caught.value.given) == (name, ODD[name])


def test_every_parameter_has_an_odd_value_here() -> None:
    """No parameter is left out above, and others are unknown."""
    assert set(ODD) == set(METHOD.parameters)
    with pytest.raises(UnknownName):
        METHOD.plan(FOUR, NANO, {"tree": 3})


def test_a_refusal_costs_nothing() -> None:
    """Parameters are refused before anything is charged."""
    with memory(some_rows()) as opened:
        with pytest.raises(ParameterError):
            opened.train("people", method="mrf", epsilon=1, trees=1, ensembles=2)
        assert opened.budget("people").spent == 0


def test_numbers_are_refused() -> None:
    """A numeric target has no classes: the error offers methods that predict numbers."""
    with memory(schema=TARGET) as opened, pytest.raises(UsageError, match="number"):
        opened.train("people", method="mrf", epsilon=1)


@pytest.fixture
def slow_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what makes every clock run a thousand times as fast: as if the machine had become as slow."""

    def slow_down() -> None:
        for name in ("monotonic", "perf_counter", "process_time"):
            real = getattr(time, name)
            monkeypatch.setattr(time, name, lambda real=real: 1000 * real())
        monkeypatch.setattr(optimize, "_cache", {})

    return slow_down


@pytest.mark.parametrize("effort", [1, 5])
def test_the_plan_is_the_same_on_a_slow_machine(slow_clock: Callable[[], None], effort: int) -> None:
    """The search ends after so much work, not after so long: what a dry run shows is what a run will ask."""
    given = {"trees": 20, "depth": 2, "ensembles": 2, "effort": effort}
    before = METHOD.plan(MANY, NANO, given)
    slow_clock()
    assert METHOD.plan(MANY, NANO, given).to_dict() == before.to_dict()


def test_a_request_stays_valid_on_a_slow_machine(slow_clock: Callable[[], None]) -> None:
    """Sent again under its id, the request is the same one: the same model comes back, and nothing is charged."""
    given = {"method": "mrf", "epsilon": 1, "request_id": "once", **SMALL}
    with memory(some_rows()) as opened:
        first = opened.train("people", **given)
        spent = opened.budget("people").spent
        slow_clock()
        again = opened.train("people", **given)
        assert opened.budget("people").spent == spent
    assert (again.name, again.released.digest()) == (first.name, first.released.digest())


def test_little_effort_gives_a_plan() -> None:
    """When the effort is spent the best strategy so far is taken; more effort is never worse."""
    plans = [METHOD.plan(MANY, NANO, {"trees": 20, "depth": 2, "effort": effort}) for effort in (1, 20)]
    little, much = (facts(plan)["error_to_identity"] for plan in plans)
    assert all(more <= less for more, less in zip(much, little, strict=True))
    assert [plan.nano_epsilon for plan in plans] == [NANO, NANO]


def test_a_tiny_epsilon_does_not_overflow() -> None:
    """Enormous noise is cut to what a vote can hold."""
    with memory(some_rows(), least_epsilon="1e-9") as opened:
        model = opened.train("people", method="mrf", epsilon="1e-9", **SMALL)
    assert 2**20 < int(np.abs(model.released.weights).max()) <= largest_weight(6, 3)
