"""Plans: how costs compose, which part of the units a step sees, what is refused, what is written down."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.errors import ParameterError
from dpsql.kernel.operations import Choose, LeafCounts, LeafLabels
from dpsql.kernel.plan import Composition, Parallel, Plan, Sequential, Step
from dpsql.kernel.promise import Promise
from dpsql.schema import Unit


def step(name: str = "a", nano: int = 10**9, **changes: object) -> Step:
    """Return a small step of leaf counts."""
    return Step(name, LeafCounts(), nano, **changes)  # type: ignore[arg-type]


def plan(composition: Composition, unit: Unit | None = None) -> Plan:
    """Return a plan of a method called "test"."""
    return Plan("test", composition, Promise(unit or Unit()))


COSTS = st.recursive(
    st.integers(1, 1000),
    lambda inner: st.tuples(st.sampled_from("sp"), st.lists(inner, min_size=1, max_size=4)),
    max_leaves=8,
)


def build(drawn: object, names: list[str]) -> Composition:
    """Return the composition that a drawn tree of costs describes; each step gets a name of its own."""
    if isinstance(drawn, int):
        names.append(f"step_{len(names)}")
        return step(names[-1], drawn)
    word, inner = drawn  # type: ignore[misc]
    parts = tuple(build(one, names) for one in inner)
    return Sequential(parts) if word == "s" else Parallel(parts)


def cost(drawn: object) -> int:
    """Return what a drawn tree costs: sums and maxima."""
    if isinstance(drawn, int):
        return drawn
    word, inner = drawn  # type: ignore[misc]
    return sum(map(cost, inner)) if word == "s" else max(map(cost, inner))


def test_sequential_parts_add_up() -> None:
    """Steps that look at the same rows cost their sum."""
    assert plan(Sequential((step("a", 300), step("b", 500)))).nano_epsilon == 800


def test_parallel_parts_cost_the_largest() -> None:
    """Steps that look at disjoint units cost their maximum."""
    assert plan(Parallel((step("a", 300), step("b", 500)))).nano_epsilon == 500


@settings(max_examples=40)
@given(COSTS)
def test_nested_costs_are_sums_and_maxima(drawn: object) -> None:
    """Any nesting costs what sums and maxima give."""
    assert plan(build(drawn, [])).nano_epsilon == cost(drawn)


@settings(max_examples=40)
@given(COSTS, st.integers(0, 2**32 - 1))
def test_parallel_steps_see_disjoint_units(drawn: object, upper: int) -> None:
    """A unit, by the upper half of its ticket, pays at most what the plan charges, however deep parts are nested."""
    made = plan(build(drawn, []))
    seen = [one for one in made.steps if upper % one.parts == one.part]
    assert sum(one.nano_epsilon for one in seen) <= made.nano_epsilon


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_parallel_parts_cover_all_units(outer: int, inner: int, upper: int) -> None:
    """Every unit is seen by exactly one of nested parallel steps: none is wasted."""
    parts = tuple(Parallel(tuple(step(f"{i}.{j}") for j in range(inner))) for i in range(outer))
    seen = [one for one in plan(Parallel(parts)).steps if upper % one.parts == one.part]
    assert len(seen) == 1


def test_a_step_cannot_choose_its_own_part() -> None:
    """A part that a method writes into a step by hand is replaced by the one that the composition gives."""
    made = plan(Sequential((step("a", part=3, parts=7),)))
    assert (made.steps[0].part, made.steps[0].parts) == (0, 1)


@settings(max_examples=40)
@given(COSTS)
def test_a_plan_as_plain_values_is_stable_json(drawn: object) -> None:
    """The dictionary survives JSON and is the same when it is made again."""
    made = plan(build(drawn, []))
    assert json.loads(json.dumps(made.to_dict(), allow_nan=False)) == made.to_dict() == plan(build(drawn, [])).to_dict()


def test_a_plan_says_what_each_step_costs_and_noises() -> None:
    """Epsilon, sensitivity, noise scale, released values and scans of a step are written down."""
    made = plan(step(nano=500_000_000, trees=4, shared=True, cells=24, scans=2), Unit("person", 3))
    written = made.to_dict()["steps"][0]
    picked = {key: written[key] for key in ("epsilon", "sensitivity", "noise_scale", "values", "scans", "rows")}
    assert picked == {
        "epsilon": "0.5", "sensitivity": 12, "noise_scale": 24.0, "values": 24, "scans": 2, "rows": "every tree"
    }  # fmt: skip


def test_a_plan_writes_down_its_composition() -> None:
    """The nesting of steps can be read from the dictionary."""
    made = plan(Sequential((step("a"), Parallel((step("b"), step("c"))))))
    assert made.to_dict()["composition"] == {"sequential": ["a", {"parallel": ["b", "c"]}]}


@pytest.mark.parametrize(
    ("changes", "unit", "sensitivity"),
    [
        ({"trees": 5}, Unit(), 1),
        ({"trees": 5, "shared": True}, Unit(), 5),
        ({"trees": 5}, Unit("person", 3), 3),
        ({"trees": 5, "shared": True}, Unit("person", 3), 15),
        ({"trees": 5, "axes": 2}, Unit("person", 3), 6),
        ({"trees": 5, "axes": 2, "shared": True}, Unit("person", 3), 30),
    ],
)
def test_sensitivity_counts_rows_trees_and_axes(changes: dict[str, int], unit: Unit, sensitivity: int) -> None:
    """A unit changes as many counts as it has rows, in each shared tree, on each axis."""
    made = step(**changes)
    assert made.sensitivity(Promise(unit)) == sensitivity


@given(st.integers(1, 10**12), st.integers(1, 50), st.integers(1, 9), st.booleans())
def test_scale_is_sensitivity_over_epsilon(nano: int, trees: int, rows: int, shared: bool) -> None:
    """The noise scale and the epsilon of one row are exact fractions of each other."""
    made, promise = step(nano=nano, trees=trees, shared=shared), Promise(Unit("person", rows))
    assert made.scale(promise) == Fraction(made.sensitivity(promise) * 10**9, nano) == 1 / made.row_epsilon(promise)


@pytest.mark.parametrize(
    "changes",
    [
        {"operation": "rows"},
        {"operation": "leaf_counts"},
        {"operation": LeafCounts},
        {"operation": None},
        {"published": True},
        *(
            {name: bad}
            for name in ("nano_epsilon", "trees", "axes", "cells", "scans")
            for bad in (0, -1, 1.5, "2", True)
        ),
    ],
    ids=str,
)
def test_bad_steps_are_refused(changes: dict[str, object]) -> None:
    """An operation that is no value of the list, a form that is not published, a figure that is none: all refused."""
    fields: dict[str, object] = {"name": "a", "operation": LeafCounts(), "nano_epsilon": 1} | changes
    with pytest.raises(ParameterError):
        Step(**fields)  # type: ignore[arg-type]


def test_two_steps_of_one_name_are_refused() -> None:
    """A name is an allowance, so it can stand for one step alone."""
    with pytest.raises(ParameterError):
        plan(Sequential((step("a"), step("a"))))


def test_noise_too_large_for_the_sampler_is_refused_before_any_charge() -> None:
    """An epsilon so small that noise could leave 64 bits is refused when the plan is made."""
    with pytest.raises(ParameterError):
        plan(step(nano=1, trees=10**4, shared=True), Unit("person", 10**6))


def test_a_plan_with_an_unproven_step_is_not_private() -> None:
    """One published step is enough to mark the whole plan."""
    assert not plan(Sequential((step("a"), Step("b", LeafLabels(), 1, published=True)))).private


def test_a_step_of_several_uses_shows_the_noise_of_one() -> None:
    """Uses share a step's epsilon, so each has more noise than the step would have alone; the plan says so."""
    one = Step("pick", Choose("median"), 10**9)
    described = [Plan("a", replace(one, uses=uses), Promise(Unit())).to_dict()["steps"][0] for uses in (1, 8)]
    assert [step["noise_scale"] for step in described] == [1.0, 8.0]
    assert [step["expected_error"] for step in described] == [
        "choices within 2 rows of the best are likely",
        "choices within 16 rows of the best are likely",
    ]
