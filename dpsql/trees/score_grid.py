"""The public grid on which scored private rows are counted: true class, decision, and points of probability.

Two classes need one histogram: true class × point of the second class's probability. Rows for which the model names the
first class are counted at the points of the lower half, the others at those of the upper half. So one histogram serves
the confusion table, AUC, log loss, Brier score and reliability.

More classes need four histograms, and a row adds 1 to each: true × predicted class; right or wrong × point of the
predicted class's probability; point of the log loss; point of the Brier score. AUC would need one more for each class,
so it is left out.

A row whose value lies between two points is counted at one of them, drawn by its ticket with such chances that the
mean of the point is the value. So sums over points have no bias, however coarse the grid is. A value beyond the first
or last point is counted there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Points of probability in the lower half, for a class that is not named; closer together where a logarithm is steep.
LOWER = (0.001, 0.005, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
#: The same in the upper half.
UPPER = tuple(round(1 - point, 3) for point in reversed(LOWER))
#: All points of probability.
POINTS = LOWER + UPPER
#: In the log loss, a smaller probability of the true class counts as this.
LEAST_PROBABILITY = 0.001
#: Points of a row's log loss.
LOG_LOSSES = tuple(step / 2 for step in range(15))
#: Points of a row's Brier score, which is from 0 to 2 where there are more than two classes.
BRIER_SCORES = tuple(step / 5 for step in range(11))
#: The most classes that are counted: the grid grows with their square.
MOST_CLASSES = 256


@dataclass(frozen=True)
class ScoreGrid:
    """The histograms for a number of classes, each with a name and a number of cells, laid out one after the other.

    With `confidence_alone` there is only the one that calibration needs. For two classes it is the one histogram that
    serves all figures.
    """

    classes: int
    confidence_alone: bool = False

    @property
    def histograms(self) -> tuple[tuple[str, int], ...]:
        """The name and the number of cells of each histogram."""
        if self.classes == 2:
            return (("binary", 2 * len(POINTS)),)
        if self.confidence_alone:
            return (("confidence", 2 * len(POINTS)),)
        return (
            ("confusion", self.classes**2),
            ("confidence", 2 * len(POINTS)),
            ("log_loss", len(LOG_LOSSES)),
            ("brier", len(BRIER_SCORES)),
        )

    @property
    def cells(self) -> int:
        """The number of cells of all histograms."""
        return sum(size for _, size in self.histograms)

    @property
    def starts(self) -> dict[str, int]:
        """The number of the first cell of each histogram."""
        sizes = [size for _, size in self.histograms]
        return {name: sum(sizes[:place]) for place, (name, _) in enumerate(self.histograms)}

    def part(self, counts: NDArray[np.int64], name: str) -> NDArray[np.float64]:
        """Return one histogram, cut out of the counts of all."""
        start = self.starts[name]
        return counts[start : start + dict(self.histograms)[name]].astype(np.float64)
