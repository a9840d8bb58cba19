"""A released forest: trees with weights at their leaves. A prediction adds whole numbers, so SQL and Python agree."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import SchemaError
from dpsql.trees.forest import Forest
from dpsql.trees.grid import Cells

Weights = NDArray[np.int64]
#: The largest weight of one leaf for one class.
LARGEST_WEIGHT = 2**40
#: The largest score × classes: the SQL ranks classes by one such number, in 64 bits.
LARGEST_RANK = 2**62
#: Rows × trees that are scored at once: bounds memory.
_CHUNK = 2**16


def largest_weight(trees: int, classes: int) -> int:
    """Return the largest absolute weight that a forest of this size may have."""
    return min(LARGEST_WEIGHT, LARGEST_RANK // (trees * classes))


@dataclass(frozen=True, eq=False)
class VotingForest:
    """Trees whose leaves vote: `weights` is leaves × classes, whole numbers.

    A row's score for a class is the sum of the weights of the leaves it reaches. The class with the highest score
    wins; among equal scores, the first class in the schema's order. With `nat` = 0 scores are votes. With `nat` above 0
    scores are log-probabilities in units of 1/`nat`, and the probabilities are softmax(score / nat).
    """

    forest: Forest
    weights: Weights
    nat: int = 0

    def __post_init__(self) -> None:
        if self.weights.shape[0] != self.forest.leaves or self.weights.ndim != 2:
            raise SchemaError("a model needs one row of weights for each leaf.")
        largest = max(int(self.weights.max(initial=0)), -int(self.weights.min(initial=0)))
        if largest > largest_weight(self.forest.trees, self.weights.shape[1]):
            raise SchemaError("a model's weights are too large for its number of trees and classes.")
        if isinstance(self.nat, bool) or not isinstance(self.nat, int) or not 0 <= self.nat <= LARGEST_WEIGHT:
            raise SchemaError(f"a model's points per natural-log unit must be a whole number up to {LARGEST_WEIGHT}.")

    @classmethod
    def majority(cls, forest: Forest, labels: NDArray[np.int64], classes: int) -> VotingForest:
        """Return a forest in which each leaf casts one vote for its label."""
        weights = np.zeros((forest.leaves, classes), np.int64)
        weights[np.arange(forest.leaves), labels] = 1
        return cls(forest, weights)

    def plus(self, other: VotingForest) -> VotingForest:
        """Return the same trees with the weights of both added, and cut off at the largest weight that is allowed."""
        most = largest_weight(self.forest.trees, self.weights.shape[1])
        return replace(self, weights=np.clip(self.weights + other.weights, -most, most), nat=self.same_nat(other))

    def same_nat(self, other: VotingForest) -> int:
        """Return the points per natural-log unit of both, or raise SchemaError: votes and log-scores do not add up."""
        if self.nat != other.nat:
            raise SchemaError("scores of these models mean different things: they cannot be added up.")
        return self.nat

    def scores(self, cells: Cells) -> Weights:
        """Return each row's score for each class."""
        total = np.zeros((len(cells), self.weights.shape[1]), np.int64)
        step = max(1, _CHUNK // max(1, self.forest.trees))
        for start in range(0, len(cells), step):
            leaves = self.forest.route(cells[start : start + step])
            total[start : start + step] = self.weights[leaves].sum(axis=1)
        return total

    def shares(self, scores: Weights) -> NDArray[np.float64]:
        """Return each class's probability: its share of a row's votes, or softmax(score / nat) of log-scores.

        Negative votes count as 0, and all classes have equal shares where no vote is positive. Exponentials are added
        in the order of classes, as SQL adds them.
        """
        if self.nat:
            powers = np.exp((scores - scores.max(axis=1, keepdims=True)) / self.nat)
            return np.asarray(powers / np.cumsum(powers, axis=1)[:, -1:])
        positive = np.maximum(scores, 0)
        total = positive.sum(axis=1, keepdims=True)
        return np.where(total > 0, positive / np.maximum(total, 1), 1 / scores.shape[1])

    def predict(self, cells: Cells) -> NDArray[np.int64]:
        """Return each row's class number."""
        return np.argmax(self.scores(cells), axis=1)

    def digest(self) -> str:
        """Return the SHA-256 of structure and weights: what the ledger and the certificate name."""
        nat = f" nat {self.nat}" if self.nat else ""
        state = hashlib.sha256(f"dpsql model 1 {self.forest.trees} {self.weights.shape}{nat}".encode())
        for level in self.forest.levels:
            state.update(np.ascontiguousarray(level.axis, "<i2").tobytes())
            state.update(np.ascontiguousarray(level.arity, "u1").tobytes())
            used = level.planes[: 1 + int(np.flatnonzero(level.planes.any(axis=1)).max(initial=0))]
            state.update(np.ascontiguousarray(used, "<u8").tobytes())
        state.update(np.ascontiguousarray(self.weights, "<i8").tobytes())
        return state.hexdigest()
