"""Candidate splits: for each leaf of a growing forest, the axes that it may split, and a public weight for each split.

The splits are a public list (`trees/grow/splits.py`). The axes that a leaf asks for, and the weights, come from the
schema, a seed, or earlier releases, and never from rows. The weights are the base measure of the exponential mechanism,
such as the widths of intervals; a weight of 0 rules a split out. A leaf that asks for no axis stays a leaf.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.trees.forest import PASS, Forest, Ints, Level
from dpsql.trees.grow.splits import Splits


@dataclass(frozen=True, eq=False)
class Candidates:
    """What each leaf may choose.

    `axis` has the shape leaves × axes that a leaf asks for, with PASS where it asks for fewer; `weights` has the shape
    leaves × axes × splits.
    """

    splits: Splits
    axis: NDArray[np.int16]
    weights: NDArray[np.int64]

    def __post_init__(self) -> None:
        shape = (*self.axis.shape, self.splits.most)
        if self.axis.ndim != 2 or 0 in self.axis.shape or self.weights.shape != shape:
            raise ParameterError("candidates", allowed="axes of leaves × asked, weights of leaves × asked × splits",
                                 given=(self.axis.shape, self.weights.shape))  # fmt: skip
        if self.axis.min() < PASS or self.axis.max() >= len(self.splits.arity):
            raise ParameterError("candidates", allowed="splits on axes of the schema", given=int(self.axis.max()))
        asking = self.axis != PASS
        missing = (self.splits.arity[self.axis] == 0) | ~asking[:, :, None]
        if self.weights.min() < 0 or self.weights[missing].any():
            raise ParameterError("weights", allowed="not negative, 0 where there is no split", given="others")
        if (self.weights.max(axis=(1, 2)) == 0)[asking.any(axis=1)].any():
            raise ParameterError("weights", allowed="one above 0 for each leaf that asks", given="none")

    def check_fit(self, forest: Forest) -> None:
        """Raise ParameterError unless there is a row of candidates for each leaf, on axes that the forest has."""
        if len(self.axis) != forest.leaves:
            raise ParameterError(
                "candidates", allowed=f"a row for each of {forest.leaves} leaves", given=len(self.axis)
            )
        if len(self.splits.arity) != len(forest.axes):
            raise ParameterError("candidates", allowed="splits on axes of the schema", given=len(self.splits.arity))

    def check_same_for_all_leaves(self, forest: Forest) -> None:
        """Raise ParameterError unless there is one tree, and all its leaves have the same candidates."""
        same = (self.axis == self.axis[0]).all() and (self.weights == self.weights[0]).all()
        if forest.trees != 1 or not same:
            raise ParameterError("candidates", allowed="the same for all leaves of one tree", given="others")

    @property
    def asking_leaves(self) -> Ints:
        """The leaves that ask for a split."""
        return np.flatnonzero((self.axis != PASS).any(axis=1))

    def level(self, choices: Ints) -> Level:
        """Return the next level of the forest.

        `choices` says for each leaf which of its candidates it takes (a place among axes × splits), or −1 for none.
        """
        place, number = np.divmod(np.maximum(choices, 0), self.splits.most)
        axis = np.where(choices < 0, PASS, self.axis[np.arange(len(choices)), place])
        return self.splits.level(axis.astype(np.int64), number)
