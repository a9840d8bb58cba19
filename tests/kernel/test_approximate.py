"""Approximate privacy in the kernel: sensitivities, shares of rho, noise of the planned deviation, what is refused."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpsql.errors import ParameterError
from dpsql.kernel import noise
from dpsql.kernel.operations import Choose, LeafCounts, LeafLabels, Size
from dpsql.kernel.plan import Composition, Parallel, Plan, Sequential, Sides, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import AllowanceExceeded, Session
from dpsql.schema import Schema, Unit
from tests.kernel.helpers import (
    EPSILON,
    Held,
    exact_histograms,
    exact_leaf_counts,
    exact_leaf_sums,
    held,
    histogram_step,
    leaf_step,
    sums_step,
)
from tests.tables import SCHEMA, TARGET, TARGET_UNITS, UNITS, small_forest, some_rows, some_targets

DELTA = Decimal("1e-6")
FOREST = small_forest(trees=24, depth=5)
CLASSES = len(SCHEMA.classes)
TREES = pytest.mark.parametrize("shared", [False, True], ids=["disjoint", "shared"])
LEVELS = pytest.mark.parametrize("schema", [SCHEMA, UNITS], ids=["row", "unit"])


def approximated(unit: Unit, nano_epsilon: int = EPSILON, delta: Decimal = DELTA) -> Promise:
    """Return what a run for (epsilon, delta) promises about a unit."""
    return Promise(unit, approximate=noise.approximate(nano_epsilon, delta))


def plan_of(composition: Composition, unit: Unit) -> Plan:
    """Return the plan of a composition for (its cost, 1e-6)."""
    return Plan("test", composition, approximated(unit, composition.cost))


def opened_on(database: Held, composition: Composition) -> Session:
    """Return an open session for (epsilon, delta)."""
    return Session(database.engine, database.source, plan_of(composition, database.schema.unit))


def is_gaussian(values: np.ndarray, deviation: float, *, tolerance: float = 0.1) -> bool:
    """Whether noise is centred, as wide as its deviation says, and has the tails of a bell, not of Laplace noise."""
    flat = values.ravel().astype(float)
    wide = float(np.sqrt(np.mean(flat**2))) / deviation
    heavy = float(np.mean(flat**4) / np.mean(flat**2) ** 2)
    centre = abs(flat.mean()) / (deviation / math.sqrt(flat.size))
    return abs(wide - 1) < tolerance and centre < 6 and heavy < 4.5


def off(values: np.ndarray, deviation: float) -> bool:
    """Whether the test tells deviations that are 30 % off from the one that was used."""
    return not is_gaussian(values, 1.3 * deviation) and not is_gaussian(values, deviation / 1.3)


def deviation(rho: Fraction, reach: int, counted: int) -> float:
    """Return the deviation that a reviewer works out: L2 sensitivity reach·√counted, over √(2 rho)."""
    return reach * math.sqrt(counted / (2 * float(rho)))


def rho_of(nano_epsilon: int = EPSILON) -> Fraction:
    """Return the rho of a run for (epsilon, 1e-6)."""
    return Fraction(noise.approximate(nano_epsilon, DELTA).nano_rho, 10**9)


@TREES
@LEVELS
def test_leaf_counts_carry_gaussian_noise(schema: Schema, shared: bool) -> None:
    """Released minus exact counts is Gaussian, deviation c·√T/√(2 rho) (shared) or c/√(2 rho) (disjoint)."""
    step = leaf_step("leaf_counts", FOREST, CLASSES, shared=shared)
    database = held(some_rows(), schema=schema)
    opened = opened_on(database, step)
    found = opened.leaf_counts("leaves", FOREST) - exact_leaf_counts(database, opened, FOREST, shared=shared)
    expected = deviation(rho_of(), schema.unit.max_rows, 24 if shared else 1)
    assert found.size > 1500
    assert is_gaussian(found, expected)
    assert off(found, expected)


@TREES
@LEVELS
def test_histograms_carry_gaussian_noise(schema: Schema, shared: bool) -> None:
    """Released minus exact cells is Gaussian, deviation c·√(T·axes)/√(2 rho)."""
    forest = small_forest(trees=4, depth=2)
    database = held(some_rows(), schema=schema)
    opened = opened_on(database, histogram_step(forest, [0, 1], CLASSES, shared=shared))
    found = opened.histograms("bins", forest, [0, 1])
    found -= exact_histograms(database, opened, forest, [0, 1], shared=shared)
    inside = np.concatenate([found[:, 0, : forest.axes[0].cells].ravel(), found[:, 1].ravel()])
    expected = deviation(rho_of(), schema.unit.max_rows, 2 * (4 if shared else 1))
    assert inside.size > 1500
    assert is_gaussian(inside, expected)
    assert off(inside, expected)


@pytest.mark.parametrize("schema", [TARGET, TARGET_UNITS], ids=["row", "unit"])
def test_leaf_sums_carry_gaussian_noise(schema: Schema) -> None:
    """Released minus exact sums is Gaussian, deviation c·S·√T/√(2 rho), S the steps of the target."""
    database = held(some_targets(), schema=schema)
    opened = opened_on(database, sums_step(FOREST, shared=True))
    found = opened.leaf_sums("leaves", FOREST) - exact_leaf_sums(database, opened, FOREST, shared=True)
    expected = deviation(rho_of(), 100 * schema.unit.max_rows, 24)
    assert is_gaussian(found, expected)
    assert off(found, expected)


def test_sizes_carry_gaussian_noise_of_their_share() -> None:
    """A size of one 400th of epsilon gets one 400th of rho."""
    database = held(some_rows(38))
    steps = Sequential(tuple(Step(f"n{k}", Size(), EPSILON // 400) for k in range(400)))
    opened = opened_on(database, steps)
    found = np.array([opened.size(f"n{k}") for k in range(400)]) - 42
    expected = deviation(rho_of() / 400, 1, 1)
    assert is_gaussian(found, expected, tolerance=0.2)
    assert not is_gaussian(found, 1.5 * expected, tolerance=0.2)


@LEVELS
@TREES
def test_labels_are_chosen_at_the_planned_row_epsilon(schema: Schema, shared: bool) -> None:
    """A class that leads by one row is named with the odds exp(e), K·(c·e)²/8 = rho: the exponential mechanism's."""
    promise = approximated(schema.unit)
    step = leaf_step("leaf_labels", FOREST, 2, shared=shared)
    row_epsilon = math.sqrt(8 * float(rho_of()) / (24 if shared else 1)) / schema.unit.max_rows
    assert float(step.row_epsilon(promise)) == pytest.approx(row_epsilon, rel=1e-6)
    assert float(step.row_epsilon(promise)) <= row_epsilon
    gap = round(1 / row_epsilon)
    chosen = noise.choose_largest(np.tile([gap, 0], (40_000, 1)), step, promise)
    share, exact = float(np.mean(chosen == 0)), 1 / (1 + math.exp(-gap * row_epsilon))
    assert abs(share - exact) < 0.012
    assert abs(share - 1 / (1 + math.exp(-1.3 * gap * row_epsilon))) > 0.012


@pytest.mark.parametrize(("rows", "trees"), [(1, 1), (1, 3), (2, 2), (3, 2)])
def test_no_unit_moves_counts_further_than_the_proof_says(rows: int, trees: int) -> None:
    """Over all ways to put the rows of a unit into two leaves of each tree, the longest change is c·√T."""
    ways = itertools.product(itertools.product([0, 1], repeat=trees), repeat=rows)
    longest = max(sum(squared_changes(way, trees)) for way in ways)
    step = Step("leaves", LeafCounts(), EPSILON, trees=trees, shared=True)
    promise = approximated(Unit("person", rows))
    assert longest == rows**2 * trees
    assert float(noise.variance(step, promise)) == pytest.approx(
        longest / (2 * float(noise.rho(step, promise))), rel=1e-6
    )


def squared_changes(way: Sequence[Sequence[int]], trees: int) -> list[int]:
    """Return the square of what rows, each in a leaf of each tree, add to every cell."""
    return [sum(row[tree] == leaf for row in way) ** 2 for tree in range(trees) for leaf in (0, 1)]


@pytest.mark.parametrize("nano", [EPSILON // 1000, EPSILON // 7, EPSILON, 50 * EPSILON])
@pytest.mark.parametrize("rows", [1, 3, 1000])
@pytest.mark.parametrize("trees", [1, 17, 10_000])
def test_rounding_is_on_the_safe_side(nano: int, rows: int, trees: int) -> None:
    """Variances are never below, row epsilons never above what rho allows, and both within a thousandth of it."""
    step = Step("leaves", LeafCounts(), nano, trees=trees, shared=True)
    promise = approximated(Unit("person", rows), nano)
    rho = noise.rho(step, promise)
    exact = Fraction(rows**2 * trees) / (2 * rho)
    assert exact <= noise.variance(step, promise) <= exact * Fraction(1001, 1000)
    spent = trees * (rows * step.row_epsilon(promise)) ** 2 / 8
    assert rho * Fraction(999, 1000) <= spent <= rho
    scale = float(step.scale(promise))
    assert 2 * scale**2 == pytest.approx(float(noise.variance(step, promise)), rel=1e-5)


def test_steps_add_up_to_the_rho_of_the_plan() -> None:
    """Sequential parts add up, of disjoint parts the largest counts, free steps pay nothing: in rho as in epsilon."""
    shares = [EPSILON // 10, EPSILON // 5, EPSILON // 3]
    small = Sequential((Step("a", Size(), shares[0]), Step("b", Size(), shares[1])))
    plan = plan_of(Sequential((Parallel((small, Step("c", Size(), shares[2]))), Step("d", Size(), 7))), Unit())
    rhos = {step.name: noise.rho(step, plan.promise) for step in plan.steps}
    whole = max(rhos["a"] + rhos["b"], rhos["c"]) + rhos["d"]
    assert plan.nano_epsilon == shares[2] + 7
    assert whole * 10**9 == plan.charge == noise.approximate(plan.nano_epsilon, DELTA).nano_rho


def test_uses_share_the_rho_of_a_step() -> None:
    """Parts of a step get their parts of its rho, and more than all of it cannot be asked for."""
    database = held(some_rows())
    step = Step("splits", Choose("median"), EPSILON, trees=1, cells=1, uses=2)
    opened = opened_on(database, step)
    forest = small_forest(trees=1, depth=0)
    with opened._allowance.take("splits", Choose) as taken:
        first = opened._allowance.use(taken, opened.schema, forest=forest, nano_epsilon=EPSILON // 4)
    assert noise.rho(first, opened.plan.promise) == rho_of() / 4
    with pytest.raises(AllowanceExceeded), opened._allowance.take("splits", Choose) as taken:
        opened._allowance.use(taken, opened.schema, forest=forest, nano_epsilon=EPSILON)


def test_a_plan_cannot_claim_more_than_its_rho_keeps() -> None:
    """A promise of more rho, or another epsilon, than (epsilon, delta) allows is refused."""
    step, promise = Step("size", Size(), EPSILON), approximated(Unit())
    assert promise.approximate is not None
    more = replace(promise.approximate, nano_rho=promise.approximate.nano_rho + 1)
    for wrong in (more, noise.approximate(2 * EPSILON, DELTA)):
        with pytest.raises(ParameterError):
            Plan("test", step, replace(promise, approximate=wrong))
    assert Plan("test", step, promise).kind == "approximate"


def test_what_has_no_proof_is_refused() -> None:
    """Labels alone, two sides and published forms do not take a delta."""
    step, promise = Step("labels", LeafLabels(), EPSILON), approximated(Unit())
    with pytest.raises(ParameterError, match="delta"):
        Plan("test", step, replace(promise, labels_only=True))
    with pytest.raises(ParameterError, match="delta"):
        Plan("test", replace(step, published=True), promise)
    with pytest.raises(ParameterError, match="delta"):
        Plan("test", Sides(Step("size", Size(), EPSILON), step, disjoint=True), promise)


def test_an_epsilon_too_small_for_its_delta_is_refused() -> None:
    """What allows less than a billionth of rho cannot be charged."""
    with pytest.raises(ParameterError) as caught:
        noise.approximate(1, Decimal("1e-9"))
    assert caught.value.name == "epsilon"


def test_the_plan_says_rho_deviation_and_what_pure_epsilon_would_need() -> None:
    """Each step tells its rho, its noise and deviation, and the scale without a delta."""
    step = Step("leaves", LeafCounts(), EPSILON, trees=100, shared=True)
    described = plan_of(step, Unit()).to_dict()
    told = described["steps"][0]
    assert (described["epsilon"], described["delta"]) == ("1", "1e-6")
    assert told["rho"] == pytest.approx(float(described["rho"]))
    assert told["noise"] == "discrete Gaussian"
    assert told["deviation"] == pytest.approx(deviation(rho_of(), 1, 100), rel=1e-5)
    assert told["pure_noise_scale"] == 100
    assert f"standard deviation {told['deviation']:.3g} rows" in told["expected_error"]


def renyi(first: np.ndarray, second: np.ndarray, order: float) -> float:
    """Return the Rényi divergence of an order between two lists of chances, over the order: what rho must bound."""
    logs = order * np.log(first) + (1 - order) * np.log(second)
    return float(np.log(np.exp(logs - logs.max()).sum()) + logs.max()) / (order - 1) / order


@pytest.mark.parametrize("order", [1.01, 2.0, 8.0, 64.0])
def test_choices_between_neighbours_lose_no_more_than_rho(order: float) -> None:
    """Rows that raise counts, one each, change the chances of every label within (d·e)²/8, d the number of rows."""
    draw = np.random.default_rng(1)
    for _ in range(300):
        counts, rows, row_epsilon = draw.integers(0, 9, 4), int(draw.integers(1, 5)), draw.uniform(0.1, 2)
        more = counts + draw.multinomial(rows, [0.25] * 4)
        chances = [np.exp(row_epsilon * one) / np.exp(row_epsilon * one).sum() for one in (counts, more)]
        bound = (rows * row_epsilon) ** 2 / 8
        assert max(renyi(*chances, order), renyi(*chances[::-1], order)) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("order", [1.01, 2.0, 8.0])
def test_gaussian_noise_loses_no_more_than_rho(order: float) -> None:
    """Between counts that differ by d, discrete Gaussian noise of variance v has divergence d²/(2v), at every order."""
    places = np.arange(-400, 401)
    for variance, change in itertools.product([0.3, 2.0, 40.0], [1, 3]):
        chances = [np.exp(-((places - centre) ** 2) / (2 * variance)) for centre in (0, change)]
        inside = np.minimum(*chances) > 1e-290
        first, second = (one[inside] / one.sum() for one in chances)
        assert renyi(first, second, order) <= change**2 / (2 * variance) * (1 + 1e-9)


def test_one_module_decides_on_noise() -> None:
    """Nothing else in the kernel draws noise or flips coins: what a row epsilon pays for depends on it."""
    for path in (Path(noise.__file__).parent).glob("*.py"):
        text = path.read_text(encoding="utf-8")
        drawn = [name for name in ("discrete_laplace", "discrete_gaussian", "permute_and_flip") if name + "(" in text]
        assert path.name == "noise.py" or not drawn, f"{path.name} draws {drawn}"
