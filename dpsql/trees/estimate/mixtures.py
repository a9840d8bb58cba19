"""Several mixtures of one released forest: in each, the votes of each part of its trees have a factor of their own.

The votes of a forest add up, so a mixture that gives one part of the trees more weight than another is again a forest
with whole-number weights. All mixtures are post-processing of the same release; which one labels rows best is a private
question, and is answered by the kernel (`Session.pick`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.trees.forest import Ints
from dpsql.trees.voting import VotingForest, largest_weight

#: The largest factor of a part.
LARGEST_FACTOR = 2**10


@dataclass(frozen=True, eq=False)
class Mixtures:
    """A forest, the part that each tree belongs to, and for each mixture the factor of each part (mixtures × parts).

    `weights` are public whole numbers: how much each mixture is preferred before any row is read.
    """

    released: VotingForest
    part: Ints
    factors: Ints
    weights: NDArray[np.int64]

    def __post_init__(self) -> None:
        parts = self.factors.shape[1] if self.factors.ndim == 2 else 0
        if (
            len(self.part) != self.released.forest.trees
            or not parts
            or not 0 <= self.part.min() <= self.part.max() < parts
        ):
            raise ParameterError("mixtures", allowed="one known part for each tree", given=self.part.shape)
        if self.weights.shape != (len(self.factors),) or self.weights.min() < 1:
            raise ParameterError("weights", allowed="one from 1 on for each mixture", given=self.weights.shape)
        if self.factors.min() < 0 or self.factors.max() > LARGEST_FACTOR:
            raise ParameterError("factors", allowed=f"from 0 to {LARGEST_FACTOR}", given=int(self.factors.max()))
        # Whether a score overflows in SQL would depend on the rows, so no score may come near it.
        weights = self.released.weights
        largest = max(int(weights.max(initial=0)), -int(weights.min(initial=0))) * int(self.factors.max())
        if largest > largest_weight(self.released.forest.trees, weights.shape[1]):
            raise ParameterError("mixtures", allowed="weights whose multiples add up within 64 bits", given=largest)

    @property
    def leaf_part(self) -> Ints:
        """The part that each leaf belongs to."""
        return self.part[self.released.forest.leaf_tree]
