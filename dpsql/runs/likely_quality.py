"""Says how good a model is likely to be, and what it would cost to know, from released values and public facts alone.

The last step of `auto` releases noisy counts of how the model scores the very rows that it learned from, to make its
probabilities right. The share of these rows that it labels right follows for free. It is too high, as such figures
always are: on tables with ten thousand rows and more by up to a point, on small ones by several
(`docs/how-to/evaluate.md`). It is said with its interval, and only where that is narrow enough to say anything.

How wide the interval of a charged evaluation will be follows from the number of rows, as far as it was released or
declared, and from the noise that an epsilon buys.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsql.kernel.datasets.dataset import Dataset, hold_out_of
from dpsql.kernel.plan import NANO
from dpsql.ledger import Ledger, format_epsilon, parse_epsilon
from dpsql.methods.auto.objectives import BALANCED
from dpsql.models.model import ReleasedModel
from dpsql.models.noisy_figures import INTERVAL_DEVIATIONS, Estimate, mean_ratio, noise_variance
from dpsql.trees.score_grid import LOWER, POINTS, ScoreGrid

#: What is offered: the smallest that is worth it, of what the budget can pay.
OFFERS = ("0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1")
#: An offer is worth it where its interval is at most so many times as wide as without any noise …
WORTH = 1.25
#: … or reaches at most this far to either side.
NARROW = 0.01
#: An offer whose interval reaches further to either side is not made.
WIDE = 0.1
#: A model's own accuracy is said where its interval reaches at most this far to either side.
CLEAR = 0.05
#: The accuracy that is assumed where none is known: what lies nearer to 1/2 has a wider interval.
ASSUMED = 0.8


@dataclass(frozen=True)
class EvaluationOffer:
    """What an evaluation would cost and tell: the dataset that pays, its epsilon, how far the interval would reach.

    `reach` is None where the number of rows is not known. `left` is what the dataset has left, None without a cap.
    """

    table: str
    epsilon: str
    reach: float | None
    left: str | None
    is_hold_out: bool


def own_accuracy(model: ReleasedModel) -> Estimate | None:
    """Return the share of its own training rows that a model labels right, as far as its released counts tell.

    None where the method released no such counts, or they say too little. It is too high for other rows.
    """
    facts: Mapping[str, Any] = model.certificate.get("facts", {})
    released = facts.get("calibration")
    if not isinstance(released, Mapping) or facts.get("objective") == BALANCED:
        return None
    counts = np.array(released["counts"], np.float64).ravel()
    upper = np.arange(len(POINTS)) >= len(LOWER)
    right = np.concatenate([~upper, upper] if len(model.classes) == 2 else [0 * upper, 0 * upper + 1])
    estimate = mean_ratio(counts, right.astype(float)[None], np.ones((1, len(counts))), released["deviation"] ** 2)
    is_clear = not math.isnan(estimate.value) and estimate.high - estimate.low <= 2 * CLEAR
    return estimate if is_clear else None


def offer_evaluation(ledger: Ledger, model: ReleasedModel, dataset: Dataset, *, who: str) -> EvaluationOffer | None:
    """Return the evaluation that tells how good a model is for little epsilon; None where the budget pays for none."""
    if model.schema.target is not None or not model.certificate.get("private", True):
        return None
    hold_out = hold_out_of(ledger, dataset)
    measured = dataset if hold_out is None else hold_out
    budget = ledger.budget(measured.payer)
    left = budget.left_for(who)
    offers = [
        nano for nano in map(parse_epsilon, OFFERS) if nano >= budget.least_charge and (left is None or nano <= left)
    ]
    if not offers:
        return None
    rows = _rows_of(model, dataset)
    if rows is not None and dataset.hold_out is not None and hold_out is not None:
        rows *= dataset.hold_out.share / (10_000 - dataset.hold_out.share)
    accuracy = own_accuracy(model)
    share = ASSUMED if accuracy is None else accuracy.value
    unit = model.schema.unit.max_rows
    left_text = None if left is None else format_epsilon(left)
    if not rows:
        usual = offers[min(len(offers) // 2, len(offers) - 1)]
        return EvaluationOffer(measured.table, format_epsilon(usual), None, left_text, hold_out is not None)
    reaches = {nano: _reach(rows, share, len(model.classes), nano / NANO / unit) for nano in offers}
    best = next((nano for nano in offers if _is_worth(reaches[nano], rows, share)), offers[-1])
    if reaches[best] > WIDE:
        return None
    return EvaluationOffer(measured.table, format_epsilon(best), reaches[best], left_text, hold_out is not None)


def _rows_of(model: ReleasedModel, dataset: Dataset) -> float | None:
    """Return about how many rows a model was trained on: released with it, or declared; None where nobody said."""
    classes = model.certificate.get("facts", {}).get("classes")
    if isinstance(classes, Mapping):
        return max(float(sum(classes.values())), 0.0)
    size = model.certificate.get("size", {}).get("noisy_rows") or dataset.schema.rows
    return None if size is None else float(size)


def _is_worth(reach: float, rows: float, share: float) -> bool:
    return reach <= max(NARROW, WORTH * INTERVAL_DEVIATIONS * math.sqrt(share * (1 - share) / rows))


def _reach(rows: float, share: float, classes: int, epsilon: float) -> float:
    """Return how far the 95 % interval of an accuracy reaches to either side, by noise and by chance.

    >>> round(_reach(3000, 0.85, 2, 0.5), 4), round(_reach(3000, 0.85, 2, 0.05), 4)
    (0.0151, 0.0823)
    """
    grid = ScoreGrid(classes)
    cells = dict(grid.histograms)
    wrong, right = (len(POINTS), len(POINTS)) if classes == 2 else (cells["confusion"] - classes, classes)
    if classes > 2 and cells["confusion"] > cells["confidence"]:
        wrong, right = len(POINTS), len(POINTS)
    noise = noise_variance(len(grid.histograms) / epsilon) * (right * (1 - share) ** 2 + wrong * share**2) / rows**2
    return INTERVAL_DEVIATIONS * math.sqrt(share * (1 - share) / rows + noise)
