"""Grows greedy trees level by level and reads their leaves: what `fs` and `maxtree` share.

Each level asks twice: noisy class counts of its nodes, then a split for every node that is worth one, by the
exponential mechanism. At the end the leaves are counted once more.

- A split of t branches is open to a node while the node's noisy rows are at least t · C · √2 · s, for C classes and
  counts at the leaves with noise of scale s: each count is then expected to be as large as its noise. This is the
  stopping rule of Friedman & Schuster, applied to each split instead of the widest one. A node with no open split is a
  leaf.
- Every feature that has an open split has the same total weight, whether it offers 63 thresholds or a single split.
- How often the rows of a root can be halved says how many levels the rule can allow; these levels share the epsilon of
  the choices evenly, so that none is set aside for levels that no node reaches.
- Sizes are estimated from all counts so far. A node's own counts and the sums of its children's counts are two noisy
  answers to one question; each is weighed by the inverse of its variance (least squares on a tree; Hay, Rastogi,
  Miklau & Suciu 2010).
- A leaf votes with the class shares of its counts, shrunk to those of the node above it: as if that node lent the leaf
  as many rows as the standard deviation of the noise on the leaf's size. That node is shrunk to the one above it, and
  so on up to the root. A leaf of few rows therefore votes as its parent does.

Proof: `size_k` and `counts` are one `leaf_counts` release each, `splits` is a `choose` release of up to `depth` uses,
all on disjoint trees; see `kernel/operations.py` and `kernel/utility.py`. What is asked follows from schema, parameters
and earlier releases, so the steps compose sequentially, adaptively, to their sum (Dwork & Roth 2014, Theorem 3.16;
Rogers, Roth, Ullman & Vadhan 2016 for parts of adaptive size). `greedy_steps` makes that sum epsilon to the last
billionth: `counts` gets what the others leave. All the rest is post-processing. Two scans for each level and one for
the leaves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.kernel.candidates import Candidates
from dpsql.kernel.operations import Choose, LeafCounts
from dpsql.kernel.plan import NANO, Sequential, Step
from dpsql.kernel.session import Session
from dpsql.kernel.utility import MOST
from dpsql.methods.base import Integer, Parameter
from dpsql.schema import Schema
from dpsql.trees.forest import PASS, Forest, Ints, Level
from dpsql.trees.grid import Axis
from dpsql.trees.grow.random_trees import MOST_COUNTS
from dpsql.trees.grow.splits import ReachableCells, Splits
from dpsql.trees.voting import VotingForest

#: The most levels: each is paid for.
DEEPEST = 30
#: What every greedy method takes.
PARAMETERS: Mapping[str, Parameter] = {
    "depth": Integer(5, 1, DEEPEST, "depth of the trees; most splits on a path"),
    "branches": Integer(64, 2, 64, "most branches of one split; wider categories are split by groups of neighbours"),
    "limit": Integer(
        MOST_COUNTS, 2, 2**26, "most cells of a release; leaves × classes, and candidate splits of a level"
    ),
}

#: The share of epsilon for all choices of splits together, in hundredths.
SPLITS_SHARE = 50
#: The share of epsilon for the sizes of all levels together, in hundredths; the leaves get what both leave.
SIZES_SHARE = 20
#: The weight of one feature among the candidates of a node, large so that its splits share it nearly evenly.
FEATURE_WEIGHT = 2**20
#: The points of a leaf's vote that a class share of 1 gives.
VOTE = 2**20
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Measured:
    """Noisy class counts of the nodes of a level, and the variance of each count."""

    counts: Floats
    variance: float

    def plus(self, other: Measured) -> Measured:
        """Return both counts of the same nodes as one, each weighed by the other's variance.

        >>> Measured(np.array([[8.0]]), 1).plus(Measured(np.array([[5.0]]), 2)).counts.tolist()
        [[7.0]]
        """
        total = self.variance + other.variance
        counts = (self.counts * other.variance + other.counts * self.variance) / total
        return Measured(counts, self.variance * other.variance / total)


def greedy_steps(
    nano_epsilon: int,
    schema: Schema,
    splits: Splits,
    *,
    trees: int,
    depth: int,
    limit: int,
    utility: str,
    most: int = MOST,
) -> Sequential:
    """Return the steps of trees of up to `depth` levels; they add up to epsilon exactly."""
    each = nano_epsilon * SIZES_SHARE // 100 // depth
    choices = nano_epsilon * SPLITS_SHARE // 100
    if min(each, choices // depth) < 1:
        least = math.ceil(100 * depth / min(SIZES_SHARE, SPLITS_SHARE))
        raise ParameterError("epsilon", allowed=f"at least {least / NANO:.9f}", given=nano_epsilon / NANO)
    classes, nodes = len(schema.classes), most_nodes(schema, splits, trees, limit)
    widths = [min(nodes, trees * max(1, int(splits.arity.max())) ** level) for level in range(depth + 1)]
    note = "class counts of the nodes: they decide which are split"
    steps = [_counts_step(f"size_{k}", each, trees, widths[k] * classes, classes, note) for k in range(depth)]
    note = f"one split for each node by utility {utility!r}; up to {depth} levels share epsilon"
    steps.append(
        Step(
            "splits",
            Choose(utility, most),
            choices,
            trees=trees,
            cells=widths[depth - 1],
            scans=depth,
            uses=depth,
            note=note,
        )
    )
    note = "one noisy count per leaf and class; each row is in one tree"
    rest = nano_epsilon - choices - each * depth
    steps.append(_counts_step("counts", rest, trees, widths[depth] * classes, classes, note))
    return Sequential(tuple(steps))


def most_nodes(schema: Schema, splits: Splits, trees: int, limit: int) -> int:
    """Return how many nodes a level may have: counts × classes and candidate splits stay within the limit."""
    each = max(len(schema.classes), splits.arity.size)
    if trees * each > limit:
        raise ParameterError(
            "limit", allowed=f"at least {trees * each}, the candidate splits of the roots", given=limit
        )
    return limit // each


def greedy_forest(
    session: Session, roots: Forest, splits: Splits, *, depth: int, limit: int, demand: float = 1
) -> VotingForest:
    """Return the trees with up to `depth` levels, paid by the steps of `greedy_steps`.

    `demand` says how much of `rows_needed` each branch of a split must have.
    """
    plan, forest, measured = session.plan, roots, list[Measured]()
    reachable, live = ReachableCells.roots(roots.axes, roots.trees), np.ones(roots.trees, bool)
    needed = demand * rows_needed(len(session.schema.classes), float(plan.noise_scale("counts")))
    nodes = most_nodes(session.schema, splits, roots.trees, limit)
    left, share = plan.step("splits").nano_epsilon, 0
    for number in range(depth):
        measured.append(_measure(session, f"size_{number}", forest))
        rows = consistent(forest.levels, measured)[0][-1].sum(axis=1)
        share = share or left // worthwhile(float(rows.mean()), needed, depth)
        candidates = candidate_splits(forest.axes, splits, reachable, np.where(live, rows, 0), needed, nodes)
        if candidates is None or left < share:
            break
        level = candidates.level(session.choose("splits", forest, candidates, nano_epsilon=share))
        forest, left = Forest(forest.axes, forest.trees, (*forest.levels, level)), left - share
        reachable, live = reachable.at_next_level(level), np.repeat(level.axis != PASS, level.arity)
    return _read(forest, measured, _measure(session, "counts", forest))


def rows_needed(classes: int, scale: float) -> float:
    """Return the rows that each branch of a split needs: C·√2·s for C classes and counts with noise of scale s.

    Each count is then expected to be as large as the standard deviation of its noise.
    """
    return classes * math.sqrt(2) * scale


def worthwhile(rows: float, needed: float, depth: int) -> int:
    """Return ⌊log₂(rows / needed)⌋: how many levels of splits in two a root of `rows` rows can have, from 1 to `depth`.

    >>> worthwhile(1000, 100, 5), worthwhile(1000, 1, 5), worthwhile(-3, 1, 5)
    (3, 5, 1)
    """
    return max(1, min(depth, int(math.log2(max(1.0, rows / needed)))))


def candidate_splits(
    grid: Sequence[Axis], splits: Splits, reachable: ReachableCells, rows: Floats, needed: float, nodes: int
) -> Candidates | None:
    """Return the open splits of each node, every feature with the same weight; None when no node has any.

    Where the next level would have more than `nodes` nodes, only the largest nodes are split.
    """
    allowed = reachable.open_splits(splits) & (splits.arity * np.float64(needed) <= rows[:, None, None])
    ask = np.asarray(allowed.any(axis=(1, 2)))
    order = np.argsort(np.where(ask, -rows, np.inf), kind="stable")
    widest = np.where(allowed, splits.arity, 1).max(axis=(1, 2)).astype(np.int64)
    ask[order] &= len(ask) + np.cumsum(widest[order] - 1) <= nodes
    if not ask.any():
        return None
    weights = even_weights(grid, allowed & ask[:, None, None])
    axis = np.where(weights.any(axis=2), np.arange(len(grid)), PASS).astype(np.int16)
    return Candidates(splits, axis, weights)


def even_weights(grid: Sequence[Axis], allowed: NDArray[np.bool_]) -> Ints:
    """Return weights of nodes × axes × splits: the open splits of a feature share `FEATURE_WEIGHT` evenly.

    Shares are rounded down, by less than one part in 16,000.
    """
    feature = np.array([axis.feature for axis in grid])
    starts = np.flatnonzero(np.diff(feature, prepend=-1))
    number = np.add.reduceat(allowed.sum(axis=2), starts, axis=1)[:, np.searchsorted(feature[starts], feature)]
    return np.where(allowed, (FEATURE_WEIGHT // np.maximum(number, 1))[:, :, None], 0)


def consistent(levels: Sequence[Level], measured: Sequence[Measured]) -> tuple[list[Floats], list[Floats]]:
    """Return the least-squares class counts of all nodes, level by level, and the variance of what lies below each.

    Upwards, a node's own counts and the sums of its children's are weighed by the inverses of their variances.
    Downwards, the difference between a node's best estimate and the sum of its children's is shared among the children,
    in proportion to their variances.
    """
    counts = [measured[-1].counts]
    variance = [np.full(len(counts[0]), measured[-1].variance)]
    sums: list[tuple[Floats, Floats]] = []
    for level, own in zip(reversed(levels), reversed(measured[:-1]), strict=True):
        below = np.add.reduceat(counts[0], level.child, axis=0), np.add.reduceat(variance[0], level.child)
        trust = below[1] / (below[1] + own.variance)
        counts.insert(0, trust[:, None] * own.counts + (1 - trust[:, None]) * below[0])
        variance.insert(0, trust * own.variance)
        sums.insert(0, below)
    for place, (level, (total, spread)) in enumerate(zip(levels, sums, strict=True)):
        missing = np.repeat((counts[place] - total) / spread[:, None], level.arity, axis=0)
        counts[place + 1] = counts[place + 1] + missing * variance[place + 1][:, None]
    return counts, variance


def shrunken_shares(levels: Sequence[Level], counts: Sequence[Floats], variance: Sequence[Floats]) -> Floats:
    """Return the class shares of each leaf, shrunk down its path; the roots are shrunk to all trees together."""
    all_trees = np.maximum(counts[0].sum(axis=0), 0) + 1
    shares = _shrunk(counts[0], variance[0], np.tile(all_trees / all_trees.sum(), (len(counts[0]), 1)))
    for level, own, spread in zip(levels, counts[1:], variance[1:], strict=True):
        above = np.repeat(shares, level.arity, axis=0)
        split = np.repeat(level.axis != PASS, level.arity)
        shares = np.where(split[:, None], _shrunk(own, spread, above), above)
    return shares


def _shrunk(counts: Floats, variance: Floats, prior: Floats) -> Floats:
    lent = np.sqrt(variance * counts.shape[1])[:, None] * prior
    positive = np.maximum(counts, 0)
    return np.asarray((positive + lent) / (positive + lent).sum(axis=1, keepdims=True))


def _read(forest: Forest, measured: list[Measured], last: Measured) -> VotingForest:
    """Return the forest whose leaves vote with their class shares.

    Where growing stopped early, the nodes that are leaves now were measured before; both counts are taken together.
    """
    if len(measured) > forest.depth:
        last = measured[-1].plus(last)
    estimated = consistent(forest.levels, [*measured[: forest.depth], last])
    return VotingForest(forest, np.rint(VOTE * shrunken_shares(forest.levels, *estimated)).astype(np.int64))


def _measure(session: Session, name: str, forest: Forest) -> Measured:
    scale = float(session.plan.noise_scale(name))
    return Measured(session.leaf_counts(name, forest).astype(np.float64), 2 * scale * scale)


def _counts_step(name: str, nano_epsilon: int, trees: int, cells: int, classes: int, note: str) -> Step:
    return Step(name, LeafCounts(), nano_epsilon, trees=trees, cells=cells, classes=classes, note=note)
