"""What released numbers say of how many rows were counted at all: about none, or not.

Everything here looks at released values and public ones alone, so that it is post-processing.
"""

from __future__ import annotations

from dpsql.errors import NoRowsCounted
from dpsql.kernel.session import Session

#: A noisy size below this many rows, and within `_DEVIATIONS` of zero, is taken for none.
FEW_ROWS = 30
#: How many standard deviations of the noise a number must be from zero to count as more than zero.
_DEVIATIONS = 3
#: Why no row may have been counted, most likely first.
LIKELY_REASONS = (
    "Likely reasons: the classes are spelled otherwise than the rows store them, in letter case too; the label is "
    "BOOLEAN and the classes are words; the unit's column is NULL; the table, its batch or its condition has no rows."
)


def about_no_rows(noisy_rows: float, deviation: float) -> bool:
    """Whether a noisy number of rows is no evidence that there are any: few, and within its noise of zero.

    At a deviation of 47, 12 rows are no evidence and 45,000 are; at a deviation of 0.5, 12 rows are one.
    """
    return noisy_rows < FEW_ROWS and noisy_rows < _DEVIATIONS * deviation


def surely_no_rows(noisy_rows: float, deviation: float, *, expected: float) -> bool:
    """Whether a noisy count says "about no rows", and is far below what was expected even with its noise added.

    At a deviation of 40, 12 rows of an expected 45,000 are surely none; at one of 4000, 12 of 100 may be many.
    """
    return about_no_rows(noisy_rows, deviation) and noisy_rows + _DEVIATIONS * deviation < expected / 10


def bought_rows(session: Session, step: str = "size") -> int:
    """Return the noisy number of rows that a step of a run's own plan buys.

    With a delta all steps share one charge. Where the number says that there are about no rows, the run stops all the
    same: it would only make a model of noise.
    """
    noisy_rows, deviation = session.size(step), session.deviation(step)
    if session.plan.promise.approximate is not None and about_no_rows(noisy_rows, deviation):
        raise NoRowsCounted(
            f"about no row can be counted: the noisy number of rows with a declared label is {noisy_rows} (standard "
            f"deviation {deviation:.3g}). With a delta all steps are one charge, so the whole charge stays. "
            f"{LIKELY_REASONS}",
            noisy_rows=noisy_rows,
            deviation=deviation,
        )
    return noisy_rows
