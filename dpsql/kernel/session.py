"""A session with the kernel: the operations a method may ask for, within the allowance of its plan.

Each operation names a step of the plan. A step can be used once, and only as it was declared: another operation, more
trees, more values, shared instead of disjoint trees are refused. What comes back is noisy; the exact counts
live inside one function, between query and mechanism.

The proofs share one argument. Neighbouring tables differ in one unit, that is in at most c = `max_rows` rows. Adding
the rows one at a time, each adds 1 to one cell per tree it walks and axis it is read on: one tree when trees are
disjoint (the ticket is a function of the unit alone, so no other row moves), all T trees when they are shared. If a
single +1 costs at most e, the unit costs at most c·T·axes·e (group privacy, Dwork & Roth 2014, Theorem 2.2 and 3.16).
Each operation therefore runs at e = epsilon / (c·T·axes), which is `Step.row_epsilon`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.compile.counts import Part
from dpsql.compile.source import Source
from dpsql.engines.base import Engine
from dpsql.errors import BudgetError
from dpsql.kernel import published
from dpsql.kernel.candidates import Candidates
from dpsql.kernel.exact import Counts, Rows
from dpsql.kernel.plan import Plan, Step
from dpsql.kernel.utility import MONOTONE, utilities
from dpsql.mechanisms.choose import exponential, permute_and_flip
from dpsql.mechanisms.noise import discrete_laplace
from dpsql.schema import Schema
from dpsql.trees.forest import Forest

NoisyCounts = NDArray[np.int64]
Labels = NDArray[np.int64]


class AllowanceExceeded(BudgetError):
    """A method asked for more than its plan declared; the kernel refused, and nothing was read."""


class Session:
    """An open allowance on one dataset. `kernel/run.py` opens it after the charge is on disk."""

    def __init__(self, engine: Engine, source: Source, plan: Plan) -> None:
        self.schema: Schema = source.schema
        self.plan = plan
        self._rows = Rows(engine, source)
        self._open = {step.name: step for step in plan.steps}

    def __repr__(self) -> str:
        return f"<Session: {len(self._open)} of {len(self.plan.steps)} steps left>"

    def size(self, name: str) -> int:
        """Return the noisy number of rows that training would use.

        Proof: one row changes the count by 1; discrete Laplace noise of scale c/epsilon gives a unit of c rows epsilon
        (Ghosh, Roughgarden & Sundararajan 2012).
        """
        step = self._take(name, "size")
        return int(self._rows.size(_part(step)) + discrete_laplace(step.scale(self.plan.unit), 1)[0])

    def leaf_counts(self, name: str, forest: Forest) -> NoisyCounts:
        """Return noisy counts on the full grid of leaves × classes.

        Proof: the counts of all cells together change by at most c (disjoint) or c·T (shared) in L1; discrete Laplace
        noise of that scale over epsilon on every cell, empty ones included, gives epsilon (Dwork & Roth 2014, Theorem
        3.6, for integers Ghosh et al. 2012).
        """
        step = self._take(name, "leaf_counts", forest=forest, cells=forest.leaves * len(self.schema.classes))
        counts = self._rows.leaf_counts(forest, _part(step), shared=step.shared)
        return _noisy(counts, step, self.plan)

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
            return published.smooth_labels(counts, float(step.epsilon))
        return permute_and_flip(counts, step.row_epsilon(self.plan.unit), monotone=True)

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
        counts = self._rows.histograms(forest, axes, _part(step), shared=step.shared, by_class=by_class)
        noisy = _noisy(counts, step, self.plan)
        for place, axis in enumerate(axes):
            noisy[:, place, forest.axes[axis].cells :] = 0
        return noisy

    def choose(self, name: str, forest: Forest, candidates: Candidates) -> Labels:
        """Return one candidate split per leaf of a growing forest, by the exponential mechanism.

        Proof: the utilities of `kernel/utility.py` have row sensitivity 1, each with its proof there. A row is in one
        leaf per tree, so the other leaves' choices do not change; the exponential mechanism at row epsilon e with
        factor e/2 (e where the utility is monotone) costs e per row (McSherry & Talwar 2007; Dwork & Roth 2014,
        Theorem 3.10).
        """
        candidates.check_fit(forest)
        step = self._take(name, "choose", forest=forest, cells=forest.leaves)
        counts = self._rows.histograms(
            forest, candidates.used_axes, _part(step), shared=step.shared, by_class=step.utility != "median"
        )
        scores = utilities(step.utility, counts, candidates)
        epsilon = step.row_epsilon(self.plan.unit)
        return exponential(scores, epsilon, monotone=MONOTONE[step.utility], weights=candidates.weights)

    def _take(self, name: str, operation: str, *, forest: Forest | None = None, axes: int = 1, cells: int = 1) -> Step:
        """Use up a step, after checking that it is asked for as it was declared."""
        step = self._open.get(name)
        if step is None:
            raise AllowanceExceeded(f'step "{name}" is not in the plan or was already used.')
        trees = 1 if forest is None else forest.trees
        asked = (operation, trees, axes)
        declared = (step.operation, step.trees, step.axes)
        if asked != declared or cells > step.cells:
            raise AllowanceExceeded(
                f'step "{name}" was declared as {declared} with {step.cells} values, not {asked} with {cells}.'
            )
        del self._open[name]
        return step


def _noisy(counts: Counts, step: Step, plan: Plan) -> NoisyCounts:
    return counts + discrete_laplace(step.scale(plan.unit), counts.size).reshape(counts.shape)


def _part(step: Step) -> Part:
    return Part(step.part, step.parts)
