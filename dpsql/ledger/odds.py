"""What an epsilon or a cap means, in the terms of odds, and which ones must be meant.

Whatever an attacker thinks of one person before a release, as odds of what is so against what is not, the release
multiplies these odds by e^epsilon at most. Odds of 1:1 can thus rise to e^epsilon:1.
"""

from __future__ import annotations

import math
import warnings

from dpsql.errors import UsageError
from dpsql.ledger.amount import NANO, format_epsilon

#: Above this nano-epsilon a sentence says what the number means: e^10 turns odds of 1:1 into 22026:1.
NOTED_ABOVE = 10 * NANO
#: Above this nano-epsilon somebody must say that it is meant: e^20 is about half a billion.
MEANT_ABOVE = 20 * NANO
#: From this factor on it is shown as a power of ten.
_WRITTEN_OUT = 10**9


class LargeEpsilonWarning(UserWarning):
    """An epsilon or a cap was set that protects little."""


def odds_text(nano_epsilon: int) -> str:
    """Return by how much odds can rise.

    >>> odds_text(10 * NANO), odds_text(NANO // 2), odds_text(50 * NANO)
    ('from 1:1 to 22026:1', 'from 1:1 to 1.6:1', 'from 1:1 to 5.2e21:1')
    """
    epsilon = nano_epsilon / NANO
    if epsilon > math.log(_WRITTEN_OUT):
        power = epsilon / math.log(10)
        digits = f"{10 ** (power % 1):.1f}"
        return f"from 1:1 to {digits}e{math.floor(power)}:1"
    factor = math.exp(epsilon)
    return f"from 1:1 to {factor:.0f}:1" if factor >= 10 else f"from 1:1 to {factor:.1f}:1"


def note_large(name: str, nano_epsilon: int | None, *, allow_large: bool, table: str = "") -> None:
    """Warn of an epsilon or a cap above 10, and raise UsageError for one above 20 that nobody said is meant."""
    if nano_epsilon is None or nano_epsilon <= NOTED_ABOVE or allow_large:
        return
    given, rise = format_epsilon(nano_epsilon), odds_text(nano_epsilon)
    where = f' on "{table}"' if table else ""
    sentence = f"{name} {given}{where}: an attacker's odds about one person can rise by a factor e^{given}, {rise}."
    if nano_epsilon > MEANT_ABOVE:
        raise UsageError(
            f"{sentence} That is no protection worth the name.",
            hint="a smaller number; if it is meant: --yes (Python: allow_large=True, SQL: allow_large := true)",
        )
    warnings.warn(sentence, LargeEpsilonWarning, stacklevel=4)
