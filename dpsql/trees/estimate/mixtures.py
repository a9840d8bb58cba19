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
#: The most that a row can be worth where a mixture labels it right.
LARGEST_GAIN = 2**10


@dataclass(frozen=True, eq=False)
class Mixtures:
    """A forest, the part that each tree belongs to, and for each mixture the factor of each part (mixtures × parts).

    `option` says which option each mixture belongs to: an option is worth what its mixtures are worth together. Left
    out, each mixture is an option of its own. `weights` are public whole numbers, one for each option: how much it is
    preferred before any row is read. `gains` (mixtures × classes) say what a row of each class is worth where a mixture
    labels it right, as whole numbers; left out, every row is worth 1.
    """

    released: VotingForest
    part: Ints
    factors: Ints
    weights: NDArray[np.int64]
    gains: Ints | None = None
    option: Ints | None = None

    def __post_init__(self) -> None:
        parts = self.factors.shape[1] if self.factors.ndim == 2 else 0
        if (
            len(self.part) != self.released.forest.trees
            or not parts
            or not 0 <= self.part.min() <= self.part.max() < parts
        ):
            raise ParameterError("mixtures", allowed="one known part for each tree", given=self.part.shape)
        option, options = self.option_of_mixture, len(self.weights)
        if self.option is None and options != len(option):
            raise ParameterError("weights", allowed="one for each mixture", given=self.weights.shape)
        if self.weights.shape != (options,) or self.weights.min() < 1:
            raise ParameterError("weights", allowed="one from 1 on for each option", given=self.weights.shape)
        if option.shape != (len(self.factors),) or not 0 <= option.min() <= option.max() < options:
            raise ParameterError("option", allowed="one known option for each mixture", given=option.shape)
        if self.factors.min() < 0 or self.factors.max() > LARGEST_FACTOR:
            raise ParameterError("factors", allowed=f"from 0 to {LARGEST_FACTOR}", given=int(self.factors.max()))
        gains, classes = self.row_gains, self.released.weights.shape[1]
        if gains.shape != (len(self.factors), classes) or gains.min() < 0 or gains.max() > LARGEST_GAIN:
            allowed = f"one from 0 to {LARGEST_GAIN} for each mixture and class"
            raise ParameterError("gains", allowed=allowed, given=gains.shape)
        if not 1 <= self.largest_gain <= LARGEST_GAIN:
            raise ParameterError("gains", allowed=f"from 1 to {LARGEST_GAIN} for an option", given=self.largest_gain)
        # Whether a score overflows in SQL would depend on the rows, so no score may come near it.
        weights = self.released.weights
        largest = max(int(weights.max(initial=0)), -int(weights.min(initial=0))) * int(self.factors.max())
        if largest > largest_weight(self.released.forest.trees, weights.shape[1]):
            raise ParameterError("mixtures", allowed="weights whose multiples add up within 64 bits", given=largest)

    @property
    def row_gains(self) -> Ints:
        """What a row of each class is worth where each mixture labels it right (mixtures × classes)."""
        shape = (len(self.factors), self.released.weights.shape[1])
        return np.ones(shape, np.int64) if self.gains is None else self.gains

    @property
    def option_of_mixture(self) -> Ints:
        """The option that each mixture belongs to."""
        return np.arange(len(self.factors)) if self.option is None else self.option

    @property
    def largest_gain(self) -> int:
        """The most that one row adds to what an option is worth."""
        return int(self._by_option(self.row_gains).max(initial=0))

    def worth(self, right_rows: Ints) -> Ints:
        """Return what each option is worth, from the rows of each class that each mixture labels right."""
        return self._by_option(right_rows * self.row_gains).sum(axis=1)

    def _by_option(self, by_mixture: Ints) -> Ints:
        """Return the sums over the mixtures of each option."""
        sums = np.zeros((len(self.weights), by_mixture.shape[1]), np.int64)
        np.add.at(sums, self.option_of_mixture, by_mixture)
        return sums

    @property
    def leaf_part(self) -> Ints:
        """The part that each leaf belongs to."""
        return self.part[self.released.forest.leaf_tree]
