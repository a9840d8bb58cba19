"""Random trees taught by random trees: the semi-supervised variant of `rdt` (Jagannathan et al. 2013).

Geetha Jagannathan, Claire Monteleoni, Krishnan Pillaipakkamnatt: "A Semi-Supervised Learning Approach to Differential
Privacy", ICDM Workshops 2013, as Huang, Lei & Kaban 2022 describe it (sections 1 and 2): a private random forest
labels rows whose features are public, and a second forest learns from these labels. We had the description, not the
paper itself; details that it leaves open are chosen as in `rdt` and `pte`.

Steps:

1. random trees with noisy counts of the labelled rows, as in `rdt`: every row in every tree;
2. they label the unlabelled rows;
3. more random trees count these labels, without noise: post-processing;
4. all trees vote together.

Labels alone are private: it needs a dataset whose features the owner declared public, and is charged as "label"
privacy, with the noise of a changed label (it moves two counts of each tree: scale 2·trees/epsilon).

Proof: sizes and pseudo-labels read features, and which labels are NULL: both are public, and neighbours share them. A
label that is none of the classes counts as the first of them, so that no label moves a row between the sides or out of
the counts (`kernel/unlabelled_rows.py`); `leaf_counts` on shared trees with the sensitivity of a changed label costs
epsilon.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsql.kernel.operations import PublicSize
from dpsql.kernel.plan import Plan, Sequential, Sides, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import Session
from dpsql.methods.base import Integer, Method, Parameter, Trained, resolve_parameters
from dpsql.methods.rdt import height, random_trees
from dpsql.methods.shared.noisy_leaves import fill_leaves, leaf_step
from dpsql.methods.shared.pseudo_labels import pseudo_step, teach_trees
from dpsql.methods.sspe import UNLABELLED, check_semi, promise_for_labels
from dpsql.schema import Schema
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from dpsql.trees.grow.random_trees import MOST_COUNTS


class SsRdt(Method):
    """Random trees with noisy counts, and more random trees taught by them."""

    name = "ssrdt"
    summary = "random trees taught by random trees, labels private (Jagannathan 2013)"
    when = "as pte, with random trees in place of trees of medians"
    trees_are_public = False
    parameters: Mapping[str, Parameter] = {
        "unlabelled": UNLABELLED,
        "trees": Integer(10, 1, 10_000, "number of trees; the first ones, every labelled row in each of them"),
        "more_trees": Integer(10, 1, 10_000, "number of trees that learn from the first ones"),
        "depth": Integer(None, 1, 60, "depth of the trees; by default from features and rows"),
        "branches": Integer(64, 2, 64, "most branches of one split; wider categories are split by groups"),
        "limit": Integer(MOST_COUNTS, 2, 2**26, "most cells of a release; leaves of all trees × classes"),
        "seed": Integer(0, 0, 2**62, "shapes the trees, never touches noise"),
    }

    def plan(
        self, schema: Schema, nano_epsilon: int, parameters: Mapping[str, Any], promise: Promise | None = None
    ) -> Plan:
        """Return the plan: pseudo-labels on one side, noisy counts of labels on the other."""
        settings = resolve_parameters(self, parameters)
        check_semi(schema, nano_epsilon, settings)
        limit = settings["limit"]
        promise = promise_for_labels(schema, self.name, promise)
        unlabelled = Sequential((_size("unlabelled_size"), pseudo_step(settings["more_trees"], limit, schema)))
        labelled = Sequential((_size("size"), leaf_step(nano_epsilon, settings["trees"], schema, limit)))
        sides = Sides(unlabelled, labelled, disjoint=True)
        return Plan(self.name, sides, promise, settings, settings["unlabelled"] or "")

    def public_trees(self, schema: Schema, plan: Plan) -> Forest:
        """Return the roots of the first trees alone: the depth waits for the number of labelled rows."""
        return Forest(axes(schema), plan.parameters["trees"], ())

    def train(self, session: Session) -> Trained:
        """Return both ensembles side by side."""
        schema, settings = session.schema, session.plan.parameters
        sizes = [max(1, session.public_size(name)) for name in ("size", "unlabelled_size")]
        first, second = (settings["depth"] or height(schema, rows) for rows in sizes)
        teacher = fill_leaves(session, random_trees(schema, settings, first))
        more = {**settings, "trees": settings["more_trees"], "seed": settings["seed"] + 2**62}
        return Trained(teach_trees(session, teacher, random_trees(schema, more, second)))


def _size(name: str) -> Step:
    return Step(name, PublicSize(), 0, note="which rows have a label is public; their number decides the depth")
