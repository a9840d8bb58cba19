"""A strategy: questions about the counts of public cells, from whose noisy answers all of a workload is estimated.

Each question is a weighted sum of cells. A strategy is a stack of blocks of questions. A block is written out as a
matrix of questions × cells only where most of its entries are not 0. All entries are whole numbers, so answers are
whole numbers, and the sensitivity below is exact: no rounding comes after it.
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
#: The largest entry of a question, so that answers stay far below 64 bits.
LARGEST_ENTRY = 2**20
#: The most entries of any dense matrix, here and where strategies are searched for: 128 MB.
DENSE = 2**24


@dataclass(frozen=True, eq=False)
class Partition:
    """A block in which every cell is in one group; a question is the weighted sum of one group's cells."""

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
    def is_valid(self) -> bool:
        """Whether each cell has a group, numbered from 0, and a whole-number weight from 1 to LARGEST_ENTRY."""
        numbers = self.group.dtype == self.weight.dtype == np.int64 and self.group.ndim == 1
        if not numbers or self.group.shape != self.weight.shape or not len(self.group):
            return False
        return bool(self.group.min() >= 0 and self.weight.min() >= 1 and self.weight.max() <= LARGEST_ENTRY)

    @cached_property
    def questions(self) -> int:
        """The number of groups."""
        return int(self.group.max()) + 1

    def answer(self, values: Numbers) -> Numbers:
        """Return the answers (questions × columns) for values of the cells (cells × columns)."""
        answers = np.zeros((self.questions, values.shape[1]), values.dtype)
        np.add.at(answers, self.group, values * self.weight[:, None].astype(values.dtype))
        return answers

    def back(self, answers: Floats) -> Floats:
        """Return Aᵀ·answers (cells × columns), where A is the matrix of the questions."""
        return answers[self.group] * self.weight[:, None]

    @property
    def column_sums(self) -> Ints:
        """For each cell, the sum of the absolute entries: by how much one row in it changes all answers together."""
        return self.weight


@dataclass(frozen=True, eq=False)
class Dense:
    """A block of questions with any weight for each cell, written out as a matrix (questions × cells)."""

    matrix: Ints

    def __post_init__(self) -> None:
        _freeze(self, "matrix")

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.matrix.shape[1]

    @property
    def largest(self) -> int:
        """The largest absolute entry."""
        return int(np.abs(self.matrix).max())

    @property
    def is_valid(self) -> bool:
        """Whether entries are whole numbers within ±LARGEST_ENTRY, not all 0, and at most DENSE in number."""
        if self.matrix.dtype != np.int64 or self.matrix.ndim != 2 or not 0 < self.matrix.size <= DENSE:
            return False
        # Absolute values would not do: the smallest 64-bit whole number is its own absolute value.
        return bool(self.matrix.min() >= -LARGEST_ENTRY and self.matrix.max() <= LARGEST_ENTRY and self.matrix.any())

    @property
    def questions(self) -> int:
        """The number of questions."""
        return len(self.matrix)

    def answer(self, values: Numbers) -> Numbers:
        """Return the answers (questions × columns) for values of the cells (cells × columns)."""
        return np.asarray(self.matrix.astype(values.dtype) @ values)

    def back(self, answers: Floats) -> Floats:
        """Return Aᵀ·answers (cells × columns), where A is the matrix of the questions."""
        return np.asarray(self.matrix.T.astype(np.float64) @ answers)

    @property
    def column_sums(self) -> Ints:
        """For each cell, the sum of the absolute entries: by how much one row in it changes all answers together."""
        return np.asarray(np.abs(self.matrix).sum(axis=0))


@dataclass(frozen=True, eq=False)
class Strategy:
    """Blocks of questions about the same cells; `name` is the kind of strategy."""

    name: str
    cells: int
    blocks: tuple[Partition | Dense, ...]

    def __post_init__(self) -> None:
        if not self.blocks or not all(block.is_valid for block in self.blocks):
            raise ParameterError("strategy", allowed=f"whole numbers up to {LARGEST_ENTRY}", given=self.name)
        widths = {block.cells for block in self.blocks}
        if widths != {self.cells}:
            raise ParameterError("strategy", allowed=f"questions about {self.cells} cells", given=sorted(widths))

    @property
    def questions(self) -> int:
        """The number of questions."""
        return sum(block.questions for block in self.blocks)

    @cached_property
    def sensitivity(self) -> int:
        """The most by which one row can change all answers together: exactly the largest of the column sums."""
        return int(np.sum([block.column_sums for block in self.blocks], axis=0).max())

    def answer(self, values: Numbers) -> Numbers:
        """Return all answers (questions × columns); they are whole numbers where the values are."""
        return np.concatenate([block.answer(values) for block in self.blocks])

    def back(self, answers: Floats) -> Floats:
        """Return Aᵀ·answers (cells × columns), where A is the matrix of all questions."""
        return np.asarray(sum(block.back(part) for block, part in self._parts(answers)))

    def normal(self, values: Floats) -> Floats:
        """Return AᵀA·values (cells × columns)."""
        return np.asarray(sum(block.back(block.answer(values)) for block in self.blocks))

    def _parts(self, answers: Floats) -> Iterator[tuple[Partition | Dense, Floats]]:
        """Yield each block with the answers to its questions."""
        start = 0
        for block in self.blocks:
            yield block, answers[start : start + block.questions]
            start += block.questions


def _freeze(block: object, *names: str) -> None:
    """Replace arrays by read-only copies: a sensitivity that was computed from them must stay true."""
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
