"""Candidate splits: for each leaf of a growing forest, a list of two-way splits the kernel may choose from.

A candidate is an axis and the set of its cells that go right. The list is public: it comes from the schema, a seed, or
earlier releases, never from rows. `weights` is a public base measure, such as the width of an interval; a weight of 0
rules a candidate out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.trees.forest import Forest


@dataclass(frozen=True, eq=False)
class Candidates:
    """Candidate splits as arrays of leaves × candidates."""

    axis: NDArray[np.int16]
    right: NDArray[np.uint64]
    weights: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if self.axis.ndim != 2 or self.axis.shape != self.right.shape or 0 in self.axis.shape:
            raise ParameterError("candidates", allowed="two equal arrays of leaves × candidates", given=self.axis.shape)
        if self.axis.min() < 0:
            raise ParameterError("candidates", allowed="splits on axes of the schema", given=int(self.axis.min()))
        if self.weights is not None and not (
            self.weights.shape == self.axis.shape and self.weights.min() >= 0 and self.weights.any(axis=1).all()
        ):
            raise ParameterError("weights", allowed="as many, not negative, one above 0 for each leaf", given="others")

    def check_fit(self, forest: Forest) -> None:
        """Raise ParameterError unless there is a row of candidates for each leaf, on axes that the forest has."""
        if len(self.axis) != forest.leaves:
            raise ParameterError(
                "candidates", allowed=f"a row for each of {forest.leaves} leaves", given=len(self.axis)
            )
        if self.axis.max() >= len(forest.axes):
            raise ParameterError("candidates", allowed="splits on axes of the schema", given=int(self.axis.max()))

    @property
    def used_axes(self) -> list[int]:
        """The axes that any candidate reads."""
        return [int(axis) for axis in np.unique(self.axis)]
