"""How good a model is likely to be, as text: what its own counts suggest, and what it costs to know."""

from __future__ import annotations

import shlex

from dpsql.models.noisy_figures import Estimate
from dpsql.runs.likely_quality import EvaluationOffer


def quality_sentences(own: Estimate | None, offer: EvaluationOffer | None) -> list[str]:
    """Return what is known of a model that was not measured.

    >>> offer = EvaluationOffer("t:holdout", "0.1", 0.021, "2.9", True)
    >>> print(*quality_sentences(Estimate(0.84, 0.83, 0.85), offer), sep="\\n")
    Likely: its own noisy counts suggest an accuracy of 84 % (83 to 85 %), optimistic: it learned from these rows.
    To know: epsilon 0.1 of "t:holdout" (2.9 left) for the accuracy to about ± 2.1 points.
    """
    sentences = []
    if own is not None:
        ends = f"{100 * own.low:.0f} to {100 * own.high:.0f} %"
        words = f"an accuracy of {100 * own.value:.0f} % ({ends})"
        sentences.append(f"Likely: its own noisy counts suggest {words}, optimistic: it learned from these rows.")
    if offer is not None:
        left = "" if offer.left is None else f" ({offer.left} left)"
        reach = "an evaluation" if offer.reach is None else f"the accuracy to about ± {100 * offer.reach:.1f} points"
        rows = "" if offer.is_hold_out else "; these rows are those that it learned from, so it is optimistic"
        sentences.append(f'To know: epsilon {offer.epsilon} of "{offer.table}"{left} for {reach}{rows}.')
    return sentences


def offer_command(offer: EvaluationOffer, words: str, model: str, table: str) -> str:
    """Return the command that measures a model as offered.

    >>> offer_command(EvaluationOffer("t:holdout", "0.1", 0.021, "2.9", True), "--db a.duckdb", "m 1", "t")
    "dpsql evaluate --db a.duckdb --model 'm 1' --table t --epsilon 0.1"
    """
    named = f"--model {shlex.quote(model)} --table {shlex.quote(table)}"
    return f"dpsql evaluate {words} {named} --epsilon {offer.epsilon}"
