"""How much work a search for a strategy may do: counted in multiplications, never by the clock.

The count follows from public sizes alone (cells, questions, features), so that the same request searches equally far on
a fast machine, a slow one and a busy one: what a dry run shows is the plan.
"""

from __future__ import annotations

import math

#: Multiplications of one unit of effort: a usual machine does them in a tenth to half of a second.
PER_UNIT = 10**9
#: A number that is added or multiplied outside a product of matrices takes about as long as so many within one.
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
        """Count work that is done now, whether it was allowed or not."""
        self._left -= multiplications

    def allows(self, multiplications: int = 1) -> bool:
        """Whether so much work is left."""
        return self._left >= multiplications
