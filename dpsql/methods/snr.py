"""Random trees sized by their signal-to-noise ratio: Fletcher & Islam 2015 (DP-RF).

Sam Fletcher, Md Zahidul Islam: "A Differentially Private Random Decision Forest using Reliable Signal-to-Noise
Ratios", AI 2015: Advances in Artificial Intelligence, LNCS 9457.

Steps, as the paper numbers them in section 4.1:

1. the number of trees τ, the largest up to the number of features with θ < n/δ² (equation 9), n rows, features of δ
   values on average; the minimum support θ = |C|·√2·τ/epsilon, |C| classes (equations 5 and 8);
2. random trees of unequal depth, grown without data: distinct roots, no feature twice on a path, a path ends where
   fewer than θ rows are expected (`trees/grow/unequal_depth.py`);
3. every row is counted in every tree, with noise of scale τ/epsilon on every leaf and class;
4. nodes whose signal is below their noise are pruned, inner nodes by the sums of their leaves (equation 10);
5. on each path the node with the highest confidence, the share of its largest class (4 and 5:
   `trees/estimate/confidence.py`);
6. the most confident tree decides.

Where we differ, and why:

- The paper takes n as known. Here it is declared by the owner (`rows` in the schema) or bought with 3 % of epsilon by a
  noisy count. A plan must state the number of trees before anything is bought, so without a declared n it is 10, or
  the number of features if that is less; the bought size then decides the depths alone.
- The paper is of two minds about where a path ends: at the first node below θ (criterion 2), or so that nodes are above
  θ (equation 7). Here no split makes nodes that are expected below θ, but for the root, which is always split. Ending
  one level later cost up to 15 points on small tables and brought at most 3 on large ones.
- A node draws from the features whose branches reach θ, not from all that are unused: drawing one whose branches do
  not would end a path early.
- A number has 5 bins of equal width, as in the paper's experiments, but fewer (at least 2) where 5 bins of a single
  tree would not reach θ: 135 rows at epsilon 0.1, say.
- Pruning takes away the vote of an unreliable node, not its place in the tree: the splits stay public, and the leaf
  votes as the node above it does. A root votes even where it is unreliable, as there is no node above it.
- Counts below 0 are taken as 0 in a confidence, which otherwise passes 1.
- The model adds up whole numbers, so a share s weighs M^s with a large M. A tree that is clearly ahead decides, as in
  the paper; trees that are nearly equal (within 0.08 for ten trees) decide together, as the paper does with ties.
- At unit level with c rows per unit the noise is c times larger, and so are θ and the noise of equation 10.
- A category with more than `branches` values is split into random groups, levels stop at `limit`, and a value that is
  not declared takes a fixed branch, as in `rosnam`. A category of more than 63 values is split by one digit at a time,
  and each digit counts as a feature.

Proof: the splits use no rows, or a noisy number of them. Step 3 is one `leaf_counts` release on shared trees; see
`kernel/operations.py`. Steps 4 to 6 are post-processing. With a bought size the two steps add up to epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from dpsql.errors import ParameterError
from dpsql.kernel.plan import Plan, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import Session
from dpsql.kernel.statement_size import tree_ranges
from dpsql.methods.base import Integer, Method, Parameter, Trained, resolve_parameters
from dpsql.methods.shared.noisy_leaves import shared_counts, size_then_counts
from dpsql.methods.shared.row_evidence import bought_rows
from dpsql.schema import Schema
from dpsql.trees.estimate.confidence import confidence_votes, most_confident
from dpsql.trees.forest import Forest
from dpsql.trees.grid import Axis, axes
from dpsql.trees.grow.random_trees import MOST_COUNTS
from dpsql.trees.grow.unequal_depth import domain_sizes, unequal_forest
from dpsql.trees.voting import VotingForest

#: The most trees where the number of rows is not declared.
UNSIZED = 10


class Snr(Method):
    """Random trees as deep as the noise allows; the most confident reliable node of each path votes."""

    name = "snr"
    summary = "random trees sized by signal-to-noise ratio (Fletcher & Islam 2015)"
    when = "the owner declared the number of rows, from which depths follow"
    trees_are_public = True
    parameters: Mapping[str, Parameter] = {
        "trees": Integer(None, 1, 10_000, "number of trees; every row is in each of them [from features and rows]"),
        "depth": Integer(None, 1, 60, "depth of the trees; whatever the noise; by default as many splits as it allows"),
        "bins": Integer(5, 2, 64, "bins of a number, of equal width; most branches of a split on it"),
        "branches": Integer(64, 2, 64, "most branches of one split; wider categories are split by groups"),
        "limit": Integer(MOST_COUNTS, 2, 2**26, "most cells of a release; leaves of all trees × classes"),
        "seed": Integer(0, 0, 2**63 - 1, "shapes the trees, never touches noise"),
    }

    def plan(
        self, schema: Schema, nano_epsilon: int, parameters: Mapping[str, Any], promise: Promise | None = None
    ) -> Plan:
        """Return the plan: noisy counts on shared trees, after a noisy size where none is declared and it is needed."""
        settings = resolve_parameters(self, parameters)
        counts_of_one_tree = shared_counts(nano_epsilon, 1, schema, settings["limit"])
        promise = promise or Promise(schema.unit)
        scale = float(counts_of_one_tree.scale(promise))
        settings["trees"] = settings["trees"] or number_of_trees(schema, promise, scale, settings)
        if settings["trees"] * len(schema.classes) > settings["limit"]:
            raise ParameterError("limit", allowed="at least trees × classes", given=settings["limit"])
        if settings["depth"] is None and schema.rows is None:
            steps = size_then_counts(nano_epsilon, settings["trees"], schema, settings["limit"])
            return Plan(self.name, steps, promise, settings)
        counts = replace(counts_of_one_tree, trees=settings["trees"])
        forest = random_trees_for(schema, promise, settings, counts, schema.rows)
        counts = replace(
            counts, cells=forest.leaves * len(schema.classes), scans=len(tree_ranges(forest, len(schema.classes)))
        )
        facts = {
            "minimum_support": round(minimum_support(len(schema.classes), float(counts.scale(promise))), 3),
            "grown_depth": forest.depth,
            "leaves": forest.leaves,
        }
        return Plan(self.name, counts, promise, {**settings, **facts})

    def public_trees(self, schema: Schema, plan: Plan) -> Forest:
        """Return the forest, or its roots alone where the depths wait for the bought size."""
        if "grown_depth" not in plan.parameters:
            return Forest(axes(schema), plan.parameters["trees"], ())
        return random_trees_for(schema, plan.promise, plan.parameters, plan.step("counts"), schema.rows)

    def train(self, session: Session) -> Trained:
        """Return the forest in which each leaf votes with the most confident reliable node on its path."""
        schema, plan = session.schema, session.plan
        bought = "grown_depth" not in plan.parameters
        rows = max(1, bought_rows(session)) if bought else schema.rows
        counts = plan.step("counts")
        forest = random_trees_for(schema, plan.promise, plan.parameters, counts, rows)
        noisy_counts = session.leaf_counts("counts", forest)
        shares = most_confident(forest, noisy_counts, float(counts.scale(plan.promise)))
        return Trained(VotingForest(forest, confidence_votes(shares, forest.trees)))


def minimum_support(classes: int, scale: float) -> float:
    """Return θ of equation 5: the rows that outweigh the noise of a leaf whose counts have noise of this scale.

    >>> round(minimum_support(2, 10.0), 2)
    28.28
    """
    return classes * math.sqrt(2) * scale


def number_of_trees(schema: Schema, promise: Promise, scale: float, settings: Mapping[str, Any]) -> int:
    """Return τ of equation 9, at least 1; `scale` is the noise of a single tree."""
    grid = axes(schema)
    bins = _bins(len(schema.classes), schema.rows, scale, settings["bins"])
    sizes = domain_sizes(grid, bins, settings["branches"])
    splittable = max(1, int(np.count_nonzero(sizes > 1)))
    if schema.rows is None:
        return min(UNSIZED, splittable)
    support = schema.rows / float(np.mean(sizes)) ** 2
    ratio = support / minimum_support(len(schema.classes), scale)
    # Noise grows with the number of trees; under approximate privacy with its root.
    return max(1, min(splittable, math.ceil(ratio if promise.approximate is None else ratio**2) - 1))


def random_trees_for(
    schema: Schema, promise: Promise, settings: Mapping[str, Any], counts: Step, rows: int | None
) -> Forest:
    """Return the random trees of these settings for a number of rows, which does not matter where `depth` is given."""
    scale, alone = (float(step.scale(promise)) for step in (counts, replace(counts, trees=1)))
    fixed = settings["depth"] is not None or rows is None
    return _grow_once(
        axes(schema),
        settings["trees"],
        settings["seed"],
        math.inf if rows is None or fixed else float(rows),
        minimum_support(len(schema.classes), scale),
        settings["depth"],
        settings["bins"] if fixed else _bins(len(schema.classes), rows, alone, settings["bins"]),
        settings["branches"],
        len(schema.classes),
        settings["limit"],
    )


@lru_cache(maxsize=1)
def _grow_once(
    grid: tuple[Axis, ...],
    trees: int,
    seed: int,
    rows: float,
    threshold: float,
    depth: int | None,
    bins: int,
    branches: int,
    classes: int,
    limit: int,
) -> Forest:
    """Grow the forest once for its plan and its training."""
    return unequal_forest(
        grid,
        trees=trees,
        seed=seed,
        rows=rows,
        threshold=threshold,
        depth=depth,
        bins=bins,
        branches=branches,
        classes=classes,
        limit=limit,
    )


def _bins(classes: int, rows: int | None, scale: float, most: int) -> int:
    """Return how many bins of a number reach the minimum support in a single tree: from 2 to `most`."""
    if rows is None:
        return most
    return max(2, min(most, int(rows / minimum_support(classes, scale))))
