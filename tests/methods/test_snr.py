"""`snr`: the paper's equations, what a declared or bought size does to the plan, and what the parameters fix."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpsql.errors import ParameterError
from dpsql.kernel.plan import Sequential
from dpsql.kernel.promise import Promise
from dpsql.methods.snr import Snr, minimum_support
from dpsql.schema import Categorical, Numeric, Schema, Unit
from dpsql.trees.forest import Forest
from tests.tables import SCHEMA, UNITS, Row, fill, frame_of, memory, rows_of, run
from tests.trees.grow.test_unequal_depth import splits

METHOD = Snr()
NUMBERS = Schema("y", ("a", "b", "c"), tuple(Numeric(f"x{k}", 0, 1) for k in range(16)))
NURSERY = Schema(
    "y",
    tuple("abcde"),
    tuple(Categorical(f"c{k}", tuple("abcde"[:values])) for k, values in enumerate((3, 5, 4, 4, 3, 2, 3, 3))),
)


def planned(schema: Schema, rows: int | None, epsilon: float, **parameters: Any) -> dict[str, Any]:
    """Return the parameters of the plan for so many declared rows."""
    plan = METHOD.plan(replace(schema, rows=rows), round(epsilon * 10**9), parameters)
    return dict(plan.parameters)


@pytest.mark.parametrize("rows", [100, 1000, 5000, 20_000, 10**6])
@pytest.mark.parametrize("epsilon", [0.1, 1, 2])
def test_the_number_of_trees_is_the_largest_of_equation_9(rows: int, epsilon: float) -> None:
    """With τ trees θ is below n/δ², with one more it is not, unless τ is the number of features or 1."""
    trees = planned(NURSERY, rows, epsilon)["trees"]
    most = rows / (27 / 8) ** 2

    def support(count: int) -> float:
        return 5 * math.sqrt(2) * count / epsilon

    assert trees == 1 or support(trees) < most
    assert trees == 8 or support(trees + 1) >= most


def test_a_number_counts_as_five_values() -> None:
    """10,000 rows, 16 numbers, 3 classes, epsilon 0.1: θ = 42.4 τ must stay below 400, so τ = 9."""
    assert planned(NUMBERS, 10_000, 0.1)["trees"] == 9


def test_a_starved_stump_has_fewer_bins() -> None:
    """135 rows at epsilon 0.1 carry three bins of 42 rows, not five; a single row two."""
    for rows, leaves in ((135, 3), (1, 2), (300, 5)):
        assert planned(NUMBERS, rows, 0.1)["leaves"] == leaves
    assert planned(NUMBERS, 10_000, 0.1, bins=4, trees=1, depth=1)["leaves"] == 4


def test_the_minimum_support_is_equation_5() -> None:
    """θ = |C|·√2/epsilon of a tree, on the plan too."""
    assert minimum_support(4, 10.0) == pytest.approx(56.57, abs=0.01)
    assert planned(NURSERY, 20_000, 1)["minimum_support"] == pytest.approx(5 * math.sqrt(2) * 8, abs=0.001)


def test_the_plan_is_one_release_on_shared_trees() -> None:
    """Where the size is declared there is one step of counts, at the whole epsilon, noise τ/epsilon."""
    (step,) = METHOD.plan(replace(NURSERY, rows=12_960), 10**9, {}).steps
    assert (step.operation.name, step.trees, step.shared, step.nano_epsilon) == ("leaf_counts", 8, True, 10**9)
    assert step.scale(Promise(NURSERY.unit)) == 8


def test_a_unit_of_three_rows_triples_noise_and_support() -> None:
    """At unit level scale and θ are c times larger, and the trees shallower or fewer."""
    unit = replace(NURSERY, unit=Unit("person", 3))
    alone, shared = (planned(one, 10_000, 1, trees=4) for one in (NURSERY, unit))
    assert shared["minimum_support"] == pytest.approx(3 * alone["minimum_support"], abs=0.01)
    assert shared["leaves"] < alone["leaves"]
    assert planned(unit, 1000, 1)["trees"] < planned(NURSERY, 1000, 1)["trees"]


def test_an_undeclared_size_is_bought_with_three_hundredths() -> None:
    """The size and the counts add up to epsilon; the trees are 10, or the features if fewer."""
    plan = METHOD.plan(NUMBERS, 10**9, {})
    assert isinstance(plan.composition, Sequential)
    assert [(step.name, step.nano_epsilon, step.trees) for step in plan.steps] == [
        ("size", 30_000_000, 1),
        ("counts", 970_000_000, 10),
    ]
    assert METHOD.plan(SCHEMA, 10**9, {}).parameters["trees"] == 2
    assert METHOD.public_trees(NUMBERS, plan).depth == 0


def test_a_budget_too_small_to_buy_a_size_is_refused() -> None:
    """Less than 100 nano-epsilon cannot be shared out."""
    with pytest.raises(ParameterError) as caught:
        METHOD.plan(SCHEMA, 99, {})
    assert caught.value.name == "epsilon"


def test_a_given_depth_needs_no_size() -> None:
    """`depth` fixes the structure: nothing is bought, and declared rows change nothing."""
    plan = METHOD.plan(NURSERY, 10**9, {"depth": 2})
    (step,) = plan.steps
    assert (step.name, plan.parameters["grown_depth"], plan.parameters["trees"]) == ("counts", 2, 8)
    few, many = (planned(NURSERY, rows, 1, depth=2, trees=4)["leaves"] for rows in (1, 10**6))
    assert few == many


def test_the_declared_values_are_the_cells() -> None:
    """The plan states as many values as the forest has leaves and classes, within the limit."""
    for limit in (100, 1000, 2**22):
        schema = replace(NURSERY, rows=10**6)
        plan = METHOD.plan(schema, 10**9, {"limit": limit})
        leaves = METHOD.public_trees(schema, plan).leaves
        assert plan.steps[0].cells == leaves * 5 <= limit
        assert plan.parameters["leaves"] == leaves


def test_a_limit_below_the_roots_is_refused() -> None:
    """Eight roots of five classes do not fit into 39 cells."""
    with pytest.raises(ParameterError) as caught:
        METHOD.plan(replace(NURSERY, rows=10**6), 10**9, {"limit": 39})
    assert caught.value.name == "limit"


def test_roots_differ_and_depths_too() -> None:
    """Each tree starts with another feature, no path reads one twice, and paths end where their support does."""
    schema = replace(NURSERY, rows=12_960)
    forest: Forest = METHOD.public_trees(schema, METHOD.plan(schema, 10**9, {"seed": 3}))
    assert sorted(forest.levels[0].axis.tolist()) == list(range(8))
    paths = [splits(forest, leaf) for leaf in range(0, forest.leaves, 7)]
    assert all(len(set(path)) == len(path) for path in paths)
    assert len({len(path) for path in paths}) > 1


def test_structure_and_plan_agree_for_exact_fractions() -> None:
    """An epsilon that floats cannot hold gives the same trees at planning and at training."""
    schema = replace(NURSERY, rows=12_960)
    plan = METHOD.plan(schema, 333_333_333, {})
    assert plan.steps[0].scale(Promise(schema.unit)) == Fraction(8 * 10**9, 333_333_333)
    assert METHOD.public_trees(schema, plan).leaves == plan.parameters["leaves"]


RULE: list[Row] = [(k, float(k % 64), "ab"[k % 2], ("no", "yes")[k % 64 < 26]) for k in range(4000)]


@pytest.mark.parametrize("rows", [None, 4000])
@pytest.mark.parametrize("schema", [SCHEMA, UNITS], ids=["row", "unit"])
def test_a_rule_is_learned_with_a_bought_or_declared_size(schema: Schema, rows: int | None) -> None:
    """At epsilon 10 the rule at a bin's edge is found, from the database to the prediction."""
    with memory(RULE, schema=replace(schema, rows=rows)) as opened:
        model = opened.train("people", epsilon=10, method="snr")
        frame = frame_of(RULE[:64])
        assert np.mean(model.labels(frame) == frame["y"].to_numpy()) > 0.9
        assert model.released.weights.min() >= 1


def test_sql_and_python_predict_the_same() -> None:
    """The votes are whole numbers, so the database gives the very labels that Python gives."""
    with memory(RULE, schema=replace(SCHEMA, rows=4000)) as opened:
        model = opened.train("people", epsilon="0.05", method="snr")
        fill(opened.engine, "fresh", RULE[:200])
        run(opened.engine, model.sql("view", table="fresh", name="scored"))
        scored = rows_of(opened.engine, "SELECT * FROM scored ORDER BY person")
        assert [row["prediction"] for row in scored] == model.labels(frame_of(RULE[:200])).tolist()
