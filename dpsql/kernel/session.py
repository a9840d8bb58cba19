"""A session with the kernel: the operations that a method may ask for, within the allowance of its plan.

Each request names a step of the plan. A step can be used once, and only as it was declared: another operation, more
trees, more values, or shared instead of disjoint trees are refused (`kernel/allowance.py`). What a method hands over is
rebuilt from plain arrays before it is used (`kernel/border.py`), because the proofs are about the kernel's own objects.
The answers are noisy. Exact counts exist only inside one function, between the query and the mechanism.

The proof of each operation stands with its class in `kernel/operations.py`, and the argument that all proofs share
stands at the top of that file. A plan for (epsilon, delta) gets other noise for the same steps; `kernel/noise.py` has
the proof.
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
    CommonValues,
    HashCounts,
    Histograms,
    LeafCounts,
    LeafLabels,
    LeafSums,
    Linear,
    Magnitudes,
    Pick,
    PseudoCounts,
    PublicSize,
    PublicSplits,
    ScoreCounts,
    Size,
)
from dpsql.kernel.plan import FEATURES, UNLABELLED, Composition, Plan, Step
from dpsql.kernel.progress import RunProgress
from dpsql.mechanisms.choose import exponential
from dpsql.schema import CELLS, WIDE_HASH_CELLS, Categorical, Feature, Hashed, Numeric, Schema
from dpsql.trees.estimate.mixtures import Mixtures
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes as axes_of
from dpsql.trees.magnitude_grid import MAGNITUDES
from dpsql.trees.score_grid import ScoreGrid
from dpsql.trees.strategies.strategy import Strategy
from dpsql.trees.voting import VotingForest

__all__ = ["AllowanceExceeded", "Labels", "NoisyCounts", "Session"]
NoisyCounts = NDArray[np.int64]
Labels = NDArray[np.int64]


class Session:
    """What a method asks, for one run on one dataset. `kernel/run.py` opens it after the charge is on disk."""

    #: No other attributes: a method cannot put a function of its own in the place of one that the kernel calls.
    __slots__ = (
        "_allowance",
        "_axes",
        "_classes",
        "_plan",
        "_plan_for_method",
        "_rows",
        "_schema",
        "_schema_for_method",
    )

    def __init__(
        self,
        engine: Engine,
        source: Source,
        plan: Plan,
        sides: Mapping[str, Source] | None = None,
        progress: RunProgress | None = None,
    ) -> None:
        self._plan = border.rebuild_plan(plan)
        self._schema: Schema = source.schema
        self._axes = axes_of(self._schema)
        self._classes = len(self._schema.classes)
        # Where labels alone are private, a row is counted whatever its label says: see `kernel/unlabelled_rows.py`.
        self._rows = Rows(engine, replace(source, every_label=self._plan.promise.labels_only), sides or {})
        self._allowance = Allowance(self._plan, progress)
        self._plan_for_method = border.rebuild_plan(plan)
        self._schema_for_method = copy.deepcopy(self._schema)

    def __repr__(self) -> str:
        return f"<Session: {len(self._allowance)} of {len(self._plan.steps)} steps left>"

    @property
    def plan(self) -> Plan:
        """A copy of the plan. The session itself uses another one, so what a method does to this copy has no effect."""
        return self._plan_for_method

    @property
    def schema(self) -> Schema:
        """A copy of the schema, with the bounds that `narrow` gave it. The session itself uses another one."""
        return self._schema_for_method

    @property
    def has_failed(self) -> bool:
        """Whether an operation failed while rows were read. Then the run has no result, whatever its method returns."""
        return self._allowance.has_failed

    @property
    def failure(self) -> DpsqlError:
        """The error of a session that has failed: its message tells nothing about rows."""
        return self._allowance.failure

    def own_schema(self) -> Schema:
        """Return a copy of the schema that the session itself has used, to which no method could write."""
        return copy.deepcopy(self._schema)

    def close(self) -> None:
        """End the session, and remove what it stored inside the database."""
        self._allowance.close()
        self._rows.close()

    def step(self, name: str) -> Step:
        """Return a copy of a step as it was declared, in the plan or later."""
        return self._allowance.step(name)

    def deviation(self, name: str) -> float:
        """Return the standard deviation of the noise on each count of a step. Public: the plan says it."""
        return math.sqrt(2) * float(self.step(name).scale(self._plan.promise))

    @hide_failures
    def later(self, name: str, composition: Composition) -> None:
        """Open the steps of a composition, which was planned from earlier answers, on the allowance of one step.

        Proof: `operations.Later`.
        """
        self._allowance.open_later(name, composition)

    @hide_failures
    def narrow(self, bounds: Mapping[str, tuple[float, float]]) -> None:
        """Clamp numbers to these bounds from now on; they must lie within the declared ones.

        The schema of the session, and of a model that comes out of it, has the new bounds.

        Proof: the bounds are a function of the schema and of released values, so they are public. Rows outside them
        are clamped, not left out: every row still has one cell on each axis, and the sensitivity of every step is as
        before.
        """
        with self._allowance.one_at_a_time():
            rebuilt = border.rebuild_bounds(bounds)
            self._schema = self._schema.with_bounds(rebuilt)
            self._schema_for_method = copy.deepcopy(self._schema)
            self._rows.narrow(rebuilt)

    @hide_failures
    def hold(self) -> None:
        """Store the cells of the rows in the session's workspace, where several steps read them. Releases nothing."""
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
            rebuilt = border.rebuild_strategy(strategy, trees.leaves)
            answers = rebuilt.questions * self._classes
            step = self._allowance.use(taken, self._schema, forest=trees, cells=answers, row_weight=rebuilt.sensitivity)
            counts = self._rows.leaf_counts(trees, _part(step), shared=False)
            return self._add_noise(np.asarray(rebuilt.answer(counts), np.int64), step)

    @hide_failures
    def leaf_sums(self, name: str, forest: Forest) -> NoisyCounts:
        """Return two noisy sums for every leaf: the steps of its rows' targets below `upper`, and those above `lower`.

        With B steps below `upper` and A steps above `lower`, the mean target of a leaf is lower + (upper − lower) ·
        A/(A + B), and the number of its rows is (A + B)/steps.

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
            numbers = border.rebuild_axis_numbers(axes, len(self._axes))
            classes = self._classes if border.check_flag(by_class) else 1
            cells = sum(self._axes[axis].cells for axis in numbers) * trees.leaves * classes
            step = self._allowance.use(
                taken, self._schema, forest=trees, axes=len(numbers), cells=cells, by_class=by_class
            )
            asks = Asks.of(np.tile(np.array(numbers), (trees.leaves, 1)))
            counts = self._rows.histograms(trees, asks, _part(step), shared=step.shared, by_class=by_class)
            noisy = self._add_noise(counts.reshape(trees.leaves, len(numbers), CELLS, classes), step)
            for place, axis in enumerate(numbers):
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
        """Return one candidate split per leaf of a growing forest, by the exponential mechanism; −1 for no candidates.

        With `together` all leaves of the only tree get the same split, as in an oblivious tree: the utilities of the
        leaves are added up. All leaves must then ask for the same axes with the same weights.

        Proof: `operations.Choose`.
        """
        with self._allowance.take(name, Choose) as taken:
            trees = border.rebuild_forest(forest, self._axes)
            rebuilt = border.rebuild_candidates(candidates, trees, together=border.check_flag(together))
            step = self._allowance.use(taken, self._schema, forest=trees, cells=trees.leaves, nano_epsilon=nano_epsilon)
            if step.published:
                return self._rows.published_medians(trees, rebuilt, _part(step), step)
            return self._draw_splits(trees, rebuilt, step, together=together)

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

        The cells are those of the H histograms of `trees/score_grid.py` (H is 1 for two classes or with
        `confidence_alone`, and 4 for more classes). `features` are those that the forest reads: each is a registered
        feature, with the domain that the forest was trained for.

        Proof: `operations.ScoreCounts`.
        """
        with self._allowance.take(name, ScoreCounts) as taken:
            grid = ScoreGrid(self._classes, border.check_flag(confidence_alone))
            rebuilt = border.rebuild_features(features)
            registered = {feature.name: type(feature) for feature in self._schema.features}
            if any(registered.get(feature.name) is not type(feature) for feature in rebuilt):
                raise AllowanceExceeded(f'step "{taken.name}" reads features that are not registered.')
            axes = axes_of(border.rebuild_schema(self._schema, rebuilt))
            forest = border.rebuild_voting_forest(released, axes, self._classes)
            step = self._allowance.use(taken, self._schema, axes=len(grid.histograms), cells=grid.cells)
            return self._add_noise(self._rows.score_counts(forest, rebuilt, grid, _part(step)), step)

    @hide_failures
    def pick(self, name: str, mixtures: Mixtures) -> int:
        """Return the number of one of several mixtures of a released forest's trees, by how many rows each gets right.

        Proof: `operations.Pick`.
        """
        with self._allowance.take(name, Pick) as taken:
            rebuilt = border.rebuild_mixtures(mixtures, self._axes, self._classes)
            step = self._allowance.use(taken, self._schema, cells=len(rebuilt.weights))
            worth = self._rows.right_rows(rebuilt, _part(step))[None, :]
            epsilon, weights = step.row_epsilon(self._plan.promise), rebuilt.weights[None, :]
            return int(exponential(worth, epsilon, sensitivity=rebuilt.largest_gain, monotone=True, weights=weights)[0])

    @hide_failures
    def magnitudes(self, name: str, columns: Sequence[str]) -> NoisyCounts:
        """Return noisy counts of (column, cell): numeric features by sign and power of two (`trees/magnitude_grid.py`).

        Proof: `operations.Magnitudes`.
        """
        with self._allowance.take(name, Magnitudes) as taken:
            names = border.rebuild_names(columns, self._schema, Numeric)
            step = self._allowance.use(taken, self._schema, axes=len(names), cells=len(names) * MAGNITUDES)
            return self._add_noise(self._rows.magnitudes(names, _part(step)), step)

    @hide_failures
    def hash_counts(self, name: str, columns: Sequence[str]) -> NoisyCounts:
        """Return noisy counts of (column, cell): hashed features by the cells of the wide public hash, NULL the last.

        Proof: `operations.HashCounts`.
        """
        with self._allowance.take(name, HashCounts) as taken:
            names = border.rebuild_names(columns, self._schema, Hashed)
            step = self._allowance.use(taken, self._schema, axes=len(names), cells=len(names) * (WIDE_HASH_CELLS + 1))
            return self._add_noise(self._rows.hash_counts(names, _part(step)), step)

    @hide_failures
    def common_values(self, name: str, columns: Sequence[str]) -> list[tuple[str, str, int]]:
        """Return (column, text, noisy count) of each text of some categorical features that many rows have.

        Proof: `operations.CommonValues`.
        """
        with self._allowance.take(name, CommonValues) as taken:
            names = border.rebuild_names(columns, self._schema, Categorical)
            step = self._allowance.use(taken, self._schema, axes=len(names), cells=len(names))
            promise = self._plan.promise
            groups = self._rows.common_values(names, _part(step), more_than=promise.change)
            return [(*key, count) for key, count in noise.select_common(groups, step, promise).items()]

    @hide_failures
    def public_size(self, name: str) -> int:
        """Return the number of labelled rows. Neighbours differ only in what labels say, so it is the same for both.

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
            rebuilt = border.rebuild_candidates(candidates, trees)
            step = self._allowance.use(taken, self._schema, forest=trees, cells=trees.leaves)
            both_sides = [replace(_part(step), side=side) for side in (UNLABELLED, FEATURES)]
            scores = self._rows.scores(trees, rebuilt, both_sides, Choose(PublicSplits.utility), shared=step.shared)
        asking = rebuilt.asking_leaves
        allowed = rebuilt.weights[asking].reshape(scores.shape) > 0
        splits = np.full(trees.leaves, -1, np.int64)
        splits[asking] = np.where(allowed, scores, np.iinfo(np.int64).min).argmax(axis=1)
        return splits

    @hide_failures
    def pseudo_counts(self, name: str, teacher: VotingForest, forest: Forest) -> NoisyCounts:
        """Return how many unlabelled rows of each predicted class reach each leaf; a released forest predicts.

        Proof: `operations.PseudoCounts`.
        """
        with self._allowance.take(name, PseudoCounts) as taken:
            rebuilt = border.rebuild_voting_forest(teacher, self._axes, self._classes)
            trees = border.rebuild_forest(forest, self._axes)
            step = self._allowance.use(taken, self._schema, forest=trees, cells=trees.leaves * self._classes)
            return self._rows.pseudo_counts(rebuilt, trees, replace(_part(step), side=UNLABELLED))

    def _add_noise(self, counts: Counts, step: Step) -> NoisyCounts:
        """Return counts with the step's noise on each of them."""
        return noise.add_noise(counts, step, self._plan.promise)


def _part(step: Step) -> Part:
    """Return which units a step looks at, on which side."""
    return Part(step.part, step.parts, step.side)
