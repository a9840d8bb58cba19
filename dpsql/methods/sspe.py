"""Median trees shaped by unlabelled rows: Huang, Lei & Kaban 2022, Algorithm 3 (the semi-supervised ensemble, SSPE).

Zhanliang Huang, Yunwen Lei, Ata Kaban: "Noise-efficient Learning of Differentially Private Partitioning Machine
Ensembles", ECML PKDD 2022, section 5.

Medians need no labels, so rows without one can shape the trees, and those with one pay for the leaves alone.

Setting I, `privacy=rows`: features and labels are private. Trees are private medians of the unlabelled rows, dealt out
to trees, with the whole epsilon; leaves are noisy counts of the labelled rows, dealt out too, with the whole epsilon.

Setting II, `privacy=labels`: the owner declared the features public (`public_features`). Each tree splits random
attributes at the true medians of all rows, labelled or not; labelled rows are dealt out to trees and counted with
noise. Neighbours differ in one label.

Where we differ, and why:

- "Epsilon each" in setting I holds only if nobody is on both sides. Within one table the side is a condition on the row
  (by default: its label is NULL), at unit level on the unit alone; for two tables the owner declares it, or each
  side gets half and the epsilons add up. See `kernel/unlabelled_rows.py`.
- A changed label moves two counts: the noise of setting II has scale 2/epsilon, not the paper's 1/epsilon. It is
  charged to a budget of its own kind, "label", that never mixes with the budget of rows.
- Candidates, depth and dealing out are as in `spe`; the depth follows the number of labelled rows, bought with 3 % of
  epsilon in setting I where it is not known, and public in setting II.

Proof: setting I: `choose` on the unlabelled side adds up to epsilon, `size` and `leaf_counts` on the labelled side add
up to epsilon, and a unit is on one side (otherwise the costs add). Setting II: splits read features alone, which
neighbours share, and which rows have a label, which is public: the same cells of both are NULL, and a row counts
whatever else its label says (`kernel/unlabelled_rows.py`). `leaf_counts` with the sensitivity of a changed label costs
epsilon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dpsql.errors import NotPrivate, ParameterError
from dpsql.kernel.operations import PublicSize, PublicSplits, Size
from dpsql.kernel.plan import NANO, Composition, Plan, Sequential, Sides, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import Session
from dpsql.methods.base import Choice, Integer, Method, Parameter, Text, Trained, resolve_parameters
from dpsql.methods.shared.noisy_leaves import SIZE_SHARE, fill_leaves, leaf_step
from dpsql.methods.shared.row_evidence import bought_rows
from dpsql.methods.spe import DEEPEST, median_forest, one_axis_each, public_depth, splits_step
from dpsql.schema import Schema
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from dpsql.trees.grow.random_trees import MOST_COUNTS
from dpsql.trees.grow.splits import ReachableCells, two_way

#: The rows a leaf of true medians should have: the paper splits nodes of more than 10, whose halves hold 5. Deeper
#: trees lost up to 8 points (pendigits, epsilon 2), where private medians gain by depth.
FEWEST = 5.0
UNLABELLED = Text("table of unlabelled rows, or a condition (its text or declared name) [rows without a label]")


class Sspe(Method):
    """Median trees of unlabelled rows, noisy counts of labelled ones."""

    name = "sspe"
    summary = "median trees shaped by unlabelled rows (Huang et al. 2022)"
    when = "many rows have no label, and features are private too"
    trees_are_public = False
    parameters: Mapping[str, Parameter] = {
        "unlabelled": UNLABELLED,
        "privacy": Choice(("rows", "labels"), "what is private: rows, or labels alone where features are public"),
        "trees": Integer(10, 1, 10_000, "number of trees; each row is in one of them"),
        "depth": Integer(None, 1, DEEPEST, "depth of the trees; by default from features, labelled rows and noise"),
        "allocation": Choice(("geometric", "uniform"), "how levels share epsilon: each 3/2 of the one above, or alike"),
        "limit": Integer(MOST_COUNTS, 2, 2**26, "most cells of a release; leaves of all trees × classes"),
        "seed": Integer(0, 0, 2**63 - 1, "shapes the trees, never touches noise; draws the attributes"),
    }

    def plan(
        self, schema: Schema, nano_epsilon: int, parameters: Mapping[str, Any], promise: Promise | None = None
    ) -> Plan:
        """Return the plan: splits on one side, a size and counts on the other."""
        settings = resolve_parameters(self, parameters)
        check_semi(schema, nano_epsilon, settings)
        labels = settings["privacy"] == "labels"
        promise = promise_for_labels(schema, self.name, promise) if labels else promise or Promise(schema.unit)
        depth = public_depth(schema, settings, nano_epsilon, None, promise)
        free = public_splits_step("splits", settings["trees"], depth)
        splits = free if labels else splits_step(nano_epsilon, settings, depth)
        sides = Sides(splits, self._labelled_steps(schema, nano_epsilon, settings, depth), disjoint=True)
        return Plan(self.name, sides, promise, settings | {"most_depth": depth}, settings["unlabelled"] or "")

    def public_trees(self, schema: Schema, plan: Plan) -> Forest:
        """Return the roots alone: every split follows from the data."""
        return Forest(axes(schema), plan.parameters["trees"], ())

    def train(self, session: Session) -> Trained:
        """Return the forest whose leaves vote with the noisy counts of the labelled rows."""
        plan, roots = session.plan, self.public_trees(session.schema, session.plan)
        depth = labelled_depth(session, plan.step("counts"))
        labels_only = plan.promise.labels_only
        forest = public_forest(session, roots, depth) if labels_only else median_forest(session, roots, depth)
        return Trained(fill_leaves(session, forest))

    def _labelled_steps(
        self, schema: Schema, nano_epsilon: int, settings: Mapping[str, Any], depth: int
    ) -> Composition:
        cells = settings["trees"] * 2**depth * schema.leaf_values
        if settings["depth"] is not None:
            return leaf_step(nano_epsilon, settings["trees"], schema, cells, shared=False)
        return sized_counts(nano_epsilon, settings["trees"], schema, cells, public=settings["privacy"] == "labels")


def check_semi(schema: Schema, nano_epsilon: int, settings: Mapping[str, Any]) -> None:
    """Raise ParameterError for a limit or an epsilon that is too small for any semi-supervised plan."""
    if settings["trees"] * schema.leaf_values > settings["limit"]:
        raise ParameterError("limit", allowed="at least trees × classes", given=settings["limit"])
    if nano_epsilon < 1000:
        raise ParameterError("epsilon", allowed="at least 0.000001", given=nano_epsilon / NANO)


def promise_for_labels(schema: Schema, method: str, promise: Promise | None) -> Promise:
    """Return the promise that protects labels alone; refuse a dataset whose features are private."""
    if not schema.public_features:
        raise NotPrivate(
            f'method "{method}" protects labels alone here, and the features of this table are private.',
            hint="declare public_features: true in its schema, if they are public; or --privacy rows",
        )
    return replace(promise or Promise(schema.unit), labels_only=True)


def sized_counts(nano_epsilon: int, trees: int, schema: Schema, cells: int, *, public: bool) -> Sequential:
    """Return a size of the labelled rows, public or bought with 3 % of epsilon, and their counts."""
    share = 0 if public else nano_epsilon * SIZE_SHARE // 100
    note = "the number of labelled rows decides the depth"
    size = Step("size", PublicSize() if public else Size(), share, note=note)
    return Sequential((size, leaf_step(nano_epsilon - share, trees, schema, cells, shared=False)))


def public_splits_step(name: str, trees: int, depth: int) -> Step:
    """Return the step for levels of true medians of public features."""
    return Step(
        name,
        PublicSplits(),
        0,
        trees=trees,
        shared=True,
        cells=trees * 2 ** (depth - 1),
        scans=2 * depth,
        uses=depth,
        note="true medians of public features, level by level; labels are not read",
    )


def labelled_depth(session: Session, counts: Step) -> int:
    """Return the depth: that of the parameters where they name one, else that for the number of labelled rows."""
    settings, promise = session.plan.parameters, session.plan.promise
    if settings["depth"] is not None:
        return int(settings["most_depth"])
    rows = session.public_size("size") if promise.labels_only else bought_rows(session)
    fewest = FEWEST if promise.labels_only else 1.0
    return public_depth(session.schema, settings, counts.nano_epsilon, max(1, rows), promise, fewest=fewest)


def public_forest(session: Session, forest: Forest, depth: int, *, name: str = "splits", stream: int = 0) -> Forest:
    """Return the forest with `depth` levels of true medians of random attributes."""
    splits, reachable = two_way(forest.axes), ReachableCells.roots(forest.axes, forest.trees)
    for number in range(depth):
        candidates = one_axis_each(forest.axes, splits, reachable, [session.plan.parameters["seed"], number, stream])
        if candidates is None:
            break
        level = candidates.level(session.public_splits(name, forest, candidates))
        forest = Forest(forest.axes, forest.trees, (*forest.levels, level))
        reachable = reachable.at_next_level(level)
    return forest
