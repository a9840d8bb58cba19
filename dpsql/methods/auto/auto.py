"""The default: marginals, then trees that they guide, then the mixture of both that labels most rows right.

This method is ours. Its steps, all through the kernel (`methods/auto/epsilon_shares.py` says how much epsilon each
gets, from public facts alone):

1. `size`: the number of rows, where the owner did not declare it. 3 % of epsilon; the rest is planned from the answer.
   It is usually a run and a charge of its own (`runs/size_first.py`), and this method then sees a size as if declared.
2. `zoom`: a histogram of each number without classes. Where nearly all rows lie in a part of the declared range,
   numbers are clamped to that part from then on, so that the 64 cells of their grid lie where the rows are. Where two
   neighbouring cells hold nearly all rows, `zoom_2` to `zoom_4` look closer.
3. `marginals`: noisy counts of every feature's bins by class, as the leaves of one-feature trees. From them follow, for
   free, groups of bins, how much likelier each group makes each class (naive Bayes), and how much each feature tells
   (`trees/estimate/marginal_profile.py`).
4. `splits`: one oblivious tree, each level of which makes the same split in all nodes: the split with which a
   majority vote in the nodes gets most rows right, by the exponential mechanism. A sample of the rows is enough.
5. `counts`: noisy counts of the leaves of that tree and of up to four more, grown from the profiles without looking at
   rows (`trees/grow/guided_trees.py`). Every row is in every tree. Leaves are shrunk to the nodes above them
   (`trees/estimate/shrink.py`).
6. `pick`: the log shares of naive Bayes and of the trees are added up, each with a factor. From a short public list of
   such mixtures the exponential mechanism picks the one that labels most rows right; another objective weighs classes
   (`methods/auto/objectives.py`).
7. `calibration`: how sure the model is and how often it is right, as noisy counts. They set one number, by which all
   log shares are divided, so that probabilities mean what they say (`methods/auto/calibrate.py`). Labels do not change.

Where epsilon is small, marginals get all of it and the model is naive Bayes alone. Where it is too small for marginals,
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
from dpsql.kernel.plan import NANO, Plan, Sequential, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import Session
from dpsql.methods.auto.auto_steps import DATA_DEPTH, ZOOMS, auto_steps
from dpsql.methods.auto.calibrate import calibrate
from dpsql.methods.auto.epsilon_shares import (
    ALONE,
    DATA,
    DEEPEST,
    PUBLIC,
    Advice,
    affordable_depth,
    split_epsilon,
    zoom_shares,
)
from dpsql.methods.auto.mixture_list import MixtureParts, mixture_forest, naive_bayes_forest
from dpsql.methods.auto.objectives import BALANCED, OBJECTIVES, balance_scores, choose_objective
from dpsql.methods.auto.public_trees import public_trees, shared_votes
from dpsql.methods.auto.zoom import zoom_in
from dpsql.methods.base import Choice, Integer, Method, Parameter, Trained, resolve_parameters
from dpsql.methods.shared.greedy import even_weights
from dpsql.methods.shared.noisy_leaves import SIZE_SHARE
from dpsql.methods.shared.row_evidence import bought_rows
from dpsql.schema import CELLS, Schema
from dpsql.trees.estimate.marginal_profile import (
    Marginal,
    MarginalProfile,
    class_shares,
    class_totals,
    marginal_profile,
    totals_deviation,
)
from dpsql.trees.estimate.shrink import path_lifts
from dpsql.trees.forest import PASS, Forest, Level
from dpsql.trees.grid import axes
from dpsql.trees.grow.guided_trees import Ladders, guided_forest
from dpsql.trees.grow.one_feature import axes_by_feature, axis_digit, cell_bins, one_feature_trees
from dpsql.trees.grow.splits import ReachableCells, between_groups
from dpsql.trees.join import join_trees
from dpsql.trees.voting import VotingForest

#: Up to this many rows, their cells are cached for all steps (`Session.hold`); above, each step reads the table anew.
CACHED_ROWS = 2**24
#: The smallest epsilon that is planned for, in nano-epsilon (1e-6).
_SMALLEST = 1000


class Auto(Method):
    """Marginals, trees guided by them, and a private choice of how to mix both."""

    name = "auto"
    summary = "one-feature counts and guided trees, mixed as they do best: the default"
    when = "take this: most accurate on most tables; for numbers it is rdt"
    trees_are_public = False
    parameters: Mapping[str, Parameter] = {
        "trees": Integer(None, 1, 20, "number of trees; beside the marginals, by default from rows and epsilon"),
        "depth": Integer(None, 1, DEEPEST, "depth of the trees; by default from rows and epsilon"),
        "seed": Integer(0, 0, 2**63 - 1, "shapes the trees, never touches noise"),
        "objective": Choice(OBJECTIVES, "what to be good at; usual is accuracy, or auc where a class has 80 % of rows"),
    }

    def plan(
        self, schema: Schema, nano_epsilon: int, parameters: Mapping[str, Any], promise: Promise | None = None
    ) -> Plan:
        """Return the plan: every step where the size is declared, else the size and an allowance for the rest."""
        settings = resolve_parameters(self, parameters)
        promise = promise or Promise(schema.unit)
        if nano_epsilon < _SMALLEST:
            raise ParameterError("epsilon", allowed="at least 0.000001", given=nano_epsilon / NANO)
        if schema.rows is not None:
            advice = _advice(schema, schema.rows, nano_epsilon, settings)
            facts = {"regime": advice.regime, "planned_depth": settings["depth"] or advice.depth}
            facts |= {"trees": advice.trees} if advice.trees else {}
            composition = auto_steps(schema, promise, advice, nano_epsilon, schema.rows)
            return Plan(self.name, composition, promise, settings | facts)
        share = nano_epsilon * SIZE_SHARE // 100
        size = Step("size", Size(), share, note="the size is not declared; it decides how the rest is spent")
        note = (
            "planned from the bought size: zoom 6 to 8 %, pick 8 %, calibration 3 %; of the others marginals 36 to 90 %"
        )
        rest = Step("rest", Later(), nano_epsilon - share, note=note)
        return Plan(self.name, Sequential((size, rest)), promise, settings)

    def public_trees(self, schema: Schema, plan: Plan) -> Forest:
        """Return the trees that need no row: one for each feature, or those of the regime "public"."""
        if plan.parameters.get("regime") == PUBLIC:
            advice = _advice(schema, schema.rows or 0, plan.nano_epsilon, plan.parameters)
            return public_trees(axes(schema), advice, plan.parameters["seed"])
        return one_feature_trees(axes(schema), CELLS)

    def train(self, session: Session) -> Trained:
        """Return the forest that mixes marginals and trees as the private choice says."""
        plan, schema = session.plan, session.schema
        rows: float = schema.rows or 0
        nano_epsilon = plan.nano_epsilon
        if schema.rows is None:
            rows, nano_epsilon = max(1, bought_rows(session)), plan.step("rest").nano_epsilon
        advice = _advice(schema, rows, nano_epsilon, plan.parameters)
        if schema.rows is None:
            session.later("rest", auto_steps(schema, plan.promise, advice, nano_epsilon, rows))
        if advice.regime == PUBLIC:
            trees = public_trees(axes(schema), advice, plan.parameters["seed"])
            return shared_votes(session, trees, plan.parameters["objective"])
        return _Run(session, advice, float(rows)).train()


def _advice(schema: Schema, rows: float, nano_epsilon: int, parameters: Mapping[str, Any]) -> Advice:
    trees, depth_given = parameters["trees"], parameters["depth"] is not None
    return split_epsilon(schema, rows, nano_epsilon / NANO, given_trees=trees, depth_given=depth_given)


class _Run:
    """One run that asks for marginals: the session, the advice, and what follows from the noisy answers so far."""

    def __init__(self, session: Session, advice: Advice, rows: float) -> None:
        self.session, self.advice = session, advice
        cached, declared = rows <= CACHED_ROWS, session.schema
        if cached:
            session.hold()
        self.zoomed = self._zoom(rows)
        if cached and session.schema != declared:
            session.hold()
        self.axes = axes(session.schema)
        self.classes = len(session.schema.classes)
        noise = session.deviation("marginals") * np.sqrt(self.classes)
        clear = np.clip(rows / session.step("marginals").parts / (2 * noise), 4, CELLS)
        self.bins = 2 ** round(np.log2(clear))  # so that each bin has as many cells as any other
        self.rows = rows
        self.seed = int(session.plan.parameters["seed"])

    def _zoom(self, rows: float) -> dict[str, Any]:
        """Narrow ranges; return the declared range of each number and in how many of its cells nearly all rows lie."""
        schema = self.session.schema
        looks = len(zoom_shares(schema, self.advice.strength)) if self.advice.zoom else 0
        narrowed = zoom_in(self.session, rows, ZOOMS[:looks])
        return {
            feature.name: {
                "declared": [feature.lower, feature.upper],
                "cells": narrowed[feature.name].cells if feature.name in narrowed else feature.cells,
            }
            for feature in schema.numeric
            if looks
        }

    def train(self) -> Trained:
        """Ask for marginals, splits, counts and the mixture, in this order, and return the forest and its facts."""
        stumps = one_feature_trees(self.axes, self.bins)
        marginals = self._marginals(stumps)
        totals = class_totals(marginals)
        prior, profiles = class_shares(totals), [marginal_profile(marginal, totals) for marginal in marginals]
        bin_lifts = np.concatenate([profile.lifts[profile.group] for profile in profiles])
        objective = choose_objective(self.session.plan.parameters["objective"], np.log(prior))
        facts = {**self._facts(profiles, totals, totals_deviation(marginals)), "objective": objective}
        if self.advice.regime == ALONE:
            return _finish(naive_bayes_forest(np.log(prior), stumps, bin_lifts), facts, np.log(prior))
        rungs = [self._axis_profile(place, marginals, profiles, totals) for place in range(len(self.axes))]
        trees = self._trees(Ladders.of(self.axes, rungs, prior), rungs)
        noisy_counts = self.session.leaf_counts("counts", trees)
        lifts = path_lifts(trees, noisy_counts, prior, self.session.deviation("counts"))
        parts = MixtureParts(np.log(prior), stumps, bin_lifts, trees, lifts, self.advice.kinds)
        strength = self.advice.strength
        mixed = mixture_forest(self.session, parts, ask=self.advice.pick, strength=strength, objective=objective)
        facts |= mixed.facts
        if not self.advice.calibration:
            return _finish(mixed.forest, facts, np.log(prior))
        calibrated = calibrate(self.session, mixed.forest)
        return _finish(calibrated.forest, {**facts, **calibrated.facts}, np.log(prior))

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
        marginal, profile = marginals[axis.feature], profiles[axis.feature]
        if len(axes_by_feature(self.axes)[axis.feature]) > 1:
            values = np.arange(len(marginal.counts))
            counts = np.zeros((axis.cells, self.classes))
            np.add.at(counts, axis_digit(values, axis), marginal.counts)
            wider = marginal.deviation * np.sqrt(len(values) / axis.cells)
            return marginal_profile(Marginal(counts, float(wider), ordered=False), totals)
        return replace(profile, group=profile.group[cell_bins(axis, self.bins)])

    def _trees(self, ladders: Ladders, rungs: Sequence[MarginalProfile]) -> Forest:
        noise = self.session.deviation("counts") * np.sqrt(self.classes)
        rows = self.rows if self.session.step("counts").shared else self.rows / self.advice.trees
        depth = self.session.plan.parameters["depth"] or affordable_depth(rows / noise)
        guided = [kind for kind in self.advice.kinds if kind != DATA]
        data_tree = self._data_tree(rungs, min(depth, DATA_DEPTH))
        if not guided:
            return data_tree
        return join_trees(guided_forest(self.axes, ladders, guided, depth=depth, seed=self.seed), data_tree)

    def _data_tree(self, rungs: Sequence[MarginalProfile], depth: int) -> Forest:
        """Grow the oblivious tree: one private choice of a split for each level."""
        step = self.session.step("splits")
        splits = between_groups([profile.group for profile in rungs])
        tree, reachable = Forest(self.axes, 1, ()), ReachableCells.roots(self.axes, 1)
        allowed = splits.arity > 0
        for _ in range(depth):
            if not allowed.any():
                break
            weights = even_weights(self.axes, allowed[None])
            axis = np.where(weights.any(axis=2), np.arange(len(self.axes)), PASS).astype(np.int16)
            alike = Candidates(splits, np.repeat(axis, tree.leaves, axis=0), np.repeat(weights, tree.leaves, axis=0))
            share = step.nano_epsilon // depth
            split = self.session.choose("splits", tree, alike, nano_epsilon=share, together=True)
            place, number = np.divmod(int(split[0]), splits.most)
            allowed[place, number] = False
            is_open = reachable.open_splits_on(splits, np.full(tree.leaves, place))[:, number]
            level = _pass_where_closed(alike.level(split), is_open)
            tree, reachable = Forest(self.axes, 1, (*tree.levels, level)), reachable.at_next_level(level)
        return tree

    def _facts(
        self, profiles: Sequence[MarginalProfile], totals: NDArray[np.float64], deviation: float
    ) -> dict[str, Any]:
        """Return what was released along the way, for `explain`; `deviation` is that of the sum of all classes."""
        schema, places = self.session.schema, axes_by_feature(self.axes)
        features = {}
        for feature, profile, own in zip(schema.features, profiles, places, strict=True):
            bins = cell_bins(self.axes[own[0]], self.bins) if len(own) == 1 else np.arange(len(profile.group))
            group = profile.group[bins[: feature.cells]]
            features[feature.name] = {
                "groups": [np.flatnonzero(group == number).tolist() for number in range(profile.groups)],
                "counts": np.rint(profile.counts).astype(int).tolist(),
                "errors": [round(float(value), 3) for value in profile.spread],
            }
        parts = self.session.step("marginals").parts
        classes = dict(zip(schema.classes, np.rint(totals * parts).astype(int).tolist(), strict=True))
        noise = round(deviation * parts, 3)
        return {"classes": classes, "classes_deviation": noise, "features": features, "zoom": self.zoomed}


def _finish(forest: VotingForest, facts: Mapping[str, Any], log_shares: NDArray[np.float64]) -> Trained:
    """Return what was learned; where classes are to have the same say, their shares are taken off the scores."""
    return Trained(balance_scores(forest, log_shares) if facts["objective"] == BALANCED else forest, facts)


def _pass_where_closed(level: Level, is_open: NDArray[np.bool_]) -> Level:
    """Return the level with its split at the nodes that it is open to; the other nodes pass their rows on."""
    axis = np.where(is_open, level.axis, PASS).astype(np.int16)
    arity = np.where(is_open, level.arity, 1).astype(np.uint8)
    return Level(axis, arity, np.where(is_open, level.planes, np.uint64(0)))
