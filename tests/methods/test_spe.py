"""Median trees: how epsilon is shared, how deep they grow, and that their splits are near the medians."""

from __future__ import annotations

from functools import cache
from math import erf, sqrt

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from dpsql import methods
from dpsql.api.database import Database, connect
from dpsql.errors import ParameterError
from dpsql.kernel.plan import Plan
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import AllowanceExceeded, Session
from dpsql.methods.spe import allocation, depth_for, median_forest, public_depth
from dpsql.schema import Numeric, Schema, Unit
from dpsql.trees.forest import Forest
from dpsql.trees.grid import grid_cells
from tests.kernel.helpers import held
from tests.tables import SCHEMA, TARGET, Row, memory, some_rows, some_targets

SPE = methods.get("spe")
ONE = {"trees": 1, "depth": 1}
NORMAL = Schema("y", ("no", "yes"), tuple(Numeric(f"x{place}", -4, 4) for place in range(5)))


@pytest.mark.parametrize("geometric", [True, False])
@pytest.mark.parametrize("levels", [1, 2, 7, 30])
@pytest.mark.parametrize("nano", [10**9, 123_456_789, 40])
def test_levels_share_epsilon_to_the_last_nano(levels: int, nano: int, geometric: bool) -> None:
    """The parts add up exactly and none is empty; each level gets 3/2 of the one above it, or all get the same."""
    parts = allocation(nano, levels, geometric=geometric)
    assert sum(parts) == nano
    assert (len(parts), min(parts) >= 1) == (levels, True)
    if nano == 10**9 and levels == 7:
        ratios = np.array(parts[1:]) / np.array(parts[:-1])
        assert np.allclose(ratios, 1.5 if geometric else 1.0, atol=1e-6)


def test_the_plan_shares_epsilon_half_and_half() -> None:
    """Splits and counts get half each of what the size leaves."""
    plan = SPE.plan(SCHEMA, 10**9, {})
    assert [(step.name, step.nano_epsilon) for step in plan.steps] == [
        ("size", 3 * 10**7),
        ("splits", 485_000_000),
        ("counts", 485_000_000),
    ]
    known = SPE.plan(Schema(SCHEMA.label, SCHEMA.classes, SCHEMA.features, rows=1000), 10**9, {})
    assert [(step.name, step.nano_epsilon) for step in known.steps] == [("splits", 5 * 10**8), ("counts", 5 * 10**8)]


@pytest.mark.parametrize("nano", [1, 59])
def test_too_little_epsilon_is_refused(nano: int) -> None:
    """Each level must get something."""
    with pytest.raises(ParameterError, match="epsilon"):
        SPE.plan(SCHEMA, nano, {"depth": 1})


def test_depth_follows_rows_and_noise() -> None:
    """Twice the rows allow one level more; noise of twice the scale, once it decides, one level less."""
    assert depth_for(20_000, 10, 2.0) == depth_for(10_000, 10, 2.0) + 1
    assert depth_for(10_000, 10, 40.0) == depth_for(10_000, 10, 20.0) - 1
    assert depth_for(1, 10, 2.0) == 1


def test_depth_is_at_most_the_features_and_the_limit() -> None:
    """The paper's largest depth is the number of features; the limit bounds the cells of the release."""
    chosen = {"trees": 10, "limit": 2**22, "depth": None}
    assert public_depth(SCHEMA, chosen, 10**12, 10**9, Promise(SCHEMA.unit)) == 2
    limited = {"trees": 10, "limit": 10 * 2 * 8, "depth": None}
    assert public_depth(NORMAL, limited, 10**12, 10**9, Promise(NORMAL.unit)) == 3
    units = Schema("y", ("a", "b"), NORMAL.features, Unit("person", 64))
    assert public_depth(units, chosen, 10**9, 10_000, Promise(units.unit)) == depth_for(10_000, 10, 64.0) == 3


@pytest.mark.parametrize(
    ("method", "options"), [("spe", {}), ("sspe", {}), ("sspe", {"privacy": "labels"}), ("pte", {})]
)
def test_the_limit_bounds_a_depth_that_was_asked_for(method: str, options: dict[str, str]) -> None:
    """More levels than the limit allows are not grown, whoever asked for them."""
    schema = Schema("y", ("no", "yes"), NORMAL.features, public_features=True)
    plan = methods.get(method).plan(schema, 10**9, {"depth": 20, "limit": 4 * 2 * 8, "trees": 4, **options})
    assert plan.step("counts").cells == 4 * 2 * 8


def test_a_bought_size_decides_the_depth() -> None:
    """Few rows make shallow trees, many rows deep ones, within what the plan declared."""
    depths = []
    for count in (20, 3000):
        rows = [(k, float(k % 64), "ab"[k % 2], "no") for k in range(count)]
        with memory(rows) as opened:
            depths.append(opened.train("people", method="spe", epsilon=10).released.forest.depth)
    assert depths == [1, 2]


def opened_for(plan: Plan, rows: list[Row]) -> Session:
    """Return a session for a plan on some rows, as the kernel opens it after a charge."""
    database = held(rows)
    return Session(database.engine, database.source, plan)


def test_each_row_is_in_one_tree() -> None:
    """The counts of all leaves together are the rows, whatever the number of trees."""
    rows = [(k, float(k % 64), "ab"[k % 2], "no") for k in range(500)]
    plan = SPE.plan(SCHEMA, 10**14, {"trees": 4, "depth": 2})
    opened = opened_for(plan, rows)
    released = SPE.train(opened).forest
    assert released.forest.trees == 4
    assert abs(int(released.weights.sum()) - 500) <= 1


def test_levels_cannot_take_more_than_the_step() -> None:
    """A method that asks for more levels than it planned is stopped by the kernel."""
    plan = SPE.plan(SCHEMA, 10**9, {"trees": 2, "depth": 1})
    opened = opened_for(plan, some_rows())
    roots = SPE.public_trees(SCHEMA, plan)
    assert median_forest(opened, roots, 1).depth == 1
    with pytest.raises(AllowanceExceeded):
        median_forest(opened, roots, 1)


def test_splits_are_medians() -> None:
    """With much epsilon the first split of a number halves its rows."""
    numbers = np.arange(4096) % 64
    rows = [(k, float(x) * x / 64, "a", "no") for k, x in enumerate(numbers)]
    with memory(rows) as opened:
        forest = opened.train("people", method="spe", epsilon=1000, trees=3, depth=1, seed=3).released.forest
    values = grid_cells(SCHEMA, pd.DataFrame(rows, columns=["person", "x", "c", "y"]))
    leaves = forest.route(values)
    for tree in np.flatnonzero(forest.levels[0].axis == 1):
        share = (leaves[:, tree] % 2).mean()
        assert 0.45 < share < 0.55


def test_a_number_can_be_predicted() -> None:
    """The same trees predict a numeric target by the means of their leaves."""
    rows = [(k, float(k % 64), "a", float(k % 64) / 6.4) for k in range(2000)]
    with memory(rows, schema=TARGET) as opened:
        model = opened.train("people", method="spe", epsilon=100, trees=3, depth=4)
        frame = pd.DataFrame({"x": [2.0, 60.0], "c": ["a", "a"]})
        low, high = model.predict(frame)
    assert low < 2.5
    assert high > 7.5


def test_odd_targets_train() -> None:
    """NULL, NaN and infinite targets are no error."""
    with memory(some_targets(), schema=TARGET) as opened:
        assert opened.train("people", method="spe", trees=2, depth=2).released.forest.trees == 2


def test_the_published_form_stops_at_ten_rows() -> None:
    """`as_published` splits no node of 10 true rows or fewer, and takes candidates from the data's own range."""
    rows = [(k, 20.0 + k % 4, "a", "no") for k in range(9)]
    with memory(rows, cap=None) as opened:
        shallow = opened.train("people", method="spe", as_published=True, trees=1, depth=2, epsilon=10)
    assert shallow.released.forest.levels[0].axis.tolist() == [-1]
    rows = [(k, 20.0 + k % 4, "a", "no") for k in range(400)]
    with memory(rows, cap=None) as opened:
        for seed in range(6):
            model = opened.train(
                "people", method="spe", as_published=True, trees=1, depth=1, seed=seed, epsilon="0.001"
            )
            level = model.released.forest.levels[0]
            if level.axis[0] == 1:
                first_right = int(np.argmax(level.slots(np.zeros(64, np.int64), np.arange(64))))
                assert 20 < first_right <= 23
            else:
                assert level.axis[0] == -1  # one category in the data: nothing to split


# Figure 2 of the paper.


@cache
def normal_rows() -> tuple[Database, NDArray[np.uint8], NDArray[np.float64]]:
    """Return a database with 4,000 rows of a normal distribution, their cells and their values."""
    values = np.clip(np.random.default_rng(5).normal(size=(4000, 5)), -3.99, 3.99)
    frame = pd.DataFrame(values, columns=[f"x{place}" for place in range(5)]).assign(y="no")
    database = connect(":memory:", who="ann")
    with database.engine.transaction() as transaction:
        transaction.load("made", {name: frame[name].to_numpy() for name in frame.columns})
        transaction.run("CREATE TABLE normal AS SELECT * FROM made")
    return database, grid_cells(NORMAL, frame), values


def distance(forest: Forest, found: NDArray[np.uint8], values: NDArray[np.float64]) -> float:
    """Return how far the splits of all nodes are from the true medians there, on average, in standard deviations."""
    nodes = np.zeros(len(found), np.int64)
    apart: list[float] = []
    for level in forest.levels:
        for node in range(len(level.axis)):
            here, axis = nodes == node, int(level.axis[node])
            if axis >= 0 and here.any():
                right = level.slots(np.full(64, node), np.arange(64)).astype(bool)
                edge = NORMAL.features[axis].edges[int(np.argmax(right)) - 1]  # type: ignore[union-attr]
                apart.append(abs(edge - float(np.median(values[here, axis]))))
        axis_of = level.axis[nodes]
        nodes = level.child[nodes] + level.slots(nodes, found[np.arange(len(found)), axis_of])
    return float(np.mean(apart))


def one_tree(kind: str, seed: int, nano: int) -> float:
    """Return the distance of one tree of depth 5 under an allocation, through the kernel."""
    from dpsql.compile.rows import Source, table_reference

    database, found, values = normal_rows()
    plan = SPE.plan(NORMAL, nano, {"trees": 1, "depth": 5, "allocation": kind, "seed": seed})
    opened = Session(database.engine, Source(NORMAL, table_reference("normal", "main"), {}), plan)
    try:
        return distance(median_forest(opened, SPE.public_trees(NORMAL, plan), 5), found, values)
    finally:
        opened.close()


def test_geometric_shares_find_better_medians_than_equal_ones() -> None:
    """Figure 2: at equal budget geometric allocation is closer to the true medians; once in ten thousand by chance."""
    seeds = range(30)
    gains = np.array([one_tree("uniform", s, 200_000_000) - one_tree("geometric", s, 200_000_000) for s in seeds])
    deviations = gains.mean() / (gains.std(ddof=1) / sqrt(len(gains)))
    chance = (1 - erf(deviations / sqrt(2))) / 2
    assert chance < 1e-4, (gains.mean(), deviations)
