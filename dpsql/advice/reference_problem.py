"""What a run is likely to bring, from public facts alone: features, classes, a size, epsilon. A model of learning.

No private row says how much a table's features tell about its label, so a **reference problem** stands in for the
table. In it one feature in three (at least one) tells something: it moves the mean of a class by one standard
deviation. Together i such features keep the largest class and its closest rival √i standard deviations apart. Of the
square of that separation a run keeps the share

    kept = 1 / (1 + (noise / strength)² + sampling / rows)

- strength is rows · epsilon / max_rows: the rows, over the noise scale of a count that gets all of epsilon;
- noise = `NOISE` · √classes · features · √(features / i): the strength at which noise and signal are even. Features
  share epsilon, the noise of all of them adds up, and so does that of the classes. The constant was calibrated on
  made-up tables, not on real ones (`docs/how-to/advise.md`);
- sampling = 4 · features / i: the rows at which sampling error and signal are even where there is no noise. It is what
  a linear rule loses by estimating one mean per feature. Twice the epsilon does not change it; twice the rows halve it.

With the share that is kept, rows are labelled as by the best rule for a separation smaller by √kept, for which there is
a closed formula (`best_rule_gain`). With several rival classes, the gains against each of them are added up. A model is
*likely to beat the majority class* where it is expected to label `VISIBLE` more of all rows right.

For a number the yardstick is the mean, and the gain a share of the variance. Random trees explain little of it however
large epsilon is: `EXPLAINED` on made-up tables, of which kept is the same share with `TARGET_NOISE` in place of noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist

from dpsql.schema import Schema

#: The share of features that tell something, each by one standard deviation.
INFORMATIVE = 1 / 3
#: The strength at which noise and signal are even for one informative feature, per √class: the calibrated constant.
NOISE = 24.0
#: The same for random trees of a numeric target, whatever its features.
TARGET_NOISE = 800.0
#: The largest share of a numeric target's variance that random trees explain.
EXPLAINED = 0.06
#: The share of all rows (for a number, of the variance) by which a model has to be better.
VISIBLE = 0.03
#: A gain that nobody would see.
INVISIBLE = 0.002
#: Halvings in the search for a smallest value: more than a double has binary digits.
_STEPS = 80
#: The least and the largest epsilon among which a smallest one is looked for.
_LEAST = 1e-9
_MOST = 1e9


@dataclass(frozen=True)
class Problem:
    """The public facts that the model of learning needs: features, classes (0 for a number), rows of a unit, a guess.

    `majority` is the share of the largest class, and `assumed` says that nobody gave it; the other classes are taken as
    equally frequent.
    """

    features: int
    classes: int
    max_rows: int
    majority: float
    assumed: bool = False

    @classmethod
    def of(cls, schema: Schema, majority: float | None = None) -> Problem:
        """Return the problem of a schema; without a guess the largest class's share is that of `usual_majority`."""
        classes = len(schema.classes)
        share = majority if majority is not None else usual_majority(classes) if classes else 0.0
        return cls(len(schema.features), classes, schema.unit.max_rows, share, assumed=majority is None)

    @property
    def easiest(self) -> Problem:
        """The problem if all classes are equally frequent, unless the share of the largest was given."""
        return replace(self, majority=1 / self.classes) if self.assumed and self.classes else self

    @property
    def noise(self) -> float:
        """The strength at which noise and signal are even."""
        if not self.classes:
            return TARGET_NOISE
        return NOISE * math.sqrt(self.classes * self.features / self.informative) * self.features

    @property
    def informative(self) -> float:
        """How many features of the reference problem tell something."""
        return max(1.0, self.features * INFORMATIVE)

    @property
    def sampling_rows(self) -> float:
        """The rows at which sampling error and signal are even."""
        return 4 * self.features / self.informative

    def signal_kept(self, rows: float, epsilon: float) -> float:
        """Return the share of the reference problem's signal that survives noise and sampling, from 0 to 1."""
        strength = rows * epsilon / self.max_rows
        if strength <= 0:
            return 0.0
        return 1 / (1 + (self.noise / strength) ** 2 + self.sampling_rows / rows)

    def gain(self, rows: float, epsilon: float) -> float:
        """Return the expected share of rows labelled right beyond the largest class; of variance explained."""
        signal = self.signal_kept(rows, epsilon)
        if not self.classes:
            return signal * EXPLAINED
        rival = (1 - self.majority) / (self.classes - 1)
        contested = self.majority + rival
        pairs = (
            (self.classes - 1)
            * contested
            * best_rule_gain(math.sqrt(signal * self.informative), self.majority / contested)
        )
        return min(1 - self.majority, pairs)

    def break_even(self, rows: float) -> float | None:
        """Return the smallest epsilon at which a model is likely to help; None where none is enough."""
        return _smallest_good(lambda epsilon: self.gain(rows, epsilon) >= VISIBLE)

    def rows_needed(self, epsilon: float) -> float | None:
        """Return the smallest number of rows at which a model is likely to help; None where none is enough."""
        return _smallest_good(lambda rows: self.gain(rows, epsilon) >= VISIBLE, most=1e12)


def usual_majority(classes: int) -> float:
    """Return the share that the largest class is taken to have: its equal share and a third of the rest.

    >>> round(usual_majority(2), 2), usual_majority(4)
    (0.67, 0.5)
    """
    return (1 + 2 / classes) / 3


def best_rule_gain(separation: float, majority: float) -> float:
    """Return by how much the best rule for two bell curves beats naming the larger class always.

    >>> round(best_rule_gain(2.0, 0.5), 3), round(best_rule_gain(2.0, 0.9), 3), best_rule_gain(0.0, 0.6)
    (0.341, 0.03, 0.0)
    """
    if separation <= 0:
        return 0.0
    normal, half = NormalDist(), separation / 2
    lead = math.log(majority / (1 - majority)) / separation
    right = majority * normal.cdf(half + lead) + (1 - majority) * normal.cdf(half - lead)
    return max(0.0, right - majority)


def _smallest_good(good: Callable[[float], bool], *, most: float = _MOST) -> float | None:
    """Return the smallest positive number that is good, up to rounding, where all larger numbers are good too."""
    if not good(most):
        return None
    low, high = math.log(_LEAST), math.log(most)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if good(math.exp(middle)) else (middle, high)
    return math.exp(high)
