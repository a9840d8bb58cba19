"""Reads bounds, lists of values and classes from the noisy answers of a purchase (`runs/buy_domains.py`).

All of this is post-processing: it looks at released numbers alone, so it costs nothing and may be done anew at any
time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpsql.schema import HASH_CELLS, WIDE_HASH_CELLS
from dpsql.trees.magnitude_grid import EDGES, MISSING, ZERO, magnitude_range

#: The probability that any empty cell of any column is taken for an occupied one, where noise alone decides.
MISTAKE = 0.05
#: The probability that the empty cell beside the occupied ones is taken for an occupied one, on each side. A mistake
#: there makes a range about twice as wide, which costs next to nothing, while a cell that is missed clamps its rows.
NEAR_MISTAKE = 0.01
#: The probability that any word is taken for a class where noise alone decides: a class too many spoils every model.
WRONG_CLASS = 0.0001
#: A word is taken for a class only where about this share of the rows has it.
RARE_CLASS = 0.005
#: A lower bound that is at most this share of the upper one becomes 0: one cell of 64 more, and a plainer file.
SMALL = 1 / 64
#: How many cells of a hash that no row has are taken for cells in use, in each column on average: such a cell is a
#: value that never occurs, which costs next to nothing.
UNUSED_CELLS = 1.0
#: The cells of a hash in use are listed only if about this share of the rows is in one of them: all others become one.
NEARLY_ALL = 0.9
#: They are listed only if a cell with this share of the rows stands out of the noise. Where noise is larger, a cell
#: that no row has can look as if nearly all rows were in it.
COMMON_CELL = 0.2
#: The integers that the classes of a label of integer type are looked for among.
CODES = tuple(map(str, range(-1, 62)))
#: The words that a label's classes are looked for among, where no delta allows a selection of values. The list is the
#: same for every table.
WORDS = (
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "-1",
    "no", "yes", "No", "Yes", "NO", "YES", "n", "y", "N", "Y",
    "false", "true", "False", "True", "FALSE", "TRUE", "f", "t", "F", "T",
    "low", "medium", "high", "negative", "positive", "neg", "pos", "good", "bad", "fail", "pass",
    "absent", "present", "healthy", "ill", "alive", "dead", "male", "female", "control", "case",
    "a", "b", "c", "A", "B", "C", "D", "-", "+", "none", "other",
)  # fmt: skip


@dataclass(frozen=True)
class Reach:
    """Which numbers a column can hold at all, by its type: from the catalog alone, and so public."""

    least: float = -math.inf
    most: float = math.inf
    is_whole: bool = False

    def cells(self) -> list[int]:
        """Return the cells that a number of the type can be in, in ascending order.

        >>> [magnitude_range(cell) for cell in Reach(0, 3, is_whole=True).cells()[1:]]
        [(1.0, 2.0), (2.0, 4.0)]
        """
        return [cell for cell in range(len(EDGES) + 1) if self._reaches(*magnitude_range(cell))]

    def _reaches(self, lower: float, upper: float) -> bool:
        return lower <= self.most and upper > self.least and (not self.is_whole or math.ceil(lower) < upper)


@dataclass(frozen=True)
class NoisyDomains:
    """What a purchase released.

    `magnitudes` has for each column of numbers the noisy rows of each cell of `trees/magnitude_grid.py`, `words` has
    the noisy rows of each of `WORDS` or `CODES` in the label, `hashes` for each hashed column the cells of the wide
    hash with the most noisy rows, and that of NULL, and `values` the common texts of each column with their noisy rows.
    `asked` are the columns whose texts were asked for, and `label` the one whose classes were looked for. `deviations`
    are the standard deviations of the noise, by step. `gaussian` says which noise it was.
    """

    rows: int
    magnitudes: Mapping[str, Sequence[int]]
    words: Mapping[str, int]
    hashes: Mapping[str, Sequence[tuple[int, int]]]
    values: Mapping[str, Sequence[tuple[str, int]]]
    asked: tuple[str, ...]
    deviations: Mapping[str, float]
    gaussian: bool
    epsilon: str
    entry: int
    label: str = ""

    def bounds(self, column: str, reach: Reach | None = None) -> tuple[float, float] | None:
        """Return bounds of a column's numbers, rounded outwards to powers of two; None where noise hides all rows.

        `reach` says which numbers the column's type can hold: cells beyond have no rows, whatever noise says.
        """
        cells, deviation = len(self.magnitudes) * (MISSING + 1), self.deviations["magnitudes"]
        least = stands_out(deviation, cells, gaussian=self.gaussian, mistake=MISTAKE)
        near = stands_out(deviation, 1, gaussian=self.gaussian, mistake=NEAR_MISTAKE)
        return bounds_of(self.magnitudes[column], least, near=near, reach=reach or Reach())

    def classes(self) -> tuple[str, ...]:
        """Return the words that stand out of the noise as values of the label, in the order of their list."""
        if not self.words:
            return ()
        noise = stands_out(self.deviations["words"], len(self.words), gaussian=self.gaussian, mistake=WRONG_CLASS)
        least = max(noise, RARE_CLASS * self.rows)
        return tuple(word for word, rows in self.words.items() if rows > least)

    def hash_cells(self, column: str) -> tuple[int, ...]:
        """Return the cells of the wide hash in which nearly all rows are, in ascending order; none if noise hides that.

        A cell is in use if its noisy count stands out of the noise.
        """
        rows = max(1, self.rows)
        least = stands_out(self.deviations["hashes"], WIDE_HASH_CELLS, gaussian=self.gaussian, mistake=UNUSED_CELLS)
        *cells, (_, missing) = self.hashes[column]
        used = [(cell, count) for cell, count in cells if count > least]
        share = (sum(count for _, count in used) + missing) / rows
        is_clear = least <= COMMON_CELL * rows and share >= NEARLY_ALL and 0 < len(used) <= HASH_CELLS
        return tuple(cell for cell, _ in used) if is_clear else ()

    def texts(self, column: str) -> tuple[str, ...]:
        """Return the common texts of a column, those of most rows first; one with a NUL can be no declared value."""
        ordered = sorted(self.values.get(column, ()), key=lambda pair: (-pair[1], pair[0]))
        return tuple(text for text, _ in ordered if "\x00" not in text)

    def share_of_texts(self, column: str) -> float:
        """Return about which share of the rows has one of the common texts of a column."""
        return sum(rows for _, rows in self.values.get(column, ())) / max(1, self.rows)

    def share_of_classes(self, classes: Sequence[str]) -> float:
        """Return about which share of the rows has one of some of the words as its label."""
        return sum(self.words.get(name, 0) for name in classes) / max(1, self.rows)


def stands_out(deviation: float, cells: int, *, gaussian: bool, mistake: float) -> float:
    """Return the least noisy count that noise alone reaches in any of some cells with probability `mistake` at most.

    >>> round(stands_out(math.sqrt(2), 100, gaussian=False, mistake=0.05), 2)
    6.91
    """
    if gaussian:
        return deviation * math.sqrt(2 * math.log(cells / mistake))
    return deviation / math.sqrt(2) * math.log(cells / (2 * mistake))


def bounds_of(
    noisy_cells: Sequence[int], least: float, *, near: float | None = None, reach: Reach = Reach()
) -> tuple[float, float] | None:
    """Return the bounds of the cells that stand out, rounded outwards; None where none does, or where all are zero.

    A cell stands out with more than `least` rows, or beside one that does with more than `near`. The bounds stay
    within `reach`.

    >>> cells = [0] * (MISSING + 1)
    >>> cells[ZERO + 24], cells[ZERO + 26], cells[ZERO + 27] = 400, 600, 60
    >>> bounds_of(cells, 100), bounds_of(cells, 100, near=50), bounds_of([0] * (MISSING + 1), 100)
    ((8.0, 64.0), (8.0, 128.0), None)
    """
    possible = reach.cells()
    occupied = [place for place, cell in enumerate(possible) if noisy_cells[cell] > least]
    if not occupied or [possible[place] for place in occupied] == [ZERO]:
        return None
    first, last = occupied[0], occupied[-1]
    if near is not None:
        while first > 0 and noisy_cells[possible[first - 1]] > near:
            first -= 1
        while last + 1 < len(possible) and noisy_cells[possible[last + 1]] > near:
            last += 1
    return _outer_bounds(possible[first], possible[last], reach)


def _outer_bounds(first: int, last: int, reach: Reach) -> tuple[float, float]:
    """Return the bounds of a range of cells, with 0 in the place of a bound that is small beside the other one."""
    lower = 0.0 if first == ZERO else magnitude_range(first)[0]
    upper = 0.0 if last == ZERO else magnitude_range(last)[1]
    if 0 < lower <= upper * SMALL:
        lower = 0.0
    if 0 > upper >= lower * SMALL:
        upper = 0.0
    return max(lower, reach.least), min(upper, reach.most)
