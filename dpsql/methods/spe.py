"""Median trees on disjoint rows: Huang, Lei & Kaban 2022 (the supervised private ensemble, SPE).

Zhanliang Huang, Yunwen Lei, Ata Kaban: "Noise-efficient Learning of Differentially Private Partitioning Machine
Ensembles", ECML PKDD 2022.

Steps, as the paper numbers them in section 4:

1. the number of trees (10) and the largest depth (the number of features);
2. at each node an attribute, drawn uniformly;
3. its private median by the exponential mechanism, with the rank utility; of a category, the value whose share of the
   rows is nearest to one half goes right, and the others go left. Half of epsilon pays for the splits, each level 3/2
   times what the level above it gets (equation 7): deeper nodes hold fewer rows, so their medians are harder to find;
4. noisy counts of every leaf and class, from the other half of epsilon;
5. a row is classified by the summed counts of the leaves it reaches.

Each row is in one tree, so every tree works with the whole epsilon.

Where we differ, and why:

- The paper draws candidate medians between the smallest and the largest value of the data. Both are somebody's
  values, and publishing where they lie has no proof. Here the candidates are the edges of the public grid that the
  node can still reach: all of them, where the paper draws some.
- The paper stops a branch when 10 rows or fewer are left. The true number is private. Here depth is bounded by a public
  rule: trees are as deep as they can be while the leaves of balanced trees are expected to hold enough rows for the
  noise on their counts (`depth_for`). The number of rows is declared, or bought with 3 % of epsilon.
- Rows are dealt out to trees by a keyed hash, not by shuffling.
- An attribute of which a path can reach one cell alone is not drawn again: nothing is left to split.
- Counts below 0 are kept as they are.
- `--as-published` takes the range of the data itself, and stops by the true size of a node. It is refused on a dataset
  with a cap.

Proof: step 3 is one `choose` release per level with utility "median" on disjoint trees, step 4 one `leaf_counts`
release; see `kernel/operations.py` and `kernel/utility.py`. What is asked follows from schema, seed and earlier
releases, so the steps add up, adaptively, to epsilon. One scan for each level and one for the counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpsql.errors import ParameterError
from dpsql.kernel.candidates import Candidates
from dpsql.kernel.operations import Choose, LeafCounts, Size
from dpsql.kernel.plan import NANO, Plan, Sequential, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import Session
from dpsql.methods.base import Choice, Flag, Integer, Method, Parameter, Trained, resolve_parameters
from dpsql.methods.shared.noisy_leaves import SIZE_SHARE, fill_leaves, leaf_step
from dpsql.methods.shared.row_evidence import bought_rows
from dpsql.schema import Schema
from dpsql.trees.forest import PASS, Forest
from dpsql.trees.grid import Axis, axes
from dpsql.trees.grow.random_trees import MOST_COUNTS
from dpsql.trees.grow.splits import ReachableCells, Splits, draw_axes, two_way

#: The most splits on a path, however many features there are.
DEEPEST = 30
#: The rows that vote together should be this many times the standard deviation of the noise on their summed counts.
OUTWEIGH = 3


class Spe(Method):
    """Trees whose splits are private medians, on disjoint rows, with noisy counts at the leaves."""

    name = "spe"
    summary = "private median trees on disjoint rows (Huang et al. 2022)"
    when = "numbers lie unevenly in their bounds; predicts numbers too"
    trees_are_public = False
    regression = True
    parameters: Mapping[str, Parameter] = {
        "trees": Integer(10, 1, 10_000, "number of trees; each row is in one of them"),
        "depth": Integer(None, 1, DEEPEST, "depth of the trees; by default from features, rows and noise"),
        "allocation": Choice(("geometric", "uniform"), "how levels share epsilon: each 3/2 of the one above, or alike"),
        "limit": Integer(MOST_COUNTS, 2, 2**26, "most cells of a release; leaves of all trees × classes"),
        "seed": Integer(0, 0, 2**63 - 1, "shapes the trees, never touches noise; draws the attributes"),
        "as_published": Flag(
            "the paper's unproven form: NOT private; the data's own range, and a stop by the true size"
        ),
    }

    def plan(
        self, schema: Schema, nano_epsilon: int, parameters: Mapping[str, Any], promise: Promise | None = None
    ) -> Plan:
        """Return the plan: splits level by level, then counts, after a noisy size where none is declared."""
        settings = resolve_parameters(self, parameters)
        if settings["trees"] * schema.leaf_values > settings["limit"]:
            raise ParameterError("limit", allowed="at least trees × classes", given=settings["limit"])
        sized = settings["depth"] is not None or schema.rows is not None
        share = 0 if sized else nano_epsilon * SIZE_SHARE // 100
        leaf_share = (nano_epsilon - share) // 2
        if min(leaf_share, nano_epsilon - share - leaf_share) < DEEPEST:
            raise ParameterError("epsilon", allowed="at least 0.0000001", given=nano_epsilon / NANO)
        promise = promise or Promise(schema.unit)
        depth = public_depth(schema, settings, leaf_share, schema.rows, promise)
        steps = [] if sized else [Step("size", Size(), share, note="the size is not declared; it decides the depth")]
        steps.append(splits_step(nano_epsilon - share - leaf_share, settings, depth))
        cells = settings["trees"] * 2**depth * schema.leaf_values
        steps.append(leaf_step(leaf_share, settings["trees"], schema, cells, shared=False))
        facts = {"wanted_depth": depth} if sized else {"most_depth": depth}
        return Plan(self.name, Sequential(tuple(steps)), promise, {**settings, **facts})

    def public_trees(self, schema: Schema, plan: Plan) -> Forest:
        """Return the roots alone: every split follows from the data."""
        return Forest(axes(schema), plan.parameters["trees"], ())

    def train(self, session: Session) -> Trained:
        """Return the forest whose leaves vote with their noisy counts."""
        plan = session.plan
        depth = plan.parameters.get("wanted_depth")
        if depth is None:
            rows, leaf_share = max(1, bought_rows(session)), plan.step("counts").nano_epsilon
            depth = public_depth(session.schema, plan.parameters, leaf_share, rows, plan.promise)
        roots = self.public_trees(session.schema, plan)
        return Trained(fill_leaves(session, median_forest(session, roots, depth)))


def public_depth(
    schema: Schema,
    settings: Mapping[str, Any],
    leaf_share: int,
    rows: int | None,
    promise: Promise,
    *,
    fewest: float = 1.0,
) -> int:
    """Return the depth of trees whose counts get `leaf_share` (in nano-epsilon), within what the limit allows.

    It is the parameter `depth` where that is given; else the depth of `depth_for`; else, without a number of rows, the
    number of features.
    """
    most = max(1, int(math.log2(settings["limit"] / (settings["trees"] * schema.leaf_values))))
    if settings["depth"] is not None:
        return min(most, int(settings["depth"]))
    most = min(len(schema.features), DEEPEST, most)
    if rows is None:
        return most
    scale = float(Step("counts", LeafCounts(), leaf_share).scale(promise))
    return min(most, depth_for(rows, settings["trees"], scale, fewest=fewest))


def depth_for(rows: int, trees: int, scale: float, *, fewest: float = 1.0) -> int:
    """Return the depth at which leaves of balanced trees are expected to hold enough rows, at least 1.

    A row is classified by one leaf of each tree. Their rows together, trees × rows per leaf, should be three times the
    standard deviation of the summed noise of a class, √trees × √2 × scale. A leaf should hold `fewest` rows itself.

    >>> depth_for(10_000, 10, 2.0)
    8
    """
    enough = max(fewest, OUTWEIGH * math.sqrt(2 / trees) * scale)
    return max(1, int(math.log2(max(2.0, rows / (trees * enough)))))


def allocation(nano_epsilon: int, levels: int, *, geometric: bool) -> list[int]:
    """Return what each level gets: 3/2 times the level above it, or all alike; the parts add up exactly.

    >>> allocation(1000, 3, geometric=True), allocation(1000, 3, geometric=False)
    ([210, 315, 475], [333, 333, 334])
    """
    weights = [3**level * 2 ** (levels - 1 - level) if geometric else 1 for level in range(levels)]
    parts = [1 + (nano_epsilon - levels) * weight // sum(weights) for weight in weights[:-1]]
    return [*parts, nano_epsilon - sum(parts)]


def median_forest(session: Session, forest: Forest, depth: int) -> Forest:
    """Return the forest with `depth` more levels of private medians, paid by the plan's step "splits"."""
    settings, step = session.plan.parameters, session.plan.step("splits")
    splits, reachable = two_way(forest.axes), ReachableCells.roots(forest.axes, forest.trees)
    shares = allocation(step.nano_epsilon, depth, geometric=settings["allocation"] == "geometric")
    for number, share in enumerate(shares):
        candidates = one_axis_each(forest.axes, splits, reachable, [settings["seed"], number])
        if candidates is None:
            break
        level = candidates.level(session.choose("splits", forest, candidates, nano_epsilon=share))
        forest = Forest(forest.axes, forest.trees, (*forest.levels, level))
        reachable = reachable.at_next_level(level)
    return forest


def one_axis_each(
    grid: tuple[Axis, ...], splits: Splits, reachable: ReachableCells, seed: Sequence[int]
) -> Candidates | None:
    """Return all open splits of one random axis for each node; None where no node can be split any more."""
    axis = draw_axes(grid, reachable, seed)
    if (axis == PASS).all():
        return None
    weights = reachable.open_splits_on(splits, axis).astype(np.int64)
    return Candidates(splits, axis[:, None].astype(np.int16), weights[:, None, :])


def splits_step(nano_epsilon: int, settings: Mapping[str, Any], depth: int) -> Step:
    """Return the step that pays for up to `depth` levels of private medians."""
    return Step(
        "splits",
        Choose("median"),
        nano_epsilon,
        trees=settings["trees"],
        cells=settings["trees"] * 2 ** (depth - 1),
        scans=depth,
        uses=depth,
        published=settings.get("as_published", False),
        note=f"private medians, level by level, epsilon shared by up to {depth} levels ({settings['allocation']})",
    )
