"""What a released model learned: feature importance and class profiles, from released values alone, free of charge.

Nothing here reads a table. A model's forest, its schema and what its certificate holds are released or public already;
whatever is worked out from them is post-processing and costs no epsilon.
"""

from __future__ import annotations

from dpsql.models.explain.explanation import explain_model
from dpsql.models.explain.explanation_text import TOP
from dpsql.models.explain.explanation_values import ClassProfile, Effect, Group, Learned, Reason
from dpsql.models.explain.picture import PANELS
from dpsql.models.explain.row_contributions import Contribution, RowExplanation, explain_one_row

__all__ = [
    "PANELS",
    "TOP",
    "ClassProfile",
    "Contribution",
    "Effect",
    "Group",
    "Learned",
    "Reason",
    "RowExplanation",
    "explain_model",
    "explain_one_row",
]
