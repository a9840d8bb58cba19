"""How much work a search for a strategy may do: the work is counted in multiplications, never by the clock.

The count follows from public sizes alone (cells, questions, features), so that the same request searches equally far on
a fast machine, a slow one and a busy one. A dry run therefore shows the plan that the run will have.
"""

from __future__ import annotations

import math

#: Multiplications in one unit of effort: a usual machine does them in a tenth to half of a second.
PER_UNIT = 10**9
#: What one addition or multiplication outside a matrix product costs, in multiplications inside one.
SCATTERED = 8


class Effort:
    """What is left of the work that a search may do.

    >>> effort = Effort(1)
    >>> effort.spend(PER_UNIT - 1)
    >>> effort.allows(1), effort.allows(2)
    (True, False)
    """

    def __init__(self, units: float = math.inf) -> None:
        self._left = units * PER_UNIT

    def spend(self, multiplications: int) -> None:
        """Take work from what is left, whether it was allowed or not."""
        self._left -= multiplications

    def allows(self, multiplications: int = 1) -> bool:
        """Whether at least this much work is left."""
        return self._left >= multiplications
