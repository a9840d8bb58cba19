"""How naive Bayes and trees are mixed: a short public list of mixtures, one of which the kernel picks.

A row's score for a class is the log of the class's share, plus a factor times the lifts of its features (naive Bayes),
plus a factor times the mean lift of the leaves it reaches. Naive Bayes counts twice what two features have in common,
so factors below 1 are on the list; lifts of leaves are shrunk, so factors above 1 are too. Some mixtures use the trees
of one kind alone; these are offered where there are rows enough to tell that many mixtures apart. All numbers are
whole: a factor is in sixtieths, a lift in 1/1024 nat.

Where the objective is AUC, the rarer class has few rows, and the noise of the pick is worth many of them. A pick that
listens to noise chooses a worse mixture than the usual one, so that one is preferred by far more there. Measured with
`python -m examples.benchmarks readers` on skewed tables, the mean AUC is below that of the best mixture of each run by
0.004 at epsilon 1 (0.024 with the weights of accuracy) and by 0.008 at 0.2 (0.006): `docs/methods/auto.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.session import Session
from dpsql.methods.auto.objectives import ACCURACY, AUC, class_gains, exponents
from dpsql.methods.base import Trained
from dpsql.trees.estimate.mixtures import Mixtures
from dpsql.trees.forest import Forest
from dpsql.trees.join import join_trees
from dpsql.trees.voting import VotingForest

#: The points of weight that one nat of a lift gives.
POINTS_PER_NAT = 1024
#: A factor of 1, in sixtieths.
FACTOR_ONE = 60
#: The factors of naive Bayes and of the trees, in the mixtures of all trees and in those of one kind of trees.
ALL_TREES = ((1, 0), (0.6, 0), (1, 0.5), (0.6, 0.5), (0.6, 1), (0.3, 0.5), (0.3, 1), (0.3, 2), (0, 1), (0.6, 2))
ONE_KIND = ((0.6, 1), (0.3, 0.5), (0.3, 1), (0, 1))
#: The usual mixture, which is taken where none is picked, at a strength below `STRONG_FROM`.
WEAK = (1, 0.5)
#: The same from `STRONG_FROM` on.
STRONG = (0.6, 1)
#: The strength (`methods/auto/epsilon_shares.py`) from which mixtures of one kind of trees are offered too.
STRONG_FROM = 1500.0
#: For AUC the evidence, which is strength times classes times the rarest class's share, must also be this for `STRONG`.
RARE_STRONG_FROM = 500.0
#: The public weight of the usual mixture in the choice; mixtures of one kind of trees have weight 1.
PREFERRED = 8
#: The same for AUC: the pick then overrules the usual mixture by evidence alone, not by noise.
RARE_PREFERRED = 300
#: The public weight of the other mixtures of all trees.
COMMON = 3

Floats = NDArray[np.float64]
Choice = tuple[float, float, str]


@dataclass(frozen=True, eq=False)
class MixtureParts:
    """What mixtures are made of: log shares of classes, one-feature trees, trees, the lifts of both, kinds of trees."""

    prior: Floats
    stumps: Forest
    stump_lifts: Floats
    trees: Forest
    tree_lifts: Floats
    kinds: tuple[str, ...]


def choices(kinds: Sequence[str], strength: float) -> list[Choice]:
    """Return the mixtures: the factor of naive Bayes, that of the trees, and the kind of trees used ("" for all)."""
    different = dict.fromkeys(kinds) if strength >= STRONG_FROM else ()
    one_kind = [(a, b, kind) for kind in different for a, b in ONE_KIND]
    return [(a, b, "") for a, b in ALL_TREES] + one_kind


def mixture_forest(
    session: Session, parts: MixtureParts, *, ask: bool, strength: float, objective: str = ACCURACY
) -> Trained:
    """Return the forest of the mixture that the kernel picks, or of the usual one where the kernel is not asked."""
    usual = usual_mixture(strength, objective, parts.prior)
    offered = choices(parts.kinds, strength)
    number = session.pick("pick", mixtures(parts, offered, usual, objective)) if ask else offered.index(usual)
    naive_bayes, trees, kind = offered[number]
    facts = {"reader": {"naive_bayes": naive_bayes, "trees": trees, "kind": kind}}
    return Trained(reader_forest(parts, offered[number]), facts)


def usual_mixture(strength: float, objective: str, log_shares: Floats) -> Choice:
    """Return the mixture that is preferred, and taken where none is picked; AUC hangs on the rows of the rarest class.

    >>> usual_mixture(2000, "accuracy", np.log([0.9, 0.1])), usual_mixture(2000, "auc", np.log([0.9, 0.1]))
    ((0.6, 1, ''), (1, 0.5, ''))
    """
    evidence = strength * len(log_shares) * float(np.exp(log_shares.min()))
    is_strong = strength >= STRONG_FROM and (objective != AUC or evidence >= RARE_STRONG_FROM)
    return (*(STRONG if is_strong else WEAK), "")


def naive_bayes_forest(prior: Floats, stumps: Forest, lifts: Floats) -> VotingForest:
    """Return naive Bayes without any tree, as a forest of one-feature trees."""
    return reader_forest(MixtureParts(prior, stumps, lifts, stumps, lifts, ()), (1, 0, ""))


def mixtures(parts: MixtureParts, offered: Sequence[Choice], usual: Choice, objective: str = ACCURACY) -> Mixtures:
    """Return these mixtures of the prior (part 0), the one-feature trees (1) and the trees of each kind (2, 3, …).

    An objective with several λ has a mixture for each, which together are one option.
    """
    kinds = list(dict.fromkeys(parts.kinds))
    prior = Forest(parts.stumps.axes, 1, ())
    forest = join_trees(join_trees(prior, parts.stumps), parts.trees)
    lifts = np.concatenate([parts.prior[None, :], parts.stump_lifts, parts.tree_lifts])
    part = np.array([0] + [1] * parts.stumps.trees + [2 + kinds.index(kind) for kind in parts.kinds])
    asked = exponents(objective)
    factors = np.array(
        [
            [(1 - exponent) * FACTOR_ONE, round(a * FACTOR_ONE), *_tree_factors(parts.kinds, b, kind)]
            for exponent in asked
            for a, b, kind in offered
        ]
    )
    preferred = RARE_PREFERRED if objective == AUC else PREFERRED
    weights = np.array([_public_weight(choice, usual, preferred) for choice in offered], np.int64)
    released = VotingForest(forest, _points(lifts))
    if asked == (0,):
        return Mixtures(released, part, factors, weights)
    gains = np.repeat([class_gains(exponent, parts.prior) for exponent in asked], len(offered), axis=0)
    return Mixtures(released, part, factors, weights, gains, np.tile(np.arange(len(offered)), len(asked)))


def _public_weight(choice: Choice, usual: Choice, preferred: int) -> int:
    if choice == usual:
        return preferred
    return 1 if choice[2] else COMMON


def _tree_factors(kinds: Sequence[str], factor: float, kind: str) -> list[int]:
    """Return the factor of each kind: the trees that are used share the factor evenly."""
    used = [tree for tree in kinds if kind in ("", tree)]
    each = round(factor * FACTOR_ONE / max(1, len(used)))
    return [each if kind in ("", tree) else 0 for tree in dict.fromkeys(kinds)]


def reader_forest(parts: MixtureParts, choice: Choice) -> VotingForest:
    """Return one mixture as a forest of its own, without the trees that it does not use."""
    a, b, kind = choice
    pieces = [(parts.stumps, parts.stump_lifts, round(a * FACTOR_ONE))]
    factors = dict(zip(dict.fromkeys(parts.kinds), _tree_factors(parts.kinds, b, kind), strict=True))
    for number, tree_kind in enumerate(parts.kinds):
        own = slice(*parts.trees.first_leaf[number : number + 2])
        pieces.append((parts.trees.tree(number), parts.tree_lifts[own], factors[tree_kind]))
    used = [(forest, _points(lifts) * factor) for forest, lifts, factor in pieces if factor]
    forest, weights = used[0][0], [used[0][1]]
    for other, other_weights in used[1:]:
        forest = join_trees(forest, other)
        weights.append(other_weights)
    votes = np.concatenate(weights)
    votes[: forest.first_leaf[1]] += _points(parts.prior) * FACTOR_ONE
    return VotingForest(forest, votes, nat=POINTS_PER_NAT * FACTOR_ONE)


def _points(lifts: Floats) -> NDArray[np.int64]:
    return np.rint(lifts * POINTS_PER_NAT).astype(np.int64)
