"""One greedy tree whose splits the exponential mechanism picks: Friedman & Schuster 2010.

Arik Friedman, Assaf Schuster: "Data Mining with Differential Privacy", KDD 2010.

Steps of their ID3 with the exponential mechanism, for a depth d (5) and epsilon' = epsilon / (2(d + 1)):

1. a noisy size N of the node, at epsilon';
2. the node becomes a leaf when its path has d splits or no attribute is left, or when N/(t|C|) < √2/epsilon', for |C|
   classes and t values of the widest attribute: counts of (value, class) would drown in their noise. A leaf names the
   class of its largest noisy count, at epsilon';
3. otherwise an attribute by the exponential mechanism at epsilon', with one of three utilities: the max operator (the
   rows that a majority vote in the branches gets right), information gain, the Gini index;
4. one branch for each of its values, and the same again, without that attribute.

Nodes of one level hold disjoint rows, so a level pays for one node: 2(d + 1) queries of epsilon' each.

Where we differ, and why:

- Widths. The exponential mechanism pays for how far one row can spread the utilities, 2s for a sensitivity s in
  general. We prove: max 1 (a row adds 0 or 1 to all of them; the paper's s = 1 would pay 2), Gini 2 (the paper: s = 2,
  which pays 4), gain log₂(B + 1) + 1/ln 2 and a rounding (one-sided again, half of what s pays). See
  `kernel/utility.py`.
- Gain needs a public bound B on the rows of a node, as the paper takes the number of rows as known. With `rows`
  declared it is the next power of two above classes × rows, where no count is cut off unless the declaration is too
  small; otherwise the kernel's 2^31, which costs about twice the noise. Either way the bound is enforced.
- Numbers. A threshold must come from the domain, not from the values of rows. Every edge of the public grid that a
  node can still reach is a candidate of the same choice, where the paper first spends a query on each number to pick
  its threshold; a feature's candidates share one weight. A number may come again on a path.
- The rule of step 2 is applied to each split with its own number of branches: a node that is too small for the widest
  category may still be split in two.
- One release serves as size and as class counts: `size_k`, 20 % of epsilon for all levels together. 50 % choose the
  splits, over the levels that the root's noisy counts allow; 30 % are for the leaves, of which no separate size is
  asked. With the paper's equal parts these three get 42 %, 42 % and 17 % (8 % of it for a size).
- A leaf votes with its class shares, shrunk to those of the nodes above it, from all counts on its path
  (`methods/shared/greedy.py`). The paper prunes instead.
- The number of nodes is bounded by `limit`. A category with more than `branches` values is split by groups of
  neighbours in declared order; NULL and unknown values take the last branch.

Proof: in `methods/shared/greedy.py`. No size is bought or needed: the root's noisy counts are one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsql.kernel.plan import Plan
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import Session
from dpsql.kernel.utility import MOST
from dpsql.methods.base import Choice, Method, Parameter, Trained, resolve_parameters
from dpsql.methods.shared.greedy import PARAMETERS, greedy_forest, greedy_steps
from dpsql.schema import Schema
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from dpsql.trees.grow.splits import Splits, many_way

#: The paper's names of the utilities -> the kernel's names.
UTILITIES = {"max": "majority", "gain": "entropy", "gini": "gini"}


class Fs(Method):
    """One greedy tree: each split by the exponential mechanism, each leaf its noisy counts."""

    name = "fs"
    summary = "one greedy tree, splits picked privately (Friedman & Schuster 2010)"
    when = "one small tree that people can read"
    trees_are_public = False
    parameters: Mapping[str, Parameter] = {
        "utility": Choice(tuple(UTILITIES), "what a split maximises: rows a majority vote gets right, or purity"),
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
            trees=1,
            depth=settings["depth"],
            limit=settings["limit"],
            utility=UTILITIES[settings["utility"]],
            most=bound(schema),
        )
        return Plan(self.name, steps, promise or Promise(schema.unit), settings)

    def public_trees(self, schema: Schema, plan: Plan) -> Forest:
        """Return the root alone: every split follows from the data."""
        return Forest(axes(schema), 1, ())

    def train(self, session: Session) -> Trained:
        """Return the tree whose leaves vote with their shrunken class shares."""
        settings = session.plan.parameters
        splits = _splits(session.schema, settings)
        roots = self.public_trees(session.schema, session.plan)
        return Trained(greedy_forest(session, roots, splits, depth=settings["depth"], limit=settings["limit"]))


def bound(schema: Schema) -> int:
    """Return B, the most rows of a node that information gain takes account of.

    It follows from the declared number of rows; where none is declared it is the largest that the kernel takes.

    >>> from dpsql.schema import Boolean
    >>> bound(Schema("y", ("a", "b"), (Boolean("x"),), rows=30_000)) == 2**16
    True
    """
    if schema.rows is None:
        return MOST
    return min(MOST, 2 ** (schema.rows * len(schema.classes)).bit_length())


def _splits(schema: Schema, settings: Mapping[str, Any]) -> Splits:
    return many_way(axes(schema), settings["branches"])
