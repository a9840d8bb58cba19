"""A session with the kernel: the operations a method may ask for, within the allowance of its plan.

Each operation names a step of the plan. A step can be used once, and only as it was declared: another operation, more
trees, more values, shared instead of disjoint trees are refused (`kernel/allowance.py`). What a method hands over is
rebuilt from plain arrays before it is used (`kernel/border.py`): the proofs are about the kernel's own objects. What
comes back is noisy; the exact counts live inside one function, between query and mechanism.

The proof of each operation, and the argument that all proofs share, stand with its class in `kernel/operations.py`.
A plan for (epsilon, delta) gets other noise for the same steps; `kernel/noise.py` has its proof.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpsql.compile.count.histograms import Asks
from dpsql.compile.rows import Part, Source
from dpsql.engines.base import Engine
from dpsql.errors import DpsqlError
from dpsql.kernel import border, noise, published
from dpsql.kernel.allowance import Allowance, hide_failures
from dpsql.kernel.border import AllowanceExceeded
from dpsql.kernel.candidates import Candidates
from dpsql.kernel.exact import Counts, Rows
from dpsql.kernel.operations import (
    Choose,
    Histograms,
    LeafCounts,
    LeafLabels,
    LeafSums,
    Linear,
    Pick,
    PseudoCounts,
    PublicSize,
    PublicSplits,
    ScoreCounts,
    Size,
)
from dpsql.kernel.plan import FEATURES, UNLABELLED, Composition, Plan, Step
from dpsql.mechanisms.choose import exponential
from dpsql.schema import CELLS, Feature, Schema
from dpsql.trees.estimate.mixtures import Mixtures
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes as axes_of
from dpsql.trees.score_grid import ScoreGrid
from dpsql.trees.strategies.strategy import Strategy
from dpsql.trees.voting import VotingForest

__all__ = ["AllowanceExceeded", "Labels", "NoisyCounts", "Session"]
NoisyCounts = NDArray[np.int64]
Labels = NDArray[np.int64]


class Session:
    """An open allowance on one dataset. `kernel/run.py` opens it after the charge is on disk."""

    #: No other attributes: a method cannot put a function of its own in the place of one that the kernel calls.
    __slots__ = ("_allowance", "_axes", "_classes", "_plan", "_rows", "_schema", "_shown")

    def __init__(self, engine: Engine, source: Source, plan: Plan, sides: Mapping[str, Source] | None = None) -> None:
        self._plan = border.rebuild_plan(plan)
        self._schema: Schema = source.schema
        self._axes = axes_of(self._schema)
        self._classes = len(self._schema.classes)
        # Where labels alone are private, a row counts whatever its label says: see `kernel/unlabelled_rows.py`.
        self._rows = Rows(engine, replace(source, every_label=self._plan.promise.labels_only), sides or {})
        self._allowance = Allowance(self._plan)
        self._shown = border.rebuild_plan(plan), copy.deepcopy(self._schema)

    def __repr__(self) -> str:
        return f"<Session: {len(self._allowance)} of {len(self._plan.steps)} steps left>"

    @property
    def plan(self) -> Plan:
        """A copy of the plan: whatever is done to it, the session keeps to its own."""
        return self._shown[0]

    @property
    def schema(self) -> Schema:
        """A copy of the schema, with the bounds that `narrow` gave it."""
        return self._shown[1]

    @property
    def has_failed(self) -> bool:
        """Whether an operation failed while rows were read: then the run has no result, whatever its method returns."""
        return self._allowance.has_failed

    @property
    def failure(self) -> DpsqlError:
        """What to say of a session that failed: a sentence that tells nothing of rows."""
        return self._allowance.failure

    def own_schema(self) -> Schema:
        """Return the schema that the session itself has worked with, which no method could write to."""
        return copy.deepcopy(self._schema)

    def close(self) -> None:
        """End the session: what it kept inside the database is gone."""
        self._allowance.close()
        self._rows.close()

    def step(self, name: str) -> Step:
        """Return a copy of a step as it was declared, in the plan or later."""
        return self._allowance.step(name)

    def deviation(self, name: str) -> float:
        """Return the standard deviation of the noise on each count of a step. Public: it follows from the plan."""
        return math.sqrt(2) * float(self.step(name).scale(self._plan.promise))

    @hide_failures
    def later(self, name: str, composition: Composition) -> None:
        """Open the steps of a composition that was planned from earlier answers, on the allowance of one step.

        Proof: `operations.Later`.
        """
        self._allowance.open_later(name, composition)

    @hide_failures
    def narrow(self, bounds: Mapping[str, tuple[float, float]]) -> None:
        """From now on clamp numbers to these bounds, within the declared ones; `schema` says so, and the model's too.

        Proof: the bounds are a function of the schema and of released values, so they are public. Rows outside are
        clamped, not left out: every row still has one cell on each axis, and every step's sensitivity is as before.
        """
        with self._allowance.one_at_a_time():
            own = border.rebuild_bounds(bounds)
            self._schema = self._schema.with_bounds(own)
            self._shown = self._shown[0], copy.deepcopy(self._schema)
            self._rows.narrow(own)

    @hide_failures
    def hold(self) -> None:
        """Keep the rows' cells inside the session's own workspace, where several steps read them. Releases nothing."""
        with self._allowance.one_at_a_time():
            self._allowance.read()
            self._rows.hold()

    @hide_failures
    def size(self, name: str) -> int:
        """Return the noisy number of rows that training would use.

        Proof: `operations.Size`.
        """
        with self._allowance.take(name, Size) as taken:
            step = self._allowance.use(taken, self._schema)
            return int(self._add_noise(np.array([self._rows.size(_part(step))]), step)[0])

    @hide_failures
    def leaf_counts(self, name: str, forest: Forest) -> NoisyCounts:
        """Return noisy counts on the full grid of leaves × classes.

        Proof: `operations.LeafCounts`.
        """
        with self._allowance.take(name, LeafCounts) as taken:
            trees = border.rebuild_forest(forest, self._axes)
            step = self._allowance.use(taken, self._schema, forest=trees, cells=trees.leaves * self._classes)
            return self._add_noise(self._rows.leaf_counts(trees, _part(step), shared=step.shared), step)

    @hide_failures
    def linear(self, name: str, cells: Forest, strategy: Strategy) -> NoisyCounts:
        """Return noisy answers to a strategy's questions about the cells of a tree, by class (questions × classes).

        The cells are leaves: of one tree, or of several that see disjoint rows.

        Proof: `operations.Linear`.
        """
        with self._allowance.take(name, Linear) as taken:
            trees = border.rebuild_forest(cells, self._axes)
            asked = border.rebuild_strategy(strategy, trees.leaves)
            count = asked.questions * self._classes
            step = self._allowance.use(taken, self._schema, forest=trees, cells=count, row_weight=asked.sensitivity)
            counts = self._rows.leaf_counts(trees, _part(step), shared=False)
            return self._add_noise(np.asarray(asked.answer(counts), np.int64), step)

    @hide_failures
    def leaf_sums(self, name: str, forest: Forest) -> NoisyCounts:
        """Return two noisy sums for every leaf: the steps of its rows' targets below `upper`, and those above `lower`.

        The mean of a leaf lies at the share of the second in both; both over `steps` is the number of its rows.

        Proof: `operations.LeafSums`.
        """
        with self._allowance.take(name, LeafSums) as taken:
            trees = border.rebuild_forest(forest, self._axes)
            step = self._allowance.use(taken, self._schema, forest=trees, cells=trees.leaves * 2)
            return self._add_noise(self._rows.leaf_sums(trees, _part(step), shared=step.shared), step)

    @hide_failures
    def leaf_labels(self, name: str, forest: Forest) -> Labels:
        """Return one class number per leaf by one-sided noisy arg-max, which is permute-and-flip on the counts.

        Proof: `operations.LeafLabels`.
        """
        with self._allowance.take(name, LeafLabels) as taken:
            trees = border.rebuild_forest(forest, self._axes)
            step = self._allowance.use(taken, self._schema, forest=trees, cells=trees.leaves)
            counts = self._rows.leaf_counts(trees, _part(step), shared=step.shared)
            if step.published:
                return published.smooth_labels(counts, float(step.row_epsilon(self._plan.promise)))
            return noise.choose_largest(counts, step, self._plan.promise)

    @hide_failures
    def histograms(self, name: str, forest: Forest, axes: Sequence[int], *, by_class: bool = True) -> NoisyCounts:
        """Return noisy counts on the full grid of (leaf, axis, cell, class) at the leaves of a growing forest.

        Proof: `operations.Histograms`.
        """
        with self._allowance.take(name, Histograms) as taken:
            trees = border.rebuild_forest(forest, self._axes)
            asked = border.rebuild_axis_numbers(axes, len(self._axes))
            classes = self._classes if border.flag(by_class) else 1
            cells = sum(self._axes[axis].cells for axis in asked) * trees.leaves * classes
            step = self._allowance.use(
                taken, self._schema, forest=trees, axes=len(asked), cells=cells, by_class=by_class
            )
            asks = Asks.of(np.tile(np.array(asked), (trees.leaves, 1)))
            counts = self._rows.histograms(trees, asks, _part(step), shared=step.shared, by_class=by_class)
            noisy = self._add_noise(counts.reshape(trees.leaves, len(asked), CELLS, classes), step)
            for place, axis in enumerate(asked):
                noisy[:, place, self._axes[axis].cells :] = 0
            return noisy

    @hide_failures
    def choose(
        self,
        name: str,
        forest: Forest,
        candidates: Candidates,
        *,
        nano_epsilon: int | None = None,
        together: bool = False,
    ) -> Labels:
        """Return one candidate split per leaf of a growing forest, by the exponential mechanism; −1 where none asked.

        With `together` all leaves of the one tree choose the same split (an oblivious tree), and all must ask for the
        same axes with the same weights: the utilities of the leaves are added up.

        Proof: `operations.Choose`.
        """
        with self._allowance.take(name, Choose) as taken:
            trees = border.rebuild_forest(forest, self._axes)
            offered = border.rebuild_candidates(candidates, trees, together=border.flag(together))
            step = self._allowance.use(taken, self._schema, forest=trees, cells=trees.leaves, nano_epsilon=nano_epsilon)
            if step.published:
                return self._rows.published_medians(trees, offered, _part(step), step)
            return self._draw_splits(trees, offered, step, together=together)

    def _draw_splits(self, forest: Forest, candidates: Candidates, step: Step, *, together: bool) -> Labels:
        """Return the splits that the exponential mechanism draws from exact utilities."""
        operation = step.operation_as(Choose)
        scores = self._rows.scores(forest, candidates, [_part(step)], operation, shared=step.shared)
        splits = np.full(forest.leaves, -1, np.int64)
        asking = candidates.asking_leaves
        weights = candidates.weights[asking].reshape(scores.shape)
        if together:
            scores, weights = scores.sum(axis=0, keepdims=True), weights[:1]
        splits[asking] = exponential(
            scores,
            step.row_epsilon(self._plan.promise),
            sensitivity=operation.width,
            monotone=True,
            weights=weights,
        )
        return splits

    @hide_failures
    def score_counts(
        self, name: str, released: VotingForest, features: tuple[Feature, ...], *, confidence_alone: bool = False
    ) -> NoisyCounts:
        """Return noisy counts of rows by true class, named class and probability, as a released forest scores them.

        The cells are those of `trees/score_grid.py`, H histograms (1 for two classes or confidence alone, 4 for more).
        `features` are what the forest reads, each a registered feature, with the domains that it was trained for.

        Proof: `operations.ScoreCounts`.
        """
        with self._allowance.take(name, ScoreCounts) as taken:
            grid = ScoreGrid(self._classes, border.flag(confidence_alone))
            read = border.rebuild_features(features)
            known = {feature.name: type(feature) for feature in self._schema.features}
            if any(known.get(feature.name) is not type(feature) for feature in read):
                raise AllowanceExceeded(f'step "{taken.name}" reads features that are not registered.')
            axes = axes_of(border.rebuild_schema(self._schema, read))
            forest = border.rebuild_voting_forest(released, axes, self._classes)
            step = self._allowance.use(taken, self._schema, axes=len(grid.histograms), cells=grid.cells)
            return self._add_noise(self._rows.score_counts(forest, read, grid, _part(step)), step)

    @hide_failures
    def pick(self, name: str, mixtures: Mixtures) -> int:
        """Return the number of one of several mixtures of a released forest's trees, by how many rows each gets right.

        Proof: `operations.Pick`.
        """
        with self._allowance.take(name, Pick) as taken:
            offered = border.rebuild_mixtures(mixtures, self._axes, self._classes)
            step = self._allowance.use(taken, self._schema, cells=len(offered.factors))
            right = self._rows.right(offered, _part(step))
            epsilon, weights = step.row_epsilon(self._plan.promise), offered.weights[None, :]
            return int(exponential(right[None, :], epsilon, monotone=True, weights=weights)[0])

    @hide_failures
    def public_size(self, name: str) -> int:
        """Return the number of labelled rows. Neighbours differ in what labels say alone, so it is the same for both.

        Proof: `operations.PublicSize`.
        """
        with self._allowance.take(name, PublicSize) as taken:
            return self._rows.size(_part(self._allowance.use(taken, self._schema)))

    @hide_failures
    def public_splits(self, name: str, forest: Forest, candidates: Candidates) -> Labels:
        """Return the best candidate split of each leaf for the utility "median", over all rows, labelled or not.

        Proof: `operations.PublicSplits`.
        """
        with self._allowance.take(name, PublicSplits) as taken:
            trees = border.rebuild_forest(forest, self._axes)
            offered = border.rebuild_candidates(candidates, trees)
            step = self._allowance.use(taken, self._schema, forest=trees, cells=trees.leaves)
            both = [replace(_part(step), side=side) for side in (UNLABELLED, FEATURES)]
            scores = self._rows.scores(trees, offered, both, Choose(PublicSplits.utility), shared=step.shared)
        asking = offered.asking_leaves
        allowed = offered.weights[asking].reshape(scores.shape) > 0
        chosen = np.full(trees.leaves, -1, np.int64)
        chosen[asking] = np.where(allowed, scores, np.iinfo(np.int64).min).argmax(axis=1)
        return chosen

    @hide_failures
    def pseudo_counts(self, name: str, teacher: VotingForest, forest: Forest) -> NoisyCounts:
        """Return how many unlabelled rows of each predicted class reach each leaf; a released forest predicts.

        Proof: `operations.PseudoCounts`.
        """
        with self._allowance.take(name, PseudoCounts) as taken:
            guessing = border.rebuild_voting_forest(teacher, self._axes, self._classes)
            trees = border.rebuild_forest(forest, self._axes)
            step = self._allowance.use(taken, self._schema, forest=trees, cells=trees.leaves * self._classes)
            return self._rows.pseudo_counts(guessing, trees, replace(_part(step), side=UNLABELLED))

    def _add_noise(self, counts: Counts, step: Step) -> NoisyCounts:
        return noise.add_noise(counts, step, self._plan.promise)


def _part(step: Step) -> Part:
    return Part(step.part, step.parts, step.side)
