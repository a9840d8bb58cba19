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

    @property
    def used_axes(self) -> list[int]:
        """The axes that any candidate reads."""
        return [int(axis) for axis in np.unique(self.axis)]
