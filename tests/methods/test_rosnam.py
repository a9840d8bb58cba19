"""`rosnam`: what its parameters do to the plan and the trees."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpsql.errors import ParameterError
from dpsql.kernel.promise import Promise
from dpsql.kernel.published import label_chances, smooth_labels
from dpsql.methods.rosnam import Rosnam
from dpsql.schema import Categorical, Numeric, Schema, Unit
from tests.tables import SCHEMA, UNITS

METHOD = Rosnam()
WIDE = Schema(
    "y", ("no", "yes"), (Categorical("zip", tuple(map(str, range(200)))), *(Numeric(f"x{k}", 0, 1) for k in range(9)))
)


def test_the_default_is_one_hundred_trees() -> None:
    """Step 2 of the paper."""
    assert METHOD.plan(SCHEMA, 10**9, {}).parameters["trees"] == 100


def test_the_plan_is_one_release_on_disjoint_trees() -> None:
    """One step of labels, each unit in one tree, at the whole epsilon."""
    (step,) = METHOD.plan(SCHEMA, 10**9, {"trees": 7}).steps
    assert (step.operation.name, step.trees, step.shared, step.nano_epsilon) == ("leaf_labels", 7, False, 10**9)
    assert step.scale(Promise(SCHEMA.unit)) == 1


def test_a_unit_of_three_rows_triples_the_noise() -> None:
    """At unit level the noise scale is c/epsilon."""
    assert METHOD.plan(UNITS, 10**9, {"trees": 7}).steps[0].scale(Promise(Unit("person", 3))) == 3


def test_the_declared_values_are_the_leaves() -> None:
    """The plan states as many values as the forest has leaves."""
    plan = METHOD.plan(WIDE, 10**9, {"trees": 5, "depth": 3})
    assert plan.steps[0].cells == METHOD.public_trees(WIDE, plan).leaves == plan.parameters["leaves"]


def test_table_four_is_one_level_deeper() -> None:
    """The paper's Table 4 lists Theorem 2 plus one where there are continuous features."""
    depths = [
        METHOD.plan(WIDE, 10**9, {"trees": 2, "depth_rule": rule}).parameters["wanted_depth"]
        for rule in ("theorem2", "table4")
    ]
    assert depths[1] == depths[0] + 1


def test_an_asked_depth_is_kept() -> None:
    """`depth` overrules the rule."""
    assert METHOD.plan(WIDE, 10**9, {"trees": 2, "depth": 2}).parameters["grown_depth"] == 2


@pytest.mark.parametrize("limit", [20, 64, 1000, 100_000])
def test_the_grid_stays_within_the_limit(limit: int) -> None:
    """Levels are grown only while trees × leaves × classes fits."""
    plan = METHOD.plan(WIDE, 10**9, {"trees": 10, "limit": limit})
    assert plan.parameters["leaves"] * 2 <= limit


def test_branches_bound_a_split() -> None:
    """No split has more children than `branches`."""
    forest = METHOD.public_trees(WIDE, METHOD.plan(WIDE, 10**9, {"trees": 20, "branches": 3}))
    assert max(int(level.arity.max()) for level in forest.levels) == 3


def test_a_seed_shapes_the_trees() -> None:
    """The same seed gives the same structure, another seed another one."""
    grown = [METHOD.public_trees(WIDE, METHOD.plan(WIDE, 10**9, {"trees": 4, "seed": seed})) for seed in (1, 1, 2)]
    axes = [forest.levels[0].axis.tolist() + forest.levels[1].axis.tolist() for forest in grown]
    assert axes[0] == axes[1] != axes[2]


def test_the_published_form_follows_its_table() -> None:
    """With a lead of j rows the most frequent label is named as often as the paper's formula says."""
    counts = np.tile(np.array([[7, 5]]), (40_000, 1))
    share = np.mean(smooth_labels(counts, 0.5) == 0)
    assert abs(share - label_chances(counts[:1], 0.5)[0, 0]) < 0.015


def test_a_limit_below_the_roots_is_refused() -> None:
    """A release has at least one leaf per tree, so a smaller limit cannot be kept and is an error."""
    with pytest.raises(ParameterError) as refused:
        Rosnam().plan(SCHEMA, 10**9, {"trees": 50, "limit": 10})
    assert refused.value.name == "limit"


def test_shared_trees_share_epsilon() -> None:
    """With `shared` every row is in every tree, and a row's part of epsilon is divided among them."""
    plain, shared = (Rosnam().plan(SCHEMA, 10**9, {"trees": 5, "shared": flag}) for flag in (False, True))
    assert plain.step("labels").row_epsilon(Promise(SCHEMA.unit)) == 1
    assert shared.step("labels").row_epsilon(Promise(SCHEMA.unit)) == Fraction(1, 5)
    assert shared.nano_epsilon == plain.nano_epsilon == 10**9
