"""`fs`: its steps add up, its tree follows from noisy answers, each split is paid for and worth its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from dpsql.api.database import Database
from dpsql.errors import ParameterError
from dpsql.kernel.candidates import Candidates
from dpsql.kernel.operations import Choose
from dpsql.kernel.plan import Plan
from dpsql.kernel.promise import Promise
from dpsql.kernel.utility import MOST, utilities
from dpsql.methods.base import Method
from dpsql.methods.fs import UTILITIES, Fs, bound
from dpsql.methods.shared.greedy import (
    Measured,
    candidate_splits,
    consistent,
    even_weights,
    greedy_forest,
    rows_needed,
    shrunken_shares,
    worthwhile,
)
from dpsql.schema import CELLS, Categorical, Numeric, Schema, Unit
from dpsql.trees.forest import PASS, Forest
from dpsql.trees.grid import axes
from dpsql.trees.grow.splits import ReachableCells, many_way
from dpsql.trees.serialize import check_forest
from dpsql.trees.voting import VotingForest
from tests.kernel.helpers import Watched
from tests.tables import SCHEMA, UNITS, Row, frame_of, memory

METHOD = Fs()
NANO = 10**9
#: A category of five values, one of two, two numbers.
MIXED = Schema(
    "y",
    ("no", "yes"),
    (Categorical("c", tuple("abcde")), Categorical("b", ("f", "t")), Numeric("x", 0, 64), Numeric("z", 0, 64)),
)
WIDE = Schema("y", ("no", "yes"), (Categorical("zip", tuple(map(str, range(200)))), Numeric("x", 0, 1)))
Answer = Callable[[Forest], np.ndarray]


@dataclass
class Told:
    """A session that counts as it is told and chooses at random, checks all against the plan, and remembers it."""

    schema: Schema
    plan: Plan
    answer: Answer
    asked: list[Forest] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)
    candidates: list[Candidates] = field(default_factory=list)

    def leaf_counts(self, name: str, forest: Forest) -> np.ndarray:
        """Return the answer that was given for a forest."""
        step = self.plan.step(name)
        check_forest(forest)
        assert step.trees == forest.trees
        assert forest.leaves * len(self.schema.classes) <= step.cells
        self.asked.append(forest)
        return self.answer(forest)

    def choose(self, name: str, forest: Forest, candidates: Candidates, *, nano_epsilon: int) -> np.ndarray:
        """Return an open candidate of each leaf that asks."""
        step = self.plan.step(name)
        candidates.check_fit(forest)
        assert forest.leaves <= step.cells
        self.parts.append(nano_epsilon)
        self.candidates.append(candidates)
        assert sum(self.parts) <= step.nano_epsilon
        assert len(self.parts) <= step.uses
        weights = candidates.weights.reshape(forest.leaves, -1)
        drawn = np.random.default_rng(len(self.parts)).random(weights.shape)
        return np.where(weights.any(axis=1), np.where(weights > 0, drawn, -1).argmax(axis=1), -1)


class Exact(Told):
    """A session that knows rows (cells and classes) and answers without noise: the best candidate of each leaf."""

    def __init__(self, schema: Schema, plan: Plan, cells: np.ndarray, classes: np.ndarray) -> None:
        super().__init__(schema, plan, self.count)
        self.cells, self.classes = cells, classes

    def count(self, forest: Forest) -> np.ndarray:
        """Return the exact counts of the first tree's leaves, which all rows walk."""
        keys = forest.route(self.cells)[:, 0] * 2 + self.classes
        return np.bincount(keys, minlength=forest.leaves * 2).reshape(-1, 2)

    def choose(self, name: str, forest: Forest, candidates: Candidates, *, nano_epsilon: int) -> np.ndarray:
        """Return the candidate of largest utility of each leaf that asks."""
        leaf, found = forest.route(self.cells)[:, 0], []
        for axis in range(len(forest.axes)):
            keys = (leaf * CELLS + self.cells[:, axis]) * 2 + self.classes
            counts = np.bincount(keys, minlength=forest.leaves * CELLS * 2).reshape(-1, CELLS, 2)
            found.append(utilities(self.plan.step(name).operation_as(Choose).utility, counts, candidates.splits, axis))
        scores = np.where(candidates.weights > 0, np.stack(found, axis=1), np.iinfo(np.int64).min)
        best = scores.reshape(forest.leaves, -1).argmax(axis=1)
        return np.where(candidates.weights.any(axis=(1, 2)), best, -1)


def told(method: Method, schema: Schema, answer: Answer, **parameters: Any) -> tuple[VotingForest, Told]:
    """Return the trees that grow from these answers, and the session that gave them."""
    session = Told(schema, method.plan(schema, NANO, parameters), answer)
    return method.train(session).forest, session  # type: ignore[arg-type]


def noise(classes: int, seed: int, scale: float = 3000.0) -> Answer:
    """Answer with noise alone, as for an empty table."""
    generator = np.random.default_rng(seed)
    return lambda forest: np.rint(generator.laplace(0, scale, (forest.leaves, classes))).astype(np.int64)


def spread(rows: float, classes: int = 2) -> Answer:
    """Answer with that many rows in all, the same in each leaf and class."""
    return lambda forest: np.full((forest.leaves, classes), rows / forest.leaves / classes)


@pytest.mark.parametrize("utility", UTILITIES)
@pytest.mark.parametrize("depth", [1, 5, 30])
@pytest.mark.parametrize("nano_epsilon", [150, 10**9, 10**9 + 1, 123_456_789])
def test_the_steps_add_up(nano_epsilon: int, depth: int, utility: str) -> None:
    """The plan costs what was asked, to the billionth, whatever division leaves over."""
    plan = METHOD.plan(MIXED, nano_epsilon, {"depth": depth, "utility": utility})
    assert plan.nano_epsilon == sum(step.nano_epsilon for step in plan.steps) == nano_epsilon


def test_each_level_has_a_size_and_a_choice() -> None:
    """Five levels: 20 % for the sizes, 50 % for the choices, 30 % for the leaves, and no size bought."""
    plan = METHOD.plan(MIXED, NANO, {})
    assert [step.name for step in plan.steps] == [*(f"size_{k}" for k in range(5)), "splits", "counts"]
    assert [step.nano_epsilon for step in plan.steps] == [4 * 10**7] * 5 + [5 * 10**8, 3 * 10**8]
    assert [step.cells for step in plan.steps[:3]] == [2, 10, 50]
    assert (plan.step("splits").uses, plan.step("splits").scans) == (5, 5)


def test_too_little_epsilon_is_refused() -> None:
    """A budget that cannot be divided among the steps is an error that names epsilon and what would do."""
    with pytest.raises(ParameterError) as refused:
        METHOD.plan(MIXED, 24, {})
    assert (refused.value.name, refused.value.allowed) == ("epsilon", "at least 0.000000025")
    assert METHOD.plan(MIXED, 25, {}).nano_epsilon == 25


def test_a_limit_below_the_root_is_refused() -> None:
    """The candidate splits of the root must fit: four features, 63 places for each."""
    with pytest.raises(ParameterError) as refused:
        METHOD.plan(MIXED, NANO, {"limit": 4 * 63 - 1})
    assert refused.value.name == "limit"
    assert METHOD.plan(MIXED, NANO, {"limit": 4 * 63}).step("counts").cells == 2


@pytest.mark.parametrize("utility", UTILITIES)
def test_each_utility_is_the_kernels(utility: str) -> None:
    """max, gain and gini are the kernel's majority, entropy and gini, with their proved widths."""
    step = METHOD.plan(MIXED, NANO, {"utility": utility}).step("splits").operation_as(Choose)
    assert (step.utility, step.width) == {
        "max": ("majority", 1),
        "gain": ("entropy", step.width),
        "gini": ("gini", 2048),
    }[utility]


def test_declared_rows_make_gain_less_noisy() -> None:
    """The bound on a node's rows follows from the declared number, and no class count of that many rows is cut off."""
    declared = replace(MIXED, rows=30_000)
    widths = [
        METHOD.plan(one, NANO, {"utility": "gain"}).step("splits").operation_as(Choose).width
        for one in (MIXED, declared)
    ]
    assert 0.5 < widths[1] / widths[0] < 0.55
    assert bound(declared) // len(declared.classes) >= 30_000
    assert (bound(MIXED), bound(replace(MIXED, rows=2**40))) == (MOST, MOST)


def test_a_split_needs_rows_for_each_count_to_pass_its_noise() -> None:
    """N/(t|C|) is at least √2 · scale, for each split its own t: a number is split before a category of five values."""
    scale = 300 / (2 * np.sqrt(2))
    assert rows_needed(2, scale) == pytest.approx(300)
    grid = axes(MIXED)
    splits, held = many_way(grid, 64), ReachableCells.roots(grid, 1)
    assert candidate_splits(grid, splits, held, np.array([2 * 299.0]), 300, 100) is None
    found = candidate_splits(grid, splits, held, np.array([2 * 301.0]), 300, 100)
    assert found is not None
    assert found.axis.tolist() == [[PASS, 1, 2, 3]]
    found = candidate_splits(grid, splits, held, np.array([5 * 301.0]), 300, 100)
    assert found is not None
    assert found.axis.tolist() == [[0, 1, 2, 3]]


def test_a_unit_of_three_rows_needs_three_times_the_rows() -> None:
    """At unit level the noise triples, and so does what a split needs."""
    for rows, schema, depth in ((300, SCHEMA, 5), (300, UNITS, 3), (900, UNITS, 5)):
        assert told(METHOD, schema, spread(rows, 3))[0].forest.depth <= depth
    scales = [METHOD.plan(one, NANO, {}).step("counts").scale(Promise(one.unit)) for one in (SCHEMA, UNITS)]
    assert scales[1] == 3 * scales[0]


def test_an_empty_root_is_a_leaf() -> None:
    """When nothing seems to be there nothing is split, and only the root's counts are asked, twice."""
    released, session = told(METHOD, MIXED, spread(0))
    assert (released.forest.depth, session.parts) == (0, [])
    assert [forest.leaves for forest in session.asked] == [1, 1]


def test_every_feature_weighs_the_same() -> None:
    """63 thresholds, one split of a category, or both digits of a wide one: a feature's weights add up alike."""
    for schema in (MIXED, WIDE):
        grid = axes(schema)
        held = ReachableCells.roots(grid, 2)
        weights = even_weights(grid, held.open_splits(many_way(grid, 64))).sum(axis=2)
        feature = np.array([axis.feature for axis in grid])
        total = np.array([weights[:, feature == one].sum() for one in range(len(schema.features))])
        assert np.ptp(total) / total.max() < 1e-4


def test_levels_that_no_node_reaches_get_no_epsilon() -> None:
    """Rows for two levels make two parts, rows for all make five; together they are what is planned, to a remainder."""
    assert (worthwhile(1000, 250, 5), worthwhile(10**9, 1, 5), worthwhile(-5, 1, 5)) == (2, 5, 1)
    needed = rows_needed(2, 10 / 3)
    for rows, levels in ((4.5 * needed, 2), (10**6, 5)):
        _, session = told(METHOD, MIXED, spread(rows))
        assert set(session.parts) == {5 * 10**8 // levels}


def test_a_category_is_used_once_and_a_number_may_come_again() -> None:
    """On every path."""
    forest = told(METHOD, MIXED, spread(10**7), depth=8)[0].forest
    used = [[axis for axis, _ in forest.path(leaf)] for leaf in range(0, forest.leaves, 7)]
    assert all(path.count(0) <= 1 and path.count(1) <= 1 for path in used)
    assert any(path.count(2) > 1 for path in used)


@pytest.mark.parametrize("schema", [MIXED, WIDE, SCHEMA], ids=["mixed", "wide", "small"])
@pytest.mark.parametrize("limit", [600, 5000, 2**17])
@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_noise_the_tree_stays_within_the_plan(schema: Schema, limit: int, seed: int) -> None:
    """Every release asked for is one the plan declared, and the tree is sound."""
    released, session = told(METHOD, schema, noise(len(schema.classes), seed), limit=limit, depth=12)
    assert all(forest.leaves * len(schema.classes) <= limit for forest in session.asked)
    assert all(one.weights.size <= limit for one in session.candidates)
    check_forest(released.forest)


def test_when_nodes_are_scarce_the_largest_are_split() -> None:
    """Under the limit the nodes of largest noisy size go first."""

    def answer(forest: Forest) -> np.ndarray:
        return np.arange(1, forest.leaves + 1)[:, None] * [10**5, 10**5]

    forest = told(METHOD, MIXED, answer, limit=4 * 63 * 9, depth=6)[0].forest
    split = forest.levels[-1].axis != PASS
    assert forest.leaves <= 9
    assert 0 < split.sum() < len(split)
    assert split[-1]


@pytest.mark.parametrize("utility", UTILITIES)
def test_with_exact_answers_the_signal_is_found(utility: str) -> None:
    """The class is whether z is in the upper half: the root splits z there, whatever the utility."""
    grid = np.stack(np.meshgrid(np.arange(5), [0, 1], np.arange(64), np.arange(64), indexing="ij"), axis=-1)
    cells = grid.reshape(-1, 4).astype(np.uint8)
    session = Exact(MIXED, METHOD.plan(MIXED, 100 * NANO, {"utility": utility}), cells, (cells[:, 3] >= 32).astype(int))
    released = METHOD.train(session).forest  # type: ignore[arg-type]
    axis, right = released.forest.path(released.forest.leaves - 1)[0]
    assert (axis, right.tolist()) == (3, [False] * 32 + [True] * 32)
    assert (released.scores(cells).argmax(axis=1) == (cells[:, 3] >= 32)).all()


@pytest.mark.parametrize("utility", UTILITIES)
@pytest.mark.parametrize("schema", [SCHEMA, UNITS], ids=["row", "unit"])
def test_a_planted_signal_is_found_in_the_database(utility: str, schema: Schema) -> None:
    """With much epsilon "yes in the lower half of x, else what c says" is predicted: each split of it pays at once."""
    rows: list[Row] = [
        (k, float(k % 64), "ab"[k // 64 % 2], "yes" if k % 64 < 32 else ("no", "maybe")[k // 64 % 2])
        for k in range(2048)
    ]
    with memory(rows, schema=schema) as opened:
        model = opened.train("people", epsilon=50, method="fs", utility=utility, depth=3)
        frame = frame_of(rows[:128])
        assert (model.predict(frame) == frame["y"]).mean() > 0.95


def test_a_level_is_two_statements() -> None:
    """Sizes and choices of all nodes of a level are one statement each; the leaves are one more."""
    with memory([(k, float(k % 64), "ab"[k % 2], ("no", "yes")[k // 32 % 2]) for k in range(512)]) as opened:
        watched = Watched(opened.engine)
        database = Database(watched, who="ann")  # type: ignore[arg-type]
        model = database.train("people", epsilon=100, method="fs", depth=3)
    assert model.released.forest.depth == 3
    counted = [one for one in watched.statements if "COUNT" in one.upper() or "SUM" in one.upper()]
    assert len(counted) == 2 * 3 + 1


def test_two_measurements_are_weighed_by_their_variance() -> None:
    """The better one counts more, and together they are better than either."""
    both = Measured(np.array([[10.0, 0.0]]), 1).plus(Measured(np.array([[0.0, 10.0]]), 4))
    assert both.counts.tolist() == [[8.0, 2.0]]
    assert both.variance == pytest.approx(0.8)


def test_the_estimates_are_least_squares() -> None:
    """They are what a general solver finds for all counts of a tree, each weighed by its variance."""
    forest = told(METHOD, MIXED, spread(10**6), depth=3)[0].forest
    generator = np.random.default_rng(1)
    sizes = [1, *(level.width for level in forest.levels)]
    measured = [Measured(generator.normal(size=(size, 2)) * 9, 1.0 + place) for place, size in enumerate(sizes)]
    below, rows = np.eye(forest.leaves), list[np.ndarray]()
    for level in (*reversed(forest.levels), None):
        rows.insert(0, below)
        below = below if level is None else np.add.reduceat(below, level.child, axis=0)
    weights = np.concatenate(
        [np.full(size, 1 / np.sqrt(one.variance)) for size, one in zip(sizes, measured, strict=True)]
    )
    told_counts = np.concatenate([one.counts for one in measured])
    best = np.linalg.lstsq(np.concatenate(rows) * weights[:, None], told_counts * weights[:, None], rcond=None)[0]
    assert np.allclose(consistent(forest.levels, measured)[0][-1], best)


def test_a_leaf_of_few_rows_says_what_its_parent_says() -> None:
    """A count far below its noise does not outvote the node above; one far above it does."""
    forest = told(METHOD, MIXED, spread(3 * rows_needed(2, 10 / 3)))[0].forest
    assert forest.leaves == 2
    root = np.array([[900.0, 100.0]])
    for counts, label in (([5.0, 9.0], 0), ([5.0, 900.0], 1)):
        estimated = [root, np.array([[895.0, 91.0], counts])]
        shares = shrunken_shares(forest.levels, estimated, [np.array([100.0]), np.array([400.0, 400.0])])
        assert shares[1].argmax() == label
        assert np.allclose(shares.sum(axis=1), 1)


def test_the_same_answers_give_the_same_tree() -> None:
    """The tree is a function of schema, parameters and noisy answers: replayed, it comes out the same."""
    first, second = (told(METHOD, MIXED, noise(2, 7))[0] for _ in range(2))
    assert first.digest() == second.digest()


def test_a_tiny_epsilon_trains() -> None:
    """Enormous noise makes some tree with weights that a vote can hold."""
    schema = replace(SCHEMA, unit=Unit("person", 10))
    with memory([(1, 1.0, "a", "no")], schema=schema, least_epsilon="1e-9") as opened:
        model = opened.train("people", epsilon="0.000000025", method="fs")
    assert 0 <= model.released.weights.min() <= model.released.weights.max() <= 2**20


def test_demand_scales_the_rule() -> None:
    """A split may need less than the rule of a single tree."""
    rows = 2 * rows_needed(2, 10 / 3) * 0.8
    session = Told(MIXED, METHOD.plan(MIXED, NANO, {}), spread(rows))
    roots, splits = Forest(axes(MIXED), 1, ()), many_way(axes(MIXED), 64)
    depths = [
        greedy_forest(session, roots, splits, depth=5, limit=2**22, demand=demand).forest.depth  # type: ignore[arg-type]
        for demand in (1, 0.5)
    ]
    assert depths[0] == 0 < depths[1]
