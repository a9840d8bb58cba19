"""A session with the kernel: the operations a method may ask for, within the allowance of its plan.

Each operation names a step of the plan. A step can be used once, and only as it was declared: another operation, more
trees, more values, shared instead of disjoint trees are refused. What comes back is noisy; the exact counts
live inside one function, between query and mechanism.

The proofs share one argument. Neighbouring tables differ in one unit, that is in at most c = `max_rows` rows. Adding
the rows one at a time, each adds 1 to one cell per tree it walks and axis it is read on: one tree when trees are
disjoint (the ticket is a function of the unit alone, so no other row moves), all T trees when they are shared. If a
single +1 costs at most e, the unit costs at most c·T·axes·e (group privacy, Dwork & Roth 2014, Theorem 2.2 and 3.16).
Each operation therefore runs at e = epsilon / (c·T·axes), which is `Step.row_epsilon`.

That is pure epsilon. A plan for (epsilon, delta) gets other noise for the same steps; `kernel/noise.py` has its proof.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.compile.source import Part, Source
from dpsql.compile.splits import Asks
from dpsql.engines.base import Engine
from dpsql.errors import BudgetError
from dpsql.kernel import noise, published
from dpsql.kernel.candidates import Candidates
from dpsql.kernel.exact import Counts, Rows
from dpsql.kernel.plan import FEATURES, LARGEST_SCALE, UNLABELLED, Composition, Plan, Step, has_sides, placed
from dpsql.kernel.utility import CLASSLESS
from dpsql.mechanisms.choose import exponential
from dpsql.schema import CELLS, Feature, Schema
from dpsql.strategies.strategy import Strategy
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes as axes_of
from dpsql.trees.mixtures import Mixtures
from dpsql.trees.scoregrid import ScoreGrid
from dpsql.trees.voting import VotingForest

NoisyCounts = NDArray[np.int64]
Labels = NDArray[np.int64]


class AllowanceExceeded(BudgetError):
    """A method asked for more than its plan declared; the kernel refused, and nothing was read."""


class Session:
    """An open allowance on one dataset. `kernel/run.py` opens it after the charge is on disk."""

    def __init__(self, engine: Engine, source: Source, plan: Plan, sides: Mapping[str, Source] | None = None) -> None:
        self.schema: Schema = replace(source.schema, unit=plan.unit)
        self.plan = plan
        self._rows = Rows(engine, source, sides or {})
        self._open = {step.name: step for step in plan.steps}
        self._declared = dict(self._open)
        #: What a method wants to be kept with its model, beyond the forest: public, for it saw noisy answers alone.
        self.facts: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"<Session: {len(self._open)} of {len(self.plan.steps)} steps left>"

    def close(self) -> None:
        """End the session: what it kept inside the database is gone."""
        self._open.clear()
        self._rows.close()

    def step(self, name: str) -> Step:
        """Return a step as it was declared, in the plan or later."""
        return self._declared[name]

    def deviation(self, name: str) -> float:
        """Return the standard deviation of the noise on each count of a step. Public: it follows from the plan."""
        return math.sqrt(2) * float(self.step(name).scale(self.plan.unit))

    def later(self, name: str, composition: Composition) -> None:
        """Open the steps of a composition that was planned from earlier answers, on the allowance of one step.

        Proof: the steps are a function of released values, and whatever they are, they cost no more than the allowance
        that was charged (adaptive composition of pure epsilon: Rogers, Roth, Ullman & Vadhan 2016). They look at the
        units of the allowance's own part and side alone, for no others were charged.
        """
        allowance = self._open.get(name)
        if allowance is None or allowance.operation != "later" or composition.cost > allowance.nano_epsilon:
            raise AllowanceExceeded(f'step "{name}" is no allowance for steps of nano-epsilon {composition.cost}.')
        steps = placed(composition, allowance)
        names = [step.name for step in steps]
        if has_sides(composition) or len(set(names)) < len(names) or set(names) & set(self._declared):
            raise AllowanceExceeded(f'the later steps of "{name}" need new names, and no sides.')
        if any(step.free or step.published or step.operation == "later" for step in steps):
            raise AllowanceExceeded(f'the later steps of "{name}" must each have a cost and a proof.')
        if any(step.scale(self.plan.unit) > LARGEST_SCALE for step in steps):
            raise AllowanceExceeded(f'the later steps of "{name}" need more epsilon: noise must stay within 64 bits.')
        del self._open[name]
        self._open.update((step.name, step) for step in steps)
        self._declared.update((step.name, step) for step in steps)

    def narrow(self, bounds: Mapping[str, tuple[float, float]]) -> None:
        """From now on clamp numbers to these bounds, within the declared ones; `schema` says so, and the model's too.

        Proof: the bounds are a function of the schema and of released values, so they are public. Rows outside are
        clamped, not left out: every row still has one cell on each axis, and every step's sensitivity is as before.
        """
        self.schema = self.schema.narrowed(bounds)
        self._rows.narrow(bounds)

    def hold(self) -> None:
        """Keep the rows' cells inside the session's own workspace, where several steps read them. Releases nothing."""
        self._rows.hold()

    def size(self, name: str) -> int:
        """Return the noisy number of rows that training would use.

        Proof: one row changes the count by 1; discrete Laplace noise of scale c/epsilon gives a unit of c rows epsilon
        (Ghosh, Roughgarden & Sundararajan 2012).
        """
        step = self._take(name, "size")
        return int(_noisy(np.array([self._rows.size(_part(step))]), step, self.plan)[0])

    def leaf_counts(self, name: str, forest: Forest) -> NoisyCounts:
        """Return noisy counts on the full grid of leaves × classes.

        Proof: the counts of all cells together change by at most c (disjoint) or c·T (shared) in L1; discrete Laplace
        noise of that scale over epsilon on every cell, empty ones included, gives epsilon (Dwork & Roth 2014, Theorem
        3.6, for integers Ghosh et al. 2012).
        """
        step = self._take(name, "leaf_counts", forest=forest, cells=forest.leaves * len(self.schema.classes))
        counts = self._rows.leaf_counts(forest, _part(step), shared=step.shared)
        return _noisy(counts, step, self.plan)

    def linear(self, name: str, cells: Forest, strategy: Strategy) -> NoisyCounts:
        """Return noisy answers to a strategy's questions about the cells of a tree, by class (questions × classes).

        The cells are leaves: of one tree, or of several that see disjoint rows.

        Proof: each row is in one cell, so it adds one column of the strategy to the answers for its class: whole
        numbers that come to at most Δ together, the strategy's sensitivity, which is worked out here from the numbers
        that are asked, never taken from a plan or a cache. So all answers change by at most c·Δ in L1 (L2 too), and
        discrete Laplace noise of that scale over epsilon on every answer gives epsilon as in `leaf_counts`. That one
        count reaches several answers is in Δ. Least squares, and whatever is read from it, is post-processing.
        """
        if strategy.cells != cells.leaves:
            raise AllowanceExceeded(f'step "{name}" asks about other cells than its rows are in.')
        count = strategy.questions * len(self.schema.classes)
        step = self._take(name, "linear", forest=cells, cells=count, row_weight=strategy.sensitivity)
        counts = self._rows.leaf_counts(cells, _part(step), shared=False)
        return _noisy(np.asarray(strategy.answer(counts), np.int64), step, self.plan)

    def leaf_sums(self, name: str, forest: Forest) -> NoisyCounts:
        """Return two noisy sums for every leaf: the steps of its rows' targets below `upper`, and those above `lower`.

        The mean of a leaf lies at the share of the second in both; both over `steps` is the number of its rows.

        Proof: a target counts as z whole steps above `lower`, clamped to 0 ≤ z ≤ S, S the declared steps. A row adds
        S − z ≥ 0 to one sum and z ≥ 0 to the other of one leaf per tree: S together, whatever z is. So all sums change
        by at most c·S (disjoint) or c·T·S (shared) in L1; discrete Laplace noise of that scale over epsilon on both
        sums of every leaf, empty ones included, gives epsilon as in `leaf_counts`. A row whose target is NULL or NaN
        adds nothing. Where labels alone are private, another target moves both sums by at most S each, which is the
        factor 2 of `Unit.change`. (A sum and a count with noise of their own would have to share epsilon. This is the
        K-norm mechanism of Hardt & Talwar 2010 for the body that the sum and count of one row span: no epsilon is
        split, and the error of a mean is smaller.)
        """
        step = self._take(name, "leaf_sums", forest=forest, cells=forest.leaves * 2)
        sums = self._rows.leaf_sums(forest, _part(step), shared=step.shared)
        return _noisy(sums, step, self.plan)

    def leaf_labels(self, name: str, forest: Forest) -> Labels:
        """Return one class number per leaf by one-sided noisy arg-max, which is permute-and-flip on the counts.

        Proof: adding a row raises one class count of one leaf by 1 and lowers none, so the utility is monotone
        with sensitivity 1; permute-and-flip at row epsilon e then costs e per row (McKenna & Sheldon 2020, Theorem 1
        with the monotone factor 1 for 2; its identity with noisy arg-max is Ding et al. 2021). Other leaves do not
        change.
        """
        step = self._take(name, "leaf_labels", forest=forest, cells=forest.leaves)
        counts = self._rows.leaf_counts(forest, _part(step), shared=step.shared)
        if step.published:
            return published.smooth_labels(counts, float(step.row_epsilon(self.plan.unit)))
        return noise.largest(counts, step, self.plan.unit)

    def histograms(self, name: str, forest: Forest, axes: Sequence[int], *, by_class: bool = True) -> NoisyCounts:
        """Return noisy counts on the full grid of (leaf, axis, cell, class) at the leaves of a growing forest.

        Proof: a row adds 1 to one cell of each axis in each tree it walks, so the L1 sensitivity is c·axes
        (disjoint) or c·T·axes (shared); discrete Laplace noise on every cell as in `leaf_counts`.
        """
        if len(axes) == 0 or not all(0 <= axis < len(forest.axes) for axis in axes):
            raise AllowanceExceeded(f'step "{name}" asks for axes that the schema does not have.')
        classes = len(self.schema.classes) if by_class else 1
        cells = sum(forest.axes[axis].cells for axis in axes) * forest.leaves * classes
        step = self._take(name, "histograms", forest=forest, axes=len(axes), cells=cells)
        asks = Asks.of(np.tile(np.array(axes), (forest.leaves, 1)))
        counts = self._rows.histograms(forest, asks, _part(step), shared=step.shared, by_class=by_class)
        noisy = _noisy(counts.reshape(forest.leaves, len(axes), CELLS, classes), step, self.plan)
        for place, axis in enumerate(axes):
            noisy[:, place, forest.axes[axis].cells :] = 0
        return noisy

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

        Proof: adding a row moves the utilities of its leaf's candidates within an interval whose width is proved in
        `kernel/utility.py`; with rate e/width the exponential mechanism costs e per row (McSherry & Talwar 2007; Dwork
        & Roth 2014, Theorem 3.10). A row is in one leaf per tree, so the other leaves' choices do not change; and a sum
        over the leaves of a tree moves as the term of the row's own leaf does, within the same interval.
        """
        candidates.check_fit(forest)
        if together:
            candidates.check_alike(forest)
        step = self._take(name, "choose", forest=forest, cells=forest.leaves, nano_epsilon=nano_epsilon)
        if step.published:
            return self._rows.published_medians(forest, candidates, _part(step), step)
        scores = self._rows.scores(forest, candidates, [_part(step)], step, by_class=step.utility not in CLASSLESS)
        chosen = np.full(forest.leaves, -1, np.int64)
        asking = candidates.asking
        weights = candidates.weights[asking].reshape(scores.shape)
        if together:
            scores, weights = scores.sum(axis=0, keepdims=True), weights[:1]
        chosen[asking] = exponential(
            scores,
            step.row_epsilon(self.plan.unit),
            sensitivity=step.width,
            monotone=True,
            weights=weights,
        )
        return chosen

    def score_counts(
        self, name: str, released: VotingForest, features: tuple[Feature, ...], *, confidence_alone: bool = False
    ) -> NoisyCounts:
        """Return noisy counts of rows by true class, named class and probability, as a released forest scores them.

        The cells are those of `trees/scoregrid.py`, H histograms (1 for two classes or confidence alone, 4 for more).
        `features` are what the forest reads, each a registered feature, with the domains that it was trained for.

        Proof: which cells a row falls into follows from that row, its unit's ticket and the released forest: scores are
        sums of whole numbers, and probabilities are computed from them in a fixed order. So a row adds 1 to one cell of
        each histogram, and all cells together change by at most c·H in L1; discrete Laplace noise of scale c·H/epsilon
        on every cell, empty ones included, gives epsilon as in `leaf_counts`. Where labels alone are private another
        label moves a count from one cell to another in each histogram, which is the factor 2 of `Unit.change`.
        """
        grid = ScoreGrid(len(self.schema.classes), confidence_alone)
        known = {feature.name: type(feature) for feature in self.schema.features}
        if any(known.get(feature.name) is not type(feature) for feature in features):
            raise AllowanceExceeded(f'step "{name}" reads features that are not registered.')
        fits = released.forest.axes == axes_of(replace(self.schema, features=features))
        if not fits or released.weights.shape[1] != grid.classes:
            raise AllowanceExceeded(f'step "{name}" scores with a forest of another schema.')
        step = self._take(name, "score_counts", axes=len(grid.histograms), cells=grid.cells)
        return _noisy(self._rows.score_counts(released, features, grid, _part(step)), step, self.plan)

    def pick(self, name: str, mixtures: Mixtures) -> int:
        """Return the number of one of several mixtures of a released forest's trees, by how many rows each gets right.

        Proof: adding a row raises the number of right rows of each mixture by 0 or 1, so the exponential mechanism
        at row epsilon e over monotone utilities of sensitivity 1 costs e per row (McSherry & Talwar 2007; Dwork &
        Roth 2014, Theorem 3.10). The mixtures and their weights are public.
        """
        if mixtures.released.weights.shape[1] != len(self.schema.classes):
            raise AllowanceExceeded(f'step "{name}" picks among forests of other classes.')
        step = self._take(name, "pick", cells=len(mixtures.factors))
        right = self._rows.right(mixtures, _part(step))
        weights = mixtures.weights[None, :]
        return int(exponential(right[None, :], step.row_epsilon(self.plan.unit), monotone=True, weights=weights)[0])

    def public_size(self, name: str) -> int:
        """Return the number of labelled rows. Neighbours differ in labels alone, so it is the same for both."""
        step = self._take(name, "public_size")
        return self._rows.size(_part(step))

    def public_splits(self, name: str, forest: Forest, candidates: Candidates) -> Labels:
        """Return the best candidate split of each leaf for the utility "median", over all rows, labelled or not.

        Proof: it reads features alone, and neighbours have the same. `kernel/run.py` has checked that the owner
        declared them public.
        """
        candidates.check_fit(forest)
        step = self._take(name, "public_splits", forest=forest, cells=forest.leaves)
        part = _part(step)
        both = [replace(part, side=side) for side in (UNLABELLED, FEATURES)]
        scores = self._rows.scores(forest, candidates, both, step, by_class=step.utility not in CLASSLESS)
        asking = candidates.asking
        allowed = candidates.weights[asking].reshape(scores.shape) > 0
        chosen = np.full(forest.leaves, -1, np.int64)
        chosen[asking] = np.where(allowed, scores, np.iinfo(np.int64).min).argmax(axis=1)
        return chosen

    def pseudo_counts(self, name: str, teacher: VotingForest, forest: Forest) -> NoisyCounts:
        """Return how many unlabelled rows of each predicted class reach each leaf; a released forest predicts.

        Proof: the teacher is released, and the rows' features are public (as for `public_splits`): post-processing.
        """
        cells = forest.leaves * len(self.schema.classes)
        step = self._take(name, "pseudo_counts", forest=forest, cells=cells)
        return self._rows.pseudo_counts(teacher, forest, replace(_part(step), side=UNLABELLED))

    def _take(
        self,
        name: str,
        operation: str,
        *,
        forest: Forest | None = None,
        axes: int = 1,
        cells: int = 1,
        nano_epsilon: int | None = None,
        row_weight: int | None = None,
    ) -> Step:
        """Use up a step, or a part of one of several uses, after checking that it is asked for as it was declared.

        Parts may be as large as earlier answers make them, as long as they add up to no more than was declared
        (Rogers, Roth, Ullman & Vadhan 2016: for pure epsilon, sums of adaptively chosen parts compose).
        """
        step = self._open.get(name)
        if step is None:
            raise AllowanceExceeded(f'step "{name}" is not in the plan or was already used.')
        trees = 1 if forest is None else forest.trees
        asked = (operation, trees, axes, step.row_weight if row_weight is None else row_weight)
        declared = (step.operation, step.trees, step.axes, step.row_weight)
        if asked != declared or cells > step.cells:
            raise AllowanceExceeded(
                f'step "{name}" was declared as {declared} with {step.cells} values, not {asked} with {cells}.'
            )
        self._check_label(step, cells)
        del self._open[name]
        if step.free:
            if step.uses > 1:
                self._open[name] = replace(step, uses=step.uses - 1)
            return replace(step, uses=1)
        part = step.nano_epsilon if nano_epsilon is None else nano_epsilon
        if part != step.nano_epsilon or step.uses > 1:
            if not 0 < part <= step.nano_epsilon or isinstance(part, bool) or not isinstance(part, int):
                self._open[name] = step
                raise AllowanceExceeded(f'step "{name}" has epsilon {float(step.epsilon)} left, and more was asked.')
            if step.uses > 1 and step.nano_epsilon - part >= step.uses - 1:
                self._open[name] = replace(step, nano_epsilon=step.nano_epsilon - part, uses=step.uses - 1)
        return replace(step, nano_epsilon=part, uses=1)

    def _check_label(self, step: Step, cells: int) -> None:
        """Refuse classes where the schema has a numeric target, and sums where it has none or other steps."""
        if step.operation == "leaf_sums":
            if step.row_weight != self.schema.steps:
                raise AllowanceExceeded(
                    f'step "{step.name}" was declared for targets of {step.row_weight} steps, not {self.schema.steps}.'
                )
            return
        by_class = step.operation in ("leaf_counts", "leaf_labels", "score_counts", "pick", "linear") or cells == 0
        by_class |= step.operation == "choose" and step.utility not in CLASSLESS
        if by_class and self.schema.target is not None:
            raise AllowanceExceeded(f'step "{step.name}" asks for classes, but the label is a number.')


def _noisy(counts: Counts, step: Step, plan: Plan) -> NoisyCounts:
    return noise.noisy(counts, step, plan.unit)


def _part(step: Step) -> Part:
    return Part(step.part, step.parts, step.side)
