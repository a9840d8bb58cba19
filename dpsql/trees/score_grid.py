"""The public grid on which scored private rows are counted: true class, decision, and points of probability.

Two classes take one histogram: true class × point of the second class's probability, the points of the lower half for
rows where the first class is named, those of the upper half for the others. So one histogram serves the confusion
table, AUC, log loss, Brier score and reliability.

More classes take four, and a row adds 1 to each: true × predicted class; right or wrong × point of the predicted
class's probability; point of the log loss; point of the Brier score. AUC would take one more for each class, so it is
left out.

A row between two points counts at one of them, drawn by its ticket so that on average it counts where it is: sums over
points then miss nothing, however coarse the grid is. What is beyond the ends counts at the ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Points of probability in the lower half, for a class that is not named; closer together where a logarithm is steep.
LOWER = (0.001, 0.005, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
#: The same in the upper half.
UPPER = tuple(round(1 - point, 3) for point in reversed(LOWER))
POINTS = LOWER + UPPER
#: Points of a row's log loss, where the true class's probability counts as 0.001 at least.
LEAST_PROBABILITY = 0.001
LOG_LOSSES = tuple(step / 2 for step in range(15))
#: Points of a row's Brier score, which is from 0 to 2 where there are more than two classes.
BRIER_SCORES = tuple(step / 5 for step in range(11))
#: The most classes that are counted: the grid grows with their square.
MOST_CLASSES = 256


@dataclass(frozen=True)
class ScoreGrid:
    """The histograms of a number of classes: a name and a number of cells each, laid out one after the other.

    With `confidence_alone` there is one: what calibration needs. Of two classes it is the same that serves all.
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
        """Where each histogram begins."""
        sizes = [size for _, size in self.histograms]
        return {name: sum(sizes[:place]) for place, (name, _) in enumerate(self.histograms)}

    def part(self, counts: NDArray[np.int64], name: str) -> NDArray[np.float64]:
        """Return one histogram of all counts."""
        start = self.starts[name]
        return counts[start : start + dict(self.histograms)[name]].astype(np.float64)
