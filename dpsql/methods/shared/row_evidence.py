"""What released numbers say of how many rows were counted at all: about none, or not.

Everything here looks at released values and public ones alone, so that it is post-processing.
"""

from __future__ import annotations

from dpsql.errors import NoRowsCounted
from dpsql.kernel.session import Session
from dpsql.schema import Schema

#: A noisy size below this many rows, and within `_DEVIATIONS` of zero, is taken for none.
FEW_ROWS = 30
#: How many standard deviations of the noise a number must be from zero to count as more than zero.
_DEVIATIONS = 3
#: Where no size is declared, a count this small is far below what anybody would train on.
_TOO_FEW = 100
#: The share of a declared size that even a noisy count with its noise added must stay below.
DECLARED_SHARE = 0.5


def about_no_rows(noisy_rows: float, deviation: float) -> bool:
    """Whether a noisy number of rows is no evidence that there are any: few, and within its noise of zero.

    At a deviation of 47, 12 rows are no evidence and 45,000 are; at a deviation of 0.5, 12 rows are one.
    """
    return noisy_rows < FEW_ROWS and noisy_rows < _DEVIATIONS * deviation


def surely_no_rows(noisy_rows: float, deviation: float, *, declared: int | None) -> bool:
    """Whether a noisy count is no evidence of rows, and far below what was expected even with its noise added.

    Where a size is declared it need not be small, so that noise does not hide most runs on no rows: at a deviation of
    128, 40 rows of a declared 3000 are surely none, and at one of 4000, 40 of 5,000 may be many. Where half of the
    declared rows are there, noise must be three standard deviations too low for this to be true.
    """
    highest = noisy_rows + _DEVIATIONS * deviation
    if declared is None:
        return about_no_rows(noisy_rows, deviation) and highest < _TOO_FEW
    return noisy_rows < _DEVIATIONS * deviation and highest < declared * DECLARED_SHARE


def likely_reasons(schema: Schema, *, label_type: str = "", rows: str = "table") -> str:
    """Return why no row may have been counted, most likely first, of what the catalog leaves possible.

    `label_type` is the database's type of the label ("" where it is not known), and `rows` what was counted.
    """
    reasons = [_reason_of_words(schema, label_type.upper()), "the label is NULL"]
    if schema.unit.column is not None:
        reasons.append(f'the unit\'s column "{schema.unit.column}" is NULL')
    reasons.append(f"the {rows} has no rows")
    return f"Likely reasons: {'; '.join(reason for reason in reasons if reason)}."


def _reason_of_words(schema: Schema, label_type: str) -> str:
    """Return why the classes may be none of the texts that rows store, "" where the label's type rules that out."""
    if schema.target is not None:
        return ""
    texts = {*schema.classes, *(text for text, _ in schema.class_synonyms)}
    if label_type in ("BOOLEAN", "BOOL"):
        words = "the label is BOOLEAN and the classes are words"
        return (
            words
            if not texts & {"true", "false"}
            else ""
            if {"true", "false"} <= texts
            else "the label has the other value"
        )
    if label_type.startswith("ENUM"):
        return "the rows store other values of the label's ENUM than the classes"
    if "INT" in label_type and "INTERVAL" not in label_type:
        return "the rows store other codes than the classes"
    if label_type == "DATE":
        return "the rows store other days than the classes"
    return "the classes are spelled otherwise than the rows store them, in letter case too"


def bought_rows(session: Session, step: str = "size") -> int:
    """Return the noisy number of rows that a step of a run's own plan buys.

    With a delta all steps share one charge. Where the number says that there are about no rows, the run stops all the
    same: it would only make a model of noise.
    """
    noisy_rows, deviation = session.size(step), session.deviation(step)
    if session.plan.promise.approximate is not None and about_no_rows(noisy_rows, deviation):
        rows = "table" if session.schema.batch is None else "table, or its batch,"
        raise NoRowsCounted(
            f"about no row can be counted: the noisy number of rows with a declared label is {noisy_rows} (standard "
            f"deviation {deviation:.3g}). With a delta all steps are one charge, so the whole charge stays. "
            f"{likely_reasons(session.schema, rows=rows)}",
            noisy_rows=noisy_rows,
            deviation=deviation,
        )
    return noisy_rows
