"""How `auto` should spend epsilon, from public facts alone: the schema, a declared or bought size, and epsilon.

Every rule weighs noise against rows, by a number that does not depend on a table, its *strength*:

    strength = rows · epsilon / max_rows,

for a table of `rows` rows of which a unit has at most `max_rows`. A count that gets all of epsilon has noise of scale
max_rows / epsilon, so strength says how many times that scale the rows are. The rules below are in strength throughout.

- **Regime.** Marginals of all features drown below 2.2 for each feature, twice as much for a number (its rows are
  spread over more bins), times classes^1.5. There *public* trees, grown without data, are counted and nothing else.
- **Alone.** Below 300, and up to 1000 where there is less than 16 for each feature and class, trees would add more
  noise than they tell: marginals get everything.
- **Marginals** get what brings the noise scale of a count, features/epsilon, down to an eightieth of all rows, but
  never more than 75 % of what is left for them and the trees (90 % where there is less than 16 for each feature and
  class), and no less than a share that falls as strength grows, as counts of leaves become worth their noise: 80 % at
  500, 36 % from 3700 on. Where no mixture is picked, naive Bayes has the most weight: marginals get 80 to 90 %.
- **Trees.** Five where each has 350 in its share of epsilon, else three where its leaves have as many rows as their
  noise at a depth of six and more, else two. One is grown by choices on rows (`data`), the others from the marginals.
- **Depth.** There are as many leaves as have half as many rows as the noise on them; path shrinkage needs no more.
- **Zoom** pays where its own noise is far below the rows: from 700 for each number. From 580 on there are two short
  looks (2.5 and 1.5 %), which see no more than that nearly all rows of a number lie in two neighbouring cells. From 700
  on there are two or three more looks, for the case that the look before found just that: bounds that are far too wide.
  Each of them gets what makes the rows 60 times its noise, but at least 0.5 and at most 1.5 %, and all together at most
  3 %. A look that is not needed is not made, and what was planned for it is lost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpsql.schema import Numeric, Schema

#: The regime in which trees that are grown without data are counted, and nothing else.
PUBLIC = "public"
#: The regime in which marginals get all of epsilon.
ALONE = "alone"
#: The regime in which marginals guide trees.
GUIDED = "guided"
#: The kind of the tree whose splits are chosen on rows; the others follow from the marginals.
DATA = "data"
#: The share of epsilon for the step `zoom`, in hundredths.
ZOOM_SHARE = 5
#: How many looks may follow it at most, each 25 times as close as the one before.
MORE_ZOOMS = 3
#: The least and the largest share of each of these, and the largest of all together, in hundredths.
_MORE_ZOOM_SHARES = (0.5, 1.5, 3.0)
#: The rows should be this many times the noise scale of a later look.
_ZOOM_AGAIN = 60
#: The share of epsilon for the step `pick`, in hundredths.
PICK_SHARE = 8
#: The share of epsilon for the step `calibration`, in hundredths.
CALIBRATION_SHARE = 3
#: Of what the trees get, the hundredths that choose the splits of the data tree.
SPLITS_SHARE = 20
#: The largest depth of a tree.
DEEPEST = 10
#: The strength, for each number, from which `zoom` is worth its share.
_ZOOM_STRENGTH = 700
#: The strength, for each number, from which two short looks show whether all rows lie in two cells; their shares.
_SHORT_ZOOM_STRENGTH = 580
_SHORT_ZOOM_SHARES = (2.5, 1.5)
#: The strength from which `pick` is worth its share.
_PICK_STRENGTH = 500
#: The strength from which `calibration` is worth its share.
_CALIBRATION_STRENGTH = 3000
#: The largest share of marginals in what is left for them and the trees.
_LARGEST_MARGINALS = 0.75
#: The same where strength is below `_STARVED_STRENGTH` for each feature and class.
_LARGEST_MARGINALS_STARVED = 0.9
#: The least share of marginals where a mixture is picked. With s for strength and s₀ = `_PICK_STRENGTH` it is
#: max(_LEAST_MARGINALS_FLOOR, _LEAST_MARGINALS · (s₀ / s)^_LEAST_MARGINALS_POWER): 80 % at s₀, 36 % from 3700 on.
_LEAST_MARGINALS = 0.8
_LEAST_MARGINALS_POWER = 0.4
_LEAST_MARGINALS_FLOOR = 0.36
#: The least and the largest share of marginals where no mixture is picked: naive Bayes then has the most weight.
_MARGINALS_WITHOUT_PICK = (0.8, 0.9)
#: The rows should be this many times the noise scale of a marginal count.
_CLEAR = 80
#: Below this strength for each feature and class, trees can hardly be afforded.
_STARVED_STRENGTH = 16
#: Below this strength marginals get everything.
_ALONE_STRENGTH = 300
#: The same where strength is below `_STARVED_STRENGTH` for each feature and class.
_ALONE_STRENGTH_STARVED = 1000
#: Five trees need this strength each, in the share of epsilon that counts their leaves.
_FIVE_TREES_STRENGTH = 350
#: Marginals stand out of the noise from this strength for each feature, twice as much for a number, times classes^1.5.
_GUIDED_STRENGTH = 2.2
#: The number of public trees that share epsilon, and the strength below which it is that number.
_PUBLIC_TREES = ((1, 60.0), (3, 120.0), (5, 500.0), (10, math.inf))


@dataclass(frozen=True)
class Advice:
    """What to do with one epsilon: the regime, the trees and their depth, which steps there are.

    `marginals` is the share of marginals in what the steps `zoom`, `pick` and `calibration` leave.
    """

    regime: str
    strength: float
    trees: int
    depth: int
    zoom: bool
    pick: bool
    calibration: bool
    marginals: float

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kind of each tree: the last is chosen on rows; the others are half "likely", half "quantile"."""
        if self.regime == ALONE:
            return ()
        others = self.trees - 1
        return ("likely",) * (others - others // 2) + ("quantile",) * (others // 2) + (DATA,)


def split_epsilon(
    schema: Schema, rows: float, epsilon: float, *, given_trees: int | None = None, depth_given: bool = False
) -> Advice:
    """Return the advice for a table of about `rows` rows.

    `given_trees` is the number of trees where the parameters name one, and `depth_given` says whether they name a
    depth. Where they name either, marginals do not get everything.

    >>> from dpsql.schema import Boolean
    >>> schema = Schema("y", ("a", "b"), tuple(Boolean(f"x{n}") for n in range(10)))
    >>> [split_epsilon(schema, n, 1.0).regime for n in (20, 20_000)]
    ['public', 'guided']
    """
    classes, features = len(schema.classes), len(schema.features)
    strength = max(0.0, rows) * epsilon / schema.unit.max_rows
    numeric = len(schema.numeric)
    if strength < _GUIDED_STRENGTH * classes**1.5 * (features + numeric):
        trees, depth = _public_shape(strength, given_trees)
        return Advice(PUBLIC, strength, trees, depth, zoom=False, pick=False, calibration=False, marginals=0.0)
    starved = strength < _STARVED_STRENGTH * features * classes
    least = _ALONE_STRENGTH_STARVED if starved else _ALONE_STRENGTH
    if strength < least and given_trees is None and not depth_given:
        return Advice(ALONE, strength, 0, 1, zoom=False, pick=False, calibration=False, marginals=1.0)
    pick = strength >= _PICK_STRENGTH
    marginals = _marginals(strength, features, pick=pick, starved=starved)
    trees = given_trees or _number_of_trees(strength, marginals, classes)
    return Advice(
        GUIDED,
        strength,
        trees,
        affordable_depth(leaves_of_depth(strength, marginals, trees, classes)),
        zoom=numeric > 0 and strength >= _SHORT_ZOOM_STRENGTH * numeric,
        pick=pick,
        calibration=strength >= _CALIBRATION_STRENGTH,
        marginals=marginals,
    )


def _marginals(strength: float, features: int, *, pick: bool, starved: bool) -> float:
    """Return the share of marginals in what is left for them and the trees."""
    least, largest = _MARGINALS_WITHOUT_PICK
    if pick:
        falling = _LEAST_MARGINALS * (_PICK_STRENGTH / strength) ** _LEAST_MARGINALS_POWER
        least = max(_LEAST_MARGINALS_FLOOR, falling)
        largest = _LARGEST_MARGINALS_STARVED if starved else _LARGEST_MARGINALS
    return max(least, min(largest, _CLEAR * features / strength))


def _number_of_trees(strength: float, marginals: float, classes: int) -> int:
    if _tree_strength(strength, marginals, 5) >= _FIVE_TREES_STRENGTH:
        return 5
    return 3 if leaves_of_depth(strength, marginals, 3, classes) >= 64 else 2


def _public_shape(strength: float, given_trees: int | None) -> tuple[int, int]:
    """Return how many public trees to count, and how deep: half a level for each doubling of strength."""
    trees = given_trees or next(number for number, below in _PUBLIC_TREES if strength < below)
    shared = 0.4 if trees == 5 else 0.0
    return trees, max(2, min(8, round(1 - shared + math.log2(max(1.0, strength)) / 2)))


def leaves_of_depth(strength: float, marginals: float, trees: int, classes: int) -> float:
    """Return how many leaves have as many rows as the noise on them, where `trees` trees share what marginals leave."""
    return _tree_strength(strength, marginals, trees) / math.sqrt(2 * classes)


def _tree_strength(strength: float, marginals: float, trees: int) -> float:
    """Return the strength of each tree, in the share of epsilon that counts its leaves."""
    return strength * (1 - marginals) * (1 - SPLITS_SHARE / 100) / trees


def affordable_depth(leaves_at_noise: float) -> int:
    """Return the depth whose leaves have about half as many rows as the noise on them.

    >>> affordable_depth(0.1), affordable_depth(32), affordable_depth(1e9)
    (1, 6, 10)
    """
    return max(1, min(DEEPEST, math.floor(math.log2(max(1.0, 2 * leaves_at_noise)))))


def zoom_shares(schema: Schema, strength: float) -> tuple[float, ...]:
    """Return the share of epsilon of each look of `zoom`, in hundredths: the first, and those that may follow it.

    >>> zoom_shares(Schema("y", ("a", "b"), (Numeric("x", 0, 1),)), 10_000)
    (5, 0.6, 0.6, 0.6)
    """
    if strength < _ZOOM_STRENGTH * len(numbers(schema)):
        return _SHORT_ZOOM_SHARES
    least, largest, together = _MORE_ZOOM_SHARES
    again = min(largest, max(least, 100 * _ZOOM_AGAIN * len(numbers(schema)) / strength))
    return (ZOOM_SHARE, *(again,) * min(MORE_ZOOMS, int(together / again)))


def numbers(schema: Schema) -> list[int]:
    """Return the places of the numeric features."""
    return [place for place, feature in enumerate(schema.features) if isinstance(feature, Numeric)]
