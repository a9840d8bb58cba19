"""`rdt`: height and number of trees by the paper's rules, the bought size, noisy counts of all rows in every tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from dpsql.api.database import Database, connect
from dpsql.errors import ParameterError
from dpsql.kernel.promise import Promise
from dpsql.methods.rdt import Rdt, height
from dpsql.models.usable_model import Model
from dpsql.schema import Boolean, Categorical, Numeric, Schema, Unit
from dpsql.trees.voting import Weights, largest_weight
from tests.kernel.helpers import has_scale
from tests.rows import naive_counts
from tests.tables import SCHEMA, UNITS, Row, fill, frame_of, memory, run, some_rows

METHOD = Rdt()
NANO = 10**9
NURSERY = (3, 5, 4, 4, 3, 2, 3, 3)
MUSHROOM = (6, 4, 10, 2, 9, 4, 3, 2, 12, 2, 6, 4, 4, 9, 9, 2, 4, 3, 8, 9, 6, 7)
#: At this epsilon the noise is 0, so that counts are seen as they are.
EXACT = 10**5
EIGHT = Schema("y", ("no", "yes"), tuple(Numeric(f"x{k}", 0, 1) for k in range(8)))


def of_sizes(sizes: Sequence[int], rows: int | None = None) -> Schema:
    """Return a schema of categories with these numbers of values."""
    features = tuple(Categorical(f"c{k}", tuple(map(str, range(size)))) for k, size in enumerate(sizes))
    return Schema("y", ("no", "yes"), features, rows=rows)


def true_counts(model: Model, rows: Sequence[Row]) -> Weights:
    """Return the exact counts of a model's leaves by walking its trees in plain Python."""
    found = np.zeros_like(model.released.weights)
    records = frame_of(rows).to_dict("records")
    for place, number in naive_counts(model.schema, model.released.forest, records).items():
        found[place] = number
    return found


def eight(count: int) -> Database:
    """Return a database whose table "people" has that many rows of eight numbers; its size is not declared."""
    opened = connect(":memory:", who="ann")
    columns = ", ".join(f"random() AS x{k}" for k in range(8))
    run(opened.engine, f"CREATE TABLE people AS SELECT 'no' AS y, {columns} FROM range({count})")
    opened.register("people", EIGHT, cap=10**8)
    return opened


@pytest.mark.parametrize(
    ("schema", "rows", "expected"),
    [
        (of_sizes(NURSERY), 12_960, 4),
        (of_sizes(MUSHROOM), 8_124, 4),
        (Schema("y", ("0", "1"), tuple(Numeric(f"x{k}", 0, 100) for k in range(16))), 10_992, 8),
        (Schema("y", ("0", "1"), tuple(Boolean(f"b{k}") for k in range(40))), 1024, 9),
        (of_sizes([10] * 8), 999, 1),
        (of_sizes([10] * 8), 1000, 2),
        (of_sizes([10] * 8), 10**6, 4),
        (of_sizes([1] * 8), 16, 3),
    ],
    ids=[
        "nursery",
        "mushroom",
        "pendigits",
        "booleans",
        "999",
        "a power of ten",
        "half the features",
        "one value each",
    ],
)
def test_the_height_is_the_papers(schema: Schema, rows: int, expected: int) -> None:
    """The height is min(⌊m/2⌋, ⌊log_b n⌋ − 1), with b = 2 for numbers, and exact where n is a power of b."""
    assert height(schema, rows) == expected


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 10**15])
def test_the_height_is_at_least_one(rows: int) -> None:
    """A single feature, or no rows at all, still gives one level."""
    assert height(of_sizes([3]), rows) == 1
    assert height(of_sizes(NURSERY), min(rows, 7)) == 1


def test_the_declared_rows_decide_the_depth() -> None:
    """The plan for nursery wants and grows four levels."""
    parameters = METHOD.plan(of_sizes(NURSERY, 12_960), NANO, {}).parameters
    assert (parameters["wanted_depth"], parameters["grown_depth"]) == (4, 4)


@pytest.mark.parametrize(("rows", "trees"), [(999, 5), (1000, 10), (1, 5), (None, 10)])
def test_few_declared_rows_get_five_trees(rows: int | None, trees: int) -> None:
    """Below 1000 declared rows there are 5 trees, otherwise, or where none are declared, 10."""
    assert METHOD.plan(replace(SCHEMA, rows=rows), NANO, {"depth": 2}).parameters["trees"] == trees


def test_asked_trees_overrule_the_rule() -> None:
    """`trees` is taken as given."""
    assert METHOD.plan(replace(SCHEMA, rows=10), NANO, {"trees": 7}).parameters["trees"] == 7


def test_the_noise_scale_is_trees_over_epsilon() -> None:
    """A row is in all trees, so the scale is trees/epsilon, times the rows of a unit."""
    scales = [
        METHOD.plan(schema, NANO // 2, {"trees": 6, "depth": 2}).steps[0].scale(Promise(schema.unit))
        for schema in (SCHEMA, UNITS)
    ]
    assert scales == [12, 36]


def test_the_noise_of_a_run_has_that_scale() -> None:
    """What training adds to the true counts has scale 10/2; a scale 30 % off would be noticed."""
    rows = some_rows(200)
    with memory(rows) as opened:
        model = opened.train("people", method="rdt", epsilon=2, trees=10, depth=8)
    noise = model.released.weights - true_counts(model, rows)
    assert noise.size > 2000
    assert has_scale(noise, 5)
    assert not has_scale(noise, 5 * 1.3)
    assert not has_scale(noise, 5 * 0.7)


def test_every_row_is_counted_in_every_tree() -> None:
    """With almost no noise the weights are the counts of all rows with a known label, tree by tree."""
    rows = some_rows(60)
    with memory(rows, cap=10**8) as opened:
        model = opened.train("people", method="rdt", epsilon=EXACT, trees=4, depth=3)
    assert (model.released.weights == true_counts(model, rows)).all()
    leaf_rows = model.released.weights.sum(axis=1)
    assert np.bincount(model.released.forest.leaf_tree, leaf_rows).tolist() == [64] * 4


@pytest.mark.parametrize("nano", [100, 101, 133, 999_999_999, 1_000_000_001, 123_456_789])
def test_a_bought_size_and_the_counts_cost_epsilon_exactly(nano: int) -> None:
    """Without declared rows the plan has two steps, which add up to the last nano-epsilon."""
    plan = METHOD.plan(SCHEMA, nano, {})
    assert [step.operation.name for step in plan.steps] == ["size", "leaf_counts"]
    assert sum(step.nano_epsilon for step in plan.steps) == plan.nano_epsilon == nano


def test_the_size_costs_three_percent() -> None:
    """The first step has 3 % of epsilon."""
    assert [step.nano_epsilon for step in METHOD.plan(SCHEMA, NANO, {}).steps] == [30_000_000, 970_000_000]


@pytest.mark.parametrize("changes", [{"rows": 50}, {}], ids=["rows", "depth"])
def test_no_size_is_bought_without_need(changes: dict[str, int]) -> None:
    """Declared rows, or an asked depth, make it one step."""
    parameters = {} if changes else {"depth": 2}
    (step,) = METHOD.plan(replace(SCHEMA, **changes), NANO, parameters).steps
    assert step.nano_epsilon == NANO


def test_an_epsilon_too_small_for_two_steps_is_refused() -> None:
    """The message shows epsilon, not its billionths."""
    with pytest.raises(ParameterError) as caught:
        METHOD.plan(SCHEMA, 99, {})
    assert (caught.value.name, caught.value.given) == ("epsilon", 99e-9)


@pytest.mark.parametrize(("count", "depth"), [(0, 1), (8, 2), (16, 3), (40, 4), (300, 4)])
def test_the_depth_follows_the_bought_size(count: int, depth: int) -> None:
    """With almost no noise the depth is the height for the true number of rows."""
    with eight(count) as opened:
        forest = opened.train("people", method="rdt", epsilon=EXACT, trees=2).released.forest
    assert (forest.depth, forest.trees) == (depth, 2)


def test_the_bought_depth_stays_within_the_limit() -> None:
    """However many rows there are, leaves × classes fit into `limit`."""
    with eight(300) as opened:
        forest = opened.train("people", method="rdt", epsilon=EXACT, trees=2, limit=17).released.forest
    assert (forest.depth, forest.leaves) == (2, 8)


def test_a_limit_below_the_roots_is_refused() -> None:
    """Each tree has at least one leaf, with a count for each class."""
    with pytest.raises(ParameterError) as caught:
        METHOD.plan(SCHEMA, NANO, {"trees": 10, "limit": 29})
    assert caught.value.name == "limit"


def test_negative_counts_are_kept() -> None:
    """About as many counts of an empty table are below 0 as above, in the database too."""
    with memory() as opened:
        weights = opened.train("people", method="rdt", name="m", trees=10, depth=6).released.weights
        again = opened.model("m").released.weights
    assert 0.4 < (weights < 0).sum() / (weights != 0).sum() < 0.6
    assert (again == weights).all()


def test_sql_predicts_what_python_predicts() -> None:
    """Scores of positive and negative counts pick the same class for each row in both, odd values included."""
    fresh = some_rows(100)
    with memory(some_rows(100)) as opened:
        fill(opened.engine, "fresh", fresh)
        model = opened.train("people", method="rdt", epsilon=3, trees=6, depth=5)
        in_sql = model.predict("fresh")["prediction"].tolist()
    assert (model.released.weights < 0).any()
    assert len(set(in_sql)) > 1
    assert in_sql == model.labels(frame_of(fresh)).tolist()


@pytest.mark.parametrize(("rows_each", "epsilon"), [(1, "1e-9"), (10**6, "1e-7")])
def test_a_tiny_epsilon_does_not_overflow(rows_each: int, epsilon: str) -> None:
    """Enormous noise is cut to what a vote can hold, and SQL still agrees with Python."""
    fresh = some_rows(20)
    with memory(some_rows(), schema=replace(SCHEMA, unit=Unit("person", rows_each), rows=2000)) as opened:
        fill(opened.engine, "fresh", fresh)
        opened.set_limits("people", least_epsilon="1e-9")
        model = opened.train("people", method="rdt", epsilon=epsilon, depth=3)
        in_sql = model.predict("fresh")["prediction"].tolist()
    most = largest_weight(10, 3)
    assert 2**30 < int(np.abs(model.released.weights).max()) <= most
    assert in_sql == model.labels(frame_of(fresh)).tolist()


def test_noise_past_sixty_four_bits_is_refused_in_the_plan() -> None:
    """Where the samplers would overflow, nothing is charged."""
    with memory(schema=replace(SCHEMA, unit=Unit("person", 10**6), rows=2000)) as opened:
        with pytest.raises(ParameterError) as caught:
            opened.train("people", method="rdt", epsilon="1e-9")
        assert opened.budget("people").spent == 0
    assert caught.value.name == "epsilon"
