"""`id3`: all its queries are counted, its tree follows from noisy answers, and it splits what tells classes apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from dpsql.errors import ParameterError
from dpsql.kernel.plan import Plan
from dpsql.kernel.promise import Promise
from dpsql.methods.id3 import Id3, information_gain
from dpsql.schema import Categorical, Numeric, Schema, Unit
from dpsql.trees.forest import PASS, Forest
from dpsql.trees.serialize import check_forest
from dpsql.trees.voting import VotingForest
from tests.tables import SCHEMA, UNITS

METHOD = Id3()
NURSERY = Schema(
    "y",
    tuple("abcde"),
    tuple(Categorical(f"c{k}", tuple(map(str, range(values)))) for k, values in enumerate((3, 5, 4, 4, 3, 2, 3, 3))),
)
WIDE = Schema(
    "y", ("no", "yes"), (Categorical("zip", tuple(map(str, range(200)))), *(Numeric(f"x{k}", 0, 1) for k in range(4)))
)
#: Two numbers, a category of two values; the class is 1 where the second number is in the upper half.
PLAIN = Schema("y", ("no", "yes"), (Numeric("x", 0, 64), Numeric("z", 0, 64), Categorical("c", ("a", "b"))))
Answer = Callable[[Forest], np.ndarray]


@dataclass
class Told:
    """A session that answers as it is told, checks what is asked against the plan, and remembers it."""

    schema: Schema
    plan: Plan
    answer: Answer
    asked: list[Forest] = field(default_factory=list)

    def leaf_counts(self, name: str, forest: Forest) -> np.ndarray:
        """Return the answer that was given for a forest."""
        step = self.plan.step(name)
        check_forest(forest)
        assert step.trees == forest.trees
        assert forest.leaves * len(self.schema.classes) <= step.cells
        self.asked.append(forest)
        return self.answer(forest)


def told(schema: Schema, answer: Answer, **parameters: Any) -> tuple[VotingForest, list[Forest]]:
    """Return the tree that grows from these answers, and the forests that were asked for."""
    session = Told(schema, METHOD.plan(schema, 10**9, parameters), answer)
    return METHOD.train(session).forest, session.asked  # type: ignore[arg-type]


def exact(forest: Forest) -> np.ndarray:
    """Answer with the counts of 4096 rows of PLAIN, no noise."""
    x, z, c = np.meshgrid(np.arange(64), np.arange(64), [0], indexing="ij")
    cells = np.stack([x.ravel(), z.ravel(), c.ravel()], axis=1).astype(np.uint8)
    keys = forest.route(cells) * 2 + (cells[:, 1:2] >= 32)
    return np.bincount(keys.ravel(), minlength=forest.leaves * 2).reshape(-1, 2)


def noise(classes: int, seed: int, scale: float = 1000.0) -> Answer:
    """Answer with noise alone, as for an empty table."""
    generator = np.random.default_rng(seed)
    return lambda forest: np.rint(generator.laplace(0, scale, (forest.leaves, classes))).astype(np.int64)


def test_the_queries_of_nursery_are_those_of_table_1_and_one_more() -> None:
    """The paper counts 36 for 8 attributes (Table 1); the counts of the leaves are the 37th."""
    plan = METHOD.plan(NURSERY, 10**9, {})
    assert [step.trees for step in plan.steps] == [8, 7, 6, 5, 4, 3, 2, 1, 1]
    assert plan.parameters["queries"] == 36 + 1


@pytest.mark.parametrize(("attributes", "queries"), [(16, 136), (22, 253)])
def test_the_queries_of_votes_and_mushroom_too(attributes: int, queries: int) -> None:
    """The other two rows of Table 1."""
    schema = Schema("y", ("a", "b"), tuple(Categorical(f"c{k}", ("y", "n")) for k in range(attributes)))
    assert METHOD.plan(schema, 10**9, {}).parameters["queries"] == queries + 1


def test_every_query_gets_the_same_epsilon() -> None:
    """All noise scales are q/epsilon, but for what division leaves over for the last."""
    plan = METHOD.plan(NURSERY, 37 * 10**7, {})
    assert {step.scale(plan.promise) for step in plan.steps} == {100}
    assert all(step.operation.name == "leaf_counts" and step.shared for step in plan.steps)


@pytest.mark.parametrize("nano_epsilon", [37, 10**9, 10**9 + 1, 123_456_789])
def test_the_steps_add_up(nano_epsilon: int) -> None:
    """The plan costs what was asked, to the billionth."""
    assert METHOD.plan(NURSERY, nano_epsilon, {}).nano_epsilon == nano_epsilon


def test_a_unit_of_three_rows_triples_the_noise() -> None:
    """At unit level the noise scale is c·q/epsilon."""
    step = METHOD.plan(UNITS, 4 * 10**9, {}).steps[0]
    assert step.scale(Promise(Unit("person", 3))) == 3 * step.scale(Promise(SCHEMA.unit)) == 3


def test_too_little_epsilon_is_refused() -> None:
    """A budget that cannot be divided among the queries is an error that names epsilon."""
    with pytest.raises(ParameterError) as refused:
        METHOD.plan(NURSERY, 36, {})
    assert refused.value.name == "epsilon"


def test_a_limit_below_the_root_is_refused() -> None:
    """The candidate splits of the root must fit."""
    with pytest.raises(ParameterError) as refused:
        METHOD.plan(NURSERY, 10**9, {"limit": 27 * 5 - 1})
    assert refused.value.name == "limit"
    assert METHOD.plan(NURSERY, 10**9, {"limit": 27 * 5}).parameters["most_nodes"] == 1


@pytest.mark.parametrize(("depth", "levels"), [(1, 1), (3, 3), (60, 8)])
def test_depth_bounds_the_levels(depth: int, levels: int) -> None:
    """No more levels than asked for, nor than attributes."""
    assert len(METHOD.plan(NURSERY, 10**9, {"depth": depth}).steps) == levels + 1


@pytest.mark.parametrize("schema", [NURSERY, WIDE, SCHEMA], ids=["nursery", "wide", "small"])
@pytest.mark.parametrize("limit", [600, 5000, 2**17])
@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_noise_the_tree_stays_within_the_plan(schema: Schema, limit: int, seed: int) -> None:
    """Every release asked for is one the plan declared, and the tree is sound."""
    released, asked = told(schema, noise(len(schema.classes), seed), limit=limit)
    assert all(forest.leaves * len(schema.classes) <= limit for forest in asked)
    check_forest(released.forest)


def test_the_same_answers_give_the_same_tree() -> None:
    """The tree is a function of schema, parameters and noisy answers: replayed, it comes out the same."""
    first, second = (told(NURSERY, noise(5, 7), limit=20_000)[0] for _ in range(2))
    assert first.digest() == second.digest()


def test_no_path_splits_an_attribute_twice() -> None:
    """R − {D} of Algorithm 1."""
    forest = told(NURSERY, noise(5, 1), limit=20_000)[0].forest
    assert forest.depth > 2
    for leaf in range(forest.leaves):
        used = [axis for axis, _ in forest.path(leaf)]
        assert len(used) == len(set(used))


def test_the_split_that_tells_the_classes_apart_is_taken() -> None:
    """With exact answers the root splits z, and its pure branches become leaves at once."""
    released, asked = told(PLAIN, exact)
    assert (released.forest.depth, released.forest.leaves) == (1, 10)
    assert released.forest.levels[0].axis.tolist() == [1]
    assert [forest.trees for forest in asked] == [3, 2, 1]


def test_an_empty_root_is_a_leaf() -> None:
    """When nothing seems to be there, nothing is split, and the plan's other levels are not asked."""
    released, asked = told(NURSERY, lambda forest: np.full((forest.leaves, 5), -3))
    assert (released.forest.depth, len(asked)) == (0, 2)


def test_leaves_vote_with_their_noisy_counts() -> None:
    """Counts below 0 are kept."""
    released, _ = told(SCHEMA, lambda forest: np.tile([-5, -7, -6], (forest.leaves, 1)))
    assert released.weights.tolist() == [[-5, -7, -6]]


def test_when_nodes_are_scarce_the_largest_are_split() -> None:
    """Under the limit the nodes of largest noisy size go first."""

    def answer(forest: Forest) -> np.ndarray:
        return np.arange(1, forest.leaves + 1)[:, None] * [10, 9, 8, 7, 6]

    forest = told(NURSERY, answer, limit=27 * 5 * 9, depth=2)[0].forest
    split = forest.levels[1].axis != PASS
    assert 0 < split.sum() < len(split)
    assert split.tolist() == sorted(split.tolist())


def test_numbers_are_split_into_bins_and_wide_categories_into_groups() -> None:
    """The candidates of the root: `branches` groups of each digit of a wide category, `bins` parts of a number."""
    _, asked = told(WIDE, noise(2, 1), bins=5, branches=3)
    last = asked[0].levels[-1]
    assert last.arity.tolist() == [3, 3, 5, 5, 5, 5]
    cells = np.arange(64)
    assert (np.diff(last.slots(np.full(64, 2), cells)) >= 0).all()
    assert np.bincount(last.slots(np.zeros(64, np.int64), cells)).tolist() == [22, 21, 21]


def test_one_value_alone_is_told_from_others() -> None:
    """A category of one declared value is split into it and everything else."""
    schema = Schema("y", ("no", "yes"), (Categorical("c", ("a",)),))
    _, asked = told(schema, noise(2, 1))
    assert asked[0].levels[-1].slots(np.zeros(2, np.int64), np.arange(2)).tolist() == [0, 1]


def test_information_gain_is_the_textbooks() -> None:
    """Quinlan's weather data (1986): outlook gains 0.247 bits, windy 0.048."""
    outlook, windy = [[2, 3], [4, 0], [3, 2]], [[6, 2], [3, 3]]
    gain = information_gain(np.array(outlook + windy), np.array([0, 3])) / np.log(2)
    assert gain.round(3).tolist() == [0.247, 0.048]


def test_counts_below_zero_do_not_count() -> None:
    """A branch that noise made negative is empty; a split of nothing gains nothing."""
    gain = information_gain(np.array([[8, -9], [-1, 8], [-1, -1], [-5, -5]]), np.array([0, 2]))
    assert gain.round(3).tolist() == [0.693, 0.0]
