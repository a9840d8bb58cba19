"""One greedy tree from noisy counts: the private ID3 of Jagannathan, Pillaipakkamnatt & Wright 2012, their baseline.

Geetha Jagannathan, Krishnan Pillaipakkamnatt, Rebecca N. Wright: "A Practical Differentially Private Random Decision
Tree Classifier", Transactions on Data Privacy 5, 2012, section 4. The paper shows it to be of little use; it is here to
compare with.

Steps, as the paper numbers them in section 4, at every node of Algorithm 1, level by level:

1. noisy size and noisy class counts; an empty node and a node of one class become leaves;
2. with no attribute left on the path, a leaf says its most frequent class by noisy counts;
3. and 4. noisy sizes of the subsets by class and by branch, for each unused attribute; the attribute of largest
   information gain is split, one branch for each value, and not used again on that path.

Nodes of one level hold disjoint rows, so a query costs once per level; every query gets the same epsilon/q. The paper
takes q = m + (m − 1) + … + 1 for m attributes (nursery 36, votes 136, mushroom 253): one query for each attribute of
step 4. It leaves out the two of step 1, which every level asks: nursery's 36 are 52, its epsilon of 0.5 is 0.72.

Where we differ, and why:

- Every query is counted. Step 1 asks none of its own: each candidate split's counts add up to its node's class counts,
  so their mean over the candidates serves. One last query, the leaves' counts, is asked and paid for: q = 36 + 1.
- A level is one `leaf_counts` release: the tree once for each unused attribute, each copy with one more level, all
  copies sharing epsilon. A `histograms` release would charge attributes that a path has used, and a branch of many
  cells would add up the noise of each.
- A level has a public limit on its nodes (`most_nodes` in the plan), from `limit`. Nodes of largest noisy size are
  split first. Without it empty nodes, half of which look non-empty, grow without bound.
- A leaf that seems empty says its noisy majority like any other, not "Failure".
- The paper has categories only. Here a number is split into `bins` parts of equal width of its declared range. A
  category with more than `branches` values is split into that many groups of neighbours in declared order; NULL and
  unknown values take the last branch; of a category of more than 63 values each digit is an attribute
  (`trees/grid.py`). With one tree there is nothing that random groups would average out, so there is no seed.
- Epsilon planned for levels that turn out to have no node to split is charged all the same.

Proof: step k of the plan releases the counts of m − k shared trees at (m − k)/q of epsilon, the last step those of one
tree at what is left; see `LeafCounts` in `kernel/operations.py`. Each tree that is counted follows from earlier
releases, schema and parameters alone, so the steps compose sequentially, adaptively, to epsilon (Dwork & Roth 2014,
Theorem 3.16). Gains, stops, limits and votes are post-processing. One scan for each level and one for the leaves (more
where `limit` is raised above 4194304).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.kernel.operations import LeafCounts
from dpsql.kernel.plan import NANO, Plan, Sequential, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import NoisyCounts, Session
from dpsql.kernel.statement_size import GROUPS_PER_STATEMENT as GROUPS
from dpsql.methods.base import Integer, Method, Parameter, Trained, resolve_parameters
from dpsql.schema import CELLS, Schema
from dpsql.trees.forest import PASS, Forest, Ints, Level, bits
from dpsql.trees.grid import Axis, axes
from dpsql.trees.grow.random_trees import MOST_COUNTS
from dpsql.trees.voting import VotingForest, largest_weight

#: The most splits on a path, however many attributes there are.
DEEPEST = 60
#: The bit planes of a split: the number of a branch, from 0 to 63, has six bits.
_PLANES = 6


class Id3(Method):
    """One tree, each split the one of largest noisy information gain, each leaf its noisy counts."""

    name = "id3"
    summary = "one greedy tree from noisy counts, a baseline (Jagannathan et al. 2012)"
    when = "to compare with; rosnam and rdt do better"
    trees_are_public = False
    parameters: Mapping[str, Parameter] = {
        "depth": Integer(
            None, 1, DEEPEST, "depth of the trees; by default as many splits as there are attributes, up to 60"
        ),
        "bins": Integer(10, 2, 64, "bins of a number, of equal width; one branch each"),
        "branches": Integer(64, 2, 64, "most branches of one split; wider categories are split by groups"),
        "limit": Integer(MOST_COUNTS, 2, 2**26, "most cells of a release; branches of all candidate splits × classes"),
    }

    def plan(
        self, schema: Schema, nano_epsilon: int, parameters: Mapping[str, Any], promise: Promise | None = None
    ) -> Plan:
        """Return the plan: for each level the counts of all candidate splits, then those of the leaves."""
        settings = resolve_parameters(self, parameters)
        splits, classes = _splits(schema, settings), len(schema.classes)
        attributes, nodes = splits.attributes, _most_nodes(splits, classes, settings["limit"])
        levels = min(settings["depth"] or DEEPEST, attributes)
        queries = sum(attributes - level for level in range(levels)) + 1
        if nano_epsilon < queries:
            raise ParameterError("epsilon", allowed=f"at least {queries / NANO:.9f}", given=nano_epsilon / NANO)
        each, width, steps = nano_epsilon // queries, 1, []
        for level in range(levels):
            left = attributes - level
            steps.append(_step(f"level_{level}", each * left, left, width * splits.most_branches(left), classes))
            width = min(nodes, width * splits.most_branches(1))
        rest = nano_epsilon - each * (queries - 1)
        steps.append(_step("leaves", rest, 1, width, classes))
        facts = {"levels": levels, "queries": queries, "most_nodes": nodes}
        return Plan(self.name, Sequential(tuple(steps)), promise or Promise(schema.unit), {**settings, **facts})

    def public_trees(self, schema: Schema, plan: Plan) -> Forest:
        """Return the root alone: every split follows from noisy counts."""
        return Forest(axes(schema), 1, ())

    def train(self, session: Session) -> Trained:
        """Return the tree whose leaves vote with their noisy counts."""
        settings = session.plan.parameters
        splits = _splits(session.schema, settings)
        tree = self.public_trees(session.schema, session.plan)
        live, used = np.ones(1, bool), np.zeros((1, len(tree.axes)), bool)
        for number in range(settings["levels"]):
            options = splits.unused_axes(live, used)
            copies = _copies(tree, splits, options)
            noisy_counts = session.leaf_counts(f"level_{number}", copies)
            axis = _best_axes(noisy_counts, copies, options, splits.arity, settings["most_nodes"])
            if (axis == PASS).all():
                break
            level = splits.level(axis)
            tree = Forest(tree.axes, 1, (*tree.levels, level))
            live, used = _descend(level, used)
        noisy_counts = session.leaf_counts("leaves", tree)
        most = largest_weight(1, len(session.schema.classes))
        return Trained(VotingForest(tree, np.clip(noisy_counts, -most, most)))


@dataclass(frozen=True, eq=False)
class _Splits:
    """The one split of each axis: its number of branches (0 where there is nothing to split) and its bit planes."""

    arity: NDArray[np.uint8]
    planes: NDArray[np.uint64]

    @property
    def attributes(self) -> int:
        """The number of axes that can be split: the paper's number of attributes."""
        return int(np.count_nonzero(self.arity))

    def most_branches(self, candidates: int) -> int:
        """Return how many branches this number of candidate splits of one node may have together."""
        return int(np.sort(self.arity)[::-1][:candidates].sum(dtype=np.int64))

    def unused_axes(self, live: NDArray[np.bool_], used: NDArray[np.bool_]) -> Ints:
        """Return the axes that each path has left, as candidates × nodes; PASS for nodes that are leaves already."""
        open_axes = ~used[live] & (self.arity > 0)
        options = np.full((int(open_axes[0].sum()), len(live)), PASS, np.int64)
        options[:, live] = np.nonzero(open_axes)[1].reshape(-1, len(options)).T
        return options

    def level(self, axis: Ints) -> Level:
        """Return the level in which each node splits this axis, or passes its rows on."""
        arity = np.where(axis == PASS, 1, self.arity[axis]).astype(np.uint8)
        planes = np.where(axis == PASS, np.uint64(0), self.planes[:, axis])
        used = max(1, int(arity.max() - 1).bit_length())
        return Level(axis.astype(np.int16), arity, planes[:used])


def information_gain(noisy_counts: NoisyCounts, first: Ints) -> NDArray[np.float64]:
    """Return the information gain (in nats) of each split, from the counts of its branches; counts below 0 are 0.

    `first` is the place of each split's first branch.

    >>> information_gain(np.array([[8, 0], [0, 8], [4, 4], [4, 4]]), np.array([0, 2])).round(2).tolist()
    [0.69, 0.0]
    """
    positive = np.maximum(noisy_counts, 0).astype(np.float64)
    node = np.add.reduceat(positive, first, axis=0)
    gained = _surprise(node) - np.add.reduceat(_surprise(positive), first)
    return np.asarray(gained / np.maximum(node.sum(axis=1), 1))


def _surprise(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return size × entropy of each row of class counts."""
    return np.asarray(_n_log_n(counts.sum(axis=1)) - _n_log_n(counts).sum(axis=1))


def _n_log_n(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(counts * np.log(np.maximum(counts, 1)))


def _splits(schema: Schema, settings: Mapping[str, Any]) -> _Splits:
    slots = np.stack([_slots(axis, settings["bins" if axis.ordered else "branches"]) for axis in axes(schema)])
    arity = np.where(slots.max(axis=1) > 0, slots.max(axis=1) + 1, 0).astype(np.uint8)
    return _Splits(arity, np.stack([bits((slots >> plane & 1).astype(bool)) for plane in range(_PLANES)]))


def _slots(axis: Axis, most: int) -> Ints:
    """Return the branch of each of 64 cells.

    Neighbouring values share a branch where there are more than `most`; what is no value takes the last branch.
    """
    cells = np.arange(CELLS)
    arity = max(min(most, axis.values), min(2, axis.cells))
    return np.asarray(np.where(cells < axis.values, cells * arity // max(arity, axis.values), arity - 1))


def _most_nodes(splits: _Splits, classes: int, limit: int) -> int:
    """Return how many nodes a level may have so that the counts of all their splits stay within the limit."""
    needed = max(1, splits.most_branches(splits.attributes)) * classes
    if needed > limit:
        raise ParameterError("limit", allowed=f"at least {needed}, the cells of the root's splits", given=limit)
    return limit // needed


def _step(name: str, nano_epsilon: int, candidates: int, cells: int, classes: int) -> Step:
    return Step(
        name,
        LeafCounts(),
        nano_epsilon,
        trees=candidates,
        shared=True,
        cells=cells * classes,
        classes=classes,
        scans=1 if cells * classes <= GROUPS else min(candidates, 1 + 2 * cells * classes // GROUPS),
        note="one noisy count per leaf and class" + (" of each node's candidate splits" if name != "leaves" else ""),
    )


def _copies(tree: Forest, splits: _Splits, options: Ints) -> Forest:
    """Return the tree once for each candidate, each with one more level: every node split by that candidate."""
    count = len(options)
    levels = tuple(
        Level(np.tile(level.axis, count), np.tile(level.arity, count), np.tile(level.planes, count))
        for level in tree.levels
    )
    return Forest(tree.axes, count, (*levels, splits.level(options.ravel())))


def _best_axes(noisy_counts: NoisyCounts, copies: Forest, options: Ints, arity: NDArray[np.uint8], most: int) -> Ints:
    """Return the axis that each node splits: the candidate of largest gain, or PASS where the node becomes a leaf."""
    first = copies.levels[-1].child
    gain = information_gain(noisy_counts, first).reshape(options.shape)
    best = options[np.argmax(gain, axis=0), np.arange(options.shape[1])]
    classes = np.add.reduceat(noisy_counts, first, axis=0).reshape(*options.shape, -1).mean(axis=0)
    size = classes.sum(axis=1)
    split = (best != PASS) & (size > 0) & ((classes > 0).sum(axis=1) > 1)
    order = np.argsort(np.where(split, -size, np.inf), kind="stable")
    added = np.where(split, arity[best].astype(np.int64) - 1, 0)[order]
    split[order] &= len(split) + np.cumsum(added) <= most
    return np.where(split, best, PASS)


def _descend(level: Level, used: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return for each node of the next level whether it may be split, and the axes that its path has used."""
    axis = np.repeat(level.axis, level.arity)
    below = np.repeat(used, level.arity, axis=0)
    live = axis != PASS
    below[live, axis[live]] = True
    return live, below
