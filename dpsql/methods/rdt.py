"""Noisy class counts of random trees: Jagannathan, Pillaipakkamnatt & Wright 2012 (Private-RDT).

Geetha Jagannathan, Krishnan Pillaipakkamnatt, Rebecca N. Wright: "A Practical Differentially Private Random Decision
Tree Classifier", Transactions on Data Privacy 5, 2012.

Steps, as the paper numbers them in section 5:

1. the height h = min(⌊m/2⌋, ⌊log_b n⌋ − 1), m features of b values on average, n rows;
2. random trees of that height, grown without data (Algorithm 2 without its pruning step; `trees/grow/random_trees.py`);
3. every row is counted in every tree; Laplace noise on every component of every leaf vector (Algorithm 4), of scale
   trees/epsilon, since one row is in all trees;
4. a row is classified by the summed counts of the leaves it reaches (Algorithm 3).

Where we differ, and why:

- The paper takes n as known, or as "approximated". Here it is declared by the owner (`rows` in the schema) or bought
  with 3 % of epsilon by a noisy count.
- Pruning empty subtrees, which Algorithm 2 does and Algorithm 4 drops, would publish where no rows are. It stays
  dropped.
- The paper has categories only; it says that numbers need "a small amount of additional effort". Here a number is
  split at a random threshold, counts as b = 2, and may come again on a path.
- A category with more than `branches` values is split into random groups, and levels stop at `limit`, as in `rosnam`.
- The number of trees is 10, or 5 when fewer than 1000 rows are declared (the paper's choice for its 435 votes).
- Counts below 0 are kept as they are: cutting them at 0 would add a bias to every empty leaf.
- The paper classifies. A schema with a numeric target gives the same trees noisy sums instead of counts (`leaf_sums`),
  and each leaf votes for its mean with a weight that grows with its rows (`trees/estimate/means.py`).

Proof: the splits use no rows, or a noisy number of them. Step 3 is one `leaf_counts` (or `leaf_sums`) release on
shared trees; see `kernel/operations.py`. Prediction is post-processing. With a bought size the two steps add up to
epsilon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpsql.errors import ParameterError, UsageError
from dpsql.kernel.plan import Plan
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import Session
from dpsql.kernel.statement_size import tree_ranges
from dpsql.methods.base import Integer, Method, Parameter, Trained, resolve_parameters
from dpsql.methods.shared.noisy_leaves import fill_leaves, leaf_step, size_then_counts
from dpsql.methods.shared.row_evidence import bought_rows
from dpsql.schema import Categorical, Schema
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from dpsql.trees.grow.random_trees import MOST_COUNTS, random_forest
from dpsql.trees.voting import VotingForest

#: Below this many declared rows, five trees are grown instead of ten.
SMALL = 1000


class Rdt(Method):
    """Random trees, noisy counts of every leaf and class, classification by summed counts."""

    name = "rdt"
    summary = "random trees, noisy counts (Jagannathan et al. 2012)"
    when = "the label is a number; batches come later; several parties train"
    regression = True
    parameters: Mapping[str, Parameter] = {
        "trees": Integer(None, 1, 10_000, "number of trees; every row is in each of them [10, or 5 below 1000 rows]"),
        "depth": Integer(None, 1, 60, "depth of the trees; by default from features and rows"),
        "branches": Integer(64, 2, 64, "most branches of one split; wider categories are split by groups"),
        "limit": Integer(MOST_COUNTS, 2, 2**26, "most cells of a release; leaves of all trees × classes"),
        "seed": Integer(0, 0, 2**63 - 1, "shapes the trees, never touches noise"),
    }

    def plan(
        self, schema: Schema, nano_epsilon: int, parameters: Mapping[str, Any], promise: Promise | None = None
    ) -> Plan:
        """Return the plan: noisy counts on shared trees, after a noisy size where none is declared and it is needed."""
        settings = resolve_parameters(self, parameters)
        settings["trees"] = settings["trees"] or (5 if schema.rows is not None and schema.rows < SMALL else 10)
        if settings["trees"] * schema.leaf_values > settings["limit"]:
            raise ParameterError("limit", allowed="at least trees × classes", given=settings["limit"])
        if settings["depth"] is None and schema.rows is None:
            steps = size_then_counts(nano_epsilon, settings["trees"], schema, settings["limit"])
            return Plan(self.name, steps, promise or Promise(schema.unit), settings)
        depth = settings["depth"] or height(schema, int(schema.rows or 0))
        forest = random_trees(schema, settings, depth)
        counts = leaf_step(nano_epsilon, forest.trees, schema, forest.leaves * schema.leaf_values)
        counts = replace(counts, scans=len(tree_ranges(forest, schema.leaf_values)))
        facts = {"wanted_depth": depth, "grown_depth": forest.depth, "leaves": forest.leaves}
        return Plan(self.name, counts, promise or Promise(schema.unit), {**settings, **facts})

    def public_trees(self, schema: Schema, plan: Plan) -> Forest:
        """Return the forest, or its roots alone where the depth waits for the bought size."""
        return random_trees(schema, plan.parameters, plan.parameters.get("wanted_depth", 0))

    def train(self, session: Session) -> Trained:
        """Return the forest whose leaves vote with their noisy counts."""
        depth = session.plan.parameters.get("wanted_depth")
        if depth is None:
            depth = height(session.schema, max(1, bought_rows(session)))
        return Trained(count(session, random_trees(session.schema, session.plan.parameters, depth)))


def counting_plan(schema: Schema, forest: Forest, nano_epsilon: int, parameters: Mapping[str, Any]) -> Plan:
    """Return the plan that counts rows in a forest that is already there: an update, or a party's contribution."""
    counts = leaf_step(nano_epsilon, forest.trees, schema, forest.leaves * schema.leaf_values)
    facts = {"trees": forest.trees, "grown_depth": forest.depth, "leaves": forest.leaves}
    return Plan(Rdt.name, counts, Promise(schema.unit), {**facts, **parameters})


def count(session: Session, forest: Forest) -> VotingForest:
    """Return the forest whose leaves vote with the noisy counts, or sums, of step "counts"."""
    return fill_leaves(session, forest)


def refuse_target(schema: Schema, why: str) -> None:
    """Raise UsageError where the label is a number: whoever adds up counts of classes cannot add up means."""
    if schema.target is not None:
        raise UsageError(why, hint="train anew on all rows: dpsql train --method rdt")


def height(schema: Schema, rows: int) -> int:
    """Return the paper's height min(⌊m/2⌋, ⌊log_b n⌋ − 1), at least 1.

    >>> from dpsql.schema import Numeric
    >>> height(Schema("y", ("a", "b"), tuple(Numeric(f"x{i}", 0, 1) for i in range(16))), 10_000)
    8
    """
    values = [len(feature.values) if isinstance(feature, Categorical) else 2 for feature in schema.features]
    branching = max(Fraction(2), Fraction(sum(values), len(values)))
    by_rows, power = -1, branching
    while power <= rows:  # exact: a logarithm of floats puts ⌊log_10 1000⌋ at 2
        by_rows, power = by_rows + 1, power * branching
    return max(1, min(len(schema.features) // 2, by_rows))


def random_trees(schema: Schema, settings: Mapping[str, Any], depth: int) -> Forest:
    """Return the random trees of these parameters."""
    return random_forest(
        axes(schema),
        trees=settings["trees"],
        depth=depth,
        seed=settings["seed"],
        classes=schema.leaf_values,
        branches=settings["branches"],
        limit=settings["limit"],
    )
