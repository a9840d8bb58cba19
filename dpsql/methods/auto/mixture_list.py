"""How naive Bayes and trees are read together: a short public list of mixtures, one of which the kernel picks.

A row's score for a class is the log of the class's share, plus a factor times the lifts of its features (naive Bayes),
plus a factor times the mean lift of the leaves it reaches. Naive Bayes counts what two features share twice, so factors
below 1 are on the list; lifts of leaves are shrunk, so factors above 1 are too. Some mixtures listen to the trees of
one kind alone; these are offered where there are rows enough to tell so many apart. Whole numbers throughout: a factor
is in sixtieths, a lift in 1/1024 nat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.session import Session
from dpsql.methods.base import Trained
from dpsql.trees.estimate.mixtures import Mixtures
from dpsql.trees.forest import Forest
from dpsql.trees.join import join_trees
from dpsql.trees.voting import VotingForest

#: One nat is so many points of weight, and a factor of 1 so many sixtieths.
POINTS_PER_NAT, FACTOR_ONE = 1024, 60
#: Factors of naive Bayes and of the trees.
ALL_TREES = ((1, 0), (0.6, 0), (1, 0.5), (0.6, 0.5), (0.6, 1), (0.3, 0.5), (0.3, 1), (0.3, 2), (0, 1), (0.6, 2))
ONE_KIND = ((0.6, 1), (0.3, 0.5), (0.3, 1), (0, 1))
#: What is read without asking: below a strength, and above it. Below it kinds are not heard alone.
WEAK, STRONG = (1, 0.5), (0.6, 1)
STRONG_FROM = 1500.0
#: How much more the mixture read without asking, and those of all trees, are preferred to the others.
PREFERRED, COMMON = 8, 3

Floats = NDArray[np.float64]
Choice = tuple[float, float, str]


@dataclass(frozen=True, eq=False)
class Reading:
    """What was released: the log shares of classes, one-feature trees and trees with their lifts, the trees' kinds."""

    prior: Floats
    stumps: Forest
    stump_lifts: Floats
    trees: Forest
    tree_lifts: Floats
    kinds: tuple[str, ...]


def choices(kinds: Sequence[str], strength: float) -> list[Choice]:
    """Return the mixtures: the factor of naive Bayes, that of the trees, and the kind listened to ("" for all)."""
    alone = dict.fromkeys(kinds) if strength >= STRONG_FROM else ()
    one_kind = [(a, b, kind) for kind in alone for a, b in ONE_KIND]
    return [(a, b, "") for a, b in ALL_TREES] + one_kind


def mixture_forest(session: Session, reading: Reading, *, ask: bool, strength: float) -> Trained:
    """Return the forest of the mixture that the kernel picks, or of the one that needs no asking."""
    usual = (*(STRONG if strength >= STRONG_FROM else WEAK), "")
    known = choices(reading.kinds, strength)
    number = session.pick("pick", mixtures(reading, known, usual)) if ask else known.index(usual)
    naive_bayes, trees, kind = known[number]
    return Trained(
        _forest(reading, known[number]), {"reader": {"naive_bayes": naive_bayes, "trees": trees, "kind": kind}}
    )


def alone(prior: Floats, stumps: Forest, lifts: Floats) -> VotingForest:
    """Return naive Bayes without any tree, as a forest of one-feature trees."""
    return _forest(Reading(prior, stumps, lifts, stumps, lifts, ()), (1, 0, ""))


def mixtures(reading: Reading, known: Sequence[Choice], usual: Choice) -> Mixtures:
    """Return these mixtures of the prior (part 0), the one-feature trees (1) and the trees of each kind (2, 3, …)."""
    kinds = list(dict.fromkeys(reading.kinds))
    prior = Forest(reading.stumps.axes, 1, ())
    forest = join_trees(join_trees(prior, reading.stumps), reading.trees)
    lifts = np.concatenate([reading.prior[None, :], reading.stump_lifts, reading.tree_lifts])
    part = np.array([0] + [1] * reading.stumps.trees + [2 + kinds.index(kind) for kind in reading.kinds])
    factors = np.array(
        [[FACTOR_ONE, round(a * FACTOR_ONE), *_tree_factors(reading.kinds, b, kind)] for a, b, kind in known]
    )
    weights = [PREFERRED if one == usual else COMMON if not one[2] else 1 for one in known]
    return Mixtures(VotingForest(forest, _points(lifts)), part, factors, np.array(weights, np.int64))


def _tree_factors(kinds: Sequence[str], factor: float, kind: str) -> list[int]:
    """Return the factor of each kind: what the trees that are listened to share evenly."""
    heard = [one for one in kinds if not kind or one == kind]
    each = round(factor * FACTOR_ONE / max(1, len(heard)))
    return [each if not kind or one == kind else 0 for one in dict.fromkeys(kinds)]


def _forest(reading: Reading, choice: Choice) -> VotingForest:
    """Return one mixture as a forest of its own, without trees that it does not listen to."""
    a, b, kind = choice
    pieces = [(reading.stumps, reading.stump_lifts, round(a * FACTOR_ONE))]
    factors = dict(zip(dict.fromkeys(reading.kinds), _tree_factors(reading.kinds, b, kind), strict=True))
    for number, one in enumerate(reading.kinds):
        own = slice(*reading.trees.first_leaf[number : number + 2])
        pieces.append((reading.trees.tree(number), reading.tree_lifts[own], factors[one]))
    heard = [(forest, _points(lifts) * factor) for forest, lifts, factor in pieces if factor]
    forest, weights = heard[0][0], [heard[0][1]]
    for other, spoken in heard[1:]:
        forest = join_trees(forest, other)
        weights.append(spoken)
    votes = np.concatenate(weights)
    votes[: forest.first_leaf[1]] += _points(reading.prior) * FACTOR_ONE
    return VotingForest(forest, votes, nat=POINTS_PER_NAT * FACTOR_ONE)


def _points(lifts: Floats) -> NDArray[np.int64]:
    return np.rint(lifts * POINTS_PER_NAT).astype(np.int64)
