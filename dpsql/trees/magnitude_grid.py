"""The public grid of magnitudes: one cell for each sign and power of two, one around zero, one for missing numbers.

The grid is the same for every column of every table, so it says nothing about rows. It reaches from 2^-20 (about one
millionth) to 2^64: smaller numbers are in the cell around zero, and larger ones are in the first or the last cell.
"""

from __future__ import annotations

#: The exponents k of the positive cells [2^k, 2^(k+1)).
EXPONENTS = range(-20, 64)
#: The smallest number of each cell but the first, in ascending order.
EDGES = (*(-(2.0**power) for power in reversed(EXPONENTS)), *(2.0**power for power in EXPONENTS))
#: The cell of the numbers around zero.
ZERO = len(EXPONENTS)
#: The cell of NULL and NaN.
MISSING = len(EDGES) + 1
#: How many cells there are, with that of missing numbers.
MAGNITUDES = MISSING + 1


def magnitude(number: float) -> int:
    """Return the cell of a number.

    >>> [magnitude(number) - ZERO for number in (0.0, 1.0, -1.5, 2.0)], magnitude(float("nan")) == MISSING
    ([0, 21, -21, 22], True)
    """
    return MISSING if number != number else sum(edge <= number for edge in EDGES)


def magnitude_range(cell: int) -> tuple[float, float]:
    """Return the bounds of a cell of numbers; the outermost cells end at twice their inner bound.

    >>> magnitude_range(ZERO + 21), magnitude_range(MISSING - 1) == (2.0**63, 2.0**64)
    ((1.0, 2.0), True)
    """
    lower = EDGES[cell - 1] if cell else 2 * EDGES[0]
    return lower, EDGES[cell] if cell < len(EDGES) else 2 * EDGES[-1]
