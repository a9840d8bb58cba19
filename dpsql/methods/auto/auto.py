"""The default: marginals, then trees that they guide, then the reading of both that labels most rows right.

Ours. Steps, all through the kernel (`methods/auto/epsilon_shares.py` says how much each gets, from public facts alone):

1. `size`: the number of rows, where the owner did not declare it. 3 % of epsilon; the rest is planned from the answer.
2. `zoom`: a histogram of each number without classes. Where nearly all rows lie in a part of the declared range,
   numbers are clamped to that part from then on, so that the 64 cells of their grid lie where the rows are.
3. `marginals`: noisy counts of every feature's bins by class, as the leaves of one-feature trees. From them follow, for
   free, groups of bins, how each group lifts each class (a naive-Bayes reader), and how much each feature tells
   (`trees/estimate/marginal_profile.py`).
4. `splits`: one oblivious tree, each level of which makes the same split in all nodes: the split with which a
   majority vote in the nodes gets most rows right, by the exponential mechanism. A sample of the rows is enough.
5. `counts`: noisy counts of the leaves of that tree and of up to four more, grown from the profiles without looking at
   rows (`trees/grow/guided_trees.py`). Every row is in every tree. Leaves are shrunk to the nodes above them
   (`trees/estimate/shrink.py`).
6. `pick`: naive Bayes and trees add up in log shares, each with a factor. Of a short public list of factors the
   exponential mechanism picks the one that labels most rows right.
7. `calibration`: how sure the model is and how often it is right, as noisy counts. They set one number, by which all
   log shares are divided, so that probabilities mean what they say (`methods/auto/calibrate.py`). Labels do not change.

Where epsilon is small, marginals get all of it and naive Bayes is read alone. Where it is too small for marginals,
trees grown without data are counted instead, and their leaves' shares are averaged.

Proof: each step is an operation of the kernel (`kernel/operations.py`); what happens between them looks at released
values alone. The steps are sequential, so their epsilons add up to the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.kernel.candidates import Candidates
from dpsql.kernel.operations import Later, Size
from dpsql.kernel.plan import Plan, Sequential, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import Session
from dpsql.methods.auto import epsilon_shares as advising
from dpsql.methods.auto.auto_steps import DATA_DEPTH, auto_steps
from dpsql.methods.auto.calibrate import calibrate
from dpsql.methods.auto.epsilon_shares import ALONE, DATA, DEEPEST, PUBLIC, Advice
from dpsql.methods.auto.mixture_list import Reading, alone, mixture_forest
from dpsql.methods.auto.public_trees import public_trees, shared_votes
from dpsql.methods.auto.zoom import zoom_in
from dpsql.methods.base import Method, Parameter, Trained, Whole, resolve_parameters
from dpsql.methods.shared.greedy import even_weights
from dpsql.methods.shared.noisy_leaves import SIZE_SHARE
from dpsql.schema import CELLS, Schema
from dpsql.trees.estimate.marginal_profile import (
    Marginal,
    MarginalProfile,
    class_shares,
    class_totals,
    marginal_profile,
)
from dpsql.trees.estimate.shrink import path_lifts
from dpsql.trees.forest import PASS, Forest, Level
from dpsql.trees.grid import axes
from dpsql.trees.grow.guided_trees import Ladders, guided_forest
from dpsql.trees.grow.one_feature import axes_by_feature, axis_digit, cell_bins, one_feature_trees
from dpsql.trees.grow.splits import ReachableCells, between_groups
from dpsql.trees.join import join_trees

NANO = 10**9
#: Above so many rows the table is read anew for each step, rather than its cells be kept.
HELD_ROWS = 2**24
_SMALLEST = 1000


class Auto(Method):
    """Marginals, trees guided by them, and a private choice of how to read both."""

    name = "auto"
    summary = "marginals, guided trees and a private choice of reader: the default"
    trees_are_public = False
    parameters: Mapping[str, Parameter] = {
        "trees": Whole(None, 1, 20, "number of trees; beside the marginals, by default from rows and epsilon"),
        "depth": Whole(None, 1, DEEPEST, "depth of the trees; by default from rows and epsilon"),
        "seed": Whole(0, 0, 2**63 - 1, "shapes the trees, never touches noise"),
    }

    def plan(
        self, schema: Schema, nano_epsilon: int, parameters: Mapping[str, Any], promise: Promise | None = None
    ) -> Plan:
        """Return the plan: every step where the size is declared, else the size and an allowance for the rest."""
        chosen = resolve_parameters(self, parameters)
        promise = promise or Promise(schema.unit)
        if nano_epsilon < _SMALLEST:
            raise ParameterError("epsilon", allowed="at least 0.000001", given=nano_epsilon / NANO)
        if schema.rows is not None:
            advice = _advice(schema, schema.rows, nano_epsilon, chosen)
            facts = {"regime": advice.regime, "planned_depth": chosen["depth"] or advice.depth}
            facts |= {"trees": advice.trees} if advice.trees else {}
            composition = auto_steps(schema, promise, advice, nano_epsilon, schema.rows)
            return Plan(self.name, composition, promise, chosen | facts)
        share = nano_epsilon * SIZE_SHARE // 100
        size = Step("size", Size(), share, note="the size is not declared; it decides how the rest is spent")
        note = "planned from the bought size: zoom 5 %, pick 8 %, calibration 3 %; of the others marginals 36 to 90 %"
        rest = Step("rest", Later(), nano_epsilon - share, note=note)
        return Plan(self.name, Sequential((size, rest)), promise, chosen)

    def public_trees(self, schema: Schema, plan: Plan) -> Forest:
        """Return what is known before any row is read: the one-feature trees, or the public ones where they are all."""
        if plan.parameters.get("regime") == PUBLIC:
            advice = _advice(schema, schema.rows or 0, plan.nano_epsilon, plan.parameters)
            return public_trees(axes(schema), advice, plan.parameters["seed"])
        return one_feature_trees(axes(schema), CELLS)

    def train(self, session: Session) -> Trained:
        """Return the forest that reads marginals and trees as the private choice says."""
        plan, schema = session.plan, session.schema
        rows: float = schema.rows or 0
        nano_epsilon = plan.nano_epsilon
        if schema.rows is None:
            rows, nano_epsilon = max(1, session.size("size")), plan.step("rest").nano_epsilon
        advice = _advice(schema, rows, nano_epsilon, plan.parameters)
        if schema.rows is None:
            session.later("rest", auto_steps(schema, plan.promise, advice, nano_epsilon, rows))
        if advice.regime == PUBLIC:
            return shared_votes(session, public_trees(axes(schema), advice, plan.parameters["seed"]))
        return _Run(session, advice, float(rows)).train()


def _advice(schema: Schema, rows: float, nano_epsilon: int, parameters: Mapping[str, Any]) -> Advice:
    wanted, shaped = parameters["trees"], parameters["depth"] is not None
    return advising.split_epsilon(schema, rows, nano_epsilon / NANO, wanted=wanted, shaped=shaped)


class _Run:
    """One run that asks for marginals: the session, what was advised, and what the noisy answers told so far."""

    def __init__(self, session: Session, advice: Advice, rows: float) -> None:
        self.session, self.advice = session, advice
        held = rows <= HELD_ROWS
        if held:
            session.hold()
        if advice.zoom and zoom_in(session, rows / session.step("zoom").parts) and held:
            session.hold()
        self.axes = axes(session.schema)
        self.classes = len(session.schema.classes)
        noise = session.deviation("marginals") * np.sqrt(self.classes)
        clear = np.clip(rows / session.step("marginals").parts / (2 * noise), 4, CELLS)
        self.bins = 2 ** round(np.log2(clear))  # so that each bin has as many cells as any other
        self.rows = rows
        self.seed = int(session.plan.parameters["seed"])

    def train(self) -> Trained:
        """Ask for marginals, splits, counts and the reader, in this order, and return the forest and its facts."""
        stumps = one_feature_trees(self.axes, self.bins)
        marginals = self._marginals(stumps)
        totals = class_totals(marginals)
        prior, profiles = class_shares(totals), [marginal_profile(one, totals) for one in marginals]
        spoken = np.concatenate([one.lifts[one.group] for one in profiles])
        facts = self._facts(profiles, totals)
        if self.advice.regime == ALONE:
            return Trained(alone(np.log(prior), stumps, spoken), facts)
        rungs = [self._axis_profile(place, marginals, profiles, totals) for place in range(len(self.axes))]
        trees = self._trees(Ladders.of(self.axes, rungs, prior), rungs)
        noisy_counts = self.session.leaf_counts("counts", trees)
        lifts = path_lifts(trees, noisy_counts, prior, self.session.deviation("counts"))
        reading = Reading(np.log(prior), stumps, spoken, trees, lifts, self.advice.kinds)
        mixed = mixture_forest(self.session, reading, ask=self.advice.pick, strength=self.advice.rows)
        facts |= mixed.facts
        if not self.advice.calibration:
            return Trained(mixed.forest, facts)
        calibrated = calibrate(self.session, mixed.forest)
        return Trained(calibrated.forest, {**facts, **calibrated.facts})

    def _marginals(self, stumps: Forest) -> list[Marginal]:
        counts = self.session.leaf_counts("marginals", stumps).astype(np.float64)
        deviation = self.session.deviation("marginals")
        parts = np.split(counts, stumps.first_leaf[1:-1])
        for feature, part in zip(self.session.schema.features, parts, strict=True):
            part[feature.cells :] = 0  # bins past a wide category's last cell do not occur: noise alone is in them
        kinds = [self.axes[places[0]].ordered for places in axes_by_feature(self.axes)]
        return [Marginal(part, deviation, ordered) for part, ordered in zip(parts, kinds, strict=True)]

    def _axis_profile(
        self,
        place: int,
        marginals: Sequence[Marginal],
        profiles: Sequence[MarginalProfile],
        totals: NDArray[np.float64],
    ) -> MarginalProfile:
        """Return the profile of one axis, in which every cell is a bin of its own."""
        axis = self.axes[place]
        marginal, found = marginals[axis.feature], profiles[axis.feature]
        if len(axes_by_feature(self.axes)[axis.feature]) > 1:
            values = np.arange(len(marginal.counts))
            counts = np.zeros((axis.cells, self.classes))
            np.add.at(counts, axis_digit(values, axis), marginal.counts)
            wider = marginal.deviation * np.sqrt(len(values) / axis.cells)
            return marginal_profile(Marginal(counts, float(wider), ordered=False), totals)
        return replace(found, group=found.group[cell_bins(axis, self.bins)])

    def _trees(self, ladders: Ladders, rungs: Sequence[MarginalProfile]) -> Forest:
        noise = self.session.deviation("counts") * np.sqrt(self.classes)
        rows = self.rows if self.session.step("counts").shared else self.rows / self.advice.trees
        depth = self.session.plan.parameters["depth"] or advising.affordable_depth(rows / noise)
        blind = [kind for kind in self.advice.kinds if kind != DATA]
        grown = self._data_tree(rungs, min(depth, DATA_DEPTH))
        if not blind:
            return grown
        return join_trees(guided_forest(self.axes, ladders, blind, depth=depth, seed=self.seed), grown)

    def _data_tree(self, rungs: Sequence[MarginalProfile], depth: int) -> Forest:
        """Grow the oblivious tree: one private choice of a split for each level."""
        step = self.session.step("splits")
        splits = between_groups([one.group for one in rungs])
        tree, held = Forest(self.axes, 1, ()), ReachableCells.roots(self.axes, 1)
        allowed = splits.arity > 0
        for _ in range(depth):
            if not allowed.any():
                break
            weights = even_weights(self.axes, allowed[None])
            axis = np.where(weights.any(axis=2), np.arange(len(self.axes)), PASS).astype(np.int16)
            alike = Candidates(splits, np.repeat(axis, tree.leaves, axis=0), np.repeat(weights, tree.leaves, axis=0))
            share = step.nano_epsilon // depth
            chosen = self.session.choose("splits", tree, alike, nano_epsilon=share, together=True)
            place, number = np.divmod(int(chosen[0]), splits.most)
            allowed[place, number] = False
            level = _where_open(
                alike.level(chosen), held.open_splits_on(splits, np.full(tree.leaves, place))[:, number]
            )
            tree, held = Forest(self.axes, 1, (*tree.levels, level)), held.at_next_level(level)
        return tree

    def _facts(self, profiles: Sequence[MarginalProfile], totals: NDArray[np.float64]) -> dict[str, Any]:
        """Return what was released along the way, for `explain`."""
        schema, places = self.session.schema, axes_by_feature(self.axes)
        features = {}
        for feature, one, own in zip(schema.features, profiles, places, strict=True):
            bins = cell_bins(self.axes[own[0]], self.bins) if len(own) == 1 else np.arange(len(one.group))
            group = one.group[bins[: feature.cells]]
            features[feature.name] = {
                "groups": [np.flatnonzero(group == number).tolist() for number in range(one.groups)],
                "counts": np.rint(one.counts).astype(int).tolist(),
                "errors": [round(float(value), 3) for value in one.spread],
            }
        whole = np.rint(totals * self.session.step("marginals").parts).astype(int).tolist()
        counted = dict(zip(schema.classes, whole, strict=True))
        return {"classes": counted, "features": features}


def _where_open(level: Level, parts: NDArray[np.bool_]) -> Level:
    """Return the level in which nodes that a split does not part pass their rows on."""
    axis = np.where(parts, level.axis, PASS).astype(np.int16)
    return Level(axis, np.where(parts, level.arity, 1).astype(np.uint8), np.where(parts, level.planes, np.uint64(0)))
