"""Greedy trees with the max operator on disjoint rows: Liu, Li, Li & Chen 2018 (MaxTree).

Xiaoqian Liu, Qianmu Li, Tao Li, Dong Chen: "Differentially private classification with decision tree ensemble",
Applied Soft Computing 62, 2018: trees by "noisy maximal vote", a budget shared among levels, an ensemble. The name is
from Huang, Lei & Kaban, "Noise-efficient Learning of Differentially Private Partitioning Machine Ensembles", ECML PKDD
2022, section 6.2, who compare with it. We had that section and the abstract of the first, not its text, so the steps
below are ours where these two are silent.

1. the number of trees (10); each row is in one of them;
2. at each node of each tree a split by the exponential mechanism, with the max operator: the rows that a majority vote
   in the branches gets right;
3. a node is a leaf when its noisy rows do not pay for a split;
4. noisy counts of every leaf and class; a row is classified by the summed class shares of the leaves it reaches.

Where we differ, and why:

- The abstract has trees on bootstrapped samples, so that a row may be in several, whose epsilons would add up. Here
  trees have disjoint rows, dealt out by a keyed hash, and each works with the whole epsilon.
- Rows, levels and leaves are those of `fs`: noisy class counts for each level, one choice for each node, shrunken
  shares at the leaves (`methods/shared/greedy.py`). Here a split needs half the rows per branch that `fs` asks for: a
  leaf that is wrong by noise is outvoted by those of the other trees. The roots are shrunk to the counts of all trees
  together.
- A tree stops by a public rule on noisy sizes and at most at `depth`; Huang et al. report depths for their own trees
  only.

Proof: in `methods/shared/greedy.py`, on disjoint trees: a row changes the answers of one tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsql.kernel.plan import Plan
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import Session
from dpsql.methods.base import Integer, Method, Parameter, Trained, resolve_parameters
from dpsql.methods.shared.greedy import PARAMETERS, greedy_forest, greedy_steps
from dpsql.schema import Schema
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from dpsql.trees.grow.splits import Splits, many_way

#: A split of one tree among many needs this share of the rows that a split of a single tree needs.
DEMAND = 0.5


class Maxtree(Method):
    """Greedy trees on disjoint rows, each split by the max operator, classification by summed class shares."""

    name = "maxtree"
    summary = "greedy trees on disjoint rows, split by majority (Liu et al. 2018)"
    when = "large tables; to compare with fs, which grows one tree"
    trees_are_public = False
    parameters: Mapping[str, Parameter] = {
        "trees": Integer(10, 1, 10_000, "number of trees; each row is in one of them"),
        **PARAMETERS,
    }

    def plan(
        self, schema: Schema, nano_epsilon: int, parameters: Mapping[str, Any], promise: Promise | None = None
    ) -> Plan:
        """Return the plan: for each level the sizes and the choices, then the counts of the leaves."""
        settings = resolve_parameters(self, parameters)
        steps = greedy_steps(
            nano_epsilon,
            schema,
            _splits(schema, settings),
            trees=settings["trees"],
            depth=settings["depth"],
            limit=settings["limit"],
            utility="majority",
        )
        return Plan(self.name, steps, promise or Promise(schema.unit), settings)

    def public_trees(self, schema: Schema, plan: Plan) -> Forest:
        """Return the roots alone: every split follows from the data."""
        return Forest(axes(schema), plan.parameters["trees"], ())

    def train(self, session: Session) -> Trained:
        """Return the trees whose leaves vote with their shrunken class shares."""
        settings = session.plan.parameters
        splits = _splits(session.schema, settings)
        roots = self.public_trees(session.schema, session.plan)
        forest = greedy_forest(session, roots, splits, depth=settings["depth"], limit=settings["limit"], demand=DEMAND)
        return Trained(forest)


def _splits(schema: Schema, settings: Mapping[str, Any]) -> Splits:
    return many_way(axes(schema), settings["branches"])
