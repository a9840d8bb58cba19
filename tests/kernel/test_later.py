"""Steps that are planned later: never more than the allowance, new names, each used once, within its own units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dpsql.kernel.operations import Later, LeafCounts, LeafLabels, PublicSize, Size
from dpsql.kernel.plan import Composition, Parallel, Plan, Sample, Sequential, Sides, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import AllowanceExceeded, Session
from tests.kernel.helpers import EPSILON, Watched, held, leaf_step, session
from tests.tables import SCHEMA, UNITS, Row, small_forest, some_rows

FOREST = small_forest(trees=2, depth=2)
REST = Step("rest", Later(), EPSILON)
SIZE = Step("n", Size(), EPSILON // 2)
ONE: list[Row] = [(k, 1.0, "a", "no") for k in range(200)]


def opened(composition: Composition = REST) -> Session:
    """Return a session with an allowance called "rest"."""
    return session(held(some_rows()), composition)


def test_later_steps_work_like_planned_ones() -> None:
    """What an allowance opens can be asked once each, and is found by name."""
    later = opened()
    counts = leaf_step("leaf_counts", FOREST, 3, shared=True, nano=EPSILON // 2)
    later.later("rest", Sequential((SIZE, counts)))
    assert type(later.size("n")) is int
    assert later.leaf_counts("leaves", FOREST).shape == (FOREST.leaves, 3)
    assert later.step("leaves").nano_epsilon == EPSILON // 2
    assert later.deviation("leaves") == pytest.approx(2**0.5 * 4)
    for again in (lambda: later.size("n"), lambda: later.leaf_counts("leaves", FOREST)):
        with pytest.raises(AllowanceExceeded):
            again()


REFUSED: dict[str, Composition] = {
    "more than the allowance": replace(SIZE, nano_epsilon=EPSILON + 1),
    "a sum above the allowance": Sequential((SIZE, replace(SIZE, name="m", nano_epsilon=EPSILON // 2 + 1))),
    "two steps of one name": Sequential((SIZE, SIZE)),
    "the name of the allowance": replace(SIZE, name="rest"),
    "the name of another step": replace(SIZE, name="first"),
    "the name of a step that was used": replace(SIZE, name="used"),
    "an allowance": Step("more", Later(), 5),
    "a free step": Sequential((SIZE, Step("free", PublicSize(), 0))),
    "a published variant": Step("p", LeafLabels(), 5, published=True),
    "sides": Sides(SIZE, replace(SIZE, name="m"), disjoint=True),
    "sides inside": Sequential((Sides(SIZE, replace(SIZE, name="m"), disjoint=True),)),
    "noise beyond 64 bits": Step("wide", LeafCounts(), 1, trees=2**30, shared=True, row_weight=2**20),
}


@pytest.mark.parametrize("composition", REFUSED.values(), ids=REFUSED)
def test_later_steps_beyond_the_allowance_are_refused(composition: Composition) -> None:
    """A refusal reads nothing, opens nothing, and leaves the allowance to be used."""
    database = held(some_rows())
    later = session(database, Sequential((REST, Step("first", Size(), EPSILON), Step("used", Size(), EPSILON))))
    later.size("used")
    later._rows._engine = watched = Watched(database.engine)  # type: ignore[assignment]
    with pytest.raises(AllowanceExceeded):
        later.later("rest", composition)
    assert watched.statements == []
    assert repr(later) == "<Session: 2 of 3 steps left>"
    later.later("rest", SIZE)


@pytest.mark.parametrize("name", ["first", "unknown"])
def test_only_an_allowance_opens_later_steps(name: str) -> None:
    """A step of another kind, or none, is no allowance."""
    later = opened(Sequential((REST, Step("first", Size(), EPSILON))))
    with pytest.raises(AllowanceExceeded):
        later.later(name, SIZE)


ASKS: dict[str, Callable[[Session], object]] = {
    "a size": lambda later: later.size("rest"),
    "counts": lambda later: later.leaf_counts("rest", FOREST),
}


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_an_allowance_itself_answers_nothing(ask: Callable[[Session], object]) -> None:
    """The operation "later" gives no answer of its own."""
    with pytest.raises(AllowanceExceeded):
        ask(opened())


def test_an_allowance_is_used_once() -> None:
    """However little the first steps cost, a second composition is refused, also under a used name."""
    later = opened()
    later.later("rest", replace(SIZE, nano_epsilon=1))
    for name in ("rest", "n"):
        with pytest.raises(AllowanceExceeded):
            later.later(name, replace(SIZE, name="m", nano_epsilon=1))


def test_a_closed_session_opens_nothing() -> None:
    """After `close` the allowance is gone."""
    later = opened()
    later.close()
    with pytest.raises(AllowanceExceeded):
        later.later("rest", SIZE)


def test_nothing_opened_later_exceeds_the_plan() -> None:
    """All that was ever open costs no more than the plan: the steps that replace an allowance fit into it."""
    later = opened(Sequential((Step("first", Size(), 7), REST)))
    later.later("rest", Sequential((SIZE, replace(SIZE, name="m"))))
    costs = sum(step.nano_epsilon for step in later._allowance._open.values())
    assert costs == later.plan.nano_epsilon == EPSILON + 7


def test_allowances_of_disjoint_parts_stay_disjoint() -> None:
    """Parallel allowances are charged once, so what they open must look at units of their own part alone."""
    parts = Parallel(tuple(Step(name, Later(), 10**12) for name in "abc"))
    later = session(held(ONE), parts)
    assert later.plan.nano_epsilon == 10**12
    for name in "abc":
        later.later(name, Step(f"{name} size", Size(), 10**12))
    sizes = [later.size(f"{name} size") for name in "abc"]
    assert sum(sizes) == 200
    assert min(sizes) > 20


def test_parts_of_an_allowance_are_parts_of_its_part() -> None:
    """Compositions opened later are placed inside the part that the allowance has."""
    later = session(held(ONE), Parallel((Step("a", Later(), EPSILON), Step("b", Later(), EPSILON))))
    later.later("b", Sequential((Parallel((SIZE, replace(SIZE, name="m"))), Sample(replace(SIZE, name="s"), 5))))
    assert [(later.step(name).part, later.step(name).parts) for name in "nms"] == [(1, 4), (3, 4), (1, 10)]


@pytest.mark.parametrize("side", ["labelled", "unlabelled"])
def test_an_allowance_keeps_its_side(side: str) -> None:
    """Steps opened on the allowance of one side read the rows of that side."""
    plan = Plan(
        "test",
        Sides(replace(REST, name="unlabelled"), replace(REST, name="labelled"), disjoint=True),
        Promise(UNITS.unit),
    )
    database = held(some_rows(), schema=UNITS)
    later = Session(database.engine, database.source, plan, {})
    later.later(side, SIZE)
    assert later.step("n").side == side


def test_a_plan_shows_its_allowance() -> None:
    """The dry run names the allowance and what it costs: the charge covers all that it may open."""
    plan = Plan("test", Sequential((SIZE, REST)), Promise(SCHEMA.unit))
    shown = plan.to_dict()["steps"][1]
    assert (shown["operation"], shown["epsilon"]) == ("later", "1")
    assert plan.nano_epsilon == EPSILON * 3 // 2
    assert "rest: later, epsilon 1" in str(plan)
