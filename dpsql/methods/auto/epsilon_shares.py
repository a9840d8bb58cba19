"""How `auto` should spend epsilon, from public facts alone: the schema, a declared or bought size, and epsilon.

Every rule weighs noise against rows, in units that do not depend on a table: `rows` is n·epsilon over the rows of a
unit, so that noise of scale 1/epsilon on a count is one of these rows.

- **Regime.** Marginals of all features drown below 2.2 rows for each feature, twice as many for a number (its rows are
  spread over more bins), times classes^1.5. There *public* trees, grown without data, are counted and nothing else.
- **Alone.** Below 300 rows, and up to 1000 below 16 for each feature and class, trees would add more noise than they
  tell: marginals get everything.
- **Marginals** get what brings the noise scale of a count, m/epsilon, down to an eightieth of all rows, but never more
  than 75 % of what is left for them and the trees (90 % below 16 rows for each feature and class), and no less than a
  share that falls with the rows, as counts of leaves become worth their noise: 80 % at 500 rows, 36 % from 3700 on.
  Where no reader is picked naive Bayes has the most to say: 80 to 90 %.
- **Trees.** Five where each has 350 rows to its share of epsilon, else three where its leaves have as many rows as
  their noise at a depth of six and more, else two: one grown by choices on rows (`data`), the others from the
  marginals.
- **Depth.** Leaves are as many as have half as many rows as the noise on them; path shrinkage needs no more.
- **Zoom** pays where its own noise is far below the rows: 700 per number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpsql.schema import Numeric, Schema

PUBLIC, ALONE, GUIDED = "public", "alone", "guided"
#: The kind of the tree whose splits are chosen on rows; the others follow from the marginals.
DATA = "data"
#: Shares of epsilon, in hundredths.
ZOOM_SHARE, PICK_SHARE, CALIBRATION_SHARE = 5, 8, 3
#: Of what the trees get, the hundredths that choose the splits of the data tree.
SPLITS_SHARE = 20
DEEPEST = 10
_ZOOM_ROWS, _PICK_ROWS, _CALIBRATION_ROWS = 700, 500, 3000
_LARGEST, _LARGEST_STARVED = 0.75, 0.9
#: The least share of marginals: so much at `_PICK_ROWS`, falling as this power of the rows, never below the last.
_LEAST, _FALLS, _FLOOR = 0.8, 0.4, 0.36
#: Where no reader is picked, naive Bayes has the most to say: the least and the largest share of marginals.
_UNASKED = (0.8, 0.9)
#: How many times as many rows as the noise scale of a marginal count there should be.
_CLEAR = 80
#: Below so many rows for each feature and class trees can hardly be afforded.
_STARVED_ROWS = 16
#: Below so many rows marginals speak alone: always, and where they starve.
_ALONE_ROWS, _ALONE_STARVED_ROWS = 300, 1000
#: Five trees need so many rows each, in the share of epsilon that counts its leaves.
_FIVE_ROWS = 350
#: Marginals stand out of the noise from so many rows for each feature, twice as many for a number, times classes^1.5.
_GUIDED_ROWS = 2.2
#: How many public trees share epsilon, below which strength.
_PUBLIC_TREES = ((1, 60.0), (3, 120.0), (5, 500.0), (10, math.inf))


@dataclass(frozen=True)
class Advice:
    """What to do with one epsilon: the regime, the trees and their depth, shares of epsilon."""

    regime: str
    rows: float
    trees: int
    depth: int
    zoom: bool
    pick: bool
    calibration: bool
    marginals: float

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the trees: one is chosen on rows, of the others every second is likely, the rest quantile."""
        if self.regime == ALONE:
            return ()
        others = self.trees - 1
        return ("likely",) * (others - others // 2) + ("quantile",) * (others // 2) + (DATA,)


def split_epsilon(
    schema: Schema, rows: float, epsilon: float, *, wanted: int | None = None, shaped: bool = False
) -> Advice:
    """Return the advice for a table of about so many rows; `wanted` is a number of trees that somebody insists on.

    With `shaped` somebody said what trees should look like: then marginals never stand alone.

    >>> from dpsql.schema import Boolean
    >>> schema = Schema("y", ("a", "b"), tuple(Boolean(f"x{n}") for n in range(10)))
    >>> [split_epsilon(schema, n, 1.0).regime for n in (20, 20_000)]
    ['public', 'guided']
    """
    classes, features = len(schema.classes), len(schema.features)
    strength = max(0.0, rows) * epsilon / schema.unit.max_rows
    numeric = len(schema.numeric)
    if strength < _GUIDED_ROWS * classes**1.5 * (features + numeric):
        trees, depth = _public_shape(strength, wanted)
        return Advice(PUBLIC, strength, trees, depth, zoom=False, pick=False, calibration=False, marginals=0.0)
    starved = strength < _STARVED_ROWS * features * classes
    if strength < (_ALONE_STARVED_ROWS if starved else _ALONE_ROWS) and wanted is None and not shaped:
        return Advice(ALONE, strength, 0, 1, zoom=False, pick=False, calibration=False, marginals=1.0)
    pick = strength >= _PICK_ROWS
    marginals = _marginals(strength, features, pick=pick, starved=starved)
    trees = wanted or _trees(strength, marginals, classes)
    return Advice(
        GUIDED,
        strength,
        trees,
        affordable_depth(leaves_of_depth(strength, marginals, trees, classes)),
        zoom=numeric > 0 and strength >= _ZOOM_ROWS * numeric,
        pick=pick,
        calibration=strength >= _CALIBRATION_ROWS,
        marginals=marginals,
    )


def _marginals(strength: float, features: int, *, pick: bool, starved: bool) -> float:
    """Return the share of marginals in what is left for them and the trees."""
    least, largest = _UNASKED
    if pick:
        least = max(_FLOOR, _LEAST * (_PICK_ROWS / strength) ** _FALLS)
        largest = _LARGEST_STARVED if starved else _LARGEST
    return max(least, min(largest, _CLEAR * features / strength))


def _trees(strength: float, marginals: float, classes: int) -> int:
    if _rows_counted(strength, marginals, 5) >= _FIVE_ROWS:
        return 5
    return 3 if leaves_of_depth(strength, marginals, 3, classes) >= 64 else 2


def _public_shape(strength: float, wanted: int | None) -> tuple[int, int]:
    """Return how many public trees to count, and how deep: half a level for each doubling of the rows."""
    trees = wanted or next(number for number, below in _PUBLIC_TREES if strength < below)
    shared = 0.4 if trees == 5 else 0.0
    return trees, max(2, min(8, round(1 - shared + math.log2(max(1.0, strength)) / 2)))


def leaves_of_depth(strength: float, marginals: float, trees: int, classes: int) -> float:
    """Return how many leaves have as many rows as the noise on them, when so many trees share what marginals leave."""
    return _rows_counted(strength, marginals, trees) / math.sqrt(2 * classes)


def _rows_counted(strength: float, marginals: float, trees: int) -> float:
    """Return how many rows each tree has, in the share of epsilon that counts its leaves."""
    return strength * (1 - marginals) * (1 - SPLITS_SHARE / 100) / trees


def affordable_depth(leaves_at_noise: float) -> int:
    """Return the depth whose leaves have about half as many rows as the noise on them.

    >>> affordable_depth(0.1), affordable_depth(32), affordable_depth(1e9)
    (1, 6, 10)
    """
    return max(1, min(DEEPEST, math.floor(math.log2(max(1.0, 2 * leaves_at_noise)))))


def numbers(schema: Schema) -> list[int]:
    """Return the places of the numeric features."""
    return [place for place, feature in enumerate(schema.features) if isinstance(feature, Numeric)]
