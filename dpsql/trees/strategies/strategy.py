"""A strategy: whole-number questions about the counts of public cells, few enough, and sharp enough, to answer many.

Each question is a weighted sum of cells. A strategy is a stack of blocks, none of which is ever written out as a
matrix of questions × cells, except rows that are dense by nature. All entries are whole numbers, so answers are whole
numbers, and the sensitivity below is exact: no rounding comes after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Numbers = NDArray[Any]
#: The largest entry, so that answers stay far below 64 bits.
LARGEST_ENTRY = 2**20
#: The most entries that any dense matrix may have, here and wherever strategies are looked for: 128 MB.
DENSE = 2**24


@dataclass(frozen=True, eq=False)
class Partition:
    """Every cell is in one group, and a question adds up the cells of one group, each times its own weight."""

    group: Ints
    weight: Ints

    def __post_init__(self) -> None:
        _freeze(self, "group", "weight")

    @classmethod
    def even(cls, group: Ints, weight: int) -> Partition:
        """Return the partition in which all cells weigh the same."""
        return cls(group, np.full(len(group), weight, np.int64))

    @property
    def cells(self) -> int:
        """The number of cells."""
        return len(self.group)

    @property
    def largest(self) -> int:
        """The largest weight."""
        return int(self.weight.max())

    @property
    def whole(self) -> bool:
        """Whether groups are numbers from 0 on and weights whole numbers from 1 to the largest, one for each cell."""
        numbers = self.group.dtype == self.weight.dtype == np.int64 and self.group.ndim == 1
        if not numbers or self.group.shape != self.weight.shape or not len(self.group):
            return False
        return bool(self.group.min() >= 0 and self.weight.min() >= 1 and self.weight.max() <= LARGEST_ENTRY)

    @cached_property
    def questions(self) -> int:
        """The number of groups."""
        return int(self.group.max()) + 1

    def answer(self, values: Numbers) -> Numbers:
        """Return the questions' answers for values of cells × columns."""
        found = np.zeros((self.questions, values.shape[1]), values.dtype)
        np.add.at(found, self.group, values * self.weight[:, None].astype(values.dtype))
        return found

    def back(self, answers: Floats) -> Floats:
        """Return the transpose times answers."""
        return answers[self.group] * self.weight[:, None]

    @property
    def column_sums(self) -> Ints:
        """What one row in each cell adds to all answers together."""
        return self.weight


@dataclass(frozen=True, eq=False)
class Dense:
    """Questions that weigh every cell as they like (questions × cells)."""

    matrix: Ints

    def __post_init__(self) -> None:
        _freeze(self, "matrix")

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.matrix.shape[1]

    @property
    def largest(self) -> int:
        """The largest entry, either way."""
        return int(np.abs(self.matrix).max())

    @property
    def whole(self) -> bool:
        """Whether all entries are whole numbers within bounds, some are not 0, and there are not too many."""
        if self.matrix.dtype != np.int64 or self.matrix.ndim != 2 or not 0 < self.matrix.size <= DENSE:
            return False
        # Not by absolute values: that of the smallest whole number of 64 bits is itself.
        return bool(self.matrix.min() >= -LARGEST_ENTRY and self.matrix.max() <= LARGEST_ENTRY and self.matrix.any())

    @property
    def questions(self) -> int:
        """The number of rows."""
        return len(self.matrix)

    def answer(self, values: Numbers) -> Numbers:
        """Return the questions' answers for values of cells × columns."""
        return np.asarray(self.matrix.astype(values.dtype) @ values)

    def back(self, answers: Floats) -> Floats:
        """Return the transpose times answers."""
        return np.asarray(self.matrix.T.astype(np.float64) @ answers)

    @property
    def column_sums(self) -> Ints:
        """What one row in each cell adds to all answers together."""
        return np.asarray(np.abs(self.matrix).sum(axis=0))


@dataclass(frozen=True, eq=False)
class Strategy:
    """Blocks of questions about the same cells; `name` says what kind it is."""

    name: str
    cells: int
    blocks: tuple[Partition | Dense, ...]

    def __post_init__(self) -> None:
        if not self.blocks or not all(one.whole for one in self.blocks):
            raise ParameterError("strategy", allowed=f"whole numbers up to {LARGEST_ENTRY}", given=self.name)
        widths = {one.cells for one in self.blocks}
        if widths != {self.cells}:
            raise ParameterError("strategy", allowed=f"questions about {self.cells} cells", given=sorted(widths))

    @property
    def questions(self) -> int:
        """The number of questions."""
        return sum(one.questions for one in self.blocks)

    @cached_property
    def sensitivity(self) -> int:
        """How much one row can change all answers together: the largest column sum, exactly."""
        return int(np.sum([one.column_sums for one in self.blocks], axis=0).max())

    def answer(self, values: Numbers) -> Numbers:
        """Return all answers (questions × columns); whole numbers for whole numbers."""
        return np.concatenate([one.answer(values) for one in self.blocks])

    def back(self, answers: Floats) -> Floats:
        """Return the transpose times answers (cells × columns)."""
        return np.asarray(sum(one.back(part) for one, part in self._parts(answers)))

    def normal(self, values: Floats) -> Floats:
        """Return the transpose times the strategy times values."""
        return np.asarray(sum(one.back(one.answer(values)) for one in self.blocks))

    def _parts(self, answers: Floats) -> Iterator[tuple[Partition | Dense, Floats]]:
        start = 0
        for one in self.blocks:
            yield one, answers[start : start + one.questions]
            start += one.questions


def _freeze(block: object, *names: str) -> None:
    """Keep copies of the arrays that nobody can write to: a sensitivity, once worked out, must stay true."""
    for name in names:
        copied = np.array(getattr(block, name))
        copied.flags.writeable = False
        object.__setattr__(block, name, copied)


def identity(cells: int) -> Strategy:
    """Return the strategy that asks for every cell.

    >>> identity(3).sensitivity, identity(3).questions
    (1, 3)
    """
    return Strategy("identity", cells, (Partition.even(np.arange(cells), 1),))
