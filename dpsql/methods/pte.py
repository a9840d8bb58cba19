"""Median trees that label public rows for more median trees: Huang, Lei & Kaban 2022, Algorithm 4 (PTE).

Zhanliang Huang, Yunwen Lei, Ata Kaban: "Noise-efficient Learning of Differentially Private Partitioning Machine
Ensembles", ECML PKDD 2022, section 5.

Steps, as the paper numbers them in Algorithm 4:

1. the labelled rows are dealt out to the first trees (lines 3 to 7); each tree splits random attributes at the true
   medians of all rows, and its leaves get noisy counts of its labelled rows;
2. the first trees label the unlabelled rows (line 8);
3. more trees of medians count these labels (lines 9 to 12);
4. all trees vote together (line 13).

Where we differ, and why:

- The paper adds noise to the counts of step 3 as well. They are post-processing of the first trees, so they need none.
- A changed label moves two counts: noise of scale 2/epsilon, charged as "label" privacy, and only on a dataset whose
  features the owner declared public. (The paper presents the algorithm for both settings; building trees from the
  same rows twice is free of charge only where features are public.)
- Depth is public: from the number of labelled rows and the noise for the first trees, from the number of unlabelled
  rows for the others.

Proof: splits, sizes and pseudo-labels read features, and which labels are NULL: both are public, and neighbours share
them. A label that is none of the classes counts as the first of them, so that no label moves a row between the sides or
out of the counts (`kernel/unlabelled_rows.py`); `leaf_counts` with the sensitivity of a changed label costs epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpsql.kernel.operations import PublicSize
from dpsql.kernel.plan import Plan, Sequential, Sides, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import Session
from dpsql.methods.base import Integer, Method, Parameter, Trained, resolve_parameters
from dpsql.methods.shared.noisy_leaves import fill_leaves
from dpsql.methods.shared.pseudo_labels import pseudo_step, teach_trees
from dpsql.methods.spe import DEEPEST, public_depth
from dpsql.methods.sspe import (
    FEWEST,
    UNLABELLED,
    check_semi,
    labelled_depth,
    promise_for_labels,
    public_forest,
    public_splits_step,
    sized_counts,
)
from dpsql.schema import Schema
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from dpsql.trees.grow.random_trees import MOST_COUNTS


class Pte(Method):
    """Median trees with noisy counts, and more median trees taught by them."""

    name = "pte"
    summary = "median trees taught by median trees, labels private (Huang et al. 2022)"
    when = "features are public, labels private, and most rows have no label"
    trees_are_public = False
    parameters: Mapping[str, Parameter] = {
        "unlabelled": UNLABELLED,
        "trees": Integer(10, 1, 10_000, "number of trees; the first ones, each labelled row in one of them"),
        "more_trees": Integer(10, 1, 10_000, "number of trees that learn from the first ones"),
        "depth": Integer(None, 1, DEEPEST, "depth of the trees; by default from features, rows and noise"),
        "limit": Integer(MOST_COUNTS, 2, 2**26, "most cells of a release; leaves of all trees × classes"),
        "seed": Integer(0, 0, 2**63 - 1, "shapes the trees, never touches noise; draws the attributes"),
    }

    def plan(
        self, schema: Schema, nano_epsilon: int, parameters: Mapping[str, Any], promise: Promise | None = None
    ) -> Plan:
        """Return the plan: steps that read public features on one side, noisy counts of labels on the other."""
        settings = resolve_parameters(self, parameters)
        check_semi(schema, nano_epsilon, settings)
        promise = promise_for_labels(schema, self.name, promise)
        trees, more_trees, values = settings["trees"], settings["more_trees"], schema.leaf_values
        depth = public_depth(schema, settings, nano_epsilon, None, promise)
        second = public_depth(schema, settings | {"trees": more_trees}, nano_epsilon, None, promise)
        free = (
            Step("unlabelled_size", PublicSize(), 0, note="the number of unlabelled rows decides their trees' depth"),
            public_splits_step("splits", trees, depth),
            public_splits_step("more_splits", more_trees, second),
            pseudo_step(more_trees, more_trees * 2**second * values, schema),
        )
        counts = sized_counts(nano_epsilon, trees, schema, trees * 2**depth * values, public=True)
        facts = {"most_depth": depth, "most_second_depth": second}
        sides = Sides(Sequential(free), counts, disjoint=True)
        return Plan(self.name, sides, promise, settings | facts, settings["unlabelled"] or "")

    def public_trees(self, schema: Schema, plan: Plan) -> Forest:
        """Return the roots of the first trees alone: every split follows from the rows."""
        return Forest(axes(schema), plan.parameters["trees"], ())

    def train(self, session: Session) -> Trained:
        """Return both ensembles side by side."""
        settings, grid = session.plan.parameters, axes(session.schema)
        depth = labelled_depth(session, session.plan.step("counts"))
        first = public_forest(session, Forest(grid, settings["trees"], ()), depth)
        teacher = fill_leaves(session, first)
        rows = max(1, session.public_size("unlabelled_size"))
        second = settings["most_second_depth"]
        if settings["depth"] is None:
            second = min(second, max(1, int(math.log2(max(2, rows / FEWEST)))))
        more = public_forest(session, Forest(grid, settings["more_trees"], ()), second, name="more_splits", stream=1)
        return Trained(teach_trees(session, teacher, more))
