"""What the fits of a scikit-learn style front have cost: a ledger in memory that the front and its clones share.

Each `fit(X, y)` trains in a database in memory of its own, whose ledger is charged before a row is read. When it ends,
with or without a model, its entries come here. A front cannot know whether two fits saw the same rows, so all are added
up as if they had: what the sum says is an upper bound of what any row has lost.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import pandas as pd

from dpsql.errors import BudgetExceeded, UsageError
from dpsql.ledger import Budget, odds
from dpsql.ledger.amount import format_epsilon
from dpsql.ledger.budget import left_of

#: What a budget of fits is called where that of a table has the table's name.
NAME = "all fits"


class FitLedger:
    """The entries of all fits, and their sum in nano-epsilon. Copies in memory are the same ledger.

    A ledger that was pickled is a copy which others do not see: it keeps what it knows, and `is_copy` says so. The one
    that it was copied of does not see the copy's fits: `has_copies` says that it went with an estimator to be fitted.
    """

    def __init__(self) -> None:
        self.spent = 0
        self.is_copy = False
        self.has_copies = False
        self._entries: list[pd.DataFrame] = []
        self._lock = threading.Lock()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {"spent": self.spent, "is_copy": True, "has_copies": False, "_entries": list(self._entries)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def budget(self, cap: int | None) -> Budget:
        """Return what is spent and left under a cap in nano-epsilon, as a table's budget is shown."""
        return Budget(NAME, NAME, "pure", cap=cap, spent_on_table=self.spent, spent=self.spent)

    def entries(self) -> pd.DataFrame:
        """Return the entries of all fits in their order, the number of the fit first."""
        if not self._entries:
            return pd.DataFrame()
        numbered = [entries.assign(fit=number) for number, entries in enumerate(self._entries, start=1)]
        table = pd.concat(numbered, ignore_index=True)
        return table[["fit", *(name for name in table.columns if name != "fit")]]

    @contextmanager
    def charge(self, nano_epsilon: int, cap: int | None) -> Iterator[Callable[[int, pd.DataFrame], None]]:
        """Charge a fit, or refuse it, before it begins. One fit runs at a time, so that two cannot take the same rest.

        The block calls what it is given with what the ledger of its own database says in the end: the nano-epsilon
        that it charged, and its entries. As long as it does not, all that it asked for stays charged.
        """
        with self._lock:
            self._check(nano_epsilon, cap)
            before, self.spent = self.spent, self.spent + nano_epsilon

            def settle(charged: int, entries: pd.DataFrame) -> None:
                self.spent = before + charged
                self._entries.append(entries)

            try:
                yield settle
            finally:
                if before <= odds.NOTED_ABOVE < self.spent:
                    _note(self.spent)

    def _check(self, nano_epsilon: int, cap: int | None) -> None:
        if cap is None:
            return
        if self.is_copy:
            raise UsageError(
                "this estimator was pickled, and its cap cannot count what the original and other copies spend.",
                hint="one process (n_jobs=None, or joblib's threading backend); or a new estimator",
            )
        if nano_epsilon > (left_of(cap, self.spent) or 0):
            needed, left, most = map(format_epsilon, (nano_epsilon, left_of(cap, self.spent) or 0, cap))
            hint = "a smaller epsilon or a larger cap; fits of clones count too"
            raise BudgetExceeded("this estimator with its clones", needed=needed, left=left, cap=most, hint=hint)


def _note(spent: int) -> None:
    """Say once that the sum of all fits protects little."""
    total = format_epsilon(spent)
    warnings.warn(
        f"the fits of this estimator and its clones add up to epsilon {total}: an attacker's odds about one person can "
        f"rise by a factor e^{total}, {odds.odds_text(spent)}. dpsql.search_cost says before a search what it costs.",
        odds.LargeEpsilonWarning,
        stacklevel=5,
    )
