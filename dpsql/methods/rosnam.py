"""Majority labels of random trees by one-sided noisy arg-max: Fletcher & Islam 2017 with its 2021 addendum.

Sam Fletcher, Md Zahidul Islam: "Differentially Private Random Decision Forests using Smooth Sensitivity", Expert
Systems with Applications 78, 2017; addendum "Report One-Sided Noisy Arg-Max", August 2021.

Steps, as the paper numbers them in section 4:

1. the tree depth from Theorem 2 plus r/2 (`depth_rule="table4"` gives the depths that the paper's Table 4 lists,
   which are the formula plus one where there are continuous features);
2. the number of trees: 100;
3. random trees, grown without data (Algorithm 2; `trees/grow/random_trees.py`);
4. one label for each leaf of each tree, each tree on its own disjoint part of the rows with the whole epsilon;
   then majority vote.

Where we differ, and why:

- The paper names a leaf's label by the exponential mechanism with smooth sensitivity. That has no proof and its loss is
  unbounded. The addendum's text replaces it by one-sided noisy arg-max on the counts; that is what runs here, as
  permute-and-flip, exactly epsilon under add/remove. The addendum's Table 5 describes another mechanism (softmax of
  epsilon times the count); it is private too, and 2 to 10 points worse on car, nursery and mushroom.
- The paper shuffles rows into equal parts. A part then depends on the number of rows. Here a unit's part is a keyed
  hash of the unit alone.
- The paper branches once for every value of a discrete feature, which makes astronomically many leaves (adult: 10^7 per
  tree at depth 9). Here a category with more than `branches` values is split into that many random groups, and
  levels are grown only while trees × leaves × classes stays within `limit`. The rule is public.
- Empty leaves get a uniformly random label, as in the paper: that is what the mechanism does with equal counts.

`as_published` runs the smooth-sensitivity form. It is not differentially private and is refused on any dataset with a
cap.

Proof: the splits use no rows. Step 4 is one `leaf_labels` release on disjoint trees; see
`kernel/operations.py`. The vote is post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from dpsql.errors import ParameterError
from dpsql.kernel.operations import LeafLabels
from dpsql.kernel.plan import Plan, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import Session
from dpsql.kernel.statement_size import tree_ranges
from dpsql.methods.base import Choice, Flag, Integer, Method, Parameter, Trained, resolve_parameters
from dpsql.schema import Schema
from dpsql.trees.forest import Forest
from dpsql.trees.grid import Axis, axes
from dpsql.trees.grow.depth import RULES, table4, theorem2
from dpsql.trees.grow.random_trees import MOST_BRANCHES, MOST_COUNTS, random_forest
from dpsql.trees.voting import VotingForest

#: What the plan says of disjoint trees, and of shared ones.
DISJOINT = "one label per leaf; each unit is in one tree, so all trees together cost epsilon once"
SHARED = "one label per leaf; each unit is in every tree, so the trees share epsilon"


class Rosnam(Method):
    """Random trees, one noisy majority label per leaf, majority vote."""

    name = "rosnam"
    summary = "random trees, noisy majority labels (Fletcher & Islam 2017 + 2021)"
    when = "labels alone are to be released, one for each leaf, and no counts"
    parameters: Mapping[str, Parameter] = {
        "trees": Integer(100, 1, 10_000, "number of trees; each on its own part of the rows"),
        "depth": Integer(None, 1, 60, "depth of the trees; by default from the schema"),
        "depth_rule": Choice(RULES, "how the depth is worked out: the paper's Theorem 2, or its Table 4"),
        "branches": Integer(MOST_BRANCHES, 2, 64, "most branches of one split; wider categories are split by groups"),
        "limit": Integer(MOST_COUNTS, 2, 2**26, "most cells of a release; leaves of all trees × classes"),
        "seed": Integer(0, 0, 2**63 - 1, "shapes the trees, never touches noise"),
        "shared": Flag("every row in every tree, which then share epsilon, instead of each row in one tree"),
        "as_published": Flag("the paper's unproven form: NOT private; its smooth sensitivity"),
    }

    def plan(
        self, schema: Schema, nano_epsilon: int, parameters: Mapping[str, Any], promise: Promise | None = None
    ) -> Plan:
        """Return the plan: one release of one label per leaf, on disjoint trees unless asked otherwise."""
        settings = resolve_parameters(self, parameters)
        rule = table4 if settings["depth_rule"] == "table4" else theorem2
        depth = settings["depth"] or rule(len(schema.numeric), len(schema.categorical))
        if settings["trees"] * len(schema.classes) > settings["limit"]:
            raise ParameterError("limit", allowed="at least trees × classes", given=settings["limit"])
        forest = _random_trees(schema, settings, depth)
        labels = Step(
            "labels",
            LeafLabels(),
            nano_epsilon,
            trees=forest.trees,
            shared=settings["shared"],
            cells=forest.leaves,
            classes=len(schema.classes),
            scans=len(tree_ranges(forest, len(schema.classes))),
            published=settings["as_published"],
            note=SHARED if settings["shared"] else DISJOINT,
        )
        facts: dict[str, Any] = {"wanted_depth": depth, "grown_depth": forest.depth, "leaves": forest.leaves}
        if schema.rows is not None:
            facts["rows_per_leaf"] = round(schema.rows / forest.leaves, 3)
        return Plan(self.name, labels, promise or Promise(schema.unit), {**settings, **facts})

    def public_trees(self, schema: Schema, plan: Plan) -> Forest:
        """Return the whole forest: it is grown without data."""
        return _random_trees(schema, plan.parameters, plan.parameters["wanted_depth"])

    def train(self, session: Session) -> Trained:
        """Return the forest with its noisy majority labels."""
        forest = self.public_trees(session.schema, session.plan)
        labels = session.leaf_labels("labels", forest)
        return Trained(VotingForest.majority(forest, labels, len(session.schema.classes)))


def _random_trees(schema: Schema, settings: Mapping[str, Any], depth: int) -> Forest:
    return _grow_once(
        axes(schema),
        settings["trees"],
        depth,
        settings["seed"],
        len(schema.classes),
        settings["branches"],
        settings["limit"],
    )


@lru_cache(maxsize=1)
def _grow_once(
    grid: tuple[Axis, ...], trees: int, depth: int, seed: int, classes: int, branches: int, limit: int
) -> Forest:
    """Grow the forest once for its plan and its training."""
    return random_forest(grid, trees=trees, depth=depth, seed=seed, classes=classes, branches=branches, limit=limit)
