"""Every error dpsql raises, with its exit code and the next step to take.

    DpsqlError                      1  anything that failed for a reason we know
    ├── UsageError                  2  the request itself is wrong
    │   ├── SchemaError             2  a declared schema does not hold together
    │   ├── ParameterError          2  a value outside what is allowed (epsilon, trees, …)
    │   ├── DataError               2  rows in memory that cannot be read as a table (a ValueError too)
    │   └── UnknownName             2  no such table, column, method, model; offers near names
    ├── NoRowsCounted               1  about no row has a declared class: the run stopped at its size
    ├── BudgetError                 3  the ledger says no
    │   ├── BudgetExceeded          3  the cap would be passed
    │   ├── ChargeTooSmall          3  a run costs less than the least that its owner allows
    │   ├── RunsUnfinished          3  too many runs were lost or did not end: the owner must look
    │   ├── ChargedBefore           3  the same call in SQL was charged, and has nothing to return
    │   ├── NotRegistered           3  only registered tables have a budget
    │   ├── NotPrivate              3  an unproven variant on a dataset with a cap
    │   └── LedgerBroken            3  the chain, the sums or the receipt do not agree
    ├── DatabaseError               4  the database is out of reach or refuses
    │   ├── DatabaseLocked          4  another process holds the file
    │   ├── DatabaseReadOnly        4  the file cannot be written
    │   ├── DiskFull                4  there is no room for what must be written
    │   ├── NewerFormat             4  a newer dpsql wrote the database, the receipt or the file
    │   └── TableChanged            4  the table is not as it was registered
    └── QueryFailed                 1  the engine failed on a query; its own words are withheld
        └── RunFailed               1  a charged run failed; one sentence, whatever the cause

Ctrl-C is no error of this tree. `Interrupted` is Python's own KeyboardInterrupt, with what stays charged; the command
line ends with 130 for both, as a shell does for a program that this signal ended.

A message names the thing, what is allowed, what was given instead, and the next step. It never holds a
private value: an engine's own text is replaced, because it can quote a cell.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


class DpsqlError(Exception):
    """The base of all errors: a message, the next step, and an exit code for the command line.

    >>> error = DpsqlError("it failed.", hint="try again")
    >>> print(error)
    it failed.
    Try:   try again
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nTry:   {self.hint}" if self.hint else self.message


class UsageError(DpsqlError):
    """The request cannot be carried out as it was written."""

    exit_code = 2


class SchemaError(UsageError):
    """A declared schema is incomplete, contradictory or does not fit the table's columns.

    Attributes:
        problems: each problem by itself (`dpsql/schema/problems.py`), where several parts were looked at.
    """

    def __init__(self, message: str, *, hint: str | None = None, problems: tuple[Any, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.problems = problems


class ParameterError(UsageError):
    """A parameter is outside what is allowed.

    Attributes:
        name: the parameter; allowed: what it may be, in words; given: the value that came.
    """

    def __init__(self, name: str, *, allowed: str, given: object, hint: str | None = None) -> None:
        shown = repr(given) if isinstance(given, str) else str(given)
        super().__init__(f"{name} must be {allowed}, not {shown[:80]}.", hint=hint)
        self.name = name
        self.allowed = allowed
        self.given = given


class DataError(UsageError, ValueError):
    """Rows in memory cannot be read as a table: what came is named by its kind and shape, never by its cells.

    It is a ValueError too, which is what scikit-learn expects of an estimator that is given unusable rows.
    """


class UnknownName(UsageError):
    """A table, column, method, model or engine that is not known; the nearest known names are offered.

    >>> print(UnknownName("method", "rosnan", ["rosnam", "rdt"]).message)
    there is no method "rosnan". Did you mean "rosnam"?
    """

    def __init__(self, kind: str, name: str, known: Iterable[str] = (), *, hint: str | None = None) -> None:
        self.kind = kind
        self.name = name
        self.known = sorted(known)
        self.nearest = difflib.get_close_matches(name, self.known, n=3, cutoff=0.5)
        message = f'there is no {kind} "{name[:80]}".'
        if self.nearest:
            message += f" Did you mean {_either(self.nearest)}?"
        elif self.known and len(self.known) <= 12:
            message += f" Known: {', '.join(self.known)}."
        super().__init__(message, hint=hint)


class NoRowsCounted(DpsqlError):
    """A run stopped after it had bought the size of its table: about no row would have been counted.

    Attributes:
        noisy_rows, deviation: the released number of rows, and the standard deviation of its noise;
        entry: the ledger entry that paid for it (0 where that is not known); spent, unspent: decimal text.
    """

    def __init__(
        self,
        message: str,
        *,
        noisy_rows: int,
        deviation: float,
        table: str = "TABLE",
        entry: int = 0,
        spent: str = "",
        unspent: str = "0",
    ) -> None:
        again = f"dpsql register --table {shlex.quote(table)} --schema FILE --cap EPSILON --replace"
        super().__init__(message, hint=f"{again}   (FILE with what the rows store)")
        self.noisy_rows = noisy_rows
        self.deviation = deviation
        self.entry = entry
        self.spent = spent
        self.unspent = unspent


class NoRowsWarning(UserWarning):
    """A model was trained, and its released counts say that about no row was counted."""


class BudgetError(DpsqlError):
    """The ledger refuses: nothing was charged and no row was read."""

    exit_code = 3


class BudgetExceeded(BudgetError):
    """A charge would pass a cap.

    Attributes:
        needed, left, cap: decimal text, exact to a billionth; measure: what they measure, epsilon or rho.
    """

    def __init__(
        self, who: str, *, needed: str, left: str, cap: str, measure: str = "epsilon", hint: str | None = None
    ) -> None:
        super().__init__(f"the run needs {measure} {needed}, but {who} has {left} of {cap} left.", hint=hint)
        self.measure = measure
        self.needed = needed
        self.left = left
        self.cap = cap


class ChargeTooSmall(BudgetError):
    """A run would charge less than the least charge of its dataset.

    Attributes:
        needed, least: decimal text, exact to a billionth; measure: what they measure, epsilon or rho.
    """

    def __init__(self, table: str, *, needed: str, least: str, measure: str = "epsilon") -> None:
        super().__init__(
            f'the run would charge {measure} {needed}, but a run on table "{table[:80]}" charges at least {least}.',
            hint="ask for more epsilon; the least charge is the owner's: dpsql budget --table TABLE --least-epsilon E",
        )
        self.measure = measure
        self.needed = needed
        self.least = least


class RunsUnfinished(BudgetError):
    """Too many runs of a dataset were lost, killed or are under way: further ones wait for the owner.

    Attributes:
        table: the dataset's table; lost: how many runs were lost; reserved: how many have not ended;
        limit: from how many such runs on nothing more is charged.
    """

    def __init__(self, table: str, *, lost: int, reserved: int, limit: int, hint: str | None = None) -> None:
        super().__init__(
            f'table "{table[:80]}" waits for its owner: {lost} runs were lost and {reserved} have no end yet; '
            f"from {limit} such runs on nothing more is charged.",
            hint=hint or "let runs under way end; then, as owner: dpsql ledger accept --table TABLE",
        )
        self.table = table
        self.lost = lost
        self.reserved = reserved
        self.limit = limit


class ChargedBefore(BudgetError):
    """The same call in SQL was charged before and has nothing to return; it is not charged again by itself.

    Attributes:
        entry: the ledger entry of the charge.
    """

    def __init__(self, entry: int, *, why: str, hint: str) -> None:
        super().__init__(f"the same call was charged before (entry {entry}), and {why}: the charge stays.", hint=hint)
        self.entry = entry


class NotRegistered(BudgetError):
    """The table has no budget: its owner has not registered it."""

    def __init__(self, table: str, known: Iterable[str] = (), *, hint: str | None = None) -> None:
        self.table = table
        self.known = sorted(known)
        message = f'table "{table[:80]}" is not registered, so it has no budget.'
        nearest = difflib.get_close_matches(table, self.known, n=3, cutoff=0.5)
        if nearest:
            message += f" Did you mean {_either(nearest)}?"
        super().__init__(message, hint=hint or "dpsql register --table TABLE --schema FILE --cap EPSILON")


class NotPrivate(BudgetError):
    """A published variant without a proof was asked for on a dataset that has a cap."""


class LedgerBroken(BudgetError):
    """The ledger's chain, its sums or the receipt outside the file do not agree.

    Attributes:
        findings: one sentence for each thing that does not hold.
    """

    def __init__(self, findings: Iterable[str], *, hint: str | None = None) -> None:
        self.findings = list(findings)
        super().__init__(
            "the ledger does not hold together: " + " ".join(self.findings),
            hint=hint or "dpsql ledger verify",
        )


class DatabaseError(DpsqlError):
    """The database cannot be reached, opened or written."""

    exit_code = 4


class DatabaseLocked(DatabaseError):
    """Another process holds the database file."""


class DatabaseReadOnly(DatabaseError):
    """The database was opened read-only, or its file or folder cannot be written."""


class DiskFull(DatabaseError):
    """There is no room on the disk for what must be written. Nothing was written in part."""


class NewerFormat(DatabaseError):
    """A database or document was written by a newer dpsql, in a format that this one does not know.

    Attributes:
        number: the format that it has; known: the newest one that this dpsql reads.
    """

    def __init__(self, what: str, *, number: int, known: int) -> None:
        self.number = number
        self.known = known
        super().__init__(
            f"{what} was written by a newer dpsql (format {number}; this one knows up to {known}).",
            hint="pip install -U dpsql",
        )


class TableChanged(DatabaseError):
    """The table's columns are no longer those that were registered."""


class QueryFailed(DpsqlError):
    """The engine failed on a query. Its own message is withheld because it can quote a cell.

    Attributes:
        kind: the class of the engine's error, never its text.
    """

    def __init__(self, doing: str, kind: str, *, hint: str | None = None) -> None:
        super().__init__(
            f"the database could not {doing} ({kind}; its message is withheld, it could quote a private value).",
            hint=hint,
        )
        self.kind = kind

    @property
    def out_of_memory(self) -> bool:
        """Whether DuckDB had too little memory."""
        return self.kind == "OutOfMemoryException"


class RunFailed(QueryFailed):
    """A run failed after it was charged. The message is the same for every cause, which can depend on private rows."""

    def __init__(self) -> None:
        DpsqlError.__init__(
            self,
            "the run failed after it was charged, and why is withheld: it could depend on private rows.",
            hint="ask again; if it stays so, the owner finds the cause in the database's own log",
        )
        self.kind = "withheld"


@dataclass(frozen=True)
class ChargeLeft:
    """What an entry of the ledger charged before Ctrl-C came: it stays charged.

    Attributes:
        entry: its number; state: "lost", "released" (that run had ended), or "reserved" where it could not be closed;
        amount: decimal text, exact to a billionth; measure: what it measures, epsilon or rho.
    """

    entry: int
    state: str
    amount: str
    measure: str = "epsilon"

    def __str__(self) -> str:
        return f"{self.measure} {self.amount} stays charged (entry {self.entry}, {self.state})"


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended a call, after the statement that ran was stopped: this says what stays charged.

    Like every KeyboardInterrupt it passes by `except Exception`.

    Attributes:
        charges: each entry of the ledger that the call had charged, with its state; none where nothing was charged.

    >>> print(Interrupted([ChargeLeft(10, "lost", "0.1")]))
    Epsilon 0.1 stays charged (entry 10, lost).
    """

    exit_code = 130

    def __init__(self, charges: Iterable[ChargeLeft]) -> None:
        self.charges = tuple(charges)
        words = "; ".join(map(str, self.charges))
        self.message = f"{words[:1].upper()}{words[1:]}." if words else "Nothing was charged."
        super().__init__(self.message)


def _either(names: list[str]) -> str:
    return " or ".join(f'"{name}"' for name in names)
